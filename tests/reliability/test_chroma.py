"""A Chroma directory that is killed, shared, forked, damaged; and what is left in it of what was deleted."""

import asyncio
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("chromadb", reason="needs chromadb")

import chromadb
from chromadb.api.client import Client
from chromadb.config import Settings

from holdfast.errors import (
    Conflict,
    Corrupt,
    InvalidInput,
    MissingExtra,
    SchemaMismatch,
    Unavailable,
    Unsupported,
)
from holdfast.memory import AgentMemory, Episode, Fact
from holdfast.memory.backends import chroma_client
from holdfast.memory.backends.chroma_client import ChromaCollection
from holdfast.memory.store_backends import ChromaStore
from tests.memory.chroma_folder import chroma_folder
from tests.reliability import chroma_jobs
from tests.reliability.chroma_jobs import NS

pytestmark = pytest.mark.requires("chromadb")


VECTOR: Sequence[float] = [1.0, 2.0]


def local_client(folder: Path | None, **settings: Any) -> Client:
    chosen = Settings(anonymized_telemetry=False, **settings)
    made = chromadb.EphemeralClient(chosen) if folder is None else chromadb.PersistentClient(folder, chosen)
    return cast(Client, made)


@pytest.fixture
def folder() -> Iterator[Path]:
    with chroma_folder() as path:
        yield path


# ── killed ────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_killed_process_acknowledged_is_there_and_a_batch_is_there_or_not(folder: Path) -> None:
    async def look(acknowledged: list[str]) -> None:
        async with ChromaStore(folder, dimension=2) as store:
            keys = await store.list_keys(NS, 100_000)
            singles = [name for name in acknowledged if name.startswith("one")]
            assert set(singles) <= set(keys)
            assert len(await store.search_by_embedding(NS, [1.0, 1.0], 100_000)) == len(keys)
            for namespace in await store.list_namespaces((*NS,), 1000):
                if namespace != NS:
                    assert len(await store.list_keys(namespace, 1000)) == 40
            batches = [(*NS, name.split()[1]) for name in acknowledged if name.startswith("batch")]
            assert set(batches) <= set(await store.list_namespaces(NS, 1000))
            version = await store.put(("version",), "v", 1)
            newest = await store.search(NS, limit=1, prefix=True)
            assert all(version > item.version for item in newest)

    acknowledged: list[str] = []
    for round_ in range(4):
        process, pipe = chroma_jobs.start("put_for_ever", str(folder), round_ * 1000)
        acknowledged += [pipe.recv() for _ in range(6 + round_)]
        process.kill()
        process.join()
        try:
            while True:
                acknowledged.append(pipe.recv())  # what it said before it died
        except (EOFError, OSError):
            pipe.close()
        asyncio.run(look(acknowledged))


def test_killed_between_marking_and_removing_a_deleted_item_is_gone_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    async def scenario() -> None:
        async with ChromaStore(folder) as store, ChromaStore(folder) as other:
            for key in "abc":
                await store.put(NS, key, {"text": f"apple {key}"})
                await store.put((*NS, "below"), key, 1)
            assert len(await other.search(NS, "apple")) == 3

            def dies(*_: object) -> None:
                raise Killed

            with monkeypatch.context() as patch:
                patch.setattr(ChromaCollection, "remove", dies)
                with pytest.raises(Killed):
                    await store.delete(NS, "a")
                with pytest.raises(Killed):
                    await store.clear_namespace((*NS, "below"))
            for each in (store, other):
                assert await each.get(NS, "a") is None
                assert await each.get((*NS, "below"), "b") is None
                assert await each.list_keys(NS, prefix=True) == ["b", "c"]
                assert len(await each.search(NS, "apple")) == 2
                assert await each.list_namespaces() == [NS]
            assert await store.put((*NS, "below"), "new", 1, expected_version=0) > 0
            assert await other.list_keys((*NS, "below")) == ["new"]
            assert await store.purge_expired() == 0
            connection = sqlite3.connect(folder / "chroma.sqlite3")
            ((marks,),) = connection.execute(
                "SELECT COUNT(*) FROM embedding_metadata WHERE key = 'data' AND string_value = ''"
            ).fetchall()
            connection.close()
            assert marks == 0

    asyncio.run(scenario())


