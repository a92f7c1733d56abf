"""Memories that follow their thread: what was learned on the way that it turned away from is taken along.

The thread's own history says which checkpoints lead to where it stands. `Following.follow` makes the memories agree
with it, whatever they were before: so it can be done again after a kill, and going forward again brings them back.
"""

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.memory.branches import Branch, Branches, Lineage, View, lineage
from holdfast.memory.episodes import Episode, Episodes
from holdfast.memory.facts import FactStore

if TYPE_CHECKING:
    from holdfast.memory.checkpointer import BaseCheckpointer

__all__ = ["Following"]

AUTHOR = "rewind"
_REASON = "the thread was rewound to before this was learned"


class Following:
    """The memories of one user, seen along the user's threads."""

    def __init__(
        self,
        episodes: Episodes,
        branches: Branches,
        facts: FactStore | None,
        threads: "BaseCheckpointer",
        user_id: str | None,
    ) -> None:
        self._episodes = episodes
        self._branches = branches
        self._facts = facts
        self._threads = threads
        self._user = user_id

    # ── seeing ────────────────────────────────────────────────────────────────────────────────────

    async def view(self, thread_id: str) -> View:
        """What a run on that thread sees."""
        return await self._branches.view(thread_id, self._user)

    def facts(self, view: View) -> FactStore | None:
        """The facts without those that come from an episode which the view does not show."""
        if self._facts is None or view.whole:
            return self._facts

        async def visible(sources: AbstractSet[str], user_id: str | None) -> Collection[str]:
            found = {source: await self._episodes.find(source, user_id) for source in sources}
            return {source for source, episode in found.items() if episode is None or shown(episode)}

        def shown(episode: Episode) -> bool:
            return view.shows(episode.session_id, episode.id)

        return self._facts.with_visible(visible)

    # ── rewinding ─────────────────────────────────────────────────────────────────────────────────

    async def follow(self, thread_id: str) -> None:
        """Make the memories of that thread agree with where it stands, and then those of its relatives: they may have
        kept for it what it does not need any more, or need what they let go."""
        await self._agree(thread_id)
        for relative in sorted((await self.view(thread_id)).relatives):
            await self._agree(relative)

    async def _agree(self, thread_id: str) -> None:
        path = await lineage(self._threads, thread_id)
        branches = await self._branches.all(self._user)
        mine = branches.get(thread_id, Branch(thread_id))
        needed = await self._needed(thread_id, branches)
        hidden = {episode for episode, checkpoint in mine.inherits.items() if checkpoint in path.left}
        gone: list[str] = []
        async for item in self._episodes.put_away(thread_id, self._user):
            checkpoint = item.metadata.get("checkpoint")
            if checkpoint in path.kept or item.metadata["episode"] in needed:
                await self._episodes.bring_back(item, self._user)
            else:
                gone.append(item.metadata["episode"])
        back: list[str] = []
        async for item in self._episodes.of_session(thread_id, self._user):
            turned_away = item.metadata.get("checkpoint") in path.left
            if turned_away and item.key not in needed:
                await self._episodes.put_aside(item, self._user)
                gone.append(item.key)
            else:
                back.append(item.key)
                hidden |= {item.key} if turned_away else set()
        await self._branches.hide(thread_id, hidden, self._user)
        if self._facts is not None:
            own = {name for name, sequence in path.left.items() if sequence > mine.sequence}
            await self._correct(self._facts, gone, back, own, path)

    async def _correct(
        self, facts: FactStore, gone: Iterable[str], back: Iterable[str], left: Collection[str], path: Lineage
    ) -> None:
        """Retract what comes from episodes that are gone, bring back what comes from those that are not; and the same
        for what a tool said about facts, which has no episode but a checkpoint."""
        away, there = frozenset(gone), frozenset(back)
        changes = {change.id: change for change in await facts.all_changes(user_id=self._user)}
        for change in list(changes.values()):
            if change.author != AUTHOR or change.kind not in ("retract", "undo"):
                continue
            targets = [changes[name] for name in change.targets if name in changes]
            again = any(not there.isdisjoint(target.sources) for target in targets)
            if again or any(not target.sources and target.checkpoint in path.kept for target in targets):
                await facts.undo(change.id, "the thread is back there", user_id=self._user, author=AUTHOR)
        for change in changes.values():
            said = change.kind in ("retract", "undo") and change.author != AUTHOR
            if said and not change.sources and change.checkpoint in left:
                await facts.undo(change.id, _REASON, user_id=self._user, author=AUTHOR)
        if away:
            await facts.retract_sources(away, _REASON, user_id=self._user, author=AUTHOR)

    async def _needed(self, thread_id: str, branches: dict[str, Branch]) -> set[str]:
        """The episodes that another branch has inherited."""
        found: set[str] = set()
        for name, branch in branches.items():
            if name != thread_id and branch.inherits and await self._threads.exists(name):
                found |= branch.inherits.keys() - branch.hidden
        return found

    # ── forking ───────────────────────────────────────────────────────────────────────────────────

    async def fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> None:
        """Fork a thread, and note what the new one inherits. The note comes first: a fork without one would see what it
        must not."""
        path = await lineage(self._threads, thread_id, checkpoint_id)
        branch, revived = await self._inheritance(thread_id, path)
        noted = await self._branches.add(new_thread_id, branch, self._user)
        try:
            await self._threads.fork(thread_id, checkpoint_id, new_thread_id)
        except (Conflict, InvalidInput):
            if noted:
                await self._branches.remove(new_thread_id, self._user)
            raise
        if revived:  # it begins where the thread no longer is
            await self.follow(thread_id)

    async def note(self, thread_id: str, new_thread_id: str) -> None:
        """The same for a fork that was made already."""
        before, now = await lineage(self._threads, thread_id), await lineage(self._threads, new_thread_id)
        known = {**before.kept, **before.left}
        kept = {name: at for name, at in now.kept.items() if name in known}
        left = {name: at for name, at in now.left.items() if name in known}
        branch, _ = await self._inheritance(thread_id, Lineage(kept, left))
        await self._branches.add(new_thread_id, branch, self._user)

    async def _inheritance(self, thread_id: str, path: Lineage) -> tuple[Branch, bool]:
        """What a branch with that past inherits, and whether the thread has let go some of it. What lies off the
        way is inherited too, and hidden: the branch may be rewound to there."""
        mine = (await self._branches.all(self._user)).get(thread_id, Branch(thread_id))
        inherits = dict(mine.inherits)
        async for item in self._episodes.of_session(thread_id, self._user):
            inherits[item.key] = item.metadata.get("checkpoint", "")
        aside = set()
        async for item in self._episodes.put_away(thread_id, self._user):
            inherits.setdefault(item.metadata["episode"], item.metadata.get("checkpoint", ""))
            aside.add(item.metadata["episode"])
        past = {name: at for name, at in inherits.items() if at in path.kept or at in path.left}
        hidden = frozenset(name for name, at in past.items() if at in path.left)
        branch = Branch(mine.family, max(path.kept.values(), default=0), past, hidden)
        return branch, not (aside | mine.hidden).isdisjoint(past.keys() - hidden)
