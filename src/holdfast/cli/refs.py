"""Naming a checkpoint without typing its whole id."""

import re

from holdfast.cli.failures import USAGE, Failure
from holdfast.memory.checkpointer import BaseCheckpointer

MIN_PREFIX = 4
_PAGE = 1000
_BACK = re.compile(r"head(?:~(\d{1,9}))?")


async def resolve(checkpointer: BaseCheckpointer, thread_id: str, reference: str) -> str:
    """The id of the checkpoint that is meant. A whole id wins over every other reading."""
    if await checkpointer.exists(thread_id, reference):
        return reference
    head = await checkpointer.head(thread_id)
    if head is None:
        raise no_thread(thread_id)
    if back := _BACK.fullmatch(reference):
        return await _before_head(checkpointer, thread_id, int(back[1] or 0))
    if len(reference) < MIN_PREFIX:
        raise Failure(
            f"no checkpoint {reference!r} in thread {thread_id!r}: use at least {MIN_PREFIX} characters of its id",
            USAGE,
        )
    return await _by_prefix(checkpointer, thread_id, reference)


def no_thread(thread_id: str) -> Failure:
    return Failure(f"no thread {thread_id!r}")


async def _before_head(checkpointer: BaseCheckpointer, thread_id: str, back: int) -> str:
    seen, after = 0, None
    while True:
        page = await checkpointer.list_checkpoints(thread_id, min(back - seen + 1, _PAGE), after=after)
        if back < seen + len(page):
            return page[back - seen]
        seen, after = seen + len(page), page.next
        if after is None:
            raise Failure(f"no checkpoint head~{back}: thread {thread_id!r} has {seen}")


async def _by_prefix(checkpointer: BaseCheckpointer, thread_id: str, prefix: str) -> str:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await checkpointer.list_checkpoints(thread_id, _PAGE, after=after)
        found += [checkpoint_id for checkpoint_id in page if checkpoint_id.startswith(prefix)]
        after = page.next
        if after is None or len(found) > 1:
            break
    if not found:
        raise Failure(f"no checkpoint {prefix!r} in thread {thread_id!r}")
    if len(found) > 1:
        raise Failure(
            f"{prefix!r} is the beginning of several checkpoints, such as {found[0]!r} and {found[1]!r}: say more",
            USAGE,
        )
    return found[0]
