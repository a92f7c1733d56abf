"""The reference is complete: what can be called, passed, raised or typed is named there."""

import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import import_module
from typing import Any, get_args

import click
import pytest

from holdfast import Agent, agent, connect, errors, models, testing
from holdfast.agent import AgentConfig, AgentResult, Event, ExecutionMetrics, RunContext, StopReason
from holdfast.cli.commands import app
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.state import AgentState
from holdfast.memory import AgentMemory, Fact, backends, embedder, store, store_backends, working
from holdfast.memory.admin import CheckpointerAdmin
from holdfast.memory.backends.sql.items_schema import ItemTables, items_schema
from holdfast.memory.backends.sqlite import SQLITE, sqlite_tables
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.memory.facts import Change, FactStore
from holdfast.memory.manager import LLMMemoryManager, MemoryType
from holdfast.memory.records import CheckpointDiff, CheckpointerStats, CheckpointInfo, PendingWrite, StoreItem
from holdfast.memory.saver import BaseCheckpointSaver
from holdfast.memory.store import BaseStore
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.memory.working import WorkingMemoryAgent
from holdfast.memory.working import agent as working_agent
from holdfast.models import registry
from holdfast.tools import Tool, tool
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
        ("agent", AgentResult),
        ("agent", ExecutionMetrics),
        ("agent", RunContext),
        ("models", models.ModelResponse),
        ("models", models.ModelChunk),
        ("models", models.Usage),
        ("models", models.ToolSpec),
        ("testing", testing.ModelCall),
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
        ("store", store_backends.ChromaStore),
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
    of_groups = {
        f"{name} {part}": command
        for name, group in commands.items()
        if isinstance(group, click.Group)
        for part, command in group.commands.items()
    }
    every = {
        name: command for name, command in commands.items() if not isinstance(command, click.Group)
    } | of_groups
    assert [name for name in every if not re.search(rf"\n\| `{name}[ `]", text)] == []
    options = {
        flag
        for command in (app, *every.values())
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
        *(tables.meta, tables.threads, tables.lives, tables.ghosts, tables.hidden, tables.checkpoints),
        *(tables.entries, tables.writes, tables.words, items.meta, *items_schema(items).tables),
    ]
    assert [name for name in names if f"\n| `{name}` |" not in text] == []


# --------------------------------------------------------------------------------------- agent, tools and models


def signature(function: Callable[..., Any]) -> str:
    """The parameters with their defaults, as a page writes them."""
    found = inspect.signature(function)
    plain = [one.replace(annotation=one.empty) for one in found.parameters.values() if one.name != "self"]
    return str(found.replace(parameters=plain, return_annotation=found.empty)).replace("'", '"')


@pytest.mark.parametrize(
    ("page", "function"),
    [
        ("agent", Agent),
        ("agent", agent.run_context),
        ("agent", agent.Reflexion),
        ("agent", agent.WindowConversation),
        ("agent", agent.SummarizingConversation),
        *[("agent", getattr(Agent, name)) for name, _ in public_methods(Agent)],
        ("tools", tool),
        ("tools", Tool.run),
        ("models", models.get_model),
        ("models", models.default_model),
        ("models", models.register_provider),
        ("models", models.complete_as),
        ("models", models.Model.complete),
        ("models", models.Model.stream),
        ("testing", testing.ScriptedModel),
        ("testing", testing.FunctionModel),
    ],
)
def test_the_page_has_the_signature_with_every_default(page: str, function: Callable[..., Any]) -> None:
    assert f"`{function.__name__}{signature(function)}" in text_of(page)


