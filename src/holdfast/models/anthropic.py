"""Anthropic's models, over the vendor's SDK."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import HoldfastError, InvalidInput, MissingExtra
from holdfast.core.messages import Message
from holdfast.models.anthropic_format import (
    StreamAssembly,
    from_wire_response,
    to_wire_choice,
    to_wire_messages,
    to_wire_tools,
)
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec
from holdfast.models.retrying import retry, retry_status
from holdfast.models.service import TIMEOUT, ServiceModel
from holdfast.models.structured import Schema, json_schema

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["DEFAULT_MAX_TOKENS", "DEFAULT_MODEL", "AnthropicModel"]

DEFAULT_MODEL: Final = "claude-haiku-5-5"
DEFAULT_MAX_TOKENS: Final = 8192
"""The service wants a limit with each call; ``max_tokens`` sets another."""

# What an error event in the middle of a stream says in words, as a status.
_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}

# The SDK takes these no more, though some models do.
_BODY_OPTIONS: Final = ("temperature", "top_p", "top_k")


class AnthropicModel(ServiceModel["AsyncAnthropic"]):
    """A model of Anthropic, or of a server with the same API at `base_url` (``ANTHROPIC_BASE_URL``).

    The key is `api_key` or ``ANTHROPIC_API_KEY``, or any other credential that the SDK finds by itself. After 429,
    5xx and failed connections the call is tried again, up to `max_retries` times. Default options are sent with
    every call. Thinking (``thinking={...}``) is kept with the message and sent back as it came.
    """

    provider = "anthropic"
    key_variable = "ANTHROPIC_API_KEY"

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
        super().__init__(
            model,
            api_key=api_key or os.environ.get("ANTHROPIC_API_KEY") or None,
            timeout=timeout,
            max_retries=max_retries,
            options=default_options,
        )
        self._base_url = base_url

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        """The answer to a conversation."""
        with self._talking():
            answer = await self._send(messages, tools, self._chosen(options), stream=False)
            if not isinstance(answer, _load().types.Message):  # the SDK hands on what is no JSON
                raise self._failed("the answer is no message; is base_url right?")
            return from_wire_response(answer.to_dict())

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        """The same in pieces."""
        assembly = StreamAssembly()
        with self._talking():
            async with await self._send(messages, tools, self._chosen(options), stream=True) as events:
                async for event in events:
                    if text := assembly.feed(event.to_dict()):
                        yield ModelChunk(text)
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
        system, turns = to_wire_messages(messages)
        request = {
            "model": self.name,
            "messages": turns,
            "stream": stream,
            **_to_wire_options(options, tools),
        }
        if system:
            request["system"] = system

        async def send() -> Any:
            return await self._client().messages.create(**request)

        # The SDK would wait as long as Retry-After says, be it hours.
        return await retry(send, max_retries=self.max_retries, is_retryable=_is_retryable)

    def _connect(self) -> "AsyncAnthropic":
        anthropic = _load()
        client: AsyncAnthropic = anthropic.AsyncAnthropic(
            api_key=self._api_key,
            base_url=self._base_url,
            timeout=self._timeouts(anthropic.Timeout),
            max_retries=0,
        )
        return client

    @staticmethod
    async def _disconnect(client: "AsyncAnthropic") -> None:
        await client.close()

    def _failure(self, error: Exception) -> HoldfastError | None:
        anthropic = _load()
        if isinstance(error, anthropic.APIStatusError):
            told = _error_in(error.body)
            status = _STATUSES.get(str(told.get("type"))) if error.status_code == 200 else error.status_code
            return self._failed(str(told.get("message") or error.message), status=status)
        if isinstance(error, anthropic.APITimeoutError):
            return self._failed("no answer in time", temporary=True)
        if isinstance(error, anthropic.APIConnectionError):
            return self._failed(f"no connection: {error.__cause__ or error}", temporary=True)
        if isinstance(error, anthropic.AnthropicError):
            return self._failed(str(error))
        if isinstance(error, TypeError) and "authentication" in str(error):
            return InvalidInput("AnthropicModel needs a key: set ANTHROPIC_API_KEY or pass api_key=...")
        return None


def _to_wire_options(options: Mapping[str, Any], tools: Sequence[ToolSpec] | None) -> dict[str, Any]:
    wire = {name: value for name, value in options.items() if value is not None}
    wire.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
    schema, choice, stop = (wire.pop(name, None) for name in ("response_schema", "tool_choice", "stop"))
    if stop is not None:
        wire["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    if schema is not None:
        wire["output_config"] = {**wire.get("output_config", {}), "format": _output_format(schema)}
    if tools:
        wire["tools"] = to_wire_tools(tools)
        if choice is not None:
            wire["tool_choice"] = to_wire_choice(choice)
    body = {name: wire.pop(name) for name in _BODY_OPTIONS if name in wire}
    if body:
        wire["extra_body"] = {**body, **wire.get("extra_body", {})}
    return wire


def _output_format(schema: Schema) -> dict[str, Any]:
    try:
        return {"type": "json_schema", "schema": _load().transform_schema(json_schema(schema))}
    except ValueError as error:
        raise InvalidInput(f"Anthropic can't keep to this response_schema: {error}") from error


def _is_retryable(error: Exception) -> bool | float:
    anthropic = _load()
    if isinstance(error, anthropic.APIStatusError):
        return retry_status(error.status_code, error.response.headers)
    return isinstance(error, anthropic.APIConnectionError)


def _error_in(body: Any) -> Mapping[str, Any]:
    """The ``error`` of a response's body, or of an error event."""
    found = body.get("error") if isinstance(body, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _load() -> Any:
    try:
        import anthropic
    except ImportError:
        raise MissingExtra("AnthropicModel", "anthropic") from None
    return anthropic
