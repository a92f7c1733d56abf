"""Type hints and docstrings become the JSON schema that a model is given, and its answer the right Python values."""

import dataclasses
import datetime as dt
import enum
import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from holdfast.errors import InvalidInput
from holdfast.tools import Tool, tool
from holdfast.tools.schema import BadArguments, Parameters


class Unit(enum.Enum):
    CELSIUS = "c"
    KELVIN = "k"


class Address(BaseModel):
    street: str
    zip: str = Field(pattern=r"\d+")


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Options(TypedDict, total=False):
    verbose: bool


class Odd:
    """Not something that JSON has."""


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(Tool.from_function(function).parameters)


def bind(function: Callable[..., Any], **arguments: Any) -> Any:
    """What the function returns for arguments as a model writes them."""
    args, kwargs = Parameters(function, {}).bind(arguments)
    return function(*args, **kwargs)


def test_plain_types_defaults_and_the_unknown() -> None:
    def search(query: str, limit: int = 10, *, exact: bool = False, anything: Any = None) -> None:
        pass

    del search.__annotations__["anything"]

    assert schema(search) == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "exact": {"type": "boolean", "default": False},
            "anything": {"default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_tool_without_parameters_still_has_an_object_with_properties() -> None:
    def ping() -> None:
        pass

    assert schema(ping) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_annotated_descriptions_and_limits_lead_the_docstring() -> None:
    def add(
        a: Annotated[int, Field(ge=0, description="from the field")],
        b: Annotated[int, "from the text"],
        c: int,
        d: Annotated[int, Field(lt=9)] = 3,
    ) -> None:
        """Add.

        Args:
            a: from the docstring
            b: from the docstring
            c: from the docstring,
                in two lines
            d: from the docstring
        """

    properties = schema(add)["properties"]
    assert properties["a"] == {"type": "integer", "minimum": 0, "description": "from the field"}
    assert properties["b"] == {"type": "integer", "description": "from the text"}
    assert properties["c"] == {"type": "integer", "description": "from the docstring, in two lines"}
    assert properties["d"] == {
        "type": "integer",
        "exclusiveMaximum": 9,
        "default": 3,
        "description": "from the docstring",
    }


@pytest.mark.parametrize(
    "docstring",
    [
        "Do.\n\nArgs:\n    a (int): the first\n",
        "Do.\n\n:param a: the first\n:returns: nothing\n",
        "Do.\n\nParameters\n----------\na : int\n    the first\n",
        "Do.\n\n@param a: the first\n",
    ],
    ids=["google", "rest", "numpy", "epydoc"],
)
def test_every_common_docstring_style_describes_parameters(docstring: str) -> None:
    def do(a: int) -> None: ...

    do.__doc__ = docstring
    made = tool(do)
    assert made.description == "Do."
    assert made.parameters["properties"]["a"]["description"] == "the first"


def test_enums_literals_and_nested_types_are_described_and_built() -> None:
    def visit(
        unit: Unit,
        mode: Literal["walk", "drive"],
        home: Address,
        points: list[Point],
        options: Options,
        tags: dict[str, int] | None = None,
    ) -> tuple[object, ...]:
        return unit, mode, home, points, options, tags

    shape = schema(visit)
    assert shape["properties"]["unit"] == {"$ref": "#/$defs/Unit"}
    assert shape["$defs"]["Unit"]["enum"] == ["c", "k"]
    assert shape["properties"]["mode"]["enum"] == ["walk", "drive"]
    assert shape["$defs"]["Address"]["properties"]["zip"]["pattern"] == r"\d+"
    assert shape["$defs"]["Point"]["required"] == ["x"]
    assert shape["properties"]["tags"]["anyOf"][1] == {"type": "null"}
    assert bind(
        visit,
        unit="k",
        mode="walk",
        home={"street": "Main", "zip": "12"},
        points=[{"x": "1.5"}],
        options={"verbose": True},
        tags={"a": 1},
    ) == (Unit.KELVIN, "walk", Address(street="Main", zip="12"), [Point(1.5)], {"verbose": True}, {"a": 1})


def test_what_a_model_writes_carelessly_is_converted() -> None:
    def take(a: int, b: float, c: bool, d: str, e: dt.date, f: Decimal) -> tuple[object, ...]:
        return a, b, c, d, e, f

    values = bind(take, a="3", b="1.5", c="true", d=12345, e="2024-05-06", f="0.10")
    assert values == (3, 1.5, True, "12345", dt.date(2024, 5, 6), Decimal("0.10"))


def test_types_that_are_strict_still_take_what_json_can_say() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        when: dt.datetime
        unit: Unit

    def take(value: Strict) -> Strict:
        return value

    assert bind(take, value={"when": "2024-01-02T03:04:05Z", "unit": "c"}).unit is Unit.CELSIUS


def test_text_that_utf8_can_not_hold_is_passed_on() -> None:
    def take(text: str = "", anything: Any = None) -> object:
        return anything

    assert bind(take, anything={"list": ["\ud800"]}) == {"list": ["\ud800"]}


def test_a_containers_own_copy_can_be_changed_by_the_tool() -> None:
    def take(anything: Any) -> Any:
        anything["list"].append(2)
        return anything

    assert bind(take, anything={"list": [1]}) == {"list": [1, 2]}


def test_a_default_of_none_makes_a_parameter_optional() -> None:
    none: Any = None

    def take(
        a: int = none, b: int | None = None, c: Annotated[int | None, "text"] = None
    ) -> tuple[object, ...]:
        return a, b, c

    for name in "abc":
        assert schema(take)["properties"][name]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert bind(take, a=None, c="4") == (None, None, 4)


def test_a_default_that_json_can_not_show_is_left_out_and_kept() -> None:
    sentinel = object()

    def take(a: Any = sentinel, b: int = 2) -> tuple[object, int]:
        return a, b

    assert schema(take)["properties"]["a"] == {}
    assert bind(take) == (sentinel, 2)


def test_positional_only_parameters_are_given_by_position() -> None:
    def take(a: int, b: int = 2, c: int = 3, /, d: int = 4) -> tuple[int, ...]:
        return a, b, c, d

    assert bind(take, a=1, c=30) == (1, 2, 30, 4)


def test_names_that_pydantic_reserves_are_fine() -> None:
    def take(_private: int, model_config: int, copy: int, schema: int, p0: int, self: int) -> tuple[int, ...]:
        return _private, model_config, copy, schema, p0, self

    assert bind(take, _private=1, model_config=2, copy=3, schema=4, p0=5, self=6) == (1, 2, 3, 4, 5, 6)


def test_kwargs_take_further_arguments_of_their_type() -> None:
    def take(a: int, **rest: int) -> tuple[int, dict[str, int]]:
        return a, rest

    def take_any(**rest: Any) -> dict[str, Any]:
        return rest

    assert schema(take)["additionalProperties"] == {"type": "integer"}
    assert schema(take_any)["additionalProperties"] is True
    assert bind(take, a=1, p0="7", more=8) == (1, {"p0": 7, "more": 8})
    with pytest.raises(BadArguments, match=r"more: .*integer.*'x'"):
        bind(take, a=1, more="x")


def test_what_is_wrong_is_named_argument_by_argument() -> None:
    def take(city: str, days: Annotated[int, Field(ge=1)], home: Address) -> None:
        pass

    with pytest.raises(BadArguments) as caught:
        bind(take, days=0, home={"street": "x", "zip": "y" * 200}, town="Rome")
    told = str(caught.value)
    assert "city: this argument is missing" in told
    assert "days: Input should be greater than or equal to 1 (got 0)" in told
    assert "home.zip: String should match pattern" in told
    assert "town: there is no such argument" in told
    assert "(the tool's arguments: city, days, home)" in told
    assert len(told) < 500


def test_a_partial_hides_what_it_has_fixed() -> None:
    def send(sender: str, to: str, *, body: str, user_id: str) -> tuple[str, ...]:
        """Send."""
        return sender, to, body, user_id

    fixed = functools.partial(send, "me", user_id="u1")
    assert list(schema(fixed)["properties"]) == ["to", "body"]
    assert bind(fixed, to="you", body="hi") == ("me", "you", "hi", "u1")
    with pytest.raises(BadArguments, match="user_id: there is no such argument"):
        bind(fixed, to="you", body="hi", user_id="u2")


def test_what_no_model_can_give_is_refused_when_the_tool_is_made() -> None:
    def star(*names: str) -> None: ...
    def function(callback: Callable[[], None]) -> None: ...
    def unknown(a: int) -> None: ...
    def field(a: int = Field(3, ge=0)) -> None: ...
    def odd(a: int, thing: Odd) -> None: ...

    unknown.__annotations__["a"] = "Nowhere"

    for bad, complaint in (
        (star, r"'star': parameter \*names: .* take a list"),
        (function, "'function': parameter 'callback': a model can't write"),
        (unknown, "'unknown': parameter 'a': its annotation 'Nowhere' can't be resolved"),
        (field, r"'field': parameter 'a' has a Field\(\) as its default; write Annotated"),
        (odd, "'odd': parameter 'thing': a model can't write a value of the type"),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            tool(bad)


def test_the_schema_is_read_only() -> None:
    def take(a: int) -> None: ...

    with pytest.raises(TypeError, match="read-only"):
        tool(take).parameters["properties"]["a"]["type"] = "string"
