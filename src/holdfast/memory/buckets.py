"""Where the memories of one user lie: a partition that no call can leave."""

from holdfast.core.errors import InvalidInput
from holdfast.memory import validate

__all__ = ["bucket_of", "user_of"]

_NOBODY = "anonymous"
_USER = "u:"

_LONGEST_USER = validate.MAX_ID_CHARACTERS - 2


def bucket_of(space: str, user_id: str | None) -> tuple[str, ...]:
    """The namespace of a user's memories; ``None`` is a bucket of its own, which no user id can name."""
    if user_id is None:
        return "memory", space, _NOBODY
    user = validate.identifier(user_id, "user_id")
    if len(user) > _LONGEST_USER:
        raise InvalidInput(
            f"user_id must have at most {_LONGEST_USER} characters, got {len(user)}: hash or shorten it"
        )
    return "memory", space, _USER + user


def user_of(bucket: str) -> str | None:
    """The user whose bucket has this name."""
    return None if bucket == _NOBODY else bucket.removeprefix(_USER)
