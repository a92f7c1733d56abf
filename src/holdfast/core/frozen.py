"""Read-only containers.

`freeze` turns a tree of dicts and lists into one that can't be changed; `thaw` gives a plain, mutable
copy back. Frozen containers equal their plain counterparts, print to JSON, copy and pickle.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

from holdfast.core.errors import InvalidInput

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(
        f"this {type(self).__name__} is read-only; change a copy made with holdfast.core.frozen.thaw()"
    )


class FrozenDict(dict[K, V]):
    """A dict that refuses every change. `.copy()` and `|` give plain dicts."""

    __slots__ = ()

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse
    clear = _refuse
    pop = _refuse
    popitem = _refuse
    setdefault = _refuse
    update = _refuse

    def __copy__(self) -> FrozenDict[K, V]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict[K, V]:
        return FrozenDict({key: copy.deepcopy(item, memo) for key, item in self.items()})

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))

    def __repr__(self) -> str:
        return f"FrozenDict({dict.__repr__(self)})"


class FrozenList(list[V]):
    """A list that refuses every change. `.copy()`, slices and `+` give plain lists."""

    __slots__ = ()

    __setitem__ = _refuse
    __delitem__ = _refuse
    __iadd__ = _refuse
    __imul__ = _refuse
    append = _refuse
    clear = _refuse
    extend = _refuse
    insert = _refuse
    pop = _refuse
    remove = _refuse
    reverse = _refuse
    sort = _refuse

    def __copy__(self) -> FrozenList[V]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenList[V]:
        return FrozenList([copy.deepcopy(item, memo) for item in self])

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (FrozenList, (list(self),))

    def __repr__(self) -> str:
        return f"FrozenList({list.__repr__(self)})"


EMPTY: Final[FrozenDict[str, Any]] = FrozenDict()
_LEAVES: Final = frozenset({str, int, float, bool, type(None), bytes, FrozenDict, FrozenList})


def freeze(value: Any) -> Any:
    """`value` with every dict, list, set and bytearray in it replaced by a read-only one, at any depth.

    Tuples are frozen element by element; a FrozenDict or FrozenList is returned as it is, and so is every
    object of another class. A set becomes a frozenset and a bytearray bytes, which `thaw` leaves alone.
    """
    try:
        return _freeze(value)
    except RecursionError:
        raise InvalidInput(
            f"the {type(value).__name__} refers to itself or is nested too deeply; give a finite tree"
        ) from None


def _freeze(value: Any) -> Any:
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is dict:
        return FrozenDict({key: _freeze(item) for key, item in value.items()})
    if kind is list:
        return FrozenList([_freeze(item) for item in value])
    if kind is tuple:
        return tuple([_freeze(item) for item in value])
    if kind is set:
        return frozenset(value)
    if kind is bytearray:
        return bytes(value)
    return value


def freeze_mapping(value: Mapping[str, Any]) -> FrozenDict[str, Any]:
    """A deeply frozen dict with the items of any mapping whose keys are strings, else `InvalidInput`."""
    if type(value) is FrozenDict:
        frozen: FrozenDict[str, Any] = value
    elif isinstance(value, Mapping):
        frozen = freeze(dict(value)) if value else EMPTY
    else:
        raise InvalidInput(f"expected a mapping with string keys, got {type(value).__name__}; give a dict")
    for key in frozen:
        if not isinstance(key, str):
            raise InvalidInput(
                f"expected a mapping with string keys, got the key {key!r} ({type(key).__name__}); "
                "use str(key)"
            )
    return frozen


def thaw(value: Any) -> Any:
    """A deep copy of `value` in which dicts, lists and tuples are plain ones; other objects are shared."""
    if isinstance(value, dict) and type(value) in (dict, FrozenDict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list) and type(value) in (list, FrozenList):
        return [thaw(item) for item in value]
    if type(value) is tuple:
        return tuple([thaw(item) for item in value])
    return value
