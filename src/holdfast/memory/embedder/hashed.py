"""Vectors made of words' hashes: for tests."""

import math
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from holdfast.memory.embedder.texts import Vector, check_number, check_texts

__all__ = ["HashEmbedder"]

_WORD: Final = re.compile(r"\w+")


class HashEmbedder:
    """For tests only: texts with the same words are near each other, and that is all it knows.

    It needs no package and no network and always gives the same vectors, but "car" and "automobile" have nothing in
    common for it, and words may collide. It is used only where it is named: for real memories, lexical recall without
    vectors is better.
    """

    metric = "COSINE"

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = check_number(dimension, "dimension")
        self.name = "hash"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._vector(text) for text in check_texts(texts)]

    def _vector(self, text: str) -> Vector:
        vector = [0.0] * self.dimension
        for word in _WORD.findall(text.casefold()) or [text]:
            digest = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
            vector[(digest >> 1) % self.dimension] += 1.0 if digest & 1 else -1.0
        length = math.hypot(*vector)
        if not length:  # two words that cancel out
            vector[0] = length = 1.0
        return [part / length for part in vector]

    def __repr__(self) -> str:
        return f"HashEmbedder({self.dimension})"
