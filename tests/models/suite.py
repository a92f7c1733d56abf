"""What every model over a service must do, whatever the service's format: a provider's tests say how it is written."""

import asyncio
import sys
import traceback
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, ClassVar, cast

import pytest

from holdfast.core.errors import InvalidInput, MissingExtra, ModelError, ModelUnavailable
from holdfast.core.messages import Message
from holdfast.models.base import Model, ModelChunk, ModelResponse
from holdfast.models.service import ServiceModel
from tests.models.wire import WAIT, WireServer

KEY = "secret-key-1234"
ASK = [Message.user("hello")]
NOW = {"Retry-After": "0.001"}


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


def complete(
    model: Model, messages: Sequence[Message] = ASK, *arguments: Any, **options: Any
) -> ModelResponse:
    """The answer, asked for on an event loop of its own."""
    return asyncio.run(_awaited(model.complete(messages, *arguments, **options)))


async def _awaited(answer: Any) -> ModelResponse:
    return cast(ModelResponse, await answer)


def stream(
    model: Model, messages: Sequence[Message] = ASK, *arguments: Any, **options: Any
) -> list[ModelChunk]:
    """The chunks of an answer. The ones before a failure are in the failure's `chunks`."""

    async def gather() -> list[ModelChunk]:
        chunks = []
        try:
            async for chunk in model.stream(messages, *arguments, **options):
                chunks.append(chunk)  # noqa: PERF401 - the ones before a failure are needed
        except ModelError as error:
            raise _Broken(chunks) from error
        return chunks

    return asyncio.run(gather())


class _Broken(Exception):
    def __init__(self, chunks: list[ModelChunk]) -> None:
        super().__init__()
        self.chunks = chunks


def broken_stream(model: Model) -> tuple[list[ModelChunk], ModelError]:
    """The chunks of an answer that fails, and the failure."""
    with pytest.raises(_Broken) as caught:
        stream(model)
    assert isinstance(caught.value.__cause__, ModelError)
    return caught.value.chunks, caught.value.__cause__


def whole_text(chunks: Sequence[ModelChunk]) -> str:
    """The text of the chunks, which is that of the answer in the last one."""
    *pieces, last = chunks
    text = "".join(piece.text for piece in pieces)
    assert all(piece.text and piece.response is None for piece in pieces)
    assert last.response is not None
    assert (last.text, last.response.message.content or "") == ("", text)
    return text


