"""Frozen containers: equal to plain ones, and closed to change."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.core.frozen import FrozenDict, FrozenList, freeze, freeze_mapping, thaw

TREE = {"a": [1, {"b": [2, 3]}], "t": ([4],), "n": None}

DICT_CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda d: d.__setitem__("x", 1),
    lambda d: d.__delitem__("a"),
    lambda d: d.__ior__({"x": 1}),
    lambda d: d.clear(),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.setdefault("x", 1),
    lambda d: d.update(x=1),
]
LIST_CHANGES: list[Callable[[list[Any]], object]] = [
    lambda x: x.__setitem__(0, 1),
    lambda x: x.__delitem__(0),
    lambda x: x.__iadd__([1]),
    lambda x: x.__imul__(2),
    lambda x: x.append(1),
    lambda x: x.clear(),
    lambda x: x.extend([1]),
    lambda x: x.insert(0, 1),
    lambda x: x.pop(),
    lambda x: x.remove(1),
    lambda x: x.reverse(),
    lambda x: x.sort(),
]


@pytest.mark.parametrize("change", DICT_CHANGES)
def test_a_frozen_dict_refuses_every_change_and_says_what_to_do(
    change: Callable[[dict[str, Any]], object],
) -> None:
    frozen = freeze({"a": 1})
    with pytest.raises(TypeError, match=r"read-only.*thaw"):
        change(frozen)
    assert frozen == {"a": 1}


@pytest.mark.parametrize("change", LIST_CHANGES)
def test_a_frozen_list_refuses_every_change(change: Callable[[list[Any]], object]) -> None:
    frozen = freeze([1])
    with pytest.raises(TypeError, match="read-only"):
        change(frozen)
    assert frozen == [1]


def test_freezing_is_deep_and_keeps_equality() -> None:
    frozen = freeze(TREE)
    assert frozen == TREE
    assert type(frozen["a"][1]["b"]) is FrozenList
    assert type(frozen["t"][0]) is FrozenList
    assert freeze(frozen) is frozen
    assert json.loads(json.dumps(frozen)) == json.loads(json.dumps(TREE))


def test_freezing_copies_so_that_the_original_stays_free() -> None:
    original: dict[str, Any] = {"a": [1]}
    frozen = freeze(original)
    original["a"].append(2)
    assert frozen == {"a": [1]}


def test_sets_and_bytearrays_become_their_immutable_kin() -> None:
    assert type(freeze({1})) is frozenset
    assert type(freeze(bytearray(b"x"))) is bytes


def test_thawing_gives_a_plain_deep_copy() -> None:
    frozen = freeze(TREE)
    thawed = thaw(frozen)
    assert thawed == TREE
    thawed["a"][1]["b"].append(9)
    assert frozen == TREE
    assert type(thawed) is dict
    assert type(thawed["a"]) is list


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles_are_equal_and_still_frozen(through: Callable[[Any], Any]) -> None:
    again = through(freeze(TREE))
    assert again == TREE
    assert type(again) is FrozenDict
    assert type(again["a"]) is FrozenList


def test_a_circular_value_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInput, match="refers to itself"):
        freeze(loop)


def test_a_mapping_needs_string_keys() -> None:
    key: Any = 1
    with pytest.raises(InvalidInput, match="string keys"):
        freeze_mapping({key: 2})
