"""Lists that are decoded where somebody looks: as a tuple in every way but that."""

import copy
import operator
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from holdfast.core.errors import Corrupt
from holdfast.core.messages import Message, encode_message
from holdfast.core.sequences import BLOCK, LazySequence, Lines, joined
from holdfast.core.state import AgentState, decode_state, encode_head


class Counting:
    """Decodes numbers, and notes which."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, texts: Sequence[str], start: int) -> list[int]:
        self.seen += range(start, start + len(texts))
        return [int(text) for text in texts]


def lazy(length: int) -> tuple[LazySequence[int], Counting]:
    decode = Counting()
    return LazySequence([str(number) for number in range(length)], decode), decode


INDEXES = st.one_of(st.none(), st.integers(-400, 400))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("cut"), INDEXES, INDEXES),
        st.tuples(st.just("after"), st.integers(0, 3), st.none()),
        st.tuples(st.just("before"), st.integers(0, 3), st.none()),
    ),
    max_size=6,
)


@given(st.integers(0, 300), STEPS, st.lists(INDEXES, max_size=4))
def test_whatever_is_done_to_it_it_is_what_a_tuple_would_be(
    length: int, steps: list[Any], looks: list[int | None]
) -> None:
    found: Sequence[int] = lazy(length)[0]
    expected = tuple(range(length))
    for kind, one, other in steps:
        if kind == "cut":
            found, expected = found[one:other], expected[one:other]
        elif kind == "after":
            found, expected = joined(found, (-1,) * one), expected + (-1,) * one
        else:
            found, expected = joined((-2,) * one, found), (-2,) * one + expected
        for place in looks:
            if place is not None and -len(expected) <= place < len(expected):
                assert found[place] == expected[place]
    assert len(found) == len(expected)
    assert found == expected
    assert expected == found
    assert hash(found) == hash(expected)
    assert [*found] == [*expected]
    assert [*reversed(found)] == [*reversed(expected)]
    assert found[::-3] == expected[::-3]
    assert (5 in found, repr(found)) == (5 in expected, repr(expected))
    assert found != (*expected, 0)
    assert not operator.eq(found, [*expected])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=5), INDEXES, INDEXES)
def test_lines_are_those_of_their_texts(
    shape: list[tuple[int, int]], start: int | None, end: int | None
) -> None:
    texts = [[f"{at}.{line}" for line in range(count + more)] for at, (more, count) in enumerate(shape)]
    lines = Lines(("\n".join(text).encode(), count) for text, (_, count) in zip(texts, shape, strict=True))
    expected = [line for text, (_, count) in zip(texts, shape, strict=True) for line in text[:count]]
    assert lines[start:end] == expected[start:end]
    assert [*lines] == expected
    assert [lines[place] for place in range(-len(expected), len(expected))] == expected * 2
    assert lines[::2] == expected[::2]
    with pytest.raises(IndexError):
        lines[len(expected)]


def test_only_what_is_looked_at_is_decoded_and_only_once() -> None:
    found, decode = lazy(1_000)
    assert (len(found), decode.seen) == (1_000, [])
    longer = joined(("first",), found, (1_000,))
    assert longer[-1] == 1_000
    assert decode.seen == []
    assert longer[-2] == 999
    assert decode.seen == [*range(960, 1_000)]
    assert found[970:] == tuple(range(970, 1_000))
    rest = found[100:]
    assert len(rest) == 900
    assert len(decode.seen) == 40
    assert sum(found) == sum(range(1_000))
    assert sorted(decode.seen) == [*range(1_000)]
    assert (rest[0], sum(rest)) == (100, sum(range(100, 1_000)))
    assert len(decode.seen) == 1_000


def test_sequences_of_one_origin_are_compared_without_a_look() -> None:
    found, decode = lazy(1_000)
    longer = joined(found, (1, 2))
    assert isinstance(longer, LazySequence)
    assert longer.begins_with(found) is True
    assert longer.begins_with(joined(found, (1,))) is True
    assert longer.begins_with(joined(found, (2,))) is False
    assert longer == joined(found, (1, 2))
    assert decode.seen == []
    assert longer.begins_with(lazy(1_000)[0]) is None
    assert longer != lazy(1_002)[0]


def test_copies_and_other_libraries_get_a_plain_tuple() -> None:
    class Model(BaseModel):
        numbers: tuple[int, ...]

    found, _ = lazy(300)
    plain = tuple(range(300))
    assert pickle.loads(pickle.dumps(found)) == plain
    assert isinstance(copy.deepcopy([found])[0], tuple)
    assert copy.copy(found) is found
    assert Model.model_validate({"numbers": found}).numbers == plain
    assert TypeAdapter(list[int]).validate_python(found) == [*plain]
    with pytest.raises(TypeError):
        operator.add(found, [1])  # as a tuple does
    with pytest.raises(IndexError):
        found[300]


def test_threads_that_look_at_one_element_get_one_object() -> None:
    texts = [encode_message(Message.user(str(n))) for n in range(500)]
    state = decode_state(encode_head(AgentState()), {"messages": texts}, lazily_at="here")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: state.messages[n % 500], range(4_000)))
    assert len({id(message) for message in found}) == 500


def test_a_short_list_is_decoded_at_once_and_a_long_one_where_it_is_damaged() -> None:
    head = encode_head(AgentState())
    texts = [encode_message(Message.user("x"))] * (2 * BLOCK) + ['{"role": "nobody"}']
    with pytest.raises(Corrupt, match=rf"messages\[{2 * BLOCK}\]"):
        decode_state(head, {"messages": texts})
    state = decode_state(head, {"messages": texts}, lazily_at="checkpoint 'c1'")
    assert state.messages[0].content == "x"
    for look in (
        lambda: state.messages[-1],
        lambda: [*state.messages],
        state.to_checkpoint,
    ):
        with pytest.raises(Corrupt, match="checkpoint 'c1'") as raised:
            look()
        assert raised.value.place == f"checkpoint 'c1', messages[{2 * BLOCK}]"
    with pytest.raises(Corrupt):
        decode_state(head, {"messages": texts[-3:]}, lazily_at="checkpoint 'c1'")


def test_a_long_loaded_state_is_like_any_other() -> None:
    made = AgentState().with_messages(Message.user(str(n)) for n in range(500))
    texts = [encode_message(message) for message in made.messages]
    state = decode_state(encode_head(made), {"messages": texts}, lazily_at="here")
    assert isinstance(state.messages, LazySequence)
    assert state == made
    assert state.model_dump() == made.model_dump()
    assert state.model_dump_json() == made.model_dump_json()
    assert AgentState.model_validate(state.model_dump()) == made
    assert pickle.loads(pickle.dumps(state)) == made
    assert copy.deepcopy(state) == made
    assert state.with_message(Message.user("x")).messages == (*made.messages, Message.user("x"))
    shorter = state.model_copy(update={"messages": state.messages[:400]})
    assert shorter == made.model_copy(update={"messages": made.messages[:400]})
    assert AgentState.model_json_schema() == AgentState.model_json_schema(mode="validation")
    assert AgentState.model_json_schema()["properties"]["messages"]["type"] == "array"