def test_cancelled_writes_are_finished(folder: Path) -> None:
    async def scenario() -> None:
        async with ChromaStore(folder) as store:
            await store.put(NS, "first", 0)
            tasks = [asyncio.ensure_future(store.put(NS, f"k{n}", n)) for n in range(5)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
            keys = await store.list_keys(NS)
            for key in keys:
                assert await store.get(NS, key) is not None
            assert len(await store.search(NS, limit=100)) == len(keys)

    asyncio.run(scenario())


# ── shared ────────────────────────────────────────────────────────────────────────────────────────


def test_four_processes_that_compare_and_set_lose_nothing_and_share_no_version(folder: Path) -> None:
    started = [chroma_jobs.start("count", str(folder), 15) for _ in range(4)]
    versions = [version for _, pipe in started for version in pipe.recv()]
    for process, _ in started:
        process.join()
    assert len(set(versions)) == 60

    async def look() -> None:
        async with ChromaStore(folder) as store:
            assert await store.get(NS, "count") == 60

    asyncio.run(look())


def test_processes_see_each_others_items_words_and_vectors_at_once(folder: Path) -> None:
    process, pipe = chroma_jobs.start("obey", str(folder))

    def there(method: str, *arguments: Any, **options: Any) -> Any:
        pipe.send((method, arguments, options))
        return pipe.recv()

    async def scenario() -> None:
        async with ChromaStore(folder, dimension=2) as store:

            async def here(word: str) -> list[str]:
                return sorted(item.key for item in await store.search(NS, word))

            there("put_with_embedding", NS, "a", {"text": "apple"}, [1.0, 0.0])
            assert await here("apple") == ["a"]
            await store.put_with_embedding(NS, "b", {"text": "apple pie"}, [0.0, 1.0])
            assert {item.key for item in there("search", NS, "apple")} == {"a", "b"}
            nearest = there("search_by_embedding", NS, [0.1, 1.0], 1)
            assert [hit.item.key for hit in nearest] == ["b"]
            there("put_with_embedding", NS, "b", {"text": "plum"}, [1.0, 0.1])
            assert await here("apple") == ["a"]
            assert [h.item.key for h in await store.search_by_embedding(NS, [1.0, 0.1])] == ["b", "a"]
            there("delete", NS, "a")
            assert await here("apple") == []
            assert await store.list_keys(NS) == ["b"]
            there("clear_namespace", NS)
            assert await store.list_namespaces() == []
            assert await store.list_keys(("shared",), prefix=True) == []
            there("put", NS, "c", {"text": "apple"})
            assert await here("apple") == ["c"]
            assert await store.list_keys(("shared",), prefix=True) == ["c"]

    asyncio.run(scenario())
    pipe.send(None)
    assert pipe.recv() == "done"
    process.join()


def test_a_forked_child_is_told_and_not_left_waiting(folder: Path) -> None:
    process, pipe = chroma_jobs.start("use_and_fork", str(folder))
    told, version = pipe.recv()
    process.join()
    assert told.count("forked from one that had used Chroma") == 2
    assert version == 2


def test_stores_in_memory_are_apart_and_end_with_their_object() -> None:
    async def scenario() -> None:
        async with ChromaStore() as one, ChromaStore() as two:
            await one.put(NS, "k", 1)
            assert await two.get(NS, "k") is None
        client = local_client(None)
        assert [c.name for c in client.list_collections() if c.name.startswith("holdfast")] == []
        client.close()

    asyncio.run(scenario())


def test_a_client_of_your_own_is_used_and_left_open(folder: Path) -> None:
    client = local_client(folder)
    client.create_collection("notes", embedding_function=None)

    async def scenario() -> None:
        async with ChromaStore(client=client, collection="mine") as store:
            await store.put(NS, "k", 1)
            assert store.capabilities.compare_and_set
        async with ChromaStore(folder, collection="mine") as store:
            assert await store.get(NS, "k") == 1
        async with ChromaStore(folder, collection="another") as store:
            assert await store.get(NS, "k") is None
        async with ChromaStore(client=client, collection="notes") as store:
            with pytest.raises(SchemaMismatch, match="somebody else's"):
                await store.get(NS, "k")

    asyncio.run(scenario())
    assert {collection.name for collection in client.list_collections()} == {"notes", "mine", "another"}
    client.close()


# ── at a server ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def server(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Chroma's own server on loopback, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [sys.executable, "-c", "from chromadb.cli.cli import app; app()"]
    command += ["run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
        yield port, process
    finally:
        process.kill()
        process.wait()


def test_at_a_server_a_shared_lock_file_gives_compare_and_set_and_its_end_is_an_outage(
    server: tuple[int, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    port, process = server
    client = chromadb.HttpClient("127.0.0.1", port, settings=Settings(anonymized_telemetry=False))

    async def scenario() -> None:
        async with ChromaStore(client=client, dimension=2) as store:
            assert not store.capabilities.compare_and_set
            with pytest.raises(Unsupported, match="compare_and_set"):
                await store.put(NS, "k", 1, expected_version=0)
            await store.put_with_embedding(NS, "k", {"text": "apple"}, [1.0, 0.0])
            async with ChromaStore(client=client, dimension=2) as other:
                await other.put_with_embedding(NS, "l", {"text": "apple pie"}, [0.0, 1.0])
                assert {item.key for item in await store.search(NS, "apple")} == {"k", "l"}
                await other.delete(NS, "l")
            assert [hit.item.key for hit in await store.search_by_embedding(NS, [0.0, 1.0])] == ["k"]
            await store.erase_deleted()
        async with ChromaStore(client=client, lock_path=tmp_path / "lock") as store:
            version = await store.put(NS, "new", 1, expected_version=0)
            with pytest.raises(Conflict):
                await store.put(NS, "new", 2, expected_version=0)
            assert await store.put(NS, "new", 2, expected_version=version) > version
            process.kill()
            process.wait()
            for call in (store.get(NS, "new"), store.put(NS, "new", 3), store.list_keys(NS)):
                with pytest.raises(Unavailable):
                    await call

    asyncio.run(scenario())


# ── erased ────────────────────────────────────────────────────────────────────────────────────────

CANARIES = ("zyzzyvakrk", "kwyjibobrk", "xochipilk", "qanatvizhk", "vrtkolobk", "jbrzqwkol", "fnordplugk")


def _left(folder: Path, files: str = "*") -> set[str]:
    """Canaries in any byte of any file. Their stems are shorter than the words."""
    data = b"".join(file.read_bytes() for file in folder.rglob(files) if file.is_file())
    return {word for word in CANARIES if word[:-1].encode() in data}


def test_no_byte_of_a_forgotten_user_is_left_in_the_files(folder: Path) -> None:
    async def scenario() -> None:
        text, speaker, session, block, subject, thing, user = CANARIES
        store = ChromaStore(folder)
        async with AgentMemory(store) as memory:
            for number in range(30):
                await memory.remember(f"kept words number {number}", user_id="other")
                said = Episode(text=f"{text} {number}", speaker=speaker, session_id=session)
                await memory.remember(said, user_id=user)
            await memory.append_block("notes", block, user_id=user)
            assert memory.facts is not None
            await memory.facts.add(Fact(subject=subject, predicate="likes", object=thing), user_id=user)
            assert _left(folder) == set(CANARIES)
            receipt = await memory.forget(user_id=user)
            assert receipt.complete
            assert _left(folder) == set()
            assert len(await memory.recall("kept words", 100, user_id="other")) == 30
            await memory.remember("and on it goes", user_id="other")
        assert _left(folder) == set()
        async with AgentMemory(ChromaStore(folder)) as memory:
            assert len(await memory.recall("kept words goes", 100, user_id="other")) == 31

    asyncio.run(scenario())


def test_what_was_overwritten_is_erased_too_and_other_collections_are_left_alone(folder: Path) -> None:
    client = local_client(folder)
    theirs = client.create_collection("theirs", embedding_function=None)
    theirs.upsert(ids=["x"], embeddings=[VECTOR], metadatas=[{"word": CANARIES[0]}])

    async def scenario() -> None:
        async with ChromaStore(client=client) as store:
            await store.put(NS, "k", CANARIES[1], {"m": CANARIES[2]})
            await store.put(NS, "k", "harmless")
            await store.erase_deleted()
            # Not the index files, which Chroma makes with a collection out of memory that it doesn't clear: there may
            # be words of other tests in it.
            assert _left(folder, "*.sqlite3*") == {CANARIES[0]}
            assert await store.get(NS, "k") == "harmless"

    asyncio.run(scenario())
    assert theirs.get(ids=["x"], include=["metadatas", "embeddings"])["metadatas"] == [{"word": CANARIES[0]}]
    assert theirs.query(query_embeddings=[VECTOR], n_results=1)["ids"] == [["x"]]
    client.close()


def test_chromas_log_stays_short_and_its_numbers_go_on(folder: Path) -> None:
    async def scenario() -> None:
        async with ChromaStore(folder) as store:
            for number in range(12):
                await store.put_batch((NS, f"{number} {n}", n) for n in range(100))
            await store.erase_deleted()
            await store.put(NS, "last", 1)
        connection = sqlite3.connect(folder / "chroma.sqlite3")
        ((entries, highest),) = connection.execute(
            "SELECT COUNT(*), MAX(seq_id) FROM embeddings_queue"
        ).fetchall()
        connection.close()
        # Its index files, which processes would destroy for each other, are never written.
        assert not list(folder.rglob("index_metadata.pickle"))
        assert entries < 400
        assert highest > 1200
        async with ChromaStore(folder) as store:
            assert len(await store.list_keys(NS, 10_000)) == 1201

    asyncio.run(scenario())


# ── wrong ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_directory_that_can_not_be_used_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(Unavailable, match="can't make the directory"):
            await ChromaStore(tmp_path / "file" / "below").get(NS, "k")
        (tmp_path / "chroma.sqlite3").write_text("this is not a database, " * 100)
        with pytest.raises(Corrupt, match="not a Chroma directory"):
            await ChromaStore(tmp_path).get(NS, "k")

    asyncio.run(scenario())


def test_a_damaged_record_is_named_and_the_rest_stays_readable(folder: Path) -> None:
    async def scenario() -> None:
        async with ChromaStore(folder) as store:
            await store.put(NS, "good", 1)
            await store.put(NS, "bad", 2)
        connection = sqlite3.connect(folder / "chroma.sqlite3")
        with connection:
            connection.execute(
                "UPDATE embedding_metadata SET string_value = '[1, 2'"
                " WHERE key = 'data' AND string_value LIKE '[\"bad\"%'"
            )
        connection.close()
        async with ChromaStore(folder) as store:
            assert await store.get(NS, "good") == 1
            with pytest.raises(Corrupt, match="record i"):
                await store.get(NS, "bad")

    asyncio.run(scenario())


def test_a_writer_that_waits_too_long_for_another_is_told(folder: Path) -> None:
    async def scenario() -> None:
        async with ChromaStore(folder) as first, ChromaStore(folder, busy_seconds=0.05) as second:
            await first.put(NS, "k", 1)
            await second.get(NS, "k")
            with first._collection.writing(), pytest.raises(Unavailable, match="another writer"):
                await second.put(NS, "k", 2)
            assert await second.get(NS, "k") == 1

    asyncio.run(scenario())


def test_arguments_are_checked_before_anything_is_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: Any = object()
    for path in ("", b"bytes"):
        with pytest.raises(InvalidInput, match="path must be"):
            ChromaStore(cast(Any, path))
    for options in ({"collection": "x"}, {"collection": "-ab-"}, {"client": wrong}, {"busy_seconds": 0}):
        with pytest.raises(InvalidInput):
            ChromaStore(**options)
    with pytest.raises(InvalidInput, match="give one"):
        ChromaStore(folder, client=wrong)
    monkeypatch.setattr(chroma_client, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"holdfast\[chroma\]"):
        ChromaStore(folder)
    assert not folder.exists()


def test_another_client_of_the_process_with_other_settings_is_reported(folder: Path) -> None:
    folder.mkdir()
    client = local_client(folder.resolve(), allow_reset=True)

    async def scenario() -> None:
        with pytest.raises(InvalidInput, match="pass it as client="):
            await ChromaStore(folder).get(NS, "k")

    asyncio.run(scenario())
    client.close()


def test_nothing_is_said_to_the_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("somebody wants to talk to the network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)

    async def scenario() -> None:
        async with ChromaStore(folder, dimension=2) as store:
            await store.put_with_embedding(NS, "k", "text", [1.0, 0.0])
            assert await store.search_by_embedding(NS, [1.0, 0.0])
            opened = store._collection._client
            assert opened is not None
            assert not opened.get_settings().anonymized_telemetry

    asyncio.run(scenario())
