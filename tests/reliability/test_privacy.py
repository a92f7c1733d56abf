"""What a deleted scope had is in no byte of the files any more: not in rows, not in the index, not in the log."""

import asyncio
import random
from pathlib import Path

import pytest

from holdfast.core.messages import Message, ToolCall
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.memory.sync import SyncCheckpointer

# Words without a common beginning: an index may leave out what a word shares with the one before it.
SECRETS = {
    "content": "zyzzyvakrk",
    "argument": "kwyjibobrk",
    "state's metadata": "xochipilk",
    "checkpoint's metadata": "qanatvizhk",
    "pending write": "vrtkolobk",
    "thread": "jbrzqwkol",
    "error": "fnordplugk",
}


def _left(path: Path) -> dict[str, int]:
    """Secrets that are still in a file of the folder. Stems are shorter than the words that they stand for."""
    data = b"".join(file.read_bytes() for file in path.parent.iterdir())
    return {
        what: data.count(word[:-1].encode()) for what, word in SECRETS.items() if word[:-1].encode() in data
    }


def _words(dice: random.Random) -> str:
    return " ".join(f"w{dice.randrange(3000)}" for _ in range(40))


def _secret_state(dice: random.Random) -> AgentState:
    call = ToolCall(name="look", arguments={"where": SECRETS["argument"]})
    messages = [Message.user(f"{_words(dice)} {SECRETS['content']}") for _ in range(10)]
    state = AgentState().with_messages([*messages, Message.assistant("calling", [call])])
    return state.with_metadata(secret=SECRETS["state's metadata"]).with_error(SECRETS["error"])


def _fill(twin: SyncCheckpointer) -> None:
    """Secrets and other things, in turns: some in the index, some not yet, some shared by forks, some edited away."""
    dice = random.Random(5)
    tenant = twin.scoped("tenant")
    for number in range(8):
        twin.save(
            AgentState().with_messages(Message.user(_words(dice)) for _ in range(10)), f"other {number}"
        )
        thread = f"{SECRETS['thread']} {number}"
        head = tenant.save(_secret_state(dice), thread, metadata={"secret": SECRETS["checkpoint's metadata"]})
        tenant.put_writes(thread, head, "task", [("channel", SECRETS["pending write"])])
        tenant.copy_thread(thread, f"{thread} copy")
        tenant.save(_secret_state(dice), f"{thread} copy")
        if number < 6:
            twin.search("w1")
        if number % 3 == 0:
            tenant.delete(f"{thread} copy")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "private.db"
    with SQLiteSyncCheckpointer(place) as twin:
        _fill(twin)
    return place


def test_no_byte_of_a_deleted_scope_is_left_in_the_files(path: Path) -> None:
    with SQLiteSyncCheckpointer(path) as twin:
        twin.scoped("tenant").save(_secret_state(random.Random(7)), SECRETS["thread"])
        assert _left(path).keys() == SECRETS.keys()
        assert twin.delete_scope("tenant") > 0
        assert _left(path) == {}
        assert len(twin.list_threads()) == 8
        assert twin.search("w1 w2 w3")
    assert _left(path) == {}


def test_the_asynchronous_object_leaves_no_byte_either_while_it_has_readers(path: Path) -> None:
    async def scenario() -> None:
        async with SQLiteCheckpointer(path) as checkpointer:
            await asyncio.gather(*(checkpointer.load(f"other {number}") for number in range(8)))
            await checkpointer.delete_scope("tenant")
            assert _left(path) == {}
            assert len(await checkpointer.list_threads()) == 8

    asyncio.run(scenario())


def test_nothing_of_a_scope_is_deleted_with_another(path: Path) -> None:
    with SQLiteSyncCheckpointer(path) as twin:
        twin.delete_scope("nobody")
        assert _left(path).keys() == SECRETS.keys()
        assert twin.scoped("tenant").search(SECRETS["content"])
