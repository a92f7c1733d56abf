"""From connection arguments to an engine on PostgreSQL."""

from typing import Any

from holdfast.core.errors import InvalidInput, MissingExtra
from holdfast.memory.backends.sql.dialect import Dialect, checked_identifier
from holdfast.memory.backends.sql.server_engine import ServerEngine

POSTGRES = Dialect(
    name="postgres",
    key="BYTEA",
    id_text='TEXT COLLATE "C"',
    text="TEXT",
    number="BIGINT",
    binary="BYTEA",
    row_number="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    find="STRPOS",
    substring="SUBSTR",
    greatest="GREATEST",
    clustered="",
    partial_indexes=True,
    lock=" FOR UPDATE",
)

DATABASE = "holdfast"


def postgres_engine(
    dsn: str | None = None,
    *,
    host: str = "localhost",
    port: int = 5432,
    database: str = DATABASE,
    user: str = "postgres",
    password: Any = "",
    schema: str | None = None,
    min_pool_size: int = 1,
    max_pool_size: int = 10,
    pool_timeout: float = 30.0,
    auto_create_table: bool = True,
    blocking: bool = False,
) -> ServerEngine:
    """An engine on that database; ``dsn`` overrides the parts. ``password`` may be a `SecretStr`.

    ``schema``: the tables are there, not where the server looks first. ``blocking``: for a synchronous twin.
    """
    try:
        from holdfast.memory.backends.postgres_driver import AsyncDriver, BlockingDriver, connection_info
    except ImportError as error:
        raise MissingExtra("PostgreSQL", "postgres") from error
    if schema is not None:
        checked_identifier(schema, "schema")
    if not (type(min_pool_size) is type(max_pool_size) is int and 0 <= min_pool_size <= max_pool_size > 0):
        raise InvalidInput(
            "min_pool_size and max_pool_size must be whole numbers with 0 <= min_pool_size <= max_pool_size > 0,"
            f" got {min_pool_size!r} and {max_pool_size!r}"
        )
    parts = {"host": host, "port": port, "dbname": database, "user": user, "password": _revealed(password)}
    info = connection_info(dsn, parts)
    driver = (BlockingDriver if blocking else AsyncDriver)(
        info, schema=schema, min_size=min_pool_size, max_size=max_pool_size, pool_timeout=pool_timeout
    )
    return ServerEngine(driver, auto_create_table=auto_create_table)


def _revealed(password: Any) -> str:
    if hasattr(password, "get_secret_value"):  # pydantic's SecretStr, or anything like it
        password = password.get_secret_value()
    if not isinstance(password, str):
        raise InvalidInput(f"password must be a string or a SecretStr, got {type(password).__name__}")
    return password
