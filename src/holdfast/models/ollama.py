"""Ollama, which runs models on machines of one's own, over the vendor's SDK."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.core.errors import HoldfastError, InvalidInput, MissingExtra, ModelUnavailable
from holdfast.core.frozen import thaw
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.models.base import FinishReason, ModelChunk, ModelResponse, ToolSpec, Usage
from holdfast.models.openai_format import clean_text
from holdfast.models.plain_schema import plain_schema
from holdfast.models.retrying import retry, retry_status
from holdfast.models.service import TIMEOUT, ServiceModel, is_transport_error
from holdfast.models.structured import json_schema

if TYPE_CHECKING:
    from ollama import AsyncClient

__all__ = ["DEFAULT_MODEL", "OllamaModel"]

T = TypeVar("T")

DEFAULT_MODEL: Final = "llama3.2"

# The SDK's errors don't carry the headers of the response; its HTTP client tells of them in time.
_headers: ContextVar[Mapping[str, str] | None] = ContextVar("holdfast_ollama_headers", default=None)
_CARRIED: Final = frozenset({"type", "items", "description", "enum", "title", "default"})


class OllamaModel(ServiceModel["AsyncClient"]):
    """A model that an Ollama server runs, by its name there: ``llama3.2``, ``qwen3:8b``.

    The server is at `base_url` or ``OLLAMA_HOST``, by default on this machine. No key is needed; one for a server that
    wants it is `api_key` or ``OLLAMA_API_KEY``. After 429, 5xx and failed connections the call is tried again, up to
    `max_retries` times. Default options are sent with every call: those that the server calls options (``num_ctx``,
    ``seed``, ``top_p``, ...) by their names, and ``think``, ``keep_alive`` and the like. It can't be made to
    call a tool.
    """

    provider = "ollama"
    key_variable = "OLLAMA_API_KEY"

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
            api_key=api_key or os.environ.get("OLLAMA_API_KEY") or None,
            timeout=timeout,
            max_retries=max_retries,
            options=default_options,
        )
        self._base_url = base_url

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        """The answer to a conversation."""
        merged = self._merged(options)
        timeout = merged.pop("timeout")
        with self._talking():
            request = self._request(messages, tools, merged)

            async def send() -> Any:
                return await _within(timeout, self._client().chat(**request))

            answer = await self._tried(send)
            return _Assembly([answer]).finish()

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        """The same in pieces."""
        merged = self._merged(options)
        timeout = merged.pop("timeout")
        parts: list[Any] = []
        with self._talking():
            request = self._request(messages, tools, merged)

            async def begin() -> Any:
                # The request is sent when the first part is asked for.
                found = await self._client().chat(**request, stream=True)
                return found, await _within(timeout, anext(found, None))

            answer, part = await self._tried(begin)
            async with aclosing(answer):
                while part is not None:
                    parts.append(part)
                    if part.message.content:
                        yield ModelChunk(part.message.content)
                    part = await self._next(answer, timeout)
            response = _Assembly(parts).finish()
        yield ModelChunk(response=response)

    async def _next(self, answer: Any, seconds: float | None) -> Any:
        try:
            return await _within(seconds, anext(answer, None))
        except ValueError as error:  # half a line
            raise self._failed(f"the answer broke off: {error}", temporary=True) from error

    async def _tried(self, call: Any) -> Any:
        return await retry(call, max_retries=self.max_retries, is_retryable=_is_retryable)

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        given = {name: value for name, value in options.items() if value is not None}
        choice = given.pop("tool_choice", "auto")
        if choice not in {"auto", "none"}:
            raise InvalidInput(
                f"tool_choice={choice!r}: Ollama can't be made to call a tool; use 'auto' or 'none'"
            )
        request: dict[str, Any] = {"model": self.name, "messages": [_to_wire(one) for one in messages]}
        if tools and choice == "auto":
            request["tools"] = [_to_wire_tool(tool) for tool in tools]
        if (schema := given.pop("response_schema", None)) is not None:
            request["format"] = json_schema(schema)
        runtime = dict(given.pop("options", {}))
        if "max_tokens" in given:
            runtime["num_predict"] = given.pop("max_tokens")
        if isinstance(given.get("stop"), str):
            given["stop"] = [given["stop"]]
        known = _load().Options.model_fields
        runtime |= {name: given.pop(name) for name in list(given) if name in known}
        if runtime:
            request["options"] = runtime
        return request | given

    def _connect(self) -> "AsyncClient":
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else None
        client: AsyncClient = _load().AsyncClient(
            self._base_url, headers=headers, event_hooks={"response": [_note_headers]}
        )
        return client

    @staticmethod
    async def _disconnect(client: "AsyncClient") -> None:
        used: Any = client  # its close() has no types
        await used.close()

    def _failure(self, error: Exception) -> HoldfastError | None:
        if isinstance(error, TimeoutError):
            return self._failed("no answer in time", temporary=True)
        if isinstance(error, _load().RequestError):
            return InvalidInput(f"the SDK of ollama refuses the request: {error}")
        if not isinstance(error, _load().ResponseError):
            return None
        if error.status_code < 0:  # a line of a stream
            return self._failed(f"the answer broke off: {error.error}", temporary=True)
        return self._failed(str(error.error), status=error.status_code)


class _Assembly:
    """The parts of an answer; a whole one is one part."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts

    def finish(self) -> ModelResponse:
        """The whole answer. `ModelUnavailable` if it ended before the model did."""
        if not self._parts or not self._parts[-1].done:
            raise ModelUnavailable("the answer of ollama broke off in the middle", provider="ollama")
        last = self._parts[-1]
        said = [part.message for part in self._parts]
        # The SDK drops the calls' ids; nothing refers to them but our own messages.
        calls = [
            ToolCall(name=call.function.name, arguments=dict(call.function.arguments))
            for message in said
            for call in message.tool_calls or ()
        ]
        thinking = "".join(message.thinking or "" for message in said)
        message = Message.assistant(
            "".join(one.content or "" for one in said) or None,
            calls or None,
            metadata={"ollama": {"thinking": thinking}} if thinking else None,
        )
        reason: FinishReason = "tool_calls" if calls else "length" if last.done_reason == "length" else "stop"
        usage = Usage(last.prompt_eval_count or 0, last.eval_count or 0)
        return ModelResponse(message, usage, reason, last.model)


