"""Tools with which a model uses its user's long-term memory by itself."""

from collections.abc import Callable
from typing import Any

from holdfast.agent.context import RunContext, get_run_context
from holdfast.memory.agent_memory import AgentMemory
from holdfast.memory.branches import View
from holdfast.memory.episodes import Episode
from holdfast.memory.extract.gate import has_secret
from holdfast.memory.facts import FactStore
from holdfast.memory.fence import unfenced
from holdfast.memory.following import Following
from holdfast.tools import Tool, tool

__all__ = ["memory_tools"]

SPEAKER = "note"


def memory_tools(
    memory: AgentMemory, following: "Callable[[str | None], Following | None]" = lambda _: None
) -> "list[Tool[..., Any]]":
    """``remember``, ``recall`` and ``forget``, for the user whose run calls them. With ``following``, they see what the
    run's thread sees."""

    async def view(context: RunContext) -> tuple[View, FactStore | None]:
        follows = following(context.user_id)
        if follows is None or context.thread_id is None:
            return View(context.thread_id or ""), memory.facts
        seen = await follows.view(context.thread_id)
        return seen, follows.facts(seen)

    @tool(idempotent=True)
    async def remember(note: str) -> str:
        """Keep something about the user for later conversations.

        Args:
            note: One sentence that makes sense by itself.
        """
        (note,) = unfenced([note])
        if not note.strip():
            return "Not kept: there is nothing new in it."
        if has_secret(note):
            return "Not kept: it seems to hold a password, a key or a card number."
        context = get_run_context()
        kept = Episode(
            text=note,
            speaker=SPEAKER,
            session_id=context.thread_id or "notes",
            checkpoint=context.checkpoint_id,
            id=context.idempotency_key,
        )
        await memory.remember_all([kept], user_id=context.user_id, learn=memory.facts is not None)
        return "Kept."

    @tool(idempotent=True)
    async def recall(question: str, limit: int = 8) -> list[str]:
        """Look for something in earlier conversations with the user.

        Args:
            question: What you want to know, in words that were probably used.
            limit: How many at most.
        """
        context, most = get_run_context(), max(1, min(limit, 50))
        seen, _ = await view(context)
        found = await memory.recall(question, most if seen.whole else 4 * most, user_id=context.user_id)
        found = [episode for episode in found if seen.shows(episode.session_id, episode.id)][:most]
        return [f"{e.occurred_at:%Y-%m-%d} {e.speaker or 'somebody'}: {e.text}" for e in found]

    @tool(idempotent=True)
    async def forget(subject: str, predicate: str, object: str) -> str:
        """Mark a fact as wrong, when the user says that it is. Its history is kept, so this can be undone.

        Args:
            subject: Whom or what it is about; "user" for the user.
            predicate: What is said of it, such as lives_in.
            object: The value that is wrong.
        """
        context = get_run_context()
        _, facts = await view(context)
        if facts is None:
            return "There are no facts here."
        user_id = context.user_id
        found = await facts.query(subject=subject, predicate=predicate, object=object, user_id=user_id)
        for fact in found:
            await facts.retract(
                fact.id,
                "the user said that it is wrong",
                user_id=user_id,
                author="agent",
                checkpoint=context.checkpoint_id,
            )
        return f"{len(found)} marked as wrong." if found else "No such fact is known."

    return [remember, recall, forget]
