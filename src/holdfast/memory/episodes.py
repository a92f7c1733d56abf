"""Episodes: what was said, by whom and when. One item each, in the order of its session."""

import hashlib
import heapq
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field

from holdfast.core.clock import from_us, to_us
from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.frozen import EMPTY, thaw
from holdfast.core.ids import new_id
from holdfast.core.model import FrozenMap, FrozenModel, UtcDatetime
from holdfast.memory import validate
from holdfast.memory.buckets import bucket_of
from holdfast.memory.embedder.sticky import StickyEmbedder
from holdfast.memory.recall import Recalled, recall_items, time_words
from holdfast.memory.records import StoreItem
from holdfast.memory.store import BaseStore

if TYPE_CHECKING:
    from holdfast.memory.embedder import Embedder

__all__ = ["Episode", "Episodes", "RecalledEpisode"]

ASIDE = "rewound"
"""Where the episodes are that a thread has turned away from."""

_ATTEMPTS = 64


class Episode(FrozenModel):
    """Something that was said or happened. ``id``, ``ordinal`` and ``occurred_at`` are given to it when it is kept."""

    text: str
    speaker: str | None = None
    session_id: str = "default"
    occurred_at: UtcDatetime | None = None
    metadata: FrozenMap = Field(default_factory=lambda: EMPTY)
    checkpoint: str | None = None
    id: str = ""
    ordinal: int = -1


@dataclass(frozen=True, slots=True)
class RecalledEpisode:
    """An episode that answers a question. ``score`` is the sum of ``parts``, which say what each signal gave."""

    episode: Episode
    score: float
    parts: "dict[str, float]"