def _to_wire(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role.value, "content": clean_text(message.content or "")}
    if message.role is Role.TOOL and message.name:
        wire["tool_name"] = message.name
    if message.tool_calls:
        wire["tool_calls"] = [
            {"function": {"name": call.name, "arguments": thaw(dict(call.arguments))}}
            for call in message.tool_calls
        ]
    kept = message.metadata.get("ollama")
    if message.role is Role.ASSISTANT and isinstance(kept, Mapping) and kept.get("thinking"):
        wire["thinking"] = kept["thinking"]
    return wire


def _to_wire_tool(tool: ToolSpec) -> dict[str, Any]:
    parameters = plain_schema(tool.parameters)
    known = parameters.get("properties") or {}
    wire = {"type": "object", "properties": {name: _to_wire_property(item) for name, item in known.items()}}
    if parameters.get("required"):
        wire["required"] = parameters["required"]
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": wire},
    }


def _to_wire_property(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter as the SDK can carry it: what it would drop, such as nested objects, is put into words."""
    kept = {name: value for name, value in schema.items() if name in _CARRIED}
    if schema.keys() <= _CARRIED:
        return kept
    rest = {name: value for name, value in schema.items() if name != "description"}
    words = f"{schema.get('description', '')} JSON schema: {json.dumps(rest, ensure_ascii=False)}"
    return kept | {"description": words.strip()}


async def _within(seconds: float | None, call: Awaitable[T]) -> T:
    # The SDK has one time-out for all calls of a client.
    async with asyncio.timeout(seconds):
        return await call


async def _note_headers(response: Any) -> None:
    _headers.set(response.headers if response.is_error else None)


def _is_retryable(error: Exception) -> bool | float:
    if isinstance(error, _load().ResponseError):
        return retry_status(error.status_code, _headers.get())
    return is_transport_error(error)


def _load() -> Any:
    try:
        import ollama
    except ImportError:
        raise MissingExtra("OllamaModel", "ollama") from None
    return ollama
