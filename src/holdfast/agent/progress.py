"""How far a turn has come, read off a thread's state alone: what a new process needs to go on with it.

The turn's own record is one item of the state's metadata; all else is in the messages.
"""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Final

from holdfast.agent.result import ExecutionMetrics
from holdfast.core.clock import to_us
from holdfast.core.messages import Message, Role, ToolCall, ToolResult
from holdfast.core.state import AgentState

__all__ = [
    "FOLLOW",
    "OPEN",
    "TURN",
    "WAITING",
    "Debt",
    "Turn",
    "answer_of",
    "before_turn",
    "debts",
    "fold",
    "owing",
    "started_at",
    "turn_of",
    "unanswered",
    "unfinished",
]

TURN: Final = "holdfast.turn"
"""Where the record is kept in the state's metadata."""

FOLLOW: Final = "holdfast.follow"
"""In the state's metadata: the thread was rewound, and it is not known whether its memories have followed."""

OPEN: Final = "open"
WAITING: Final = "approval"
ABANDONED: Final = "abandoned"


@dataclass(frozen=True, slots=True)
class Debt:
    """A turn that the memory may not have heard of: its run, its messages, where and when it ended."""

    run_id: str
    first: int
    end: int
    checkpoint: str | None = None
    at_us: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: the thread's totals when it began, and its status: open, waiting for approval, or why it ended.

    ``learns``: a memory is to hear of it when it is over. ``owed`` are earlier turns of which none has heard.
    """

    run_id: str
    status: str = OPEN
    messages: int = 0
    iteration: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    executions: int = 0
    learns: bool = field(default=False, kw_only=True)
    owed: tuple[Debt, ...] = field(default=(), kw_only=True)

    @classmethod
    def begin(cls, state: AgentState) -> "Turn":
        """A turn that starts here."""
        return cls(
            state.run_id,
            OPEN,
            len(state.messages),
            state.iteration,
            state.prompt_tokens,
            state.completion_tokens,
            len(state.tool_executions),
        )

    @classmethod
    def guess(cls, state: AgentState) -> "Turn":
        """The last turn of a state that has no record of it: from its last user message on."""
        return replace(cls.begin(state), messages=started_at(state))

    def mark(self, state: AgentState, status: str) -> AgentState:
        """The state with this turn's record in it."""
        totals = (
            self.messages,
            self.iteration,
            self.prompt_tokens,
            self.completion_tokens,
            self.executions,
        )
        record: dict[str, Any] = {"run": self.run_id, "status": status, "from": totals}
        if self.learns:
            record["learn"] = True
        if self.owed:
            record["owed"] = [astuple(debt) for debt in self.owed]
        return state.with_metadata({TURN: record})

    def metrics(self, state: AgentState, duration_ms: float) -> ExecutionMetrics:
        """What the turn has taken so far."""
        executions = state.tool_executions[self.executions :]
        return ExecutionMetrics(
            iterations=state.iteration - self.iteration,
            tool_calls=len(executions),
            tool_errors=sum(not execution.success for execution in executions),
            prompt_tokens=state.prompt_tokens - self.prompt_tokens,
            completion_tokens=state.completion_tokens - self.completion_tokens,
            duration_ms=duration_ms,
        )


def turn_of(state: AgentState) -> Turn | None:
    """The record of the last turn, if there is one that fits the state: it may have been edited since."""
    record: Any = state.metadata.get(TURN)
    try:
        run_id, status, totals = record["run"], record["status"], tuple(record["from"])
        learns, owed = record.get("learn") is True, tuple([_debt(*debt) for debt in record.get("owed", ())])
        turn = Turn(str(run_id), str(status), *map(int, totals), learns=learns, owed=owed)
    except (LookupError, TypeError, ValueError):
        return None
    fits = turn.messages <= len(state.messages) and turn.executions <= len(state.tool_executions)
    return turn if fits and turn.iteration <= state.iteration else None


def _debt(run_id: Any, first: Any, end: Any, checkpoint: Any, at_us: Any) -> Debt:
    when = None if at_us is None else int(at_us)
    return Debt(str(run_id), int(first), int(end), None if checkpoint is None else str(checkpoint), when)


