"""What an agent remembers across threads: recalled when a turn begins, learned when it has ended.

What is recalled is shown to the model with the turn's prompt, which keeps all before it as it was (so a provider's
prompt cache stays warm), and is not stored in the thread.
"""

import logging

from holdfast.agent.events import MemoryEvent
from holdfast.agent.session import Session
from holdfast.core.messages import Message, Role
from holdfast.memory.fence import fenced

__all__ = ["learn", "recall", "with_recalled"]

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
    """Give the memory what was said in the turn. The turn itself is stored already."""
    if session.memory is None:
        return
    turn = session.state.messages[session.turn.messages :]
    try:
        learned = await session.memory.learn(turn, session.journal.thread_id, session.journal.head)
    except Exception as error:
        await _failed(session, "learn", error)
        return
    await session.emit(MemoryEvent("learned", tuple(learned)))


async def _failed(session: Session, what: str, error: Exception) -> None:
    if session.kit.on_memory_error == "raise":
        raise error
    log.warning("could not %s: %s: %s", what, type(error).__name__, error)
    await session.emit(MemoryEvent("failed", (), f"{what}: {type(error).__name__}: {error}"))


def with_recalled(session: Session) -> tuple[Message, ...]:
    """The thread's messages with what was recalled at the head of the turn's prompt."""
    messages, at, prompt = session.state.messages, session.turn.messages, _prompt(session)
    if session.recalled is None or prompt is None:
        return messages
    told = prompt.model_copy(update={"content": f"{session.recalled}\n\n{prompt.content or ''}"})
    return (*messages[:at], told, *messages[at + 1 :])


def _prompt(session: Session) -> Message | None:
    messages = session.state.messages
    first = messages[session.turn.messages] if session.turn.messages < len(messages) else None
    return first if first is not None and first.role is Role.USER else None
