"""Random operations on a backend and on the reference side by side: both must answer alike, step by step.

A backend's test is a few lines::

    @settings(max_examples=200)
    @given(steps=model_steps())
    def test_it_does_what_the_reference_does(steps):
        asyncio.run(compare_backends(open_reference, open_backend, steps))
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.core.unset import UNSET, UnsetType
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.records import Checkpoint
from holdfast.testing.checkpointer_cases.base import OpenCheckpointer
from holdfast.testing.clock import FrozenClock
from holdfast.testing.observation import observe

THREADS: Final = ("a", "A", "a/b", "b%", "b_")
WORDS: Final = ("apple", "pear", "plum", "fig")
OTHER_SCOPE: Final = "other"
METADATA: Final[tuple[dict[str, Any], ...]] = ({}, {"n": 1}, {"n": True}, {"n": 1.0, "deep": {"list": [1]}})
WRITES: Final[tuple[list[tuple[str, Any]], ...]] = ([], [("x", 1)], [("x", True), ("y", None)])

# How often each action is taken. The first is the simplest: what fails shrinks to as few others as possible.
WEIGHTS: Final = {
    "nothing": 1,
    "append": 8,
    "edit": 5,
    "fork": 7,
    "delete_checkpoint": 4,
    "delete_thread": 1,
    "prune": 3,
    "vacuum": 2,
    "put_writes": 3,
    "retry": 2,
    "reuse_id": 2,
    "copy_to_scope": 1,
    "export_and_import": 1,
    "tick": 3,
    "reopen": 1,
}


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next. The numbers say with which threads, which checkpoint, how: all mean something always."""

    action: str = "nothing"
    thread: int = 0
    other: int = 0
    pick: int = 0
    variant: int = 0
    scoped: bool = False


def model_steps(min_size: int = 30, max_size: int = 40) -> st.SearchStrategy[list[Step]]:
    """Sequences of steps in which saves, edits, forks, deletions and vacuums interleave."""
    actions = [action for action, weight in WEIGHTS.items() for _ in range(weight)]
    small = st.integers(0, 7)
    step = st.builds(
        Step,
        action=st.sampled_from(actions),
        thread=st.integers(0, len(THREADS) - 1),
        other=st.integers(0, len(THREADS) - 1),
        pick=small,
        variant=small,
        scoped=st.sampled_from([False] * 5 + [True]),
    )
    return st.lists(step, min_size=min_size, max_size=max_size)


async def compare_backends(
    open_reference: OpenCheckpointer,
    open_backend: OpenCheckpointer,
    steps: Sequence[Step],
    *,
    ttl_seconds: float | None = None,
    reopen: bool = False,
    every: int = 1,
) -> None:
    """Take the steps on both; every answer, and all that can be observed, must be the same.

    ``reopen=True`` also closes the backend now and then and opens it again: for storage that outlives it. The
    scope of the step is observed after ``every`` so many of them, both scopes at the end.
    """
    clock = FrozenClock()

    def open_again() -> BaseCheckpointer:
        return open_backend(clock=clock, ttl_seconds=ttl_seconds)

    async with open_reference(clock=clock, ttl_seconds=ttl_seconds) as reference:
        pair = _Pair(reference, open_again(), clock, open_again if reopen else None)
        try:
            for number, step in enumerate(steps, start=1):
                await pair.take(step)
                if number % every == 0:
                    await pair.compare(OTHER_SCOPE if step.scoped else None)
                if step.action == "copy_to_scope" or number == len(steps):
                    await pair.compare(None)
                    await pair.compare(OTHER_SCOPE)
        finally:
            await pair.backend.close()


