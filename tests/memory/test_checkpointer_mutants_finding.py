"""The suite bites: broken versions of the reference's listing, searching, scopes, ids and life fail it."""

import asyncio
import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.backends.memory_threads import Thread, Words, words_of
from holdfast.memory.checkpointer import CheckpointerCapabilities
from holdfast.memory.cursors import decode_numbers, encode_cursor
from holdfast.memory.paging import RecencyCursor
from holdfast.memory.records import Checkpoint, CheckpointInfo, Page, PendingWrite
from holdfast.memory.requests import PruneRequest, SaveRequest, ThreadDump
from holdfast.testing.checkpointer_cases.ids import IdsCases
from holdfast.testing.checkpointer_cases.life import LifeCases
from holdfast.testing.checkpointer_cases.listing import ListingCases
from holdfast.testing.checkpointer_cases.scopes import ScopesCases
from holdfast.testing.checkpointer_cases.searching import SearchingCases
from holdfast.testing.checkpointer_cases.transfer import TransferCases
from holdfast.testing.checkpointer_cases.writes import WritesCases
from tests.memory.mutants import Mutant, Mutants, check_mutant

MUTANTS = Mutants()


# ── listing ───────────────────────────────────────────────────────────────────────────────────────


@MUTANTS.caught_by(ListingCases, "test_threads_are_listed_last_saved_first")
class ThreadsByClock(MemoryCheckpointer):
    def _live(self) -> list[tuple[str, Thread]]:
        return sorted(super()._live(), key=lambda item: item[1].updated_us, reverse=True)


@MUTANTS.caught_by(ListingCases, "test_only_star_question_mark_and_backslash_are_special")
class PatternByLike(MemoryCheckpointer):
    async def _threads(self, limit: int, pattern: str, after: str | None) -> Page[str]:
        return await super()._threads(limit, pattern.replace("_", "?").replace("%", "*"), after)


@MUTANTS.caught_by(ListingCases, "test_only_star_question_mark_and_backslash_are_special")
class BracketIsSpecial(MemoryCheckpointer):
    async def _threads(self, limit: int, pattern: str, after: str | None) -> Page[str]:
        page = await super()._threads(limit, "*", after)
        return Page([thread_id for thread_id in page if fnmatch.fnmatchcase(thread_id, pattern)], page.next)


@MUTANTS.caught_by(ListingCases, "test_the_limit_counts_what_matches")
class LimitBeforePattern(MemoryCheckpointer):
    async def _threads(self, limit: int, pattern: str, after: str | None) -> Page[str]:
        page = await super()._threads(limit, "*", after)
        matching = await super()._threads(10_000, pattern, None)
        return Page([thread_id for thread_id in page if thread_id in matching], page.next)


@MUTANTS.caught_by(ListingCases, "test_a_listing_of_threads_is_complete_while_others_write")
class ListingByOffset(MemoryCheckpointer):
    async def _threads(self, limit: int, pattern: str, after: str | None) -> Page[str]:
        [start] = [0] if after is None else decode_numbers(after, "offset", 1)
        found = await super()._threads(10_000, pattern, None)
        more = len(found) > start + limit
        return Page(found[start : start + limit], encode_cursor("offset", start + limit) if more else None)


@MUTANTS.caught_by(ListingCases, "test_a_listing_with_metadata_is_complete_while_others_write")
class ListingForgetsWhatMovedUp(MemoryCheckpointer):
    def _from(self, cursor: RecencyCursor) -> Iterator[tuple[str, Thread]]:
        return (item for item in super()._from(cursor) if item[1].number <= cursor.position)


@MUTANTS.caught_by(ListingCases, "test_metadata_is_found_by_exact_value_and_type")
class MetadataComparedWithoutTypes(MemoryCheckpointer):
    async def _infos(
        self, limit: int, after: str | None, where: tuple[str, Any] | None
    ) -> Page[CheckpointInfo]:
        found = await super()._infos(10_000, after, None)
        fitting = [info for info in found if where is None or info.metadata.get(where[0]) == where[1]]
        return Page(fitting[:limit])


# ── searching ─────────────────────────────────────────────────────────────────────────────────────


@MUTANTS.caught_by(SearchingCases, "test_an_edited_away_message_is_found_at_its_old_checkpoint")
class EditedAwayMessagesAreLost(MemoryCheckpointer):
    def _documents(self) -> Iterator[tuple[str, str, Words]]:
        threads = dict(self._live())
        for thread_id, checkpoint_id, words in super()._documents():
            current = [words_of(text) for text in threads[thread_id].head.lists["messages"]]
            if words in current:
                yield thread_id, checkpoint_id, words


