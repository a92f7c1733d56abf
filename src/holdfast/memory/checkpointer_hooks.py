"""What a checkpointer backend implements. Callers use :class:`BaseCheckpointer`, which builds on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.capabilities import Declared
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import Closed, Unsupported
from holdfast.memory import validate
from holdfast.memory.records import Checkpoint, CheckpointerStats, CheckpointInfo, Page, PendingWrite
from holdfast.memory.requests import PruneRequest, SaveRequest, ThreadDump


@dataclass(frozen=True, slots=True)
class CheckpointerCapabilities(Declared):
    """What a checkpointer can do. Declared by the backend, never guessed; what is not declared raises."""

    search: bool = False
    metadata_query: bool = False
    vacuum: bool = False
    branching: bool = False
    ttl: bool = False
    list_threads: bool = False
    list_with_metadata: bool = False
    persistent_checkpoint_ids: bool = False
    compare_and_set: bool = False
    pending_writes: bool = False
    scopes: bool = False
    shared_forks: bool = False
    retention: bool = False
    export: bool = False


class Lifetime:
    """Shared by an object and its scoped views: closing closes them all."""

    __slots__ = ("closed",)

    def __init__(self) -> None:
        self.closed = False


class CheckpointerHooks:
    """The hooks, and what every hook may use: the clock, the scope, whether the object is open."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, ttl_seconds: float | None = None) -> None:
        if ttl_seconds is not None:
            validate.positive_number(ttl_seconds, "ttl_seconds")
        self._clock = clock
        self._ttl_us = None if ttl_seconds is None else validate.microseconds(ttl_seconds)

    # A third party's subclass need not call __init__: these are the defaults.
    _clock: Clock = SYSTEM_CLOCK
    _ttl_us: int | None = None
    _scope: str | None = None
    _is_view = False
    _shared_lifetime: Lifetime | None = None

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """What this backend can do."""
        return CheckpointerCapabilities()

    @property
    def _lifetime(self) -> Lifetime:
        if self._shared_lifetime is None:
            self._shared_lifetime = Lifetime()
        return self._shared_lifetime

    def _check(self, capability: str | None = None) -> None:
        """Open, and able to do that."""
        lifetime = self._shared_lifetime
        if lifetime is not None and lifetime.closed:
            raise Closed(f"{type(self).__name__} is closed")
        if capability is not None and not getattr(self.capabilities, capability):
            raise Unsupported(f"{type(self).__name__} does not declare the capability '{capability}'")

    # ── hooks: arguments are valid, the scope is self._scope ──────────────────────────────────────

    async def _save(self, request: SaveRequest) -> str:
        raise self._missing("save")

    async def _read(self, thread_id: str, checkpoint_id: str | None) -> Checkpoint | None:
        raise self._missing("get")

    async def _info(self, thread_id: str, checkpoint_id: str | None) -> CheckpointInfo | None:
        raise self._missing("head")

    async def _history(self, thread_id: str, limit: int, before: int | None) -> list[CheckpointInfo]:
        """Newest first, with a sequence below ``before``."""
        raise self._missing("history")

    async def _infos(
        self, limit: int, after: str | None, where: tuple[str, Any] | None
    ) -> Page[CheckpointInfo]:
        raise self._missing("list_with_metadata")

    async def _delete(self, thread_id: str, checkpoint_id: str | None) -> bool:
        raise self._missing("delete")

    async def _put_writes(
        self, thread_id: str, checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]]
    ) -> None:
        raise self._missing("put_writes")

    async def _get_writes(
        self, thread_id: str, checkpoint_id: str | None, task_id: str | None
    ) -> list[PendingWrite]:
        raise self._missing("get_writes")

    async def _search(self, query: str, limit: int) -> list[dict[str, Any]]:
        raise self._missing("search")

    async def _threads(self, limit: int, pattern: str, after: str | None) -> Page[str]:
        raise self._missing("list_threads")

    async def _fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> str | None:
        """The new head's id, or ``None`` if there is no such checkpoint."""
        raise self._missing("fork")

    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        raise self._missing("prune")

    async def _dump(self, thread_id: str) -> ThreadDump | None:
        raise self._missing("export_threads")

    async def _restore(self, dump: ThreadDump) -> None:
        """:class:`Conflict` if the thread exists."""
        raise self._missing("import_threads")

    async def _stats(self) -> CheckpointerStats:
        raise self._missing("stats")

    async def _scopes(self) -> list[str | None]:
        """Every scope that has a thread, the default one as ``None``."""
        raise self._missing("admin")

    async def _delete_scope(self) -> int:
        raise self._missing("delete_scope")

    async def _close(self) -> None:
        """Called once."""

    def _missing(self, method: str) -> Unsupported:
        return Unsupported(f"{type(self).__name__} does not implement {method}()")
