"""Go on with a turn that another run left unfinished: killed, cancelled, or waiting for approval."""

from collections.abc import Mapping, Sequence

from holdfast.agent.events import ApprovalEvent, ResumeEvent, ToolCompleteEvent
from holdfast.agent.progress import (
    OPEN,
    WAITING,
    Turn,
    fold,
    not_approved,
    outcome_unknown,
    turn_of,
    unanswered,
)
from holdfast.agent.session import Session
from holdfast.core.errors import InvalidInput
from holdfast.core.messages import ToolCall, ToolResult

__all__ = ["Approve", "decline", "recover"]

Approve = bool | str | Mapping[str, bool | str]
"""``True`` runs the calls that wait, ``False`` or a reason refuses them; a mapping decides by the id of a call."""


async def recover(session: Session, approve: Approve | None) -> None:
    """Take the session's unfinished turn over, up to where `take_turn` can go on with it."""
    known = turn_of(session.state)
    session.go_on(known or Turn.guess(session.state))
    calls = unanswered(session.state)
    # Without an open turn's record the state was edited, and nobody has allowed the calls in it.
    intended = known is not None and known.status == OPEN
    if not calls:  # the model's answer is missing; whoever stores one first wins
        await session.emit(ResumeEvent())
    elif session.turn.status == WAITING or (not intended and _need_approval(session, calls)):
        await _decide(session, calls, approve)
    else:
        await _take_over(session, calls)


async def _take_over(session: Session, calls: Sequence[ToolCall]) -> None:
    """Their intent is stored, so they may have started. The first save moves the head: from then on a run that is
    still alive elsewhere can start no further tool."""
    stored, released = await session.journal.results(calls)
    done: list[tuple[ToolCall, ToolResult]] = []
    finished, unknown, repeated = [], [], []
    for call in calls:
        tool = session.kit.tools.get(call.name)
        if call.id in stored:
            done.append((call, stored[call.id]))
            finished.append(call.id)
        elif call.id in released or (tool is not None and tool.idempotent):
            repeated.append(call.id)
        else:
            done.append((call, outcome_unknown(call)))
            unknown.append(call.id)
    _apply(session, done)
    lost = await _claim(session, "takeover")
    done += lost
    lost_ids = [call.id for call, _ in lost]
    repeated = [call_id for call_id in repeated if call_id not in lost_ids]
    await session.emit(ResumeEvent(tuple(finished), tuple(repeated), (*unknown, *lost_ids)))
    for call, result in done:
        await session.emit(ToolCompleteEvent(call, result, recovered=True))


async def _claim(session: Session, step: str) -> list[tuple[ToolCall, ToolResult]]:
    """Store that this run goes on with the calls which the state leaves unanswered. If that forks the thread, another
    run has got them: here, those that must not run twice are of unknown outcome. Returns these."""
    thread_id, calls, tools = session.journal.thread_id, unanswered(session.state), session.kit.tools
    await session.store(step)
    lost: list[tuple[ToolCall, ToolResult]] = []
    if session.journal.thread_id != thread_id:
        once = [call for call in calls if call.name not in tools or not tools[call.name].idempotent]
        lost = [(call, outcome_unknown(call)) for call in once]
    if lost:
        _apply(session, lost)
        await session.store(step)
    session.unstarted = unanswered(session.state)
    await session.tell()
    return lost


def _need_approval(session: Session, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    tools = session.kit.tools
    return tuple([call for call in calls if call.name in tools and tools[call.name].requires_approval])


async def _decide(session: Session, calls: Sequence[ToolCall], approve: Approve | None) -> None:
    waiting = _need_approval(session, calls)
    if approve is None and waiting:
        session.stop_reason, session.approvals = "approval", waiting
        session.final = session.state.messages[-1].content or ""
        await session.emit(ApprovalEvent(waiting))
        return
    verdicts = {call.id: _verdict(approve, call, waiting) for call in waiting}
    refused = [
        (call, not_approved(call, _reason(verdicts[call.id])))
        for call in waiting
        if verdicts[call.id] is not True
    ]
    _apply(session, refused)
    lost = await _claim(session, "intent")  # those that were approved, and those that waited for the others
    await session.emit(ResumeEvent(unknown=tuple(call.id for call, _ in lost)))
    for call, result in (*refused, *lost):
        await session.emit(ToolCompleteEvent(call, result))


def _verdict(approve: Approve | None, call: ToolCall, waiting: Sequence[ToolCall]) -> bool | str:
    if not isinstance(approve, Mapping):
        return False if approve is None else approve
    ids = ", ".join(repr(other.id) for other in waiting)
    if call.id not in approve:
        raise InvalidInput(f"approve must decide every call that waits ({ids}); {call.id!r} is missing")
    if unknown := sorted(set(approve) - {other.id for other in waiting}):
        raise InvalidInput(f"approve names the call {unknown[0]!r}, which does not wait; these do: {ids}")
    return approve[call.id]


def _reason(verdict: bool | str) -> str:
    return verdict if isinstance(verdict, str) else "it was refused"


def decline(session: Session, reason: str) -> None:
    """Answer the calls that wait, without running them, and end their turn."""
    calls = unanswered(session.state)
    session.state = fold(session.state, [(call, not_approved(call, reason)) for call in calls])


def _apply(session: Session, done: Sequence[tuple[ToolCall, ToolResult]]) -> None:
    session.state = fold(session.state, done)
    if session.kit.reflexion is not None:
        results = [result for _, result in done]
        session.state = session.kit.reflexion.after(session.state, results)
        session.hint = session.kit.reflexion.hint(results)
