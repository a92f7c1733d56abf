"""An address of the double leads to the same database from any process."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast import connect
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from tests import forking
from tests.oracle.crossing import address, install, login
from tests.oracle.database import OracleDatabase
from tests.servers.oracle import OracleUser


@pytest.fixture
def user(oracle_url: str, release: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[OracleUser]:
    install(monkeypatch.setattr)
    double = OracleDatabase(oracle_url, release)
    yield OracleUser(double, double.add_user())
    double.drop_users()


def _answer(url: str, wanted: str) -> None:
    """In another process: what was said is there, and is answered."""
    install()

    async def work() -> None:
        async with connect(url) as found:
            state = await found.checkpointer.load("t")
            assert state is not None
            assert [message.content for message in state.messages] == [wanted]
            await found.checkpointer.save(state.with_message(Message.assistant("é" * 40_000)), "t")
            await found.store.put(("a",), "k", {"n": 1}, metadata={"m": 1})

    asyncio.run(work())


def test_what_one_process_writes_another_reads_whichever_release_it_is(user: OracleUser) -> None:
    async def say() -> None:
        async with connect(user.url) as here:
            await here.checkpointer.save(AgentState().with_message(Message.user("hello")), "t")

    async def look() -> tuple[list[str | None], object]:
        async with connect(user.url) as here:
            state = await here.checkpointer.load("t")
            assert state is not None
            return [message.content for message in state.messages], await here.store.get(("a",), "k")

    asyncio.run(say())
    child = forking.context().Process(target=_answer, args=(user.url, "hello"))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert asyncio.run(look()) == (["hello", "é" * 40_000], {"n": 1})
    kinds = user.sql("SELECT data_type FROM all_tab_columns WHERE column_name = 'DOCUMENT'")
    assert ("JSON",) in kinds or user.double.release < 21


def test_an_address_says_which_double_and_who(oracle: OracleDatabase) -> None:
    found = login(address(oracle, "ann"))
    assert found == {
        "user": "ann",
        "password": "secret",
        "dsn": f"double/{oracle.release}/{oracle.url}",
    }
