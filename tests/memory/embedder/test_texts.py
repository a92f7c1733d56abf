"""Texts cut, batched and put together again, whatever their length."""

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidInput, ModelError
from holdfast.memory.embedder.texts import check_texts, cut, embed_in_batches


@given(st.text(min_size=1), st.integers(4, 40))
def test_pieces_fit_and_only_blanks_are_left_out(text: str, size: int) -> None:
    text = text.encode(errors="replace").decode()
    pieces = cut(text, size)
    if not text.isspace():
        assert all(len(piece.encode()) <= size for piece in pieces)
        assert "".join("".join(pieces).split()) == "".join(text.split())


def test_a_text_is_cut_at_a_line_else_at_a_word_else_anywhere_but_in_a_character() -> None:
    assert cut("one two\nthree four", 12) == ["one two\n", "three four"]
    assert cut("one two three", 8) == ["one two ", "three"]
    assert cut("ééééé", 5) == ["éé", "éé", "é"]
    assert cut("short", 100) == ["short"]


@pytest.mark.parametrize("texts", ["text", b"text", None, 7])
def test_texts_are_a_list(texts: Any) -> None:
    with pytest.raises(InvalidInput, match=r"texts must be a list of strings, got"):
        check_texts(texts)


@pytest.mark.parametrize("bad", ["", " \n", None, 7, b"x"])
def test_a_blank_text_and_one_that_is_none_are_refused_by_their_place(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"texts\[1\]"):
        check_texts(["fine", bad])


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert check_texts(["a\ud800b"]) == ["a?b"]


class Service:
    """Gives "x" and "y" their own directions, and notes the batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def send(self, texts: list[str]) -> list[list[float]]:
        self.batches.append(texts)
        return [[2.0, 0.0] if "x" in text else [0.0, 5.0] for text in texts]

    def embed(self, texts: Any, **settings: Any) -> list[list[float]]:
        chosen = {"dimension": 2, "max_bytes": 100, "max_items": 3, "provider": "test", **settings}
        return asyncio.run(embed_in_batches(texts, self.send, **chosen))


def test_texts_go_in_batches_and_keep_their_order() -> None:
    service = Service()
    assert service.embed(["x", "y", "y", "x"]) == [[2.0, 0.0], [0.0, 5.0], [0.0, 5.0], [2.0, 0.0]]
    assert service.batches == [["x", "y", "y"], ["x"]]
    assert service.embed([]) == []


def test_a_batch_has_a_limited_size() -> None:
    service = Service()
    service.embed(["x" * 100_000] * 5, max_bytes=100_000, max_items=100)
    assert [len(batch) for batch in service.batches] == [2, 2, 1]


def test_a_long_text_has_the_mean_direction_of_its_pieces_by_their_lengths() -> None:
    service = Service()
    long = "x" * 100 + "y" * 50
    (vector, short) = service.embed([long, "y"])
    assert service.batches == [["x" * 100, "y" * 50, "y"]]
    length = math.hypot(100, 50)
    assert vector == pytest.approx([100 / length, 50 / length])
    assert short == [0.0, 5.0]


def test_directions_that_cancel_out_leave_that_of_the_first_piece() -> None:
    async def send(texts: list[str]) -> list[list[float]]:
        return [[1.0] if "x" in text else [-1.0] for text in texts]

    settings = {"dimension": 1, "max_bytes": 100, "max_items": 9, "provider": "test"}
    assert asyncio.run(embed_in_batches(["x" * 100 + "y" * 100], send, **settings)) == [[1.0]]  # type: ignore[arg-type]  # mypy sees a dict of objects


@pytest.mark.parametrize(("answer", "said"), [([[1.0]], "1 components where 2"), ([], "0 vectors for 1")])
def test_an_answer_of_another_shape_is_an_error(answer: list[list[float]], said: str) -> None:
    async def send(texts: list[str]) -> list[list[float]]:
        return answer

    with pytest.raises(ModelError, match=said):
        asyncio.run(embed_in_batches(["x"], send, dimension=2, max_bytes=100, max_items=3, provider="test"))
