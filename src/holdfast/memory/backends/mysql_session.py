"""A batch as one text of several statements: sent at once, answered at once.

The protocol has no pipeline, but a text may hold many statements. The server runs them one by one and stops at the
first that fails. That is also how a guard ends its batch: behind it is a query that fails if nothing was changed.
"""

import inspect
from typing import Any, NamedTuple

from pymysql import err
from pymysql.constants import SERVER_STATUS

from holdfast.core.errors import InvalidInput
from holdfast.memory.backends.mysql_text import makes_index, texts_of
from holdfast.memory.backends.sql.plan import GUARD, Batch, Statement

MIGRATION_LOCK = "CONCAT('holdfast:', LEFT(SHA2(DATABASE(), 256), 40))"
TAKE_MIGRATION_LOCK = f"SELECT GET_LOCK({MIGRATION_LOCK}, ?)"
# Strict, and one way to write a text: a quote is doubled, nothing else is special. A zero is a zero.
_VARIABLES = {
    "sql_mode": "'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'",
    "default_storage_engine": "'InnoDB'",
    "innodb_lock_wait_timeout": "20",
    "autocommit": "1",
}
_SETTINGS = (
    b"SET NAMES utf8mb4",
    f"SET {', '.join(f'SESSION {name} = {value}' for name, value in _VARIABLES.items())}".encode(),
    b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    b"SELECT @@max_allowed_packet, VERSION()",
)
_BEGIN = {
    "write": (b"START TRANSACTION",),
    "fresh": (b"START TRANSACTION READ ONLY",),
    "read": (b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", b"START TRANSACTION READ ONLY"),
}
_HELD = b"SELECT IF(ROW_COUNT() > 0, 1, (SELECT 1 UNION ALL SELECT 2))"
_SEVERAL_ROWS = 1242
_INDEX_EXISTS = 1061
_A_PACKET = 900_000
_NO_ESCAPES = SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES


class _Command(NamedTuple):
    """A text, and what its answer is for: "rows", "change", "held" (a guard's), "index", or nothing."""

    text: bytes
    use: str = ""
    place: int = -1


class MySession:
    """A connection while one plan uses it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.pool: Any = None  # the one that it goes back to
        self._packet = _A_PACKET
        self._mariadb = True
        self._open = False
        self._locked = False

    @property
    def in_transaction(self) -> bool:
        return self._open

    async def set_up(self) -> None:
        """What every connection of ours has, whatever the server's defaults are."""
        answers: list[Any] = [None]
        await self._exchange([*map(_Command, _SETTINGS[:-1]), _Command(_SETTINGS[-1], "rows", 0)], answers)
        ((packet, version),) = answers[0]
        self._packet = int(packet)
        self._mariadb = "mariadb" in str(version).lower()

    async def run(self, batch: Batch, begin: str, *, commit: bool, dirty: bool) -> list[Any]:
        """See `sql.server_engine.Session`. A guard that fails leaves the transaction as it is: locks stay, too."""
        escapes = not self.connection.server_status & _NO_ESCAPES
        commands = [
            command
            for place, statement in enumerate(batch)
            for command in self._commands(statement, place, escapes)
        ]
        answers: list[Any] = [[] if statement.kind == "rows" else 0 for statement in batch]
        alone = commit and begin and len(commands) == 1
        if not alone:
            commands[:0] = [_Command(text) for text in _BEGIN.get(begin, ())]
            if commit:
                commands.append(_Command(b"COMMIT"))
        ended = commit and self._locked
        if ended:
            commands.append(_Command(f"DO RELEASE_LOCK({MIGRATION_LOCK})".encode()))
        self._open = self._open or (bool(begin) and not alone)
        failed = await self._exchange(commands, answers)
        if failed is not None:
            return [*answers[:failed], 0]
        if commit:
            self._open = False
            self._locked = self._locked and not ended
        return answers

    async def rollback(self) -> None:
        commands = [_Command(b"ROLLBACK")]
        if self._locked:
            commands.append(_Command(f"DO RELEASE_LOCK({MIGRATION_LOCK})".encode()))
        await self._exchange(commands, [])
        self._open = self._locked = False

    def _commands(self, statement: Statement, place: int, escapes: bool) -> list[_Command]:
        use = "rows" if statement.kind == "rows" else "change"
        if statement.sql.startswith("CREATE "):
            if makes_index(statement.sql):
                use = "index"
            elif not self._mariadb:
                sql = statement.sql.replace("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
                statement = statement._replace(sql=sql)
        elif statement.sql == TAKE_MIGRATION_LOCK:
            self._locked = True
        commands = [_Command(text, use, place) for text in texts_of(statement, escapes)]
        if statement.mark & GUARD:
            commands.append(_Command(_HELD, "held", place))
        return commands

    async def _exchange(self, commands: list[_Command], answers: list[Any]) -> int | None:
        """Send the commands, fill in the answers; returns the place of the guard that ended the batch."""
        self._check_sizes(commands)
        start = 0
        while start < len(commands):
            end = _portion(commands, start, min(_A_PACKET, self._packet - 1024))
            for number in range(start, end):
                use, place = commands[number].use, commands[number].place
                try:
                    if number == start:
                        text = b";".join([command.text for command in commands[start:end]])
                        waiting = self.connection.query(text)
                    else:
                        waiting = self.connection.next_result()
                    if inspect.isawaitable(waiting):
                        await waiting
                except err.MySQLError as error:
                    code = error.args[0] if error.args else 0
                    if use == "held" and code == _SEVERAL_ROWS:
                        return place
                    if use == "index" and code == _INDEX_EXISTS:
                        continue
                    raise
                result = self.connection._result  # the drivers' cursors read it there, and warn in between
                if use == "rows":
                    answers[place] = list(result.rows)
                elif use == "change":
                    answers[place] += result.affected_rows
            start = end
        return None

    def _check_sizes(self, commands: list[_Command]) -> None:
        for text, _, _ in commands:
            if len(text) > self._packet - 1024:
                raise InvalidInput(
                    f"a statement of {len(text)} bytes is more than the server takes at once (max_allowed_packet ="
                    f" {self._packet}): save less at a time, or let the server take more"
                )


def _portion(commands: list[_Command], start: int, most: int) -> int:
    """How far the commands fit into a packet of modest size. What may fail without harm is sent alone."""
    size = 0
    for number in range(start, len(commands)):
        size += len(commands[number].text) + 1
        alone = commands[number].use == "index"
        if number > start and (size > most or alone):
            return number
        if alone:
            return number + 1
    return len(commands)
