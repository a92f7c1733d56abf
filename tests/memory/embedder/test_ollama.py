"""Ollama's embeddings, over the SDK."""

from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.memory.embedder import OllamaEmbedder
from tests.memory.embedder.suite import EmbedderSuite, embed
from tests.models.suite import KEY, server
from tests.models.wire import WireServer

__all__ = ["server"]


def answer(*vectors: list[float]) -> dict[str, Any]:
    return {"model": "some", "embeddings": list(vectors), "total_duration": 1, "prompt_eval_count": 1}


class TestOllama(EmbedderSuite):
    package = extra = "ollama"

    def embedder(self, server: WireServer, **settings: Any) -> OllamaEmbedder:
        return OllamaEmbedder(
            "some-model", **{"api_key": KEY, "base_url": server.url, "dimension": 2, **settings}
        )

    def answer(self, *vectors: list[float]) -> Any:
        return answer(*vectors)


def test_the_default_model_and_its_names() -> None:
    plain = OllamaEmbedder()
    assert (plain.name, plain.dimension) == ("ollama:nomic-embed-text", 768)
    tagged = OllamaEmbedder("bge-m3:latest")
    assert (tagged.name, tagged.dimension) == ("ollama:bge-m3", 1024)
    with pytest.raises(InvalidInput, match=r"'own-model'.*pass dimension="):
        OllamaEmbedder("own-model")


def test_a_known_models_vectors_are_shortened_by_the_server(server: WireServer) -> None:
    server.reply(json=answer([1.0, 0.0]))
    embed(OllamaEmbedder(base_url=server.url, dimension=2, keep_alive="5m"), "x")
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/embed")
    assert request.json == {"model": "nomic-embed-text", "input": ["x"], "dimensions": 2, "keep_alive": "5m"}


def test_of_other_models_the_dimension_is_told_not_asked_for(server: WireServer) -> None:
    server.reply(json=answer([1.0, 0.0]))
    embed(OllamaEmbedder("own-model", base_url=server.url, dimension=2), "x")
    assert "dimensions" not in server.requests[0].json
