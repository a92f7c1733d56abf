"""What the agent's tests share: short ways to write a model's script, and to collect what a run says."""

from collections.abc import AsyncIterable, Sequence
from typing import Any

from holdfast.agent import Event
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.core.state import AgentState


def calls(*wanted: tuple[str, dict[str, Any]], text: str | None = None) -> Message:
    """An assistant message that calls tools."""
    return Message.assistant(text, tool_calls=[ToolCall(name=name, arguments=args) for name, args in wanted])


async def collect(run: AsyncIterable[Event]) -> list[Event]:
    return [event async for event in run]


def kinds(events: Sequence[Event]) -> list[str]:
    """The types of the events, checkpoints left out."""
    return [event.event_type for event in events if event.event_type != "checkpoint"]


def roles(state: AgentState | None) -> list[str]:
    assert state is not None
    return [message.role.value for message in state.messages]


def assert_well_formed(messages: Sequence[Message]) -> None:
    """As every provider wants it: each call has exactly one result, right after it; no two user messages in a row."""
    waiting: list[str] = []
    before: Role | None = None
    for place, message in enumerate(messages):
        if message.role is Role.TOOL:
            assert message.tool_call_id in waiting, f"message {place} answers no call"
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting, f"message {place} comes before the results of {waiting}"
        assert not (message.role is Role.USER and before is Role.USER), (
            f"message {place}: two prompts in a row"
        )
        before = message.role
        waiting = [call.id for call in message.tool_calls]
    assert not waiting, f"calls without a result: {waiting}"
