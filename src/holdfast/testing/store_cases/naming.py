"""What names promise: any visible text up to 255 characters is one, and no two are ever the same."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.memory.records import DeleteOp, PutOp
from holdfast.memory.store import BaseStore
from holdfast.testing.store_cases.base import (
    NASTY_NAMES,
    NS,
    OpenStore,
    StoreCases,
    all_keys,
    keys,
    requires,
    wrong,
)

BAD_NAMES = wrong("", " ", "\n\t ", "\u00a0", "x" * 256, None, 1, b"k", ["k"])


class NamingCases(StoreCases):
    async def test_every_key_is_itself(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            await store.put_batch([(NS, key, {"k": key}, {"k": key}) for key in NASTY_NAMES])
            for key in NASTY_NAMES:
                item = await store.get_item(NS, key)
                assert item is not None
                assert (item.key, item.value, item.metadata) == (key, {"k": key}, {"k": key})
            assert await store.list_keys(NS, 1000) == sorted(NASTY_NAMES)
            assert sorted(keys(await store.search(NS, limit=1000))) == sorted(NASTY_NAMES)

    async def test_a_write_touches_its_own_key_only(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            await store.put_batch([(NS, key, "old", None) for key in NASTY_NAMES])
            left = set(NASTY_NAMES)
            for key in NASTY_NAMES[::2]:
                assert await store.delete(NS, key) is True
                assert await store.exists(NS, key) is False
                left.remove(key)
            assert await all_keys(store, NS) == sorted(left)
            for key in sorted(left)[::2]:
                await store.put(NS, key, "new")
            values = dict(
                zip(sorted(left), await store.get_batch([(NS, key) for key in sorted(left)]), strict=True)
            )
            assert {key for key, value in values.items() if value == "new"} == set(sorted(left)[::2])

    async def test_every_namespace_is_itself(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            places = [(name,) for name in NASTY_NAMES] + [("root", name) for name in NASTY_NAMES]
            await store.put_batch([(place, "k", list(place), None) for place in places])
            for place in places:
                assert await store.get(place, "k") == list(place)
                assert await store.list_keys(place) == ["k"]
                (item,) = await store.search(place)
                assert item.namespace == place
            if store.capabilities.list_namespaces:
                assert sorted(await store.list_namespaces(limit=1000)) == sorted(places)
                below = await store.list_namespaces(("root",), limit=1000)
                assert sorted(below) == sorted(place for place in places if place[0] == "root")
            for place in places[::2]:
                assert await store.clear_namespace(place) == 1
            for index, place in enumerate(places):
                assert await store.exists(place, "k") is bool(index % 2)

    async def test_parts_of_a_namespace_do_not_run_together(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            places = [
                ("a", "b"),
                ("a/b",),
                ("a", "b", "c"),
                ("a/b", "c"),
                ("a", "b/c"),
                ("a~1b",),
                ("a:b",),
                ("a.b",),
                ("a", "b "),
                ("ab",),
                ("a",),
                ("a/",),
                ("/a",),
                ("a\x00b",),
                ("a\x01b",),
                ("A", "B"),
            ]
            await store.put_batch([(place, "k", list(place), None) for place in places])
            for place in places:
                assert await store.get(place, "k") == list(place)
            found = [item.namespace async for item in store.iterate(("a",), prefix=True)]
            assert sorted(found) == sorted(place for place in places if place[0] == "a")

    async def test_a_prefix_is_made_of_whole_parts(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            below = [("user1",), ("user1", "x"), ("user1", "x", "y"), ("user1", "%")]
            aside = [
                ("user10",),
                ("user10", "x"),
                ("user",),
                ("user1 ", "x"),
                ("USER1",),
                ("user_",),
                ("user%",),
            ]
            for place in below + aside:
                await store.put(place, "k", {"text": "apple"}, {"group": "g", "ordinal": 1})
            found = [item.namespace for item in await store.search(("user1",), limit=100, prefix=True)]
            assert sorted(found) == sorted(below)
            assert len(await store.list_keys(("user1",), prefix=True)) == len(below)
            assert await store.list_keys(("user1",)) == ["k"]
            assert len(await store.search(("user1",))) == 1
            assert len(await store.search(("user_",), prefix=True)) == 1
            assert len(await store.search(("user%",), prefix=True)) == 1
            if store.capabilities.list_namespaces:
                assert sorted(await store.list_namespaces(("user1",))) == sorted(below)
            if store.capabilities.text_search:
                hits = await store.search(("user1",), "apples", limit=100, prefix=True)
                assert sorted(item.namespace for item in hits) == sorted(below)
                assert len(await store.search(("user1",), "apples")) == 1
            assert await store.clear_namespace(("user1", "%"), prefix=True) == 1
            assert await store.clear_namespace(("user1",)) == 1
            assert await store.clear_namespace(("user1",), prefix=True) == 2
            for place in aside:
                assert await store.exists(place, "k") is True

    async def test_bad_names_are_refused_by_every_call(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            for bad in BAD_NAMES:
                for call in _calls_with_key(store, bad):
                    with pytest.raises(InvalidInput, match="key"):
                        await call()
            parts = [[bad] for bad in BAD_NAMES] + [["a", bad] for bad in BAD_NAMES]
            for namespace in wrong((), [], "text", None, 1, *parts):
                for call in _calls_with_namespace(store, namespace):
                    with pytest.raises(InvalidInput, match="namespace"):
                        await call()
            assert await store.search(NS) == []

    async def test_bad_prefixes_of_namespaces_are_refused(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "list_namespaces")
            for bad in wrong("text", 1, ("",), ("a", " ")):
                with pytest.raises(InvalidInput, match="prefix"):
                    await store.list_namespaces(bad)


def _calls_with_key(store: BaseStore, key: Any) -> list[Callable[[], Awaitable[Any]]]:
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: store.put(NS, key, 1),
        lambda: store.get(NS, key),
        lambda: store.get_item(NS, key),
        lambda: store.exists(NS, key),
        lambda: store.delete(NS, key),
        lambda: store.put_batch([(NS, key, 1)]),
        lambda: store.get_batch([(NS, key)]),
    ]
    if store.capabilities.atomic_batch:
        calls += [
            lambda: store.batch([PutOp(NS, key, 1)]),
            lambda: store.batch([DeleteOp(NS, key)]),
            lambda: store.batch([], [(NS, key, 0)]),
        ]
    return calls


def _calls_with_namespace(store: BaseStore, namespace: Any) -> list[Callable[[], Awaitable[Any]]]:
    async def walk() -> None:
        async for _ in store.iterate(namespace):
            pass

    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: store.put(namespace, "k", 1),
        lambda: store.get(namespace, "k"),
        lambda: store.exists(namespace, "k"),
        lambda: store.delete(namespace, "k"),
        lambda: store.put_batch([(namespace, "k", 1)]),
        lambda: store.get_batch([(namespace, "k")]),
        lambda: store.list_keys(namespace),
        lambda: store.search(namespace),
        lambda: store.clear_namespace(namespace),
        walk,
    ]
    if store.capabilities.text_search:
        calls += [
            lambda: store.search(namespace, "query"),
            lambda: store.text_candidates(namespace, ["a"], 1),
        ]
    return calls
