"""Models by name, and the one that the environment names."""

import subprocess
import sys
from typing import Any

import pytest

import holdfast.models
from holdfast.core.errors import InvalidInput
from holdfast.models import registry
from holdfast.models.anthropic import AnthropicModel
from holdfast.models.litellm import LiteLLMModel
from holdfast.models.mock import MockModel
from holdfast.models.ollama import OllamaModel
from holdfast.models.openai import OpenAIModel
from holdfast.models.openrouter import OpenRouterModel
from holdfast.models.registry import default_model, get_model, register_provider
from holdfast.testing import ScriptedModel

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEYS, "HOLDFAST_MODEL", "HOLDFAST_MODEL_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(registry, "_registered", {})


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        ("openai:gpt-4.1", OpenAIModel, "gpt-4.1"),
        ("openai", OpenAIModel, "gpt-4.1-mini"),
        ("openai:", OpenAIModel, "gpt-4.1-mini"),
        (" OpenAI : gpt-4.1 ", OpenAIModel, "gpt-4.1"),
        ("anthropic:claude-opus-4-6", AnthropicModel, "claude-opus-4-6"),
        (
            "openrouter:meta-llama/llama-3.3-70b-instruct",
            OpenRouterModel,
            "meta-llama/llama-3.3-70b-instruct",
        ),
        ("openrouter:deepseek/deepseek-r1:free", OpenRouterModel, "deepseek/deepseek-r1:free"),
        ("openrouter", OpenRouterModel, "openai/gpt-4.1-mini"),
        ("ollama:llama3.2:3b", OllamaModel, "llama3.2:3b"),
        ("litellm:groq/llama-3.1-8b-instant", LiteLLMModel, "groq/llama-3.1-8b-instant"),
    ],
)
def test_a_name_gives_the_providers_model(spec: str, kind: type[Any], name: str) -> None:
    model: Any = get_model(spec, api_key="k")
    assert type(model) is kind
    assert (model.name, f"{model.provider}:") == (name, spec.strip().lower().partition(":")[0].strip() + ":")


def test_only_the_first_colon_counts_and_options_reach_the_factory() -> None:
    made: list[Any] = []

    def factory(*names: str, **options: Any) -> ScriptedModel:
        made.append((names, options))
        return ScriptedModel(["hi"])

    register_provider("ollama", factory)
    get_model("ollama:llama3.2:3b", temperature=0)
    get_model("ollama:")
    assert made == [(("llama3.2:3b",), {"temperature": 0}), ((), {})]


def test_the_mock_needs_nothing() -> None:
    assert isinstance(get_model("mock:"), MockModel)
    assert isinstance(get_model("mock"), MockModel)


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("opnai:gpt-4.1", "did you mean 'openai:gpt-4.1'"),
        ("antropic", "did you mean 'anthropic'"),
        ("gpt-4.1-mini", "write 'provider:model'; known are anthropic, litellm, mock"),
        ("", "write 'provider:model'"),
    ],
)
def test_an_unknown_provider_is_invalid_with_a_hint(spec: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint):
        get_model(spec)


def test_what_is_no_name_is_invalid() -> None:
    wrong: Any = 3
    with pytest.raises(InvalidInput, match="string 'provider:model', got int"):
        get_model(wrong)


@pytest.mark.parametrize("name", ["", "Mine", "a:b", " a"])
def test_a_providers_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(InvalidInput, match="lower case"):
        register_provider(name, ScriptedModel)


def test_a_factory_must_be_callable() -> None:
    wrong: Any = "factory"
    with pytest.raises(InvalidInput, match="factory must be callable, got str"):
        register_provider("mine", wrong)


def test_the_environment_names_the_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, kind in reversed(list(zip(KEYS, (OpenAIModel, AnthropicModel, OpenRouterModel), strict=True))):
        monkeypatch.setenv(key, "k")  # the one set last comes first
        assert type(default_model()) is kind
    monkeypatch.setenv("HOLDFAST_MODEL_PROVIDER", "anthropic")
    assert type(default_model()) is AnthropicModel
    monkeypatch.setenv("HOLDFAST_MODEL", "openrouter:some/model")
    model: Any = default_model(max_retries=0)
    assert (type(model), model.name, model.max_retries) == (OpenRouterModel, "some/model", 0)


def test_with_no_model_the_error_says_how_to_choose() -> None:
    with pytest.raises(InvalidInput) as caught:
        default_model()
    for word in (*KEYS, "HOLDFAST_MODEL", "HOLDFAST_MODEL_PROVIDER", "mock:", "model="):
        assert word in str(caught.value)


def test_the_package_opens_every_name_and_imports_no_sdk() -> None:
    for name in holdfast.models.__all__:
        assert getattr(holdfast.models, name) is not None
    assert dir(holdfast.models) == sorted(holdfast.models.__all__)
    code = (
        "import sys; from holdfast.models import *; get_model('mock:');"
        "print([name for name in ('openai', 'anthropic', 'openrouter', 'httpx', 'litellm', 'oci', 'ollama')"
        " if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
