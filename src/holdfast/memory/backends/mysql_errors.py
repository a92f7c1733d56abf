"""What the errors of MariaDB and MySQL mean, by their numbers."""

from pymysql import err

from holdfast.core.errors import (
    Conflict,
    Corrupt,
    HoldfastError,
    InvalidInput,
    SchemaMismatch,
    StorageFull,
    Unavailable,
)
from holdfast.memory.backends.sql.server_engine import Failure

# Deadlock, waited too long for a lock, duplicate key, tables changed since the snapshot, a row changed since then.
_UNDONE = frozenset((1213, 1205, 1062, 1412, 1020))
_NOT_CONNECTED = frozenset((1040, 1129, 1203, 1226, 2002, 2003, 2005))
_LOST = frozenset(
    (0, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 2014, 2027, 2055, 3169, 4031)
)
_FULL = frozenset((1021, 1114))
_OTHER_TABLES = frozenset((1054, 1146))
_NO_RIGHTS = frozenset((1044, 1045, 1142, 1143, 1227, 1410))
_CORRUPT = frozenset((1034, 1035, 1194, 1712, 1877, 1878))
_TOO_LARGE = frozenset((1153, 1301, 1406))
_PASSING = frozenset((1049, 1290, 1317, 1792, 1836, 1969, 2026, 2061, 3024))


class PoolTimeout(Exception):
    """No connection was free in time."""


def failure(error: Exception, place: str) -> Failure | None:
    """What the error means; ``None`` if it is not the driver's."""
    if isinstance(error, OSError) and not isinstance(error, HoldfastError):
        return Failure(Unavailable(f"{place}: {error}; whether it was done is not known"), lost=True)
    if not isinstance(error, err.MySQLError):
        return None
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = f"{place}: {error.args[-1] if error.args else error!r} ({code})"
    if code in _UNDONE:
        return Failure(Conflict(f"{text}; another writer was first"), undone=True)
    if code in _NOT_CONNECTED:
        return Failure(Unavailable(text), lost=True)
    if code in _LOST:
        return Failure(Unavailable(f"{text}; whether it was done is not known"), lost=True)
    return Failure(_meaning(code, text, place))


def _meaning(code: int, text: str, place: str) -> HoldfastError:
    if code in _FULL or (code == 1030 and " 28 " in text):
        return StorageFull(f"{text}; nothing was written, what was stored stays readable")
    if code in _OTHER_TABLES:
        return SchemaMismatch(f"{text}; its tables were changed or dropped")
    if code in _NO_RIGHTS:
        return Unavailable(f"{text}; the user lacks a right that it needs")
    if code in _TOO_LARGE:
        return InvalidInput(f"{text}: it is larger than the server takes")
    if code in _CORRUPT:
        return Corrupt(text, place=place)
    return Unavailable(text) if code in _PASSING else HoldfastError(text)
