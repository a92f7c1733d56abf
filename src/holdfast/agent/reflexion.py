"""Confidence that follows how the tools fare, and a hint for the model when they fail."""

from collections.abc import Sequence

from holdfast.core.errors import InvalidInput
from holdfast.core.messages import ToolResult
from holdfast.core.state import AgentState

__all__ = ["Reflexion", "resolve_reflexion"]


class Reflexion:
    """Each success closes a part ``gain`` of the gap to 1, each failure takes a part ``loss`` of what there is.

    So the confidence stays within [0, 1] and every result moves it. After a step in which calls failed, the model
    is also told so, once, with the request to try another way; the hint is not stored in the thread.
    """

    def __init__(self, *, gain: float = 0.25, loss: float = 0.35, hints: bool = True) -> None:
        given: tuple[tuple[str, object], ...] = (("gain", gain), ("loss", loss))
        for name, value in given:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
                raise InvalidInput(f"{name} must be a number above 0, at most 1, got {value!r}")
        self.gain = gain
        self.loss = loss
        self.hints = hints

    def after(self, state: AgentState, results: Sequence[ToolResult]) -> AgentState:
        """The state with the confidence after these results: one entry of its history for each of them."""
        for result in results:
            confidence = state.confidence
            if result.success:
                confidence += (1 - confidence) * self.gain
            else:
                confidence -= confidence * self.loss
            state = state.with_confidence(min(1.0, max(0.0, confidence)))
        return state

    def hint(self, results: Sequence[ToolResult]) -> str | None:
        """What the model should hear after these results."""
        failed = [result for result in results if not result.success]
        if not self.hints or not failed:
            return None
        names = ", ".join(sorted({result.name for result in failed}))
        return (
            f"{len(failed)} of your last {len(results)} tool calls failed ({names}). Before you go on, think about"
            " what went wrong. Correct the arguments or try another way; if there is none, say what is missing."
        )


def resolve_reflexion(value: "bool | Reflexion | None") -> Reflexion | None:
    """``True`` is the default one."""
    if isinstance(value, Reflexion):
        return value
    if value is None or isinstance(value, bool):
        return Reflexion() if value else None
    raise InvalidInput(f"reflexion must be True, False or a Reflexion, got {type(value).__name__}")
