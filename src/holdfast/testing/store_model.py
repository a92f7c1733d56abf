"""Random operations on a store and on the reference side by side: both must answer alike, step by step.

A backend's test is a few lines::

    @settings(max_examples=200)
    @given(steps=store_steps())
    def test_it_does_what_the_reference_does(steps):
        asyncio.run(compare_stores(open_reference, open_backend, steps))
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hypothesis import strategies as st

from holdfast.core import codec
from holdfast.core.errors import Conflict, HoldfastError, VectorMismatch
from holdfast.memory.records import DeleteOp, PutOp, SearchHit, StoreItem
from holdfast.memory.store import BaseStore
from holdfast.testing.clock import FrozenClock
from holdfast.testing.store_cases.base import OpenStore

SPACES: Final = (("a",), ("a", "b"), ("a", "B"), ("a/b",), ("a%",), ("c", "\x00"))
KEYS: Final = ("k", "K", "k/", "k%", "\ud800")
VALUES: Final[tuple[Any, ...]] = (
    "an apple",
    {"text": "apple pear pear", "n": 1},
    {"text": "fig", "n": True},
    ["plum", "plum apple", 1.0],
    None,
    "",
    {"n": "1", "deep": {"x.y": 1}},
    {"text": "apple fig", "n": 2.5},
)
METADATA: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"m": 1},
    {"m": True},
    {"m": "1", "group": "g", "ordinal": 1},
    {"m": 1.0, "group": "g", "ordinal": 2},
    {"m": None, "a.b": 1},
    {"a": {"b": 1}},
    {"m": [1]},
)
VECTORS: Final = (
    (1.0, 0.0),
    (0.0, 1.0),
    (1.0, 1.0),
    (-1.0, 0.5),
    (1.0, 0.0),
    (0.0, -1.0),
    (2.0, 2.0),
    (0.25, 3.0),
)
FILTERS: Final[tuple[dict[str, Any], ...]] = (
    {"m": 1},
    {"m": True},
    {"m": {"$ne": 1}},
    {"m": {"$gt": 0}},
    {"m": {"$in": ["1", None]}},
    {"m": {"$exists": True}},
    {"a.b": 1},
    {"a\\.b": 1},
    {"value.n": {"$lte": 2}},
    {"value.deep.x\\.y": 1, "m": {"$exists": False}},
)
WEIGHTS: Final = {
    "nothing": 1,
    "put": 8,
    "put_vector": 5,
    "compare_and_set": 4,
    "delete": 4,
    "put_batch": 2,
    "batch": 4,
    "clear": 1,
    "change_space": 3,
    "purge": 1,
    "tick": 3,
    "reopen": 1,
}


@dataclass(frozen=True, slots=True)
class StoreStep:
    """What to do next. The numbers say where and with what: they mean something always."""

    action: str = "nothing"
    space: int = 0
    key: int = 0
    value: int = 0
    variant: int = 0


def store_steps(min_size: int = 30, max_size: int = 40) -> st.SearchStrategy[list[StoreStep]]:
    """Sequences of steps in which puts, deletions, batches and expiry interleave."""
    actions = [action for action, weight in WEIGHTS.items() for _ in range(weight)]
    small = st.integers(0, 7)
    step = st.builds(
        StoreStep,
        action=st.sampled_from(actions),
        space=st.integers(0, len(SPACES) - 1),
        key=st.integers(0, len(KEYS) - 1),
        value=small,
        variant=small,
    )
    return st.lists(step, min_size=min_size, max_size=max_size)


async def compare_stores(
    open_reference: OpenStore,
    open_backend: OpenStore,
    steps: Sequence[StoreStep],
    *,
    distance_metric: str = "COSINE",
    reopen: bool = False,
    every: int = 1,
) -> None:
    """Take the steps on both; every answer, and all that can be observed, must be the same.

    Versions may differ, but must grow alike. ``reopen=True`` also closes the backend now and then and opens
    it again: for storage that outlives it. All is observed after ``every`` so many steps, and at the end.
    """
    clock = FrozenClock()

    def open_again() -> BaseStore:
        return open_backend(clock=clock, dimension=2, distance_metric=distance_metric)

    async with open_reference(clock=clock, dimension=2, distance_metric=distance_metric) as reference:
        pair = _Pair(_Side(reference), _Side(open_again()), clock, open_again if reopen else None)
        try:
            for number, step in enumerate(steps, start=1):
                await pair.take(step)
                if number % every == 0 or number == len(steps):
                    await pair.compare()
        finally:
            await pair.backend.store.close()


@dataclass
class _Side:
    """A store, and its versions in the order of the writes that gave them."""

    store: BaseStore
    versions: list[int] = field(default_factory=lambda: [0])

    def note(self, version: int) -> None:
        if version not in self.versions:
            assert version > self.versions[-1], f"version {version} after {self.versions[-1]}"
            self.versions.append(version)

    def plain(self, answer: Any) -> Any:
        """An answer that can be compared with the other side's: versions as the number of their write."""
        if isinstance(answer, SearchHit):
            distance = None if answer.distance is None else round(answer.distance, 4)
            return self.plain(answer.item), round(answer.score, 4), distance
        if isinstance(answer, StoreItem):
            texts = codec.dumps(answer.value), codec.dumps(answer.metadata)
            return replace(
                answer, value=texts[0], metadata={"text": texts[1]}, version=self.number(answer.version)
            )
        if isinstance(answer, list):
            return [self.plain(item) for item in answer]
        return answer

    def number(self, version: object) -> int:
        assert isinstance(version, int)
        return self.versions.index(version)