@MUTANTS.caught_by(SearchingCases, "test_a_message_is_one_hit_at_its_first_checkpoint")
class AHitForEveryCheckpoint(MemoryCheckpointer):
    def _documents(self) -> Iterator[tuple[str, str, Words]]:
        for thread_id, thread in self._live():
            for row in thread.rows.values():
                for text in row.lists["messages"]:
                    yield thread_id, row.checkpoint_id, words_of(text)


@MUTANTS.caught_by(SearchingCases, "test_inherited_messages_are_found_in_a_fork")
class InheritedMessagesAreNotFound(MemoryCheckpointer):
    def _documents(self) -> Iterator[tuple[str, str, Words]]:
        threads = dict(self._live())
        for thread_id, checkpoint_id, words in super()._documents():
            if threads[thread_id].rows[checkpoint_id].sequence > threads[thread_id].inherited:
                yield thread_id, checkpoint_id, words


@MUTANTS.caught_by(SearchingCases, "test_no_query_is_syntax")
class QueryIsARegularExpression(MemoryCheckpointer):
    async def _search(self, query: str, limit: int) -> list[dict[str, Any]]:
        re.compile(query)
        return await super()._search(query, limit)


# ── scopes ────────────────────────────────────────────────────────────────────────────────────────


@MUTANTS.caught_by(ScopesCases, "test_reading_never_reaches_across")
class SearchReachesOtherScopes(MemoryCheckpointer):
    def _documents(self) -> Iterator[tuple[str, str, Words]]:
        for scope in self._storage.scopes:
            yield from MemoryCheckpointer._documents(self._view(scope))


@MUTANTS.caught_by(ScopesCases, "test_limits_count_within_the_scope")
class LimitBeforeScopeInSearch(MemoryCheckpointer):
    async def _search(self, query: str, limit: int) -> list[dict[str, Any]]:
        found: list[tuple[str | None, dict[str, Any]]] = []
        for scope in self._storage.scopes:
            hits = await MemoryCheckpointer._search(self._view(scope), query, 10_000)
            found += [(scope, hit) for hit in hits]
        found.sort(key=lambda pair: len(pair[1]["snippet"]))  # short texts score higher
        return [hit for scope, hit in found[:limit] if scope == self._scope]


@MUTANTS.caught_by(ScopesCases, "test_limits_count_within_the_scope")
class LimitBeforeScopeInListing(MemoryCheckpointer):
    async def _threads(self, limit: int, pattern: str, after: str | None) -> Page[str]:
        numbers = [thread.number for threads in self._storage.scopes.values() for thread in threads.values()]
        newest = sorted(numbers, reverse=True)[:limit]
        found = await super()._threads(limit, pattern, after)
        return Page([thread_id for thread_id in found if self._threads_here()[thread_id].number in newest])


@MUTANTS.caught_by(ScopesCases, "test_writing_never_reaches_across")
class VacuumReachesOtherScopes(MemoryCheckpointer):
    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        removed: list[tuple[str, str]] = []
        for scope in list(self._storage.scopes):
            removed += await MemoryCheckpointer._prune(self._view(scope), request)
        return removed


@MUTANTS.caught_by(ScopesCases, "test_a_deleted_scope_is_gone_and_no_other")
class ScopeDeletedByPrefix(MemoryCheckpointer):
    async def _delete_scope(self) -> int:
        prefixed = [scope for scope in self._storage.scopes if scope and scope.startswith(self._scope or "")]
        return sum([await MemoryCheckpointer._delete_scope(self._view(scope)) for scope in prefixed])


@MUTANTS.caught_by(ScopesCases, "test_scope_and_id_are_never_joined")
class ScopeIsAPrefixOfTheId(MemoryCheckpointer):
    def _find(self, thread_id: str) -> Thread | None:
        joined = f"{self._scope or ''}/{thread_id}"
        for scope, threads in self._storage.scopes.items():
            for other_id, thread in threads.items():
                if f"{scope or ''}/{other_id}" == joined:
                    return thread
        return None


# ── ids, writes, transfer, life ───────────────────────────────────────────────────────────────────


class _RenamesThreads(MemoryCheckpointer):
    def rename(self, thread_id: str) -> str:
        raise NotImplementedError

    def _find(self, thread_id: str) -> Thread | None:
        return super()._find(self.rename(thread_id))

    def _begin(self, thread_id: str, created_us: int) -> Thread:
        return super()._begin(self.rename(thread_id), created_us)

    def _remove(self, thread_id: str) -> None:
        super()._remove(self.rename(thread_id))


