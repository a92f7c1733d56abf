"""Real `oracledb` exceptions, as the driver itself makes them; and which of them an error of PostgreSQL stands for."""

from typing import Any

import oracledb
import psycopg
from oracledb import errors

BAD_CONNECT_ARGUMENTS = errors.ERR_INVALID_CONNECT_PARAMS
BIND_NOT_IN_TEXT = errors.ERR_INVALID_BIND_NAME
BIND_WITHOUT_VALUE = errors.ERR_MISSING_BIND_VALUE
CALL_TIMEOUT = errors.ERR_CALL_TIMEOUT_EXCEEDED
CONNECTION_CLOSED = errors.ERR_CONNECTION_CLOSED
CONNECTION_FAILED = errors.ERR_CONNECTION_FAILED
CURSOR_CLOSED = errors.ERR_CURSOR_NOT_OPEN
NOT_A_CHANGE = errors.ERR_EXECUTE_MODE_ONLY_FOR_DML
NOT_CONNECTED = errors.ERR_NOT_CONNECTED
FIELD_NAME = errors.ERR_OSON_FIELD_NAME_LIMITATION
NUMBER_TEXT = errors.ERR_ORACLE_NUMBER_NO_REPR
NO_VARIABLE = errors.ERR_EXPECTING_VAR
NO_ROWS = errors.ERR_NOT_A_QUERY
POOL_BUSY = errors.ERR_POOL_HAS_BUSY_CONNECTIONS
POOL_CLOSED = errors.ERR_POOL_NOT_OPEN
POOL_EXHAUSTED = errors.ERR_POOL_NO_CONNECTION_AVAILABLE
VALUE_TYPE = errors.ERR_PYTHON_VALUE_NOT_SUPPORTED
WRONG_MANY = errors.ERR_WRONG_EXECUTEMANY_PARAMETERS_TYPE
WRONG_PARAMETERS = errors.ERR_WRONG_EXECUTE_PARAMETERS_TYPE

_CODES = {
    "23505": (1, "unique constraint violated"),
    "40P01": (60, "deadlock detected while waiting for resource"),
    "55P03": (54, "resource busy and acquire with NOWAIT specified or timeout expired"),
    "42703": (904, "invalid identifier"),
    "42883": (904, "invalid identifier"),
    "42P01": (942, "table or view does not exist"),
    "3F000": (942, "table or view does not exist"),
    "42804": (932, "inconsistent datatypes"),
    "42P07": (955, "name is already used by an existing object"),
    "23502": (1400, "cannot insert NULL"),
    "22003": (1438, "value larger than specified precision allowed for this column"),
    "25006": (1456, "may not perform insert, delete, update operation inside a READ ONLY transaction"),
    "53100": (1653, "unable to extend table"),
    "40001": (8177, "can't serialize access for this transaction"),
    "22001": (12899, "value too large for column"),
    "23514": (12899, "value too large for column"),
    "2BP01": (2449, "unique/primary keys in table referenced by foreign keys"),
    "23503": (2291, "integrity constraint violated - parent key not found"),
    "22000": (
        51803,
        "Vector dimension count must match the dimension count specified in the column definition",
    ),
    "22P02": (1722, "invalid number"),
    "21000": (1427, "single-row subquery returns more than one row"),
    "42803": (937, "not a single-group group function"),
}


def ora(code: int, message: str) -> oracledb.Error:
    """An error of the server."""
    made = errors._Error(f"ORA-{code:05}: {message}", code=code)
    raised: oracledb.Error = made.exc_type(made)
    return raised


def dpy(number: int, **args: Any) -> oracledb.Error:
    """An error of the driver itself."""
    raised = errors._create_exception(number, **args)
    assert isinstance(raised, oracledb.Error)
    return raised


def translated(error: psycopg.Error, *, ddl: bool, any_right: bool) -> oracledb.Error:
    """What Oracle would have said. ``any_right``: the user may do something with the table, only not this."""
    state, text = error.sqlstate or "", str(error).replace("\n", " ")
    if not state or state in ("57P01", "57P02", "57P03"):
        return dpy(CONNECTION_CLOSED)
    if state == "57014":
        return dpy(CALL_TIMEOUT, timeout=0)
    if state == "42501":
        if ddl or any_right:
            return ora(1031, f"insufficient privileges ({text})")
        return ora(942, f"table or view does not exist ({text})")
    if ddl and state in ("42710", "23505"):  # two create the same at once
        return ora(955, "name is already used by an existing object")
    if state in ("42883", "42704", "42846") and ("clob" in text or "blob" in text):
        return ora(932, f"inconsistent datatypes: expected - got CLOB ({text})")
    if state == "21000" and "MERGE" in text:
        return ora(30926, f"unable to get a stable set of rows in the source tables ({text})")
    code, message = _CODES.get(state, (900, "invalid SQL statement"))
    return ora(code, f"{message} ({state}: {text})")
