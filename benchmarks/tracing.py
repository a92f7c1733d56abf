"""Seeing the statements that the product runs, on its own connections."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

Listener = Callable[[str], object]


@contextmanager
def traced(listener_for_connection: Callable[[], Listener]) -> Iterator[None]:
    """Connections that are opened meanwhile tell a listener of their own the text of each statement as it begins."""
    connect = sqlite3.connect

    def connect_traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        connection.set_trace_callback(listener_for_connection())
        return connection

    with mock.patch("sqlite3.connect", connect_traced):
        yield