@dataclass
class _Pair:
    """A reference and a backend that have seen the same calls."""

    reference: BaseCheckpointer
    backend: BaseCheckpointer
    clock: FrozenClock
    open_again: Callable[[], BaseCheckpointer] | None
    scope: str | None = None
    threads: list[str] = field(default_factory=list)
    saves: int = 0
    calls: list[str] = field(default_factory=list)

    async def take(self, step: Step) -> None:
        self.scope = OTHER_SCOPE if step.scoped else None
        self.threads = [t for t in THREADS if await self._of(self.reference).exists(t)]
        action: Callable[[Step], Awaitable[None]] = getattr(self, f"_{step.action}")
        await action(step)

    async def compare(self, scope: str | None) -> None:
        """Whatever can be observed in that scope must be the same."""
        self.scope = scope
        expected = await observe(self._of(self.reference), " ".join(WORDS))
        actual = await observe(self._of(self.backend), " ".join(WORDS))
        for what, value in expected.items():
            assert actual[what] == value, self._report(what, value, actual[what])

    async def _both(self, text: str, call: Callable[[BaseCheckpointer], Awaitable[Any]]) -> None:
        """Make a call on both: the same answer, or the same kind of error."""
        self.calls.append(text if self.scope is None else f"[{self.scope}] {text}")
        expected = await _outcome(call(self._of(self.reference)))
        actual = await _outcome(call(self._of(self.backend)))
        assert actual == expected, self._report("answer", expected, actual)

    def _of(self, checkpointer: BaseCheckpointer) -> BaseCheckpointer:
        return checkpointer if self.scope is None else checkpointer.scoped(self.scope)

    def _report(self, what: str, expected: object, actual: object) -> str:
        calls = "\n  ".join(self.calls)
        return f"{what} differs after\n  {calls}\nreference: {expected!r}\nbackend:   {actual!r}"

    # ── choosing, by the reference ────────────────────────────────────────────────────────────────

    def _thread(self, step: Step) -> str:
        """A thread that exists, if there is one."""
        return self.threads[step.thread % len(self.threads)] if self.threads else THREADS[step.thread]

    async def _chosen(self, step: Step) -> Checkpoint | None:
        """A checkpoint of that thread, newest first."""
        thread_id = self._thread(step)
        ids = await self._of(self.reference).list_checkpoints(thread_id, 1000)
        if not ids:
            return None
        # Half of the states are objects that the backend itself has handed out: it may recognise them.
        source = self.backend if step.variant % 2 else self.reference
        return await self._of(source).get(thread_id, ids[step.pick % len(ids)])

    async def _id(self, step: Step) -> str:
        chosen = await self._chosen(step)
        return "missing" if chosen is None or (step.pick, step.other) == (7, 0) else chosen.info.checkpoint_id

    async def _room(self, step: Step) -> str:
        """A thread to fork to: mostly a free one. Where there is none, one makes room."""
        wanted = THREADS[step.other]
        if wanted not in self.threads or step.variant == 2:
            return wanted
        free = next((thread_id for thread_id in THREADS if thread_id not in self.threads), None)
        if free is None and wanted != self._thread(step):
            await self._both(f"delete({wanted!r})", lambda c: c.delete(wanted))
        return free or wanted

    def _new_id(self) -> str:
        self.saves += 1
        return f"k{self.saves}"

    # ── actions ───────────────────────────────────────────────────────────────────────────────────

    async def _nothing(self, step: Step) -> None:
        pass

    async def _tick(self, step: Step) -> None:
        seconds = (1, 60, -30, 0, 3600, 86_400, -1, 5)[step.variant]
        self.calls.append(f"clock.advance({seconds})")
        self.clock.advance(seconds)

    async def _reopen(self, step: Step) -> None:
        if self.open_again is not None:
            self.calls.append("reopen")
            await self.backend.close()
            self.backend = self.open_again()

    async def _append(self, step: Step) -> None:
        thread_id = THREADS[step.thread] if step.pick < 4 else self._thread(step)
        head = await self._of(self.backend if step.variant % 2 else self.reference).get(thread_id)
        state = AgentState() if head is None else head.state
        parent: str | UnsetType | None = UNSET
        if step.variant < 4:
            parent = None if head is None else head.info.checkpoint_id
        elif step.variant == 4:
            parent = await self._id(step)
        await self._save(thread_id, _grown(state, step), METADATA[step.other % 4], parent)

    async def _edit(self, step: Step) -> None:
        chosen = await self._chosen(step)
        state = AgentState() if chosen is None else chosen.state
        await self._save(self._thread(step), _edited(state, step), METADATA[step.other % 4], UNSET)

    async def _save(
        self,
        thread_id: str,
        state: AgentState,
        metadata: dict[str, Any],
        parent: str | UnsetType | None,
    ) -> None:
        checkpoint_id = self._new_id()
        said = [message.content for message in state.messages]
        await self._both(
            f"save({said}, {thread_id!r}, {checkpoint_id!r}, {metadata}, parent={parent!r})",
            lambda c: c.save(state, thread_id, checkpoint_id, metadata, parent=parent),
        )

    async def _retry(self, step: Step) -> None:
        """A save whose answer was lost, or one that only looks like it."""
        chosen = await self._chosen(step)
        if chosen is None:
            return
        thread_id, info = self._thread(step), chosen.info
        state = chosen.state if step.other != 1 else _grown(chosen.state, step)
        metadata = info.metadata if step.other != 2 else {"other": True}
        parent = info.parent_id if step.variant < 4 else UNSET
        await self._both(
            f"save(<as there>, {thread_id!r}, {info.checkpoint_id!r}, {metadata}, {parent=})",
            lambda c: c.save(state, thread_id, info.checkpoint_id, metadata, parent=parent),
        )

    async def _reuse_id(self, step: Step) -> None:
        """Save under an id that was used before, in this thread or another, deleted or not."""
        if not self.saves:
            return
        thread_id, checkpoint_id = self._thread(step), f"k{1 + step.pick * self.saves // 8}"
        chosen = await self._chosen(step)
        state = _grown(AgentState() if chosen is None else chosen.state, step)
        await self._both(
            f"save(<grown>, {thread_id!r}, {checkpoint_id!r})",
            lambda c: c.save(state, thread_id, checkpoint_id),
        )

    async def _fork(self, step: Step) -> None:
        source, new = self._thread(step), await self._room(step)
        at = None if step.variant == 0 else await self._id(step)
        if step.variant == 1:
            await self._both(f"copy_thread({source!r}, {new!r})", lambda c: c.copy_thread(source, new))
        else:
            await self._both(f"fork({source!r}, {at!r}, {new!r})", lambda c: c.fork(source, at, new))

    async def _copy_to_scope(self, step: Step) -> None:
        source, new = self._thread(step), THREADS[step.other]
        scope = OTHER_SCOPE if self.scope is None else None
        await self._both(
            f"copy_thread({source!r}, {new!r}, {scope=})", lambda c: c.copy_thread(source, new, scope=scope)
        )

    async def _delete_checkpoint(self, step: Step) -> None:
        thread_id, checkpoint_id = self._thread(step), await self._id(step)
        await self._both(
            f"delete({thread_id!r}, {checkpoint_id!r})", lambda c: c.delete(thread_id, checkpoint_id)
        )

    async def _delete_thread(self, step: Step) -> None:
        thread_id = self._thread(step)
        await self._both(f"delete({thread_id!r})", lambda c: c.delete(thread_id))

    async def _put_writes(self, step: Step) -> None:
        thread_id, checkpoint_id = self._thread(step), await self._id(step)
        task_id, writes = f"task {step.variant % 2}", WRITES[step.variant % 3]
        await self._both(
            f"put_writes({thread_id!r}, {checkpoint_id!r}, {task_id!r}, {writes})",
            lambda c: c.put_writes(thread_id, checkpoint_id, task_id, writes),
        )

    async def _prune(self, step: Step) -> None:
        rules: dict[str, Any] = {"keep_last": 1 + step.pick % 3}
        if step.variant % 3 == 1:
            rules = {"older_than": self.clock.now}
        elif step.variant % 3 == 2:
            rules["older_than"] = self.clock.now
        await self._both(f"prune({rules})", lambda c: c.prune(**rules))

    async def _vacuum(self, step: Step) -> None:
        days, stale = (0.0, 0.0005, 1.0)[step.pick % 3], step.variant == 0
        await self._both(f"vacuum({days}, {stale=})", lambda c: c.vacuum(days, stale_threads=stale))

    async def _export_and_import(self, step: Step) -> None:
        """Each reads what the other wrote."""
        thread_id = self._thread(step)
        self.calls.append(f"[{self.scope}] export, delete and import {thread_id!r}, crosswise")
        reference, backend = self._of(self.reference), self._of(self.backend)
        pattern = thread_id  # no thread has a special character in its id
        theirs = [line async for line in reference.export_threads(pattern)]
        ours = [line async for line in backend.export_threads(pattern)]
        await reference.delete(thread_id)
        await backend.delete(thread_id)
        expected, actual = await reference.import_threads(ours), await backend.import_threads(theirs)
        assert actual == expected, self._report("import", expected, actual)


def _grown(state: AgentState, step: Step) -> AgentState:
    count = 1 + step.pick % 2
    texts = [f"{WORDS[(step.other + n) % len(WORDS)]} {step.pick % 4}" for n in range(count)]
    state = state.with_messages([Message.user(text) for text in texts])
    return state.with_error(texts[0]).with_confidence(step.pick / 7) if step.variant >= 5 else state


def _edited(state: AgentState, step: Step) -> AgentState:
    """The state with another history: what compaction, corrections and rewinds do."""
    old = state.messages
    at = step.pick % (len(old) + 1)
    new = Message.assistant(f"{WORDS[step.other % len(WORDS)]} edited {step.pick}")
    messages = (
        (*old[:at], new, *old[at + 1 :]),  # one replaced
        old[:at],  # cut
        (new, *old),  # one more at the front
        (new, *old[len(old) // 2 :]),  # summarised
        (*old[:at], new, *old[at:]),  # one more inside
        (*old, *old[:2]),  # repeated
        old,  # the same messages: a rewind, or only other fields
        (),
    )[step.variant]
    return state.model_copy(update={"messages": messages, "errors": state.errors[: step.other]})


async def _outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except HoldfastError as error:
        return f"raises {type(error).__name__}"