@MUTANTS.caught_by(IdsCases, "test_every_thread_id_is_itself")
class IdsSanitised(_RenamesThreads):
    def rename(self, thread_id: str) -> str:
        return re.sub(r"[/:\\]", "_", thread_id)


@MUTANTS.caught_by(IdsCases, "test_every_thread_id_is_itself")
class IdsCaseFolded(_RenamesThreads):
    def rename(self, thread_id: str) -> str:
        return thread_id.casefold()


@MUTANTS.caught_by(IdsCases, "test_every_thread_id_is_itself")
class IdsCutAtNul(_RenamesThreads):
    def rename(self, thread_id: str) -> str:
        return thread_id.partition("\x00")[0] or thread_id


@MUTANTS.caught_by(IdsCases, "test_every_thread_id_is_itself")
class IdsCutTo254Characters(_RenamesThreads):
    def rename(self, thread_id: str) -> str:
        return thread_id[:254]


@MUTANTS.caught_by(WritesCases, "test_the_save_that_folds_them_in_removes_them")
class PendingWritesNotFolded(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        thread = self._find(request.thread_id)
        writes = {} if thread is None else dict(thread.writes)
        saved = await super()._save(request)
        self._threads_here()[request.thread_id].writes = writes
        return saved


@MUTANTS.caught_by(WritesCases, "test_a_save_that_loses_keeps_them")
class WritesFoldedBeforeTheHeadIsChecked(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        thread = self._find(request.thread_id)
        if thread is not None and isinstance(request.parent, str):
            thread.drop_writes(request.parent)
        return await super()._save(request)


@MUTANTS.caught_by(WritesCases, "test_a_tasks_writes_are_replaced_as_a_whole")
class WritesMergedByIndex(MemoryCheckpointer):
    async def _put_writes(
        self, thread_id: str, checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]]
    ) -> None:
        old = await self._get_writes(thread_id, checkpoint_id, task_id)
        kept = [(write.channel, write.value) for write in old[len(writes) :]]
        await super()._put_writes(thread_id, checkpoint_id, task_id, [*writes, *kept])


@MUTANTS.caught_by(WritesCases, "test_writes_come_back_by_task_and_index")
class WritesOrderedByTheTextOfTheIndex(MemoryCheckpointer):
    async def _get_writes(
        self, thread_id: str, checkpoint_id: str | None, task_id: str | None
    ) -> list[PendingWrite]:
        found = await super()._get_writes(thread_id, checkpoint_id, task_id)
        return sorted(found, key=lambda write: (write.task_id, str(write.idx)))


@MUTANTS.caught_by(TransferCases, "test_a_thread_comes_back_as_it_was")
class ExportForgetsWrites(MemoryCheckpointer):
    async def _dump(self, thread_id: str) -> ThreadDump | None:
        dump = await super()._dump(thread_id)
        return dump and replace(dump, records=[replace(record, writes=()) for record in dump.records])


@MUTANTS.caught_by(TransferCases, "test_a_thread_comes_back_as_it_was")
class ImportIsDatedToday(MemoryCheckpointer):
    async def _restore(self, dump: ThreadDump) -> None:
        now_us = self._clock.now_us()
        records = [replace(record, created_us=now_us) for record in dump.records]
        await super()._restore(replace(dump, records=records))


@MUTANTS.caught_by(LifeCases, "test_after_closing_every_call_raises")
class ClosedAnswersAsIfEmpty(MemoryCheckpointer):
    def _check(self, capability: str | None = None) -> None:
        if self._lifetime.closed:
            self._storage.scopes.clear()

    async def _read(self, thread_id: str, checkpoint_id: str | None) -> Checkpoint | None:
        return None if self._lifetime.closed else await super()._read(thread_id, checkpoint_id)


@MUTANTS.caught_by(LifeCases, "test_what_is_not_declared_raises")
class UndeclaredButWorking(MemoryCheckpointer):
    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return CheckpointerCapabilities.all_but("search")

    def _check(self, capability: str | None = None) -> None:
        super()._check(None)


@MUTANTS.caught_by(LifeCases, "test_a_cancelled_save_is_whole_or_not_there")
class WritesFoldedInASecondStep(MemoryCheckpointer):
    async def _save(self, request: SaveRequest) -> str:
        thread = self._find(request.thread_id)
        writes = {} if thread is None else dict(thread.writes)
        saved = await super()._save(request)
        thread = self._threads_here()[request.thread_id]
        folded, thread.writes = thread.writes, writes
        for _ in range(3):
            await asyncio.sleep(0)
        thread.writes = folded
        return saved


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.__name__ for mutant in MUTANTS])
def test_the_suite_catches(mutant: Mutant) -> None:
    check_mutant(mutant, *MUTANTS[mutant])