class Episodes:
    """The episodes of all users, each in a bucket of their own."""

    def __init__(self, store: BaseStore, space: str, embedder: "Embedder | StickyEmbedder | None") -> None:
        self._store = store
        self._space = space
        self._embedder = embedder

    async def embedder(self) -> "Embedder | None":
        """What makes their vectors, if anything does."""
        given = self._embedder
        return await given.get() if isinstance(given, StickyEmbedder) else given

    def at(self, user_id: str | None) -> tuple[str, ...]:
        return (*bucket_of(self._space, user_id), "episodes")

    def _sessions(self, user_id: str | None) -> tuple[str, ...]:
        return (*bucket_of(self._space, user_id), "sessions")

    async def add(
        self, episodes: Sequence[Episode], user_id: str | None, now_us: int, *, to_learn: Sequence[bool]
    ) -> list[Episode]:
        """Keep them, in this order; returns them as they are kept. ``to_learn`` marks some for the extraction. One
        whose id is there already stays as it is."""
        for episode in episodes:
            validate.identifier(episode.session_id, "session_id")
            if not episode.text.strip():
                raise InvalidInput("text must not be blank: an episode says something")
        embedder = await self.embedder()
        there = await self._there([episode.id for episode in episodes if episode.id], user_id)
        fresh = [episode for episode in episodes if there.get(episode.id) is None]
        first = {
            session: await self._reserve(session, user_id, sum(e.session_id == session for e in fresh))
            for session in dict.fromkeys(episode.session_id for episode in fresh)
        }
        vectors = [] if embedder is None else await embedder.embed([e.text for e in fresh])
        given = iter(vectors)
        kept: list[Episode] = []
        for episode, learns in zip(episodes, to_learn, strict=True):
            known = there.get(episode.id)
            if known is not None:
                kept.append(known)
                continue
            ordinal = first[episode.session_id]
            first[episode.session_id] += 1
            changes: dict[str, Any] = {"id": episode.id or new_id(), "ordinal": ordinal}
            changes["occurred_at"] = episode.occurred_at or from_us(now_us)
            done = episode.model_copy(update=changes)
            try:
                await self._put(done, user_id, next(given, None), learns)
            except Conflict:  # somebody else has kept it at the same moment
                done = await self.find(done.id, user_id) or done
            kept.append(done)
        return kept

    async def _there(self, ids: Sequence[str], user_id: str | None) -> dict[str, Episode | None]:
        """Those of these that there are."""
        named = [validate.identifier(name, "episode.id") for name in ids]
        values = await self._store.get_batch([(self.at(user_id), name) for name in named]) if named else []
        there = [name for name, value in zip(named, values, strict=True) if value is not None]
        return {name: await self.find(name, user_id) for name in there}

    async def find(self, episode_id: str, user_id: str | None) -> Episode | None:
        """The episode with this id, if there is one."""
        item = await self._store.get_item(self.at(user_id), validate.identifier(episode_id, "episode.id"))
        return None if item is None else as_episode(item)

    async def recall(
        self, question: str, user_id: str | None, limit: int, session_id: str | None, now: datetime | None
    ) -> list[RecalledEpisode]:
        """The episodes that answer the question, best first."""
        embedding, embedder = None, await self.embedder()
        if embedder is not None and question.strip():
            (embedding,) = await embedder.embed([question])
        condition = None if session_id is None else {"group": validate.identifier(session_id, "session_id")}
        found = await recall_items(
            self._store, self.at(user_id), question, limit, now=now, embedding=embedding, filter=condition
        )
        return [_recalled(hit) for hit in found]

    async def session(self, session_id: str, user_id: str | None, limit: int) -> list[Episode]:
        """The last ``limit`` episodes of a session, in their order."""
        place = validate.identifier(session_id, "session_id")
        counter = await self._store.get(self._sessions(user_id), place)
        if counter is None or not limit:
            return []
        end = int(counter["next"])
        window = min(limit, end)
        while True:
            found = await self._store.neighbours(self.at(user_id), place, end, window)
            if len(found) >= limit or window >= end:
                return [as_episode(item) for item in found][-limit:]
            window = min(2 * window, end)  # places that were reserved, or whose episode is gone, are empty

    async def latest(self, user_id: str | None, limit: int, session_id: str | None) -> list[Episode]:
        """The last to happen, last first. Looks at all, but holds only so many."""
        condition = None if session_id is None else {"group": validate.identifier(session_id, "session_id")}
        found: list[tuple[tuple[int, int, str], StoreItem]] = []
        async for item in self._store.iterate(self.at(user_id), condition):
            entry = (item.metadata["at"], item.metadata["ordinal"], item.key), item
            (heapq.heappush if len(found) < limit else heapq.heappushpop)(found, entry)
        return [as_episode(item) for _, item in sorted(found, key=lambda entry: entry[0], reverse=True)][
            :limit
        ]

    async def each(self, user_id: str | None) -> AsyncIterator[StoreItem]:
        """All of a user's episodes, as items."""
        async for item in self._store.iterate(self.at(user_id)):
            yield item

    async def of_session(self, session_id: str, user_id: str | None) -> AsyncIterator[StoreItem]:
        """All episodes of a session, as items."""
        async for item in self._store.iterate(self.at(user_id), {"group": session_id}):
            yield item

    # ── put aside, when their thread was rewound: nothing finds them, and they can be brought back ────

    def _aside(self, user_id: str | None) -> tuple[str, ...]:
        return (*bucket_of(self._space, user_id), ASIDE)

    async def put_away(self, session_id: str, user_id: str | None) -> AsyncIterator[StoreItem]:
        """Those of a session that were put aside. ``metadata["episode"]`` is the id of each."""
        async for item in self._store.iterate(self._aside(user_id), {"group": session_id}):
            yield item

    async def all_aside(self, user_id: str | None) -> AsyncIterator[StoreItem]:
        """Those of all sessions."""
        async for item in self._store.iterate(self._aside(user_id)):
            yield item

    async def remove_aside(self, keys: Sequence[str], user_id: str | None) -> None:
        for key in keys:
            await self._store.delete(self._aside(user_id), key)

    async def put_aside(self, item: StoreItem, user_id: str | None) -> None:
        """Take an episode out of what is recalled. To do it again changes nothing."""
        metadata = {**item.metadata, "episode": item.key}
        await self._store.put(self._aside(user_id), _aside_key(metadata), item.value, metadata)
        await self._store.delete(self.at(user_id), item.key)

    async def bring_back(self, item: StoreItem, user_id: str | None) -> None:
        """Put it back where it was."""
        metadata = {key: value for key, value in item.metadata.items() if key != "episode"}
        if "lease_until" in metadata:
            metadata["lease_until"] = 0  # who was at it has lost it
        if await self.find(item.metadata["episode"], user_id) is None:
            await self.put_back(self.at(user_id), item.metadata["episode"], item.value, metadata)
        await self._store.delete(self._aside(user_id), item.key)

    async def unlearned(self, user_id: str | None, now_us: int, limit: int) -> list[StoreItem]:
        """Episodes that nobody has learned from and nobody is at, oldest first."""
        condition = {"learned": False, "lease_until": {"$lte": now_us}}
        found = await self._store.search(self.at(user_id), None, limit, filter=condition)
        return sorted(found, key=lambda item: (item.metadata["at"], item.metadata["ordinal"]))

    async def marked(self, user_id: str | None, limit: int = 1) -> list[StoreItem]:
        """Some of the episodes that nobody has learned from."""
        return list(await self._store.search(self.at(user_id), None, limit, filter={"learned": False}))

    async def mark(self, item: StoreItem, user_id: str | None, **changes: Any) -> StoreItem | None:
        """Change what is noted beside an episode; ``None`` if it was changed or removed meanwhile."""
        metadata = {key: value for key, value in {**item.metadata, **changes}.items() if value is not None}
        embedder = await self.embedder()
        try:
            if embedder is None:
                version = await self._store.put(
                    self.at(user_id), item.key, item.value, metadata, expected_version=item.version
                )
            else:
                (vector,) = await embedder.embed([item.value["text"]])
                version = await self._store.put_with_embedding(
                    self.at(user_id), item.key, item.value, vector, metadata, expected_version=item.version
                )
        except Conflict:
            return None
        return replace(item, metadata=metadata, version=version)

    async def remove(self, ids: Sequence[str], user_id: str | None) -> None:
        for name in ids:
            await self._store.delete(self.at(user_id), name)

    async def remove_session(self, session_id: str, user_id: str | None) -> None:
        """Forget how long a session was."""
        await self._store.delete(self._sessions(user_id), session_id)

    async def put_back(
        self, namespace: tuple[str, ...], key: str, value: Any, metadata: dict[str, Any]
    ) -> None:
        """Write an item of an export where it was. An episode gets its vector again."""
        embedder = await self.embedder() if namespace[-1] == "episodes" else None
        if embedder is None:
            await self._store.put(namespace, key, value, metadata)
        else:
            (vector,) = await embedder.embed([value["text"]])
            await self._store.put_with_embedding(namespace, key, value, vector, metadata)

    async def _put(
        self, episode: Episode, user_id: str | None, vector: list[float] | None, to_learn: bool
    ) -> None:
        assert episode.occurred_at is not None
        at = to_us(episode.occurred_at)
        # Its date in words, so that a question about a day or a month finds it.
        value = {"text": episode.text, "when": time_words(at), "metadata": thaw(dict(episode.metadata))}
        metadata: dict[str, Any] = {
            "group": episode.session_id,
            "ordinal": episode.ordinal,
            "at": at,
        }
        if episode.speaker is not None:
            metadata["speaker"] = episode.speaker
        if episode.checkpoint is not None:
            metadata["checkpoint"] = episode.checkpoint
        if to_learn:
            metadata |= {"learned": False, "lease_until": 0}
        where, absent = self.at(user_id), 0
        if vector is None:
            await self._store.put(where, episode.id, value, metadata, expected_version=absent)
        else:
            await self._store.put_with_embedding(
                where, episode.id, value, vector, metadata, expected_version=absent
            )

    async def _reserve(self, session_id: str, user_id: str | None, count: int) -> int:
        """The first of ``count`` places in the session that nobody else gets."""
        for attempt in range(_ATTEMPTS):
            item = await self._store.get_item(self._sessions(user_id), session_id)
            first = 0 if item is None else int(item.value["next"])
            try:
                await self._store.put(
                    self._sessions(user_id),
                    session_id,
                    {"next": first + count},
                    expected_version=0 if item is None else item.version,
                )
                return first
            except Conflict:
                if attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")


def _aside_key(metadata: Mapping[str, Any]) -> str:
    """A turn that was gone through twice has the same episodes at other checkpoints."""
    named = f"{metadata['episode']}\0{metadata.get('checkpoint')}"
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def as_episode(item: StoreItem) -> Episode:
    """The episode of an item."""
    metadata = item.metadata
    return Episode(
        text=item.value["text"],
        speaker=metadata.get("speaker"),
        session_id=metadata["group"],
        occurred_at=from_us(metadata["at"]),
        metadata=item.value.get("metadata", {}),
        checkpoint=metadata.get("checkpoint"),
        id=item.key,
        ordinal=metadata["ordinal"],
    )


def _recalled(hit: Recalled) -> RecalledEpisode:
    return RecalledEpisode(as_episode(hit.item), hit.score, dict(hit.parts))
