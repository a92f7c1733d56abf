"""Agents as children of `children`: killed in the middle of a turn, or several at once on one thread.

The model decides by what it reads in the conversation alone, so that any process can go on with any turn. What the
tools do is written to a file of their own: how often one ran is counted without asking the database.
"""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from holdfast.agent import Agent, AgentResult, get_run_context, running
from holdfast.agent.journal import RESULT_CHANNEL, Journal
from holdfast.agent.progress import unanswered
from holdfast.agent.session import Session
from holdfast.core.ids import new_id
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.core.state import AgentState
from holdfast.core.unset import UNSET, UnsetType
from holdfast.errors import Conflict
from holdfast.memory.backends.sql.checkpointer import SqlCheckpointer
from holdfast.testing import FunctionModel
from holdfast.testing.faults import StatementCounter, die
from holdfast.tools import Tool, tool
from tests.reliability import children
from tests.reliability.children import Children, Report
from tests.reliability.opening import kinds_of, watched_engine

THREAD: Final = "t"
MODULE: Final = "tests.reliability.agent_jobs"


class AgentChildren(Children):
    """`Children` that run the jobs of this module."""

    module = MODULE


# ── the model ─────────────────────────────────────────────────────────────────────────────────────

PLANS: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "ten": [
        ["pay"],
        ["send", "pay"],
        ["look"],
        ["send", "pay", "send"],
        ["pay", "count"],
        ["send"],
        ["pay", "send"],
    ],
    "two": [["send"], ["pay"]],
    "safe": [["look"], ["pay"]],
    "one": [["pay"]],
    "no": [],
}
UNSAFE: Final = frozenset({"send", "pay"})


def plan_of(prompt: str) -> list[list[tuple[str, str]]]:
    """The steps that a prompt such as "ten things for a" asks for: tools, each with the key of its one call."""
    kind, tag = prompt.split(" things for ")
    keys = iter(range(100))
    return [[(name, f"{tag}/{next(keys)} {name}") for name in step] for step in PLANS[kind]]


def decide(messages: Sequence[Message], tools: object = None, **options: Any) -> Message:
    """The next step of the last prompt's plan, or the answer, which tells what is known of the calls."""
    start = max(place for place, message in enumerate(messages) if message.role is Role.USER)
    prompt, turn = messages[start].content or "", messages[start + 1 :]
    steps = plan_of(prompt)
    made = sum(message.role is Role.ASSISTANT for message in turn)
    if made < len(steps):
        return Message.assistant(tool_calls=[_call(name, key) for name, key in steps[made]])
    results = [message for message in turn if message.role is Role.TOOL]
    failed = sum("error" in message.metadata for message in results)
    return Message.assistant(f"{prompt}: {len(results) - failed} done, {failed} unknown")


def _call(name: str, key: str) -> ToolCall:
    """A call with an id of its own, as a provider makes it, that still tells which call of the plan it is."""
    return ToolCall(id=f"{key}#{new_id()}", name=name, arguments={"key": key})


# ── what is watched ───────────────────────────────────────────────────────────────────────────────


class Watch:
    """Tells the parent of each place that the run comes to. At one of them it dies; at others, the first time that
    it is there, it tells another process (``["tell", fifo]``) or waits to be told (``["wait", fifo]``)."""

    def __init__(
        self, report: Report, die_at: Sequence[Any] | None, script: Mapping[str, Sequence[Sequence[str]]]
    ) -> None:
        self._report = report
        self._place: str = die_at[0] if die_at else ""
        self._left: int = die_at[1] if die_at else 0
        self._script = dict(script)
        self._lock = threading.Lock()

    def __call__(self, place: str) -> None:
        with self._lock:  # who dies, dies with the last word
            self._report(f"at {place}")
            self._left -= place == self._place
            if place == self._place and self._left == 0:
                die()
            steps = self._script.pop(place, ())
        for verb, fifo in steps:
            if verb == "tell":
                Path(fifo).write_text("now")
            else:
                Path(fifo).read_text()

    def told(self, what: str, calls: Iterable[str]) -> None:
        """Tell the parent something about each of these calls."""
        for call_id in calls:
            self._report(f"{what} {call_id.split('#')[0]}")


class WatchedCheckpointer(SqlCheckpointer):
    """Tells of each save, each result, and each other note about a call, before and after."""

    watch: Watch

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        parent: str | UnsetType | None = UNSET,
    ) -> str:
        step = "" if metadata is None else metadata["step"]
        if step in ("intent", "takeover"):
            self.watch.told("intended", [call.id for call in unanswered(state)])
        self.watch(f"before {step}")
        saved = await super().save(state, thread_id, checkpoint_id, metadata, parent=parent)
        self.watch(f"after {step}")
        return saved

    async def put_writes(
        self, thread_id: str, checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]]
    ) -> None:
        kind = "result" if RESULT_CHANNEL in dict(writes) else "note"
        self.watch(f"before {kind}")
        await super().put_writes(thread_id, checkpoint_id, task_id, writes)
        if kind == "result":
            self.watch.told("recorded", [task_id])
        self.watch(f"after {kind}")


def open_watched(url: str, watch: Watch, die_at_statement: int) -> WatchedCheckpointer:
    """The checkpointer for that address, watched."""
    engine = watched_engine(url, StatementCounter(die_at_statement))
    kind = type("Watched", (WatchedCheckpointer, kinds_of(url).threads), {"watch": watch})
    opened: WatchedCheckpointer = kind(engine=engine, owns_engine=True)
    return opened


