"""What PostgreSQL's errors mean, in one place."""

from psycopg import Error, OperationalError
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from holdfast.core.errors import (
    Closed,
    Conflict,
    Corrupt,
    HoldfastError,
    SchemaMismatch,
    StorageFull,
    Unavailable,
)
from holdfast.memory.backends.sql.server_engine import Failure

_UNDONE = {"40001", "40P01", "23505"}  # serialization, deadlock, unique violation: another writer was first


def failure_of(error: Exception, place: str, pool_timeout: float) -> Failure | None:
    """``None`` if the error is not the driver's."""
    if isinstance(error, PoolTimeout | TooManyRequests):
        return Failure(Unavailable(f"{place}: no connection was free within {pool_timeout:g} s"))
    if isinstance(error, PoolClosed):
        return Failure(Closed(f"{place} is closed"))
    if not isinstance(error, Error):
        return None
    state = error.sqlstate or ""
    text = f"{place}: {error}"
    if state in _UNDONE:
        return Failure(Conflict(f"{place}: another writer was first: {error}"), undone=True)
    if not state and isinstance(error, OperationalError):
        return Failure(Unavailable(f"{text}; whether it was done is not known"), lost=True)
    if state[:2] == "57" and state != "57014":  # the server is stopped, or cut this session off
        return Failure(Unavailable(text), lost=True)
    return Failure(_meaning(state, text, place))


def _meaning(state: str, text: str, place: str) -> HoldfastError:
    if state[:2] == "53" and state not in ("53300", "53400"):
        return StorageFull(f"{text}; nothing was written, what was stored stays readable")
    if state in ("42P01", "42703", "3F000"):
        return SchemaMismatch(f"{text}; its tables were changed or dropped")
    if state == "42501":
        return Unavailable(f"{text}; the role lacks a right that it needs")
    if state in ("XX001", "XX002"):
        return Corrupt(text, place=place)
    if state[:2] in ("08", "25", "28", "3D", "53", "55", "57", "58"):
        return Unavailable(text)
    return HoldfastError(text)
