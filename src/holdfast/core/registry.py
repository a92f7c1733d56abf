"""Which enums, dataclasses and pydantic models the codec may write and read, and how they are rebuilt.

A stored name is looked up in this table and nowhere else: reading data never imports anything.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any, TypeVar, overload

from pydantic import BaseModel

from holdfast.core.errors import InvalidInput

C = TypeVar("C", bound=type[Any])

_names: dict[type[Any], str] = {}
_classes: dict[str, type[Any]] = {}


@overload
def register(cls: C, name: str | None = None) -> C: ...


@overload
def register(cls: None = None, name: str | None = None) -> Callable[[C], C]: ...


def register(cls: C | None = None, name: str | None = None) -> C | Callable[[C], C]:
    """Let the codec write and read `cls`, an enum, a dataclass or a pydantic model. Also a decorator.

    `name` is what gets stored, by default the class's qualified name without its module: choose one that
    outlives a move or a rename. The same class again changes nothing; another class under a taken name
    is `InvalidInput`.
    """
    if cls is None:
        return lambda decorated: register(decorated, name)
    _check(cls, name)
    known = _names.get(cls)
    if known is not None and name in (None, known):
        return cls
    if known is not None:
        raise InvalidInput(f"{cls.__qualname__} is registered as {known!r}; it can't also be {name!r}")
    name = name or cls.__qualname__
    holder = _classes.get(name)
    if holder is not None:
        raise InvalidInput(
            f"the name {name!r} is taken by {holder.__module__}.{holder.__qualname__}; "
            f"register {cls.__module__}.{cls.__qualname__} under another: register(cls, name='...')"
        )
    _classes[name] = cls
    _names[cls] = name
    return cls


def name_of(cls: type[Any]) -> str | None:
    """The name that exactly this class is registered under."""
    return _names.get(cls)


def class_of(name: str) -> type[Any] | None:
    """The class that is registered under `name`."""
    return _classes.get(name)


def _check(cls: Any, name: Any) -> None:
    if not isinstance(cls, type) or not (issubclass(cls, enum.Enum | BaseModel) or is_dataclass(cls)):
        raise InvalidInput(f"register() takes an enum, a dataclass or a pydantic model class, got {cls!r}")
    if name is not None and (not isinstance(name, str) or not name):
        raise InvalidInput(f"the name for {cls.__qualname__} must be a non-empty string, got {name!r}")
    if not issubclass(cls, enum.Enum | BaseModel):
        known = {field.name for field in fields(cls)}
        wanted = [name for name, item in signature(cls).parameters.items() if item.default is item.empty]
        lost = [name for name in wanted if name not in known]
        if lost:
            raise InvalidInput(
                f"{cls.__qualname__} can't be rebuilt from its fields: its arguments {lost} are not fields "
                "and have no default; give them one"
            )


def describe(value: Any) -> tuple[str, Any]:
    """The kind of a registered class's instance, and the data that `rebuild` makes an equal one from."""
    if isinstance(value, enum.Flag):
        return "flag", value.value
    if isinstance(value, enum.Enum):
        return "enum", value.name
    if isinstance(value, BaseModel):
        names = type(value).model_fields
        data = {name: value.__dict__[name] for name in names if name in value.__dict__}
        return "model", {**data, **(value.__pydantic_extra__ or {})}
    return "dataclass", {field.name: getattr(value, field.name) for field in fields(value)}


def unset_fields(value: Any) -> list[str]:
    """A model's fields that were left to their defaults, so that `exclude_unset` survives a round trip."""
    if not isinstance(value, BaseModel):
        return []
    return [name for name in type(value).model_fields if name not in value.model_fields_set]


def rebuild(cls: type[Any], kind: str, data: Any, unset: Any) -> Any:
    """An instance with exactly the saved data.

    Validators don't run again: what was saved comes back, also if a validator is not idempotent.
    Raises `ValueError`, `TypeError` or `KeyError` when the data doesn't fit the class.
    """
    if kind == "flag" and issubclass(cls, enum.Flag):
        return cls(data)
    if kind == "enum" and issubclass(cls, enum.Enum):
        return cls[data]
    if kind == "model" and issubclass(cls, BaseModel) and type(data) is dict:
        return _rebuild_model(cls, data, unset)
    if kind == "dataclass" and is_dataclass(cls) and type(data) is dict:
        return _rebuild_dataclass(cls, data)
    raise ValueError(f"{cls.__qualname__} is not stored as {kind!r}")


def _rebuild_model(cls: type[BaseModel], data: dict[str, Any], unset: Any) -> BaseModel:
    known = cls.model_fields
    if cls.model_config.get("extra") != "allow" and not known.keys() >= data.keys():
        raise ValueError(f"unknown fields {sorted(data.keys() - known.keys())}")
    missing = [name for name, field in known.items() if field.is_required() and name not in data]
    if missing:
        raise ValueError(f"missing fields {missing}")
    given = data.keys() - set(unset or ())
    model = cls.model_construct(_fields_set=set(given), **data)
    # Aliases and post-init hooks may have had their way: the saved values win.
    model.__dict__.update({name: item for name, item in data.items() if name in known})
    return model


def _rebuild_dataclass(cls: type[Any], data: dict[str, Any]) -> Any:
    known = {field.name: field for field in fields(cls)}
    if not known.keys() >= data.keys():
        raise ValueError(f"unknown fields {sorted(data.keys() - known.keys())}")
    instance = cls(**{name: item for name, item in data.items() if known[name].init})
    for name, item in data.items():
        object.__setattr__(instance, name, item)
    return instance
