"""From a URL to both contracts on one connection."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from holdfast.core.errors import InvalidInput, Unsupported

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
    "row_security",
    "partitions",
)
_ORACLE_OPTIONS = (
    "user",
    "password",
    "wallet_location",
    "wallet_password",
    "schema_name",
    "min_pool_size",
    "max_pool_size",
    "pool_timeout",
    "call_timeout",
    "auto_create_table",
)
_POSTGRES = ("postgres", "postgresql")
_INDEX_OPTIONS = ("vector_index", "index_vectors_from")
_ORACLE_INDEX_OPTIONS = (*_INDEX_OPTIONS, "vector_organization")
_MYSQL = ("mysql", "mariadb")
_MYSQL_OPTIONS = ("password", "ssl", "connect_timeout", "max_pool_size", "pool_timeout", "auto_create_table")
_OPTIONS = {
    **dict.fromkeys(_POSTGRES, (*_SERVER_OPTIONS, *_INDEX_OPTIONS)),
    **dict.fromkeys(_MYSQL, _MYSQL_OPTIONS),
    "oracle": (*_ORACLE_OPTIONS, *_ORACLE_INDEX_OPTIONS),
}


class Connection:
    """A database with a ``store`` and, unless it keeps no threads, a ``checkpointer``. Closing it closes both."""

    def __init__(self, checkpointer: "BaseCheckpointer | None", store: "BaseStore") -> None:
        self._checkpointer = checkpointer
        self.store = store

    @property
    def keeps_threads(self) -> bool:
        """Whether there is a checkpointer. Chroma has none."""
        return self._checkpointer is not None

    @property
    def checkpointer(self) -> "BaseCheckpointer":
        """The threads. `Unsupported` on a database that keeps none."""
        if self._checkpointer is None:
            raise Unsupported(
                f"{type(self.store).__name__} has no checkpointer: this database keeps items, not threads; keep those"
                " in another, such as 'sqlite:PATH'"
            )
        return self._checkpointer

    async def close(self) -> None:
        """Close both. Calling it again does nothing."""
        await self.store.close()
        if self._checkpointer is not None:
            await self._checkpointer.close()

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
    ``mariadb://``), ``oracle://user@host:1521/service``, ``chroma:directory`` and ``chroma::memory:``, which have a
    store only, and ``memory:``. Options: those of the checkpointer (``ttl_seconds``, ``text_index``), of the store
    (``dimension``, ``distance_metric``, ``embedder``; PostgreSQL and Oracle: ``vector_index``,
    ``index_vectors_from``), of a file (``durability``, ``busy_seconds``) or a server (``password``, ``max_pool_size``,
    ``pool_timeout``; PostgreSQL: ``schema``, ``min_pool_size``, ``row_security``, ``partitions``; MySQL: ``ssl``,
    ``connect_timeout``; Oracle: ``user``, ``wallet_location``, ``wallet_password``, ``schema_name``,
    ``min_pool_size``, ``call_timeout``), ``auto_create_table``, and ``clock``.
    """
    if not isinstance(url, str):
        raise InvalidInput(f"url must be a string such as 'sqlite:holdfast.db', got {type(url).__name__}")
    scheme, _, _ = url.partition(":")
    of_database = _OPTIONS.get(scheme, _FILE_OPTIONS)
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
    if scheme == "oracle":
        return _oracle(url, options)
    if scheme == "chroma":
        return _chroma(chroma_path(url), options)
    raise InvalidInput(
        f"can't tell the database from {_without_secrets(url)!r}: use 'sqlite:PATH', a path ending in '.db',"
        " 'postgresql://HOST/DATABASE', 'mysql://HOST/DATABASE', 'oracle://HOST/SERVICE', 'chroma:PATH', or 'memory:'"
    )


def sqlite_path(url: str) -> str:
    """The file that a SQLite URL names."""
    return _path(url, "sqlite") or "holdfast.db"


def chroma_path(url: str) -> str:
    """The directory that a Chroma URL names; ``:memory:`` for the name alone, without a colon."""
    return ":memory:" if url == "chroma" else _path(url, "chroma") or "holdfast_chroma"


def _path(url: str, scheme: str) -> str:
    path = url.removeprefix(f"{scheme}:")
    if path.startswith("//"):
        path = unquote(path.removeprefix("//"))
        if path and not path.startswith("/"):
            raise InvalidInput(
                f"{url!r} names a host: use '{scheme}:relative' or '{scheme}:///absolute' with a path"
            )
    return path


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
        PostgresStore(engine=engine, **place, **_some(options, (*_STORE_OPTIONS, *_INDEX_OPTIONS))),
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


def _chroma(path: str, options: dict[str, Any]) -> Connection:
    from holdfast.memory.backends.chroma import ChromaStore

    return Connection(None, ChromaStore(path, **_some(options, (*_STORE_OPTIONS, "busy_seconds", "clock"))))


def _oracle(url: str, options: dict[str, Any]) -> Connection:
    """``oracle://user:password@host:1521/service``, or ``oracle://user@alias`` for an alias of a wallet."""
    from holdfast.memory.backends.oracle import OracleCheckpointer
    from holdfast.memory.backends.oracle_engine import oracle_engine
    from holdfast.memory.backends.oracle_store import OracleStore

    login, _, dsn = url.removeprefix("oracle:").removeprefix("//").rpartition("@")
    user, _, password = login.partition(":")
    given = {"user": unquote(user), "password": unquote(password)}
    engine = oracle_engine(
        unquote(dsn),
        **{**{name: value for name, value in given.items() if value}, **_some(options, _ORACLE_OPTIONS)},
    )
    place = _some(options, ("schema_name", "clock"))
    return Connection(
        OracleCheckpointer(engine=engine, owns_engine=True, **place, **_some(options, _CHECKPOINTER_OPTIONS)),
        OracleStore(engine=engine, **place, **_some(options, (*_STORE_OPTIONS, *_ORACLE_INDEX_OPTIONS))),
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
