"""The changes of users' facts on a store: read by subject and predicate, written once, deleted for good."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from typing import Any

from holdfast.core.errors import Conflict
from holdfast.memory import validate
from holdfast.memory.facts import items
from holdfast.memory.facts.fold import is_naming, same_subjects
from holdfast.memory.facts.items import Namespace, Place
from holdfast.memory.facts.records import Change
from holdfast.memory.records import StoreItem
from holdfast.memory.store import BaseStore

Visible = Callable[[AbstractSet[str], str | None], Awaitable[Collection[str]]]
"""Given ids of sources and the user: those that are still there."""


class Ledger:
    """All changes under one namespace. It knows what lies where, and not what it means."""

    def __init__(
        self, store: BaseStore, *, namespace: str, visible: Visible | None, hidden: Collection[str]
    ) -> None:
        self.store = store
        self.space = validate.identifier(namespace, "namespace")
        self.visible = visible
        self.hidden = frozenset(hidden)
        self.shared = items.shared_namespace(self.space)

    def at(self, user_id: str | None) -> Namespace:
        return items.namespace_of(self.space, user_id)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def about(
        self,
        user_id: str | None,
        subject: str | None,
        predicate: str | None,
        known_at: datetime | None = None,
    ) -> list[Change]:
        """All changes that can matter for a subject, a predicate or both."""
        naming = await self.naming(user_id)
        changes = await self.declared(predicate)
        if subject is None:
            only = None if predicate is None else {"predicate": predicate}
            changes += await self._all(user_id, only)
        elif predicate is None or not is_naming(predicate):
            for name in sorted(same_subjects(naming, subject, known_at)):
                changes += await self.said_of(user_id, name, predicate)
        return changes + naming

    async def naming(self, user_id: str | None) -> list[Change]:
        """All that can link two names."""
        return await self._group(user_id, items.NAMING, [(0, 0)])

    async def said_of(self, user_id: str | None, name: str, predicate: str | None) -> list[Change]:
        """What is said under exactly this name of the subject."""
        if predicate is None:
            return await self._group(user_id, items.group_of(name), items.PORTIONS)
        place = Place(items.group_of(name), items.number_of(predicate), predicate)
        return await self._only_visible(user_id, await self.slot(self.at(user_id), place))

    async def declared(self, predicate: str | None) -> list[Change]:
        """The declarations of a predicate, or of all."""
        if predicate is None:
            return [items.change_of(item) async for item in self.store.iterate(self.shared)]
        return await self.slot(self.shared, Place(items.DECLARED, items.number_of(predicate), predicate))

    async def slot(self, where: Namespace, place: Place) -> list[Change]:
        """Everything at one place, whoever may see it."""
        found = await self.store.neighbours(where, place.group, place.ordinal, 0)
        return [items.change_of(item) for item in found if item.metadata["predicate"] == place.predicate]

    async def find(self, places: Sequence[Namespace], key: str) -> tuple[Namespace, StoreItem] | None:
        """The item of a change, and where it is."""
        for where in places:
            item = await self.store.get_item(where, key)
            if item is not None and "copy_of" not in item.metadata:
                return where, item
        return None

    async def _group(
        self, user_id: str | None, group: str, portions: Iterable[tuple[int, int]]
    ) -> list[Change]:
        where = self.at(user_id)
        found = {
            item.key: items.change_of(item)
            for middle, window in portions
            for item in await self.store.neighbours(where, group, middle, window)
        }
        return await self._only_visible(user_id, list(found.values()))

    async def all(self, user_id: str | None) -> list[Change]:
        """Every change of a user, once, whoever may see it."""
        first = {"copy_of": {"$exists": False}}
        return [items.change_of(item) async for item in self.store.iterate(self.at(user_id), first)]

    async def _all(self, user_id: str | None, only: Mapping[str, Any] | None) -> list[Change]:
        found = self.store.iterate(self.at(user_id), only)
        return await self._only_visible(user_id, [items.change_of(item) async for item in found])

    async def _only_visible(self, user_id: str | None, changes: list[Change]) -> list[Change]:
        if self.hidden:
            changes = [change for change in changes if change.checkpoint not in self.hidden]
        if self.visible is None:
            return changes
        named = {source for change in changes for source in change.sources}
        if not named:
            return changes
        there = set(await self.visible(named, user_id))
        return [change for change in changes if there.issuperset(change.sources)]

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    async def put_mark(
        self, where: Namespace, mark: Change, changes: Iterable[Change], places: Sequence[Place]
    ) -> Change:
        """Write what is not a fact. Two writers who saw the same ``changes`` and do the same write one."""
        alike = [c.id for c in changes if c.kind == mark.kind and c.targets == mark.targets]
        return await self.put(where, replace(mark, id=items.key_of_mark(mark, alike)), places)

    async def put(self, where: Namespace, change: Change, places: Sequence[Place]) -> Change:
        """Write a change at each of its places unless it is there; returns the one that is there."""
        stored = change
        for index in range(len(places)):
            key = f"{change.id}.{index}" if index else change.id
            metadata = items.metadata_of(stored, places, index)
            try:
                await self.store.put(where, key, items.value_of(stored), metadata, expected_version=0)
            except Conflict:
                item = await self.store.get_item(where, key)
                stored = stored if item is None else items.change_of(item)
        return stored

    async def delete(self, user_id: str | None, gone: Callable[[Change], bool]) -> int:
        """Delete the changes of a user that are ``gone``; returns how many items went."""
        where = self.at(user_id)
        keys = [item.key async for item in self.store.iterate(where) if gone(items.change_of(item))]
        return sum([await self.store.delete(where, key) for key in keys])
