"""Run the tool calls of one step, side by side, and store each result as soon as it is there."""

import asyncio
from collections.abc import Sequence
from contextvars import Context, copy_context
from dataclasses import replace

from holdfast.agent.channel import Left
from holdfast.agent.context import current_context
from holdfast.agent.events import ToolCompleteEvent, ToolStartEvent
from holdfast.agent.limits import loop_warning, repetition, signature
from holdfast.agent.session import Session
from holdfast.core.messages import Role, ToolCall, ToolResult

__all__ = ["run_calls"]


async def run_calls(session: Session, calls: Sequence[ToolCall]) -> None:
    """Run these calls; their intent is stored. The results are put into ``session.step_results``."""
    warned = _warned(session)
    for call in calls:
        await session.emit(ToolStartEvent(call))
    session.unstarted = ()
    tasks = [
        asyncio.create_task(_run(session, call, warned), context=_context(session, call)) for call in calls
    ]
    try:
        pending = set(tasks)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task in done:
                    await session.emit(task.result())
    except Left:
        await asyncio.wait(tasks)  # they have started: what they did is better known than not
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _context(session: Session, call: ToolCall) -> Context:
    """What the call sees: the caller's context variables, and which run and which call it is."""
    context = copy_context()
    # Its thread may be another than the run began with: a conflict can fork it.
    journal = session.journal
    about = replace(
        session.context, thread_id=journal.thread_id, tool_call_id=call.id, checkpoint_id=journal.head
    )
    context.run(current_context.set, about)
    return context


async def _run(session: Session, call: ToolCall, warned: frozenset[str]) -> ToolCompleteEvent:
    kit = session.kit
    with kit.telemetry.tool_call(call, session.span) as span:
        tool = kit.tools.get(call.name)
        if tool is None:
            names = ", ".join(sorted(kit.tools)) or "none"
            result = ToolResult(
                tool_call_id=call.id,
                name=call.name,
                error=f"there is no tool {call.name!r}; there are: {names}",
            )
        elif signature(call) in warned:
            result = loop_warning(call, kit.max_repeats)
        else:
            result = await tool.run(call)
        span.result(result)
    session.step_results.append((call, result))
    await session.journal.record(session.folded, call, result)
    return ToolCompleteEvent(call, result)


def _warned(session: Session) -> frozenset[str]:
    """Calls that have been made, with the same result, as often as they may."""
    limit = session.kit.max_repeats
    messages = session.state.messages
    if not limit or session.iteration <= limit:
        return frozenset()
    last = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role is Role.ASSISTANT), 0)
    before = messages[:last]
    if repetition(before, session.turn)[0] < limit:
        return frozenset()
    step = next(message for message in reversed(before) if message.role is Role.ASSISTANT)
    return frozenset(signature(call) for call in step.tool_calls)
