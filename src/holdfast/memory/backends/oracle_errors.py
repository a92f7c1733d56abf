"""What the errors of Oracle Database and of its driver mean, by their codes."""

import oracledb

from holdfast.core.errors import (
    Closed,
    Conflict,
    Corrupt,
    HoldfastError,
    InvalidInput,
    SchemaMismatch,
    StorageFull,
    Unavailable,
)
from holdfast.memory.backends.sql.server_engine import Failure

_UNDONE = (1, 60, 2291, 8177)  # unique key, deadlock, what it refers to has gone, can't serialize
_FULL = (1536, 1652, 1653, 1654, 1658, 1688, 1691, 1692, 30036, 257)
_CHANGED = (904, 942, 2289)
_TOO_LONG = (1461, 12899, 1450)
_LOST = ("DPY-1001", "DPY-4011")
# A password that is wrong, locked or expired; a server that starts or stops; a call that took too long; a lock.
_PASSING = (1005, 1017, 1033, 1034, 1089, 1090, 1109, 1013, 54, 30006, 28000, 28001)


class LostBeforeCommit(Exception):
    """The connection broke while nothing had been told to commit: the server undoes what was sent."""

    def __init__(self, error: oracledb.Error) -> None:
        super().__init__(str(error))
        self.error = error


def code_of(error: oracledb.Error) -> int:
    """The number of the server's error, 0 for one of the driver."""
    return int(getattr(error.args[0], "code", 0)) if error.args else 0


def is_lost(error: oracledb.Error) -> bool:
    """Whether the connection is gone."""
    what = error.args[0] if error.args else None
    return str(getattr(what, "full_code", "")) in _LOST or bool(getattr(what, "is_session_dead", False))


def failure_of(error: Exception, place: str, pool_timeout: float) -> Failure | None:
    """What the error means; ``None`` if it is not the driver's."""
    if isinstance(error, LostBeforeCommit):
        lost = Unavailable(f"{place}: {str(error).splitlines()[0]}; nothing was written")
        return Failure(lost, undone=True, lost=True)
    if not isinstance(error, oracledb.Error):
        return None
    code, full_code = code_of(error), str(getattr(error.args[0] if error.args else None, "full_code", ""))
    text = f"{place}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    if code in _UNDONE:
        return Failure(Conflict(f"{place}: another writer was first: {text}"), undone=True)
    if is_lost(error):
        return Failure(Unavailable(f"{text}; whether it was done is not known"), lost=True)
    if full_code == "DPY-1002":
        return Failure(Closed(f"{place} is closed"))
    if full_code == "DPY-4005":
        return Failure(Unavailable(f"{place}: no connection was free within {pool_timeout:g} s"))
    return Failure(_meaning(code, full_code, text, place))


def _meaning(code: int, full_code: str, text: str, place: str) -> HoldfastError:
    if code in _FULL:
        return StorageFull(f"{text}; nothing was written, what was stored stays readable")
    if code in _CHANGED:
        return SchemaMismatch(f"{text}; its tables were changed or dropped, or the user may not see them")
    if code == 1031:
        return Unavailable(f"{text}; the user lacks a right that it needs")
    if code in _TOO_LONG:
        return InvalidInput(f"{text}; a namespace has at most 2,000 bytes on Oracle")
    if code == 1578:
        return Corrupt(text, place=place)
    # Connecting, and logging in.
    refused = full_code.startswith(("DPY-6", "DPY-4", "DPY-2")) or 12150 <= code <= 12699
    return Unavailable(text) if refused or code in _PASSING else HoldfastError(text)
