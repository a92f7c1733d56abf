"""Go on with a turn that another run left unfinished: killed, cancelled, or waiting for approval."""

from collections.abc import Mapping, Sequence

from holdfast.agent.events import ApprovalEvent, ResumeEvent, ToolCompleteEvent
from holdfast.agent.progress import (
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
    session.turn = turn_of(session.state) or Turn.guess(session.state)
    calls = unanswered(session.state)
    if not calls:  # the model's answer is missing; whoever stores one first wins
        await session.emit(ResumeEvent())
    elif session.turn.status == WAITING:
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
    await session.save_intent("takeover")
    await session.emit(ResumeEvent(tuple(finished), tuple(repeated), tuple(unknown)))
    for call, result in done:
        await session.emit(ToolCompleteEvent(call, result, recovered=True))


async def _decide(session: Session, calls: Sequence[ToolCall], approve: Approve | None) -> None:
    tools = session.kit.tools
    waiting = tuple([call for call in calls if call.name in tools and tools[call.name].requires_approval])
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
    await session.save_intent("intent")  # of those that were approved, and those that waited for the others
    await session.emit(ResumeEvent())
    for call, result in refused:
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
