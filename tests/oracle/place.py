"""Where the suites run: the double, or with `ORACLE_TEST=1` the server that `ORACLE_*` names."""

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from tests.oracle.database import OracleDatabase

_numbers = count(1)
REAL = os.environ.get("ORACLE_TEST") == "1"
NEW = ["real"] if REAL else ["23ai"]
OLD = ["real"] if REAL else ["19c"]
"""The statements are the same on every release: each half of a suite runs on one of them."""


def real_arguments() -> dict[str, Any]:
    """How to connect to the server that the environment names."""
    arguments: dict[str, Any] = {
        "user": os.environ["ORACLE_USER"],
        "password": os.environ["ORACLE_PASSWORD"],
        "dsn": os.environ["ORACLE_DSN"],
    }
    if wallet := os.environ.get("ORACLE_WALLET"):
        arguments["wallet_location"] = wallet
        arguments["wallet_password"] = os.environ.get("ORACLE_WALLET_PASSWORD", "")
    return arguments


class Place:
    """Connection arguments and an unused table name; on a real server the tables are dropped afterwards."""

    def __init__(self, database: OracleDatabase | None, user: str) -> None:
        self.database = database
        # On the double each test has a user of its own, and texts that were seen before need not be parsed again.
        self.table_name = "suite" if database is not None else f"hf{os.getpid()}_{next(_numbers)}"
        self.arguments: dict[str, Any] = (
            real_arguments()
            if database is None
            else {"dsn": "db.example/service", "user": user, "password": "secret"}
        )

    def options(self) -> dict[str, Any]:
        return {**self.arguments, "table_name": self.table_name, "max_pool_size": 10}

    @property
    def statements(self) -> list[str]:
        """What the double was asked; a real server does not tell."""
        return [] if self.database is None else self.database.statements

    def drop(self, prefix: str = "") -> None:
        """The tables of this place, or others whose names begin so, on a real server."""
        if self.database is not None:
            return
        import oracledb

        arguments = dict(self.arguments)
        if wallet := arguments.pop("wallet_location", None):
            arguments["config_dir"] = arguments["wallet_location"] = str(Path(wallet).expanduser())
            arguments["wallet_password"] = arguments["wallet_password"] or None
        with oracledb.connect(**arguments) as connection, connection.cursor() as cursor:
            query = (
                "SELECT table_name FROM user_tables WHERE table_name = :n OR table_name LIKE :p ESCAPE '!'"
            )
            name = (prefix or self.table_name).upper()
            cursor.execute(query, {"n": name, "p": name.replace("_", "!_") + "!_%"})
            for (table,) in cursor.fetchall():
                cursor.execute(f"DROP TABLE {table} CASCADE CONSTRAINTS PURGE")


Given = Callable[[dict[str, Any]], dict[str, Any]]


def given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
