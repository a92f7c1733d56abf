"""OpenAI's embeddings, over the SDK."""

import base64
import struct
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.memory.embedder import OpenAIEmbedder
from tests.memory.embedder.suite import EmbedderSuite, embed
from tests.models.suite import KEY, server
from tests.models.wire import WireServer

__all__ = ["server"]


def answer(*vectors: list[float]) -> dict[str, Any]:
    """As OpenAI answers the SDK: base64, here in another order than asked, which the index tells."""
    data = [
        {
            "object": "embedding",
            "index": place,
            "embedding": base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode(),
        }
        for place, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "data": data[::-1], "model": "some", "usage": usage}


class TestOpenAI(EmbedderSuite):
    package = extra = "openai"

    def embedder(self, server: WireServer, **settings: Any) -> OpenAIEmbedder:
        chosen = {"api_key": KEY, "base_url": f"{server.url}/v1", "dimension": 2, **settings}
        return OpenAIEmbedder("some-model", **chosen)

    def answer(self, *vectors: list[float]) -> Any:
        return answer(*vectors)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_the_default_model_is_the_small_one_and_the_model_is_the_first_argument() -> None:
    small = OpenAIEmbedder(api_key=KEY)
    assert (small.name, small.dimension) == ("openai:text-embedding-3-small", 1536)
    large = OpenAIEmbedder("text-embedding-3-large", api_key=KEY)
    assert (large.name, large.dimension) == ("openai:text-embedding-3-large", 3072)
    assert repr(large) == "OpenAIEmbedder('text-embedding-3-large')"


def test_vectors_of_openais_models_are_shortened_by_the_service(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.reply(json=answer([1.0, 0.0])).reply(json=answer([1.0] * 1536))
    assert embed(OpenAIEmbedder(dimension=2), "x") == [[1.0, 0.0]]
    assert len(embed(OpenAIEmbedder(dimension=1536), "x")[0]) == 1536
    first, second = (request.json for request in server.requests)
    assert (first["dimensions"], first["model"]) == (2, "text-embedding-3-small")
    assert "dimensions" not in second


def test_of_other_models_the_dimension_is_told_not_asked_for(server: WireServer) -> None:
    server.reply(json=answer([1.0, 0.0]))
    embed(OpenAIEmbedder("theirs", base_url=server.url, dimension=2, user="u1"), "x")
    sent = server.requests[0].json
    assert (sent["model"], sent["user"]) == ("theirs", "u1")
    assert "dimensions" not in sent
    with pytest.raises(InvalidInput, match=r"'theirs'.*pass dimension="):
        OpenAIEmbedder("theirs", base_url=server.url)


def test_a_server_that_sends_plain_numbers_is_understood(server: WireServer) -> None:
    plain = answer([1.0, 0.0])
    plain["data"][0]["embedding"] = [0.5, 0.25]
    server.reply(json=plain)
    assert embed(OpenAIEmbedder("theirs", base_url=server.url, dimension=2), "x") == [[0.5, 0.25]]


def test_without_a_key_it_says_how_to_set_one() -> None:
    with pytest.raises(InvalidInput, match=r"OpenAIEmbedder needs a key: set OPENAI_API_KEY"):
        OpenAIEmbedder()


def test_a_text_of_any_script_stays_below_the_services_limit_of_tokens(server: WireServer) -> None:
    server.reply(json=answer(*[[1.0, 0.0]] * 4))
    embed(OpenAIEmbedder("theirs", base_url=server.url, dimension=2), "語" * 8000)
    assert [len(text.encode()) <= 8000 for text in server.requests[0].json["input"]] == [True] * 4
