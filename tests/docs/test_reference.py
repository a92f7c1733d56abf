"""The reference is complete: what can be called, passed, raised or typed is named there."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import click
import pytest

from holdfast import connect, errors
from holdfast.cli.commands import app
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.state import AgentState
from holdfast.memory import backends, store, store_backends
from holdfast.memory.admin import CheckpointerAdmin
from holdfast.memory.backends.sql.items_schema import ItemTables, items_schema
from holdfast.memory.backends.sqlite import SQLITE, sqlite_tables
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.memory.records import CheckpointDiff, CheckpointerStats, CheckpointInfo, PendingWrite, StoreItem
from holdfast.memory.saver import BaseCheckpointSaver
from holdfast.memory.store import BaseStore
from holdfast.memory.store_capabilities import StoreCapabilities
from tests.docs.markdown import ROOT

REFERENCE = ROOT / "docs" / "reference"


def text_of(page: str) -> str:
    return (REFERENCE / f"{page}.md").read_text("utf-8")


def public_methods(cls: type[Any]) -> Iterator[tuple[str, list[str]]]:
    """Methods and their arguments."""
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            yield (
                name,
                [parameter for parameter in inspect.signature(member).parameters if parameter != "self"],
            )


def signature_in(page: str, method: str) -> str:
    """What stands between the parentheses where the page introduces the method."""
    found = re.search(rf"`{method}\(([^`]*)\)[^()`]*`", page)
    assert found, f"{method}() is not introduced"
    return found[1]


@pytest.mark.parametrize(
    ("page", "cls"),
    [
        ("checkpointer", BaseCheckpointer),
        ("store", BaseStore),
        ("saver", BaseCheckpointSaver),
        ("checkpointer", CheckpointerAdmin),
    ],
)
def test_the_page_names_every_method_with_its_arguments(page: str, cls: type[Any]) -> None:
    text = text_of(page)
    wrong: dict[str, list[str]] = {}
    for name, parameters in public_methods(cls):
        if name.startswith("a") and name[1:] in dict(public_methods(cls)):
            assert f"`{name}`" in text  # an alias
            continue
        stated = re.findall(r"(?:^|, )(\w+)", signature_in(text, name))
        if stated != parameters:
            wrong[name] = stated
    assert wrong == {}


@pytest.mark.parametrize(
    ("page", "cls"),
    [
        ("checkpointer", CheckpointerCapabilities),
        ("checkpointer", CheckpointInfo),
        ("checkpointer", CheckpointDiff),
        ("checkpointer", CheckpointerStats),
        ("checkpointer", PendingWrite),
        ("store", StoreCapabilities),
        ("store", StoreItem),
    ],
)
def test_the_page_names_every_field(page: str, cls: type[Any]) -> None:
    text = text_of(page)
    assert [field.name for field in fields(cls) if f"`{field.name}`" not in text] == []


@pytest.mark.parametrize(
    ("page", "cls"),
    [
        ("checkpointer", backends.SQLiteCheckpointer),
        ("checkpointer", backends.SQLiteSyncCheckpointer),
        ("checkpointer", backends.MemoryCheckpointer),
        ("store", store_backends.SQLiteStore),
        ("store", store_backends.SQLiteSyncStore),
        ("store", store.InMemoryStore),
        ("saver", backends.SQLiteCheckpointSaver),
    ],
)
def test_the_page_names_every_argument_of_a_constructor(page: str, cls: type[Any]) -> None:
    text = text_of(page)
    known = text + text_of("checkpointer") if page == "saver" else text
    assert f"`{cls.__name__}" in text
    assert [name for name in inspect.signature(cls).parameters if f"`{name}`" not in known] == []


@pytest.mark.parametrize("cls", [Message, ToolCall, ToolResult, AgentState])
def test_the_page_names_every_field_of_a_model(cls: Any) -> None:
    text = text_of("state-and-messages")
    methods = [name for name in vars(cls) if name.startswith("with_")]
    constructors = [f"Message.{name}" for name in ("system", "user", "assistant", "tool")]
    assert [name for name in cls.model_fields if f"`{name}`" not in text] == []
    assert [name for name in (*methods, *constructors) if f"`{name}(" not in text] == []


def test_the_page_names_every_error() -> None:
    text = text_of("errors")
    public = [name for name in errors.__all__ if name != "HoldfastError"]
    assert [name for name in public if f"\n| `{name}` |" not in text] == []


def test_the_page_names_every_option_of_connect() -> None:
    text = text_of("connect")
    with pytest.raises(errors.InvalidInput, match="known are") as caught:
        connect("memory:", zzzzzzzz=1)
    options = str(caught.value).partition("known are ")[2].split(", ")
    assert "ttl_seconds" in options
    assert [name for name in options if f"`{name}`" not in text] == []


def test_the_page_names_every_command_and_option() -> None:
    text = text_of("cli")
    commands = app.commands
    assert [name for name in commands if not re.search(rf"\n\| `{name}[ `]", text)] == []
    options = {
        flag
        for command in (app, *commands.values())
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for flag in parameter.opts
    }
    assert sorted(flag for flag in options if not re.search(rf"`{flag}[ `]", text)) == []


def test_the_page_names_every_table() -> None:
    text = text_of("schema")
    tables = sqlite_tables("holdfast")
    items = ItemTables(SQLITE)
    names = [
        *(tables.meta, tables.threads, tables.lives, tables.forks, tables.hidden, tables.checkpoints),
        *(tables.entries, tables.writes, tables.words, items.meta, *items_schema(items).tables),
    ]
    assert [name for name in names if f"\n| `{name}` |" not in text] == []
