"""The versioned saver: general dict checkpoints with explicit ids, parents and namespaces."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import Closed, InvalidInput
from holdfast.memory import validate
from holdfast.memory.blocking import blocking


class BaseCheckpointSaver:
    """Versioned dict checkpoints. Methods are keyword-only coroutines; hooks implement them.

    A thread has any number of namespaces, each with its own history; the empty one is a namespace like any other.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._closed = False

    async def put(
        self,
        *,
        thread_id: str,
        checkpoint_id: str,
        checkpoint_data: Mapping[str, Any],
        checkpoint_ns: str = "default",
        parent_checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append a checkpoint. A repeated id is :class:`Conflict`."""
        place = self._place(thread_id, checkpoint_ns)
        if not isinstance(checkpoint_data, Mapping):
            raise InvalidInput(f"checkpoint_data must be a mapping, got {type(checkpoint_data).__name__}")
        await self._put(
            place,
            validate.identifier(checkpoint_id, "checkpoint_id"),
            checkpoint_data,
            validate.optional_identifier(parent_checkpoint_id, "parent_checkpoint_id"),
            validate.metadata(metadata),
        )

    async def get(
        self, *, thread_id: str, checkpoint_id: str | None = None, checkpoint_ns: str = "default"
    ) -> dict[str, Any] | None:
        """The newest checkpoint, or that one, with its id and parent's id, metadata and time (ISO text)."""
        place = self._place(thread_id, checkpoint_ns)
        return await self._get(place, validate.optional_identifier(checkpoint_id, "checkpoint_id"))

    async def list_checkpoints(
        self, *, thread_id: str, checkpoint_ns: str = "default", limit: int = 10, before: str | None = None
    ) -> list[dict[str, Any]]:
        """Checkpoints newest first, with ``before`` only those older than that one."""
        place = self._place(thread_id, checkpoint_ns)
        before = validate.optional_identifier(before, "before")
        return await self._list(place, validate.limit(limit), before)

    async def put_writes(
        self,
        *,
        thread_id: str,
        checkpoint_id: str,
        task_id: str,
        writes: Sequence[tuple[str, Any]],
        checkpoint_ns: str = "default",
    ) -> None:
        """Replace a task's pending writes at a checkpoint, atomically. :class:`Conflict` if there is none."""
        place = self._place(thread_id, checkpoint_ns)
        checkpoint_id = validate.identifier(checkpoint_id, "checkpoint_id")
        await self._put_writes(
            place, checkpoint_id, validate.identifier(task_id, "task_id"), validate.writes(writes)
        )

    async def get_writes(
        self,
        *,
        thread_id: str,
        checkpoint_id: str,
        checkpoint_ns: str = "default",
        task_id: str | None = None,
    ) -> list[dict[str, Any]]:
        """Pending writes as ``task_id, idx, channel, value``, ordered by task and index."""
        place = self._place(thread_id, checkpoint_ns)
        checkpoint_id = validate.identifier(checkpoint_id, "checkpoint_id")
        return await self._get_writes(place, checkpoint_id, validate.optional_identifier(task_id, "task_id"))

    async def delete_thread(self, thread_id: str) -> bool:
        """Delete the thread in all its namespaces. ``False``: there was none."""
        self._check()
        return await self._delete_thread(validate.identifier(thread_id, "thread_id"))

    async def close(self) -> None:
        """Release everything. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def _check(self) -> None:
        if self._closed:
            raise Closed(f"{type(self).__name__} is closed")

    def _place(self, thread_id: object, checkpoint_ns: object) -> tuple[str, str]:
        self._check()
        if checkpoint_ns != "":
            validate.identifier(checkpoint_ns, "checkpoint_ns")
        return validate.identifier(thread_id, "thread_id"), str(checkpoint_ns)

    # ── hooks: arguments are valid; a place is (thread id, namespace) ─────────────────────────────

    async def _put(
        self,
        place: tuple[str, str],
        checkpoint_id: str,
        data: Mapping[str, Any],
        parent_id: str | None,
        metadata: dict[str, Any],
    ) -> None:
        raise NotImplementedError

    async def _get(self, place: tuple[str, str], checkpoint_id: str | None) -> dict[str, Any] | None:
        raise NotImplementedError

    async def _list(self, place: tuple[str, str], limit: int, before: str | None) -> list[dict[str, Any]]:
        raise NotImplementedError

    async def _put_writes(
        self, place: tuple[str, str], checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]]
    ) -> None:
        raise NotImplementedError

    async def _get_writes(
        self, place: tuple[str, str], checkpoint_id: str, task_id: str | None
    ) -> list[dict[str, Any]]:
        raise NotImplementedError

    async def _delete_thread(self, thread_id: str) -> bool:
        raise NotImplementedError

    async def _close(self) -> None:
        """Called once."""


class SyncCheckpointSaver:
    """Every method of :class:`BaseCheckpointSaver`, blocking."""

    def __init__(self, inner: BaseCheckpointSaver) -> None:
        self._inner = inner

    put = blocking(BaseCheckpointSaver.put)
    get = blocking(BaseCheckpointSaver.get)
    list_checkpoints = blocking(BaseCheckpointSaver.list_checkpoints)
    put_writes = blocking(BaseCheckpointSaver.put_writes)
    get_writes = blocking(BaseCheckpointSaver.get_writes)
    delete_thread = blocking(BaseCheckpointSaver.delete_thread)
    close = blocking(BaseCheckpointSaver.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
