"""`AgentMemory`: episodes, working blocks and facts of many users, on any store."""

from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InvalidInput
from holdfast.core.unset import UNSET, UnsetType
from holdfast.memory import rights, validate
from holdfast.memory.blocks import Blocks
from holdfast.memory.branches import Branches
from holdfast.memory.buckets import bucket_of, list_users
from holdfast.memory.embedder.base import Embedder, space_of_embedder
from holdfast.memory.embedder.sticky import StickyEmbedder
from holdfast.memory.episodes import ASIDE, Episode, Episodes, RecalledEpisode
from holdfast.memory.facts import Fact, FactStore
from holdfast.memory.following import Following
from holdfast.memory.records import Page, StoreItem
from holdfast.memory.reembedding import Progress, Reembedded, reembed
from holdfast.memory.rights import Filter, Profile, Receipt
from holdfast.memory.store import BaseStore
from holdfast.memory.waiting import Waiting

if TYPE_CHECKING:
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.consolidating import Consolidation
    from holdfast.models.base import Model

__all__ = ["AgentMemory"]


class AgentMemory:
    """What an agent keeps of its users. Every call is about one ``user_id``; ``None`` is a bucket of its own.

    ``checkpointer`` is needed only to forget a user's threads along with the rest. ``embedder`` adds nearness of
    meaning to recall; the store must be open for its vectors. Without one, recall goes by words.
    """

    def __init__(
        self,
        store: BaseStore,
        checkpointer: "BaseCheckpointer | None" = None,
        *,
        namespace: str = "default",
        embedder: Embedder | StickyEmbedder | None = None,
        with_facts: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not isinstance(store, BaseStore):
            raise InvalidInput(f"store must be a BaseStore, got {type(store).__name__}")
        _check_embedder(store, embedder)
        self._store = store
        self._checkpointer = checkpointer
        self._space = validate.identifier(namespace, "namespace")
        self._clock = clock
        self._episodes = Episodes(store, self._space, embedder)
        self._blocks = Blocks(store, self._space)
        self._waiting = Waiting(store, self._space)
        self._branches = Branches(store, self._space)
        self.facts = FactStore(store, namespace=self._space, clock=clock) if with_facts else None
        """The facts, or ``None`` with ``with_facts=False``."""

    @property
    def checkpointer(self) -> "BaseCheckpointer | None":
        """Where the users' threads are kept, if it knows."""
        return self._checkpointer

    @property
    def clock(self) -> Clock:
        """What it tells the time by."""
        return self._clock

    @property
    def store(self) -> BaseStore:
        """Where it is kept."""
        return self._store

    # ── working blocks ────────────────────────────────────────────────────────────────────────────

    async def working(self, *, user_id: str | None = None) -> dict[str, str]:
        """The user's working blocks by name."""
        return await self._blocks.all(user_id)

    async def update_block(self, name: str, text: str, *, user_id: str | None = None) -> None:
        """Write a block anew; an empty text removes it."""
        await self._blocks.update(name, text, user_id)

    async def append_block(self, name: str, text: str, *, user_id: str | None = None) -> str:
        """Add a line to a block; returns the whole of it. Lines of other processes are kept."""
        return await self._blocks.append(name, text, user_id)

    # ── episodes ──────────────────────────────────────────────────────────────────────────────────

    async def remember(self, episode: Episode | str, *, user_id: str | None = None) -> Episode:
        """Keep an episode; returns it with its id and its place in the session."""
        (kept,) = await self.remember_all([episode], user_id=user_id)
        return kept

    async def remember_all(
        self,
        episodes: Sequence[Episode | str],
        *,
        user_id: str | None = None,
        learn: bool | Sequence[bool] = False,
    ) -> list[Episode]:
        """Keep several, in this order. ``learn=True`` marks them, a list some of them: facts are still to be found in
        these. One whose ``id`` is there already stays as it is."""
        given = [Episode(text=each) if isinstance(each, str) else each for each in episodes]
        for index, each in enumerate(given):
            if not isinstance(each, Episode):
                raise InvalidInput(f"episodes[{index}] must be an Episode or text, got {type(each).__name__}")
        if not given:
            return []
        marks = [learn] * len(given) if isinstance(learn, bool) else list(learn)
        if len(marks) != len(given):
            raise InvalidInput(
                f"learn must be one for all or one for each, got {len(marks)} for {len(given)}"
            )
        kept = await self._episodes.add(given, user_id, self._clock.now_us(), to_learn=marks)
        if any(marks):  # after them: who removes the entry looks for marked ones afterwards
            await self._waiting.add(user_id)
        return kept

    async def recall(
        self,
        question: str,
        limit: int = 10,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        now: datetime | None = None,
    ) -> list[Episode]:
        """The episodes that answer a question, best first. ``now`` is what "yesterday" counts from."""
        found = await self.recall_scored(question, limit, user_id=user_id, session_id=session_id, now=now)
        return [hit.episode for hit in found]

    async def recall_scored(
        self,
        question: str,
        limit: int = 10,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        now: datetime | None = None,
    ) -> list[RecalledEpisode]:
        """The same with the score of each, and what it is made of."""
        return await self._episodes.recall(
            validate.text(question, "question"), user_id, validate.limit(limit), session_id, now
        )

    async def recall_facts(
        self,
        question: str,
        limit: int = 10,
        *,
        user_id: str | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
    ) -> list[Fact]:
        """Facts with words of the question, that were true and believed then; now by default."""
        if self.facts is None:
            raise InvalidInput("this memory was made with with_facts=False")
        return await self.facts.search(
            question, valid_at=valid_at, known_at=known_at, user_id=user_id, limit=limit
        )

    async def session_messages(
        self, session_id: str, limit: int = 100, *, user_id: str | None = None
    ) -> list[Episode]:
        """The last episodes of a session, in their order."""
        return await self._episodes.session(session_id, user_id, validate.limit(limit))

    async def latest(
        self, limit: int = 10, *, user_id: str | None = None, session_id: str | None = None
    ) -> list[Episode]:
        """The episodes that happened last, last first."""
        return await self._episodes.latest(user_id, validate.limit(limit), session_id)

    async def users(self, limit: int = 100, *, after: str | None = None) -> Page[str | None]:
        """Users of whom anything is kept, in a fixed order; ``None`` is the bucket of nobody in particular.

        ``after`` goes on from a page's ``next``.
        """
        return await list_users(self._store, self._space, validate.limit(limit), after)

    async def reembed(
        self,
        *,
        user_id: str | UnsetType | None = UNSET,
        progress: Progress | None = None,
        dry_run: bool = False,
    ) -> Reembedded:
        """Give every episode, or every one of a user, a vector of this memory's embedder.

        Vectors of another embedder are given up, missing ones are made. It can be stopped at any point and called
        again; ``progress(done, total)`` is called as it goes on.
        """
        embedder = await self._episodes.embedder()
        if embedder is None:
            raise InvalidInput("reembed() needs a memory with an embedder=: there is nothing to embed with")
        return await reembed(
            self._store, self._space, embedder, user_id=user_id, progress=progress, dry_run=dry_run
        )

    # ── rights ────────────────────────────────────────────────────────────────────────────────────

    async def profile(self, *, user_id: str | None) -> Profile:
        """What is known of a user."""
        facts = () if self.facts is None else tuple(await self.facts.query(user_id=user_id))
        sessions: set[Any] = set()
        episodes = 0
        async for item in self._episodes.each(user_id):
            episodes += 1
            sessions.add(item.metadata.get("group"))
        return Profile(await self.working(user_id=user_id), facts, episodes, len(sessions))

    async def export(self, *, user_id: str | None) -> AsyncIterator[str]:
        """All that is kept of a user, as JSON lines for `import_`."""
        async for line in rights.export_lines(self._store, self._space, user_id):
            yield line

    async def import_(self, lines: Iterable[str] | AsyncIterable[str], *, user_id: str | None) -> int:
        """Put an export back, whole; an item that is there is written over. Returns how many items there were.

        Vectors are made anew.
        """
        given = [line async for line in lines] if isinstance(lines, AsyncIterable) else list(lines)
        items = rights.import_lines([line for line in given if line.strip()])
        for item in items:
            namespace = (*bucket_of(self._space, user_id), *item["place"])
            await self._episodes.put_back(namespace, item["key"], item["value"], item["metadata"])
        return len(items)

    async def forget(
        self,
        *,
        user_id: str | UnsetType | None = UNSET,
        session_id: str | None = None,
        before: datetime | None = None,
        threads: bool = False,
    ) -> Receipt:
        """Remove what is kept of a user: all of it, a session, or what is older. The conditions are ANDed.

        Facts that come from removed episodes go too; blocks go with the whole user. ``user_id=None`` is the bucket of
        nobody in particular, and must be written out. ``threads=True`` also deletes the user's threads, or the one of
        that session. The receipt says what there was, and what a second look found.
        """
        if user_id is UNSET:
            raise InvalidInput(
                "forget() needs user_id=, or user_id=None for what belongs to nobody in particular"
            )
        if threads and self._checkpointer is None:
            raise InvalidInput("threads=True needs AgentMemory(store, checkpointer)")
        if threads and before is not None:
            raise InvalidInput(
                "threads=True can't be combined with before=: vacuum() and prune() remove by age"
            )
        which = Filter(session_id, before)
        found = await self._count(which, user_id)
        if which.everything:
            await self._store.clear_namespace(bucket_of(self._space, user_id), prefix=True)
            await self._waiting.remove(user_id)
        else:
            await self._forget_some(which, user_id)
        await self._store.erase_deleted()
        if threads:
            found["threads"] = await self._forget_threads(user_id, session_id)
        left = await self._count(which, user_id)
        return Receipt({kind: found[kind] - left[kind] for kind in found}, dict(left))

    async def _forget_some(self, which: Filter, user_id: str | None) -> None:
        ids = [item.key async for item in self._episodes.each(user_id) if which.takes(item)]
        aside = [item async for item in self._episodes.all_aside(user_id) if which.takes(item)]
        sources = {*ids, *(item.metadata["episode"] for item in aside)}
        if self.facts is not None and sources:
            await self.facts.forget_sources(sources, user_id=user_id)
        await self._episodes.remove(ids, user_id)
        await self._episodes.remove_aside([item.key for item in aside], user_id)
        if which.session_id is not None and which.before is None:
            await self._episodes.remove_session(which.session_id, user_id)

    async def _forget_threads(self, user_id: str | None, session_id: str | None) -> int:
        assert self._checkpointer is not None
        if session_id is not None:
            scope = self._checkpointer if user_id is None else self._checkpointer.scoped(user_id)
            return int(await scope.delete(session_id))
        if user_id is None:
            raise InvalidInput(
                "threads=True with user_id=None needs session_id=: the default scope is everybody's"
            )
        return await self._checkpointer.delete_scope(user_id)

    async def _count(self, which: Filter, user_id: str | None) -> Counter[str]:
        """What there is of each kind, by looking at every item."""
        counts: Counter[str] = Counter()
        ids: set[str] = set()
        depth = len(bucket_of(self._space, user_id))
        others: list[tuple[str, Any]] = []
        async for item in rights.scan(self._store, self._space, user_id):
            kind = item.namespace[depth]
            if kind in ("episodes", ASIDE):
                if which.takes(item):
                    counts["episodes"] += 1
                    ids.add(item.metadata.get("episode", item.key))
            else:
                others.append((kind, item))
        for kind, item in others:
            sources = item.metadata.get("sources", ())
            ended = kind == "sessions" and item.key == which.session_id and which.before is None
            if which.everything or ended or (kind == "facts" and not ids.isdisjoint(sources)):
                counts[kind] += 1
        return counts

    async def consolidate(
        self, *, user_id: str | UnsetType | None = UNSET, model: "Model | None" = None
    ) -> "Consolidation":
        """Put in order what is known of a user, or of all who have something to learn from. Nothing is lost by it.

        Facts are found in what was said and nobody has looked at, by ``model`` if there is one, else by rules. What was
        said in several ways is said in one: the other statements are retracted, and stay in the history.
        """
        from holdfast.memory.consolidating import Consolidation, consolidate_user

        if user_id is not UNSET:
            return await consolidate_user(self, user_id, model)
        report = Consolidation()
        for user in [user async for user in self.waiting_users()]:
            report += await consolidate_user(self, user, model)
        return report

    # ── for the extraction ────────────────────────────────────────────────────────────────────────

    async def unlearned(self, user_id: str | None, now_us: int, limit: int) -> list[StoreItem]:
        """Episodes that are marked and that nobody is at, oldest first."""
        return await self._episodes.unlearned(user_id, now_us, limit)

    async def mark_unlearned(self, user_id: str | None) -> int:
        """Mark what the user said and what was noted, if nobody has looked for facts there; returns how many."""
        done = 0
        async for item in self._episodes.each(user_id):
            if "learned" not in item.metadata and item.metadata.get("speaker") in (None, "user", "note"):
                done += await self._episodes.mark(item, user_id, learned=False, lease_until=0) is not None
        if done:
            await self._waiting.add(user_id)
        return done

    async def count_waiting(self, user_id: str | None) -> int:
        """How many episodes are marked."""
        return len(await self._episodes.marked(user_id, 1_000))

    def waiting_users(self) -> AsyncIterator[str | None]:
        """The users who may have such episodes; ``None`` is nobody in particular."""
        return self._waiting.users()

    async def none_waiting(self, user_id: str | None) -> None:
        """Take a user off that list who has no marked episode any more."""
        await self._waiting.remove(user_id)
        if await self._episodes.marked(
            user_id
        ):  # looked for afterwards: one that comes now finds the entry gone
            await self._waiting.add(user_id)

    async def claim(self, item: StoreItem, user_id: str | None, until_us: int) -> StoreItem | None:
        """Take an episode for oneself until then; ``None`` if somebody else was first."""
        return await self._episodes.mark(item, user_id, lease_until=until_us)

    async def settle(self, item: StoreItem, user_id: str | None) -> bool:
        """Its facts are stored. ``False`` if it was removed, or taken by somebody else, meanwhile."""
        return await self._episodes.mark(item, user_id, learned=True, lease_until=None) is not None

    async def still_there(self, episode_id: str, user_id: str | None) -> bool:
        return await self._store.exists(self._episodes.at(user_id), episode_id)

    # ── for threads ───────────────────────────────────────────────────────────────────────────────

    def following(self, threads: "BaseCheckpointer", user_id: str | None) -> Following:
        """What makes the user's memories follow these threads of theirs when one is rewound or forked."""
        return Following(self._episodes, self._branches, self.facts, threads, user_id)

    # ── life ──────────────────────────────────────────────────────────────────────────────────────

    async def aclose(self) -> None:
        """Close the store, and the checkpointer if there is one."""
        await self._store.close()
        if self._checkpointer is not None:
            await self._checkpointer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def _check_embedder(store: BaseStore, embedder: object) -> None:
    """Its vectors must be what the store is open for: two embedders of one length would be mixed up unnoticed."""
    if embedder is None or isinstance(embedder, StickyEmbedder):
        return
    if not isinstance(embedder, Embedder):
        raise InvalidInput(
            "embedder must have name, dimension, metric and async embed(texts), or be None, got"
            f" {type(embedder).__name__}: resolve_embedder(name) finds one by its name"
        )
    space = space_of_embedder(embedder)
    if store._space is None or not space.fits(store._space):
        opened = "no vectors" if store._space is None else f"vectors of {store._space}"
        raise InvalidInput(
            f"the store is open for {opened}, the memory's are of {space}: open it with store_options(embedder)"
        )
