"""All that can be observed of a checkpointer, as one comparable value."""

from typing import Any

from holdfast.memory.checkpointer import BaseCheckpointer

_ALL = 100_000


async def observe(checkpointer: BaseCheckpointer, query: str) -> dict[str, Any]:
    """Threads in order, and every thread's history, states, pending writes; hits; what a prune would take.

    Two checkpointers with equal observations can't be told apart by what they hold.
    """
    declared = checkpointer.capabilities
    threads = list(await checkpointer.list_threads(_ALL))
    stats = await checkpointer.stats()
    seen: dict[str, Any] = {
        "threads": threads,
        "counts": (stats.threads, stats.checkpoints, stats.pending_writes),
    }
    for thread_id in threads:
        seen[f"history of {thread_id!r}"] = history = list(await checkpointer.history(thread_id, _ALL))
        seen[f"head of {thread_id!r}"] = await checkpointer.get(thread_id)
        for info in history:
            place = f"{info.checkpoint_id} of {thread_id!r}"
            seen[f"state at {place}"] = await checkpointer.load(thread_id, info.checkpoint_id)
        if declared.pending_writes and stats.pending_writes:
            seen[f"writes of {thread_id!r}"] = [
                await checkpointer.get_writes(thread_id, info.checkpoint_id) for info in history
            ]
    if declared.list_with_metadata:
        seen["metadata"] = list(await checkpointer.list_with_metadata(_ALL))
    if declared.metadata_query:
        seen["found by metadata"] = list(await checkpointer.query_by_metadata("n", 1, _ALL))
    if declared.search:
        hits = await checkpointer.search(query, _ALL)
        seen["hits"] = sorted((hit["thread_id"], hit["checkpoint_id"], hit["snippet"]) for hit in hits)
    if declared.retention:
        seen["prunable"] = (await checkpointer.prune(keep_last=1, dry_run=True)).removed
    return seen
