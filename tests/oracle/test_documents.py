"""`OracleBackend`: the database looks into documents itself, and what it finds is what a look at each would find."""

import asyncio
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends import DocumentBackend, MemoryCheckpointer, OracleBackend, OracleSyncBackend
from holdfast.memory.backends.oracle import OracleCheckpointer
from holdfast.memory.backends.oracle_documents import as_json
from tests.oracle.database import OracleDatabase
from tests.oracle.driver import SyncPool
from tests.oracle.place import REAL, Place

DOCUMENTS: dict[str, dict[Any, Any]] = {
    "trip": {"owner": "ann", "days": [{"city": "Oslo"}, {"city": "Bergen"}], "note": "Take the night train"},
    "grid": {"owner": "bob", "days": [[{"city": "Oslo"}]], "note": "The train, and the boat"},
    "odd": {"owner": "ann", "n": 10**60, "f": float("nan"), "raw": b"\x00", "text": "nul \x00 train", 5: "x"},
    "count": {"owner": "", "n": 3, "flag": True, "note": "with the and"},
    "deep": {"a": {"b": {"c": [1, 2.5, "x"]}}, "owner": "ann's", "x.y": 1},
    "empty": {},
}
METADATA: dict[str, dict[str, Any]] = {
    "trip": {"tenant": "acme"},
    "odd": {"tenant": "acme", "n": float("inf")},
}
VALUES = [
    ("owner", "ann"),
    ("owner", ""),
    ("owner", "ann's"),
    ("days.city", "Oslo"),
    ("days.1.city", "Bergen"),
    ("n", 3),
    ("n", 3.0),
    ("n", 10**60),
    ("flag", True),
    ("flag", 1),
    ("a.b.c.1", 2.5),
    ("x.y", 1),
    ("nothing", None),
]
QUERIES = [
    ("train", ""),
    ("night TRAIN", "note"),
    ("train oslo", ""),
    ("oslo", "days.city"),
    ("the and", ""),
    ("with", "note"),
    ("x", "a.b"),
    ("...", ""),
]


def options(user: str, **others: Any) -> dict[str, Any]:
    return {"dsn": "db.example/service", "user": user, "password": "secret", "table_name": "suite", **others}


async def filled(backend: DocumentBackend) -> None:
    for thread_id, data in DOCUMENTS.items():
        await backend.save(thread_id, {"old": True})
        await backend.save(thread_id, data, metadata=METADATA.get(thread_id))
    await backend.save(
        "agent", AgentState(agent_id="a1").with_message(Message.user("Which train?")).model_dump()
    )


async def answers(backend: DocumentBackend) -> list[Any]:
    found: list[Any] = []
    for path, value in VALUES:
        found.append((path, value, [hit["thread_id"] for hit in await backend.search_data(path, value)]))
    for query, path in QUERIES:
        found.append((query, path, [hit["thread_id"] for hit in await backend.search_text(query, path)]))
    for key, wanted in (("tenant", "acme"), ("n", float("inf")), ("tenant", "none")):
        found.append([hit["thread_id"] for hit in await backend.query_by_metadata(key, wanted)])
    found.append([hit["data"] for hit in await backend.search_data("owner", "ann", limit=1)])
    found.append([hit["thread_id"] for hit in await backend.search_data("agent_id", "a1")])
    return found


async def expected() -> list[Any]:
    async with DocumentBackend(MemoryCheckpointer()) as reference:
        await filled(reference)
        return await answers(reference)


def test_what_the_database_finds_is_what_a_look_at_each_document_finds(place: Place) -> None:
    async def work() -> None:
        async with OracleBackend(**place.options()) as backend:
            await filled(backend)
            wanted = repr(await expected())
            assert repr(await answers(backend)) == wanted

    asyncio.run(work())
    assert REAL or any("JSON_TEXTCONTAINS" in sql for sql in place.statements)