@dataclass
class _Pair:
    """A reference and a backend that have seen the same calls."""

    reference: _Side
    backend: _Side
    clock: FrozenClock
    open_again: Callable[[], BaseStore] | None
    calls: list[str] = field(default_factory=list)

    async def take(self, step: StoreStep) -> None:
        action: Callable[[StoreStep], Awaitable[None]] = getattr(self, f"_{step.action}")
        await action(step)

    async def compare(self) -> None:
        """Whatever can be observed must be the same."""
        expected, actual = await _observe(self.reference), await _observe(self.backend)
        for what, value in expected.items():
            assert actual[what] == value, self._report(what, value, actual[what])

    async def _both(self, text: str, call: Callable[[_Side], Awaitable[Any]], *, writes: bool = True) -> None:
        """Make a call on both: the same answer, or the same kind of error."""
        self.calls.append(text)
        expected = await _outcome(self.reference, call, writes)
        actual = await _outcome(self.backend, call, writes)
        assert actual == expected, self._report("answer", expected, actual)

    def _report(self, what: str, expected: object, actual: object) -> str:
        calls = "\n  ".join(self.calls)
        return f"{what} differs after\n  {calls}\nreference: {expected!r}\nbackend:   {actual!r}"

    # ── actions ───────────────────────────────────────────────────────────────────────────────────

    async def _nothing(self, step: StoreStep) -> None:
        pass

    async def _tick(self, step: StoreStep) -> None:
        seconds = (1, 60, 0, 5, 100, 49, 50, 10)[step.variant]
        self.calls.append(f"clock.advance({seconds})")
        self.clock.advance(seconds)

    async def _reopen(self, step: StoreStep) -> None:
        if self.open_again is not None:
            self.calls.append("reopen")
            await self.backend.store.close()
            self.backend.store = self.open_again()

    async def _put(self, step: StoreStep) -> None:
        place, value, metadata = _place(step), VALUES[step.value], METADATA[step.variant]
        ttl = 50.0 if step.variant == 3 else None
        text = f"put{(*place, value, metadata)} ttl={ttl}"
        await self._both(text, lambda side: side.store.put(*place, value, metadata, ttl=ttl))

    async def _put_vector(self, step: StoreStep) -> None:
        place, value, vector = _place(step), VALUES[step.value], VECTORS[step.variant]
        metadata, ttl = METADATA[step.value], 50.0 if step.value == 3 else None
        await self._both(
            f"put_with_embedding{(*place, value, vector, metadata)} ttl={ttl}",
            lambda side: side.store.put_with_embedding(*place, value, vector, metadata, ttl=ttl),
        )

    async def _compare_and_set(self, step: StoreStep) -> None:
        place, value = _place(step), VALUES[step.value]

        async def write(side: _Side) -> int:
            expected = await _expected(side, place, step.variant)
            return await side.store.put(*place, value, expected_version=expected)

        await self._both(f"put{(*place, value)} expecting {_kind(step.variant)}", write)

    async def _delete(self, step: StoreStep) -> None:
        place = _place(step)
        await self._both(f"delete{place}", lambda side: side.store.delete(*place), writes=False)

    async def _put_batch(self, step: StoreStep) -> None:
        items = [(space, KEYS[step.key], VALUES[step.value]) for space in SPACES[: step.variant + 1]]
        await self._both(f"put_batch({items})", lambda side: side.store.put_batch(items))

    async def _batch(self, step: StoreStep) -> None:
        if not self.backend.store.capabilities.atomic_batch:
            return
        place = _place(step)
        sibling = (place[0][:1], KEYS[step.value % len(KEYS)])
        puts = PutOp(*place, VALUES[step.value]), PutOp(*sibling, "apple", {"m": 1})
        every: list[PutOp | DeleteOp] = [puts[0], DeleteOp(*sibling), puts[1]]
        ops = every[: step.variant % 4]

        async def write(side: _Side) -> list[int]:
            need = (*place, await _expected(side, place, step.variant))
            return await side.store.batch(ops, [need])

        await self._both(f"batch({ops}) requiring {place} {_kind(step.variant)}", write)

    async def _clear(self, step: StoreStep) -> None:
        space, prefix = SPACES[step.space], step.variant % 2 == 0
        text = f"clear_namespace({space}, prefix={prefix})"
        await self._both(text, lambda side: side.store.clear_namespace(space, prefix=prefix), writes=False)

    async def _change_space(self, step: StoreStep) -> None:
        assert self.reference.store._space is not None
        dimension, embedder = ((2, None), (2, "new"), (3, "wide"), (2, "newer"))[step.variant % 4]
        vectors = replace(self.reference.store._space, dimension=dimension, embedder=embedder)
        space = SPACES[step.space]

        async def change(side: _Side) -> None:  # how many went is not asked: expired ones may be gone already
            await side.store.change_space(space, vectors)

        await self._both(f"change_space({space}, {vectors})", change, writes=False)

    async def _purge(self, step: StoreStep) -> None:
        # How many there are is the backend's affair: it may have removed some before.
        self.calls.append("purge_expired()")
        await self.reference.store.purge_expired()
        await self.backend.store.purge_expired()


