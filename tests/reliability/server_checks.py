"""What is asked of every database server in the same words."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import connect
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import HoldfastError, InvalidInput, Unavailable
from holdfast.memory.sync import SyncCheckpointer

SECRET = "s3cr%t-pässword"


def everything(checkpointer: SyncCheckpointer) -> None:
    """An operation of each kind."""
    state = AgentState().with_message(Message.user("apples and pears"))
    first = checkpointer.save(state, "t", metadata={"n": 1})
    checkpointer.put_writes("t", first, "task", [("x", 1)])
    checkpointer.save(state.with_message(Message.user("plums")), "t", parent=first)
    checkpointer.fork("t", first, "f")
    assert checkpointer.search("pears")
    assert checkpointer.list_threads() == ["f", "t"]
    checkpointer.vacuum(0)
    checkpointer.delete("t")
    assert checkpointer.load("f") == state
    assert checkpointer.delete("f") is True
    checkpointer.scoped("user").save(state, "t")
    checkpointer.delete_scope("user")


def check_both_contracts(url: str, **options: Any) -> None:
    """One address gives both, and an option that is not one is refused."""

    async def run() -> None:
        async with connect(url, max_pool_size=2, **options) as connection:
            await connection.checkpointer.save(AgentState(), "t")
            await connection.store.put(("a",), "k", {"x": 1})
            assert await connection.checkpointer.list_threads() == ["t"]
            assert await connection.store.get(("a",), "k") == {"x": 1}

    asyncio.run(run())
    with pytest.raises(InvalidInput, match="max_pool_size"):
        connect(url, max_pool_sise=2)


def check_secret_is_kept(open_one: Callable[[], Any]) -> None:
    """Of a connection that fails, the password is nowhere to be read."""

    async def run() -> None:
        opened = open_one()
        with pytest.raises(Unavailable) as error:
            await opened.load("t")
        await opened.close()
        chain: BaseException | None = error.value
        while chain is not None:
            assert SECRET not in repr(chain)
            assert SECRET not in str(chain)
            chain = chain.__cause__ or chain.__context__
        assert SECRET not in repr(opened)
        assert SECRET not in str(vars(opened))

    asyncio.run(run())


def check_unreadable_is_not_shown(open_one: Callable[[str], Any], *addresses: str) -> None:
    """An address that can't be read may have a password in it."""
    for wrong in addresses:
        with pytest.raises(HoldfastError) as error:
            open_one(wrong)
        assert SECRET not in str(error.value)
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__ or error.value.__context__ is None
