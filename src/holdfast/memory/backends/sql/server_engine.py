"""Runs plans on a database server: one round trip a batch, in the caller's thread or on its event loop.

What servers share is here: transactions around plans, what is tried again and what is not, tables before the first
plan. How a batch gets to the server and back, and what its errors mean, is the `Driver`'s. It is written once, as
coroutines; a blocking driver's never suspend, so that its twin drives them without an event loop.
"""

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from holdfast.core.errors import Closed, HoldfastError
from holdfast.memory.backends.sql.binding import BoundEngine
from holdfast.memory.backends.sql.plan import (
    FRESH,
    HEAVY,
    LAST,
    REPEATABLE,
    Batch,
    Plan,
    PlanFactory,
    Statement,
)
from holdfast.memory.backends.sql.schema import Schema, migrate
from holdfast.memory.backends.sql.security import Fences, Security, SecurityState
from holdfast.memory.blocking import drive

T = TypeVar("T")

TRIES = 8
_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.25


@dataclass(frozen=True, slots=True)
class Failure:
    """What a driver's error means.

    ``error``: what the caller gets. ``undone``: the server has undone the transaction because of other writers, and
    another try may succeed. ``lost``: the connection broke, and what had been sent may have been done.
    """

    error: HoldfastError
    undone: bool = False
    lost: bool = False


class Session(Protocol):
    """A connection, while one plan uses it."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open that must be committed or rolled back."""
        ...

    async def run(self, batch: Batch, begin: str, *, commit: bool, dirty: bool) -> list[Any]:
        """Run a batch in one round trip.

        ``begin``: "write", "read" (one snapshot), "fresh" (a snapshot for each statement), or "" in a transaction.
        ``commit``: end the transaction with the batch. ``dirty``: the transaction has written, so a guard that fails
        must not end it.
        """
        ...

    async def rollback(self) -> None: ...


class Driver(Protocol):
    """Connections to one database."""

    place: str
    """The database as errors name it: without secrets."""
    blocking: bool
    finishes: bool
    """Whether a batch that was sent in a transaction that writes is waited for though its caller is cancelled."""

    async def acquire(self) -> Session: ...
    async def release(self, session: Any, *, broken: bool) -> None: ...
    def failure(self, error: Exception) -> Failure | None:
        """What the error means; ``None`` if it is not the driver's."""
        ...

    def existing(self, schema: Schema) -> Plan[set[str]]:
        """Which of the component's tables there are."""
        ...

    def begin_migration(self) -> Plan[None]:
        """Wait until nobody else migrates, until the transaction ends."""
        ...

    async def close(self) -> None: ...
    def start(self) -> None:
        """Begin anew, in a process that was forked: never touch the connections of its parent."""
        ...


class _Attempt:
    """One try at a plan: what has been sent, so that it is known whether another try is safe.

    ``fence``: what each of its transactions begins with, if anything.
    """

    __slots__ = ("committing", "dirty", "fence", "repeatable")

    def __init__(self, *, repeatable: bool, fence: Statement | None) -> None:
        self.committing = False
        self.dirty = False
        self.repeatable = repeatable
        self.fence = fence


