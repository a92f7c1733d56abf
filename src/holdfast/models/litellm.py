"""LiteLLM, which speaks to the services of a hundred vendors in one format."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from holdfast.core.errors import HoldfastError, MissingExtra
from holdfast.core.messages import Message
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec
from holdfast.models.clients import PerLoop
from holdfast.models.openai_format import (
    StreamAssembly,
    from_wire_response,
    to_wire_messages,
    to_wire_options,
)
from holdfast.models.retrying import retry, retry_status
from holdfast.models.service import TIMEOUT, ServiceModel, is_transport_error

__all__ = ["DEFAULT_MODEL", "LiteLLMModel"]

DEFAULT_MODEL: Final = "openai/gpt-4.1-mini"

# A reasoning model wants its thoughts back, unchanged, when it goes on after a tool call.
_KEPT: Final = ("thinking_blocks",)


class LiteLLMModel(ServiceModel[int]):
    """A model by LiteLLM's name for it: ``anthropic/claude-sonnet-4-5``, ``bedrock/...``, ``gemini/...``.

    The key is `api_key`, or the variable that LiteLLM takes for that vendor; `base_url` is its ``api_base``. After 429,
    5xx and failed connections the call is tried again, up to `max_retries` times. Default options are sent with every
    call: LiteLLM knows many, and passes on those that it doesn't know. It keeps connections for all of its users on an
    event loop; they are closed when the loop shuts down.
    """

    provider = "litellm"

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
            model, api_key=api_key, timeout=timeout, max_retries=max_retries, options=default_options
        )
        self._base_url = base_url
        self._clients = _connections

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        """The answer to a conversation."""
        with self._talking():
            answer = await self._send(messages, tools, self._merged(options), stream=False)
            return from_wire_response(answer.model_dump(), provider=self.provider, keep=_KEPT)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        """The same in pieces."""
        assembly = StreamAssembly(self.provider, keep=_KEPT)
        with self._talking():
            merged = {"stream_options": {"include_usage": True}, **self._merged(options)}
            async with aclosing(await self._send(messages, tools, merged, stream=True)) as chunks:
                async for chunk in chunks:
                    if text := assembly.feed(chunk.model_dump()):
                        yield ModelChunk(text)
                if not (chunks.received_finish_reason or chunks.intermittent_finish_reason):
                    # It makes up a reason where the service gave none.
                    raise self._failed("the answer broke off in the middle", temporary=True)
            for name in _KEPT:
                assembly.kept[name] = _joined(assembly.kept[name])
            response = assembly.finish()
        yield ModelChunk(response=response)

    async def aclose(self) -> None:
        """Nothing to close before the event loop ends: the connections are not this model's alone."""

    async def _send(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] | None,
        options: Mapping[str, Any],
        *,
        stream: bool,
    ) -> Any:
        self._client()
        request = {
            "model": self.name,
            "messages": to_wire_messages(messages, provider=self.provider),
            "api_key": self._api_key,
            "api_base": self._base_url,
            "stream": stream,
            **to_wire_options(options, tools),
            # Its own retries don't honour Retry-After with every vendor.
            "max_retries": 0,
            "num_retries": 0,
        }
        if tools:
            # With tools it looks for those of its own MCP gateway, which takes a package that it doesn't depend on.
            request["_skip_mcp_handler"] = True

        async def send() -> Any:
            return await _load().acompletion(**request)

        return await retry(send, max_retries=self.max_retries, is_retryable=_is_retryable)

    def _connect(self) -> int:
        return id(asyncio.get_running_loop())

    @staticmethod
    async def _disconnect(client: int) -> None:
        await _close_clients(client)

    def _failure(self, error: Exception) -> HoldfastError | None:
        errors = _load().exceptions
        openai = errors.openai
        if isinstance(error, errors.MidStreamFallbackError):
            return self._failed(f"the answer broke off: {error}", temporary=True)
        if isinstance(error, openai.APITimeoutError):
            return self._failed("no answer in time", temporary=True)
        if isinstance(error, openai.APIConnectionError):
            return self._failed(f"no connection: {error}", temporary=True)
        if isinstance(error, openai.APIStatusError):
            hint = (
                "; set the vendor's variable or api_key= to a valid key" if error.status_code == 401 else ""
            )
            return self._failed(f"{error.message}{hint}", status=error.status_code)
        if isinstance(error, openai.OpenAIError):
            return self._failed(str(error))
        return None


async def _close_clients(loop_id: int) -> None:
    """Close what LiteLLM opened on an event loop that ends.

    It remembers a loop by its address, which a later loop may have too: a client that is left would be taken for
    that one's.
    """
    cache = _load().in_memory_llm_clients_cache
    for key in [key for key in cache.cache_dict if str(key).endswith(f"-{loop_id}")]:
        client = cache.cache_dict.get(key)
        cache.delete_cache(key)
        if callable(close := getattr(client, "close", None)):
            with suppress(Exception):  # the loop ends: nobody could do anything about it
                await close()


_connections: Final[PerLoop[int]] = PerLoop(_close_clients)


def _is_retryable(error: Exception) -> bool | float:
    openai = _load().exceptions.openai  # the SDK that LiteLLM's errors are taken from
    if isinstance(error, openai.APIConnectionError):
        return True
    if isinstance(error, openai.APIStatusError):
        # Not every error of LiteLLM has what its base class promises.
        answer = getattr(error, "response", None)
        headers = getattr(error, "litellm_response_headers", None) or getattr(answer, "headers", None)
        return retry_status(error.status_code, dict(headers or {}))
    return is_transport_error(error)


def _joined(blocks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Thoughts whole again: their texts come in pieces, the signature with the last."""
    whole: list[dict[str, Any]] = []
    for piece in blocks:
        last = whole[-1] if whole else {}
        if piece.get("type") == "thinking" == last.get("type") and not last.get("signature"):
            last["thinking"] = (last.get("thinking") or "") + (piece.get("thinking") or "")
            last["signature"] = piece.get("signature")
        else:
            whole.append(dict(piece))
    return whole


def _load() -> Any:
    first = "litellm" not in sys.modules
    # Otherwise it fetches a list of prices when it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm
    except ImportError:
        raise MissingExtra("LiteLLMModel", "litellm") from None
    if first:
        litellm.suppress_debug_info = True  # it prints requests for feedback beside its errors
        litellm.telemetry = False
    return litellm
