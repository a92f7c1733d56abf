"""The codec: what goes in comes out with its type, and what can't be stored is refused by path."""

import enum
import json
import math
import sys
import uuid
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from holdfast.core import codec
from holdfast.core.errors import Corrupt, InvalidInput
from holdfast.core.frozen import freeze


@codec.register
class Colour(enum.Enum):
    RED = 1
    CRIMSON = 1  # noqa: PIE796 - an alias is what is tested
    BLUE = 2


@codec.register(name="test.Level")
class Level(enum.IntEnum):
    LOW = 1


@codec.register
class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@codec.register
@dataclass
class Point:
    x: int
    y: Any = None
    tags: list[str] = field(default_factory=list)
    norm: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.norm = float(self.x) * 2


@codec.register
@dataclass(frozen=True, slots=True)
class Slim:
    when: datetime


@codec.register
class Person(BaseModel):
    name: str
    born: date | None = None
    extra_name: str = Field(default="x", alias="extraName")
    best: "Person | None" = None


@codec.register
class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0


class Unknown(enum.Enum):
    A = "a"


class Name(str):
    __slots__ = ()


class Pair(NamedTuple):
    a: int
    b: int


def through(value: Any) -> Any:
    return codec.loads(codec.dumps(value))


def check(value: Any) -> None:
    again = through(value)
    assert type(again) is type(value)
    assert codec.same(again, value)


SAMPLES: list[Any] = [
    None,
    True,
    0,
    -(10**30),
    10**6000,
    -(10**6000),
    1.5,
    -0.0,
    1e-320,
    sys.float_info.max,
    math.inf,
    -math.inf,
    math.nan,
    "",
    'nul \x00, quote ", newline \n, emoji \U0001f600, lone \ud800',
    "$hf",
    "a pair of surrogates, not one character: \ud83d\ude00\ud83d\ude00",
    {"\ud83d\ude00": "\U0001f600"},
    [],
    {},
    (),
    ((),),
    [1, (2, [3, {4}])],
    set(),
    {1, "a", (2,), None},
    frozenset({frozenset({1}), 2}),
    b"\x00\xff",
    bytearray(b"abc"),
    datetime(2026, 1, 2, 3, 4, 5, 6),
    datetime(2026, 1, 2, tzinfo=UTC),
    datetime(2026, 1, 2, 3, fold=1, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    date(2026, 1, 2),
    time(1, 2, 3, 4),
    time(1, tzinfo=UTC),
    timedelta(days=-1, microseconds=1),
    Decimal("1.10"),
    Decimal("-0"),
    Decimal("NaN"),
    uuid.UUID(int=5),
    Colour.CRIMSON,
    Level.LOW,
    Rights.READ | Rights.WRITE,
    Rights(0),
    Slim(datetime(2026, 1, 1)),
    {1: "a", None: "b", (1, 2): "c", "s": "d", Colour.RED: "e", b"k": "f", 1.5: "g"},
    {"$hf": "datetime", "v": "not one"},
    {"$hf": {"$hf": [{"$hf": None}]}},
    {"deep": [{"when": datetime(2026, 1, 1, tzinfo=UTC), "raw": [b"x", {"$hf": 1}]}]},
]


@pytest.mark.parametrize("value", SAMPLES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    check(value)
    check([value])
    check({"k": value})
    check((value,))


def test_none_of_the_values_of_python_equality_are_confused() -> None:
    assert not codec.same(1, True)
    assert not codec.same(1, 1.0)
    assert not codec.same([1], (1,))
    assert not codec.same({1: 0}, {"1": 0})
    assert codec.same(math.nan, math.nan)
    assert codec.same({1, 2, 30, "x"}, {"x", 30, 2, 1})


def test_plain_json_is_stored_as_plain_json() -> None:
    value = {"a": [1, 2.5, None, True, "é"], "b": {"c": {}}}
    assert codec.dumps(value) == '{"a":[1,2.5,null,true,"é"],"b":{"c":{}}}'
    assert codec.dumps(freeze(value)) == codec.dumps(value)


def test_dict_order_is_kept() -> None:
    assert list(through({"b": 1, "a": 2})) == ["b", "a"]
    assert list(through({2: 1, 1: 2})) == [2, 1]


def test_text_with_lone_surrogates_is_written_so_that_utf8_can_hold_it() -> None:
    codec.dumps(["\ud800", "\U0001f600"]).encode()
    codec.dumps(("\ud800", "\U0001f600")).encode()


def test_dataclasses_come_back_with_every_field() -> None:
    point = Point(1, y=(1, [Colour.BLUE]), tags=["a"])
    point.norm = 7.0
    again = through(point)
    assert again == point
    assert again.norm == 7.0


def test_models_come_back_as_saved_with_aliases_extras_and_unset_fields() -> None:
    person = Person(name="A", born=date(2000, 1, 1), extraName="y", best=Person(name="B"))
    again = through(person)
    assert again == person
    assert again.model_dump(exclude_unset=True) == person.model_dump(exclude_unset=True)
    opened = Open.model_validate({"a": 1, "$hf": [b"x"], "more": (1,)})
    assert through(opened) == opened


@pytest.mark.parametrize(
    ("value", "path", "kind"),
    [
        ({"items": [0, 1, 2, {"when": object()}]}, "value.items[3].when", "object"),
        ([Unknown.A], "value[0]", "Unknown"),
        ({"a b": Name("x")}, "value['a b']", "Name"),
        ({Name("k"): 1}, "value<key 'k'>", "Name"),
        ((Pair(1, 2),), "value[0]", "Pair"),
        ({"p": Point(1, y=Unknown.A)}, "value.p.y", "Unknown"),
        ({"f": len}, "value.f", "builtin_function_or_method"),
    ],
)
def test_what_cant_be_stored_is_refused_by_path_type_and_fix(value: Any, path: str, kind: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        codec.dumps(value)
    message = str(caught.value)
    assert message.startswith(path + " is a ")
    assert kind in message
    assert "holdfast.core.codec.register" in message


def test_the_path_starts_where_the_caller_says() -> None:
    with pytest.raises(InvalidInput, match=r"^state\.metadata\.x is a"):
        codec.dumps({"x": object()}, path="state.metadata")


def test_a_value_that_contains_itself_is_refused() -> None:
    looped: dict[str, Any] = {"a": []}
    looped["a"].append(looped)
    with pytest.raises(InvalidInput, match=r"^value\.a\[0\] refers to itself"):
        codec.dumps(looped)
    twice: list[Any] = []
    twice += [twice, twice, (1,)]
    with pytest.raises(InvalidInput, match="refers to itself"):
        codec.dumps(twice)


def test_the_same_object_in_two_places_is_no_circle() -> None:
    shared = (1, [2])
    check([shared, shared])


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: (x,), lambda x: {1: x}])
def test_depth_is_bounded_and_what_is_accepted_can_be_read(wrap: Any) -> None:
    value: Any = 1
    for _ in range(codec.MAX_DEPTH):
        value = wrap(value)
    check(value)
    for _ in range(2000):
        value = wrap(value)
    with pytest.raises(InvalidInput, match="deeper"):
        codec.dumps(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1",
        "nul",
        '{"a":1}x',
        "NaN",
        "[Infinity]",
        '{"$hf":"unheard","v":1}',
        '{"$hf":null}',
        '{"$hf":["tuple"]}',
        '{"$hf":"tuple"}',
        '{"$hf":"tuple","v":"ab"}',
        '{"$hf":"dict","v":[[1]]}',
        '{"$hf":"dict","v":[[[],1]]}',
        '{"$hf":"datetime","v":"yesterday"}',
        '{"$hf":"datetime","v":5}',
        '{"$hf":"bytes","v":"@@"}',
        '{"$hf":"decimal","v":"x"}',
        '{"$hf":"float","v":"1"}',
        '{"$hf":"timedelta","v":["x"]}',
        '{"$hf":"enum","n":"Colour","v":"GREEN"}',
        '{"$hf":"dataclass","n":"Colour","v":{}}',
        '{"$hf":"dataclass","n":"Point","v":{}}',
        '{"$hf":"dataclass","n":"Point","v":{"x":1,"z":2}}',
        '{"$hf":"model","n":"Person","v":{}}',
        '{"$hf":"model","n":"Person","v":{"name":"a","q":1}}',
        "[" * 100_000,
        "1" * 5000,
    ],
    ids=lambda text: text[:40],
)
def test_damaged_text_is_corrupt_and_names_its_place(text: str) -> None:
    with pytest.raises(Corrupt, match="row 7") as caught:
        codec.loads(text, place="row 7")
    assert caught.value.place == "row 7"