class ServerEngine:
    """Plans on the server that a driver is connected to."""

    def __init__(self, driver: Driver, *, auto_create_table: bool = True) -> None:
        self.driver = driver
        self._auto_create = auto_create_table
        self._closed = False
        self._upkeep: set[asyncio.Task[None]] = set()
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._ready: set[tuple[str, str]] = set()
        self._fences: dict[tuple[str, str], Fences] = {}
        self._upkeep = set()

    def using(self, schema: Schema) -> BoundEngine:
        """This engine for plans that use these tables: before the first one, they are seen to."""
        return _Within(self, schema, None)

    # ── running plans ─────────────────────────────────────────────────────────────────────────────

    def read(self, plan: PlanFactory[T], schema: Schema, places: "Places" = None) -> Awaitable[T]:
        return self._run(plan, schema, places, write=False)

    def write(self, plan: PlanFactory[T], schema: Schema, places: "Places" = None) -> Awaitable[T]:
        running = self._run(plan, schema, places, write=True)
        return running if self.driver.finishes else _to_its_end(running)

    def later(self, plan: PlanFactory[Any], schema: Schema, places: "Places" = None) -> None:
        upkeep = self._quietly(plan, schema, places)
        if self.driver.blocking:
            drive(upkeep)
            return
        task = asyncio.get_running_loop().create_task(upkeep)
        self._upkeep.add(task)
        task.add_done_callback(self._upkeep.discard)

    async def _quietly(self, plan: PlanFactory[Any], schema: Schema, places: "Places") -> None:
        with contextlib.suppress(HoldfastError):
            await self._run(plan, schema, places, write=True, repeatable=True)

    async def scrub(self) -> None:
        """What was deleted goes from the server's files when it sees to that itself."""

    async def close(self) -> None:
        if self._closed:
            return
        if self._process == os.getpid() and not self.driver.blocking:
            loop = asyncio.get_running_loop()
            if waiting := [task for task in self._upkeep if task.get_loop() is loop]:
                await asyncio.wait(waiting)
        self._closed = True
        if self._process == os.getpid():
            await self.driver.close()

    async def _run(
        self,
        plan: PlanFactory[T],
        schema: Schema,
        places: "Places",
        *,
        write: bool,
        repeatable: bool = False,
    ) -> T:
        if self._closed:
            raise Closed(f"{self.driver.place} is closed")
        if self._process != os.getpid():
            self.driver.start()
            self._start()
        if schema.key not in self._ready:
            await self._prepare(schema)
            self._ready.add(schema.key)
        fences = self._fences.get(schema.key) if self._fences else None
        fence = None if fences is None else fences.around(places)
        return await self._persist(plan, write=write, repeatable=repeatable or not write, fence=fence)

    async def _persist(
        self, plan: PlanFactory[T], *, write: bool, repeatable: bool, fence: Statement | None = None
    ) -> T:
        """Try until it is done, or until it can't be, or until another try might do it twice."""
        for number in range(1, TRIES + 1):
            attempt = _Attempt(repeatable=repeatable, fence=fence)
            try:
                return await self._attempt(plan, attempt, write=write)
            except Exception as error:
                failure = self.driver.failure(error)
                if failure is None:
                    raise
                safe = failure.undone or (failure.lost and (attempt.repeatable or not attempt.committing))
                if not safe or number == TRIES:
                    raise failure.error from error
            pause = random.random() * min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**number)  # noqa: S311 (not a secret)
            if self.driver.blocking:
                time.sleep(pause)  # noqa: ASYNC251 (a blocking driver has no loop)
            else:
                await asyncio.sleep(pause)
        raise AssertionError("the last try returned or raised")

    async def _attempt(self, factory: PlanFactory[T], attempt: _Attempt, *, write: bool) -> T:
        plan = factory()
        session = await self.driver.acquire()
        broken = True
        try:
            value = await self._transact(plan, session, attempt, write=write)
            broken = False
            return value
        except Exception as error:
            failure = self.driver.failure(error)
            if failure is None or not failure.lost:
                if session.in_transaction:
                    await session.rollback()
                broken = False
            raise
        finally:
            plan.close()
            await self.driver.release(session, broken=broken)

    async def _transact(self, plan: Plan[T], session: Session, attempt: _Attempt, *, write: bool) -> T:
        try:
            batch = next(plan)
            while True:
                mark = batch[0].mark if batch else 0
                begin = (
                    ""
                    if session.in_transaction
                    else "write"
                    if write
                    else "fresh"
                    if mark & FRESH
                    else "read"
                )
                if begin:
                    attempt.dirty = False
                commit = bool(mark & LAST)
                attempt.committing = write and commit
                attempt.repeatable = attempt.repeatable or bool(mark & REPEATABLE)
                if begin and attempt.fence is not None:
                    sent = [attempt.fence, *batch]
                    _, *results = await session.run(sent, begin, commit=commit, dirty=False)
                else:
                    results = await session.run(batch, begin, commit=commit, dirty=attempt.dirty)
                attempt.dirty = attempt.dirty or any(statement.kind != "rows" for statement in batch)
                if mark & HEAVY and not self.driver.blocking:
                    batch = await _in_thread(plan, results)
                else:
                    batch = plan.send(results)
        except StopIteration as stop:
            value: T = stop.value
        except _Ended as ended:
            value = ended.value
        if session.in_transaction:
            attempt.committing = write
            await session.run([], "", commit=True, dirty=False)
        return value

    # ── tables ────────────────────────────────────────────────────────────────────────────────────

    async def _prepare(self, schema: Schema) -> None:
        if schema.security is not None and schema.security.required:
            await self._security_state(schema.security)  # before anything is made
        await self._bring_up(schema, lambda: self.driver.existing(schema))
        if schema.check is not None:
            await self._persist(schema.check, write=False, repeatable=True)
        if schema.security is not None:
            await self._secure(schema, schema.security)

    async def _secure(self, schema: Schema, security: Security) -> None:
        """Find out whether the tables keep tenants apart; see to it, if they must."""
        state = await self._security_state(security)
        if state.on or security.required:
            await self._bring_up(security.schema, security.existing)
            everything = state.bypasses or state.operates
            self._fences[schema.key] = Fences(security, everything, self.driver.place)

    async def _security_state(self, security: Security) -> SecurityState:
        state = await self._persist(security.state, write=False, repeatable=True)
        security.check(state, self.driver.place)
        return state

    async def _bring_up(self, schema: Schema, existing: Callable[[], Plan[set[str]]]) -> None:
        def create() -> Plan[None]:
            yield from self.driver.begin_migration()
            yield from migrate(schema, existing)

        # Reads first: a database that is up to date is opened without the lock, and without the right to create.
        try:
            await self._persist(lambda: migrate(schema, existing, create=False), write=False, repeatable=True)
        except HoldfastError as error:
            if not self._auto_create or not _mendable(error):
                raise
            await self._persist(create, write=True, repeatable=True)


