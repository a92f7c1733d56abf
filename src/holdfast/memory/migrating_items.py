"""The items of a store into another: see `migrating`."""

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from holdfast.core import codec
from holdfast.core.errors import Conflict, InvalidInput
from holdfast.memory.filters import compile_filter
from holdfast.memory.migrating import Difference, Differences, Progress, Tally
from holdfast.memory.store import BaseStore
from holdfast.memory.store_requests import (
    ItemPut,
    KeptItem,
    Namespace,
    Requirement,
    ScanRequest,
    WriteRequest,
)
from holdfast.memory.text import value_text
from holdfast.memory.vectors import VectorSpace

__all__ = ["ItemMigration"]

PORTION: Final = 64
_PAGE: Final = 1000
_TYPE_MARK: Final = "$hf"  # of `codec`

Pair = tuple[KeptItem, KeptItem | None]
"""An item of the source, and what the destination has in its place."""


def _nobody(done: int, total: int) -> None:
    pass


class ItemMigration:
    """All items of all namespaces: values, metadata, times, when they expire, and vectors with their space.

    Versions are the destination's own, and in each namespace grow in the same order.
    """

    def __init__(
        self, source: BaseStore, destination: BaseStore, *, overwrite: bool = False, dry_run: bool = False
    ) -> None:
        for side in (source, destination):
            side._check("list_namespaces")
        self._source, self._destination = source, destination
        self._overwrite, self._dry_run = overwrite, dry_run
        self.items, self.namespaces = Tally(), Tally()
        self.conflicts, self.differences = Differences(), Differences()

    async def copy(self, progress: Progress = _nobody) -> None:
        """Bring what is not there."""
        total = 0 if progress is _nobody else await self._total()
        progress(0, total)
        async for namespace in self._namespaces():
            self.namespaces.found += 1
            space = await self._source.space_of(namespace)
            fits = await self._make_room(namespace, space)
            async for pairs in self._pairs(namespace, "oldest"):
                self.items.found += len(pairs)
                await self._copy_some(namespace, space, fits, pairs)
                progress(self.items.found, max(total, self.items.found))

    async def verify(self, progress: Progress = _nobody) -> None:
        """Read both sides and compare them, namespace by namespace. What only the destination has does not count."""
        total, done = 0 if progress is _nobody else await self._total(), 0
        progress(0, total)
        async for namespace in self._namespaces():
            spaces = await self._source.space_of(namespace), await self._destination.space_of(namespace)
            ours, theirs = hashlib.sha256(), hashlib.sha256()
            async for pairs in self._pairs(namespace, "key"):
                for item, copy in pairs:
                    expected = _line(item, spaces[0])
                    found = None if copy is None else _line(copy, spaces[1])
                    ours.update(expected)
                    theirs.update(found or b"")
                    if found == expected:
                        self.items.verified += 1
                    else:
                        self.differences.add(_difference(item, "missing" if copy is None else "differs"))
                done += len(pairs)
                progress(done, max(total, done))
            self.namespaces.verified += ours.digest() == theirs.digest()

    async def _make_room(self, namespace: Namespace, space: VectorSpace | None) -> bool:
        """Whether the destination takes vectors of that space in that namespace; if it may, it is made to."""
        there = await self._destination.space_of(namespace)
        if space is None or there is None or there == space:
            return True
        if self._overwrite:
            if not self._dry_run:
                await self._destination.change_space(namespace, space)
            return True
        self.conflicts.add(Difference("vectors", namespace, "differs"))
        return False

    async def _copy_some(
        self, namespace: Namespace, space: VectorSpace | None, fits: bool, pairs: Sequence[Pair]
    ) -> None:
        there = await self._destination.space_of(namespace)
        wanted: list[Pair] = []
        for item, copy in pairs:
            if copy is not None and _line(copy, there) == _line(item, space):
                self.items.skipped += 1
            elif (copy is None or self._overwrite) and (fits or item.vector is None):
                wanted.append((item, copy))
            else:
                self._conflict(item)
        if self._dry_run:
            self._written(wanted)
        elif wanted:
            await self._write(space, wanted)

    async def _write(self, space: VectorSpace | None, pairs: Sequence[Pair]) -> None:
        """All of them in one step, if nobody else writes them meanwhile; else one by one."""
        needs = [
            Requirement(item.item.namespace, item.item.key, 0 if copy is None else copy.item.version)
            for item, copy in pairs
        ]
        puts = [_put(item) for item, _ in pairs]
        if not self._destination.capabilities.compare_and_set:
            needs = []
        try:
            await self._destination._write(
                WriteRequest(puts, needs, space, self._destination._clock.now_us())
            )
        except Conflict:
            if len(pairs) == 1:
                await self._was_beaten(space, pairs[0][0])
            else:
                for pair in pairs:
                    await self._write(space, [pair])
        else:
            self._written(pairs)

    async def _was_beaten(self, space: VectorSpace | None, item: KeptItem) -> None:
        """Somebody else wrote it meanwhile: the same, another run of this perhaps, or something else."""
        place = item.item.namespace, item.item.key
        (copy,) = await self._destination._read_kept([place], self._destination._clock.now_us())
        there = await self._destination.space_of(place[0])
        if copy is not None and _line(copy, there) == _line(item, space):
            self.items.skipped += 1
        else:
            self._conflict(item)

    def _written(self, pairs: Sequence[Pair]) -> None:
        replaced = sum(copy is not None for _, copy in pairs)
        self.items.replaced += replaced
        self.items.copied += len(pairs) - replaced

    def _conflict(self, item: KeptItem) -> None:
        self.items.conflicts += 1
        self.conflicts.add(_difference(item, "differs"))

    async def _pairs(
        self, namespace: Namespace, order: Literal["key", "oldest"]
    ) -> AsyncIterator[Sequence[Pair]]:
        """Portions of a namespace of the source, each item with what the destination has in its place."""
        now_us = self._source._clock.now_us()
        scan = ScanRequest(
            namespace, False, compile_filter(None), PORTION, now_us, order=order, keys_only=True
        )
        while found := await self._source._scan(scan):
            # One moment for both sides: what expires meanwhile does so in both.
            now_us = self._source._clock.now_us()
            places = [(namespace, item.key) for item in found]
            ours = await self._source._read_kept(places, now_us)
            theirs = await self._destination._read_kept(places, now_us)
            pairs = [(item, copy) for item, copy in zip(ours, theirs, strict=True) if item is not None]
            if pairs:
                yield pairs
            last = found[-1]
            after = {"after": (namespace, last.key)} if order == "key" else {"version": last.version}
            scan = replace(scan, now_us=now_us, **after)

    async def _namespaces(self) -> AsyncIterator[Namespace]:
        after = None
        while True:
            page = await self._source.list_namespaces(None, _PAGE, after=after)
            for namespace in page:
                yield namespace
            after = page.next
            if after is None:
                return

    async def _total(self) -> int:
        count = 0
        async for namespace in self._namespaces():
            after = None
            while True:
                page = await self._source.list_keys(namespace, _PAGE, after=after)
                count, after = count + len(page), page.next
                if after is None:
                    break
        return count


