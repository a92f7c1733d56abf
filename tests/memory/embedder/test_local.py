"""The embedders that need no service: the local one, the one for tests, sentence-transformers."""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from holdfast.core.errors import InvalidInput, MissingExtra, ModelError
from holdfast.memory.embedder import Embedder, HashEmbedder, LocalEmbedder, SentenceTransformerEmbedder
from tests.memory.embedder.suite import embed


def nearness(first: Sequence[float], second: Sequence[float]) -> float:
    return float(np.dot(first, second))


@pytest.mark.parametrize("embedder", [LocalEmbedder(), HashEmbedder()])
def test_vectors_have_length_one_and_depend_on_the_text_alone(embedder: Embedder) -> None:
    texts = ["a dog", "!", "日本語", "😀", "\x00", "a\ud800", "word " * 20_000]
    first = embed(embedder, *texts)
    assert isinstance(embedder, Embedder)
    assert [len(vector) for vector in first] == [embedder.dimension] * len(texts)
    assert np.linalg.norm(first, axis=1) == pytest.approx(1, abs=1e-5)
    assert [embed(embedder, text)[0] for text in texts] == first
    assert embed(embedder) == []
    with pytest.raises(InvalidInput, match=r"texts\[0\] is blank"):
        embed(embedder, " ")


def test_the_local_embedder_knows_meaning_where_no_word_is_shared() -> None:
    question, near, far = embed(
        LocalEmbedder(), "the puppy ran after a kitten", "dogs chase cats", "quarterly tax report"
    )
    assert nearness(question, near) > 0.3
    assert nearness(question, far) < 0.1


def test_the_local_embedder_gives_a_matrix_too() -> None:
    matrix = LocalEmbedder().encode(["one", "two"])
    assert (matrix.shape, matrix.dtype.name) == ((2, 256), "float32")
    assert matrix.tolist() == embed(LocalEmbedder(), "one", "two")


def test_the_local_embedder_can_be_used_by_several_threads() -> None:
    texts = [f"text number {number} about dogs" for number in range(50)]
    expected = embed(LocalEmbedder(), *texts)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: embed(LocalEmbedder(), text)[0], texts))
    assert found == expected


def test_the_local_embedder_asks_no_network_runs_no_code_of_its_package_and_leaves_logging_alone() -> None:
    code = """
import asyncio, logging, socket, sys
def refuse(*arguments, **options): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
from holdfast.memory.embedder import LocalEmbedder
assert len(asyncio.run(LocalEmbedder().embed(["a dog"]))[0]) == 256
print([name for name in ("wordllama", "requests", "torch") if name in sys.modules], logging.root.handlers)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[] []\n", done.stderr


def test_loading_and_long_texts_do_not_happen_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    encode = LocalEmbedder.encode

    def noted(self: LocalEmbedder, texts: Sequence[str]) -> Any:
        import threading

        threads.append(threading.current_thread().name)
        return encode(self, texts)

    monkeypatch.setattr(LocalEmbedder, "encode", noted)
    embed(LocalEmbedder(), "x" * 3000)
    embed(LocalEmbedder(), "short")
    assert threads[0] != "MainThread"
    assert threads[1] == "MainThread"


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    assert not LocalEmbedder.is_installed()
    with pytest.raises(MissingExtra, match=r"LocalEmbedder needs the extra 'local'"):
        LocalEmbedder()


def test_the_hash_embedder_sees_shared_words_and_says_that_it_is_for_tests() -> None:
    one, two, three = embed(HashEmbedder(), "the red kettle", "Kettle, red!", "taxes were paid")
    assert nearness(one, two) > 0.7
    assert abs(nearness(one, three)) < 0.5
    assert (HashEmbedder(8).dimension, HashEmbedder().name) == (8, "hash")
    assert "For tests only" in (HashEmbedder.__doc__ or "")
    with pytest.raises(InvalidInput, match="dimension"):
        HashEmbedder(0)


def test_words_whose_hashes_cancel_out_still_have_a_direction() -> None:
    embedder = HashEmbedder(1)
    words = {embed(embedder, word)[0][0]: word for word in "abcdefgh"}
    assert embed(embedder, f"{words[1.0]} {words[-1.0]}") == [[1.0]]


# -------------------------------------------------------------------------------------- sentence-transformers


class FakeTransformer:
    """A double of ``sentence_transformers.SentenceTransformer``, which needs torch and a download."""

    made: ClassVar[list["FakeTransformer"]]

    def __init__(self, name: str, *, device: str | None = None) -> None:
        if name == "missing":
            raise OSError("no such model")
        self.name, self.device = name, device
        self.made.append(self)

    def get_sentence_embedding_dimension(self) -> int:
        return 2

    def encode(self, texts: list[str], *, convert_to_numpy: bool, show_progress_bar: bool) -> Any:
        assert convert_to_numpy
        assert not show_progress_bar
        return np.array([[float(len(text)), 1.0] for text in texts], dtype=np.float32)


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> type[FakeTransformer]:
    class Fresh(FakeTransformer):
        made: ClassVar[list[FakeTransformer]] = []

    package = ModuleType("sentence_transformers")
    package.__spec__ = ModuleSpec("sentence_transformers", None)
    vars(package)["SentenceTransformer"] = Fresh
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    return Fresh


def test_a_transformer_is_loaded_with_the_first_text_once(transformers: type[FakeTransformer]) -> None:
    embedder = SentenceTransformerEmbedder("own", dimension=2, max_bytes=100, device="cpu")
    assert transformers.made == []
    assert embed(embedder, "one", "three") == [[3.0, 1.0], [5.0, 1.0]]
    (long,) = embed(embedder, "a" * 150)
    assert np.linalg.norm(long) == pytest.approx(1)
    assert [(model.name, model.device) for model in transformers.made] == [("own", "cpu")]
    assert (embedder.name, embedder.metric) == ("sentence-transformers:own", "COSINE")
    assert isinstance(embedder, Embedder)


def test_a_transformers_dimension_is_known_given_or_asked_of_it(transformers: type[FakeTransformer]) -> None:
    assert SentenceTransformerEmbedder().dimension == 384
    assert SentenceTransformerEmbedder("own", dimension=7).dimension == 7
    assert transformers.made == []
    assert SentenceTransformerEmbedder("own").dimension == 2
    assert len(transformers.made) == 1


@pytest.mark.usefixtures("transformers")
def test_a_transformer_that_can_not_be_loaded_is_an_error() -> None:
    with pytest.raises(ModelError, match="sentence-transformers:missing can't be loaded: no such model"):
        embed(SentenceTransformerEmbedder("missing"), "x")


def test_without_sentence_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InvalidInput, match="pip install sentence-transformers"):
        SentenceTransformerEmbedder()