def rows(text: str) -> dict[str, list[str]]:
    """The rows of a page's tables by the names in their first cells, each with its other cells."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("| "):
            first, *others = [cell.strip() for cell in line.strip("|").split(" | ")]
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", first), others)
    return found


def test_the_page_has_every_option_of_an_agent_with_its_default() -> None:
    listed = rows(text_of("agent"))
    defaults = {
        name: field.get_default(call_default_factory=True) for name, field in AgentConfig.model_fields.items()
    }
    wrong = {
        name: listed.get(name)
        for name, value in defaults.items()
        if name not in listed
        or listed[name][0] != (f'`"{value}"`' if isinstance(value, str) else f"`{value!r}`")
    }
    assert wrong == {}


def test_the_page_has_every_event_with_its_type_and_fields() -> None:
    text = text_of("agent")
    listed = rows(text)
    kinds = [getattr(agent, name) for name in agent.__all__ if name.endswith("Event") and name != "Event"]
    assert len(kinds) >= 11
    for kind in kinds:
        assert issubclass(kind, Event)
        event_type, described = listed[kind.__name__]
        assert event_type == f"`{kind.event_type}`"
        assert [field.name for field in fields(kind) if f"`{field.name}`" not in described] == []
        extra = [name for name, _ in inspect.getmembers(kind, lambda member: isinstance(member, property))]
        assert [name for name in extra if f"`{name}`" not in text] == []


def test_the_page_has_every_stop_reason() -> None:
    listed = rows(text_of("agent"))
    assert [reason for reason in get_args(StopReason) if f'"{reason}"' not in listed] == []


def test_the_page_names_every_public_name_of_the_agent() -> None:
    text = text_of("agent")
    assert [
        name for name in agent.__all__ if not re.search(rf"`{name}\b", text) and name != "StopReason"
    ] == []


def test_the_page_names_every_option_of_a_tool() -> None:
    listed = rows(text_of("tools"))
    options = [name for name in inspect.signature(tool).parameters if name != "function"]
    assert [name for name in options if name not in listed] == []
    attributes = [name for name in Tool.__annotations__ if not name.startswith("_")]
    text = text_of("tools")
    assert [name for name in attributes if f"`{name}`" not in text] == []


PROVIDERS = sorted(registry._HOMES)


def class_of(provider: str) -> Any:
    module, _, name = registry._HOMES[provider].partition(":")
    return getattr(import_module(module), name)


def how_to(provider: str) -> str:
    return (ROOT / "docs" / "how-to" / f"model-{provider}.md").read_text("utf-8")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_pages_name_every_argument_and_the_default_of_a_provider(provider: str) -> None:
    kind = class_of(provider)
    text = text_of("models")
    parameters = inspect.signature(kind).parameters
    assert kind.__name__ in models.__all__
    assert f"`{kind.__name__}`" in text
    assert [name for name in parameters if f"`{name}`" not in text] == []
    default = parameters["model"].default
    (row,) = [line for line in text.splitlines() if line.startswith(f"| [`{provider}:`]")]
    assert row.endswith(f"| `{default}` |")
    if provider != "mock":
        settings = [name for name in parameters if name not in ("model", "default_options")]
        assert [name for name in settings if name not in rows(how_to(provider))] == []
        assert f"`{default}`" in how_to(provider)


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name != "mock"])
def test_the_page_of_a_provider_says_what_was_tested(provider: str) -> None:
    text = how_to(provider)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert provider in project["optional-dependencies"]
    assert f"pip install 'holdfast[{provider}]'" in text
    lock = (ROOT / "requirements" / "dev.txt").read_text("utf-8")
    (version,) = re.findall(rf"^{provider}==(\S+)", lock, re.MULTILINE)
    assert f"Tested with the SDK `{provider}` {version} against a server on loopback" in " ".join(
        text.split()
    )
    assert "not against the live service" in " ".join(text.split())


def test_the_page_names_everything_for_tests() -> None:
    text = text_of("testing")
    assert [name for name in testing.__all__ if not re.search(rf"`{name}[`(]", text)] == []


def test_the_page_names_everything_of_models() -> None:
    text = text_of("models")
    assert [name for name in models.__all__ if not re.search(rf"`{name}[`(]", text)] == []


# ------------------------------------------------------------------------------------------------------ memory


def section(page: str, start: str) -> str:
    """From the heading that begins like this to the next one that is not below it. The page says some names twice."""
    found = re.search(rf"^(#+) {re.escape(start)}.*?(?=^#{{1,6}} |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {start}"
    rest = page[found.end() :]
    below = re.match(rf"(?:#{{{len(found[1]) + 1},6}} .*?(?=^#{{1,6}} |\Z))*", rest, re.MULTILINE | re.DOTALL)
    return found[0] + (below[0] if below else "")


MEMORY_SECTIONS: list[tuple[str, type[Any]]] = [
    ("`AgentMemory(", AgentMemory),
    ("`FactStore`", FactStore),
    ("Memory manager", LLMMemoryManager),
    ("Working memory", WorkingMemoryAgent),
]


@pytest.mark.parametrize(("start", "cls"), MEMORY_SECTIONS)
def test_the_page_of_memory_names_every_method_with_its_arguments(start: str, cls: type[Any]) -> None:
    text = section(text_of("memory"), start)
    wrong: dict[str, list[str]] = {}
    for name, parameters in public_methods(cls):
        found = re.search(rf"[`.]{name}\(([^`]*?)\)[^()`]*`", text)
        stated = ["it is not introduced"] if found is None else re.findall(r"(?:^|,\s)(\w+)", found[1])
        if stated != parameters:
            wrong[name] = stated
    assert wrong == {}
    properties = [name for name, _ in inspect.getmembers(cls, lambda member: isinstance(member, property))]
    assert [name for name in properties if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize(("start", "cls"), MEMORY_SECTIONS)
def test_the_page_of_memory_names_every_argument_of_a_constructor(start: str, cls: type[Any]) -> None:
    found = re.search(rf"`{cls.__name__}\(([^`]*)\)`", section(text_of("memory"), start))
    assert found, f"{cls.__name__} is not introduced"
    assert re.findall(r"(?:^|,\s)(\w+)", found[1]) == [*inspect.signature(cls).parameters]


@pytest.mark.parametrize(
    "function",
    [
        LLMMemoryManager,
        *(getattr(working, name) for name in working.__all__ if name != "IAgentInput"),
        *(getattr(embedder, name) for name in embedder.__all__ if name != "Embedder"),
    ],
    ids=lambda function: function.__name__,
)
def test_the_page_of_memory_has_the_signature_with_every_default(function: Callable[..., Any]) -> None:
    assert f"`{function.__name__}{signature(function)}" in text_of("memory")


def test_the_page_of_memory_names_every_field_status_and_type() -> None:
    text = section(text_of("memory"), "`FactStore`")
    wanted = [*Fact.model_fields, *(field.name for field in fields(Change)), "begins"]
    assert [name for name in wanted if f"`{name}`" not in text] == []
    page = text_of("memory")
    statuses = (working_agent.SUCCESS, working_agent.NO_CONVERSATION, working_agent.EMPTY)
    assert [status for status in statuses if f'`"{status}"`' not in page] == []
    assert [kind.value for kind in MemoryType if f"`{kind.value}`" not in page] == []
    assert [name for name in (*working.__all__, *embedder.__all__) if f"`{name}" not in page] == []