def _difference(item: KeptItem, why: Literal["differs", "missing"]) -> Difference:
    return Difference("item", (*item.item.namespace, item.item.key), why)


def _put(kept: KeptItem) -> ItemPut:
    item = kept.item
    return ItemPut(
        namespace=item.namespace,
        key=item.key,
        value=item.value,
        metadata=item.metadata,
        text=_text(item.value),
        expires_us=kept.expires_us,
        vector=kept.vector,
        times=(item.created_us, item.updated_us),
    )


def _line(kept: KeptItem, space: VectorSpace | None) -> bytes:
    """All that is to be the same on both sides. Versions are each side's own."""
    item = kept.item
    vector: list[Any] = []
    if kept.vector is not None and space is not None:
        vector = [kept.vector.hex(), space.dimension, space.metric.value, space.embedder]
    fields = (
        *(item.namespace, item.key, item.value, item.metadata, item.created_us, item.updated_us),
        *(kept.expires_us, vector),
    )
    return json.dumps(fields).encode()


def _text(value: str) -> str:
    """What text search looks into. Of a type that only the program knows, the strings in its fields."""
    try:
        return value_text(codec.loads(value))
    except InvalidInput:
        return value_text(_fields(json.loads(value)))


def _fields(document: Any) -> Any:
    """Stored JSON without the codec's own marks."""
    if isinstance(document, dict):
        if _TYPE_MARK in document:
            held = document["v"]
            if document[_TYPE_MARK] == "dict":  # pairs of a key and a value
                return [_fields(value) for _, value in held]
            return _fields(held) if isinstance(held, dict | list) else None
        return {name: _fields(part) for name, part in document.items()}
    return [_fields(part) for part in document] if isinstance(document, list) else document
