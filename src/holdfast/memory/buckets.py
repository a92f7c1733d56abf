"""Where the memories of one user lie: a partition that no call can leave."""

from typing import Final

from holdfast.core.errors import InvalidInput
from holdfast.memory import validate
from holdfast.memory.cursors import decode_cursor, encode_cursor
from holdfast.memory.namespaces import encode_namespace
from holdfast.memory.records import Page
from holdfast.memory.store import BaseStore

__all__ = ["ROOT", "bucket_of", "is_bucket", "list_users", "user_of"]

ROOT: Final = "memory"
"""The first part of all namespaces of memories."""
_ANONYMOUS: Final = "anonymous"
_USER: Final = "u:"
_LONGEST_USER: Final = validate.MAX_ID_CHARACTERS - len(_USER)
_PORTION: Final = 1000


def bucket_of(space: str, user_id: str | None) -> tuple[str, ...]:
    """The namespace of a user's memories; ``None`` is a bucket of its own, which no user id can name."""
    if user_id is None:
        return ROOT, space, _ANONYMOUS
    user = validate.identifier(user_id, "user_id")
    if len(user) > _LONGEST_USER:
        raise InvalidInput(
            f"user_id must have at most {_LONGEST_USER} characters, got {len(user)}: hash or shorten it"
        )
    return ROOT, space, _USER + user


def is_bucket(name: str) -> bool:
    """Whether that third part of a namespace is a user's; there are others."""
    return name == _ANONYMOUS or name.startswith(_USER)


def user_of(bucket: str) -> str | None:
    """The user whose bucket that is."""
    return None if bucket == _ANONYMOUS else bucket.removeprefix(_USER)


async def list_users(store: BaseStore, space: str, limit: int, after: str | None) -> Page[str | None]:
    """Users of whom anything is kept, in a fixed order; ``None``, if there, is the first.

    A cursor is the last user and where the portion that had them began: what comes and goes meanwhile moves nobody.
    """
    start, last = (None, None) if after is None else decode_cursor(after, "users", 2)
    passed = "" if last is None else encode_namespace((validate.text(last, "after"),))
    found: list[str] = []
    began: str | None = None
    while limit:
        page = await store.list_namespaces((ROOT, space), _PORTION, after=start)
        for bucket in dict.fromkeys(place[2] for place in page if len(place) > 2 and is_bucket(place[2])):
            if encode_namespace((bucket,)) <= passed:
                continue
            if len(found) == limit:
                return Page([user_of(name) for name in found], encode_cursor("users", began, found[-1]))
            found.append(bucket)
            passed, began = encode_namespace((bucket,)), start
        start = page.next
        if start is None:
            break
    return Page([user_of(name) for name in found])
