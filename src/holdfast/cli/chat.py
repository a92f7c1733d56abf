"""`chat`: talk to an agent in the terminal. This module is light; the chat itself is loaded when it begins."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import Session, command
from holdfast.cli.failures import USAGE, Failure
from holdfast.cli.importing import import_named
from holdfast.core.errors import InvalidInput

if TYPE_CHECKING:
    from holdfast.models.base import Model

HOW_TO_CHOOSE = (
    "no model was chosen: add --model PROVIDER:NAME (such as openai:gpt-4.1-mini or ollama:llama3.2), or set"
    " HOLDFAST_MODEL to that, or set OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENROUTER_API_KEY;"
    " --model mock: needs no key and works offline"
)


@command(
    "chat",
    "chat --model mock:",
    "chat --thread trip --model openai:gpt-4.1-mini --system 'You plan trips.'",
    "chat --model mock: --tools shop.tools:TOOLS",
    create=True,
)
@click.option("--thread", metavar="ID", default="chat", show_default=True, help="The thread to go on with.")
@click.option("--model", metavar="SPEC", help="The model, as PROVIDER:NAME; else the environment names it.")
@click.option("--system", metavar="TEXT", help="What the model is told first.")
@click.option("--tools", metavar="MODULE:NAME", multiple=True, help="A tool, or a list of tools, to import.")
async def chat(
    session: Session, thread: str, model: str | None, system: str | None, tools: Sequence[str]
) -> int:
    """Talk to an agent that keeps the conversation: /help in the chat lists what else it can do.

    A turn that was cut off is gone on with at the start. Ctrl-C leaves an answer, Ctrl-D or /quit ends the chat. In a
    pipe each line of stdin is a prompt or a command; remarks go to stderr, and the exit code is 4 if an answer was
    lost to an error. --user is a partition of its own, and is what the tools are told.
    """
    if session.out.as_json:
        raise Failure("chat has no JSON form; `holdfast show THREAD --json` has the conversation", USAGE)
    found = [
        made for spec in tools for made in import_tools(spec)
    ]  # they may register a provider of their own
    chosen = choose_model(model)

    from holdfast.agent import Agent
    from holdfast.cli.chat_loop import Chat

    agent = Agent(
        system,
        model=chosen,
        tools=found,
        checkpointer=session.checkpointer,
        reflexion=True,
        on_conflict="retry",
    )
    try:
        return await Chat(agent, session, thread).run(_name_of(chosen))
    finally:
        await _close(chosen)


def choose_model(spec: str | None) -> "Model":
    """The model that was named, here or in the environment."""
    from holdfast.models.registry import default_model, get_model

    if spec is not None:
        return get_model(spec)
    try:
        return default_model()
    except InvalidInput:
        if os.environ.get("HOLDFAST_MODEL") or os.environ.get("HOLDFAST_MODEL_PROVIDER"):
            raise  # one was named, and there is none of that name
        raise Failure(HOW_TO_CHOOSE, USAGE) from None


def import_tools(spec: str) -> list[Any]:
    """The tools that ``module:attribute`` names. Modules in the working directory are found too."""
    module_name, colon, attribute = spec.partition(":")
    if not (module_name and colon and attribute):
        raise Failure(f"--tools takes MODULE:NAME, such as shop.tools:TOOLS, got {spec!r}", USAGE)
    found = import_named(module_name, f"--tools {spec}")
    try:
        value = getattr(found, attribute)
    except AttributeError:
        raise Failure(f"--tools {spec}: {module_name} has no {attribute!r}", USAGE) from None
    return list(value) if isinstance(value, list | tuple) else [value]


def _name_of(model: "Model") -> str:
    """``openai:gpt-4.1-mini``; a model of somebody's own need not have a name."""
    provider, name = getattr(model, "provider", None), getattr(model, "name", None)
    return f"{provider}:{name}" if provider and name else type(model).__name__


async def _close(model: "Model") -> None:
    close = getattr(model, "aclose", None)  # likewise
    if close is not None:
        await close()
