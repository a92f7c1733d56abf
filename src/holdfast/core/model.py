"""The base of Holdfast's own pydantic models: immutable, strict about unknown fields, strictly equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
)

from holdfast.core.frozen import freeze_mapping, thaw
from holdfast.core.sequences import LazySequence

FrozenMap = Annotated[
    Mapping[str, Any],
    PlainValidator(freeze_mapping, json_schema_input_type=dict[str, Any]),
    PlainSerializer(thaw, return_type=dict[str, Any]),
]
"""A mapping with string keys. Any goes in, a deeply frozen one is kept, `model_dump` gives a plain dict."""


def _keep_lazy(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return value if type(value) is LazySequence else handler(value)


def _whole(value: Sequence[Any], handler: SerializerFunctionWrapHandler) -> Any:
    return handler(tuple(value))


if TYPE_CHECKING:
    FrozenSequence = Sequence
else:

    class FrozenSequence:
        """A tuple, or a stored list that is decoded where somebody looks at it."""

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[tuple[item, ...], WrapValidator(_keep_lazy), WrapSerializer(_whole)]


def as_utc(moment: datetime) -> datetime:
    """The same moment in UTC. A naive datetime is taken as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


UtcDatetime = Annotated[datetime, AfterValidator(as_utc)]

M = TypeVar("M", bound="FrozenModel")


class FrozenModel(BaseModel):
    """Immutable, no unknown fields; `model_copy(update=...)` validates, unlike pydantic's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        if not update:
            return super().model_copy(deep=deep)
        return self.model_validate({**self.__dict__, **update})


def build(cls: type[M], values: dict[str, Any], fields_set: set[str]) -> M:
    """An instance made of values that are known to be valid, without validating them again.

    `values` must have every field and is kept, not copied.
    """
    instance: M = _new(cls)
    _set(instance, "__dict__", values)
    _set(instance, "__pydantic_fields_set__", fields_set)
    _set(instance, "__pydantic_extra__", None)
    _set(instance, "__pydantic_private__", None)
    return instance


_new: Callable[..., Any] = object.__new__
_set: Callable[[object, str, Any], None] = object.__setattr__
