"""A database in which PostgreSQL itself keeps tenants apart, with roles as an operator would make them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.memory.backends.schemas import ddl
from tests.servers.fixtures import Database


@dataclass(frozen=True)
class Secured:
    """``app`` may read and write rows; ``operator`` may too, and see all tenants at once. Neither owns a table."""

    database: Database
    app: str
    operator: str

    @property
    def url(self) -> str:
        return self.database.server.url(self.database.name, user=self.app)

    @property
    def operator_url(self) -> str:
        return self.database.server.url(self.database.name, user=self.operator)


@contextmanager
def roles_of(database: Database, *names: str) -> Iterator[list[str]]:
    """Roles for one database: all databases of a server share them, so their names are its own."""
    made = [f"{database.name}_{name}" for name in names]
    for role in made:
        database.sql(f"CREATE ROLE {role} LOGIN")
    try:
        yield made
    finally:
        for role in made:
            database.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


@contextmanager
def secured(database: Database, **options: Any) -> Iterator[Secured]:
    """Tables made by the owner with the printed statements."""
    with roles_of(database, "app", "operator") as (app, operator):
        statements = ddl("postgresql", row_security=True, operators=operator, **options)
        rights = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public"
        database.sql("; ".join([*statements, f"GRANT {rights} TO {app}, {operator}"]))
        yield Secured(database, app, operator)
