"""Texts as embedders want them: checked, cut into pieces that fit, sent in batches, put together again."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.core.errors import InvalidInput, ModelError

__all__ = [
    "Vector",
    "check_max_bytes",
    "check_number",
    "check_texts",
    "cut",
    "embed_in_batches",
    "pick_dimension",
]

Vector = list[float]
Send = Callable[[list[str]], Awaitable[list[Vector]]]

_BATCH_BYTES: Final = 250_000
_BREAKS: Final = (b"\n", b" ")


def check_texts(texts: object) -> list[str]:
    """The texts, as any encoder takes them. `InvalidInput` names the one that is blank or no text."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise InvalidInput(f"texts must be a list of strings, got {type(texts).__name__}: pass [text]")
    return [_checked(text, f"texts[{place}]") for place, text in enumerate(texts)]


def _checked(text: object, field: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"{field} must be a string, got {type(text).__name__}")
    if not text or text.isspace():
        raise InvalidInput(f"{field} is blank, which has no meaning: leave it out")
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return text.encode(errors="replace").decode()
    return text


def check_number(value: object, field: str, *, least: int = 1) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{field} must be a whole number, {least} or more, got {value!r}")
    return value


def check_max_bytes(value: object) -> int:
    """How much of a text an embedder takes in one piece."""
    return check_number(value, "max_bytes", least=100)


def pick_dimension(model: str, given: int | None, known: Mapping[str, int]) -> int:
    """The length of a model's vectors: as given, else as known of it."""
    if given is not None:
        return check_number(given, "dimension")
    if model not in known:
        raise InvalidInput(f"how long the vectors of {model!r} are is not known here: pass dimension=...")
    return known[model]


def cut(text: str, max_bytes: int) -> list[str]:
    """The text in pieces of at most so many bytes of UTF-8, cut at the end of a line or a word where there is one."""
    data = text.encode()
    pieces: list[str] = []
    start = 0
    while len(data) - start > max_bytes:
        end = _end(data, start, max_bytes)
        pieces.append(data[start:end].decode())
        start = end
    pieces.append(data[start:].decode())
    return [piece for piece in pieces if not piece.isspace() and piece] or [text]


def _end(data: bytes, start: int, size: int) -> int:
    for mark in _BREAKS:
        # Not too early: a line that ends near the beginning would make for many small pieces.
        found = data.rfind(mark, start + size // 2, start + size)
        if found >= 0:
            return found + 1
    end = start + size
    while end > start + 1 and data[end] & 0xC0 == 0x80:  # in the middle of a character
        end -= 1
    return end


async def embed_in_batches(
    texts: object, send: Send, *, dimension: int, max_bytes: int, max_items: int, provider: str
) -> list[Vector]:
    """A vector for each text, by a service that takes `max_items` at a time, each of at most `max_bytes`.

    The vector of a longer text is the mean direction of its pieces, each weighed by its length.
    """
    pieces = [cut(text, max_bytes) for text in check_texts(texts)]
    flat = [piece for several in pieces for piece in several]
    found: list[Vector] = []
    for batch in _batches(flat, max_items):
        answer = await send(batch)
        _check_answer(answer, len(batch), dimension, provider)
        found += answer
    if len(flat) == len(pieces):
        return found
    return await asyncio.to_thread(_together, pieces, found)


def _batches(texts: Sequence[str], max_items: int) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if batch and (len(batch) == max_items or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _check_answer(vectors: Sequence[Vector], count: int, dimension: int, provider: str) -> None:
    if len(vectors) != count:
        raise ModelError(f"{provider} gave {len(vectors)} vectors for {count} texts", provider=provider)
    for vector in vectors:
        if len(vector) != dimension:
            raise ModelError(
                f"{provider} gave a vector with {len(vector)} components where {dimension} were expected:"
                f" pass dimension={len(vector)}",
                provider=provider,
            )


def _together(pieces: Sequence[Sequence[str]], vectors: Sequence[Vector]) -> list[Vector]:
    rest = iter(vectors)
    return [_mean([(len(piece), next(rest)) for piece in several]) for several in pieces]


def _mean(parts: Sequence[tuple[int, Vector]]) -> Vector:
    if len(parts) == 1:
        return parts[0][1]
    total = [0.0] * len(parts[0][1])
    for weight, vector in parts:
        scale = weight / (math.hypot(*vector) or 1.0)
        total = [sum_ + scale * part for sum_, part in zip(total, vector, strict=True)]
    length = math.hypot(*total)
    if not length:  # directions that cancel out: the first piece speaks for the text
        return parts[0][1]
    return [part / length for part in total]
