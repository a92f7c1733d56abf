"""What the models over a vendor's SDK have in common: settings, a client per event loop, errors in our terms."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import UnionType
from typing import Any, ClassVar, Final, Generic, TypeGuard, TypeVar

from holdfast.core.errors import HoldfastError, InvalidInput, ModelError, ModelUnavailable
from holdfast.core.messages import Message
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec
from holdfast.models.clients import PerLoop
from holdfast.models.retrying import RETRIED_STATUSES

__all__ = ["CONNECT_TIMEOUT", "TIMEOUT", "ServiceModel", "is_transport_error"]

C = TypeVar("C")

TIMEOUT: Final = 120.0
"""Seconds that a service may stay silent."""

CONNECT_TIMEOUT: Final = 10.0
"""Seconds that connecting may take, if `TIMEOUT` is not shorter."""

_LONGEST_TEXT: Final = 2000


class ServiceModel(Generic[C]):
    """A model of a service. The same object can be used on several event loops and in several threads.

    A subclass has `complete` and `stream`, which talk to the SDK inside ``with self._talking():``, and three
    hooks: `_connect` makes a client, `_disconnect` closes one, `_failure` says what an SDK's exception means.
    """

    provider: ClassVar[str]
    key_variable: ClassVar[str | None] = None
    """The environment variable that the service's key is taken from."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        timeout: float | None,
        max_retries: int,
        options: Mapping[str, Any],
    ) -> None:
        _check_settings(model, timeout, max_retries)
        self.name = model
        self.timeout = timeout
        self.max_retries = max_retries
        self._api_key = api_key
        self._options = dict(options)
        self._clients: PerLoop[C] = PerLoop(self._disconnect)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        """The answer to a conversation."""

    @abstractmethod
    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        """The same in pieces; see `holdfast.models.base.Model`."""

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The model can still be used: it opens new ones."""
        await self._clients.aclose()

    @abstractmethod
    def _connect(self) -> C:
        """A new client for the running event loop."""

    @staticmethod
    @abstractmethod
    async def _disconnect(client: C) -> None:
        """Close a client's connections."""

    @abstractmethod
    def _failure(self, error: Exception) -> HoldfastError | None:
        """What an SDK's exception means, mostly by `_failed`. None if it isn't one of the SDK's."""

    def _timeouts(self, kind: Callable[..., Any]) -> Any:
        """The model's `timeout` as an HTTP library's class has it, and a short one for connecting."""
        connect = CONNECT_TIMEOUT if self.timeout is None else min(self.timeout, CONNECT_TIMEOUT)
        return kind(self.timeout, connect=connect)

    def _client(self) -> C:
        return self._clients.get(self._connect)

    def _chosen(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a call over those of the model. A client knows the model's `timeout` by itself."""
        return {**self._options, **options}

    def _merged(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The same with the model's `timeout`."""
        return {"timeout": self.timeout, **self._chosen(options)}

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Exceptions of the SDK and its HTTP library leave as ours. A cancellation passes."""
        try:
            yield
        except HoldfastError:
            raise
        except Exception as error:
            failure = self._failure(error) or self._common_failure(error)
            if failure is None:
                raise
            # A traceback prints the cause too: a service that echoes the key must not bring it there.
            raise failure from (None if self._api_key and self._api_key in str(error) else error)

    def _common_failure(self, error: Exception) -> HoldfastError | None:
        if is_transport_error(error):
            return self._failed(f"the connection failed: {_words(error)}", temporary=True)
        if isinstance(error, TypeError) and "unexpected keyword argument" in str(error):
            return InvalidInput(f"the SDK of {self.provider} knows no such option: {error}")
        if isinstance(error, ValueError):
            return self._failed(f"the answer can't be read: {_words(error)}")
        return None

    def _failed(self, text: str, *, status: int | None = None, temporary: bool = False) -> ModelError:
        """The error for a refusal or an outage: `ModelUnavailable` if it is `temporary`, or its `status` is."""
        if self._api_key:
            text = text.replace(self._api_key, "***")
        code = f" (status {status})" if status else ""
        message = f"{self.provider}, model {self.name!r}{code}: {text[:_LONGEST_TEXT]}"
        if status == 401 and self.key_variable:
            message += f"; set {self.key_variable} or api_key= to a valid key"
        kind = ModelUnavailable if temporary or status in RETRIED_STATUSES else ModelError
        return kind(message, provider=self.provider, status=status)


def is_transport_error(error: BaseException) -> bool:
    """Whether a connection failed. SDKs let their HTTP library's errors through in the middle of a stream."""
    return isinstance(error, OSError) or any(
        kind.__name__ == "TransportError" and kind.__module__.startswith("httpx")
        for kind in type(error).__mro__
    )


def _check_settings(model: object, timeout: object, max_retries: object) -> None:
    if not isinstance(model, str) or not model.strip():
        raise InvalidInput(f"model must be the name of a model, got {model!r}")
    if timeout is not None and not (_is_number(timeout, int | float) and timeout > 0):
        raise InvalidInput(f"timeout must be a positive number of seconds or None, got {timeout!r}")
    if not (_is_number(max_retries, int) and max_retries >= 0):
        raise InvalidInput(f"max_retries must be an integer, 0 or more, got {max_retries!r}")


def _is_number(value: object, kind: type[int] | UnionType) -> TypeGuard[float]:
    return isinstance(value, kind) and not isinstance(value, bool)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
