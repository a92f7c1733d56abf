"""The suite bites: broken versions of the reference fail it, each in the test that is about its fault."""

import asyncio
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from holdfast.memory.backends.memory_store import InMemoryStore, Row
from holdfast.memory.filters import Condition, Filter
from holdfast.memory.records import StoreItem
from holdfast.memory.store_requests import (
    ItemDelete,
    ItemPut,
    Namespace,
    Requirement,
    ScanRequest,
    StoredCandidates,
    StoredHit,
    StoredItem,
    TextRequest,
    VectorRequest,
    WriteRequest,
)
from holdfast.memory.vectors import VectorSpace
from holdfast.testing.running import run_suite
from holdfast.testing.store_suite import StoreSuite

Mutant = type[InMemoryStore]
MUTANTS: dict[Mutant, str] = {}


def caught_by(test: str) -> Callable[[Mutant], Mutant]:
    """The test that must fail for the mutant; others may."""

    def add(mutant: Mutant) -> Mutant:
        MUTANTS[mutant] = test
        return mutant

    return add


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


@caught_by("test_compare_and_set")
class NoCompareAndSet(InMemoryStore):
    async def _write(self, request: WriteRequest) -> list[int]:
        return await super()._write(replace(request, require=()))


@caught_by("test_concurrent_writers_lose_nothing")
class ChecksThenWrites(InMemoryStore):
    async def _write(self, request: WriteRequest) -> list[int]:
        await super()._write(replace(request, ops=()))
        await asyncio.sleep(0)
        return await super()._write(replace(request, require=()))


@caught_by("test_requirements_come_first")
class BatchIsNotAtomic(InMemoryStore):
    async def _write(self, request: WriteRequest) -> list[int]:
        if len(request.ops) > 1:
            first, *rest = request.ops
            await super()._write(replace(request, ops=[first], require=request.require[:1]))
            await super()._write(replace(request, ops=rest, require=request.require[1:]))
        return await super()._write(request)


@caught_by("test_versions_never_repeat")
class VersionsRestartAfterDelete(InMemoryStore):
    def _apply(self, op: ItemPut | ItemDelete, now_us: int) -> int:
        row = self._find(op.namespace, op.key, now_us)
        self._storage.last_version = 0 if row is None else row.item.version
        return super()._apply(op, now_us)


@caught_by("test_an_item_says_what_it_is")
class CreationTimeIsLost(InMemoryStore):
    def _apply(self, op: ItemPut | ItemDelete, now_us: int) -> int:
        if isinstance(op, ItemPut):
            self._remove(op.namespace, op.key)
        return super()._apply(op, now_us)


@caught_by("test_clearing_counts_and_takes_only_its_own")
class ClearingTakesAllBelow(InMemoryStore):
    async def _clear(self, namespace: Namespace, prefix: bool, now_us: int) -> int:
        return await super()._clear(namespace, True, now_us)


@dataclass
class Remembered(StoredItem):
    """Hands out the same object every time."""

    copies: dict[int, StoreItem]

    def decode(self) -> StoreItem:
        return self.copies.setdefault(self.version, super().decode())


