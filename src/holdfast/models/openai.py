"""OpenAI, and every service that speaks its chat completions format, over the vendor's SDK."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import HoldfastError, InvalidInput, MissingExtra
from holdfast.core.messages import Message
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec
from holdfast.models.openai_format import (
    StreamAssembly,
    from_wire_response,
    to_wire_messages,
    to_wire_options,
)
from holdfast.models.service import TIMEOUT, ServiceModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["DEFAULT_MODEL", "OpenAIModel"]

DEFAULT_MODEL: Final = "gpt-4.1-mini"

# What a server of one's own gets for a key, as the SDK wants one.
_NO_KEY: Final = "none"


class OpenAIModel(ServiceModel["AsyncOpenAI"]):
    """A model of OpenAI, or of any server with the same API at `base_url` (``OPENAI_BASE_URL``).

    The key is `api_key` or ``OPENAI_API_KEY``; a server at a `base_url` may need none. The SDK tries again after
    429, 5xx and failed connections, up to `max_retries` times. Default options are sent with every call.
    """

    provider = "openai"
    key_variable = "OPENAI_API_KEY"

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
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY") or (_NO_KEY if base_url else None)
        if key is None:
            raise InvalidInput(
                "OpenAIModel needs a key: set OPENAI_API_KEY or pass api_key=..., or base_url=... for a server"
                " of your own"
            )
        super().__init__(
            model,
            api_key=None if key == _NO_KEY else key,
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
            client = self._client()
            request = self._request(client, messages, tools, self._chosen(options))
            answer: Any = await client.chat.completions.create(**request)
            if not isinstance(answer, _load().types.chat.ChatCompletion):  # the SDK hands on what is no JSON
                raise self._failed("the answer is no chat completion; is base_url right?")
            return from_wire_response(answer.to_dict(), provider=self.provider)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        """The same in pieces."""
        assembly = StreamAssembly(self.provider)
        with self._talking():
            client = self._client()
            merged = {"stream_options": {"include_usage": True}, **self._chosen(options)}
            request = self._request(client, messages, tools, merged)
            async with await client.chat.completions.create(**request, stream=True) as chunks:
                async for chunk in chunks:
                    if text := assembly.feed(chunk.to_dict()):
                        yield ModelChunk(text)
            response = assembly.finish()
        yield ModelChunk(response=response)

    def _request(
        self,
        client: "AsyncOpenAI",
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        wire = to_wire_options(options, tools)
        # OpenAI's newer models refuse the old name; other servers know only that.
        if "max_tokens" in wire and "api.openai.com" in str(client.base_url):
            wire["max_completion_tokens"] = wire.pop("max_tokens")
        return {
            "model": self.name,
            "messages": to_wire_messages(messages, provider=self.provider),
            **wire,
        }

    def _connect(self) -> "AsyncOpenAI":
        openai = _load()
        client: AsyncOpenAI = openai.AsyncOpenAI(
            api_key=self._api_key or _NO_KEY,
            base_url=self._base_url,
            timeout=self._timeouts(openai.Timeout),
            max_retries=self.max_retries,
        )
        return client

    @staticmethod
    async def _disconnect(client: "AsyncOpenAI") -> None:
        await client.close()

    def _failure(self, error: Exception) -> HoldfastError | None:
        openai = _load()
        if isinstance(error, openai.APIStatusError):
            told = error.body.get("message") if isinstance(error.body, Mapping) else None
            return self._failed(str(told or error.message), status=error.status_code)
        if isinstance(error, openai.APITimeoutError):
            return self._failed("no answer in time", temporary=True)
        if isinstance(error, openai.APIConnectionError):
            return self._failed(f"no connection: {error.__cause__ or error}", temporary=True)
        if isinstance(error, openai.APIError):  # an error event in the middle of a stream
            refused = error.type == "invalid_request_error"
            return self._failed(f"the answer broke off: {error.message}", temporary=not refused)
        if isinstance(error, openai.OpenAIError):
            return self._failed(str(error))
        return None


def _load() -> Any:
    try:
        import openai
    except ImportError:
        raise MissingExtra("OpenAIModel", "openai") from None
    return openai
