"""The connections of one event loop: psycopg's pool makes them, and they are handed on past it.

To ask that pool for a connection and to give it back takes a third of the time of a save when many wait. So those that
it gave go from who is done with one to who waits the longest; while nobody waits, as many are kept at hand as the pool
would never close. After a second a connection goes back to the pool, which may find it too old.
"""

import asyncio
import time
import weakref
from collections import deque
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import PoolClosed, PoolTimeout

from holdfast.memory.backends.postgres_connecting import EndingPool, give_up, remembering_async
from holdfast.memory.backends.postgres_session import PgSession

LOOK_AGAIN = 0.25
AT_HAND = 1.0  # seconds


class LoopSessions:
    """At most ``max_size`` connections. All of it happens on the one loop."""

    def __init__(self, info: str, options: dict[str, Any], sizes: dict[str, Any], timeout: float) -> None:
        self._refused: list[Exception] = []
        self._made: weakref.WeakSet[AsyncConnection[Any]] = weakref.WeakSet()
        self._opened = False
        self._timeout = timeout
        self._room: int = sizes["max_size"]  # how many more the pool may be asked for
        self._most_at_hand: int = sizes["min_size"]
        self._at_hand: deque[PgSession] = deque()
        self._waiting: deque[asyncio.Future[PgSession | None]] = deque()
        self._pool = EndingPool(
            info,
            connection_class=remembering_async(self._refused, self._made),
            kwargs=options,
            open=False,
            **sizes,
        )

    async def take(self) -> PgSession:
        deadline = time.monotonic() + self._timeout
        while True:
            if self._at_hand:
                session: PgSession | None = self._at_hand.pop()
            elif self._room:
                session = await self._ask_pool(deadline)
            else:
                session = await self._wait(deadline)
            if session is None:
                continue  # there is room
            if session.silent():
                return session
            await self.give_back(session, broken=True)

    async def give_back(self, session: PgSession, *, broken: bool) -> None:
        if broken:
            session.connection.pgconn.finish()
        if broken or not session.idle or time.monotonic() > session.since + AT_HAND:
            await self._return(session)
        elif not self._hand(session):
            await self._keep(session)

    async def _keep(self, session: PgSession) -> None:
        if len(self._at_hand) < self._most_at_hand:
            self._at_hand.append(session)
        else:
            await self._return(session)

    async def close(self) -> None:
        self._most_at_hand = 0  # what is in use goes back to the pool, which closes it
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(PoolClosed("the pool is closed"))
        while self._at_hand:
            await self._return(self._at_hand.pop())
        await self._pool.close()

    def abandon(self) -> None:
        """The loop is gone."""
        for connection in list(self._made):
            connection.pgconn.finish()

    async def _ask_pool(self, deadline: float) -> PgSession:
        self._room -= 1
        try:
            if not self._opened:
                self._opened = True
                await self._pool.open()
            while True:
                try:
                    return PgSession(await self._pool.getconn(min(LOOK_AGAIN, self._timeout)))
                except PoolTimeout:
                    if self._at_hand:  # no new one is to be had, and one became free
                        self._make_room()
                        return self._at_hand.pop()
                    give_up(self._refused, deadline)
        except BaseException:
            self._make_room()
            raise

    async def _return(self, session: PgSession) -> None:
        connection = session.connection
        assert isinstance(connection, AsyncConnection)
        try:
            await self._pool.putconn(connection)
        finally:
            self._make_room()

    def _make_room(self) -> None:
        self._room += 1
        self._hand(None)

    def _hand(self, session: PgSession | None) -> bool:
        """Give it to who waits the longest, or tell them to look; whether anybody waits."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(session)
                return True
        return False

    async def _wait(self, deadline: float) -> PgSession | None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[PgSession | None] = loop.create_future()
        self._waiting.append(waiting)
        alarm = loop.call_later(max(0.0, deadline - time.monotonic()), _too_late, waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            # It may have got one just before it was cancelled: then it is somebody else's turn.
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                session = waiting.result()
                if not self._hand(session) and session is not None:
                    await self._keep(session)
            raise
        finally:
            alarm.cancel()


def _too_late(waiting: "asyncio.Future[PgSession | None]") -> None:
    if not waiting.done():
        waiting.set_exception(PoolTimeout())
