"""What an agent remembers across threads: recalled when a turn begins, learned when it has ended.

What is recalled is shown to the model with the turn's prompt, which keeps all before it as it was (so a provider's
prompt cache stays warm), and is not stored in the thread.
"""

import logging
from collections.abc import Sequence

from holdfast.agent.events import MemoryEvent
from holdfast.agent.progress import FOLLOW, Debt, debts, unfinished
from holdfast.agent.session import Session
from holdfast.agent.user_memory import Said
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import Message, Role
from holdfast.core.sequences import joined
from holdfast.memory.fence import fenced
from holdfast.models.metering import metered

__all__ = ["follow", "learn", "learn_owed", "recall", "with_recalled"]

log = logging.getLogger("holdfast.agent")


async def recall(session: Session) -> None:
    """Ask the memory for what has to do with the turn's prompt."""
    if session.memory is None:
        return
    prompt, session.recalled = _prompt(session), None
    try:
        found = await session.memory.recall(
            None if prompt is None else prompt.content, session.journal.thread_id
        )
    except Exception as error:  # whatever a memory raises: the turn goes on without it, if that is the policy
        await _failed(session, "recall", error)
        return
    session.recalled = fenced(found, max_tokens=session.kit.memory_tokens)
    await session.emit(MemoryEvent("recalled", tuple(found)))


async def learn(session: Session) -> None:
    """Give the memory what was said in the turn, after what it has not heard of yet. The turn itself is stored already,
    and so is that it is to be learned: a run that is killed here leaves that to the next one."""
    if session.memory is None:
        return
    turn, end = session.turn, len(session.state.messages)
    now = Debt(turn.run_id, turn.messages, end, session.journal.head)
    if not await _pay(session, (*turn.owed, now)) and not await _settle(session):
        await _follow(session)  # it was rewound, maybe, before this was learned


async def learn_owed(session: Session) -> tuple[Debt, ...]:
    """Learn the turns up to here that the memory has not heard of, as after a kill, or when another prompt declined
    what one was waiting for. Returns those that are still owed."""
    owed = debts(session.state, session.journal.head)
    if session.memory is None or not owed:
        return owed
    if await session.journal.settled():
        return ()
    left = await _pay(session, owed)
    if not left and not unfinished(session.state):  # else the next save does not owe them any more
        await _settle(session)
    return left


async def _pay(session: Session, owed: tuple[Debt, ...]) -> tuple[Debt, ...]:
    """Learn these turns, in their order; returns those for which it failed. To learn one again changes nothing."""
    assert session.memory is not None
    for place, debt in enumerate(owed):
        try:
            learned = await _learn(session, Said.of(debt, session.state, session.journal.thread_id))
        except Exception as error:
            await _failed(session, "learn", error)
            return owed[place:]
        await session.emit(MemoryEvent("learned", tuple(learned)))
    return ()


async def _learn(session: Session, said: Said) -> list[str]:
    assert session.memory is not None
    telemetry = session.kit.telemetry
    with telemetry.learning(session.context.user_id, session.span) as span, metered() as meter:
        try:
            learned = await session.memory.learn(said)
        finally:
            session.memory_tokens += meter.usage.total_tokens
        span.learned(meter.usage, len(learned))
    return learned


async def follow(session: Session) -> None:
    """If the thread was rewound and the memories have not followed yet, let them."""
    if FOLLOW not in session.state.metadata or session.memory is None:
        return
    settled = await session.journal.settled()
    if not settled and not await _follow(session):
        return
    notes = {key: value for key, value in session.state.metadata.items() if key != FOLLOW}
    session.state = session.state.model_copy(update={"metadata": notes})
    if not settled and not debts(session.state, None):
        await _settle(session)


async def _follow(session: Session) -> bool:
    assert session.memory is not None
    try:
        await session.memory.follow(session.journal.thread_id)
    except Exception as error:
        await _failed(session, "follow", error)
        return False
    return True


async def _settle(session: Session) -> bool:
    try:
        return await session.journal.settle()
    except HoldfastError as error:  # then the next run learns it again, which changes nothing
        log.warning("could not note that a turn was learned: %s: %s", type(error).__name__, error)
        return True


async def _failed(session: Session, what: str, error: Exception) -> None:
    if session.kit.on_memory_error == "raise":
        raise error
    log.warning("could not %s: %s: %s", what, type(error).__name__, error)
    await session.emit(MemoryEvent("failed", (), f"{what}: {type(error).__name__}: {error}"))


def with_recalled(session: Session) -> Sequence[Message]:
    """The thread's messages with what was recalled at the head of the turn's prompt."""
    messages, at, prompt = session.state.messages, session.turn.messages, _prompt(session)
    if session.recalled is None or prompt is None:
        return messages
    told = prompt.model_copy(update={"content": f"{session.recalled}\n\n{prompt.content or ''}"})
    return joined(messages[:at], (told,), messages[at + 1 :])


def _prompt(session: Session) -> Message | None:
    messages = session.state.messages
    first = messages[session.turn.messages] if session.turn.messages < len(messages) else None
    return first if first is not None and first.role is Role.USER else None