def debts(state: AgentState, head: str | None) -> tuple[Debt, ...]:
    """The turns up to here that a memory is to hear of, unless it is known that it did. The last one is over."""
    turn = turn_of(state)
    if turn is None:
        return ()
    last = Debt(turn.run_id, turn.messages, len(state.messages), head, to_us(state.updated_at))
    return (*turn.owed, last) if turn.learns else turn.owed


def owing(state: AgentState, owed: Iterable[Debt]) -> AgentState:
    """The state with these debts of its earlier turns and no others."""
    turn = turn_of(state)
    left = tuple([debt for debt in owed if debt.end <= len(state.messages)])
    if turn is None or (not turn.learns and turn.owed == left):
        return state
    over = turn.status not in (OPEN, WAITING)
    return replace(turn, learns=turn.learns and not over, owed=left).mark(state, turn.status)


def unanswered(state: AgentState) -> tuple[ToolCall, ...]:
    """The calls of the last assistant message that have no result yet."""
    answered: set[str | None] = set()
    for message in reversed(state.messages):
        if message.role is Role.TOOL:
            answered.add(message.tool_call_id)
        elif message.role is Role.ASSISTANT:
            return tuple([call for call in message.tool_calls if call.id not in answered])
        else:
            break
    return ()


def unfinished(state: AgentState) -> bool:
    """Whether the thread stands in the middle of a turn: its last message asks for an answer, and no turn's record
    says that it was ended there."""
    if not state.messages or state.messages[-1].role is Role.SYSTEM:
        return False
    last = state.messages[-1]
    if last.role is Role.ASSISTANT and not last.tool_calls:
        return False
    if unanswered(state):
        return True
    turn = turn_of(state)
    return turn is None or turn.status in (OPEN, WAITING)


def before_turn(state: AgentState) -> AgentState:
    """The state without the messages of its last turn, as if that had not been asked. What it took still counts."""
    turn = turn_of(state)
    start = started_at(state) if turn is None else turn.messages
    notes = {key: value for key, value in state.metadata.items() if key != TURN}
    rest = state.model_copy(update={"messages": state.messages[:start], "metadata": notes})
    # The turn before is over, be it by an answer or by a limit: without a record it might count as unfinished.
    over = replace(Turn.guess(rest), owed=() if turn is None else turn.owed)
    return over.mark(rest, ABANDONED) if rest.messages else rest


def started_at(state: AgentState) -> int:
    """The place of the last user message: where a turn began that no agent recorded."""
    places = range(len(state.messages) - 1, -1, -1)
    return next((place for place in places if state.messages[place].role is Role.USER), 0)


def fold(state: AgentState, results: Iterable[tuple[ToolCall, ToolResult]]) -> AgentState:
    """The state with these results as messages and executions."""
    pairs = list(results)
    state = state.with_messages([Message.tool(result) for _, result in pairs])
    for call, result in pairs:
        state = state.with_tool_execution(result, call)
    return state


def answer_of(messages: Iterable[Message]) -> str:
    """The text of the last thing that the assistant said, or nothing."""
    for message in reversed(tuple(messages)):
        if message.role is Role.ASSISTANT and message.content:
            return message.content
    return ""


def stored_result(result: ToolResult) -> dict[str, Any]:
    """A result as a pending write."""
    return {"content": result.content, "error": result.error, "duration_ms": result.duration_ms}


def read_result(call: ToolCall, value: Mapping[str, Any]) -> ToolResult:
    """The result that `stored_result` made `value` of."""
    return ToolResult(tool_call_id=call.id, name=call.name, **value)


def outcome_unknown(call: ToolCall) -> ToolResult:
    """The result of a call that was running when its process stopped."""
    return ToolResult(
        tool_call_id=call.id,
        name=call.name,
        error=(
            "the outcome of this call is unknown: the process was stopped while the tool ran. It may have taken"
            " effect, wholly, in part or not at all. It was not run again. Find out before you repeat it."
        ),
    )


def not_approved(call: ToolCall, reason: str) -> ToolResult:
    """The result of a call that was not allowed to run."""
    return ToolResult(tool_call_id=call.id, name=call.name, error=f"the call was not approved: {reason}")