Places = Sequence[Any] | None
"""What a plan is about: see `Engine.within`."""


class _Within(BoundEngine):
    """An engine that tells the server what its plans are about."""

    __slots__ = ("_places",)
    engine: ServerEngine

    def __init__(self, engine: ServerEngine, schema: Schema, places: Places) -> None:
        super().__init__(engine, schema)
        self._places = places

    def within(self, *places: Any) -> Self:
        return type(self)(self.engine, self._schema, places)

    def read(self, plan: PlanFactory[T]) -> Awaitable[T]:
        return self.engine.read(plan, self._schema, self._places)

    def write(self, plan: PlanFactory[T]) -> Awaitable[T]:
        return self.engine.write(plan, self._schema, self._places)

    def later(self, plan: PlanFactory[Any]) -> None:
        self.engine.later(plan, self._schema, self._places)


def _mendable(error: HoldfastError) -> bool:
    from holdfast.core.errors import SchemaMismatch

    return isinstance(error, SchemaMismatch) and bool(error.ddl)


async def _to_its_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """A write that has begun is finished, then its caller learns that it was cancelled: never half."""
    task = asyncio.get_running_loop().create_task(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            pass  # looked at: the caller was cancelled, and nothing was written
        raise


class _Ended(Exception):
    """A plan's `StopIteration`, which no future can carry."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


async def _in_thread(plan: Plan[Any], results: list[Any]) -> Batch:
    """Go on with a plan off the event loop. A caller that is cancelled waits: a plan can't be left while it runs."""

    def go_on() -> Batch:
        try:
            return plan.send(results)
        except StopIteration as stop:
            raise _Ended(stop.value) from None

    running = asyncio.get_running_loop().run_in_executor(None, go_on)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
