"""What export and import promise: everything comes along, and nothing damaged gets in."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.core.errors import Conflict, InvalidInput, SchemaMismatch
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.records import ImportReport
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    all_history,
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
from holdfast.testing.checkpointer_cases.saving import STRANGE_METADATA, STRANGE_TEXT, rich_state
from holdfast.testing.clock import FrozenClock


class TransferCases(CheckpointerCases):
    async def test_a_thread_comes_back_as_it_was(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "export", "list_threads")
            states = {"first": rich_state()}
            states["edited"] = with_texts(states["first"], [Message.user("x"), *states["first"].messages[1:]])
            states["grown"] = say(states["edited"], "more").with_error("e").with_confidence(0.5)
            states["cut"] = with_texts(states["grown"], states["grown"].messages[:1])
            for checkpoint_id, state in states.items():
                await checkpointer.save(state, STRANGE_TEXT, checkpoint_id, STRANGE_METADATA)
                clock.advance(1)
            if checkpointer.capabilities.pending_writes:
                await checkpointer.put_writes(STRANGE_TEXT, "first", STRANGE_TEXT, [("x", STRANGE_METADATA)])
                await checkpointer.put_writes(STRANGE_TEXT, "cut", "b", [("x", 1), ("y", True)])
                await checkpointer.put_writes(STRANGE_TEXT, "cut", "a", [("x", None)])
            before, writes = (
                await all_history(checkpointer, STRANGE_TEXT),
                await _writes(checkpointer, STRANGE_TEXT),
            )
            lines = await export(checkpointer)
            assert all(line.isascii() and "\n" not in line for line in lines)
            await checkpointer.delete(STRANGE_TEXT)
            clock.advance(1)
            assert await checkpointer.import_threads(lines) == ImportReport(1, 4)
            await check_thread(checkpointer, STRANGE_TEXT, states)
            assert repr(await all_history(checkpointer, STRANGE_TEXT)) == repr(before)
            assert await _writes(checkpointer, STRANGE_TEXT) == writes
            again = await export(checkpointer)
            assert sorted(again) == sorted(lines)

    async def test_an_imported_thread_lives_on(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "export", "list_threads")
            states = await grow(checkpointer, "t", 4)
            await checkpointer.delete("t", "c2")
            del states["c2"]
            lines = await export(checkpointer)
            await checkpointer.delete("t")
            await checkpointer.import_threads(lines)
            await check_thread(checkpointer, "t", states)
            infos = await all_history(checkpointer, "t")
            assert [(info.parent_id, info.sequence) for info in infos] == [("c3", 3), ("c2", 2), (None, 1)]
            if checkpointer.capabilities.search:
                assert await hits(checkpointer, "m2") == {("t", "c3")}
            states["c5"] = say(states["c4"], "on")
            if checkpointer.capabilities.compare_and_set:
                await checkpointer.save(states["c5"], "t", "c5", parent="c4")
            else:
                await checkpointer.save(states["c5"], "t", "c5")
            await check_thread(checkpointer, "t", states)

    async def test_forks_are_exported_whole(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "export", "list_threads", "branching")
            states = await grow(checkpointer, "t", 3)
            await checkpointer.fork("t", "c2", "fork")
            forks = await grow(checkpointer, "fork", 1, start=9)
            lines = await export(checkpointer, "f*")
            await checkpointer.delete("t")
            await checkpointer.delete("fork")
            report = await checkpointer.import_threads(lines)
            assert (report.threads, report.checkpoints) == (1, 3)
            await check_thread(checkpointer, "fork", {"c1": states["c1"], "c2": states["c2"], **forks})
            await check_thread(checkpointer, "t", {})

    async def test_many_threads_go_through_an_iterator(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "export", "list_threads", "scopes")
            source, target = checkpointer.scoped("source"), checkpointer.scoped("target")
            ids = [f"t{number}" for number in range(230)]  # more than a page
            for thread_id in ids:
                await source.save(chat(thread_id), thread_id, "c1")
            report = await target.import_threads(source.export_threads())
            assert (report.threads, report.checkpoints, report.skipped) == (230, 230, ())
            assert sorted(await all_threads(target)) == sorted(ids)
            for thread_id in ids[::50]:
                assert await target.load(thread_id) == await source.load(thread_id)

    async def test_an_existing_thread_is_conflict_or_skipped(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "export", "list_threads")
            await grow(checkpointer, "a", 2)
            await grow(checkpointer, "b", 1)
            lines = await export(checkpointer)
            await checkpointer.delete("a")
            mine = await grow(checkpointer, "b", 1, start=5)
            states = {"c1": await _state(checkpointer, "b", "c1"), **mine}
            with pytest.raises(Conflict):
                await checkpointer.import_threads(lines)
            await checkpointer.delete("a")
            report = await checkpointer.import_threads(lines, on_conflict="skip")
            assert report == ImportReport(1, 2, ("b",))
            await check_thread(checkpointer, "b", states)
            wrong: Any = "overwrite"
            with pytest.raises(InvalidInput, match="on_conflict"):
                await checkpointer.import_threads(lines, on_conflict=wrong)

    async def test_a_damaged_line_is_refused_with_its_thread(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "export", "list_threads")
            whole, lines = await _two_threads(checkpointer)
            damages = {
                "a word": (5, lines[5].replace("m1", "mX")),
                "an id": (4, lines[4].replace("damaged", "other")),
                "a byte less": (6, lines[6][:-1]),
                "no JSON": (5, "\x00garbage"),
                "other JSON": (5, "[1, 2]"),
                "a checksum": (7, lines[7].replace('"sha256":"', '"sha256":"0')),
                "a count": (7, lines[7].replace('"checkpoints":2', '"checkpoints":3')),
            }
            for name, (index, line) in damages.items():
                assert line != lines[index], name
                with pytest.raises(InvalidInput, match="line") as caught:
                    await checkpointer.import_threads([*lines[:index], line, *lines[index + 1 :]])
                assert not isinstance(caught.value, Conflict), name
                await check_thread(checkpointer, "damaged", {})
                await check_thread(checkpointer, "whole", whole)  # it came before the damage
                await checkpointer.delete("whole")

    async def test_a_cut_or_rearranged_file_is_refused(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "export", "list_threads")
            whole, lines = await _two_threads(checkpointer)
            for length in range(len(lines)):
                with pytest.raises(InvalidInput):
                    await checkpointer.import_threads(lines[:length])
                await check_thread(checkpointer, "whole", whole if length >= 4 else {})
                await checkpointer.delete("whole")
                await checkpointer.delete("damaged")
            rearranged = {
                "no header": lines[1:],
                "a record less": [*lines[:5], *lines[6:]],
                "a record twice": [*lines[:6], *lines[5:]],
                "exchanged": [*lines[:5], lines[6], lines[5], *lines[7:]],
                "a thread less": [*lines[:4], lines[-1]],
                "more after the end": [*lines, lines[1]],
                "empty thread": [lines[0], lines[1], lines[3], lines[-1]],
            }
            for name, arrangement in rearranged.items():
                with pytest.raises(InvalidInput):
                    await checkpointer.import_threads(arrangement)
                if name != "more after the end":
                    await check_thread(checkpointer, "damaged", {})
                await checkpointer.delete("whole")
                await checkpointer.delete("damaged")

    async def test_a_newer_format_is_refused_as_such(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "export")
            with pytest.raises(SchemaMismatch, match="99"):
                await checkpointer.import_threads([json.dumps({"holdfast_export": 99})])

    async def test_an_empty_export_is_one(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "export", "list_threads")
            lines = await export(checkpointer)
            assert await checkpointer.import_threads(lines) == ImportReport(0, 0)

            async def with_line_ends() -> AsyncIterator[str]:
                for line in lines:
                    yield line + "\r\n"
                yield "\n"

            assert await checkpointer.import_threads(with_line_ends()) == ImportReport(0, 0)
            with pytest.raises(InvalidInput):
                await checkpointer.import_threads([])


async def _two_threads(checkpointer: BaseCheckpointer) -> tuple[dict[str, AgentState], list[str]]:
    """The lines of two threads, then deleted: the header, 3 of "whole", 4 of "damaged", the end."""
    await grow(checkpointer, "damaged", 2)
    whole = await grow(checkpointer, "whole", 1)
    lines = await export(checkpointer)
    assert len(lines) == 9
    await checkpointer.delete("damaged")
    await checkpointer.delete("whole")
    return whole, lines


async def _state(checkpointer: BaseCheckpointer, thread_id: str, checkpoint_id: str) -> AgentState:
    state = await checkpointer.load(thread_id, checkpoint_id)
    assert state is not None
    return state


async def _writes(checkpointer: BaseCheckpointer, thread_id: str) -> list[str]:
    """All pending writes of a thread, printed: NaN does not equal itself."""
    if not checkpointer.capabilities.pending_writes:
        return []
    ids = await checkpointer.list_checkpoints(thread_id, 1000)
    return [repr(await checkpointer.get_writes(thread_id, checkpoint_id)) for checkpoint_id in ids]
