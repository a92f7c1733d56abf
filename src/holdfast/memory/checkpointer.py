"""The Checkpointer contract: one conversation's state as versioned checkpoints.

Public methods check their arguments and are final for our own backends, which implement the hooks of
`checkpointer_hooks`. A third party may instead override just ``save``, ``load`` and ``list_checkpoints``.
"""

import copy
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.state import AgentState
from holdfast.core.unset import UNSET, UnsetType
from holdfast.memory import transfer, validate
from holdfast.memory.checkpointer_hooks import CheckpointerCapabilities, CheckpointerHooks
from holdfast.memory.cursors import decode_numbers, encode_cursor
from holdfast.memory.diff import diff_checkpoints
from holdfast.memory.records import (
    Checkpoint,
    CheckpointDiff,
    CheckpointerStats,
    CheckpointInfo,
    ImportReport,
    Page,
    PendingWrite,
    PruneReport,
)
from holdfast.memory.requests import PruneRequest, SaveRequest, ThreadDump

if TYPE_CHECKING:
    from holdfast.memory.admin import CheckpointerAdmin

SECONDS_A_DAY = 86_400

__all__ = ["BaseCheckpointer", "CheckpointerCapabilities"]


class BaseCheckpointer(CheckpointerHooks):
    """Versioned state of many threads. All methods are coroutines; see the table in docs/reference/checkpointer.md."""

    # ── saving and loading ────────────────────────────────────────────────────────────────────────

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        parent: str | UnsetType | None = UNSET,
    ) -> str:
        """Append a checkpoint and return its id. It becomes the thread's head.

        ``parent`` makes it a compare-and-set: the head must be that checkpoint (``None``: the thread must not
        exist), else :class:`Conflict` and nothing is written. Such a save takes over the pending writes of its
        parent: they are removed in the same transaction. A repeated ``checkpoint_id`` with equal content and
        parent returns that id, so a save whose answer was lost can be repeated; anything else is `Conflict`.
        """
        self._check("compare_and_set" if parent is not UNSET else None)
        if not isinstance(state, AgentState):
            raise InvalidInput(f"state must be an AgentState, got {type(state).__name__}")
        request = SaveRequest(
            validate.identifier(thread_id, "thread_id"),
            state,
            None if checkpoint_id is None else validate.identifier(checkpoint_id, "checkpoint_id"),
            {} if metadata is None else validate.metadata(metadata),
            parent if parent is None or parent is UNSET else validate.identifier(parent, "parent"),
            self._clock.now_us(),
        )
        return await self._save(request)

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        """The state at the head, or at that checkpoint. ``None`` only if it doesn't exist."""
        checkpoint = await self.get(thread_id, checkpoint_id)
        return None if checkpoint is None else checkpoint.state

    async def get(self, thread_id: str, checkpoint_id: str | None = None) -> Checkpoint | None:
        """The head, or that checkpoint, with its state."""
        self._check()
        return await self._read(*_place(thread_id, checkpoint_id))

    async def head(self, thread_id: str) -> CheckpointInfo | None:
        """The newest checkpoint of the thread, without its state: what to pass as ``parent=``."""
        self._check()
        return await self._info(*_place(thread_id, None))

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Whether the thread, or that checkpoint of it, exists."""
        if type(self)._info is BaseCheckpointer._info:  # a third party's subclass
            return await self.load(thread_id, checkpoint_id) is not None
        self._check()
        return await self._info(*_place(thread_id, checkpoint_id)) is not None

    async def list_checkpoints(
        self, thread_id: str, limit: int = 10, *, after: str | None = None
    ) -> Page[str]:
        """Ids of the thread's checkpoints, newest first, by sequence."""
        page = await self.history(thread_id, limit, after=after)
        return Page([info.checkpoint_id for info in page], page.next)

    async def history(
        self, thread_id: str, limit: int = 10, *, after: str | None = None
    ) -> Page[CheckpointInfo]:
        """The thread's checkpoints with their metadata, newest first; no state is read."""
        self._check()
        thread_id, limit = validate.identifier(thread_id, "thread_id"), validate.limit(limit)
        before = None if after is None else decode_numbers(after, "history", 1)[0]
        infos = await self._history(thread_id, limit + 1, before) if limit else []
        more = len(infos) > limit
        infos = infos[:limit]
        return Page(infos, encode_cursor("history", infos[-1].sequence) if more else None)

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete the thread with all that belongs to it, or one checkpoint. ``False``: it did not exist.

        A deleted head uncovers the newest checkpoint before it. What a fork inherited stays in the fork.
        """
        self._check()
        return await self._delete(*_place(thread_id, checkpoint_id))

    # ── pending writes ────────────────────────────────────────────────────────────────────────────

    async def put_writes(
        self, thread_id: str, checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]]
    ) -> None:
        """Replace the pending writes of one task at a checkpoint by ``(channel, value)`` pairs, atomically.

        :class:`Conflict` if that checkpoint doesn't exist (any more).
        """
        self._check("pending_writes")
        place = (
            validate.identifier(thread_id, "thread_id"),
            validate.identifier(checkpoint_id, "checkpoint_id"),
        )
        await self._put_writes(*place, validate.identifier(task_id, "task_id"), validate.writes(writes))

    async def get_writes(
        self, thread_id: str, checkpoint_id: str | None = None, task_id: str | None = None
    ) -> list[PendingWrite]:
        """Pending writes at the head or that checkpoint, ordered by ``(task_id, idx)``."""
        self._check("pending_writes")
        return await self._get_writes(
            *_place(thread_id, checkpoint_id), validate.optional_identifier(task_id, "task_id")
        )

    # ── finding ───────────────────────────────────────────────────────────────────────────────────

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Messages that have words of the query, best first: ``thread_id, checkpoint_id, score, snippet``.

        One hit per thread and message; ``checkpoint_id`` is the first checkpoint of the thread that has it.
        """
        self._check("search")
        query, limit = validate.text(query, "query"), validate.limit(limit)
        return await self._search(query, limit) if limit else []

    async def query_by_metadata(
        self, key: str, value: Any, limit: int = 100, *, after: str | None = None
    ) -> Page[dict[str, Any]]:
        """Checkpoints whose metadata has exactly that value (and type) under that key."""
        self._check("metadata_query")
        validate.metadata({validate.text(key, "key"): value}, "value")
        return await self._page_of_infos(limit, after, (key, value))

    async def get_metadata(self, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any] | None:
        """The metadata of the head or of that checkpoint."""
        self._check("metadata_query")
        info = await self._info(*_place(thread_id, checkpoint_id))
        return None if info is None else info.metadata

    async def list_with_metadata(self, limit: int = 100, *, after: str | None = None) -> Page[dict[str, Any]]:
        """All checkpoints with metadata: threads last saved first, the newest checkpoint of each first."""
        self._check("list_with_metadata")
        return await self._page_of_infos(limit, after, None)

    async def list_threads(
        self, limit: int = 100, pattern: str = "*", *, after: str | None = None
    ) -> Page[str]:
        r"""Thread ids, last saved first. In ``pattern`` only ``*``, ``?`` and the escape ``\`` are special."""
        self._check("list_threads")
        limit, pattern = validate.limit(limit), validate.text(pattern, "pattern")
        return await self._threads(limit, pattern, after) if limit else Page()

    async def diff(
        self, thread_id: str, before: str, after: str | None = None, *, after_thread: str | None = None
    ) -> CheckpointDiff | None:
        """What changed between two checkpoints (``after=None`` is the head), also across two threads.

        ``None`` if one of them doesn't exist.
        """
        first = await self.get(thread_id, validate.identifier(before, "before"))
        second = await self.get(thread_id if after_thread is None else after_thread, after)
        return None if first is None or second is None else diff_checkpoints(first, second)

    async def stats(self) -> CheckpointerStats:
        """Counts for this scope."""
        self._check()
        return await self._stats()

    # ── branching ─────────────────────────────────────────────────────────────────────────────────

    async def copy_thread(
        self, source_thread_id: str, dest_thread_id: str, *, scope: str | UnsetType | None = UNSET
    ) -> bool:
        """Branch a thread with its full history, the same checkpoint ids and pending writes.

        ``False`` if the source doesn't exist, :class:`Conflict` if the destination does. Into another ``scope``
        (``None`` is the default one) it is a physical copy: nothing is shared between scopes.
        """
        self._check("branching")
        source = validate.identifier(source_thread_id, "source_thread_id")
        dest = validate.identifier(dest_thread_id, "dest_thread_id")
        if scope is UNSET or scope == self._scope:
            return await self._fork(source, None, dest) is not None
        self._check("scopes")
        target = self._view(None if scope is None else validate.identifier(scope, "scope"))
        dump = await self._dump(source)
        if dump is None:
            return False
        await target._restore(ThreadDump(dest, dump.created_us, dump.records))
        return True

    async def fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> str:
        """Start ``new_thread_id`` as the thread was when that checkpoint was its head; returns the new head's id.

        :class:`Conflict` if the new thread exists, `InvalidInput` if the checkpoint doesn't.
        """
        self._check("branching")
        place = _place(thread_id, checkpoint_id)
        head = await self._fork(*place, validate.identifier(new_thread_id, "new_thread_id"))
        if head is None:
            raise InvalidInput(f"nothing to fork: thread {thread_id!r} has no checkpoint {checkpoint_id!r}")
        return head

    # ── retention ─────────────────────────────────────────────────────────────────────────────────

    async def vacuum(self, older_than_days: float = 30, *, stale_threads: bool = False) -> int:
        """Delete checkpoints older than that; returns how many went. See :meth:`prune` for what is never deleted.

        ``stale_threads=True`` also deletes whole threads that were last saved before then.
        """
        self._check("vacuum")
        if isinstance(older_than_days, bool) or not isinstance(older_than_days, int | float):
            raise InvalidInput(f"older_than_days must be a number, got {type(older_than_days).__name__}")
        if not 0 <= older_than_days < float("inf"):
            raise InvalidInput(f"older_than_days must be a finite number, 0 or more, got {older_than_days!r}")
        cutoff = self._clock.now_us() - validate.microseconds(older_than_days * SECONDS_A_DAY)
        request = PruneRequest(older_than=cutoff, stale_before=cutoff if stale_threads else None)
        return len(await self._prune(request))

    async def prune(
        self,
        *,
        keep_last: int | None = None,
        older_than: datetime | timedelta | None = None,
        stale_threads: bool = False,
        dry_run: bool = False,
    ) -> PruneReport:
        """Delete all but the newest ``keep_last`` checkpoints of each thread, or those before ``older_than`` (a
        moment, or an age), or with both those that are neither new enough by count nor by age.

        Never deleted: a thread's head, a checkpoint that a fork still reads, one with pending writes, and, in a
        fork, what it inherited. ``stale_threads=True`` also deletes whole threads that were last saved before
        ``older_than``. ``dry_run=True`` only says what would go.
        """
        self._check("retention")
        if keep_last is None and older_than is None:
            raise InvalidInput("prune needs keep_last= or older_than=: with neither nothing says what may go")
        if stale_threads and older_than is None:
            raise InvalidInput("stale_threads=True needs older_than=: it says which threads are stale")
        if keep_last is not None and validate.limit(keep_last, "keep_last") == 0:
            raise InvalidInput("keep_last must be 1 or more: a thread's head is never pruned; use delete()")
        cutoff = None
        if isinstance(older_than, timedelta):
            cutoff = self._clock.now_us() - validate.microseconds(older_than.total_seconds())
        elif older_than is not None:
            cutoff = validate.moment(older_than, "older_than")
        removed = await self._prune(
            PruneRequest(keep_last, cutoff, cutoff if stale_threads else None, dry_run)
        )
        return PruneReport(tuple(removed), dry_run)

    # ── moving threads ────────────────────────────────────────────────────────────────────────────

    async def export_threads(self, pattern: str = "*") -> AsyncIterator[str]:
        """JSON lines with every matching thread, checksummed; one thread is in memory at a time."""
        self._check("export")
        self._check("list_threads")
        writer = transfer.ExportWriter()
        yield writer.begin()
        seen: set[str] = set()
        after: str | None = None
        while True:
            page = await self.list_threads(200, pattern, after=after)
            for thread_id in page:
                dump = None if thread_id in seen else await self._dump(thread_id)
                if dump is not None:
                    seen.add(thread_id)
                    for line in writer.thread(dump):
                        yield line
            after = page.next
            if after is None:
                break
        yield writer.end()

    async def import_threads(
        self, lines: Iterable[str] | AsyncIterable[str], *, on_conflict: Literal["error", "skip"] = "error"
    ) -> ImportReport:
        """Restore what `export_threads` wrote. Each thread is checked, then written whole or not at all.

        A thread id that exists is :class:`Conflict`, or is skipped and reported with ``on_conflict="skip"``.
        """
        self._check("export")
        if on_conflict not in ("error", "skip"):
            raise InvalidInput(f'on_conflict must be "error" or "skip", got {on_conflict!r}')
        reader, threads, checkpoints = transfer.ImportReader(), 0, 0
        skipped: list[str] = []
        async for line in _each(lines):
            dump = reader.feed(line)
            if dump is None:
                continue
            try:
                await self._restore(dump)
            except Conflict:
                if on_conflict == "error":
                    raise
                skipped.append(dump.thread_id)
            else:
                threads, checkpoints = threads + 1, checkpoints + len(dump.records)
        reader.finish()
        return ImportReport(threads, checkpoints, tuple(skipped))

    # ── scopes ────────────────────────────────────────────────────────────────────────────────────

    @property
    def scope(self) -> str | None:
        """The scope that this object sees; ``None`` is the default one."""
        return self._scope

    def scoped(self, scope: str) -> Self:
        """A view on the same connection that sees only that scope's threads. Closing a view does nothing."""
        self._check("scopes")
        return self._view(validate.identifier(scope, "scope"))

    def admin(self) -> "CheckpointerAdmin":
        """For operators: every scope."""
        self._check("scopes")
        from holdfast.memory.admin import CheckpointerAdmin  # it imports this module

        return CheckpointerAdmin(self)

    async def delete_scope(self, scope: str) -> int:
        """Erase a scope with all its threads and index entries; returns how many threads there were."""
        self._check("scopes")
        return await self._view(validate.identifier(scope, "scope"))._delete_scope()

    # ── life ──────────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """Release everything. Calling it again does nothing; any other call then raises `Closed`."""
        if self._is_view or self._lifetime.closed:
            return
        self._lifetime.closed = True
        await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def _view(self, scope: str | None) -> Self:
        self._lifetime  # created before it is shared  # noqa: B018 (reading it is the point)
        view = copy.copy(self)
        view._scope, view._is_view = scope, True
        return view

    async def _page_of_infos(
        self, limit: int, after: str | None, where: tuple[str, Any] | None
    ) -> Page[dict[str, Any]]:
        if not validate.limit(limit):
            return Page()
        page = await self._infos(limit, after, where)
        return Page([_as_dict(info) for info in page], page.next)


def _place(thread_id: str, checkpoint_id: str | None) -> tuple[str, str | None]:
    return (
        validate.identifier(thread_id, "thread_id"),
        validate.optional_identifier(checkpoint_id, "checkpoint_id"),
    )


def _as_dict(info: CheckpointInfo) -> dict[str, Any]:
    return {
        "thread_id": info.thread_id,
        "checkpoint_id": info.checkpoint_id,
        "metadata": info.metadata,
        "created_at": info.created_at,
    }


async def _each(lines: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[str]:
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            yield line
    else:
        for line in lines:
            yield line
