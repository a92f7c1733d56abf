"""From a URL to both contracts on one connection."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from holdfast.core.errors import InvalidInput

if TYPE_CHECKING:
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.store import BaseStore

_CHECKPOINTER_OPTIONS = ("ttl_seconds", "text_index")
_STORE_OPTIONS = ("dimension", "distance_metric", "embedder")
_FILE_OPTIONS = ("durability", "busy_seconds", "auto_create_table")
_SERVER_OPTIONS = (
    "password",
    "schema",
    "min_pool_size",
    "max_pool_size",
    "pool_timeout",
    "auto_create_table",
)
_POSTGRES = ("postgres", "postgresql")
_MYSQL = ("mysql", "mariadb")
_MYSQL_OPTIONS = ("password", "ssl", "connect_timeout", "max_pool_size", "pool_timeout", "auto_create_table")


class Connection:
    """A database with a ``checkpointer`` and a ``store``. Closing it closes both."""

    def __init__(self, checkpointer: "BaseCheckpointer", store: "BaseStore") -> None:
        self.checkpointer = checkpointer
        self.store = store

    async def close(self) -> None:
        """Close both. Calling it again does nothing."""
        await self.store.close()
        await self.checkpointer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def connect(url: str, **options: Any) -> Connection:
    """Open a database by its URL. Nothing is read or written before the first call.

    ``sqlite:notes.db``, ``sqlite:/var/notes.db``, ``sqlite:///var/notes.db``, ``sqlite::memory:``, a plain path that
    ends in ``.db``, ``postgresql://user@host/database`` (or ``postgres://``), ``mysql://user@host/database`` (or
    ``mariadb://``), and ``memory:``. Options: those of the checkpointer (``ttl_seconds``, ``text_index``), of the store
    (``dimension``, ``distance_metric``, ``embedder``), of a file (``durability``, ``busy_seconds``) or a server
    (``password``, ``max_pool_size``, ``pool_timeout``; PostgreSQL: ``schema``, ``min_pool_size``; MySQL: ``ssl``,
    ``connect_timeout``), ``auto_create_table``, and ``clock``.
    """
    if not isinstance(url, str):
        raise InvalidInput(f"url must be a string such as 'sqlite:holdfast.db', got {type(url).__name__}")
    scheme, _, _ = url.partition(":")
    of_database = (
        _SERVER_OPTIONS if scheme in _POSTGRES else _MYSQL_OPTIONS if scheme in _MYSQL else _FILE_OPTIONS
    )
    known = {*_CHECKPOINTER_OPTIONS, *_STORE_OPTIONS, *of_database, "clock"}
    if unknown := sorted(set(options) - known):
        raise InvalidInput(f"unknown option {unknown[0]!r}{_nearest(unknown[0], known)}")
    if url in ("memory:", "inmemory"):
        return _in_memory(options)
    if scheme == "sqlite" or url.endswith(".db"):
        return _sqlite(sqlite_path(url), options)
    if scheme in _POSTGRES:
        return _postgres(url, options)
    if scheme in _MYSQL:
        return _mysql(url, options)
    raise InvalidInput(
        f"can't tell the database from {_without_secrets(url)!r}:"
        " use 'sqlite:PATH', a path ending in '.db', 'postgresql://HOST/DATABASE',"
        " 'mysql://HOST/DATABASE', or 'memory:'"
    )


def sqlite_path(url: str) -> str:
    """The file that a SQLite URL names."""
    path = url.removeprefix("sqlite:") if url.startswith("sqlite:") else url
    if path.startswith("//"):
        path = unquote(path.removeprefix("//"))
        if path and not path.startswith("/"):
            raise InvalidInput(f"{url!r} names a host: use 'sqlite:relative.db' or 'sqlite:///absolute.db'")
    return path or "holdfast.db"


def _sqlite(path: str, options: dict[str, Any]) -> Connection:
    from holdfast.memory.backends.sqlite import SQLiteCheckpointer
    from holdfast.memory.backends.sqlite_engine import ThreadedSqliteEngine
    from holdfast.memory.backends.sqlite_store import SQLiteStore

    engine = ThreadedSqliteEngine(path, **_some(options, _FILE_OPTIONS))
    return Connection(
        SQLiteCheckpointer(
            engine=engine, owns_engine=True, **_some(options, (*_CHECKPOINTER_OPTIONS, "clock"))
        ),
        SQLiteStore(engine=engine, **_some(options, (*_STORE_OPTIONS, "clock"))),
    )


def _postgres(url: str, options: dict[str, Any]) -> Connection:
    from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
    from holdfast.memory.backends.postgres_engine import postgres_engine
    from holdfast.memory.backends.postgres_store import PostgresStore

    engine = postgres_engine(url, **_some(options, _SERVER_OPTIONS))
    place = _some(options, ("schema", "clock"))
    return Connection(
        PostgreSQLCheckpointer(
            engine=engine, owns_engine=True, **place, **_some(options, _CHECKPOINTER_OPTIONS)
        ),
        PostgresStore(engine=engine, **place, **_some(options, _STORE_OPTIONS)),
    )


def _mysql(url: str, options: dict[str, Any]) -> Connection:
    from holdfast.memory.backends.mysql import MySQLCheckpointer
    from holdfast.memory.backends.mysql_engine import mysql_engine
    from holdfast.memory.backends.mysql_store import MySQLStore

    engine = mysql_engine(url, **_some(options, _MYSQL_OPTIONS))
    return Connection(
        MySQLCheckpointer(
            engine=engine, owns_engine=True, **_some(options, (*_CHECKPOINTER_OPTIONS, "clock"))
        ),
        MySQLStore(engine=engine, **_some(options, (*_STORE_OPTIONS, "clock"))),
    )


def _in_memory(options: dict[str, Any]) -> Connection:
    from holdfast.memory.backends.memory import MemoryCheckpointer
    from holdfast.memory.backends.memory_store import InMemoryStore

    return Connection(
        MemoryCheckpointer(**_some(options, ("ttl_seconds", "clock"))),
        InMemoryStore(**_some(options, (*_STORE_OPTIONS, "clock"))),
    )


def _some(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def _nearest(name: str, known: set[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    return f": did you mean {close[0]!r}?" if close else f": known are {', '.join(sorted(known))}"


def _without_secrets(url: str) -> str:
    """A password never appears in an error."""
    scheme, separator, rest = url.partition("://")
    _, at, host = rest.rpartition("@")
    return f"{scheme}{separator}***@{host}" if separator and at else url
