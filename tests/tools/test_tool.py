"""A tool is still the function that it was made of, and says what it is."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any, assert_type

import pytest

from holdfast.core.messages import ToolCall, ToolResult
from holdfast.errors import InvalidInput
from holdfast.tools import Tool, tool


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers,
    as in school.

    More about it.
    """
    return a + b


@tool(name="fetch-page", description="Fetch.", idempotent=True, timeout=2, retries=3, requires_approval=True)
async def fetch(url: str) -> bytes:
    """Not this one."""
    return url.encode()


class Counter:
    """Counts."""

    def __init__(self, start: int) -> None:
        self.count = start

    def bump(self, by: int = 1) -> int:
        """Count up."""
        self.count += by
        return self.count

    @tool
    def drop(self, by: int = 1) -> int:
        """Count down."""
        self.count -= by
        return self.count

    async def __call__(self, to: int) -> int:
        """Count to a number."""
        self.count = to
        return self.count


def run(made: Tool[..., Any], **arguments: Any) -> ToolResult:
    return asyncio.run(made.run(ToolCall(name=made.name, arguments=arguments)))


def test_a_tool_is_called_as_the_function_and_keeps_its_types() -> None:
    assert_type(add(1, b=3), int)
    assert add(1, b=3) == 4
    assert asyncio.run(fetch("x")) == b"x"
    with pytest.raises(TypeError):
        add("1")  # type: ignore[arg-type]  # the type checker knows the signature: mypy fails if it doesn't


def test_a_tool_keeps_what_the_function_says_of_itself() -> None:
    assert add.__name__ == "add"
    assert str(add.__doc__).startswith("Add two numbers")
    assert add.__module__ == __name__
    assert str(inspect.signature(add)) == "(a: int, b: int = 2) -> int"
    assert add.__wrapped__(1, 1) == 2
    assert repr(add) == "<Tool add(a, b)>"


def test_names_and_descriptions_come_from_the_function_unless_given() -> None:
    assert (add.name, add.description) == ("add", "Add two numbers, as in school.")
    assert (fetch.name, fetch.description) == ("fetch-page", "Fetch.")
    assert (fetch.idempotent, fetch.timeout, fetch.retries, fetch.requires_approval) == (True, 2, 3, True)
    assert (add.idempotent, add.timeout, add.retries, add.requires_approval) == (False, None, 0, False)

    @tool
    def bare() -> None: ...

    assert bare.description == ""


def test_bound_methods_partials_and_callable_objects_are_tools_too() -> None:
    counter = Counter(1)
    bump = tool(counter.bump)
    assert (bump.name, bump.description, list(bump.parameters["properties"])) == ("bump", "Count up.", ["by"])
    assert run(bump, by="4").content == "5"
    by_ten = Tool.from_function(functools.partial(counter.bump, 10), name="by_ten")
    assert (by_ten.__name__, by_ten.description, by_ten.parameters["properties"]) == ("bump", "Count up.", {})
    assert run(by_ten).content == "15"
    whole = tool(counter)
    assert (whole.name, whole.description) == ("Counter", "Count to a number.")
    assert run(whole, to=7).content == "7"


def test_a_method_made_a_tool_in_its_class_is_bound_to_each_instance() -> None:
    one, two = Counter(1), Counter(100)
    assert list(Counter.drop.parameters["properties"]) == ["by"]
    assert_type(one.drop(), int)
    assert (one.count, two.drop(by=2), two.count) == (0, 98, 98)
    assert run(two.drop, by=8).content == "90"
    assert one.count == 0
    assert repr(one.drop) == "<Tool drop(by)>"


def test_a_closure_keeps_its_variables() -> None:
    seen: list[str] = []

    @tool
    def record(fact: str) -> str:
        seen.append(fact)
        return f"#{len(seen)}"

    assert run(record, fact="x").content == "#1"
    assert seen == ["x"]


def test_a_decorated_function_shows_the_inner_parameters() -> None:
    def loud(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> str:
            return function(*args, **kwargs).upper()

        return wrapper

    @tool
    @loud
    def greet(name: str) -> str:
        return f"hi {name}"

    @tool
    @functools.lru_cache
    def cached(name: str) -> str:
        return f"hi {name}"

    assert run(greet, name="bob").content == "HI BOB"
    assert run(cached, name="bob").content == "hi bob"


def test_a_static_method_can_be_a_tool() -> None:
    class Box:
        @tool
        @staticmethod
        def twice(n: int) -> int:
            return 2 * n

    assert run(Box().twice, n=2).content == "4"


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "naïve", "a\n"])
def test_a_name_that_some_provider_refuses_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"name: .* can't be a tool's name"):
        tool(name=name)(lambda: None)


def test_bad_options_are_refused_by_name() -> None:
    def do() -> None: ...

    def generate() -> Any:
        yield 1

    async def agenerate() -> Any:
        yield 1

    options: list[tuple[dict[str, Any], str]] = [
        ({"name": 3}, "name must be a string, got int"),
        ({"description": 3}, "description must be a string, got int"),
        ({"idempotent": "yes"}, "idempotent must be True or False, got str"),
        ({"requires_approval": None}, "requires_approval must be True or False, got NoneType"),
        ({"timeout": 0}, "timeout must be more than 0 seconds, got 0"),
        ({"timeout": float("inf")}, "timeout must be more than 0 seconds, got inf"),
        ({"timeout": "2"}, "timeout must be seconds or None, got str"),
        ({"retries": -1, "idempotent": True}, "retries must be 0 or more, got -1"),
        ({"retries": True, "idempotent": True}, "retries must be a number, got bool"),
        ({"retries": 1}, "retries: only a tool that may run twice can be tried again; add idempotent=True"),
    ]
    for given, complaint in options:
        with pytest.raises(InvalidInput, match=complaint):
            tool(do, **given)
    bads: list[tuple[Any, str]] = [
        (3, "a tool is made of a function, got int"),
        (lambda: None, "give name="),
        (add, "<Tool add.* is a tool already"),
        (generate, "is a generator; a tool returns one value"),
        (agenerate, "is a generator; a tool returns one value"),
    ]
    for bad, complaint in bads:
        with pytest.raises(InvalidInput, match=complaint):
            Tool.from_function(bad)
