"""Damaged rows and files: `Corrupt` that names the place, never a wrong answer; all else stays usable."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import Corrupt, HoldfastError
from holdfast.memory.backends.sqlite import SQLiteSyncCheckpointer
from holdfast.memory.sync import SyncCheckpointer
from tests.reliability.jobs import state_of

OF_HURT = "life = (SELECT life FROM holdfast_threads WHERE thread_id = 'hurt')"
HEAD = f"{OF_HURT} AND seq = 4"
ENTRY = f"{OF_HURT} AND seq = 4"  # three messages
OLD_ENTRY = f"{OF_HURT} AND seq = 3"  # one message, that the fourth checkpoint no longer has
NOT_UTF8 = "CAST(x'7b226120ff7d' AS TEXT)"

WELL = state_of(4, "cherry")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two threads; "hurt" had four messages, then the last three were edited."""
    place = tmp_path / "damaged.db"
    with SQLiteSyncCheckpointer(place) as twin:
        for number in (1, 2, 3):
            twin.save(state_of(number + 1, "apple"), "hurt", f"c{number}", {"number": number})
        first = state_of(1, "apple").messages
        edited = state_of(0).with_messages([*first, *(Message.user(f"quince {n}") for n in range(3))])
        twin.save(edited.with_metadata(mood="calm"), "hurt", "c4", {"number": 4})
        twin.put_writes("hurt", "c4", "task", [("channel", "value")])
        twin.save(WELL, "well", "w1", {"number": 1})
        twin.search("apple")
    return place


