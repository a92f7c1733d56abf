"""Which model the examples use: the one that the environment names, else the mock, which works offline.

- ``HOLDFAST_MODEL=openai:gpt-4.1-mini``: a provider and a model
- ``HOLDFAST_MODEL_PROVIDER=anthropic``: that provider's default model
- ``OPENAI_API_KEY``, ``ANTHROPIC_API_KEY`` or ``OPENROUTER_API_KEY``: the default model of the first that is set
"""

import os
from typing import Any

from holdfast import models
from holdfast.errors import InvalidInput


def get_model(*, max_tokens: int | None = None, **options: Any) -> models.Model:
    """The model to run with. The options go to it: ``max_tokens`` bounds each of its answers."""
    if max_tokens is not None:
        options["max_tokens"] = max_tokens
    try:
        return models.default_model(**options)
    except InvalidInput:
        if _is_named():  # a name was given, and it is wrong
            raise
        return models.get_model("mock:", **options)


def print_config() -> None:
    """Say which model that is, and how to choose another."""
    model = get_model()
    print(f"Model: {model!r}")
    if isinstance(model, models.MockModel):
        if not _is_named():
            print("No model is set, so the mock answers: no network, no key, always the same words.")
        print("For a real one set HOLDFAST_MODEL=openai:gpt-4.1-mini (or the like) and its key.")


def _is_named() -> bool:
    return bool(os.environ.get("HOLDFAST_MODEL") or os.environ.get("HOLDFAST_MODEL_PROVIDER"))


if __name__ == "__main__":
    print_config()
