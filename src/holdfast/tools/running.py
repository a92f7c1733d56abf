"""Running a tool for a model: whatever happens becomes a result that the model can act on."""

import asyncio
import functools
import inspect
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from holdfast.core.messages import INVALID_ARGUMENTS, ToolCall, ToolResult, as_text
from holdfast.tools.schema import BadArguments, Parameters
from holdfast.tools.threads import Job, Outcome, tool_threads

log = logging.getLogger("holdfast.tools")

BACKOFF_SECONDS: Final = 0.1
MAX_BACKOFF_SECONDS: Final = 10.0

_SHOWN: Final = 500  # characters of malformed arguments that an error repeats
_LEAVES: Final = 3  # errors of a group that are told


@dataclass(frozen=True, slots=True)
class Runner:
    """Calls one function as its tool's options say."""

    function: Callable[..., Any]
    parameters: Parameters
    is_async: bool
    timeout: float | None
    retries: int

    async def run(self, call: ToolCall) -> ToolResult:
        """See `Tool.run`."""
        begun = time.perf_counter()
        content, error = await self._answer(call)
        duration = round((time.perf_counter() - begun) * 1000, 3)
        return ToolResult(
            tool_call_id=call.id, name=call.name, content=content, error=error, duration_ms=duration
        )

    async def _answer(self, call: ToolCall) -> tuple[str, str | None]:
        """The result's content and error."""
        if len(call.arguments) == 1 and INVALID_ARGUMENTS in call.arguments:
            return "", not_an_object(call.arguments[INVALID_ARGUMENTS])
        try:
            args, kwargs = self.parameters.bind(call.arguments)
        except BadArguments as error:
            return "", f"invalid arguments: {error}"
        except Exception as error:  # a validator of the user's own
            return "", f"invalid arguments: {_told(error, call)}"
        work = functools.partial(self.function, *args, **kwargs)
        for attempt in range(self.retries + 1):
            if attempt:
                await asyncio.sleep(min(BACKOFF_SECONDS * 2 ** (attempt - 1), MAX_BACKOFF_SECONDS))
            content, error_text = await self._attempt(work, call)
            if error_text is None:
                return content, None
        return "", f"{error_text} (after {attempt + 1} attempts)" if attempt else error_text

    async def _attempt(self, work: Callable[[], Any], call: ToolCall) -> tuple[str, str | None]:
        """One try: text, or an error. Only a cancellation of the caller, and what must end the process, is raised."""
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        job = None if self.is_async else Job(functools.partial(_call_and_write, work))
        scope = asyncio.timeout(self.timeout)
        try:
            async with scope:
                outcome = await (_awaited(work) if job is None else _threaded(job))
        except TimeoutError:  # the scope's own: those of the tool are in the outcome
            if job is not None and not job.started:
                return "", f"timed out after {self.timeout:g} s, before it began: too many tools are running"
            return "", f"timed out after {self.timeout:g} s; its effect is unknown"
        if task and task.cancelling() > before:  # the tool has caught what was meant for its caller
            raise asyncio.CancelledError
        if outcome.error is None:
            return outcome.value, None
        if not isinstance(outcome.error, Exception | asyncio.CancelledError):
            raise outcome.error
        return "", _told(outcome.error, call)


async def _awaited(work: Callable[[], Any]) -> Outcome:
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        return Outcome(value=write(await work()))
    except asyncio.CancelledError as error:
        if task and task.cancelling() > before:
            raise
        return Outcome(error=error)  # raised by the tool itself
    except Exception as error:
        return Outcome(error=error)


async def _threaded(job: Job) -> Outcome:
    try:
        outcome = await tool_threads().run(job)
    except RuntimeError as error:  # no thread is to be had
        return Outcome(error=error)
    if inspect.isawaitable(outcome.value):  # a plain function that calls a coroutine function
        return await _awaited(lambda: outcome.value)
    return outcome


def _call_and_write(work: Callable[[], Any]) -> Any:
    value = work()
    return value if inspect.isawaitable(value) else write(value)


def write(value: Any) -> str:
    """A tool's output as text: a string as it is, None as "", anything else as JSON where it has one. Never fails."""
    if value is None:
        return ""
    if isinstance(value, str):
        return str(value)
    try:
        return to_json(value).decode()
    except Exception:  # no JSON form, or a broken object
        log.debug("a tool's output has no plain JSON form", exc_info=True)
    try:
        return as_text(value)
    except Exception as error:
        return f"<{type(value).__name__}, which can't be shown: {type(error).__name__}>"


def not_an_object(raw: Any) -> str:
    """What to answer to arguments that are no JSON object, given as the model wrote them."""
    text = as_text(raw)
    try:
        reason = f"they are {_KINDS.get(type(json.loads(text)), 'another value')}"
    except ValueError as error:
        reason = str(error)
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return f"the arguments are not a JSON object ({reason}): {shown}\nCall the tool again with a JSON object."


_KINDS: Final[Mapping[type, str]] = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _told(error: BaseException, call: ToolCall) -> str:
    log.debug("tool %r failed (call %s)", call.name, call.id, exc_info=error)
    return describe(error)


def describe(error: BaseException) -> str:
    """An exception's type and message. The leaves of a group are told, as its own message says nothing."""
    try:
        text = str(error)
    except Exception:  # a broken __str__ must not hide that the tool failed
        text = ""
    if isinstance(error, BaseExceptionGroup):
        leaves = [describe(leaf) for leaf in error.exceptions[:_LEAVES]]
        text = f"{error.message}: {'; '.join(leaves)}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