@caught_by("test_values_are_copies")
class SharedReferenceIsReturned(InMemoryStore):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._copies: dict[int, StoreItem] = {}

    async def _read(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[StoredItem | None]:
        found = await super()._read(places, now_us)
        return [item and Remembered(**asdict(item), copies=self._copies) for item in found]


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


@caught_by("test_a_prefix_is_made_of_whole_parts")
class PrefixOfTheJoinedText(InMemoryStore):
    def _live(self, namespace: Namespace, prefix: bool, now_us: int) -> Iterator[Row]:
        for place in self._storage.rows:
            if place == namespace or (prefix and "/".join(place).startswith("/".join(namespace))):
                yield from super()._live(place, False, now_us)


@caught_by("test_parts_of_a_namespace_do_not_run_together")
class NamespacesAreJoined(InMemoryStore):
    async def _write(self, request: WriteRequest) -> list[int]:
        ops = [replace(op, namespace=tuple("/".join(op.namespace).split("/"))) for op in request.ops]
        return await super()._write(replace(request, ops=ops))


@caught_by("test_a_write_touches_its_own_key_only")
class KeysAreLikePatterns(InMemoryStore):
    def _remove(self, namespace: Namespace, key: str) -> None:
        pattern = re.escape(key).replace("%", ".*").replace("_", ".")
        for found in list(self._storage.rows.get(namespace, {})):
            if re.fullmatch(pattern, found, re.DOTALL):
                super()._remove(namespace, found)


class RenamesKeys(InMemoryStore):
    """Stores keys under another name."""

    def rename(self, key: str) -> str:
        return key

    async def _write(self, request: WriteRequest) -> list[int]:
        ops = [replace(op, key=self.rename(op.key)) for op in request.ops]
        needs = [Requirement(need.namespace, self.rename(need.key), need.version) for need in request.require]
        return await super()._write(replace(request, ops=ops, require=needs))

    async def _read(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[StoredItem | None]:
        found = await super()._read([(namespace, self.rename(key)) for namespace, key in places], now_us)
        return [item and replace(item, key=key) for item, (_, key) in zip(found, places, strict=True)]


@caught_by("test_every_key_is_itself")
class KeysIgnoreCase(RenamesKeys):
    def rename(self, key: str) -> str:
        return key.casefold()


@caught_by("test_every_key_is_itself")
class KeysAreNormalised(RenamesKeys):
    def rename(self, key: str) -> str:
        return unicodedata.normalize("NFC", key)


@caught_by("test_every_key_is_itself")
class KeysLoseTrailingSpaces(RenamesKeys):
    def rename(self, key: str) -> str:
        return key.rstrip(" ")


@caught_by("test_every_key_is_itself")
class KeysEndAtNul(RenamesKeys):
    def rename(self, key: str) -> str:
        return key.partition("\x00")[0] or "\x00"


# ── listings and filters ──────────────────────────────────────────────────────────────────────────


@caught_by("test_order_does_not_depend_on_the_clock")
class NewestByClock(InMemoryStore):
    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        found = await super()._scan(replace(request, limit=10**6))
        if request.order == "newest":
            found.sort(key=lambda item: item.updated_us, reverse=True)
        return found[: request.limit]


@caught_by("test_keys_are_in_order_of_code_points")
class KeysByUtf16(InMemoryStore):
    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        found = await super()._scan(request)
        if request.order == "key":
            found.sort(key=lambda item: item.key.encode("utf-16-be", "surrogatepass"))
        return found


@caught_by("test_newest_first_is_complete_while_others_write")
class PagesMissWhatMoves(InMemoryStore):
    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        return [] if request.order == "oldest" else await super()._scan(request)


@caught_by("test_iterating_is_complete_while_others_write")
class IteratesByOffset(InMemoryStore):
    offset = 0

    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        self.offset = self.offset + request.limit - 1 if request.after else 0
        found = await super()._scan(replace(request, after=None, limit=10**6))
        return found[self.offset : self.offset + request.limit]


@caught_by("test_the_limit_counts_what_passes")
class FilterAfterLimit(InMemoryStore):
    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        found = await super()._scan(replace(request, filter=Filter(())))
        decoded = [(item, item.decode()) for item in found]
        return [item for item, copy in decoded if request.filter(copy.metadata, copy.value)]


class Untyped(Filter):
    def __call__(self, metadata: Any, value: Any) -> bool:
        return all(self._holds(condition, metadata, value) for condition in self.conditions)

    def _holds(self, condition: Condition, metadata: Any, value: Any) -> bool:
        document = value if condition.source == "value" else metadata
        if condition.op == "$eq" and len(condition.path) == 1:
            return condition.path[0] in document and bool(document[condition.path[0]] == condition.operand)
        return condition.matches(metadata, value)


@caught_by("test_equality_is_typed")
class EqualityIsUntyped(InMemoryStore):
    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        return await super()._scan(replace(request, filter=Untyped(request.filter.conditions)))


@caught_by("test_nested_fields_and_dots_in_keys")
class DotsAreGuessed(InMemoryStore):
    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        joined = [
            replace(condition, path=tuple(".".join(condition.path).split(".")))
            for condition in request.filter.conditions
        ]
        return await super()._scan(replace(request, filter=Filter(tuple(joined))))


# ── time to live ──────────────────────────────────────────────────────────────────────────────────


@caught_by("test_an_expired_item_is_absent_for_every_read")
class SearchIgnoresExpiry(InMemoryStore):
    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        return await super()._scan(replace(request, now_us=0))


@caught_by("test_an_expired_item_is_absent_for_every_read")
class StatisticsIgnoreExpiry(InMemoryStore):
    async def _text_candidates(self, request: TextRequest) -> StoredCandidates:
        live, every = (
            await super()._text_candidates(request),
            await super()._text_candidates(replace(request, now_us=0)),
        )
        return replace(every, candidates=live.candidates)


@caught_by("test_an_expired_item_is_absent_for_every_write")
class CompareAndSetIgnoresExpiry(InMemoryStore):
    async def _write(self, request: WriteRequest) -> list[int]:
        await super()._write(replace(request, ops=(), now_us=0))
        return await super()._write(replace(request, require=()))


@caught_by("test_an_expired_vector_is_not_found")
class VectorSearchIgnoresExpiry(InMemoryStore):
    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        return await super()._nearest(replace(request, now_us=0))


@caught_by("test_a_put_sets_the_time_anew")
class TimeToLiveIsNeverCleared(InMemoryStore):
    def _apply(self, op: ItemPut | ItemDelete, now_us: int) -> int:
        row = self._find(op.namespace, op.key, now_us)
        if isinstance(op, ItemPut) and row is not None and op.expires_us is None:
            op = replace(op, expires_us=row.expires_us)
        return super()._apply(op, now_us)


# ── words and vectors ─────────────────────────────────────────────────────────────────────────────


@caught_by("test_scores_are_those_of_the_definition")
class StatisticsOfAllNamespaces(InMemoryStore):
    async def _text_candidates(self, request: TextRequest) -> StoredCandidates:
        found = await super()._text_candidates(request)
        everywhere = await super()._text_candidates(
            replace(request, namespace=request.namespace[:1], prefix=True)
        )
        return replace(everywhere, candidates=found.candidates)


@caught_by("test_search_stays_in_its_namespace")
class LimitBeforeNamespace(InMemoryStore):
    async def _text_candidates(self, request: TextRequest) -> StoredCandidates:
        wide = await super()._text_candidates(replace(request, namespace=request.namespace[:1], prefix=True))
        mine = [found for found in wide.candidates if found.item.namespace == request.namespace]
        return replace(await super()._text_candidates(request), candidates=mine)


@caught_by("test_candidates_are_the_best")
class CandidatesAreTheFirst(InMemoryStore):
    async def _text_candidates(self, request: TextRequest) -> StoredCandidates:
        found = await super()._text_candidates(replace(request, limit=10**6))
        first = sorted(found.candidates, key=lambda candidate: candidate.item.version)
        return replace(found, candidates=first[: request.limit])


@caught_by("test_an_update_replaces_the_words")
class OldWordsStay(InMemoryStore):
    def _apply(self, op: ItemPut | ItemDelete, now_us: int) -> int:
        row = self._find(op.namespace, op.key, now_us)
        if isinstance(op, ItemPut) and row is not None:
            op = replace(op, text=op.text + " " + " ".join(row.terms))
        return super()._apply(op, now_us)


@caught_by("test_writes_are_seen_at_once")
class MatrixIsStale(InMemoryStore):
    async def _write(self, request: WriteRequest) -> list[int]:
        kept = dict(self._storage.matrices)
        written = await super()._write(request)
        self._storage.matrices.update(kept)
        return written


@caught_by("test_writes_are_seen_at_once")
class VectorOutlivesItsText(InMemoryStore):
    def _apply(self, op: ItemPut | ItemDelete, now_us: int) -> int:
        row = self._find(op.namespace, op.key, now_us)
        if isinstance(op, ItemPut) and row is not None and op.vector is None:
            op = replace(op, vector=row.vector)
        return super()._apply(op, now_us)


@caught_by("test_the_filter_comes_before_the_limit")
class VectorFilterAfterLimit(InMemoryStore):
    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        hits = await super()._nearest(replace(request, filter=Filter(())))
        decoded = [(hit, hit.decode().item) for hit in hits]
        return [hit for hit, item in decoded if request.filter(item.metadata, item.value)]


@caught_by("test_every_metric_is_exact")
class DistanceAsScore(InMemoryStore):
    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        return [replace(hit, score=hit.distance) for hit in await super()._nearest(request)]


@caught_by("test_the_threshold_is_a_score_and_included")
class ThresholdIsExcluded(InMemoryStore):
    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        return [hit for hit in await super()._nearest(request) if hit.score != request.threshold]


@caught_by("test_changing_the_space_drops_the_vectors_and_nothing_else")
class ChangingKeepsTheVectors(InMemoryStore):
    async def _change_space(self, namespace: Namespace, space: VectorSpace) -> int:
        rows = list(self._storage.rows[namespace].values())
        vectors = [row.vector for row in rows]
        gone = await super()._change_space(namespace, space)
        for row, vector in zip(rows, vectors, strict=True):
            row.vector = vector
        return gone


@caught_by("test_a_changed_space_refuses_the_old_vectors")
class ChangingForgetsTheSpace(InMemoryStore):
    async def _change_space(self, namespace: Namespace, space: VectorSpace) -> int:
        gone = await super()._change_space(namespace, space)
        self._storage.spaces.pop(namespace, None)
        return gone


@caught_by("test_changing_to_the_same_space_changes_nothing")
class ChangingAgainDropsAgain(InMemoryStore):
    async def _change_space(self, namespace: Namespace, space: VectorSpace) -> int:
        self._storage.spaces.pop(namespace, None)
        self._storage.spaces[namespace] = replace(space, embedder="nobody")
        return await super()._change_space(namespace, space)


@caught_by("test_items_without_a_vector_are_listed_by_key")
class WithoutVectorsAreAll(InMemoryStore):
    async def _without_vectors(self, request: ScanRequest) -> list[StoredItem]:
        return await self._scan(request)


@caught_by("test_items_without_a_vector_are_listed_by_key")
class WithoutVectorsAfterTheLimit(InMemoryStore):
    async def _without_vectors(self, request: ScanRequest) -> list[StoredItem]:
        found = [item.key for item in await self._scan(request)]
        return [item for item in await super()._without_vectors(request) if item.key in found]


@caught_by("test_a_namespace_tells_its_space")
class SpaceOfTheBeginningOfAName(InMemoryStore):
    async def _space_of(self, namespace: Namespace, prefix: bool) -> VectorSpace | None:
        for place, space in self._storage.spaces.items():
            if "/".join(place).startswith("/".join(namespace)) and (prefix or place == namespace):
                return space
        return None


# ── the tests ─────────────────────────────────────────────────────────────────────────────────────


class NotShared(StoreSuite):
    shared_storage = False


def outcome(store: Mutant, test: str) -> BaseException | None:
    """What that test of the suite raises for that class."""

    def open_store(**options: Any) -> InMemoryStore:
        return store(**{name: value for name, value in options.items() if value is not None})

    return run_suite(NotShared, lambda: open_store, only=test)[test]


@pytest.mark.parametrize(
    ("mutant", "test"), MUTANTS.items(), ids=lambda value: getattr(value, "__name__", value)
)
def test_the_suite_catches(mutant: Mutant, test: str) -> None:
    error = outcome(mutant, test)
    assert error is not None, f"{mutant.__name__} passes {test}"
    # Caught by what it does, not by a mistake in the mutant itself.
    assert not isinstance(error, TypeError | AttributeError | NameError)
    assert outcome(InMemoryStore, test) is None
