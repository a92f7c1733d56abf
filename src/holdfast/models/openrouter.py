"""OpenRouter, which routes to the models of many vendors, over its own SDK."""

import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import HoldfastError, InvalidInput, MissingExtra, ModelError
from holdfast.core.messages import Message
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec
from holdfast.models.openai_format import (
    StreamAssembly,
    from_wire_response,
    to_wire_messages,
    to_wire_options,
)
from holdfast.models.retrying import retry, retry_status
from holdfast.models.service import TIMEOUT, ServiceModel, is_transport_error

if TYPE_CHECKING:
    from openrouter import OpenRouter

__all__ = ["DEFAULT_MODEL", "OpenRouterModel"]

DEFAULT_MODEL: Final = "openai/gpt-4.1-mini"

# A reasoning model wants its reasoning back, unchanged, when it goes on after a tool call.
_REASONING: Final = "reasoning_details"
_PIECES: Final[Mapping[Any, str]] = {"reasoning.text": "text", "reasoning.summary": "summary"}


class OpenRouterModel(ServiceModel["OpenRouter"]):
    """A model that OpenRouter serves, by its slug: ``meta-llama/llama-3.3-70b-instruct``.

    The key is `api_key` or ``OPENROUTER_API_KEY``, the server `base_url` or ``OPENROUTER_BASE_URL``. After 429, 5xx
    and failed connections the call is tried again, up to `max_retries` times. Default options are sent with every
    call; the SDK names them (``provider``, ``models``, ``reasoning``, ...).
    """

    provider = "openrouter"
    key_variable = "OPENROUTER_API_KEY"

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = TIMEOUT,
        max_retries: int = 2,
        **default_options: Any,
    ) -> None:
        _load()
        key = api_key or os.environ.get("OPENROUTER_API_KEY")
        if not key:
            raise InvalidInput("OpenRouterModel needs a key: set OPENROUTER_API_KEY or pass api_key=...")
        super().__init__(
            model, api_key=key, timeout=timeout, max_retries=max_retries, options=default_options
        )
        self._base_url = base_url or os.environ.get("OPENROUTER_BASE_URL") or None

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        """The answer to a conversation."""
        with self._talking():
            answer = await self._send(messages, tools, self._chosen(options), stream=False)
            wire = answer.model_dump(by_alias=True)
            for choice in wire["choices"]:
                choice["message"][_REASONING] = _joined(choice["message"].get(_REASONING) or ())
            return from_wire_response(wire, provider=self.provider, keep=[_REASONING])

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        """The same in pieces."""
        assembly = StreamAssembly(self.provider, keep=[_REASONING])
        with self._talking():
            merged = {"stream_options": {"include_usage": True}, **self._chosen(options)}
            async with await self._send(messages, tools, merged, stream=True) as chunks:
                async for chunk in chunks:
                    wire = chunk.model_dump(by_alias=True)
                    if wire.get("error"):
                        raise self._told(wire["error"])
                    if text := assembly.feed(wire):
                        yield ModelChunk(text)
            assembly.kept[_REASONING] = _joined(assembly.kept[_REASONING])
            response = assembly.finish()
        yield ModelChunk(response=response)

    async def _send(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] | None,
        options: Mapping[str, Any],
        *,
        stream: bool,
    ) -> Any:
        wire = to_wire_options(options, tools)
        timeout = wire.pop("timeout", None)
        request = {
            "model": self.name,
            "messages": to_wire_messages(messages, provider=self.provider),
            "timeout_ms": None if timeout is None else max(1, round(timeout * 1000)),
            "stream": stream,
            **wire,
        }

        async def send() -> Any:
            return await self._client().chat.send_async(**request)

        # The SDK's own retries end after a time, not a number of tries, and leave out 429.
        return await retry(send, max_retries=self.max_retries, is_retryable=_is_retryable)

    def _connect(self) -> "OpenRouter":
        import httpx

        # A client that we made is ours to close: the SDK would close its own whenever it is collected, on any loop.
        client: OpenRouter = _load().OpenRouter(
            api_key=self._api_key,
            server_url=self._base_url,
            async_client=httpx.AsyncClient(follow_redirects=True, timeout=self._timeouts(httpx.Timeout)),
            retry_config=None,
        )
        return client

    @staticmethod
    async def _disconnect(client: "OpenRouter") -> None:
        used: Any = client.sdk_configuration
        used.client.close()  # the SDK makes one for blocking calls too
        await used.async_client.aclose()

    def _failure(self, error: Exception) -> HoldfastError | None:
        errors = _load().errors
        if isinstance(error, errors.NoResponseError):
            return self._failed(str(error), temporary=True)
        if not isinstance(error, errors.OpenRouterError):
            return None
        told = _error_in(error.body)
        if error.status_code == 200:
            return self._told(told) if told else self._failed(f"the answer can't be read: {error.message}")
        return self._failed(str(told.get("message") or error.message), status=error.status_code)

    def _told(self, error: Mapping[str, Any]) -> ModelError:
        """An error that came with status 200: as the answer, or in the middle of a stream."""
        code = error.get("code")
        return self._failed(
            str(error.get("message") or error), status=code if isinstance(code, int) else None
        )


def _is_retryable(error: Exception) -> bool | float:
    errors = _load().errors
    if isinstance(error, errors.OpenRouterError):
        return retry_status(error.status_code, error.headers)
    return isinstance(error, errors.NoResponseError) or is_transport_error(error)


def _error_in(body: str) -> dict[str, Any]:
    """The ``error`` of a response's body, or of an event of a stream."""
    try:
        document = json.loads(body)
        found = (document.get("data") or document).get("error")
    except (ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


def _joined(details: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Reasoning details whole again: their texts come in pieces, the signature with the last."""
    whole: list[dict[str, Any]] = []
    for piece in details:
        if piece.get("is_unknown"):  # the SDK reads what it does not know, but can't write it
            continue
        last = whole[-1] if whole else {}
        field = _PIECES.get(piece.get("type"))
        if field and all(piece.get(name) == last.get(name) for name in ("type", "index")):
            text = (last.get(field) or "") + (piece.get(field) or "")
            last |= {name: value for name, value in piece.items() if value is not None} | {field: text}
        else:
            whole.append(dict(piece))
    return whole


def _load() -> Any:
    try:
        import openrouter
        import openrouter.errors
    except ImportError:
        raise MissingExtra("OpenRouterModel", "openrouter") from None
    return openrouter
