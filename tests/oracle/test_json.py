"""JSON that Oracle looks into by itself: columns of its own type, text on older servers, nothing lost either way."""

import asyncio
from typing import Any

import pytest

from holdfast.memory.backends.oracle_json import has_values
from holdfast.memory.backends.oracle_sql import document
from holdfast.memory.backends.oracle_store import OracleStore
from holdfast.memory.backends.schemas import ddl
from tests.oracle.database import OracleDatabase
from tests.oracle.driver import SyncPool
from tests.oracle.place import REAL, Place

TABLE = "suite"  # texts that were seen before need not be parsed again
METADATA: dict[str, dict[str, Any]] = {
    "plain": {"tenant": "acme", "size": 3, "open": True, "nested": {"a": 1.5}},
    "other": {"tenant": "other", "size": 4, "open": False, "nested": {"a": 2}},
    "huge": {"tenant": "acme", "size": 10**60},
    "tiny": {"tenant": "acme", "size": 1e-200},
    "typed": {"tenant": "acme", "size": float("nan"), "raw": b"x"},
    "lone": {"tenant": "acme", "text": "\ud800"},
    "empty": {"tenant": "", "size": 3},
    "named": {"a'b": 1, "k" * 300: 2, "tenant": "acme"},
}


def options(user: str, **others: Any) -> dict[str, Any]:
    return {"dsn": "db.example/service", "user": user, "password": "secret", "table_name": TABLE, **others}


def columns(oracle: OracleDatabase, user: str) -> str:
    found = oracle.sql(
        "SELECT data_type FROM oracle_compat.all_tab_columns"
        f" WHERE owner = upper('{user}') AND table_name = 'SUITE' AND column_name = 'DOCUMENT'"
    )
    return str(found[0][0])


async def filled(store: OracleStore) -> None:
    for key, metadata in METADATA.items():
        await store.put(("n",), key, {"k": key}, metadata=metadata)


CONDITIONS: list[tuple[dict[str, Any], set[str], bool]] = [
    ({"tenant": "acme"}, {"plain", "huge", "tiny", "typed", "lone", "named"}, True),
    ({"tenant": "acme", "size": 3}, {"plain"}, True),
    ({"size": 10**60}, {"huge"}, False),
    ({"size": 1e-200}, {"tiny"}, False),
    ({"open": True}, {"plain"}, True),
    ({"nested.a": 1.5}, {"plain"}, True),
    ({"tenant": ""}, {"empty"}, False),
    ({"a'b": 1}, {"named"}, False),
]
"""What is asked for, what has it, and whether the database can leave rows out."""


def test_a_filter_finds_the_same_whatever_the_database_can_hold(place: Place) -> None:
    async def work() -> None:
        async with OracleStore(**place.options()) as store:
            await filled(store)
            for condition, found, asked in CONDITIONS:
                before = len(place.statements)
                items = await store.search(("n",), filter=condition, limit=20)
                assert {item.key for item in items} == found, condition
                narrowed = any("JSON_EXISTS" in sql for sql in place.statements[before:])
                assert REAL or narrowed == asked, condition
            stored = {item.key: item.metadata for item in await store.search(("n",), limit=20)}
            assert repr(stored) == repr({key: METADATA[key] for key in stored})

    asyncio.run(work())


def test_the_column_is_of_the_databases_own_type_where_there_is_one(oracle: OracleDatabase) -> None:
    user = oracle.add_user()

    async def work() -> None:
        async with OracleStore(**options(user)) as store:
            await filled(store)

    asyncio.run(work())
    assert columns(oracle, user) == ("JSON" if oracle.release >= 21 else "CLOB")
    kinds = oracle.sql("SELECT item_key FROM suite WHERE document IS NULL ORDER BY item_key", user)
    assert [key for (key,) in kinds] == ["huge", "lone", "named", "tiny", "typed"]


def test_tables_of_an_older_server_stay_text_when_it_becomes_a_new_one(oracle: OracleDatabase) -> None:
    user, now = oracle.add_user(), oracle.release
    arguments = options(user)
    del arguments["table_name"]
    pool = SyncPool(oracle, arguments)  # what is printed is for every release
    with pool.acquire() as connection:
        for statement in ddl("oracle", items_table=TABLE):
            connection.cursor().execute(statement)
        connection.commit()
    pool.close()
    assert columns(oracle, user) == "CLOB"
    oracle.release = 23

    async def work() -> None:
        async with OracleStore(**options(user)) as store:
            await filled(store)
            items = await store.search(("n",), filter={"tenant": "acme", "size": 3}, limit=20)
            assert [item.key for item in items] == ["plain"]

    asyncio.run(work())
    oracle.release = now


@pytest.mark.parametrize("release", [23])
def test_a_new_server_that_still_behaves_as_an_old_one_gets_text(
    oracle: OracleDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "compatible", 19)
    user = oracle.add_user()

    async def work() -> None:
        async with OracleStore(**options(user)) as store:
            await filled(store)
            assert len(await store.search(("n",), filter={"tenant": "acme"}, limit=20)) == 6

    asyncio.run(work())
    assert columns(oracle, user) == "CLOB"


def test_only_names_that_need_no_escape_are_written_into_a_path() -> None:
    path = ("a", "b")
    assert has_values("d", {path: 5}) == (
        """JSON_EXISTS(d, '$?(@."a"."b" == $v1)' PASSING ? AS "v1")""",
        (5,),
    )
    for name in ("a'b", 'a"b', "a.b", "a?", "é", "", "a b", "1a"):
        assert has_values("d", {(name,): 5}) == ("1 = 1", ())


def test_what_a_number_or_a_name_of_the_database_cannot_hold_is_no_document() -> None:
    for text in ('{"a": 1e130}', '{"a": 1e-130}', f'{{"a": {10**40}}}', f'{{"{"é" * 128}": 1}}'):
        assert document(text) is None
    assert document('{"a": [1, 2.5, "x", null, true, {"b": -1e100}]}') is not None
