"""One turn of the loop: ask the model, store what it wants to do, do it, store what came of it, until it answers.

The order is what makes a turn survive a kill. The calls are stored before the first of them starts (the intent);
each result is stored when it is there, beside that checkpoint; the next checkpoint makes them messages. Whatever
happens in between, the thread says which calls were never started, which have finished, and which may have run.
"""

from collections.abc import Sequence
from typing import Final

from holdfast.agent.asking import ask
from holdfast.agent.calling import run_calls
from holdfast.agent.events import ApprovalEvent, ReflectEvent, ThinkEvent
from holdfast.agent.limits import repetition
from holdfast.agent.progress import OPEN, WAITING, answer_of, unanswered
from holdfast.agent.result import StopReason
from holdfast.agent.session import Session
from holdfast.core.ids import new_id
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.models.base import FinishReason, ModelResponse

__all__ = ["take_turn"]

_ENDS: Final[dict[FinishReason, StopReason]] = {
    "stop": "complete",
    "tool_calls": "complete",
    "length": "length",
    "content_filter": "content_filter",
}


async def take_turn(session: Session) -> None:
    """Go on with the session's turn until it ends. Calls that its state leaves unanswered are stored as intended."""
    calls = unanswered(session.state)
    while True:
        if not calls:
            limit = session.limits.reached(session.turn, session.state) or _looping(session)
            response = await ask(session) if limit is None else None
            if response is None:
                return await _stop(session, limit or "time_budget")
            calls = _take_in(session, response)
            waiting = _need_approval(session, calls)
            thought = ThinkEvent(session.state.messages[-1], session.iteration, response.usage)
            # What the model said is stored before anybody hears of it: whoever leaves then has lost nothing.
            if not calls:
                await _finish(session, response)
                return await session.emit(thought)
            if waiting:
                await _wait(session, waiting)
                await session.emit(thought)
                return await session.emit(ApprovalEvent(waiting))
            await session.save_intent("intent")
            await session.emit(thought)
        await run_calls(session, calls)
        await _fold(session)
        calls = ()


def _take_in(session: Session, response: ModelResponse) -> tuple[ToolCall, ...]:
    """Make the model's answer part of the state; returns the calls in it."""
    said = response.message
    if response.finish_reason == "content_filter" and said.tool_calls:  # what was withheld is not done either
        said = said.model_copy(update={"tool_calls": ()})
    message = _with_distinct_ids(said, session.state.messages[session.turn.messages :])
    state = session.state.with_message(message).with_iteration()
    usage = response.usage
    session.state = state.with_tokens(prompt=usage.prompt_tokens, completion=usage.completion_tokens)
    session.hint = None
    return message.tool_calls


def _with_distinct_ids(message: Message, turn: Sequence[Message]) -> Message:
    """A result is matched to its call by id, and so is an approval; the key that makes a call idempotent has it too.
    Some servers give all calls the same or none, or count anew in each of their answers."""
    if not message.tool_calls:
        return message
    ids = [call.id for call in message.tool_calls]
    used = {call.id for before in turn for call in before.tool_calls}
    distinct = len(set(ids)) == len(ids) and used.isdisjoint(ids)
    if distinct and all(given.strip() and len(given) <= 255 for given in ids):
        return message
    calls = [call.model_copy(update={"id": new_id()}) for call in message.tool_calls]
    return message.model_copy(update={"tool_calls": tuple(calls)})


def _need_approval(session: Session, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    tools = session.kit.tools
    return tuple([call for call in calls if call.name in tools and tools[call.name].requires_approval])


def _looping(session: Session) -> StopReason | None:
    """The model was warned that it repeats itself, and made the same calls once more."""
    if not session.kit.max_repeats:
        return None
    _, warnings = repetition(session.state.messages, session.turn)
    return "tool_loop" if warnings > 1 else None


async def _fold(session: Session) -> None:
    """Make the results part of the conversation, in the order of the calls."""
    order = {call.id: place for place, call in enumerate(unanswered(session.state))}
    if not session.journal.saves_each_result:  # else they are stored in the order in which they came
        session.step_results.sort(key=lambda pair: order[pair[0].id])
    before = session.state.confidence
    session.state, pairs = session.folded(), session.step_results
    session.step_results = []
    if session.kit.reflexion is not None:
        session.hint = session.kit.reflexion.hint([result for _, result in pairs])
    if session.iteration % session.kit.save_every == 0:
        await session.save("tools")
    if session.kit.reflexion is not None:
        await session.emit(ReflectEvent(session.state.confidence, session.state.confidence - before))


async def _finish(session: Session, response: ModelResponse) -> None:
    session.stop_reason = _ENDS[response.finish_reason]
    session.final = response.message.content or ""
    await session.save("answer", session.stop_reason)


async def _stop(session: Session, reason: StopReason) -> None:
    session.stop_reason = reason
    session.final = answer_of(session.state.messages[session.turn.messages :])
    asked = session.state.messages[-1].role is Role.USER  # still without any answer: the turn stays open
    await session.save("stop", OPEN if asked else reason)


async def _wait(session: Session, waiting: tuple[ToolCall, ...]) -> None:
    session.stop_reason, session.approvals = "approval", waiting
    session.final = session.state.messages[-1].content or ""
    await session.save("approval", WAITING)
