"""What an agent remembers across threads: recalled when a turn begins, learned when it has ended.

What is recalled is shown to the model with the turn's prompt, which keeps all before it as it was (so a provider's
prompt cache stays warm), and is not stored in the thread.
"""

import logging
from collections.abc import Sequence

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
    prompt = _prompt(session)
    try:
        found = await session.memory.retrieve(None if prompt is None else prompt.content)
    except Exception as error:  # whatever a memory raises: the turn goes on without it, if that is the policy
        await _failed(session, "recall", error)
        return
    session.recalled = fenced([memory.content for memory in found], max_tokens=session.kit.memory_tokens)
    await session.emit(MemoryEvent("recalled", tuple(memory.content for memory in found)))


async def learn(session: Session) -> None:
    """Give the memory what was said in the turn. The turn itself is stored already."""
    if session.memory is None:
        return
    messages = list(session.state.messages[session.turn.messages :])
    try:
        learned = await session.memory.save(await session.memory.extract(messages))
    except Exception as error:
        await _failed(session, "learn", error)
        return
    await session.emit(MemoryEvent("learned", tuple(memory.content for memory in learned)))


async def _failed(session: Session, what: str, error: Exception) -> None:
    if session.kit.on_memory_error == "raise":
        raise error
    log.warning("could not %s: %s: %s", what, type(error).__name__, error)
    await session.emit(MemoryEvent("failed", (), f"{what}: {type(error).__name__}: {error}"))


def with_recalled(session: Session, shown: Sequence[Message]) -> list[Message]:
    """The messages with what was recalled at the head of the turn's prompt."""
    prompt = _prompt(session)
    if session.recalled is None or prompt is None:
        return list(shown)
    told = prompt.model_copy(update={"content": f"{session.recalled}\n\n{prompt.content or ''}"})
    return [told if message is prompt else message for message in shown]


def _prompt(session: Session) -> Message | None:
    messages = session.state.messages
    first = messages[session.turn.messages] if session.turn.messages < len(messages) else None
    return first if first is not None and first.role is Role.USER else None
