"""A process that is killed at any moment loses nothing that it acknowledged, and leaves nothing half done."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteSyncCheckpointer
from tests.reliability.children import Children, Outcome
from tests.reliability.invariants import assert_sound
from tests.reliability.jobs import MESSAGES_A_SAVE, OPERATIONS

ROUNDS_A_FILE = 15


class Writer:
    """A file that one writer after the other appends to, and what was acknowledged."""

    def __init__(self, children: Children, folder: Path) -> None:
        self._children = children
        self._folder = folder
        self._files = 0
        self.places: Counter[str] = Counter()
        self._begin_file()

    def _begin_file(self) -> None:
        self.path = self._folder / f"{self._files}.db"
        self._files += 1
        self._known: list[str] = []
        self._rounds = 0

    @property
    def kills(self) -> int:
        return self.places.total()

    @property
    def unacknowledged(self) -> int:
        """Kills between the begin of a save and its acknowledgement."""
        return self.kills - self.places["between saves"]

    def round(self, **options: Any) -> None:
        """One writer, killed; then look at what it left."""
        if self._rounds == ROUNDS_A_FILE:
            self._begin_file()
        self._rounds += 1
        outcome = self._children.run("append", path=str(self.path), **options)
        assert outcome.killed, outcome
        self.places[_place(outcome)] += 1
        self._check(outcome)

    def _check(self, outcome: Outcome) -> None:
        assert_sound(self.path)
        with SQLiteSyncCheckpointer(self.path) as twin:
            stored = [info.checkpoint_id for info in twin.history("t", 100_000)][::-1]
            must = self._known + outcome.acknowledged
            assert stored[: len(must)] == must, "an acknowledged save is missing"
            assert len(stored) <= len(must) + 1, "more than the one save that was under way"
            for index in {0, len(stored) // 2, len(stored) - 1} if stored else ():
                state = twin.load("t", stored[index])
                assert state is not None
                length = (index + 1) * MESSAGES_A_SAVE
                assert state.messages == tuple(Message.user(f"message {n}") for n in range(length))
            assert (twin.load("t") is None) == (not stored)
        self._known = stored


def _place(outcome: Outcome) -> str:
    last = outcome.lines[-1]
    if last.startswith(("ack", "ready")):
        return "between saves"
    return {"begin": "save called", "returned": "saved, not acknowledged"}.get(last, last.removeprefix("at "))


@pytest.fixture
def writer(children: Children, tmp_path: Path) -> Iterator[Writer]:
    found = Writer(children, tmp_path)
    yield found
    print(f"\n{found.kills} kills, {found.unacknowledged} between begin and acknowledgement:")
    for place, count in found.places.most_common():
        print(f"  {count:4}  {place}")


def _kill_everywhere(
    writer: Writer, dice: random.Random, *, by_statement: int, by_step: int, by_time: int
) -> None:
    for number in range(by_statement):
        points: list[int | str] = [1, 2, 3, 4, 5, 6, "returned"]
        writer.round(die_at=[dice.randint(1, 4), points[number % len(points)]], threaded=number % 3 == 0)
    for _ in range(by_step):
        writer.round(die_at=[dice.randint(1, 4), dice.randint(2, 120)], steps=4)
    for number in range(by_time):
        writer.round(kill_after=dice.uniform(0.0, 0.06), threaded=number % 2 == 0)


def test_no_acknowledged_save_is_lost_in_a_hundred_kills(writer: Writer) -> None:
    dice = random.Random()
    _kill_everywhere(writer, dice, by_statement=35, by_step=15, by_time=60)
    assert writer.kills >= 100
    assert writer.unacknowledged >= 30


@pytest.mark.long
def test_no_acknowledged_save_is_lost_in_a_thousand_kills(writer: Writer) -> None:
    _kill_everywhere(writer, random.Random(), by_statement=300, by_step=300, by_time=500)
    assert writer.kills >= 1000
    assert writer.unacknowledged >= 300


# ── other operations ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def prepared(children: Children, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prepared") / "prepared.db"
    children.must("prepare", path=str(path))
    assert_sound(path)
    return path


def _copy(source: Path, folder: Path) -> Path:
    for file in folder.glob("copy.db*"):
        file.unlink()
    return Path(shutil.copy(source, folder / "copy.db"))


def _told(path: Path) -> list[object]:
    """All that the file tells a reader: every checkpoint of both scopes, and what is found by words."""
    with SQLiteSyncCheckpointer(path) as twin:
        told: list[object] = []
        for view in (twin, twin.scoped("tenant")):
            told += view.export_threads()
            for word in ("apple", "fresh", "secret", "new"):
                told.append(
                    {
                        (hit["thread_id"], hit["checkpoint_id"], hit["snippet"])
                        for hit in view.search(word, 100)
                    }
                )
    assert_sound(path)
    return told


def _kill_in(operation: str, prepared: Path, children: Children, folder: Path, *, most: int) -> int:
    before = _told(_copy(prepared, folder))
    whole = _copy(prepared, folder)
    children.must("operate", path=str(whole), operation=operation, die_before=0)
    after = _told(whole)
    number = 0
    while True:
        number += 1
        path = _copy(prepared, folder)
        outcome = children.run("operate", path=str(path), operation=operation, die_before=number)
        assert outcome.failure is None, outcome.failure
        assert_sound(path)
        told = _told(path)
        assert told in (before, after)
        if not outcome.killed:
            assert told == after
            return number
        if number > most:
            number += number // 4  # far into a long operation: fewer points


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_killed_before_any_of_its_statements_is_done_or_not_done(
    operation: str, prepared: Path, children: Children, tmp_path: Path
) -> None:
    points = _kill_in(operation, prepared, children, tmp_path, most=16)
    print(f"\n{operation}: killed at up to {points} points")


@pytest.mark.long
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_killed_before_each_of_its_statements_is_done_or_not_done(
    operation: str, prepared: Path, children: Children, tmp_path: Path
) -> None:
    _kill_in(operation, prepared, children, tmp_path, most=10_000)


def test_a_file_whose_creation_was_killed_is_created_by_the_next(children: Children, tmp_path: Path) -> None:
    for number in range(1, 100):
        path = tmp_path / f"{number}.db"
        outcome = children.run("first_open", path=str(path), die_before=number)
        with SQLiteSyncCheckpointer(path) as twin:
            if twin.load("t") is None:
                twin.save(AgentState(), "t")
        assert_sound(path)
        if not outcome.killed:
            return
    pytest.fail("the opening never came to its end")


def test_a_write_ahead_log_that_is_cut_anywhere_leaves_whole_saves(
    children: Children, tmp_path: Path
) -> None:
    """A power cut may take the end of the log: what is left must be a prefix of the saves, each of them whole."""
    source = tmp_path / "source.db"
    outcome = children.run("append", path=str(source), die_at=[25, "returned"])
    log = Path(f"{source}-wal").read_bytes()
    dice = random.Random(20_260_301)
    lengths: list[int] = []
    for size in sorted({0, 32, len(log), *(dice.randrange(len(log)) for _ in range(25))}):
        path = tmp_path / f"{size}.db"
        shutil.copy(source, path)
        Path(f"{path}-wal").write_bytes(log[:size])
        with SQLiteSyncCheckpointer(path) as twin:
            state = twin.load("t")
            stored = twin.list_checkpoints("t", 1000)[::-1]
        assert_sound(path)
        assert stored == outcome.acknowledged[: len(stored)] or len(stored) == len(outcome.acknowledged) + 1
        assert len(stored) * MESSAGES_A_SAVE == (0 if state is None else len(state.messages))
        lengths.append(len(stored))
    assert lengths == sorted(lengths)
    assert lengths[0] == 0
    assert lengths[-1] == len(outcome.acknowledged) + 1
