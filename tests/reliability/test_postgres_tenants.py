"""Row-level security: PostgreSQL itself keeps tenants apart, whatever a statement of ours asks for."""

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast import connect
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import HoldfastError, InvalidInput, SchemaMismatch, Unavailable
from holdfast.memory.backends import PostgreSQLCheckpointer, PostgreSQLSyncCheckpointer
from holdfast.memory.backends.postgres_engine import postgres_engine
from holdfast.memory.backends.sql import items_words, text_index
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.keys import encode_scope
from holdfast.memory.backends.sql.plan import change, execute, fetch
from holdfast.memory.store_backends import PostgresStore
from tests.servers.fixtures import Database
from tests.servers.pgbouncer import POOLERS, pooled
from tests.servers.proxy import Proxy
from tests.servers.tenancy import Secured, roles_of, secured

RUNTIME: dict[str, Any] = {"auto_create_table": False, "row_security": True, "min_pool_size": 0}
UNSECURED = {"holdfast_meta", "holdfast_items_meta", "holdfast_items_counters"}
"""What has nothing of a tenant: versions and locks."""


@pytest.fixture
def place(postgres: Database) -> Iterator[Secured]:
    with secured(postgres) as made:
        yield made


def said(*words: str) -> AgentState:
    return AgentState().with_messages([Message.user(word) for word in words])


def words(state: AgentState | None) -> list[str | None] | None:
    return None if state is None else [message.content for message in state.messages]


async def fill(url: str, **options: Any) -> None:
    """Two tenants, with something in every table."""
    async with connect(url, dimension=2, **options) as db:
        for user in ("ann", "bob"):
            threads = db.checkpointer.scoped(user)
            first = await threads.save(said(f"secret of {user}"), "t", metadata={"of": user})
            second = await threads.save(said(f"secret of {user}", "more"), "t", parent=first)
            await threads.put_writes("t", second, "task", [("x", user)])
            await threads.fork("t", first, "f")
            await threads.fork("t", first, "g")
            await threads.delete("f", first)
            await threads.delete("t")  # the fork still reads it
            assert len(await threads.search("secret")) == 1
            await threads.save(said(f"late secret of {user}"), "late")
            last = await threads.head("late")
            assert last is not None
            await threads.put_writes("late", last.checkpoint_id, "task", [("x", user)])
            kept = await threads.save(said("hidden"), "h")
            await threads.save(said("hidden", "more"), "h")
            await threads.fork("h", kept, "i")
            await threads.delete("h", kept)
            await db.store.put_with_embedding(("users", user), "k", f"secret of {user}", [1, 0], {"of": user})