def _damage(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(sql).rowcount == 1, sql
    connection.close()


def _assert_the_rest_is_well(path: Path) -> None:
    with SQLiteSyncCheckpointer(path) as twin:
        assert twin.load("well") == WELL
        assert twin.get_metadata("well") == {"number": 1}
        assert {hit["thread_id"] for hit in twin.search("cherry")} == {"well"}
        assert set(twin.list_threads()) == {"hurt", "well"}
        assert len(list(twin.export_threads("well"))) == 5
        twin.save(WELL.with_message(Message.user("cherry pie")), "well", parent="w1")
        assert len(twin.search("cherry")) == 5
        assert twin.fork("well", None, "well too")


def _assert_it_can_be_deleted(path: Path) -> None:
    with SQLiteSyncCheckpointer(path) as twin:
        assert twin.delete("hurt")
        assert not twin.exists("hurt")
        twin.save(state_of(2, "apple"), "hurt")
        assert twin.load("hurt") == state_of(2, "apple")


def _load(twin: SyncCheckpointer) -> Any:
    return twin.load("hurt")


def _load_old(twin: SyncCheckpointer) -> Any:
    return twin.load("hurt", "c3")


def _history(twin: SyncCheckpointer) -> Any:
    return twin.history("hurt")


def _export(twin: SyncCheckpointer) -> Any:
    return list(twin.export_threads("hurt"))


def _writes(twin: SyncCheckpointer) -> Any:
    return twin.get_writes("hurt")


ROWS: dict[str, tuple[str, list[Callable[[SyncCheckpointer], Any]]]] = {
    "an entry is cut": (
        f"UPDATE holdfast_entries SET body = SUBSTR(body, 1, 12) WHERE {ENTRY}",
        [_load, _export],
    ),
    "an entry is another message": (
        f"UPDATE holdfast_entries SET body = REPLACE(body, 'quince', 'medlar') WHERE {ENTRY}",
        [_load, _export],
    ),
    "an entry is not UTF-8": (
        f"UPDATE holdfast_entries SET body = {NOT_UTF8} WHERE {ENTRY}",
        [_load, _export],
    ),
    "an entry is bytes": (f"UPDATE holdfast_entries SET body = x'00ff' WHERE {ENTRY}", [_load, _export]),
    "an entry has lost a line": (
        f"UPDATE holdfast_entries SET body = SUBSTR(body, 1, INSTR(body, CHAR(10)) - 1) WHERE {ENTRY}",
        [_load, _export],
    ),
    "an entry has another size": (f"UPDATE holdfast_entries SET size = 2 WHERE {ENTRY}", [_load, _export]),
    "an entry has another place": (
        f"UPDATE holdfast_entries SET pos = pos + 1 WHERE {ENTRY}",
        [_load, _export],
    ),
    "an entry has another seal": (
        f"UPDATE holdfast_entries SET seal = seal + 1 WHERE {ENTRY}",
        [_load, _export],
    ),
    "an entry is missing": (f"DELETE FROM holdfast_entries WHERE {ENTRY}", [_load, _export]),
    "an old entry is another message": (
        f"UPDATE holdfast_entries SET body = REPLACE(body, 'apple', 'medlar') WHERE {OLD_ENTRY}",
        [_load_old, _export],
    ),
    "an old entry is cut": (
        f"UPDATE holdfast_entries SET body = SUBSTR(body, 1, 12) WHERE {OLD_ENTRY}",
        [_load_old, _export],
    ),
    "an old entry is missing": (f"DELETE FROM holdfast_entries WHERE {OLD_ENTRY}", [_load_old, _export]),
    "the head is cut": (
        f"UPDATE holdfast_checkpoints SET head = SUBSTR(head, 1, 20) WHERE {HEAD}",
        [_load, _export],
    ),
    "the head is not UTF-8": (
        f"UPDATE holdfast_checkpoints SET head = {NOT_UTF8} WHERE {HEAD}",
        [_load, _export],
    ),
    "the head is bytes": (f"UPDATE holdfast_checkpoints SET head = x'00ff' WHERE {HEAD}", [_load, _export]),
    "the head is a list": (f"UPDATE holdfast_checkpoints SET head = '[]' WHERE {HEAD}", [_load, _export]),
    "the head is another one": (
        f"UPDATE holdfast_checkpoints SET head = REPLACE(head, 'calm', 'glum') WHERE {HEAD}",
        [_load, _export],
    ),
    "the paths are cut": (
        f"UPDATE holdfast_checkpoints SET lists = SUBSTR(lists, 1, 20) WHERE {HEAD}",
        [_load, _export],
    ),
    "the paths are not UTF-8": (
        f"UPDATE holdfast_checkpoints SET lists = {NOT_UTF8} WHERE {HEAD}",
        [_load, _export],
    ),
    "the paths are gone": (f"UPDATE holdfast_checkpoints SET lists = '{{}}' WHERE {HEAD}", [_load, _export]),
    "the paths are a number": (f"UPDATE holdfast_checkpoints SET lists = 7 WHERE {HEAD}", [_load, _export]),
    "a path has no logs": (
        f"""UPDATE holdfast_checkpoints SET lists = '{{"messages":[[]]}}' WHERE {HEAD}""",
        [_load, _export],
    ),
    "a path is half": (
        f"""UPDATE holdfast_checkpoints SET lists = '{{"messages":[["ab"]]}}' WHERE {HEAD}""",
        [_load, _export],
    ),
    "a path is endless": (
        f"""UPDATE holdfast_checkpoints SET lists = '{{"messages":[[1,{10**30}]]}}' WHERE {HEAD}""",
        [_load, _export],
    ),
    "a path is not a list's name": (
        f"UPDATE holdfast_checkpoints SET lists = REPLACE(lists, 'messages', 'massages') WHERE {HEAD}",
        [_load, _export],
    ),
    "the metadata is cut": (
        f"UPDATE holdfast_checkpoints SET metadata = SUBSTR(metadata, 1, 4) WHERE {HEAD}",
        [_load, _history, _export],
    ),
    "the metadata is not UTF-8": (
        f"UPDATE holdfast_checkpoints SET metadata = {NOT_UTF8} WHERE {HEAD}",
        [_load, _history, _export],
    ),
    "the metadata is a list": (
        f"UPDATE holdfast_checkpoints SET metadata = '[]' WHERE {HEAD}",
        [_load, _history, _export],
    ),
    "the metadata is another one": (
        f"UPDATE holdfast_checkpoints SET metadata = REPLACE(metadata, '4', '5') WHERE {HEAD}",
        [_load, _export],
    ),
    "the id is not UTF-8": (
        f"UPDATE holdfast_checkpoints SET checkpoint_id = {NOT_UTF8} WHERE {HEAD}",
        [_load, _history, _export],
    ),
    "the time is text": (
        f"UPDATE holdfast_checkpoints SET created_at = 'noon' WHERE {HEAD}",
        [_load, _history, _export],
    ),
    "the newest checkpoint is missing": (f"DELETE FROM holdfast_checkpoints WHERE {HEAD}", [_load]),
    "the thread's head is beyond the end": (
        "UPDATE holdfast_threads SET head_seq = 9 WHERE thread_id = 'hurt'",
        [_load],
    ),
    "the lineage is cut": (
        "UPDATE holdfast_threads SET lineage = '[[' WHERE thread_id = 'hurt'",
        [_load, _history, _export],
    ),
    "the lineage is a number": (
        "UPDATE holdfast_threads SET lineage = '5' WHERE thread_id = 'hurt'",
        [_load, _history, _export],
    ),
    "a pending write is cut": ("UPDATE holdfast_writes SET value = '\"val'", [_writes, _export]),
}


@pytest.mark.parametrize("damage", ROWS)
def test_a_damaged_row_is_reported_with_its_place_and_the_rest_stays_usable(damage: str, path: Path) -> None:
    sql, calls = ROWS[damage]
    _damage(path, sql)
    with SQLiteSyncCheckpointer(path) as twin:
        for call in calls:
            with pytest.raises(Corrupt) as caught:
                call(twin)
            assert caught.value.place
            assert "hurt" in str(caught.value) or "life" in str(caught.value) or "task" in str(caught.value)
    _assert_the_rest_is_well(path)
    if "lineage" not in damage:  # without it nobody knows what else reads the thread
        _assert_it_can_be_deleted(path)


def test_what_an_old_entry_lost_does_not_touch_the_checkpoints_without_it(path: Path) -> None:
    _damage(path, f"DELETE FROM holdfast_entries WHERE {OLD_ENTRY}")
    with SQLiteSyncCheckpointer(path) as twin:
        head = twin.load("hurt")
        assert head is not None
        assert [message.content for message in head.messages] == [
            "apple 0",
            "quince 0",
            "quince 1",
            "quince 2",
        ]
        assert twin.load("hurt", "c2") == state_of(3, "apple")


def test_nothing_is_saved_on_top_of_a_damaged_head_by_who_does_not_know_it(path: Path) -> None:
    _damage(path, f"UPDATE holdfast_entries SET body = REPLACE(body, 'quince', 'medlar') WHERE {ENTRY}")
    with SQLiteSyncCheckpointer(path) as twin:
        with pytest.raises(Corrupt):
            twin.save(state_of(9, "apple"), "hurt")
        assert twin.delete("hurt", "c4")
        assert twin.load("hurt") == state_of(4, "apple")
        twin.save(state_of(9, "apple"), "hurt")
        assert twin.load("hurt") == state_of(9, "apple")


def test_a_found_message_that_is_damaged_does_not_spoil_the_search(path: Path) -> None:
    _damage(path, f"UPDATE holdfast_entries SET body = SUBSTR(body, 1, 12) WHERE {ENTRY}")
    with SQLiteSyncCheckpointer(path) as twin:
        twin.save(state_of(1, "quince"), "other")
        assert "other" in {hit["thread_id"] for hit in twin.search("quince")}
        assert all("quince" in hit["snippet"] for hit in twin.search("quince"))


def test_a_checkpoint_with_a_damaged_path_does_not_spoil_the_search(path: Path) -> None:
    _damage(path, f"UPDATE holdfast_checkpoints SET lists = '{{' WHERE {HEAD}")
    with SQLiteSyncCheckpointer(path) as twin:
        twin.save(state_of(1, "quince"), "other")
        assert "other" in {hit["thread_id"] for hit in twin.search("quince")}


def test_an_entry_that_is_damaged_before_it_is_indexed_does_not_stop_the_index(path: Path) -> None:
    with SQLiteSyncCheckpointer(path) as twin:
        twin.save(state_of(2, "fig"), "hurt", "c5")
    _damage(path, f"UPDATE holdfast_entries SET body = {NOT_UTF8} WHERE {ENTRY}")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM holdfast_meta WHERE name LIKE 'text:%'")
    connection.close()
    _assert_the_rest_is_well(path)


@pytest.mark.parametrize("name", ["text:watermark", "text:analyser"])
def test_a_garbled_watermark_of_the_text_index_builds_it_anew(name: str, path: Path) -> None:
    _damage(path, f"UPDATE holdfast_meta SET value = 'garbled' WHERE name = '{name}'")
    _assert_the_rest_is_well(path)


def test_a_garbled_schema_version_is_reported(path: Path) -> None:
    _damage(path, "UPDATE holdfast_meta SET value = 'garbled' WHERE name = 'schema:checkpoints'")
    with SQLiteSyncCheckpointer(path) as twin, pytest.raises(Corrupt, match="schema:checkpoints"):
        twin.load("well")


# ── the file itself ───────────────────────────────────────────────────────────────────────────────


def _use(path: Path) -> None:
    with SQLiteSyncCheckpointer(path) as twin:
        twin.load("well")
        list(twin.export_threads())
        twin.save(AgentState(), "well")


def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"Dear diary, today I was not a database.\n" * 100)
    before = path.read_bytes()
    with pytest.raises(Corrupt, match=r"notes\.txt") as caught:
        _use(path)
    assert caught.value.place == str(path)
    assert path.read_bytes() == before


def test_an_overwritten_header_is_reported(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(b"\x00" * 100 + data[100:])
    with pytest.raises(Corrupt, match=r"damaged\.db"):
        _use(path)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_a_file_that_was_cut_is_reported(part: float, path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(HoldfastError) as caught:
        _use(path)
    assert isinstance(caught.value, Corrupt)
    assert "damaged.db" in str(caught.value)


def test_a_page_of_noise_is_never_a_wrong_answer(path: Path) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[16:18])  # of a page, as the file's header says
    with SQLiteSyncCheckpointer(path) as twin:
        hurt = [twin.load("hurt", f"c{number}") for number in (1, 2, 3, 4)]
    for page in range(1, len(data) // size):
        noise = bytes((byte * 167 + page) % 256 for byte in range(size))
        path.write_bytes(data[: page * size] + noise + data[(page + 1) * size :])
        with SQLiteSyncCheckpointer(path) as twin:
            for number, state in enumerate(hurt, 1):
                with contextlib.suppress(Corrupt):
                    assert twin.load("hurt", f"c{number}") == state, page


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with SQLiteSyncCheckpointer(path) as twin:
        assert twin.load("t") is None
        twin.save(WELL, "t")
        assert twin.load("t") == WELL
