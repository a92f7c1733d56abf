"""What ids promise: any string with a visible character, up to 255 characters, is itself and nothing else."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.core.state import AgentState
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    all_threads,
    chat,
    check_thread,
    grow,
    requires,
)

NASTY_IDS = [
    "user/1",
    "user:1",
    "user1",
    "user10",
    "User1",
    "USER1",
    "user%1",
    "user_1",
    "user*",
    "user?",
    "user[1]",
    "user\\1",
    "user\\\\1",
    "user 1",
    "user1 ",
    " user1",
    "user1\n",
    "user\n1",
    "user\r\n1",
    "user\t1",
    "user\x001",
    "user\x00",
    "\x00",
    "\x01",
    "\ud800",
    "\udc00\ud800",
    "\ue000",
    "\uffff",
    "🦀",
    "👩‍👩‍👧",
    "é",
    "e\u0301",
    "İ",
    "ß",
    "ss",
    "..",
    ".",
    "../user1",
    "/",
    "//",
    "~",
    "'",
    '"',
    "`",
    "''",
    "a'b",
    'a"b',
    "'; DROP TABLE threads; --",
    "%",
    "_",
    "*",
    "?",
    "[",
    "]",
    "[!a]",
    "{}",
    "${x}",
    "%s",
    "%(x)s",
    "?1",
    ":1",
    "$1",
    "null",
    "None",
    "NULL",
    "0",
    "00",
    "1",
    "1.0",
    "-1",
    "true",
    "$hf",
    "con",
    "\u200b",
    "\u202e",
    "a" * 255,
    "a" * 254,
    "A" * 255,
    "🦀" * 255,
    "\x00" * 255,
    "\ud800" * 255,
]


class IdsCases(CheckpointerCases):
    async def test_every_thread_id_is_itself(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            states = {thread_id: chat(repr(thread_id)) for thread_id in NASTY_IDS}
            for thread_id, state in states.items():
                await checkpointer.save(state, thread_id, "c1", {"id": thread_id})
            for thread_id, state in states.items():
                await check_thread(checkpointer, thread_id, {"c1": state})
                head = await checkpointer.head(thread_id)
                assert head is not None
                assert (head.thread_id, head.metadata) == (thread_id, {"id": thread_id})
            if checkpointer.capabilities.list_threads:
                assert await all_threads(checkpointer) == NASTY_IDS[::-1]
                for thread_id in NASTY_IDS:
                    assert await all_threads(checkpointer, _literally(thread_id)) == [thread_id]
            for thread_id in NASTY_IDS[::2]:
                assert await checkpointer.delete(thread_id) is True
            for number, (thread_id, state) in enumerate(states.items()):
                await check_thread(checkpointer, thread_id, {"c1": state} if number % 2 else {})

    async def test_every_checkpoint_id_is_itself(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            state = AgentState()
            states: dict[str, AgentState] = {}
            for checkpoint_id in NASTY_IDS:
                states[checkpoint_id] = state = state.with_iteration()
                assert await checkpointer.save(state, "t", checkpoint_id) == checkpoint_id
            await check_thread(checkpointer, "t", states)
            for checkpoint_id in NASTY_IDS[::2]:
                assert await checkpointer.delete("t", checkpoint_id) is True
                del states[checkpoint_id]
            await check_thread(checkpointer, "t", states)

    async def test_thread_and_checkpoint_are_never_joined(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            for joint in ("/", ":", "::", "|", ".", ",", "\x00", "\x1f", "%", "_", "-", " "):
                one, two = chat("one"), chat("two")
                await checkpointer.save(one, f"a{joint}b", "c")
                await checkpointer.save(two, "a", f"b{joint}c")
                await check_thread(checkpointer, f"a{joint}b", {"c": one})
                await check_thread(checkpointer, "a", {f"b{joint}c": two})
                assert await checkpointer.delete("a") is True
                await check_thread(checkpointer, f"a{joint}b", {"c": one})

    async def test_every_id_can_be_a_parent_a_fork_and_a_task(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set", "branching", "pending_writes", "search")
            for name in NASTY_IDS:
                await checkpointer.save(chat("needle"), "t", name, parent=None)
                await checkpointer.put_writes("t", name, name, [(name, name)])
                [write] = await checkpointer.get_writes("t", name, name)
                assert (write.task_id, write.channel, write.value) == (name, name, name)
                assert await checkpointer.fork("t", name, name) == name
                [hit] = [hit for hit in await checkpointer.search("needle") if hit["thread_id"] == name]
                assert hit["checkpoint_id"] == name
                await checkpointer.save(chat("more"), name, "next", parent=name)
                assert await checkpointer.get_writes(name, name) == []
                assert await checkpointer.list_checkpoints(name) == ["next", name]
                await checkpointer.delete("t")
                await checkpointer.delete(name)
            assert (await checkpointer.stats()).threads == 0

    async def test_tasks_are_in_the_order_of_their_code_points(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes")
            await grow(checkpointer, "t", 1)
            for task_id in NASTY_IDS:
                await checkpointer.put_writes("t", "c1", task_id, [("x", 1)])
            found = [write.task_id for write in await checkpointer.get_writes("t")]
            assert found == sorted(NASTY_IDS)

    async def test_what_is_no_id_is_refused_everywhere(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            states = await grow(checkpointer, "t", 1)
            empty: list[Any] = ["", " ", "\n\t\r", "\u3000", "a" * 256, "🦀" * 256, 1, 1.5, True, b"t", ["t"]]
            for field, call in _calls(checkpointer):
                for bad in empty:
                    with pytest.raises(InvalidInput, match=field):
                        await call(bad)
            for field, call in _calls(checkpointer):
                if field != "checkpoint_id":  # None is the head, or a new id
                    with pytest.raises(InvalidInput, match=field):
                        await call(None)
            await check_thread(checkpointer, "t", states)
            assert (await checkpointer.stats()).threads == 1

    async def test_an_error_about_an_id_says_what_to_do(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            not_text: Any = 42
            with pytest.raises(InvalidInput, match=r"thread_id.*int.*str\(thread_id\)"):
                await checkpointer.load(not_text)
            with pytest.raises(ValueError, match=r"thread_id.*255.*256"):
                await checkpointer.load("a" * 256)


def _literally(text: str) -> str:
    """A pattern that matches only this text."""
    return "".join("\\" + character if character in "*?\\" else character for character in text)


def _calls(checkpointer: BaseCheckpointer) -> list[tuple[str, Callable[[Any], Awaitable[Any]]]]:
    """Every way to pass an id, with the name that the error must tell."""
    declared = checkpointer.capabilities
    state = AgentState()
    calls: list[tuple[str, Callable[[Any], Awaitable[Any]]]] = [
        ("thread_id", lambda bad: checkpointer.save(state, bad)),
        ("checkpoint_id", lambda bad: checkpointer.save(state, "t", bad)),
        ("thread_id", checkpointer.load),
        ("checkpoint_id", lambda bad: checkpointer.load("t", bad)),
        ("thread_id", checkpointer.get),
        ("thread_id", checkpointer.head),
        ("thread_id", checkpointer.exists),
        ("checkpoint_id", lambda bad: checkpointer.exists("t", bad)),
        ("thread_id", checkpointer.list_checkpoints),
        ("thread_id", checkpointer.history),
        ("thread_id", checkpointer.delete),
        ("before", lambda bad: checkpointer.diff("t", bad)),
    ]
    if declared.compare_and_set:
        calls.append(("thread_id", lambda bad: checkpointer.save(state, bad, parent=None)))
    if declared.pending_writes:
        calls += [
            ("thread_id", lambda bad: checkpointer.put_writes(bad, "c1", "task", [])),
            ("task_id", lambda bad: checkpointer.put_writes("t", "c1", bad, [])),
            ("channel", lambda bad: checkpointer.put_writes("t", "c1", "task", [(bad, 1)])),
            ("thread_id", checkpointer.get_writes),
        ]
    if declared.branching:
        calls += [
            ("thread_id", lambda bad: checkpointer.fork(bad, None, "new")),
            ("new_thread_id", lambda bad: checkpointer.fork("t", None, bad)),
            ("source_thread_id", lambda bad: checkpointer.copy_thread(bad, "new")),
            ("dest_thread_id", lambda bad: checkpointer.copy_thread("t", bad)),
        ]
    if declared.metadata_query:
        calls.append(("thread_id", checkpointer.get_metadata))
    return calls