def tables(database: Database) -> set[str]:
    return {name for (name,) in database.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


def settings_of(user: str) -> str:
    return (
        f"SELECT set_config('holdfast.scope', '{encode_scope(user)}', true),"
        f" set_config('holdfast.namespaces', '{{users/{user}/}}', true)"
    )


def as_role(url: str, setting: str, statement: str) -> tuple[int, list[Any]]:
    """Run a statement past Holdfast, in a transaction with that setting."""
    with psycopg.connect(url, prepare_threshold=None) as connection:
        if setting:
            connection.execute(setting.encode())
        cursor = connection.execute(statement.encode())
        found = cursor.fetchall() if cursor.description else []
        connection.commit()
        return cursor.rowcount, found


def test_every_table_with_something_of_a_tenant_shows_it_to_that_tenant_alone(place: Secured) -> None:
    asyncio.run(fill(place.url, **RUNTIME))
    for table in sorted(tables(place.database) - UNSECURED):
        ((everything,),) = place.database.sql(f"SELECT COUNT(*) FROM {table}")
        assert everything >= 2, f"{table} has nothing to hide"
        count = f"SELECT COUNT(*) FROM {table}"
        assert as_role(place.url, "", count)[1] == [(0,)], table
        of_ann, of_bob = (as_role(place.url, settings_of(user), count)[1][0][0] for user in ("ann", "bob"))
        assert of_ann == of_bob == everything // 2, table
        assert as_role(place.url, settings_of("nobody"), count)[1] == [(0,)], table
        assert as_role(place.url, settings_of("nobody"), f"DELETE FROM {table}")[0] == 0, table
    columns = "(life, seq) SELECT decode('00', 'hex'), 1"
    with pytest.raises(psycopg.errors.Error):  # nobody's rows: the column that names the tenant fills itself
        as_role(place.url, "", f"INSERT INTO holdfast_hidden {columns}")
    for wrong in (
        f"INSERT INTO holdfast_hidden (scope, life, seq) SELECT '{encode_scope('bob')}', decode('00', 'hex'), 1",
        f"UPDATE holdfast_entries SET scope = '{encode_scope('bob')}'",
        "UPDATE holdfast_items SET ns = 'users/bob/', item_key = 'mine'",
        "INSERT INTO holdfast_items_vectors SELECT 99, ns_id + 1, 1, '' FROM holdfast_items_vectors",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            as_role(place.url, settings_of("ann"), wrong)


class WrongScope(PostgreSQLCheckpointer):
    """A bug: whoever asks, statements are about Bob."""

    def _key(self, thread_id: str) -> ThreadKey:
        _, ns, encoded = super()._key(thread_id)
        return (encode_scope("bob"), ns, encoded)


def test_a_plan_about_another_tenant_reads_nothing_and_writes_nothing(place: Secured) -> None:
    async def run() -> None:
        await fill(place.url, **RUNTIME)
        async with WrongScope(place.url, **RUNTIME) as broken:
            threads = broken.scoped("ann")
            assert await threads.load("late") is None
            assert await threads.list_threads() == []
            assert await threads.search("secret") == []
            assert await threads.delete("late") is False
            assert await threads._delete_scope() == 0
            assert (await threads.prune(keep_last=1)).count == 0
            for name in ("late", "new"):
                with pytest.raises(HoldfastError, match="row-level security"):
                    await threads.save(said("mine"), name)
        engine = postgres_engine(place.url, **RUNTIME)
        async with PostgresStore(engine=engine, owns_engine=True) as store:
            within = store._engine.within(("users", "ann"))
            of_bob = "FROM holdfast_items WHERE ns = 'users/bob/'"
            assert await within.read(lambda: fetch(f"SELECT value {of_bob}")) == []
            assert await within.write(lambda: execute(change(f"DELETE {of_bob}"))) == [0]
            with pytest.raises(Unavailable, match="all tenants"):
                await store._engine.read(lambda: fetch(f"SELECT value {of_bob}"))
        async with connect(place.url) as db:  # it was all in vain
            assert words(await db.checkpointer.scoped("bob").load("late")) == ["late secret of bob"]
            assert await db.store.get(("users", "bob"), "k") == "secret of bob"

    asyncio.run(run())


@pytest.mark.parametrize("kind", POOLERS)
def test_tenants_that_share_connections_of_a_pooler_stay_apart(place: Secured, kind: str) -> None:
    async def tenant(db: Any, user: str) -> None:
        threads, parent = db.checkpointer.scoped(user), None
        for number in range(5):
            parent = await threads.save(said(*[user] * (number + 1)), "t", parent=parent)
            await db.store.put(("users", user), f"k{number}", user)
        assert words(await threads.load("t")) == [user] * 5
        assert [hit["snippet"] for hit in await threads.search(user)] == [user]
        assert await threads.search("user1" if user == "user0" else "user0") == []
        found = await db.store.search(("users", user), user)
        assert [item.value for item in found] == [user] * 5
        assert await threads.list_threads() == ["t"]

    async def run(url: str) -> None:
        async with connect(url, **RUNTIME, max_pool_size=4) as db:
            await asyncio.gather(*(tenant(db, f"user{number}") for number in range(6)))

    with pooled(kind, place.database, place.app, connections=2) as url:
        asyncio.run(run(url))
        for _ in range(4):  # every connection of the pooler has been a tenant's: none tells of it any more
            with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
                setting = connection.execute("SELECT current_setting('holdfast.scope', true)").fetchall()
                assert setting in ([("",)], [(None,)])
                assert connection.execute("SELECT COUNT(*) FROM holdfast_threads").fetchall() == [(0,)]
                assert connection.execute("SELECT COUNT(*) FROM holdfast_items").fetchall() == [(0,)]


def test_round_trips_are_as_many_as_without(place: Secured, proxy: Proxy) -> None:
    url = place.database.through(proxy).replace("postgres@", f"{place.app}@")

    async def counted(call: Awaitable[Any]) -> tuple[Any, int]:
        before = proxy.turns
        return await call, proxy.turns - before

    async def run() -> None:
        async with connect(url, **{**RUNTIME, "min_pool_size": 1}, max_pool_size=1) as db:
            ann = db.checkpointer.scoped("ann")
            parent = await ann.save(said("one"), "t")
            await db.store.put(("users", "ann"), "warm", 1)
            for number in range(2, 5):
                parent, turns = await counted(ann.save(said(*["one"] * number), "t", parent=parent))
                assert turns == 1
            loaded, turns = await counted(ann.load("t"))
            assert (words(loaded), turns) == (["one"] * 4, 1)
            assert (await counted(ann.save(said("other"), "u")))[1] == 2
            assert (await counted(ann.list_threads()))[1] == 1
            assert (await counted(db.store.put(("users", "ann"), "k", "v")))[1] == 2
            assert await counted(db.store.get(("users", "ann"), "k")) == ("v", 1)

    asyncio.run(run())


def test_who_would_see_everything_anyway_is_refused(place: Secured) -> None:
    with (
        PostgreSQLSyncCheckpointer(place.database.url, row_security=True, table_name="new") as threads,
        pytest.raises(InvalidInput, match="superuser or has BYPASSRLS"),
    ):
        threads.load("t")
    assert "new_threads" not in tables(place.database)
    place.database.sql(f"ALTER ROLE {place.app} BYPASSRLS")
    with (
        PostgreSQLSyncCheckpointer(place.url, **RUNTIME) as threads,
        pytest.raises(InvalidInput, match=place.app),
    ):
        threads.load("t")
    with pytest.raises(InvalidInput, match="row_security"):
        PostgreSQLSyncCheckpointer(place.url, row_security="yes")


def test_what_is_about_all_tenants_is_an_operators(place: Secured) -> None:
    async def run() -> None:
        await fill(place.url, **RUNTIME)
        async with connect(place.url, **RUNTIME) as db:
            for call in (
                db.checkpointer.admin().list_threads,
                db.store.list_namespaces,
                db.store.purge_expired,
            ):
                with pytest.raises(Unavailable, match="operators"):
                    await call()
            assert await db.store.list_namespaces(("users", "ann")) == [("users", "ann")]
        async with connect(place.operator_url, **RUNTIME) as db:
            assert await db.checkpointer.admin().scopes() == ["ann", "bob"]
            assert await db.store.list_namespaces() == [("users", "ann"), ("users", "bob")]
            assert await db.checkpointer.list_threads() == []  # as a tenant he sees a tenant's
            assert await db.checkpointer.scoped("ann").search("late") != []

    asyncio.run(run())


def forget_analyser() -> None:
    text_index.analyser.cache_clear()
    items_words.this_analyser.cache_clear()


def test_words_of_another_analyser_are_indexed_anew_by_an_operator(
    place: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        await fill(place.url, **RUNTIME)
        forget_analyser()
        monkeypatch.setattr(text_index, "ANALYSER_VERSION", "next")
        async with connect(place.url, **RUNTIME) as db:
            with pytest.raises(Unavailable, match="operators"):
                await db.checkpointer.scoped("ann").search("late")
            with pytest.raises(Unavailable, match="operators"):
                await db.store.search(("users", "ann"), "secret")
        async with connect(place.operator_url, **RUNTIME) as db:
            assert len(await db.checkpointer.scoped("bob").search("late")) == 1
            assert len(await db.store.search(("users", "bob"), "secret")) == 1
        async with connect(place.url, **RUNTIME) as db:
            assert len(await db.checkpointer.scoped("ann").search("late")) == 1
            assert await db.checkpointer.search("late") == []
            assert len(await db.store.search(("users", "ann"), "secret")) == 1

    try:
        asyncio.run(run())
    finally:
        forget_analyser()


def owned(database: Database, role: str) -> str:
    database.sql(
        f"GRANT CREATE ON SCHEMA public TO {role}; GRANT CREATE ON DATABASE {database.name} TO {role}"
    )
    return database.server.url(database.name, user=role)


def test_an_owner_is_bound_too_and_tables_with_rows_can_be_secured_later(postgres: Database) -> None:
    with roles_of(postgres, "owner") as (owner,):
        url = owned(postgres, owner)
        asyncio.run(fill(url))
        before = {name: postgres.sql(f"SELECT COUNT(*) FROM {name}") for name in tables(postgres) - UNSECURED}
        with (
            PostgreSQLSyncCheckpointer(url, **RUNTIME) as threads,
            pytest.raises(SchemaMismatch, match="holdfast_threads") as missing,
        ):
            threads.load("t")
        assert "CREATE POLICY" in missing.value.ddl

        async def run() -> None:
            async with connect(url, row_security=True, dimension=2) as db:
                ann = db.checkpointer.scoped("ann")
                assert words(await ann.load("late")) == ["late secret of ann"]
                assert len(await ann.search("late")) == 1
                assert await db.checkpointer.load("late") is None
                assert await db.store.get(("users", "bob"), "k") == "secret of bob"
            async with connect(url) as db:  # nobody has to remember it
                assert words(await db.checkpointer.scoped("bob").load("late")) == ["late secret of bob"]

        asyncio.run(run())
        assert before == {name: postgres.sql(f"SELECT COUNT(*) FROM {name}") for name in before}
        for table in sorted(tables(postgres) - UNSECURED):
            assert as_role(url, "", f"SELECT COUNT(*) FROM {table}")[1] == [(0,)], table
        postgres.sql("DROP TABLE holdfast_hidden; DROP TABLE holdfast_items_vectors CASCADE")
        with PostgreSQLSyncCheckpointer(url) as threads:
            threads.scoped("ann").save(said("x"), "again")
        found = postgres.sql("SELECT relforcerowsecurity FROM pg_class WHERE relname = 'holdfast_hidden'")
        assert found == [(True,)]  # one that was made anew is secured like the others


def test_tables_in_a_schema_that_nobody_has_searched_can_be_secured(postgres: Database) -> None:
    async def run(url: str) -> None:
        async with connect(url, schema="app", text_index=False) as db:
            await db.checkpointer.scoped("ann").save(said("pears"), "t")
        async with connect(url, schema="app", row_security=True) as db:
            assert len(await db.checkpointer.scoped("ann").search("pears")) == 1
            assert await db.checkpointer.scoped("bob").search("pears") == []
            await db.store.put(("users", "ann"), "k", "plums")
            assert len(await db.store.search(("users", "ann"), "plums")) == 1

    with roles_of(postgres, "owner") as (owner,):
        asyncio.run(run(owned(postgres, owner)))
        open_ones = postgres.sql(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'app'::regnamespace"
            " AND NOT relforcerowsecurity"
        )
        assert {name for (name,) in open_ones} == UNSECURED


@pytest.mark.parametrize("made", ["as printed", "by the owner"])
def test_the_copies_in_pgvectors_index_are_a_tenants_too(postgres: Database, made: str) -> None:
    async def run(url: str) -> None:
        options: dict[str, Any] = {"dimension": 2, "row_security": True, "index_vectors_from": 0}
        async with connect(url, auto_create_table=made == "by the owner", **options) as db:
            store = db.store
            assert isinstance(store, PostgresStore)
            for user in ("ann", "bob"):
                for number in range(3):
                    await store.put_with_embedding(("users", user), f"{user}{number}", number, [1, number])
            for user in ("ann", "bob"):
                hits = await store.search_by_embedding(("users", user), [1, 0])
                assert [hit.item.key for hit in hits] == [f"{user}{number}" for number in range(3)]
            while store._shared_engine._upkeep:
                await asyncio.wait(store._shared_engine._upkeep)
            assert await store.vector_search_by(("users", "ann")) == "hnsw"
            hits = await store.search_by_embedding(("users", "ann"), [1, 0])
            assert [hit.item.key for hit in hits] == ["ann0", "ann1", "ann2"]
            await store.delete(("users", "ann"), "ann0")

    def check(url: str) -> None:
        asyncio.run(run(url))
        count = "SELECT COUNT(*) FROM holdfast_items_nearest"
        assert postgres.sql(count) == [(5,)]
        assert [as_role(url, setting, count)[1] for setting in ("", settings_of("ann"))] == [[(0,)], [(2,)]]

    if made == "as printed":
        with secured(postgres, dimension=2) as place:
            check(place.url)
        return
    with roles_of(postgres, "owner") as (owner,):
        postgres.sql("CREATE EXTENSION vector")
        check(owned(postgres, owner))
