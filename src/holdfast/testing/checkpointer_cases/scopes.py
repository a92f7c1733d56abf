"""What scopes promise: the same ids in two scopes are two things, and no call reaches across."""

from typing import Any

import pytest

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    all_threads,
    chat,
    check_thread,
    export,
    grow,
    hits,
    ids_of,
    requires,
)
from holdfast.testing.clock import FrozenClock
from holdfast.testing.running import bounded

LIKE_SCOPES = [
    "a",
    "A",
    "a/b",
    "a%",
    "a_",
    "a*",
    "ab",
    "a\x00",
    "\ud800",
    "🦀",
    "default",
    "None",
    "null",
    " a",
    "é",
    "e\u0301",
]


class ScopesCases(CheckpointerCases):
    async def test_one_id_in_many_scopes_is_many_threads(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes")
            views = [checkpointer, *[checkpointer.scoped(scope) for scope in LIKE_SCOPES]]
            states = [chat(repr(view.scope)) for view in views]
            for view, state in zip(views, states, strict=True):
                await check_thread(view, "t", {})
                await view.save(state, "t", "c1")
            for view, state in zip(views, states, strict=True):
                await check_thread(view, "t", {"c1": state})
            assert await views[1].delete("t") is True
            await check_thread(views[1], "t", {})
            for view, state in list(zip(views, states, strict=True))[2:]:
                await check_thread(view, "t", {"c1": state})
            assert [view.scope for view in views] == [None, *LIKE_SCOPES]

    async def test_scope_and_id_are_never_joined(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes")
            for joint in ("/", ":", "::", "|", ".", ",", "\x00", "\x1f", "%", "_", "-", " "):
                places = [
                    (checkpointer.scoped(f"a{joint}b"), "c"),
                    (checkpointer.scoped("a"), f"b{joint}c"),
                    (checkpointer, f"a{joint}b{joint}c"),
                ]
                states = [chat(str(number)) for number in range(3)]
                for (view, thread_id), state in zip(places, states, strict=True):
                    await view.save(state, thread_id, "c1")
                for (view, thread_id), state in zip(places, states, strict=True):
                    await check_thread(view, thread_id, {"c1": state})

    async def test_reading_never_reaches_across(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes")
            for mine, yours in _pairs(checkpointer):
                await yours.save(chat("secret words"), "theirs", "c1", {"key": 1})
                assert await mine.load("theirs") is None
                assert await mine.get("theirs", "c1") is None
                assert await mine.head("theirs") is None
                assert await mine.exists("theirs") is False
                assert await mine.history("theirs") == []
                assert await mine.list_checkpoints("theirs") == []
                assert await mine.diff("theirs", "c1") is None
                assert (await mine.stats()).threads == 0
                declared = checkpointer.capabilities
                if declared.pending_writes:
                    await yours.put_writes("theirs", "c1", "task", [("x", 1)])
                    assert await mine.get_writes("theirs", "c1") == []
                    assert (await mine.stats()).pending_writes == 0
                if declared.metadata_query:
                    assert await mine.get_metadata("theirs") is None
                    assert await mine.query_by_metadata("key", 1) == []
                if declared.list_with_metadata:
                    assert await mine.list_with_metadata() == []
                if declared.list_threads:
                    assert await mine.list_threads() == []
                if declared.search:
                    assert await mine.search("secret") == []
                if declared.export:
                    assert len(await export(mine)) == 2
                assert await yours.delete("theirs") is True

    async def test_writing_never_reaches_across(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "scopes")
            declared = checkpointer.capabilities
            for mine, yours in _pairs(checkpointer):
                states = await grow(yours, "theirs", 3)
                clock.advance(days=100)
                assert await mine.delete("theirs") is False
                assert await mine.delete("theirs", "c1") is False
                if declared.pending_writes:
                    with pytest.raises(Conflict):
                        await mine.put_writes("theirs", "c3", "task", [("x", 1)])
                if declared.vacuum:
                    assert await mine.vacuum(stale_threads=True) == 0
                if declared.retention:
                    assert (await mine.prune(keep_last=1)).count == 0
                if declared.branching:
                    assert await mine.copy_thread("theirs", "mine") is False
                    with pytest.raises(InvalidInput):
                        await mine.fork("theirs", None, "mine")
                if declared.compare_and_set:
                    with pytest.raises(Conflict):
                        await mine.save(chat("x"), "theirs", parent="c3")
                await check_thread(yours, "theirs", states)
                assert await yours.delete("theirs") is True

    async def test_limits_count_within_the_scope(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes", "search", "list_threads", "list_with_metadata", "metadata_query")
            mine, yours = checkpointer.scoped("mine"), checkpointer.scoped("yours")
            await mine.save(
                chat("apple and many other words that make it a worse hit"), "t1", "c1", {"key": 1}
            )
            await mine.save(chat("nothing"), "t2", "c1", {"key": 2})
            for number in range(30):
                await yours.save(chat("apple"), f"t{number}", "c1", {"key": 1})
                await checkpointer.save(chat("apple"), f"t{number}", "c1", {"key": 1})
            assert [hit["thread_id"] for hit in await mine.search("apple", 1)] == ["t1"]
            assert await mine.list_threads(1) == ["t2"]
            assert await mine.list_threads(2) == ["t2", "t1"]
            assert ids_of(await mine.list_with_metadata(2)) == [("t2", "c1"), ("t1", "c1")]
            assert ids_of(await mine.query_by_metadata("key", 1, 1)) == [("t1", "c1")]

    async def test_a_fork_stays_in_its_scope(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes", "branching")
            mine, yours = checkpointer.scoped("mine"), checkpointer.scoped("yours")
            states = await grow(mine, "t", 2)
            theirs = await grow(yours, "fork", 1, start=9)
            await mine.fork("t", "c1", "fork")
            await check_thread(yours, "fork", theirs)
            await check_thread(mine, "fork", {"c1": states["c1"]})
            await check_thread(checkpointer, "fork", {})

    async def test_a_view_of_a_view_is_a_view_of_the_whole(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes")
            states = await grow(checkpointer.scoped("a"), "t", 1)
            await check_thread(checkpointer.scoped("b").scoped("a"), "t", states)
            await check_thread(checkpointer.scoped("a").scoped("b"), "t", {})

    async def test_a_scope_is_a_proper_id(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes")
            bad: list[Any] = ["", " ", "\n", "x" * 256, None, 1, b"a"]
            for scope in bad:
                with pytest.raises(InvalidInput, match="scope"):
                    checkpointer.scoped(scope)
                with pytest.raises(InvalidInput, match="scope"):
                    await checkpointer.delete_scope(scope)
            assert checkpointer.scoped("x" * 255).scope == "x" * 255

    async def test_a_deleted_scope_is_gone_and_no_other(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes")
            views = {scope: checkpointer.scoped(scope) for scope in ("a", "a%", "A", "ab")}
            states = {scope: await grow(view, "t", 2) for scope, view in views.items()}
            default = await grow(checkpointer, "t", 2)
            await grow(views["a"], "u", 1)
            if checkpointer.capabilities.pending_writes:
                await views["a"].put_writes("t", "c2", "task", [("x", 1)])
            assert await checkpointer.delete_scope("a%") == 1
            assert await checkpointer.delete_scope("a") == 2
            assert await checkpointer.delete_scope("a") == 0
            await check_thread(views["a"], "t", {})
            await check_thread(views["A"], "t", states["A"])
            await check_thread(views["ab"], "t", states["ab"])
            await check_thread(checkpointer, "t", default)
            stats = await views["a"].stats()
            assert (stats.threads, stats.checkpoints, stats.entries, stats.pending_writes) == (0, 0, 0, 0)
            if checkpointer.capabilities.search:
                assert await hits(views["a"], "m1") == set()
            new = await grow(views["a"], "t", 1, start=5)
            await check_thread(views["a"], "t", new)

    # ── operators ─────────────────────────────────────────────────────────────────────────────────

    async def test_operators_see_every_scope(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes", "list_threads")
            admin = checkpointer.admin()
            assert await admin.scopes() == []
            for scope in ("b", "a"):
                view = checkpointer.scoped(scope)
                for thread_id in ("x1", "x2", "y"):
                    await grow(view, thread_id, 1)
            await grow(checkpointer, "x0", 2)
            assert await admin.scopes() == [None, "a", "b"]
            everything = [(None, "x0"), *[(scope, t) for scope in ("a", "b") for t in ("y", "x2", "x1")]]
            assert await admin.list_threads() == everything
            assert await admin.list_threads(pattern="y") == [("a", "y"), ("b", "y")]
            for size in range(1, 9):
                seen: list[tuple[str | None, str]] = []
                after: str | None = None
                for _ in bounded():
                    page = await admin.list_threads(size, after=after)
                    seen += page
                    after = page.next
                    if after is None:
                        break
                assert seen == everything
            counts = {scope: (s.threads, s.checkpoints) for scope, s in (await admin.stats()).items()}
            assert counts == {None: (1, 2), "a": (3, 3), "b": (3, 3)}
            assert await admin.delete_scope("b") == 3
            assert await admin.scopes() == [None, "a"]
            assert await all_threads(checkpointer) == ["x0"]
            await checkpointer.delete("x0")
            assert await admin.scopes() == ["a"]


def _pairs(checkpointer: BaseCheckpointer) -> list[tuple[BaseCheckpointer, BaseCheckpointer]]:
    """Who looks, and whose threads there are: each scope against the default one and against another."""
    a, b = checkpointer.scoped("a"), checkpointer.scoped("b")
    return [(a, b), (checkpointer, a), (a, checkpointer)]
