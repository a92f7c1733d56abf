"""The text index on PostgreSQL: what is stored of a term, and that it is found by the index."""

import asyncio

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
from holdfast.memory.backends.postgres_words import Lexemes
from holdfast.memory.backends.sql.text_index import scope_token
from tests.servers.fixtures import Database

ALIKE = ("6367624370", "7281232721")  # these two have one code


def test_terms_with_the_same_code_are_told_apart(postgres: Database) -> None:
    async def scenario() -> None:
        async with PostgreSQLCheckpointer(postgres.url) as checkpointer:
            for number in ALIKE:
                await checkpointer.save(AgentState().with_message(Message.user(f"order {number}")), number)
            for number in ALIKE:
                assert [hit["thread_id"] for hit in await checkpointer.search(number)] == [number]
            assert len(await checkpointer.search("order")) == 2

    asyncio.run(scenario())
    stored = [terms.split()[1:] for (terms,) in postgres.sql("SELECT terms FROM holdfast_words")]
    assert [len(terms) for terms in stored] == [2, 2]
    assert stored[0] == stored[1]  # else this test shows nothing


def test_a_term_is_looked_up_in_the_index(postgres: Database) -> None:
    async def scenario() -> str:
        async with PostgreSQLCheckpointer(postgres.url) as checkpointer:
            await checkpointer.save(AgentState().with_message(Message.user("unmistakable")), "t")
            await checkpointer.search("unmistakable")
        ((life,),) = postgres.sql("SELECT life FROM holdfast_threads")
        return scope_token(life)

    scope = asyncio.run(scenario())
    postgres.sql(
        "INSERT INTO holdfast_words SELECT n, '__' || n || ' a b ' || n FROM generate_series(1000, 4000) n"
    )
    postgres.sql("ANALYZE holdfast_words")
    question = Lexemes().match("holdfast_words", scope, "unmistakable", 10)
    params = [str(value).replace("'", "''") for value in question.params]
    text = question.sql.replace("?", "'{}'").format(*params)
    plan = "\n".join(line for (line,) in postgres.sql(f"EXPLAIN {text}"))
    assert "Bitmap Index Scan on holdfast_words_terms" in plan
