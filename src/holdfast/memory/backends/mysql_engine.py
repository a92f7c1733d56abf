"""MariaDB and MySQL: the dialect, and from connection arguments to an engine."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.core.errors import InvalidInput, MissingExtra
from holdfast.memory.backends.sql.connecting import check_pool_sizes, revealed
from holdfast.memory.backends.sql.dialect import Dialect
from holdfast.memory.backends.sql.server_engine import ServerEngine

DATABASE = "holdfast"
# Compared by code point, and no two texts are equal that are not the same: neither case nor accents nor spaces at the
# end are left out. On MySQL the session writes the name that this collation has there.
_EXACT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
_PREFIX = 255  # characters of up to 4 bytes: an index takes 3072 bytes
_TLS_MODES = ("DISABLED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")


@dataclass(frozen=True, slots=True)
class MySQLDialect(Dialect):
    """Long texts don't fit into an index: a digest of them is unique instead, and what they begin with is indexed."""

    def place(self, *columns: str) -> str:
        # No encoded id has the byte between them.
        digest = f"UNHEX(SHA2(CONCAT({', 0x00, '.join(columns)}), 256))"
        return f", place BINARY(32) NOT NULL DEFAULT ({digest})"

    def primary(self, *columns: str) -> str:
        parts = ", ".join(self.part(column) for column in columns)
        return f"PRIMARY KEY (place), KEY by_parts ({parts}){self.place(*columns)}"

    def unique_index(self, name: str, table: str, *columns: str) -> tuple[str, ...]:
        parts = ", ".join([*map(self.part, columns[:1]), *columns[1:]])
        return (
            f"CREATE UNIQUE INDEX {name} ON {table} (place)",
            f"CREATE INDEX {name}_parts ON {table} ({parts})",
        )

    def part(self, column: str) -> str:
        return f"{column}({_PREFIX})"


MYSQL = MySQLDialect(
    name="mysql",
    key="BINARY(16)",
    id_text=f"VARCHAR(511) {_EXACT}",  # 255 characters, each of them encoded as two, and a letter
    path_text=f"VARCHAR(4096) {_EXACT}",
    text=f"LONGTEXT {_EXACT}",
    number="BIGINT",
    binary="LONGBLOB",
    row_number="BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
    find="INSTR",
    substring="SUBSTR",
    greatest="GREATEST",
    clustered="",
    lock=" FOR UPDATE",
    counted=True,
    queued=True,
)


def mysql_engine(
    dsn: str | None = None,
    *,
    host: str = "localhost",
    port: int = 3306,
    database: str = DATABASE,
    user: str = "root",
    password: Any = "",
    unix_socket: str | None = None,
    ssl: Any = None,
    connect_timeout: float = 10.0,
    max_pool_size: int = 10,
    pool_timeout: float = 30.0,
    auto_create_table: bool = True,
    blocking: bool = False,
) -> ServerEngine:
    """An engine on that database; ``dsn`` is a URL and overrides the parts. ``password`` may be a `SecretStr`, and is
    taken in place of the one in the URL.

    ``ssl``: an `ssl.SSLContext`, or one of the modes of a URL's ``ssl_mode``. ``blocking``: for a synchronous twin.
    """
    try:
        from holdfast.memory.backends.mysql_driver import AsyncDriver, BlockingDriver

        if not blocking:
            import aiomysql  # noqa: F401 (is it there?)
    except ImportError as error:
        raise MissingExtra("MySQL", "mysql") from error
    check_pool_sizes(0, max_pool_size)
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "database": database,
        "user": user,
        "password": revealed(password),
        "unix_socket": unix_socket,
        "ssl": ssl,
    }
    if dsn is not None:
        options |= _from_url(dsn)
        options["password"] = revealed(password) or options["password"]
    tls = {name: options.pop(name) for name in ("ssl_ca", "ssl_cert", "ssl_key") if name in options}
    options["ssl"] = _tls(options["ssl"], **tls)
    options["connect_timeout"] = connect_timeout
    driver = (BlockingDriver if blocking else AsyncDriver)(
        options, max_size=max_pool_size, pool_timeout=pool_timeout
    )
    return ServerEngine(driver, auto_create_table=auto_create_table)


def _from_url(url: object) -> dict[str, Any]:
    """The options in a URL. One that can't be read is not shown: it may have a password in it."""
    usage = "such as 'mysql://user:password@host:3306/database'"
    if not isinstance(url, str):
        raise InvalidInput(f"dsn must be a URL {usage}, got {type(url).__name__}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput(f"dsn is not a URL {usage}") from None
    if parts.scheme not in ("mysql", "mariadb") or not parts.path.strip("/"):
        raise InvalidInput(f"dsn must be a URL with a database {usage}")
    options: dict[str, Any] = {"database": unquote(parts.path.removeprefix("/"))}
    for name, value in (("host", parts.hostname), ("user", parts.username), ("password", parts.password)):
        if value:
            options[name] = unquote(value)
    if port is not None:
        options["port"] = port
    known = {"unix_socket": "unix_socket", "ssl_mode": "ssl", "ssl_ca": "ssl_ca", "ssl_cert": "ssl_cert"}
    known["ssl_key"] = "ssl_key"
    for name, value in parse_qsl(parts.query):
        if name not in known:
            raise InvalidInput(
                f"the dsn's option {name!r} is not known: known are {', '.join(sorted(known))}"
            )
        options[known[name]] = value
    return options


def _tls(
    mode: Any, ssl_ca: str | None = None, ssl_cert: str | None = None, ssl_key: str | None = None
) -> Any:
    """A context for TLS; ``None`` is none. With a certificate of an authority and no mode, all is verified."""
    import ssl

    if isinstance(mode, ssl.SSLContext):
        return mode
    if mode is None:
        mode = "VERIFY_IDENTITY" if ssl_ca or ssl_cert else "DISABLED"
    if not isinstance(mode, str) or mode.upper() not in _TLS_MODES:
        raise InvalidInput(
            f"ssl must be an ssl.SSLContext or one of {', '.join(_TLS_MODES)}, got {type(mode).__name__} {mode!r}"
        )
    if mode.upper() == "DISABLED":
        return None
    context = ssl.create_default_context(cafile=ssl_ca)
    context.check_hostname = mode.upper() == "VERIFY_IDENTITY"
    if mode.upper() == "REQUIRED":
        context.verify_mode = ssl.CERT_NONE
    if ssl_cert:
        context.load_cert_chain(ssl_cert, ssl_key)
    return context