class ServiceSuite:
    """Subclass it as ``Test...`` and fill in the five hooks."""

    package: ClassVar[str]
    key_variable: ClassVar[str]

    @abstractmethod
    def model(self, server: WireServer, **settings: Any) -> ServiceModel[Any]:
        """A model at the server, with `KEY` for a key."""

    @abstractmethod
    def whole(self, text: str) -> Any:
        """The JSON of a plain answer."""

    @abstractmethod
    def pieces(self, *texts: str) -> list[bytes]:
        """The stream of a plain answer, a chunk for each text and then some more, three at least."""

    @abstractmethod
    def error(self, message: str, status: int) -> Any:
        """The JSON of an error."""

    def test_a_plain_answer_comes_whole_and_in_pieces(self, server: WireServer) -> None:
        server.reply(json=self.whole("good day")).stream(self.pieces("good", " ", "day"))
        answer = complete(self.model(server))
        assert (answer.message.content, answer.finish_reason, answer.message.tool_calls) == (
            "good day",
            "stop",
            (),
        )
        assert whole_text(stream(self.model(server))) == "good day"

    def test_a_stream_that_is_cut_is_no_answer(self, server: WireServer) -> None:
        pieces = self.pieces("good", " day")
        for length in range(1, len(pieces) - 1):
            server.stream(pieces[:length], cut=True)
            chunks, error = broken_stream(self.model(server))
            assert isinstance(error, ModelUnavailable)
            assert all(chunk.response is None for chunk in chunks)

    def test_a_stream_that_just_ends_early_is_no_answer(self, server: WireServer) -> None:
        server.stream(self.pieces("good", " day")[:2])
        chunks, error = broken_stream(self.model(server))
        assert isinstance(error, ModelUnavailable)
        assert all(chunk.response is None for chunk in chunks)

    def test_429_is_tried_again_when_retry_after_says(self, server: WireServer) -> None:
        for _ in range(2):
            server.reply(status=429, json=self.error("slow down", 429), headers=NOW)
        server.reply(json=self.whole("at last"))
        assert complete(self.model(server)).message.content == "at last"
        assert len(server.requests) == 3
        server.reply(status=429, json=self.error("slow down", 429), headers=NOW).stream(
            self.pieces("at last")
        )
        assert whole_text(stream(self.model(server))) == "at last"

    def test_a_retry_after_of_a_day_is_not_waited_for(self, server: WireServer) -> None:
        server.reply(status=429, json=self.error("tomorrow", 429), headers={"Retry-After": "86400"})
        with pytest.raises(ModelUnavailable, match="tomorrow") as caught:
            complete(self.model(server))
        assert (caught.value.status, len(server.requests)) == (429, 1)

    @pytest.mark.parametrize("status", [500, 503])
    def test_5xx_is_tried_again_and_then_told(self, server: WireServer, status: int) -> None:
        for _ in range(6):
            server.reply(status=status, json=self.error("out of order", status), headers=NOW)
        with pytest.raises(ModelUnavailable, match="out of order") as caught:
            complete(self.model(server, max_retries=2))
        assert (caught.value.status, len(server.requests)) == (status, 3)
        _, error = broken_stream(self.model(server, max_retries=2))
        assert isinstance(error, ModelUnavailable)
        assert len(server.requests) == 6

    def test_a_refused_key_is_told_with_its_variable_and_never_shown(self, server: WireServer) -> None:
        for _ in range(2):
            server.reply(status=401, json=self.error(f"the key {KEY} is wrong", 401))
        model = self.model(server)
        with pytest.raises(ModelError, match=rf"(?s)\*\*\* is wrong.*{self.key_variable}") as caught:
            complete(model)
        assert not isinstance(caught.value, ModelUnavailable)
        assert (caught.value.status, caught.value.provider, len(server.requests)) == (401, model.provider, 1)
        assert KEY not in "".join(traceback.format_exception(caught.value))
        assert KEY not in repr(model)

    def test_a_bad_request_is_final(self, server: WireServer) -> None:
        server.reply(status=400, json=self.error("no such field", 400))
        with pytest.raises(ModelError, match="no such field") as caught:
            complete(self.model(server))
        assert not isinstance(caught.value, ModelUnavailable)
        assert (caught.value.status, len(server.requests)) == (400, 1)

    def test_silence_ends_in_a_time_out(self, server: WireServer) -> None:
        server.hang().hang()
        with pytest.raises(ModelUnavailable):
            complete(self.model(server, timeout=0.05, max_retries=0))
        with pytest.raises(ModelUnavailable):
            complete(self.model(server, max_retries=0), timeout=0.05)

    def test_a_stream_that_falls_silent_ends_in_a_time_out(self, server: WireServer) -> None:
        server.stream(self.pieces("good", " day")[:2], hold=True)
        chunks, error = broken_stream(self.model(server, timeout=0.1))
        assert isinstance(error, ModelUnavailable)
        assert all(chunk.response is None for chunk in chunks)

    def test_a_server_that_is_not_there_is_unavailable(self) -> None:
        with WireServer() as gone:
            model = self.model(gone, max_retries=0)
        with pytest.raises(ModelUnavailable):
            complete(model)

    def test_a_dropped_connection_is_tried_again(self, server: WireServer) -> None:
        server.drop().reply(json=self.whole("there"))
        assert complete(self.model(server, max_retries=1)).message.content == "there"
        assert len(server.requests) == 2

    def test_an_answer_that_is_no_json_is_an_error_of_ours(self, server: WireServer) -> None:
        server.reply(body=b"<html>hello</html>", headers={"Content-Type": "text/html"})
        with pytest.raises(ModelError):
            complete(self.model(server, max_retries=0))

    def test_an_answer_that_is_broken_json_is_an_error_of_ours(self, server: WireServer) -> None:
        server.reply(body=b'{"id": "x', headers={"Content-Type": "application/json"})
        with pytest.raises(ModelError):
            complete(self.model(server, max_retries=0))

    def test_cancelling_in_the_middle_of_a_stream_closes_the_connection(self, server: WireServer) -> None:
        server.stream(self.pieces("good", " day")[:2], hold=True)
        model = self.model(server)

        async def cancelled() -> bool:
            begun = asyncio.Event()

            async def read() -> None:
                async for _ in model.stream(ASK):
                    begun.set()

            task = asyncio.create_task(read())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await asyncio.to_thread(server.hung_up.wait, WAIT)

        assert asyncio.run(cancelled())

    def test_cancelling_while_waiting_for_an_answer_closes_the_connection(self, server: WireServer) -> None:
        server.hang()
        model = self.model(server)

        async def cancelled() -> bool:
            task = asyncio.create_task(_awaited(model.complete(ASK)))
            assert await asyncio.to_thread(server.asked.wait, WAIT)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await asyncio.to_thread(server.hung_up.wait, WAIT)

        assert asyncio.run(cancelled())

    def test_leaving_a_stream_closes_the_connection(self, server: WireServer) -> None:
        server.stream(self.pieces("good", " day")[:2], hold=True)
        model = self.model(server)

        async def left() -> bool:
            async with aclosing(cast(Any, model.stream(ASK))) as chunks:
                async for _ in chunks:
                    break
            return await asyncio.to_thread(server.hung_up.wait, WAIT)

        assert asyncio.run(left())

    def test_one_model_works_on_several_event_loops_at_once_and_after_closing(
        self, server: WireServer
    ) -> None:
        model = self.model(server)
        for _ in range(12):
            server.reply(json=self.whole("hi"))

        async def twice() -> None:
            assert (await model.complete(ASK)).message.content == "hi"
            await model.aclose()
            assert (await model.complete(ASK)).message.content == "hi"

        asyncio.run(twice())
        with ThreadPoolExecutor(4) as pool:
            for job in [pool.submit(asyncio.run, twice()) for _ in range(4)]:
                job.result(WAIT)
        asyncio.run(twice())
        assert len(server.requests) == 12

    def test_without_its_package_the_model_names_the_extra(
        self, server: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, self.package, None)
        with pytest.raises(MissingExtra, match=rf"holdfast\[{self.package}\]"):
            self.model(server)

    @pytest.mark.parametrize(
        "settings",
        [{"model": ""}, {"timeout": 0}, {"timeout": "1"}, {"max_retries": -1}, {"max_retries": True}],
    )
    def test_bad_settings_are_refused(self, server: WireServer, settings: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match=next(iter(settings))):
            self.model(server, **settings)

    def test_an_option_that_the_sdk_does_not_know_is_invalid_input(self, server: WireServer) -> None:
        with pytest.raises(InvalidInput, match="no_such_option"):
            complete(self.model(server), no_such_option=1)
        assert server.requests == []