class Effects:
    """A file of what the tools did: lines that are on the disk when they are written."""

    def __init__(self, path: str, watch: Watch) -> None:
        self._path = path
        self._watch = watch

    def begin(self, key: str) -> None:
        self._append(f"start\t{key}\t{os.getpid()}\t{get_run_context().thread_id}\n")
        self._watch("in tool, before effect")

    def take(self, key: str) -> str:
        receipt = new_id()
        self._append(f"effect\t{key}\t{receipt}\t\n")
        self._watch("in tool, after effect")
        return f"{key}: receipt {receipt}"

    def _append(self, line: str) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line.encode())
            os.fsync(file)
        finally:
            os.close(file)


def make_tools(effects: Effects, *, unsafe_is_idempotent: bool = False) -> list[Tool[..., Any]]:
    """Blocking and async tools that must not run twice, and a blocking and an async one that may."""

    @tool(idempotent=unsafe_is_idempotent)
    def send(key: str) -> str:
        effects.begin(key)
        return effects.take(key)

    @tool(idempotent=unsafe_is_idempotent)
    async def pay(key: str) -> str:
        effects.begin(key)
        await asyncio.sleep(0)
        return effects.take(key)

    @tool(idempotent=True)
    def count(key: str) -> str:
        effects.begin(key)
        return effects.take(key)

    @tool(idempotent=True)
    async def look(key: str) -> str:
        effects.begin(key)
        await asyncio.sleep(0)
        return effects.take(key)

    return [send, pay, count, look]


# ── agents that are broken on purpose ─────────────────────────────────────────────────────────────


def _forget_results() -> None:
    async def results(self: Journal, calls: Sequence[ToolCall]) -> tuple[dict[str, Any], set[str]]:
        return {}, set()

    patch.object(Journal, "results", results).start()


def _keep_results_back() -> None:
    async def record(self: Journal, *args: object) -> None:
        """Store nothing until the next save."""

    patch.object(Journal, "record", record).start()


def _skip_intents() -> None:
    whole = Session.save

    async def save(self: Session, step: str, *args: Any) -> None:
        if step != "intent":
            await whole(self, step, *args)

    patch.object(Session, "save", save).start()


def _drop_the_fence() -> None:
    whole = WatchedCheckpointer.save

    async def save(self: WatchedCheckpointer, *args: Any, parent: object, **options: Any) -> str:
        return await whole(self, *args, **options)

    patch.object(WatchedCheckpointer, "save", save).start()


def _leave_results() -> None:
    async def withdraw(self: Journal) -> None:
        """Leave them."""

    patch.object(Journal, "_withdraw", withdraw).start()


def _ask_again() -> None:
    patch.object(running, "_is_asked", lambda *_: False).start()


BROKEN: Final[Mapping[str, Callable[[], None]]] = {
    "calls in flight are run again": lambda: None,  # see make_tools
    "stored results are forgotten": _forget_results,
    "results are not stored at once": _keep_results_back,
    "the intent is not stored": _skip_intents,
    "the same prompt is asked again": _ask_again,
    "nothing is fenced": _drop_the_fence,
    "results of an overtaken run are left": _leave_results,
}


# ── the jobs ──────────────────────────────────────────────────────────────────────────────────────


def work(
    report: Report,
    path: str,
    *,
    url: str,
    requests: Sequence[str | None],
    how: str = "await",
    die_at: Sequence[Any] | None = None,
    die_at_statement: int = 0,
    script: Mapping[str, Sequence[Sequence[str]]] | None = None,
    broken: str | None = None,
    **options: Any,
) -> None:
    """Run each prompt on the thread, or resume it (``None``): awaited, as "events" up to a type of event at which the
    loop is left ("events tool_complete"), or "blocking". Reports "result" with what came of it, as JSON, or
    "conflict" or "left"; ``options`` are the agent's. ``path`` is where the tools tell what they did."""
    watch = Watch(report, die_at, script or {})
    if broken is not None:
        BROKEN[broken]()
    agent = Agent(
        model=FunctionModel(decide),
        tools=make_tools(
            Effects(f"{path}.effects", watch), unsafe_is_idempotent=broken == "calls in flight are run again"
        ),
        checkpointer=open_watched(url, watch, die_at_statement),
        **options,
    )
    report("ready")
    watch("start")
    for prompt in requests:
        try:
            result = _blocking(agent, prompt) if how == "blocking" else asyncio.run(_loop(agent, prompt, how))
        except Conflict:
            report("conflict")
            continue
        report("left" if result is None else "result " + json.dumps(_told(result, prompt)))
    watch("end")


async def _loop(agent: Agent, prompt: str | None, how: str) -> AgentResult | None:
    run = agent.resume(THREAD) if prompt is None else agent.run(prompt, thread_id=THREAD)
    if how == "await":
        return await run
    async for event in run:
        if event.event_type in how.split():
            break
    await run.aclose()
    return run.result


def _blocking(agent: Agent, prompt: str | None) -> AgentResult:
    return agent.resume_sync(THREAD) if prompt is None else agent.run_sync(prompt, thread_id=THREAD)


def _told(result: AgentResult, prompt: str | None) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "message": result.message,
        "stop_reason": result.stop_reason,
        "thread_id": result.thread_id,
        "run_id": result.run_id,
        "tool_calls": result.metrics.tool_calls,
        "iterations": result.metrics.iterations,
        "messages": len(result.state.messages),
    }


if __name__ == "__main__":
    children.JOBS = MODULE
    children.serve()