def _place(step: StoreStep) -> tuple[tuple[str, ...], str]:
    return SPACES[step.space], KEYS[step.key]


def _kind(variant: int) -> str:
    return ("the current version", "absence", "an old version")[variant % 3]


async def _expected(side: _Side, place: tuple[tuple[str, ...], str], variant: int) -> int:
    item = await side.store.get_item(*place)
    current = 0 if item is None else item.version
    return (current, 0, side.versions[len(side.versions) // 2])[variant % 3]


async def _outcome(side: _Side, call: Callable[[_Side], Awaitable[Any]], writes: bool) -> Any:
    """The answer, or the kind of the error; versions as the number of their write."""
    try:
        answer = await call(side)
    except Conflict as error:
        return Conflict, side.number(error.expected), side.number(error.actual)
    except HoldfastError as error:
        return type(error)
    if not writes:
        return answer
    versions = answer if isinstance(answer, list) else [answer]
    for version in versions:
        side.note(version)
    return [side.number(version) for version in versions]


async def _observe(side: _Side) -> dict[str, Any]:
    """Everything that the store can tell."""
    store = side.store
    seen: dict[str, Any] = {"namespaces": list(await store.list_namespaces())}
    for space in SPACES:
        for prefix in (False, True):
            where = f"{space} prefix={prefix}"
            seen[f"keys of {where}"] = list(await store.list_keys(space, prefix=prefix))
            seen[f"newest of {where}"] = side.plain(list(await store.search(space, limit=5, prefix=prefix)))
            seen[f"all of {where}"] = side.plain([item async for item in store.iterate(space, prefix=prefix)])
            for query in ("apple", "pears and figs"):
                hits = await store.search(space, query, 3, prefix=prefix, scored=True)
                seen[f"{query!r} in {where}"] = side.plain(list(hits))
        places = [(space, key) for key in KEYS]
        seen[f"values in {space}"] = [codec.dumps(value) for value in await store.get_batch(places)]
        seen[f"nearest in {space}"] = await _nearest(side, space)
        seen[f"without a vector in {space}"] = side.plain(list(await store.without_vectors(space)))
        if seen[f"keys of {space} prefix=False"]:  # else what has expired may still have one
            seen[f"vectors of {space}"] = await store.space_of(space)
        seen[f"neighbours in {space}"] = side.plain(await store.neighbours(space, "g", 1, 1))
    for test in FILTERS:
        seen[f"filter {test}"] = side.plain(list(await store.search(("a",), filter=test, prefix=True)))
    return seen


async def _nearest(side: _Side, space: tuple[str, ...]) -> Any:
    try:
        return side.plain(await side.store.search_by_embedding(space, [1.0, 0.5], 4))
    except VectorMismatch as error:
        return VectorMismatch, error.stored
