"""A function's parameters: as JSON schema for a model, and as arguments for the function from what it wrote."""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json

from holdfast.core.errors import InvalidInput
from holdfast.core.frozen import freeze_mapping, thaw

_SHOWN: Final = 80  # characters of a bad value that an error repeats


class BadArguments(Exception):
    """Arguments that don't fit the parameters. The message is for the model that wrote them."""


class _Schema(GenerateJsonSchema):
    """Without titles, which only repeat the names, and silent about defaults that JSON can't show."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        pass

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class Parameters:
    """The parameters of one function. ``schema`` is the JSON schema of an object."""

    def __init__(self, function: Callable[..., Any], docs: Mapping[str, str]) -> None:
        parameters = _parameters(function)[1 if is_method(function) else 0 :]
        hints = _hints(function, parameters)
        self._named = {f"p{i}": p for i, p in enumerate(parameters) if p.kind is not p.VAR_KEYWORD}
        self._open = len(self._named) < len(parameters)
        fields: dict[str, Any] = {
            field: (hints[p.name], _field(p, hints[p.name], docs.get(p.name)))
            for field, p in self._named.items()
        }
        base = _base(hints[parameters[-1].name] if self._open else None)
        try:
            self._model: type[BaseModel] = create_model("Arguments", __base__=base, **fields)
            schema = self._model.model_json_schema(schema_generator=_Schema)
        except (PydanticUserError, TypeError) as error:
            raise _unusable(parameters, hints, error) from error
        schema.pop("title")
        schema.setdefault("properties", {})
        self.schema: Mapping[str, Any] = freeze_mapping(schema)

    def bind(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments for calling the function. What doesn't fit is `BadArguments`, naming each problem.

        Values are converted where no other meaning is possible, such as "3" for an integer.
        """
        try:
            values = self._validate(arguments)
        except ValidationError as error:
            raise BadArguments(self._explain(error)) from None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for field, parameter in self._named.items():
            given = field in values.model_fields_set or parameter.default is parameter.empty
            value = values.__dict__[field] if given else parameter.default
            if parameter.kind is parameter.POSITIONAL_ONLY:
                args.append(value)
            elif given:
                kwargs[parameter.name] = value
        return args, kwargs | (values.__pydantic_extra__ or {})

    def _validate(self, arguments: Mapping[str, Any]) -> BaseModel:
        # As JSON, which they came as: types that are strict with Python objects still take what JSON can say.
        try:
            text = to_json(arguments)
        except (PydanticSerializationError, ValueError):  # such as text with lone surrogates
            return self._model.model_validate(thaw(dict(arguments)))
        return self._model.model_validate_json(text)

    def _explain(self, error: ValidationError) -> str:
        problems = [_problem(details) for details in error.errors(include_url=False)]
        names = ", ".join(parameter.name for parameter in self._named.values()) or "none"
        return f"{'; '.join(problems)} (the tool's arguments: {names})"


def _problem(details: ErrorDetails) -> str:
    place = ".".join(str(step) for step in details["loc"]) or "arguments"
    if details["type"] == "extra_forbidden":
        return f"{place}: there is no such argument"
    if details["type"] == "missing":
        return f"{place}: this argument is missing"
    shown = repr(details["input"])
    if len(shown) > _SHOWN:
        shown = shown[: _SHOWN - 3] + "..."
    return f"{place}: {details['msg']} (got {shown})"


# --- reading a signature ---


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """The plain function that a call of a method, a partial or a callable object ends up in."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType | staticmethod):
            function = function.__func__
        elif isinstance(function, types.FunctionType | types.BuiltinFunctionType | type):
            return function
        else:
            method = inspect.getattr_static(type(function), "__call__", None)
            return method if isinstance(method, types.FunctionType) else function


def is_method(function: Callable[..., Any]) -> bool:
    """Whether it is a function in the body of a class, whose first parameter is the instance."""
    if not isinstance(function, types.FunctionType):
        return False
    home = function.__qualname__.rpartition(".")[0]
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return bool(home) and not home.endswith("<locals>") and names[:1] == ("self",)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those that a caller can still give, without the keywords that a partial has fixed."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the parameters of {function!r} can't be found; wrap it in a function") from error
    fixed = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise InvalidInput(
                f"parameter *{parameter.name}: a model gives arguments by name; take a list as one parameter"
            )
        if isinstance(parameter.default, FieldInfo):
            raise InvalidInput(
                f"parameter {parameter.name!r} has a Field() as its default; write Annotated[..., Field(...)]"
            )
    return [parameter for parameter in parameters if parameter.name not in fixed]


def _hints(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """Each parameter's annotation, with names that are still text looked up where the function was made."""
    home = inspect.unwrap(called(function))
    names = dict(getattr(home, "__globals__", None) or vars(sys.modules[home.__module__]))
    outer = _caller_locals()
    hints: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.annotation is parameter.empty:
            hints[parameter.name] = Any
            continue
        holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        try:
            hint = typing.get_type_hints(holder, names, outer, include_extras=True)[parameter.name]
        except Exception as error:
            raise InvalidInput(
                f"parameter {parameter.name!r}: its annotation {parameter.annotation!r} can't be resolved "
                f"({error}); define that name before the tool, in its module"
            ) from error
        if parameter.default is None and not _takes_none(hint):
            hint = hint | None
        hints[parameter.name] = hint
    return hints


def _caller_locals() -> Mapping[str, Any]:
    """The local names where the tool is made: a closure's annotations may use them."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "holdfast":
        frame = frame.f_back
    return frame.f_locals if frame is not None else {}


def _takes_none(hint: Any) -> bool:
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    return hint is Any or hint is None or types.NoneType in typing.get_args(hint)


# --- making the model that validates ---


def _field(parameter: inspect.Parameter, hint: Any, doc: str | None) -> Any:
    # The alias carries the name: a field of a pydantic model may not have just any.
    options: dict[str, Any] = {"validation_alias": parameter.name}
    if parameter.default is not parameter.empty:
        options["default"] = parameter.default
    description = _description(hint) or doc
    if description:
        options["description"] = description
    return Field(**options)


def _description(hint: Any) -> str | None:
    notes = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
    written = [note.description for note in notes if isinstance(note, FieldInfo) and note.description]
    texts = [note for note in notes if isinstance(note, str)]
    return next(iter(written + texts), None)


def _base(extra: Any) -> type[BaseModel]:
    """A model that refuses arguments without a parameter, or takes those of the type ``extra`` for ``**kwargs``."""
    config = ConfigDict(
        extra="forbid" if extra is None else "allow", protected_namespaces=(), coerce_numbers_to_str=True
    )
    body: dict[str, Any] = {"model_config": config, "__module__": __name__, "__annotations__": {}}
    if extra is not None:
        body["__annotations__"]["__pydantic_extra__"] = dict[str, extra]
    return cast(
        type[BaseModel],
        types.new_class("Arguments", (BaseModel,), exec_body=lambda names: names.update(body)),
    )


def _unusable(
    parameters: list[inspect.Parameter], hints: Mapping[str, Any], error: Exception
) -> InvalidInput:
    """What to tell about a type that pydantic can't read from JSON, naming the parameter that has it."""
    for parameter in parameters:
        try:
            TypeAdapter(hints[parameter.name]).json_schema()
        except (PydanticUserError, TypeError) as reason:
            first = str(reason).partition("\n")[0]
            return InvalidInput(
                f"parameter {parameter.name!r}: a model can't write a value of the type "
                f"{hints[parameter.name]!r}; use JSON types, a dataclass or a pydantic model ({first})"
            )
    return InvalidInput(f"the parameters have no JSON schema: {error}")
