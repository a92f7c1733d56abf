"""The suite bites: broken versions of the reference's saving, deleting, branching and retention fail it."""

import asyncio
from dataclasses import replace

import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import Conflict
from holdfast.core.unset import UNSET
from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.backends.memory_threads import Thread
from holdfast.memory.records import CheckpointInfo
from holdfast.memory.requests import PruneRequest, SaveRequest
from holdfast.testing.checkpointer_cases.branching import BranchingCases
from holdfast.testing.checkpointer_cases.deleting import DeletingCases
from holdfast.testing.checkpointer_cases.retention import ExpiryCases, RetentionCases
from holdfast.testing.checkpointer_cases.saving import SavingCases
from tests.memory.mutants import Mutant, Mutants, check_mutant

MUTANTS = Mutants()


# ── saving ────────────────────────────────────────────────────────────────────────────────────────


@MUTANTS.caught_by(SavingCases, "test_a_save_on_another_head_is_conflict_and_writes_nothing")
class NoCompareAndSet(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        return await super()._save(request._replace(parent=UNSET))


@MUTANTS.caught_by(SavingCases, "test_of_two_writers_on_one_head_one_wins")
class ChecksThenWrites(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        head = await self._info(request.thread_id, None)
        if request.parent is not UNSET and (head and head.checkpoint_id) != request.parent:
            raise Conflict("late", expected=request.parent, actual=head and head.checkpoint_id)
        await asyncio.sleep(0)
        return await super()._save(request._replace(parent=UNSET))


@MUTANTS.caught_by(SavingCases, "test_a_repeated_id_with_other_content_is_conflict")
class RepeatedIdOverwrites(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        thread = self._find(request.thread_id)
        if thread is not None and len(thread.rows) > 1:
            thread.rows.pop(str(request.checkpoint_id), None)
        elif thread is not None and request.checkpoint_id in thread.rows:
            self._remove(request.thread_id)
        return await super()._save(request)


@MUTANTS.caught_by(SavingCases, "test_a_repeated_save_returns_its_id_and_writes_nothing")
class RepeatedIdAlwaysConflicts(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        given = request.checkpoint_id
        if given is not None and await self._info(request.thread_id, given) is not None:
            raise Conflict("taken", actual=request.checkpoint_id)
        return await super()._save(request)


@MUTANTS.caught_by(SavingCases, "test_every_version_of_an_edited_history_loads_exactly")
class NewElementsFoundByLength(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        thread = self._find(request.thread_id)
        known = thread.last_saved[0].messages if thread is not None and thread.last_saved else ()
        if len(request.state.messages) >= len(known):
            messages = (*known, *request.state.messages[len(known) :])
            request = request._replace(state=request.state.model_copy(update={"messages": messages}))
        return await super()._save(request)


@MUTANTS.caught_by(SavingCases, "test_order_is_by_sequence_when_the_clock_runs_backwards")
class HistoryByClock(MemoryCheckpointer):
    async def _history(self, thread_id: str, limit: int, before: int | None) -> list[CheckpointInfo]:
        found = await super()._history(thread_id, 10_000, before)
        return sorted(found, key=lambda info: info.created_at, reverse=True)[:limit]


class _KeepsInfos(MemoryCheckpointer):
    def __init__(self, *, ttl_seconds: float | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(ttl_seconds=ttl_seconds, clock=clock)
        self.infos: dict[tuple[str, str], CheckpointInfo] = {}


@MUTANTS.caught_by(SavingCases, "test_what_is_handed_out_is_a_copy_of_what_is_stored")
class SharedReferenceReturned(_KeepsInfos):
    async def _info(self, thread_id: str, checkpoint_id: str | None) -> CheckpointInfo | None:
        info = await super()._info(thread_id, checkpoint_id)
        return info and self.infos.setdefault((thread_id, info.checkpoint_id), info)


@MUTANTS.caught_by(SavingCases, "test_what_is_stored_is_a_copy_of_what_was_given")
class SharedReferenceStored(_KeepsInfos):
    async def _save(self, request: SaveRequest) -> str:
        saved = await super()._save(request)
        info = await super()._info(request.thread_id, saved)
        assert info is not None
        self.infos[request.thread_id, saved] = replace(info, metadata=request.metadata)
        return saved

    async def _info(self, thread_id: str, checkpoint_id: str | None) -> CheckpointInfo | None:
        info = await super()._info(thread_id, checkpoint_id)
        return info and self.infos[thread_id, info.checkpoint_id]


@MUTANTS.caught_by(SavingCases, "test_a_thread_of_1500_checkpoints_is_whole")
class RemembersAThousand(MemoryCheckpointer):
    async def _history(self, thread_id: str, limit: int, before: int | None) -> list[CheckpointInfo]:
        found = await super()._history(thread_id, 1000, None)
        return [info for info in found if before is None or info.sequence < before][:limit]


# ── deleting and branching ────────────────────────────────────────────────────────────────────────


@MUTANTS.caught_by(DeletingCases, "test_a_save_after_a_deleted_head_reuses_no_position")
class PositionsReusedAfterADeletedHead(MemoryCheckpointer):
    async def _delete(self, thread_id: str, checkpoint_id: str | None) -> bool:
        done = await super()._delete(thread_id, checkpoint_id)
        thread = self._find(thread_id)
        if thread is not None:
            thread.next_sequence = thread.head.sequence + 1
        return done


@MUTANTS.caught_by(DeletingCases, "test_a_late_write_does_not_revive_a_deleted_thread")
class LateWriteRevivesADeletedThread(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        if self._find(request.thread_id) is None:
            request = request._replace(parent=UNSET)
        return await super()._save(request)


@MUTANTS.caught_by(DeletingCases, "test_a_fork_keeps_a_head_that_its_source_deleted_and_wrote_over")
class SameIdSameCheckpoint(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        saved = await super()._save(request)
        for _, thread in self._live():  # one table of checkpoints, keyed by their id alone
            if saved in thread.rows:
                row = self._threads_here()[request.thread_id].rows[saved]
                thread.rows[saved] = row
        return saved


@MUTANTS.caught_by(BranchingCases, "test_a_deleted_inherited_checkpoint_is_hidden_in_that_thread_only")
class ForkSharesDeletes(MemoryCheckpointer):
    async def _delete(self, thread_id: str, checkpoint_id: str | None) -> bool:
        thread = self._find(thread_id)
        row = thread.rows.get(checkpoint_id) if thread is not None and checkpoint_id else None
        done = await super()._delete(thread_id, checkpoint_id)
        for _, other in self._live():
            if row is not None and other.rows.get(row.checkpoint_id) is row and len(other.rows) > 1:
                other.drop(row.checkpoint_id)
        return done


@MUTANTS.caught_by(BranchingCases, "test_a_fork_outlives_its_source")
class ForkDiesWithItsSource(MemoryCheckpointer):
    async def _delete(self, thread_id: str, checkpoint_id: str | None) -> bool:
        thread = self._find(thread_id)
        done = await super()._delete(thread_id, checkpoint_id)
        for other_id, other in self._live():
            if thread is not None and checkpoint_id is None and thread.life in other.ancestors:
                self._remove(other_id)
        return done


@MUTANTS.caught_by(BranchingCases, "test_a_fork_ends_at_its_checkpoint")
class ForkTakesTheWholeThread(MemoryCheckpointer):
    async def _fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> str | None:
        found = await super()._info(thread_id, checkpoint_id)
        await super()._fork(thread_id, None, new_thread_id)
        return None if found is None else found.checkpoint_id


@MUTANTS.caught_by(BranchingCases, "test_an_existing_destination_is_conflict")
class CopyOverwritesItsDestination(MemoryCheckpointer):
    def _must_be_free(self, thread_id: str) -> None:
        pass


@MUTANTS.caught_by(BranchingCases, "test_pending_writes_come_along_and_are_independent")
class ForkForgetsPendingWrites(MemoryCheckpointer):
    async def _fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> str | None:
        forked = await super()._fork(thread_id, checkpoint_id, new_thread_id)
        if forked is not None:
            self._threads_here()[new_thread_id].writes = {}
        return forked


# ── retention ─────────────────────────────────────────────────────────────────────────────────────


@MUTANTS.caught_by(RetentionCases, "test_vacuum_takes_what_is_older_but_never_a_head")
class VacuumRemovesHeads(MemoryCheckpointer):
    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        removed = await super()._prune(request)
        for thread_id, thread in self._live():
            head = thread.head
            if request.older_than and head.created_us < request.older_than and not request.dry_run:
                await self._delete(thread_id, head.checkpoint_id)
                removed.append((thread_id, head.checkpoint_id))
        return removed


@MUTANTS.caught_by(BranchingCases, "test_a_fork_outlives_a_vacuum_of_its_source")
class VacuumCutsWhatAForkReads(MemoryCheckpointer):
    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        for _, thread in self._live():
            thread.ancestors = {}
        removed = await super()._prune(request)
        gone = {checkpoint_id for _, checkpoint_id in removed}
        for _, thread in self._live():
            if thread.inherited and not request.dry_run:
                thread.rows = {key: row for key, row in thread.rows.items() if key not in gone} or thread.rows
        return removed


@MUTANTS.caught_by(RetentionCases, "test_what_a_fork_reads_stays_until_the_fork_goes")
class PruneTakesInheritedCheckpoints(MemoryCheckpointer):
    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        for _, thread in self._live():
            thread.inherited = 0
        return await super()._prune(request)


@MUTANTS.caught_by(RetentionCases, "test_a_checkpoint_with_pending_writes_stays")
class PruneTakesPendingWrites(MemoryCheckpointer):
    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        for _, thread in self._live():
            thread.writes = {}
        return await super()._prune(request)


@MUTANTS.caught_by(RetentionCases, "test_a_dry_run_says_what_would_go_and_removes_nothing")
class DryRunIsReal(MemoryCheckpointer):
    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        return await super()._prune(replace(request, dry_run=False))


@MUTANTS.caught_by(RetentionCases, "test_with_both_rules_both_must_hold")
class OneRuleIsEnough(MemoryCheckpointer):
    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        removed = await super()._prune(replace(request, keep_last=None))
        return removed + await super()._prune(replace(request, older_than=None))


@MUTANTS.caught_by(ExpiryCases, "test_each_save_renews_the_threads_time")
class TimeToLiveIsNotRenewed(MemoryCheckpointer):
    def _touch(self, thread: Thread, now_us: int) -> None:
        expires_us = thread.expires_us
        super()._touch(thread, now_us)
        thread.expires_us = expires_us or thread.expires_us


@MUTANTS.caught_by(ExpiryCases, "test_an_expired_thread_is_absent_for_everything")
class ExpiredThreadsAreListed(MemoryCheckpointer):
    def _live(self) -> list[tuple[str, Thread]]:
        everything = self._threads_here().items()
        return sorted(everything, key=lambda item: item[1].number, reverse=True)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.__name__ for mutant in MUTANTS])
def test_the_suite_catches(mutant: Mutant) -> None:
    check_mutant(mutant, *MUTANTS[mutant])