@pytest.mark.parametrize("kind", ["enum", "dataclass", "model", "flag"])
def test_a_stored_name_is_never_imported(kind: str) -> None:
    module = "this"  # its import would print
    sys.modules.pop(module, None)
    text = json.dumps({"$hf": kind, "n": f"{module}.Thing", "v": {}})
    with pytest.raises(InvalidInput, match=r"'this\.Thing', which is not registered.*register\(cls, name="):
        codec.loads(text)
    assert module not in sys.modules


def test_registering_again_changes_nothing_and_a_taken_name_is_refused() -> None:
    assert codec.register(Colour) is Colour
    assert codec.register(Level, "test.Level") is Level
    with pytest.raises(InvalidInput, match="taken by"):
        codec.register(Unknown, "Colour")
    with pytest.raises(InvalidInput, match="is registered as 'Colour'"):
        codec.register(Colour, "Color")
    other: Any = int
    with pytest.raises(InvalidInput, match="enum, a dataclass or a pydantic model"):
        codec.register(other)


def test_a_dataclass_that_could_not_be_rebuilt_is_refused_when_registered() -> None:
    @dataclass
    class Lossy:
        a: int
        seed: InitVar[int]

    with pytest.raises(InvalidInput, match="seed"):
        codec.register(Lossy)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.text(st.characters(categories=["Cs", "Ll"])),
    st.binary(),
    st.datetimes(timezones=st.none() | st.just(UTC)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.sampled_from(["$hf", "v", Colour.RED, Level.LOW]),
)
KEYS = st.one_of(st.text(), st.just("$hf"), st.integers(), st.booleans(), st.none(), st.binary())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.text() | st.just("$hf"), inner),
        st.dictionaries(KEYS | st.tuples(KEYS, KEYS), inner),
        st.frozensets(KEYS),
        st.sets(KEYS),
        inner.map(lambda item: Point(1, y=item)),
    ),
    max_leaves=12,
)


def identical(a: Any, b: Any) -> bool:
    """Equality with types, written without the codec."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return repr(a) == repr(b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, dict):
        return identical(list(a), list(b)) and identical(list(a.values()), list(b.values()))
    if isinstance(a, set | frozenset):
        return {(type(item), item) for item in a} == {(type(item), item) for item in b}
    if isinstance(a, Point):
        return identical(a.y, b.y)
    return bool(a == b)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_any_value_round_trips(value: Any) -> None:
    text = codec.dumps(value)
    text.encode()
    again = codec.loads(text)
    assert identical(again, value)
    assert codec.dumps(again) == text
