"""Oracle Database: its dialect, and from connection arguments to an engine."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.core.errors import HoldfastError, InvalidInput, MissingExtra, SchemaMismatch
from holdfast.memory.backends.oracle_dialect import OracleDialect
from holdfast.memory.backends.oracle_sql import WITH_JSON, document, oracle_text
from holdfast.memory.backends.sql.dialect import checked_identifier
from holdfast.memory.backends.sql.plan import Plan, Statement, change, many, rows
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.backends.sql.server_engine import ServerEngine
from holdfast.memory.backends.sql.text_index import IndexRow

ORACLE: Final = OracleDialect(
    name="oracle",
    key="RAW(16)",
    # 255 characters of any kind are at most 1,530 bytes when they are encoded; three such columns fit in an index.
    id_text="VARCHAR2(2000 BYTE)",
    text="CLOB",
    number="NUMBER(19)",
    binary="BLOB",
    row_number="NUMBER(19) GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    find="INSTR",
    substring="SUBSTR",
    greatest="GREATEST",
    clustered="",
    lock=" FOR UPDATE",
    bind_document=document,
    counted=True,
    queued=True,
)

TABLES: Final = "holdfast"
PORT: Final = 1521
_TLS_PORT = 1522  # where Autonomous Database listens


class Postings:
    """Our analyser's terms in a table: which entry of which scope has which."""

    def ddl(self, words: str) -> tuple[str, ...]:
        index = words.rpartition(".")[2]
        return (
            f"""CREATE TABLE {words} (scope VARCHAR2(16 BYTE) NOT NULL, term VARCHAR2(2000 BYTE) NOT NULL,
            id NUMBER(19) NOT NULL, PRIMARY KEY (scope, term, id))""",
            f"CREATE INDEX {index}_entry ON {words} (id)",
        )

    def add(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        return many(
            f"INSERT INTO {words} (scope, term, id) VALUES (?, ?, ?)",
            [
                (scope, term, number)
                for number, scope, text in index_rows
                for term in dict.fromkeys(map(_word, text.split()))
            ],
        )

    def remove(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        return many(f"DELETE FROM {words} WHERE id = ?", [(number,) for number, _, _ in index_rows])

    def match(self, words: str, scope: str, term: str, limit: int) -> Statement:
        return rows(
            f"SELECT id FROM {words} WHERE scope = ? AND term = ? ORDER BY id DESC LIMIT ?",
            *(scope, _word(term), limit),
        )

    def clear(self, words: str) -> Statement:
        return change(f"DELETE FROM {words}")

    def compact(self, words: str) -> Statement:
        """The server reuses the room by itself."""
        return rows("SELECT 1 FROM DUAL")


def _word(term: str) -> str:
    """The term, cut to what the column holds."""
    return term if len(term) <= 500 else term.encode()[:2000].decode(errors="ignore")


def nothing() -> Plan[None]:
    """What is asked of tables only for them to be there."""
    yield [rows("SELECT 1 FROM DUAL")]


def code_in(error: HoldfastError) -> int:
    """The number of the server's error behind one of ours, if there is one."""
    cause = error.__cause__
    return int(getattr(cause.args[0], "code", 0) or 0) if cause is not None and cause.args else 0


class OracleEngine(ServerEngine):
    """Plans on Oracle. The DDL that it says is missing is Oracle's."""

    @property
    def release(self) -> int:
        """Of the server, once it has been asked something."""
        return int(getattr(self.driver, "server_release", 0))

    async def _prepare(self, schema: Schema) -> None:
        try:
            await super()._prepare(schema)
        except SchemaMismatch as error:
            if error.ddl:
                statements = error.ddl.removesuffix(";\n").split(";\n")
                json = self.release >= WITH_JSON
                error.ddl = "".join(f"{oracle_text(statement, json=json).sql};\n" for statement in statements)
            raise


def oracle_engine(
    dsn: str | None = None,
    *,
    user: str = "admin",
    password: Any = "",
    wallet_location: str | os.PathLike[str] | None = None,
    wallet_password: Any = None,
    host: str | None = None,
    port: int = PORT,
    service_name: str | None = None,
    schema_name: str | None = None,
    min_pool_size: int = 1,
    max_pool_size: int = 5,
    pool_timeout: float = 30.0,
    call_timeout: float | None = None,
    auto_create_table: bool = True,
    blocking: bool = False,
) -> OracleEngine:
    """An engine on that database. Either ``dsn`` (an alias of ``tnsnames.ora``, ``host:port/service``, a descriptor)
    or ``host`` and ``service_name``.

    Passwords may be `SecretStr`; a wallet without a password, or with an empty one, opens by itself. ``schema_name``:
    the tables are there, if not in the user's own. ``call_timeout``: seconds that a round trip may take.
    """
    try:
        from holdfast.memory.backends.oracle_driver import AsyncOracleDriver, BlockingOracleDriver
    except ImportError as error:
        raise MissingExtra("Oracle Database", "oracle") from error
    if schema_name is not None:
        checked_identifier(schema_name, "schema_name")
    if not (type(min_pool_size) is type(max_pool_size) is int and 0 <= min_pool_size <= max_pool_size > 0):
        raise InvalidInput(
            "min_pool_size and max_pool_size must be whole numbers with 0 <= min_pool_size <= max_pool_size > 0,"
            f" got {min_pool_size!r} and {max_pool_size!r}"
        )
    arguments: dict[str, Any] = {
        "user": user,
        "password": _revealed(password, "password"),
        **_place(dsn, host, port, service_name, wallet=wallet_location is not None),
        **_wallet(wallet_location, wallet_password),
        "min": min_pool_size,
        "max": max_pool_size,
        "wait_timeout": round(pool_timeout * 1000),
    }
    driver = (BlockingOracleDriver if blocking else AsyncOracleDriver)(
        arguments, schema=schema_name, call_timeout=0 if call_timeout is None else round(call_timeout * 1000)
    )
    return OracleEngine(driver, auto_create_table=auto_create_table)


def _place(
    dsn: str | None, host: str | None, port: int, service_name: str | None, *, wallet: bool
) -> dict[str, Any]:
    if dsn is not None and not isinstance(dsn, str):
        raise InvalidInput(f"dsn must be a string such as 'host:1521/service', got {type(dsn).__name__}")
    if dsn:
        if host is not None:
            raise InvalidInput("dsn and host can't both be given: one of them says where the database is")
        return {"dsn": dsn}
    if not host or not service_name:
        raise InvalidInput("either dsn, or host and service_name must be given")
    tls = wallet or port == _TLS_PORT
    return {"host": host, "port": port, "service_name": service_name, "protocol": "tcps" if tls else "tcp"}


def _wallet(location: str | os.PathLike[str] | None, password: Any) -> dict[str, Any]:
    if location is None:
        return {}
    folder = str(Path(location).expanduser())
    revealed = "" if password is None else _revealed(password, "wallet_password")
    # The folder also has the aliases that a dsn may name.
    return {"config_dir": folder, "wallet_location": folder, "wallet_password": revealed or None}


def _revealed(password: Any, field: str) -> str:
    if hasattr(password, "get_secret_value"):  # pydantic's SecretStr, or anything like it
        password = password.get_secret_value()
    if not isinstance(password, str):
        raise InvalidInput(f"{field} must be a string or a SecretStr, got {type(password).__name__}")
    return password
