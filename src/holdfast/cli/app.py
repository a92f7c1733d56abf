"""The command group: options that every command has, opening the database, errors and exit codes."""

import asyncio
import functools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from holdfast._version import __version__
from holdfast.cli import failures
from holdfast.cli.database import DEFAULT_URL, Session, open_session
from holdfast.cli.failures import EXIT_CODES, code_of, message_of
from holdfast.cli.output import Output
from holdfast.cli.text import escape

# As in the help: from talking to looking to changing to moving.
_ORDER = """chat threads history show diff search fork rm vacuum export import migrate stats
    memory reembed schema version""".split()

SessionCommand = Callable[..., Coroutine[Any, Any, int | None]]


@dataclass
class Settings:
    """The options that stand before or after the command."""

    db: str = DEFAULT_URL
    scope: str | None = None
    json: bool = False
    no_color: bool = False

    def output(self) -> Output:
        return Output(as_json=self.json, no_color=self.no_color)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None and param.name is not None:
        setattr(ctx.ensure_object(Settings), param.name, value)


def _shared_options(*, hidden: bool) -> list[click.Parameter]:
    """Each is taken before the command and after it; the nearer one wins."""

    def option(*names: str, **attrs: Any) -> click.Option:
        return click.Option(names, callback=_remember, expose_value=False, hidden=hidden, **attrs)

    return [
        option(
            "--db",
            metavar="URL",
            envvar=None if hidden else "HOLDFAST_DB",
            help=f"The database: sqlite:PATH or a path ending in .db. Also HOLDFAST_DB.  [{DEFAULT_URL}]",
        ),
        option("--scope", "--user", "scope", metavar="ID", help="Only this scope's threads (a user's)."),
        option("--json", is_flag=True, default=None, help="Print JSON."),
        option("--no-color", is_flag=True, default=None, help="No colour; NO_COLOR=1 does the same."),
    ]


class Command(click.Command):
    """A command that also takes the shared options, and ends with its examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared_options(hidden=True)
        lines = "\n".join(f"  holdfast {example}" for example in examples)
        self.epilog = f"\b\nExamples:\n{lines}\n\nThe options of `holdfast` itself may follow here too."


class Group(click.Group):
    """Commands under one name, in this order."""

    order: Sequence[str] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared_options(hidden=True)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in self.order if name in self.commands]


class App(click.Group):
    """Turns every error into one line on stderr and a code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        main: Callable[..., Any] = super().main
        if not kwargs.pop("standalone_mode", True):
            return main(*args, standalone_mode=False, **kwargs)
        try:
            code = main(*args, standalone_mode=False, **kwargs)
        except click.Abort:  # Ctrl-C
            code = failures.INTERRUPTED
        except click.UsageError as error:
            hint = f" (see: {error.ctx.command_path} --help)" if error.ctx else ""
            code = _failed(error.format_message().rstrip() + hint, failures.USAGE)
        except click.ClickException as error:
            code = _failed(error.format_message(), error.exit_code)
        except Exception as error:
            code = _failed(message_of(error), code_of(error))
        sys.exit(code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in _ORDER if name in self.commands]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still buffered goes nowhere, and must not be complained about at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return failures.BROKEN_PIPE
        return code


def _failed(message: str, code: int) -> int:
    if os.environ.get("HOLDFAST_DEBUG"):
        traceback.print_exc()
    sys.stderr.write(f"error: {escape(message)}\n".encode("utf-8", "backslashreplace").decode())
    return code


@click.group(
    cls=App,
    params=_shared_options(hidden=False),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"""A checkpoint is named by its id, by the beginning of its id (4 characters or more), by `head`,
or by `head~N`: N saves before the head. In a pipe, lists are lines of tab-separated fields.

{EXIT_CODES}""",
)
@click.version_option(__version__, message="holdfast %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Look into conversations that Holdfast keeps, and look after them."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C also ends a wait for an answer or for stdin, where an event loop would only take note of it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def settings_now() -> Settings:
    """The shared options of the command that runs."""
    return click.get_current_context().ensure_object(Settings)


def run(work: Coroutine[Any, Any, int | None]) -> int:
    """Run a command's work; gives the exit code."""
    with _interruptible():
        return asyncio.run(work) or failures.OK


def command(name: str, *examples: str, create: bool = False) -> Callable[[SessionCommand], click.Command]:
    """Make a coroutine function a command; its first argument is the open `Session`, its result the exit code.

    ``create``: it may start a new database file.
    """

    def decorate(function: SessionCommand) -> click.Command:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> int:
            settings = settings_now()

            async def work() -> int | None:
                output = settings.output()
                async with open_session(settings.db, settings.scope, output, create=create) as session:
                    return await function(session, *args, **kwargs)

            return run(work())

        return app.command(name, cls=Command, examples=examples)(call)

    return decorate


__all__ = ["App", "Command", "Group", "Session", "Settings", "app", "command", "run", "settings_now"]
