"""Vectors made on this machine, without a network: static word vectors out of a PyPI package."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import MissingExtra
from holdfast.memory.embedder.texts import Vector, check_texts, cut

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

__all__ = ["LocalEmbedder"]

_PACKAGE: Final = "wordllama"
_WEIGHTS: Final = Path("weights") / "l2_supercat_256.safetensors"
_TOKENIZER: Final = Path("tokenizers") / "l2_supercat_tokenizer_config.json"
_TENSOR: Final = "embedding.weight"

_PIECE_BYTES: Final = 2000
"""The tokenizer takes more than twice as long for twice the text."""
_AT_ONCE: Final = 2000
"""Characters: so few take less time here than the way to a thread and back."""


class LocalEmbedder:
    """A small semantic embedder that works offline: a text's vector is the mean of the vectors of its tokens.

    It needs the extra ``local``: the package ``wordllama``, of which it reads two files, a table of 32,000 token
    vectors (16 MB) and the tokenizer. Nothing is downloaded, and none of that package's code is run. A short text
    takes about 0.05 ms. It knows which words go together, mostly in English, but not their order: "dog bites man"
    and "man bites dog" are one.

    The package is under the MIT licence; its vectors were trained from the token embeddings of Llama 2 and other
    models, whose licences may concern you.
    """

    name = "local:wordllama-l2-supercat"
    dimension = 256
    metric = "COSINE"

    def __init__(self) -> None:
        _files()

    @staticmethod
    def is_installed() -> bool:
        """Whether the extra is there."""
        try:
            _files()
        except MissingExtra:
            return False
        return find_spec("tokenizers") is not None and find_spec("safetensors") is not None

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        checked = check_texts(texts)
        if _table.cache_info().currsize and sum(map(len, checked)) <= _AT_ONCE:
            return self.encode(checked).tolist()  # type: ignore[no-any-return]  # numpy's stubs don't know of what
        return await asyncio.to_thread(lambda: self.encode(checked).tolist())

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """The same as a matrix with a row of length 1 for each text. It blocks: call it from a thread of yours."""
        numpy, tokenizer, table = _table()
        checked = check_texts(texts)
        rows: NDArray[np.float32] = numpy.empty((len(checked), self.dimension), dtype=numpy.float32)
        for place, text in enumerate(checked):
            ids = numpy.fromiter(_ids(tokenizer, text), dtype=numpy.intp)
            tokens, counts = numpy.unique(ids, return_counts=True)
            total = counts.astype(numpy.float32) @ table[tokens].astype(numpy.float32)
            rows[place] = total / numpy.linalg.norm(total)
        return rows

    def __repr__(self) -> str:
        return "LocalEmbedder()"


def _ids(tokenizer: "Tokenizer", text: str) -> Iterable[int]:
    for piece in cut(text, _PIECE_BYTES):
        yield from tokenizer.encode(piece, add_special_tokens=False).ids


def _files() -> tuple[Path, Path]:
    """The two files. The package itself is not imported: that would set up the whole program's logging."""
    spec = find_spec(_PACKAGE)
    home = Path(spec.origin).parent if spec is not None and spec.origin else None
    if home is None or not (home / _WEIGHTS).is_file() or not (home / _TOKENIZER).is_file():
        raise MissingExtra("LocalEmbedder", "local")
    return home / _WEIGHTS, home / _TOKENIZER


@cache
def _table() -> tuple[Any, "Tokenizer", "NDArray[np.float16]"]:
    weights, config = _files()
    try:
        import numpy
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra("LocalEmbedder", "local") from None
    tokenizer = Tokenizer.from_file(str(config))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return numpy, tokenizer, load_file(weights)[_TENSOR]
