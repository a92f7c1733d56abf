"""The group `memory`: what its commands share. Whose memories, in which namespace, and opening them."""

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import Command, Group, SessionCommand, Settings, app, run, settings_now
from holdfast.cli.database import must_be_there
from holdfast.cli.failures import USAGE, Failure
from holdfast.cli.output import Output
from holdfast.connection import Connection, connect
from holdfast.core.unset import UNSET, UnsetType
from holdfast.memory.buckets import bucket_of
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.embedder.base import Embedder, store_options
from holdfast.memory.embedder.sticky import StickyEmbedder
from holdfast.memory.store import BaseStore

if TYPE_CHECKING:
    from holdfast.memory.agent_memory import AgentMemory
    from holdfast.memory.facts import FactStore

__all__ = [
    "EMBEDDER",
    "MemorySession",
    "add_common",
    "group",
    "memory_command",
    "moment_option",
    "open_memory",
]


class _MemoryGroup(Group):
    order = "list search facts blame forget export import".split()


@app.group("memory", cls=_MemoryGroup, invoke_without_command=True)
@click.pass_context
def group(ctx: click.Context) -> None:
    """Look into what is remembered of users, and look after it.

    \b
    Whose: --user ID, or --anonymous for what belongs to nobody in particular. Each --namespace is a memory of its own.
    Dates and times are UTC; a date alone is its beginning.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no date or time such as 2026-03-01 or 2026-03-01T12:30Z", ctx, param
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def moment_option(name: str, what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that takes a date or a time."""
    return click.option(name, metavar="TIME", callback=_moment, help=what)


EMBEDDER = click.option(
    "--embedder",
    metavar="NAME",
    default="auto",
    show_default=True,
    help="What makes vectors: openai, ollama:MODEL, local, ..., or none. auto: what made those that are stored.",
)


@dataclass(frozen=True)
class MemorySession:
    """What a command gets. ``user`` is UNSET if none was named; without ``--anonymous``, that is not nobody."""

    connection: Connection
    out: Output
    namespace: str
    user: str | UnsetType | None

    @property
    def store(self) -> BaseStore:
        return self.connection.store

    @property
    def memory(self) -> "AgentMemory":
        """Recall goes by words, and what is written gets no vector."""
        return self.with_embedder(None)

    def with_threads(self) -> "AgentMemory":
        """The same, knowing the users' threads: not every database keeps some."""
        threads = self.connection.checkpointer if self.connection.keeps_threads else None
        return self._memory(None, threads)

    def with_embedder(self, embedder: Embedder | StickyEmbedder | None) -> "AgentMemory":
        return self._memory(embedder, None)

    def _memory(
        self, embedder: Embedder | StickyEmbedder | None, checkpointer: BaseCheckpointer | None
    ) -> "AgentMemory":
        from holdfast.memory.agent_memory import AgentMemory  # other commands don't wait for all of it

        return AgentMemory(self.store, checkpointer, namespace=self.namespace, embedder=embedder)

    @property
    def facts(self) -> "FactStore":
        facts = self.memory.facts
        assert facts is not None
        return facts

    @property
    def whose(self) -> str | None:
        """The user that was named; without one, it is wrong usage."""
        if self.user is UNSET:
            raise Failure("whose memories? Name --user ID, or --anonymous", USAGE)
        return self.user

    @property
    def them(self) -> str:
        """The user in a sentence."""
        return "nobody in particular" if self.whose is None else f"user {self.whose!r}"

    def at(self, kind: str) -> tuple[str, ...]:
        """Where the user's memories of one kind are."""
        return (*bucket_of(self.namespace, self.whose), kind)


@asynccontextmanager
async def open_memory(
    settings: Settings,
    namespace: str,
    anonymous: bool,
    *,
    create: bool = False,
    embedder: Embedder | None = None,
) -> AsyncIterator[MemorySession]:
    """Unless ``create``, a database file that does not exist is a `Failure` and stays away."""
    if anonymous and settings.scope is not None:
        raise Failure("--user and --anonymous exclude each other", USAGE)
    must_be_there(settings.db, create=create)
    user = settings.scope if settings.scope is not None else None if anonymous else UNSET
    out = settings.output()
    async with connect(settings.db, auto_create_table=create, **store_options(embedder)) as connection:
        yield MemorySession(connection, out, namespace, user)


def add_common(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which memories."""
    namespace = click.option(
        "--namespace", metavar="NAME", default="default", show_default=True, help="Which memory."
    )
    anonymous = click.option(
        "--anonymous", is_flag=True, help="What belongs to nobody in particular, instead of a --user's."
    )
    return namespace(anonymous(function))


def memory_command(
    name: str, *examples: str, create: bool = False
) -> Callable[[SessionCommand], click.Command]:
    """Make a coroutine function a command of the group; its first argument is the open `MemorySession`."""

    def decorate(function: SessionCommand) -> click.Command:
        @functools.wraps(function)
        def call(*args: Any, namespace: str, anonymous: bool, **kwargs: Any) -> int:
            settings = settings_now()

            async def work() -> int | None:
                async with open_memory(settings, namespace, anonymous, create=create) as session:
                    return await function(session, *args, **kwargs)

            return run(work())

        shown = tuple(f"memory {example}" for example in examples)
        return group.command(name, cls=Command, examples=shown)(add_common(call))

    return decorate
