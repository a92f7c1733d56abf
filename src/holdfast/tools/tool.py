"""`@tool`: a function that a model can call, and that stays a function."""

import copy
import dataclasses
import functools
import inspect
import math
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, overload

from holdfast.core.errors import InvalidInput
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.tools.docstrings import read_docstring
from holdfast.tools.running import Runner
from holdfast.tools.schema import Parameters, called, is_method

__all__ = ["Tool", "tool"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Tool(Generic[P, R]):
    """A function with a name, a description and a JSON schema of its parameters. Calling it calls the function.

    ``parameters`` is a JSON schema of an object, read-only. ``requires_approval`` asks the agent to wait for a
    person before it runs the tool.
    """

    name: Final[str]
    description: Final[str]
    parameters: Final[Mapping[str, Any]]
    idempotent: Final[bool]
    timeout: Final[float | None]
    retries: Final[int]
    requires_approval: Final[bool]
    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
        retries: int = 0,
        requires_approval: bool = False,
    ) -> None:
        """See `tool`, which takes the same options."""
        own_name, doc = _own_name_and_doc(function)
        docs = read_docstring(doc)
        self.name = _checked_name(name, own_name)
        self.description = docs.summary if description is None else _checked_text(description)
        self.idempotent = _flag("idempotent", idempotent)
        self.requires_approval = _flag("requires_approval", requires_approval)
        self.timeout = _checked_timeout(timeout)
        self.retries = _checked_retries(retries, idempotent=idempotent)
        try:
            parameters = Parameters(function, docs.parameters)
        except InvalidInput as error:
            raise InvalidInput(f"tool {self.name!r}: {error}") from error
        self.parameters = parameters.schema
        functools.update_wrapper(self, function, updated=())
        self.__name__ = own_name
        self.__doc__ = doc
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called(function))
        self._runner = Runner(function, parameters, is_async, self.timeout, self.retries)

    @classmethod
    def from_function(
        cls,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
        retries: int = 0,
        requires_approval: bool = False,
    ) -> "Tool[P, R]":
        """The tool of a function. See `tool`."""
        return Tool(
            function,
            name=name,
            description=description,
            idempotent=idempotent,
            timeout=timeout,
            retries=retries,
            requires_approval=requires_approval,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    async def run(self, call: ToolCall) -> ToolResult:
        """Run the tool for a model's call. Its failures are results: `error` tells a model what it can act on.

        Raises only if the caller is cancelled, or for what must end the process, such as `KeyboardInterrupt`. A
        blocking function runs in a thread with the caller's context variables; after a time-out or a cancellation
        it goes on there, and what it returns is dropped.
        """
        return await self._runner.run(call)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: "Tool[Concatenate[Any, Q], R]", instance: object, owner: type | None = None
    ) -> "Tool[Q, R]": ...

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """A method that was made a tool in its class is, taken from an instance, a tool bound to that instance."""
        if instance is None or not is_method(self.__wrapped__):
            return self
        bound = copy.copy(self)
        bound.__wrapped__ = types.MethodType(self.__wrapped__, instance)
        bound._runner = dataclasses.replace(self._runner, function=bound.__wrapped__)
        return bound

    def __repr__(self) -> str:
        return f"<Tool {self.name}({', '.join(self.parameters['properties'])})>"


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    requires_approval: bool = False,
) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    requires_approval: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    requires_approval: bool = False,
) -> Any:
    """Make a function a tool, as ``@tool`` or ``@tool(...)``. It can be plain or async, a closure or a method.

    Type hints become the JSON schema of its parameters; the docstring describes it and them, and so does
    ``Annotated[int, "text"]`` or ``Annotated[int, Field(description="text", ge=0)]``.

    - ``name`` and ``description``: else the function's name and the summary of its docstring.
    - ``idempotent``: running it twice does no harm. Only then is it run again after a crash, or tried again.
    - ``timeout``: seconds, each try. ``retries``: how often it is tried again after an exception or a time-out.
    - ``requires_approval``: an agent asks a person first.
    """
    options: dict[str, Any] = {
        "name": name,
        "description": description,
        "idempotent": idempotent,
        "timeout": timeout,
        "retries": retries,
        "requires_approval": requires_approval,
    }
    if function is None:
        return lambda function: Tool(function, **options)
    return Tool(function, **options)


def _own_name_and_doc(function: Callable[..., Any]) -> tuple[str, str | None]:
    """What the function calls itself and says of itself; `InvalidInput` if it is none that a tool can be made of."""
    if isinstance(function, Tool):
        raise InvalidInput(f"{function!r} is a tool already")
    if not callable(function):
        raise InvalidInput(f"a tool is made of a function, got {type(function).__name__}")
    inner = called(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise InvalidInput(f"{function!r} is a generator; a tool returns one value, such as a list")
    name = getattr(inner, "__name__", None)
    if name in {None, "__call__"}:
        name = type(function).__name__
    doc = inner.__doc__
    if doc is None and not isinstance(function, functools.partial):  # a partial's is about partials
        doc = function.__doc__
    return str(name), doc


def _checked_name(name: str | None, own: str) -> str:
    chosen = own if name is None else name
    if not isinstance(chosen, str):
        raise InvalidInput(f"name must be a string, got {type(chosen).__name__}")
    if not _NAME.fullmatch(chosen):
        raise InvalidInput(
            f"name: {chosen!r} can't be a tool's name, which has 1 to 64 letters, digits, '_' or '-'; give name="
        )
    return chosen


def _checked_text(description: str) -> str:
    if not isinstance(description, str):
        raise InvalidInput(f"description must be a string, got {type(description).__name__}")
    return description


def _flag(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, got {type(value).__name__}")
    return value


def _checked_timeout(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise InvalidInput(f"timeout must be seconds or None, got {type(timeout).__name__}")
    if not (math.isfinite(timeout) and timeout > 0):
        raise InvalidInput(f"timeout must be more than 0 seconds, got {timeout}; None means no limit")
    return timeout


def _checked_retries(retries: int, *, idempotent: bool) -> int:
    if isinstance(retries, bool) or not isinstance(retries, int):
        raise InvalidInput(f"retries must be a number, got {type(retries).__name__}")
    if retries < 0:
        raise InvalidInput(f"retries must be 0 or more, got {retries}")
    if retries and not idempotent:
        raise InvalidInput("retries: only a tool that may run twice can be tried again; add idempotent=True")
    return retries