def test_a_search_reads_only_documents_that_may_match(
    oracle: OracleDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    async def work() -> None:
        async with OracleBackend(**options(oracle.add_user())) as backend:
            await filled(backend)
        async with OracleBackend(**options(oracle.users[-1])) as backend:
            get = backend.checkpointer.get

            async def counted(thread_id: str, checkpoint_id: str | None = None) -> Any:
                read.append(thread_id)
                return await get(thread_id, checkpoint_id)

            monkeypatch.setattr(backend.checkpointer, "get", counted)
            await backend.search_data("owner", "ann")
            assert sorted(read) == ["grid", "odd", "trip"]  # lists within lists are always looked at
            read.clear()
            await backend.search_text("night train")
            assert sorted(read) == ["grid", "trip"]

    asyncio.run(work())


def test_what_others_save_or_delete_is_seen(oracle: OracleDatabase) -> None:
    async def work() -> None:
        user = oracle.add_user()
        async with OracleBackend(**options(user)) as backend, OracleCheckpointer(**options(user)) as agents:
            await backend.save("t", {"word": "walrus"})
            await backend.save("u", {"word": "walrus"})
            assert len(await backend.search_text("walrus")) == 2
            document = (await backend.load("t")) or {}
            assert document == {"word": "walrus"}
            await agents.save(AgentState(metadata={"$document": {"word": "seal"}}), "t")
            await agents.fork("u", None, "v")
            assert [hit["thread_id"] for hit in await backend.search_text("walrus")] == ["v", "u"]
            assert [hit["thread_id"] for hit in await backend.search_data("word", "seal")] == ["t"]
            await backend.delete("u")
            assert [hit["thread_id"] for hit in await backend.search_text("walrus")] == ["v"]

    asyncio.run(work())


def test_full_text_finds_messages_first_and_then_other_documents(oracle: OracleDatabase) -> None:
    with OracleSyncBackend(**options(oracle.add_user())) as backend:
        backend.save("doc", {"title": "About walruses", "tags": ["walrus"]})
        backend.save(AgentState().with_message(Message.user("I saw a walrus")), "talk")
        hits = backend.search("walrus")
        assert [hit["thread_id"] for hit in hits] == ["talk", "doc"]
        assert "walrus" in hits[1]["snippet"]
        assert [hit["thread_id"] for hit in backend.search_text("walrus", "tags")] == ["doc"]


@pytest.mark.parametrize("lacking", ["text", "table"])
def test_without_the_index_or_the_table_every_document_is_read(oracle: OracleDatabase, lacking: str) -> None:
    user = oracle.add_user()
    if lacking == "text":
        oracle.has_text = False
    else:
        pool = SyncPool(oracle, {"user": user, "password": "x", "dsn": "d"})
        with OracleSyncBackend(**options(user)) as owner:
            owner.save("t", {})
            owner.delete("t")
        with pool.acquire() as connection:
            connection.cursor().execute("DROP TABLE suite_documents PURGE")
        pool.close()
    before = len(oracle.statements)

    async def work() -> None:
        async with OracleBackend(**options(user, auto_create_table=lacking == "text")) as backend:
            await filled(backend)
            assert repr(await answers(backend)) == repr(await expected())

    asyncio.run(work())
    assert not any("JSON_TEXTCONTAINS" in sql for sql in oracle.statements[before:])


def test_whoever_asks_the_database_finds_documents_there(oracle: OracleDatabase) -> None:
    user = oracle.add_user()
    with OracleSyncBackend(**options(user)) as backend:
        backend.save("t", {"title": "one"})
        backend.save("t", {"title": "two"}, metadata={"tenant": "acme"})
    rows = oracle.sql("SELECT data::text::jsonb, metadata::text::jsonb FROM suite_documents", user)
    assert rows == [({"title": "two"}, {"tenant": "acme"})]


def test_search_text_checks_its_arguments() -> None:
    async def work() -> None:
        backend = DocumentBackend(MemoryCheckpointer())
        for query, path in ((5, ""), ("x", 5)):
            with pytest.raises(InvalidInput):
                await backend.search_text(query, path)  # type: ignore[arg-type]  # the mistake under test
        assert await backend.search_text("x", limit=0) == []

    asyncio.run(work())


def test_plain_json_keeps_what_can_be_asked_for() -> None:
    assert as_json({"a": [(1, "x\ud800"), [2]], "b": 10**40, "c" * 200: 1, "t": True}) == (
        '{"a":[[1,"x?"],[2]],"b":null,"t":true}'
    )
    assert as_json({"a": [[{"b": 1}]]}) is None
