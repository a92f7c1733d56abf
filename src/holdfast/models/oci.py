"""OCI Generative AI over the vendor's SDK: models of Meta, OpenAI, xAI, Google and Cohere."""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal

from holdfast.core.errors import HoldfastError, InvalidInput, MissingExtra
from holdfast.core.messages import Message
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec
from holdfast.models.oci_format import (
    Assembly,
    CohereAssembly,
    GenericAssembly,
    cohere_request,
    generic_request,
)
from holdfast.models.oci_transport import Line, documents
from holdfast.models.retrying import retry, retry_status
from holdfast.models.service import TIMEOUT, ServiceModel, is_transport_error

__all__ = ["DEFAULT_MODEL", "OCIModel"]

DEFAULT_MODEL: Final = "openai.gpt-4.1"

Auth = Literal["config", "instance_principal", "resource_principal"]
ApiFormat = Literal["GENERIC", "COHERE"]

# Options that the formats write; the others are fields of the SDK's request.
_OURS: Final = frozenset({"response_schema", "stop", "tool_choice"})
_CONNECT_TIMEOUT: Final = 10.0


class OCIModel(ServiceModel[Line]):
    """A model that OCI Generative AI serves, by its name (``openai.gpt-4.1``) or by the OCID of a dedicated endpoint.

    Who asks is told by `auth`: ``"config"`` takes a profile of a configuration file (``OCI_CONFIG_FILE``,
    ``OCI_CONFIG_PROFILE``, or `config_file` and `profile`; or `config` as a dict), the others take the identity of the
    machine or function. `compartment_id` or ``OCI_COMPARTMENT_ID`` says who pays. The endpoint is `service_endpoint`
    (or `base_url`), ``OCI_GENAI_ENDPOINT``, or that of the profile's region. Models whose name begins with ``cohere.``
    speak a format of their own; `api_format` says so for a dedicated endpoint. After 429, 5xx and failed connections
    the call is tried again, up to `max_retries` times. Default options are named as in the SDK's request: ``top_p``.
    """

    provider = "oci"

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        compartment_id: str | None = None,
        auth: Auth = "config",
        config: Mapping[str, Any] | None = None,
        config_file: str | None = None,
        profile: str | None = None,
        service_endpoint: str | None = None,
        base_url: str | None = None,
        api_format: ApiFormat | None = None,
        timeout: float | None = TIMEOUT,
        max_retries: int = 2,
        **default_options: Any,
    ) -> None:
        _load()
        compartment = compartment_id or os.environ.get("OCI_COMPARTMENT_ID")
        if not compartment:
            raise InvalidInput(
                "OCIModel needs a compartment: set OCI_COMPARTMENT_ID or pass compartment_id=..."
            )
        if auth not in ("config", "instance_principal", "resource_principal"):
            raise InvalidInput(
                f"auth must be 'config', 'instance_principal' or 'resource_principal', got {auth!r}"
            )
        if api_format not in (None, "GENERIC", "COHERE"):
            raise InvalidInput(f"api_format must be 'GENERIC', 'COHERE' or None, got {api_format!r}")
        self._auth = auth
        self._config = _read_config(config, config_file, profile) if auth == "config" else dict(config or {})
        super().__init__(
            model,
            api_key=self._config.get("pass_phrase") or None,  # the one secret that errors might show
            timeout=timeout,
            max_retries=max_retries,
            options=default_options,
        )
        self._compartment = compartment
        self._endpoint = service_endpoint or base_url or os.environ.get("OCI_GENAI_ENDPOINT") or None
        self._cohere = api_format == "COHERE" if api_format else model.startswith("cohere.")

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        """The answer to a conversation."""
        assembly = self._assembly()
        with self._talking():
            answer, document = await self._begin(messages, tools, options, streamed=False)
            async with aclosing(answer):
                if not isinstance(document, Mapping):
                    raise self._failed("the answer is no chat result; is the endpoint right?")
                return assembly.whole(document)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        """The same in pieces."""
        assembly = self._assembly()
        with self._talking():
            answer, document = await self._begin(messages, tools, options, streamed=True)
            async with aclosing(answer):
                while document is not None:
                    self._check(document)
                    if text := assembly.feed(document):
                        yield ModelChunk(text)
                    document = await self._next(answer)
            response = assembly.finish()
        yield ModelChunk(response=response)

    async def _next(self, answer: Any) -> Any:
        try:
            return await anext(answer, None)
        except json.JSONDecodeError as error:  # half an event
            raise self._failed(f"the answer broke off: {error}", temporary=True) from error

    def _assembly(self) -> Assembly:
        return CohereAssembly() if self._cohere else GenericAssembly()

    async def _begin(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] | None,
        options: Mapping[str, Any],
        *,
        streamed: bool,
    ) -> Any:
        """The answer's documents, and the first of them, which tells that the request was taken."""
        merged = self._merged(options)
        silence = merged.pop("timeout")
        details = self._details(messages, tools, merged, streamed=streamed)

        async def send() -> Any:
            answer = documents(self._client(), details, silence=silence)
            return answer, await anext(answer, None)

        return await retry(send, max_retries=self.max_retries, is_retryable=_is_retryable)

    def _details(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] | None,
        options: Mapping[str, Any],
        *,
        streamed: bool,
    ) -> dict[str, Any]:
        given = {name: value for name, value in options.items() if value is not None}
        request = (cohere_request if self._cohere else generic_request)(messages, tools, given)
        models = _load().generative_ai_inference.models
        kind = models.CohereChatRequest if self._cohere else models.GenericChatRequest
        # OpenAI's newer models refuse the old name; what others serve under its name knows only that.
        if self.name.startswith("openai.") and "oss" not in self.name and "max_tokens" in given:
            given.setdefault("max_completion_tokens", given.pop("max_tokens"))
        names = kind().attribute_map | {"max_completion_tokens": "maxCompletionTokens"}
        for name, value in given.items():
            if name in _OURS:
                continue
            if name in names:
                request.setdefault(names[name], value)
            else:
                raise InvalidInput(f"the SDK of oci knows no such option: {name}; a {kind.__name__} has none")
        if streamed:
            request |= {"isStream": True, "streamOptions": {"isIncludeUsage": True}}
        dedicated = self.name.startswith("ocid1.generativeaiendpoint")
        mode = (
            {"servingType": "DEDICATED", "endpointId": self.name}
            if dedicated
            else {"servingType": "ON_DEMAND", "modelId": self.name}
        )
        return {"compartmentId": self._compartment, "servingMode": mode, "chatRequest": request}

    def _check(self, document: Any) -> None:
        """An error may come as an event of the stream."""
        if not isinstance(document, Mapping):
            raise self._failed("the answer is no stream of events", temporary=True)
        if "message" in document and isinstance(document["message"], str) and "code" in document:
            code = document["code"]
            status = int(code) if str(code).isdigit() else None
            raise self._failed(
                f"the answer broke off: {document['message']}", status=status, temporary=status is None
            )

    def _connect(self) -> Line:
        return Line(self._make_client)

    def _make_client(self) -> Any:
        oci = _load()
        settings: dict[str, Any] = {
            "timeout": (_CONNECT_TIMEOUT, None),  # silence is ours to end: it may differ from call to call
            "skip_deserialization": True,
            "circuit_breaker_strategy": oci.circuit_breaker.NoCircuitBreakerStrategy(),
        }
        if self._endpoint:
            settings["service_endpoint"] = self._endpoint
        if self._auth == "instance_principal":
            settings["signer"] = oci.auth.signers.InstancePrincipalsSecurityTokenSigner()
        elif self._auth == "resource_principal":
            settings["signer"] = oci.auth.signers.get_resource_principals_signer()
        return oci.generative_ai_inference.GenerativeAiInferenceClient(self._config, **settings)

    @staticmethod
    async def _disconnect(client: Line) -> None:
        client.close()

    def _failure(self, error: Exception) -> HoldfastError | None:
        exceptions = _load().exceptions
        if isinstance(error, TimeoutError):
            return self._failed("no answer in time", temporary=True)
        if isinstance(error, exceptions.ServiceError):
            text = f"{error.code}: {error.message}"
            if error.status == 401:
                text += "; check the profile's user, fingerprint, tenancy and key (OCI_CONFIG_FILE, OCI_CONFIG_PROFILE)"
            elif error.status == 404:
                text += "; check the model's name, the region, the compartment and its policies"
            return self._failed(text, status=error.status)
        if isinstance(error, exceptions.ClientError):
            return InvalidInput(f"the configuration of oci can't be used: {error}")
        return None


def _is_retryable(error: Exception) -> bool | float:
    if isinstance(error, _load().exceptions.ServiceError):
        return retry_status(error.status, dict(error.headers or {}))
    return is_transport_error(error)


def _read_config(
    config: Mapping[str, Any] | None, config_file: str | None, profile: str | None
) -> dict[str, Any]:
    """A profile that is complete; nothing is sent."""
    oci = _load()
    file = config_file or os.environ.get("OCI_CONFIG_FILE") or oci.config.DEFAULT_LOCATION
    name = profile or os.environ.get("OCI_CONFIG_PROFILE") or oci.config.DEFAULT_PROFILE
    try:
        found = dict(config) if config is not None else oci.config.from_file(file, name)
        oci.config.validate_config(found)
    except (oci.exceptions.ClientError, ValueError) as error:
        raise InvalidInput(
            f"the OCI profile {name!r} can't be used: {error}; set OCI_CONFIG_FILE and OCI_CONFIG_PROFILE, or pass"
            " config_file= and profile=, or config= as a dict, or auth='instance_principal'"
        ) from error
    return dict(found)


def _load() -> Any:
    try:
        import oci
    except ImportError:
        raise MissingExtra("OCIModel", "oci") from None
    return oci
