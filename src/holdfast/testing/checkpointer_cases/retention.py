"""What vacuum, prune and time to live promise: what may go goes, heads and what others need stay."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    all_threads,
    chat,
    check_thread,
    export,
    grow,
    hits,
    requires,
    say,
    with_texts,
)
from holdfast.testing.clock import FrozenClock


def only(states: dict[str, AgentState], *ids: str) -> dict[str, AgentState]:
    return {checkpoint_id: states[checkpoint_id] for checkpoint_id in ids}


class RetentionCases(CheckpointerCases):
    async def test_vacuum_takes_what_is_older_but_never_a_head(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "vacuum")
            old = await grow(checkpointer, "old", 3)
            both = await grow(checkpointer, "both", 2)
            clock.advance(days=10)
            both |= await grow(checkpointer, "both", 2, start=3)
            assert await checkpointer.vacuum() == 0
            assert await checkpointer.vacuum(10) == 0  # exactly that old is not older
            clock.advance(0.000001)
            assert await checkpointer.vacuum(10) == 4
            await check_thread(checkpointer, "old", only(old, "c3"))
            await check_thread(checkpointer, "both", only(both, "c3", "c4"))
            assert await checkpointer.vacuum(10) == 0
            clock.advance(days=30)
            assert await checkpointer.vacuum(older_than_days=0.5) == 1
            await check_thread(checkpointer, "both", only(both, "c4"))

    async def test_what_remains_after_a_vacuum_loads_exactly(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "vacuum")
            states = await grow(checkpointer, "t", 4)
            states["edited"] = with_texts(states["c4"], [Message.user("x"), *states["c4"].messages[2:]])
            await checkpointer.save(states["edited"], "t", "edited")
            clock.advance(days=40)
            states["back"] = with_texts(states["c4"], states["c4"].messages[:2])
            await checkpointer.save(states["back"], "t", "back")
            states["on"] = say(states["back"], "m3", "m4", "m5")
            await checkpointer.save(states["on"], "t", "on")
            assert await checkpointer.vacuum() == 5
            await check_thread(checkpointer, "t", only(states, "back", "on"))
            states |= await grow(checkpointer, "t", 1, start=9)
            await check_thread(checkpointer, "t", only(states, "back", "on", "c9"))

    async def test_a_checkpoint_with_pending_writes_stays(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "vacuum", "retention", "pending_writes")
            states = await grow(checkpointer, "t", 4)
            await checkpointer.put_writes("t", "c2", "task", [("channel", 1)])
            clock.advance(days=31)
            report = await checkpointer.prune(keep_last=1, dry_run=True)
            assert report.removed == (("t", "c1"), ("t", "c3"))
            assert await checkpointer.vacuum() == 2
            await check_thread(checkpointer, "t", only(states, "c2", "c4"))
            await checkpointer.put_writes("t", "c2", "task", [])
            assert await checkpointer.vacuum() == 1

    async def test_what_a_fork_reads_stays_until_the_fork_goes(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching", "retention")
            states = await grow(checkpointer, "t", 5)
            await checkpointer.fork("t", "c3", "fork")
            await checkpointer.fork("fork", "c2", "fork of fork")
            forks = await grow(checkpointer, "fork", 3, start=10)
            report = await checkpointer.prune(keep_last=1)
            assert set(report.removed) == {("t", "c4"), ("fork", "c10"), ("fork", "c11")}
            await check_thread(checkpointer, "t", only(states, "c1", "c2", "c3", "c5"))
            await check_thread(checkpointer, "fork", only(states | forks, "c1", "c2", "c3", "c12"))
            await checkpointer.delete("fork")
            assert (await checkpointer.prune(keep_last=1)).removed == (("t", "c3"),)
            await checkpointer.delete("fork of fork")
            assert (await checkpointer.prune(keep_last=1)).removed == (("t", "c1"), ("t", "c2"))
            await check_thread(checkpointer, "t", only(states, "c5"))

    async def test_keep_last_counts_the_newest_of_each_thread(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "retention", "branching")
            states = await grow(checkpointer, "t", 5)
            few = await grow(checkpointer, "few", 2)
            await checkpointer.delete("t", "c4")
            report = await checkpointer.prune(keep_last=2)
            assert report.removed == (("t", "c1"), ("t", "c2"))
            assert (report.count, report.dry_run) == (2, False)
            await check_thread(checkpointer, "t", only(states, "c3", "c5"))
            await check_thread(checkpointer, "few", few)

    async def test_older_than_takes_moments_with_and_without_zone_and_ages(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        clock = FrozenClock(datetime(2026, 6, 1, 12, 0, tzinfo=UTC))
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "retention")
            await checkpointer.save(AgentState(), "t", "noon")
            clock.advance(3600)
            await checkpointer.save(AgentState(), "t", "one")
            clock.advance(3600)
            await checkpointer.save(AgentState(), "t", "two")
            aware = datetime(2026, 6, 1, 13, 0, tzinfo=UTC)
            for moment in (
                aware,
                aware.replace(tzinfo=None),  # naive is UTC
                aware.astimezone(timezone(timedelta(hours=-7))),
                timedelta(hours=1),
            ):
                report = await checkpointer.prune(older_than=moment, dry_run=True)
                assert report.removed == (("t", "noon"),), moment
            later = aware + timedelta(microseconds=1)
            report = await checkpointer.prune(older_than=later.replace(tzinfo=None), dry_run=True)
            assert report.removed == (("t", "noon"), ("t", "one"))
            for age in (timedelta.max, timedelta(days=400 * 365)):
                assert (await checkpointer.prune(older_than=age)).removed == ()
            assert (await checkpointer.prune(older_than=timedelta(0))).count == 2

    async def test_with_both_rules_both_must_hold(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "retention")
            states = await grow(checkpointer, "t", 4)
            clock.advance(60)
            states |= await grow(checkpointer, "t", 2, start=5)
            assert (await checkpointer.prune(keep_last=4, older_than=clock.now)).removed == (
                ("t", "c1"),
                ("t", "c2"),
            )
            assert (await checkpointer.prune(keep_last=1, older_than=clock.now)).removed == (
                ("t", "c3"),
                ("t", "c4"),
            )
            await check_thread(checkpointer, "t", only(states, "c5", "c6"))

    async def test_a_dry_run_says_what_would_go_and_removes_nothing(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "retention")
            first = await grow(checkpointer, "first", 3)
            second = await grow(checkpointer, "second", 3)
            dry = await checkpointer.prune(keep_last=1, dry_run=True)
            assert dry.dry_run is True
            assert dry.removed == (
                ("second", "c1"),
                ("second", "c2"),
                ("first", "c1"),
                ("first", "c2"),
            )
            await check_thread(checkpointer, "first", first)
            await check_thread(checkpointer, "second", second)
            real = await checkpointer.prune(keep_last=1)
            assert (real.removed, real.dry_run) == (dry.removed, False)
            await check_thread(checkpointer, "first", only(first, "c3"))

    async def test_pruned_checkpoints_are_gone_for_search(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "retention", "search")
            state = chat("mistake")
            await checkpointer.save(state, "t", "c1")
            await checkpointer.save(chat("correction"), "t", "c2")
            await checkpointer.save(chat("correction", "more"), "t", "c3")
            assert await hits(checkpointer, "mistake") == {("t", "c1")}
            await checkpointer.prune(keep_last=1)
            assert await hits(checkpointer, "mistake") == set()
            assert await hits(checkpointer, "correction") == {("t", "c3")}

    async def test_stale_threads_go_whole_when_asked(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "vacuum", "branching")
            states = await grow(checkpointer, "stale", 3)
            used = await grow(checkpointer, "used", 2)
            clock.advance(days=31)
            await checkpointer.fork("stale", "c2", "fork")
            used |= await grow(checkpointer, "used", 1, start=3)
            assert await checkpointer.vacuum(stale_threads=True) == 5
            await check_thread(checkpointer, "stale", {})
            await check_thread(checkpointer, "fork", only(states, "c1", "c2"))
            await check_thread(checkpointer, "used", only(used, "c3"))

    async def test_rules_that_make_no_sense_are_refused(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "retention", "vacuum")
            states = await grow(checkpointer, "t", 2)
            wrong: list[dict[str, Any]] = [
                {},
                {"keep_last": 0},
                {"keep_last": -1},
                {"keep_last": 1.5},
                {"keep_last": True},
                {"older_than": 30},
                {"older_than": "2026-01-01"},
            ]
            for rules in wrong:
                with pytest.raises(InvalidInput):
                    await checkpointer.prune(**rules)
            bad: list[Any] = [-1, float("nan"), float("inf"), True, "30", None]
            for days in bad:
                with pytest.raises(InvalidInput, match="older_than_days"):
                    await checkpointer.vacuum(days)
            assert await checkpointer.vacuum(1e300) == 0
            await check_thread(checkpointer, "t", states)


class ExpiryCases(CheckpointerCases):
    async def test_an_expired_thread_is_absent_for_everything(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock, ttl_seconds=60) as checkpointer:
            requires(checkpointer, "ttl")
            declared = checkpointer.capabilities
            states = await grow(checkpointer, "t", 2)
            if declared.pending_writes:
                await checkpointer.put_writes("t", "c2", "task", [("channel", 1)])
            clock.advance(59.999999)
            await check_thread(checkpointer, "t", states)
            clock.advance(0.000001)
            await check_thread(checkpointer, "t", {})
            assert await checkpointer.load("t", "c1") is None
            assert await checkpointer.delete("t", "c1") is False
            assert await checkpointer.delete("t") is False
            assert (await checkpointer.stats()).threads == 0
            if declared.list_threads:
                assert await all_threads(checkpointer) == []
            if declared.search:
                assert await hits(checkpointer, "m1") == set()
            if declared.list_with_metadata:
                assert await checkpointer.list_with_metadata() == []
            if declared.metadata_query:
                assert await checkpointer.query_by_metadata("n", 1) == []
            if declared.export:
                assert len(await export(checkpointer)) == 2  # header and end
            if declared.branching:
                assert await checkpointer.copy_thread("t", "copy") is False
            if declared.pending_writes:
                assert await checkpointer.get_writes("t", "c2") == []
                with pytest.raises(Conflict):
                    await checkpointer.put_writes("t", "c2", "task", [("channel", 2)])
            if declared.scopes:
                assert await checkpointer.admin().scopes() == []

    async def test_each_save_renews_the_threads_time(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock, ttl_seconds=60) as checkpointer:
            requires(checkpointer, "ttl")
            states: dict[str, AgentState] = {}
            for number in range(1, 4):
                states |= await grow(checkpointer, "t", 1, start=number)
                clock.advance(40)
            await check_thread(checkpointer, "t", states)

    async def test_an_expired_thread_begins_a_new_life(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock, ttl_seconds=60) as checkpointer:
            requires(checkpointer, "ttl", "compare_and_set")
            await grow(checkpointer, "t", 2)
            clock.advance(60)
            with pytest.raises(Conflict) as caught:
                await checkpointer.save(chat("late"), "t", parent="c2")
            assert (caught.value.expected, caught.value.actual) == ("c2", None)
            new = chat("new")
            await checkpointer.save(new, "t", "c1", parent=None)
            await check_thread(checkpointer, "t", {"c1": new})
            head = await checkpointer.head("t")
            assert head is not None
            assert (head.parent_id, head.sequence) == (None, 1)

    async def test_a_fork_has_its_own_time(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock, ttl_seconds=60) as checkpointer:
            requires(checkpointer, "ttl", "branching", "vacuum")
            states = await grow(checkpointer, "t", 3)
            clock.advance(30)
            await checkpointer.fork("t", "c2", "fork")
            clock.advance(30)
            await check_thread(checkpointer, "t", {})
            await check_thread(checkpointer, "fork", only(states, "c1", "c2"))
            assert await checkpointer.vacuum() == 0  # removes the expired, and does not count them
            await check_thread(checkpointer, "fork", only(states, "c1", "c2"))
            assert await checkpointer.copy_thread("fork", "t") is True
            await check_thread(checkpointer, "t", only(states, "c1", "c2"))
            clock.advance(30)
            await check_thread(checkpointer, "fork", {})
            await check_thread(checkpointer, "t", only(states, "c1", "c2"))

    async def test_an_expired_fork_protects_nothing(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock, ttl_seconds=60) as checkpointer:
            requires(checkpointer, "ttl", "branching", "retention")
            states = await grow(checkpointer, "t", 3)
            await checkpointer.fork("t", "c2", "fork")
            clock.advance(30)
            states |= await grow(checkpointer, "t", 1, start=4)
            assert (await checkpointer.prune(keep_last=1, dry_run=True)).removed == (("t", "c3"),)
            clock.advance(30)
            assert (await checkpointer.prune(keep_last=1)).count == 3
            await check_thread(checkpointer, "t", only(states, "c4"))

    async def test_a_time_to_live_is_a_number_above_zero(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "ttl")
        bad: list[Any] = [0, -1, float("nan"), float("inf"), True, "60"]
        for ttl_seconds in bad:
            with pytest.raises(InvalidInput, match="ttl_seconds"):
                open_checkpointer(ttl_seconds=ttl_seconds)
        async with open_checkpointer(ttl_seconds=1e300) as checkpointer:
            states = await grow(checkpointer, "t", 1)
            await check_thread(checkpointer, "t", states)

    async def test_a_save_without_time_to_live_keeps_the_thread(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        opener, clock = self.share(open_checkpointer), FrozenClock()
        async with opener(clock=clock, ttl_seconds=60) as mortal, opener(clock=clock) as eternal:
            requires(mortal, "ttl")
            states = await grow(mortal, "t", 1)
            states |= await grow(eternal, "t", 1, start=2)
            clock.advance(days=1)
            await check_thread(eternal, "t", states)
            await check_thread(mortal, "t", states)
