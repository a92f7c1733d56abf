"""When a turn has gone on for long enough."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.agent.progress import Turn
from holdfast.agent.result import StopReason
from holdfast.core.frozen import thaw
from holdfast.core.messages import Message, Role, ToolCall, ToolResult
from holdfast.core.state import AgentState

__all__ = ["Limits", "loop_warning", "repetition", "signature"]

_WARNING = "not run: the same call"


@dataclass(slots=True)
class Limits:
    """A turn's budgets. The time is this run's: a resumed turn has it anew; all else counts the whole turn."""

    max_iterations: int
    token_budget: int | None = None
    time_budget: float | None = None
    started: float = field(default_factory=time.monotonic)

    def reached(self, turn: Turn, state: AgentState) -> StopReason | None:
        """The limit that is used up, if one is."""
        if state.iteration - turn.iteration >= self.max_iterations:
            return "max_iterations"
        tokens = state.total_tokens - turn.prompt_tokens - turn.completion_tokens
        if self.token_budget is not None and tokens >= self.token_budget:
            return "token_budget"
        if self.time_budget is not None and self.remaining() <= 0:
            return "time_budget"
        return None

    def remaining(self) -> float:
        """Seconds that are left."""
        assert self.time_budget is not None
        return self.started + self.time_budget - time.monotonic()

    def elapsed_ms(self) -> float:
        return (time.monotonic() - self.started) * 1000


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a turn: its calls and their results, or that they were not run but warned of."""

    calls: tuple[str, ...]
    results: tuple[str, ...]
    warned: bool

    def repeats(self, other: "Step") -> bool:
        return self.calls == other.calls and (self.warned or other.warned or self.results == other.results)


def repetition(messages: Sequence[Message], turn: Turn) -> tuple[int, int]:
    """How often in a row the turn's last step was made with the same result, and how many of these were warnings."""
    times = warnings = 0
    last: Step | None = None
    for step in _steps(messages, turn.messages):
        if last is not None and not step.repeats(last):
            break
        last = step if last is None or last.warned else last
        times, warnings = times + 1, warnings + step.warned
    return times, warnings


def _steps(messages: Sequence[Message], start: int) -> Iterator[Step]:
    """The steps of a turn from the last to the first."""
    results: dict[str | None, str] = {}
    for at in range(len(messages) - 1, start - 1, -1):
        message = messages[at]
        if message.role is Role.TOOL:
            results[message.tool_call_id] = message.content or ""
        elif message.role is Role.ASSISTANT and message.tool_calls:
            pairs = sorted((signature(call), results.get(call.id, "")) for call in message.tool_calls)
            texts = tuple([text for _, text in pairs])
            warned = all(text.startswith(f"Error: {_WARNING}") for text in texts)
            yield Step(tuple([name for name, _ in pairs]), texts, warned)
            results = {}
        else:
            return


def signature(call: ToolCall) -> str:
    """Equal for calls of the same tool with the same arguments."""
    try:
        text = json.dumps(thaw(dict(call.arguments)), sort_keys=True, default=repr)
    except (TypeError, ValueError):  # keys that JSON doesn't know or can't put in order
        text = repr(call.arguments)
    return f"{call.name} {text}"


def loop_warning(call: ToolCall, times: int) -> ToolResult:
    """Instead of running a call once more that has given the same result again and again."""
    return ToolResult(
        tool_call_id=call.id,
        name=call.name,
        error=(
            f"{_WARNING} gave the same result {times} times in a row. Use what you have,"
            " try something else, or answer."
        ),
    )
