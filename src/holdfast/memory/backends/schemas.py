"""The tables of each SQL database as statements, without opening one.

A database takes part by a function with the two names as arguments, and options of its own, that gives its schemas.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from holdfast.core.errors import InvalidInput
from holdfast.memory.backends.sql.schema import Schema, creation

__all__ = ["DIALECTS", "ddl"]

DIALECTS: Final[Mapping[str, str]] = {
    "mysql": "holdfast.memory.backends.mysql_store:mysql_schemas",
    "oracle": "holdfast.memory.backends.oracle_store:oracle_schemas",
    "postgresql": "holdfast.memory.backends.postgres:postgres_schemas",
    "sqlite": "holdfast.memory.backends.sqlite_store:sqlite_schemas",
}
"""Where the schemas of each are: they are imported when they are asked for."""


def ddl(
    dialect: str, *, table_name: str = "holdfast", items_table: str = "holdfast_items", **options: Any
) -> list[str]:
    """The statements that make a database ready, each safe to run again (on Oracle: one that says that the name is
    used already has nothing to do). Other options are those of `postgres.postgres_schemas`."""
    if options and dialect != "postgresql":
        raise InvalidInput(f"{next(iter(options))} is an option of postgresql, not of {dialect}")
    module, _, name = DIALECTS[dialect].partition(":")
    schemas: Callable[..., tuple[Schema, ...]] = getattr(import_module(module), name)
    found = schemas(table_name, items_table, **options)
    statements = [statement for schema in found for statement in creation(schema)]
    if dialect == "oracle":
        from holdfast.memory.backends.oracle_sql import oracle_text

        return list(dict.fromkeys(oracle_text(statement).sql for statement in statements))
    return statements
