"""The database behind the double: a schema and a role on PostgreSQL for each Oracle user."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psycopg

from tests.oracle.compat import SCHEMA, SETUP
from tests.servers.emptying import empty_postgres

_numbers = count(1)


@dataclass
class OracleDatabase:
    """One Oracle database: its release, where its data is, and what tests do to it."""

    url: str
    release: int = 23
    compatible: int = 23
    """The parameter COMPATIBLE: a lower one than the release hides what is newer."""
    has_text: bool = True
    """Whether Oracle Text is installed."""
    cuts: Callable[[str], bool] | None = None
    """Whether the connection breaks when that statement, COMMIT or ROLLBACK arrives."""
    cut: set[int] = field(default_factory=set)
    statements: list[str] = field(default_factory=list)
    """Texts that the driver was given, in order."""
    round_trips: int = 0
    """Of executing, committing and pipelines; what is fetched comes along."""
    blocks: list[str] = field(default_factory=list)
    """Texts of PL/SQL among what the driver was given."""
    users: list[str] = field(default_factory=list)
    _made: list[Any] = field(default_factory=list)

    @property
    def version(self) -> str:
        return {19: "19.22.0.0.0", 23: "23.6.0.24.10"}[self.release]

    def sql(self, statement: str, user: str | None = None) -> list[tuple[object, ...]]:
        """Run PostgreSQL's SQL past the double, as the superuser."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            if user is not None:
                connection.execute(f"SET search_path = {user}, {SCHEMA}".encode())
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def add_user(self, name: str | None = None, *, creates: bool = True) -> str:
        """A user with an empty schema, who may create tables in it or not."""
        user = name or f"app{next(_numbers)}_{threading.get_native_id()}"
        self.sql(f"CREATE ROLE {user} LOGIN; CREATE SCHEMA {user}; GRANT USAGE ON SCHEMA {user} TO {user}")
        if creates:
            self.sql(f"ALTER SCHEMA {user} OWNER TO {user}")
        self.users.append(user)
        return user

    def drop_users(self) -> None:
        """With what they still do."""
        for user in self.users:
            self.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{user}'")
            self.sql(f"DROP SCHEMA {user} CASCADE; DROP OWNED BY {user}; DROP ROLE {user}")
        self.users.clear()
        self.close()

    def empty(self, user: str) -> None:
        """The user's tables stay; what is in them goes."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            empty_postgres(connection, f"^{user}$", version="value")

    def close(self) -> None:
        while self._made:
            self._made.pop().close()

    def connect(self, user: str) -> "psycopg.Connection[tuple[object, ...]]":
        made: psycopg.Connection[tuple[object, ...]] = psycopg.connect(
            self.url, user=user.lower(), autocommit=True, options=f"-c search_path={user.lower()},{SCHEMA}"
        )
        self._made.append(made)
        return made


def prepare(url: str) -> None:
    """Once for a database of PostgreSQL."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT to_regnamespace(%s) IS NULL", (SCHEMA,)).fetchone()
        if found == (True,):
            connection.execute(SETUP.encode())
            connection.execute("GRANT CONNECT ON DATABASE " + connection.info.dbname + " TO PUBLIC")
