"""What an embedder over a service must do, whatever its format: over its real SDK, against a server on loopback."""

import asyncio
import sys
import traceback
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from holdfast.core.errors import InvalidInput, MissingExtra, ModelError, ModelUnavailable
from holdfast.memory.embedder import Embedder
from tests.models.suite import KEY, NOW
from tests.models.wire import WAIT, WireServer


def embed(embedder: Embedder, *texts: str) -> list[list[float]]:
    return asyncio.run(_awaited(embedder, texts))


async def _awaited(embedder: Embedder, texts: Any) -> list[list[float]]:
    return await embedder.embed(texts)


class EmbedderSuite:
    """Subclass it as ``Test...`` and fill in the hooks."""

    package: ClassVar[str]
    extra: ClassVar[str]

    @abstractmethod
    def embedder(self, server: WireServer, **settings: Any) -> Any:
        """An embedder of 2 dimensions at the server, with `KEY` for a key."""

    @abstractmethod
    def answer(self, *vectors: list[float]) -> Any:
        """The JSON that brings these vectors."""

    def test_it_is_an_embedder_and_brings_a_vector_for_each_text(self, server: WireServer) -> None:
        server.reply(json=self.answer([1.0, 0.0], [0.25, -0.5]))
        embedder = self.embedder(server)
        assert isinstance(embedder, Embedder)
        assert (embedder.dimension, embedder.metric) == (2, "COSINE")
        assert embed(embedder, "one", "two\ud800") == [[1.0, 0.0], [0.25, -0.5]]
        assert server.requests[0].json["input"] == ["one", "two?"]
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"

    def test_a_blank_text_is_refused_before_anything_is_sent(self, server: WireServer) -> None:
        with pytest.raises(InvalidInput, match=r"texts\[1\] is blank"):
            embed(self.embedder(server), "x", " ")
        assert embed(self.embedder(server)) == []
        assert server.requests == []

    def test_many_texts_take_several_requests_and_a_long_text_several_pieces(
        self, server: WireServer
    ) -> None:
        server.reply(json=self.answer([3.0, 0.0], [0.0, 1.0]))
        (vector,) = embed(self.embedder(server, max_bytes=100), "a" * 100 + "b" * 100)
        assert server.requests[0].json["input"] == ["a" * 100, "b" * 100]
        assert vector == pytest.approx([0.5**0.5, 0.5**0.5])
        texts = [str(number) for number in range(130)]
        most = 128 if self.package == "openai" else 64
        for start in range(0, 130, most):
            batch = texts[start : start + most]
            server.reply(json=self.answer(*[[float(number), 1.0] for number in batch]))
        assert embed(self.embedder(server), *texts) == [[float(number), 1.0] for number in range(130)]

    def test_429_and_5xx_are_tried_again_and_then_told(self, server: WireServer) -> None:
        server.reply(status=429, json={"error": "slow down"}, headers=NOW)
        server.reply(status=503, json={"error": "busy"}, headers=NOW)
        server.reply(json=self.answer([1.0, 0.0]))
        assert embed(self.embedder(server), "x") == [[1.0, 0.0]]
        server.reply(status=500, json={"error": "broken"})
        with pytest.raises(ModelUnavailable) as caught:
            embed(self.embedder(server, max_retries=0), "x")
        assert (caught.value.status, len(server.requests)) == (500, 4)

    def test_a_refusal_is_final_and_never_shows_the_key(self, server: WireServer) -> None:
        server.reply(status=401, json={"error": f"the key {KEY} is wrong"})
        embedder = self.embedder(server)
        with pytest.raises(ModelError) as caught:
            embed(embedder, "x")
        assert not isinstance(caught.value, ModelUnavailable)
        assert (caught.value.status, len(server.requests)) == (401, 1)
        assert KEY not in "".join(traceback.format_exception(caught.value)) + repr(embedder)

    def test_silence_and_a_dropped_connection_are_unavailable(self, server: WireServer) -> None:
        server.hang().drop()
        for _ in range(2):
            with pytest.raises(ModelUnavailable):
                embed(self.embedder(server, timeout=0.2, max_retries=0), "x")

    def test_an_answer_that_is_something_else_is_an_error(self, server: WireServer) -> None:
        server.reply(body=b"<html>hello</html>", headers={"Content-Type": "text/html"})
        server.reply(json=self.answer([1.0, 0.0, 0.0])).reply(json=self.answer([1.0, 0.0]))
        with pytest.raises(ModelError):
            embed(self.embedder(server, max_retries=0), "x")
        with pytest.raises(ModelError, match="pass dimension=3"):
            embed(self.embedder(server), "x")
        with pytest.raises(ModelError, match="1 vectors for 2 texts"):
            embed(self.embedder(server), "x", "y")

    def test_one_embedder_works_on_several_event_loops_and_after_closing(self, server: WireServer) -> None:
        embedder = self.embedder(server)
        for _ in range(6):
            server.reply(json=self.answer([1.0, 0.0]))

        async def twice() -> None:
            assert await embedder.embed(["x"]) == [[1.0, 0.0]]
            await embedder.aclose()
            assert await embedder.embed(["x"]) == [[1.0, 0.0]]

        with ThreadPoolExecutor(3) as pool:
            for job in [pool.submit(asyncio.run, twice()) for _ in range(3)]:
                job.result(WAIT)

    def test_without_its_package_it_names_itself_and_the_extra(
        self, server: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = type(self.embedder(server)).__name__
        monkeypatch.setitem(sys.modules, self.package, None)
        with pytest.raises(MissingExtra, match=rf"{name} needs the extra '{self.extra}'"):
            self.embedder(server)

    @pytest.mark.parametrize(
        "settings", [{"dimension": 0}, {"dimension": True}, {"max_bytes": 3}, {"timeout": 0}]
    )
    def test_bad_settings_are_refused(self, server: WireServer, settings: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match=next(iter(settings))):
            self.embedder(server, **settings)

    def test_an_option_that_the_sdk_does_not_know_is_invalid_input(self, server: WireServer) -> None:
        with pytest.raises(InvalidInput, match="no_such_option"):
            embed(self.embedder(server, no_such_option=1), "x")
        assert server.requests == []
