"""A run: open the thread, finish what was left unfinished, take the new turn, and settle conflicts."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field, replace
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Literal
from weakref import ReferenceType, ref

from holdfast.agent.channel import Channel, Left, Silence, iterate
from holdfast.agent.context import RunContext
from holdfast.agent.events import Event, TerminateEvent
from holdfast.agent.journal import Journal
from holdfast.agent.limits import Limits
from holdfast.agent.progress import WAITING, Turn, answer_of, turn_of, unanswered, unfinished
from holdfast.agent.recovery import Approve, decline, recover
from holdfast.agent.remembering import follow, learn, learn_owed, recall
from holdfast.agent.result import STOP_REASONS, AgentResult
from holdfast.agent.session import Kit, Session
from holdfast.agent.turn import take_turn
from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.frozen import EMPTY
from holdfast.core.messages import Message
from holdfast.core.state import AgentState

if TYPE_CHECKING:
    from holdfast.agent.telemetry import AnySpan
    from holdfast.agent.threads import ThreadCache
    from holdfast.agent.user_memory import TurnMemory
    from holdfast.memory.checkpointer import BaseCheckpointer

__all__ = ["OnConflict", "Request", "Run", "play"]

OnConflict = Literal["raise", "retry", "fork"]
MAX_RETRIES = 16


@dataclass(frozen=True, slots=True)
class Request:
    """What a run was asked to do. No ``prompt``: go on with the thread as it is. ``stored_at`` is the last checkpoint
    by which the run knows that its prompt is part of the thread; ``decides`` are the calls that ``approve`` is about,
    once the run has seen them: those that wait after a conflict may be others."""

    kit: Kit
    checkpointer: "BaseCheckpointer | None"
    cache: "ThreadCache"
    context: RunContext
    prompt: Message | None
    limits: Callable[[], Limits]
    memory: "TurnMemory | None" = None
    approve: Approve | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    on_conflict: OnConflict = "raise"
    patience: float = 5.0
    stored_at: str | None = None
    decides: frozenset[str] | None = None

    def journal(self) -> Journal:
        assert self.context.thread_id is not None
        return Journal(
            self.checkpointer,
            self.context.thread_id,
            cache=self.cache,
            telemetry=self.kit.telemetry,
            metadata=self.metadata,
            fork_on_conflict=self.on_conflict == "fork",
        )


class Run:
    """Events as they happen (``async for``), or the final result (``await``). Either, once.

    The run waits while an event is being looked at. Leaving the loop early ends it at the next safe point: tools that
    have started finish and their results are kept. The thread can be resumed from there.
    """

    def __init__(self, play: Callable[[Silence], Coroutine[Any, Any, AgentResult]]) -> None:
        self._play = play
        self._started = False
        # Not the generator itself: only the loop over it holds it, so that leaving the loop ends it at once.
        self._events: ReferenceType[AsyncGenerator[Event, None]] | None = None
        self._one_by_one: AsyncGenerator[Event, None] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._channel: Channel | None = None
        self.result: AgentResult | None = None
        """The result, once the run has ended."""

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        if self._one_by_one is not None:  # a loop over the events that ``anext`` has left
            return self._one_by_one
        self._start()
        events = iterate(self._tell)
        self._events = ref(events)
        return events

    async def __anext__(self) -> Event:
        """The next event, for who asks for one at a time. Ends by `aclose`, not by forgetting the run."""
        if self._one_by_one is None:
            self._one_by_one = aiter(self)
        return await anext(self._one_by_one)

    def __await__(self) -> Generator[Any, None, AgentResult]:
        self._start()
        return self._finish().__await__()

    async def aclose(self) -> None:
        """Leave the run, as leaving the loop does, and wait for the safe point. From another task, too: then the loop
        over the events ends there."""
        events = None if self._events is None else self._events()
        is_waiting = isinstance(events, AsyncGeneratorType) and events.ag_running
        if events is not None and not is_waiting:
            await events.aclose()
            return
        if self._channel is not None:
            self._channel.leave()
        if self._task is not None:  # without a generator, the loop was left and that is being closed already
            await asyncio.wait((self._task,))

    def _start(self) -> None:
        if self._started:
            raise InvalidInput("a run can be awaited or iterated once; call run() again for another one")
        self._started = True

    async def _tell(self, channel: Channel) -> None:
        self._task, self._channel = asyncio.current_task(), channel
        try:
            result = self.result = await self._play(channel)
            await channel.emit(TerminateEvent(result.message, result.stop_reason, result))
        finally:
            self._task = self._channel = None

    async def _finish(self) -> AgentResult:
        self.result = await self._play(Silence())
        return self.result


async def play(request: Request, channel: Silence) -> AgentResult:
    """The whole run. A conflict is settled as the request says."""
    context, attempts = request.context, 0
    telemetry = request.kit.telemetry
    with telemetry.turn(request.kit.agent_id, context.thread_id, context.user_id, context.run_id) as span:
        while True:
            session = _session(request, span, channel)
            try:
                await _attempt(session, request)
            except Conflict:
                attempts += 1
                if request.on_conflict != "retry" or attempts > MAX_RETRIES:
                    raise
                request = await _rejoin(request, session)
            except BaseException:
                await session.journal.abandon()
                raise
            else:
                result = session.result()
                span.result(result)
                return result


def _session(request: Request, span: "AnySpan", channel: Silence) -> Session:
    journal = request.journal()
    journal.within(span)
    state = AgentState(agent_id=request.kit.agent_id, run_id=request.context.run_id or "")
    limits = request.limits()
    turn = Turn.begin(state)
    session = Session(request.kit, journal, request.context, limits, state, turn, span, channel)
    session.memory = request.memory
    return session


async def _attempt(session: Session, request: Request) -> None:
    """The run on the thread as it is now."""
    state = await session.journal.read()
    if state is not None:
        session.state = state
    elif request.prompt is None:
        raise InvalidInput(f"there is no thread {session.journal.thread_id!r} to resume")
    await follow(session)
    prompt = request.prompt
    if state is not None and request.stored_at is not None:
        prompt = None if await _find_turn(session, request.stored_at) else prompt
    if state is not None and unfinished(session.state):
        session.turn = turn_of(session.state) or Turn.guess(session.state)
        asked = _is_asked(session, prompt)
        if prompt is None or asked or not _waits(state):
            await _continue(session, request)
            if unfinished(session.state) and not _waits(session.state):
                return  # its time ran out, and it has no answer yet: the next prompt has to wait
            prompt = None if asked else prompt
        if prompt is not None:
            session.limits = request.limits()  # the next turn has its own
            decline(session, "the user went on with another message")
    elif prompt is None:
        await learn_owed(session)
        _report(session)
    if prompt is not None:
        await _begin(session, prompt, request.context)


async def _continue(session: Session, request: Request) -> None:
    """Finish the turn that the thread is in the middle of."""
    if _waits(session.state):
        session.waited = frozenset(call.id for call in unanswered(session.state))
    decides = request.decides is None or session.waited <= request.decides
    await recover(session, request.approve if decides else None)
    if session.stop_reason is None:
        session.context = replace(session.context, run_id=session.state.run_id)
        try:
            await recall(session)
        except BaseException:
            await session.journal.release(session.unstarted)
            raise
        await _play_turn(session)


async def _play_turn(session: Session) -> None:
    """The turn, and what is learned from it."""
    try:
        await take_turn(session)
    except Left:
        if session.stop_reason is not None:  # the answer is stored: who leaves now has heard it
            await _learn(session)
        raise
    await _learn(session)


async def _learn(session: Session) -> None:
    if not unfinished(session.state):  # else it is learned from when it is over
        await learn(session)


async def _begin(session: Session, prompt: Message, context: RunContext) -> None:
    """A new turn."""
    session.context = context
    state = session.state.with_run_id(context.run_id or "")
    if state.agent_id != session.kit.agent_id:
        state = state.model_copy(update={"agent_id": session.kit.agent_id})
    session.begin(state, await learn_owed(session))
    session.state = session.state.with_message(prompt)
    await session.save("prompt")
    session.prompted = True
    await recall(session)
    await _play_turn(session)


def _is_asked(session: Session, prompt: Message | None) -> bool:
    """Whether the unfinished turn was asked by the same words: then it is this very request, made again after its
    answer was lost."""
    asked = session.state.messages[session.turn.messages : session.turn.messages + 1]
    return prompt is not None and asked == (prompt,)


async def _find_turn(session: Session, stored_at: str) -> bool:
    """Whether the turn of our prompt is there: the thread stands in it or, if others have gone on since, it has come
    to its end. In that case the session is put there."""
    run_id = session.context.run_id
    turn = turn_of(session.state)
    if turn is not None and turn.run_id == run_id:
        return True
    last = await session.journal.last_of(run_id or "", stored_at)
    if last is None or (unfinished(last.state) and not _waits(last.state)):
        return False
    session.state, session.journal.head = last.state, last.info.checkpoint_id
    return True


def _report(session: Session) -> None:
    """The session stands at the end of a turn: say how that one ended."""
    session.turn = turn_of(session.state) or Turn.guess(session.state)
    session.stop_reason = next(
        (reason for reason in STOP_REASONS if reason == session.turn.status), "complete"
    )
    session.final = answer_of(session.state.messages[session.turn.messages :])


async def _quiet(request: Request) -> None:
    """Wait until the others are done with the thread, or have not moved it for as long as our patience lasts."""
    journal = request.journal()
    clock, pause = asyncio.get_running_loop().time, 0.02
    head, since = None, clock()
    while True:
        state = await journal.read()
        if state is None or not unfinished(state) or _waits(state):
            return
        if journal.head != head:
            head, since = journal.head, clock()
        elif clock() - since >= request.patience:
            return
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.5)


def _waits(state: AgentState) -> bool:
    turn = turn_of(state)
    return turn is not None and turn.status == WAITING


async def _rejoin(request: Request, session: Session) -> Request:
    """What is left to do after a conflict: all of it again, or, if our prompt is already part of the thread, to see
    to it that it is answered."""
    await _quiet(request)
    if request.decides is None:
        request = replace(request, decides=session.waited)
    return replace(request, stored_at=session.journal.head) if session.prompted else request
