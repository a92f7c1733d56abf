"""The commands of a chat: what begins with a slash."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import count
from typing import TYPE_CHECKING, Any

from holdfast.agent.progress import WAITING, answer_of, turn_of, unfinished
from holdfast.cli import text
from holdfast.cli.failures import Failure
from holdfast.cli.output import Column
from holdfast.core.messages import Role
from holdfast.core.state import AgentState
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.records import CheckpointInfo
from holdfast.memory.text import query_terms

if TYPE_CHECKING:
    from holdfast.cli.chat_loop import Chat

__all__ = ["COMMANDS", "obey", "turn_ends"]

SHOWN = 20
FOUND = 5
SNIPPET = 60
_PAGE = 1000


@dataclass(frozen=True)
class Command:
    """``run`` gets what follows the command's name."""

    usage: str
    help: str
    run: Callable[["Chat", str], Awaitable[None]]


async def obey(chat: "Chat", line: str) -> bool:
    """Do what a line such as ``/rewind 3`` says. ``False``: it says that the chat is over."""
    name, _, rest = line.partition(" ")
    if name in ("/quit", "/exit"):
        return False
    known = COMMANDS.get(name)
    if known is None:
        near = get_close_matches(name, [*COMMANDS, "/quit"], 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise Failure(f"there is no command {name}: {hint}/help lists them; // at the start sends a slash")
    await known.run(chat, rest.strip())
    return True


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────────


async def turn_ends(checkpointer: BaseCheckpointer, thread_id: str) -> list[CheckpointInfo]:
    """The last checkpoint of each turn that led to where the thread stands, oldest first.

    Turns that were rewound are none of them.
    """
    infos: dict[str, CheckpointInfo] = {}
    after: str | None = None
    while True:
        page = await checkpointer.history(thread_id, _PAGE, after=after)
        infos.update((info.checkpoint_id, info) for info in page)
        after = page.next
        if after is None:
            break
    info = next(iter(infos.values()), None)
    ends: list[CheckpointInfo] = []
    run: Any = None
    while info is not None:
        before = infos.get(info.parent_id or "")
        target = infos.get(str(info.metadata.get("to"))) if info.metadata.get("step") == "rewind" else None
        if target is not None and target.sequence < info.sequence:
            before = target
        elif info.metadata.get("step") == "abandon":
            gone = before and before.metadata.get("run_id")
            while before is not None and before.metadata.get("run_id") == gone:
                before = infos.get(before.parent_id or "")
        elif run is None or info.metadata.get("run_id") != run:
            ends.append(info)
            run = info.metadata.get("run_id")
        info = before
    return ends[::-1]


async def _turn(chat: "Chat", number: str) -> CheckpointInfo:
    """The end of the turn that is meant."""
    ends = await turn_ends(chat.session.checkpointer, chat.thread_id)
    if not number.isdecimal() or not 1 <= int(number) <= len(ends):
        turns = f"has turns 1 to {len(ends)}" if ends else "has no turns yet"
        raise Failure(f"no turn {number!r}: thread {chat.thread_id!r} {turns}; /history lists them")
    return ends[int(number) - 1]


async def history(chat: "Chat", rest: str) -> None:
    if rest not in ("", "all"):
        raise Failure(f"/history takes nothing or 'all', got {rest!r}")
    ends = await turn_ends(chat.session.checkpointer, chat.thread_id)
    first = 0 if rest else max(0, len(ends) - SHOWN)
    rows = []
    for number, info in enumerate(ends[first:], start=first + 1):
        state = await chat.agent.get_state(chat.thread_id, info.checkpoint_id, user_id=chat.user_id)
        if state is not None:  # else it was deleted just now
            asked, answered = _exchange(state)
            rows.append(
                {"number": number, "checkpoint": info.checkpoint_id, "saved": info.created_at}
                | {"asked": asked, "answered": answered}
            )
    if not rows:
        chat.view.note("nothing was said yet")
        return
    columns = [
        Column("number", "#", "dim", right=True),
        Column("checkpoint", None),
        Column("saved", None),
        Column("asked", "you", "cyan"),
        Column("answered", "answer"),
    ]
    chat.session.out.records(rows, columns)
    if first:
        chat.view.note(f"the last {SHOWN} of {len(ends)} turns; /history all lists every one")


def _exchange(state: AgentState) -> tuple[str, str]:
    """What was asked in the state's last turn, and what was answered."""
    turn = turn_of(state)
    asked = [at for at, message in enumerate(state.messages) if message.role is Role.USER]
    start = turn.messages if turn is not None else asked[-1] if asked else 0
    messages = state.messages[start:]
    question = next((message.content or "" for message in messages if message.role is Role.USER), "")
    if unfinished(state):
        return _short(question), "(waits for approval)" if turn and turn.status == WAITING else "(unfinished)"
    return _short(question), _short(answer_of(messages))


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= SNIPPET else line[: SNIPPET - 1] + "…"


async def rewind(chat: "Chat", rest: str) -> None:
    if not rest:
        ends = await turn_ends(chat.session.checkpointer, chat.thread_id)
        if len(ends) == 1 and await chat.is_unfinished():
            await chat.agent.abandon(chat.thread_id, user_id=chat.user_id)
            chat.view.note(
                "the turn was taken back, and nothing was said before; the thread's history has it"
            )
            return
        if len(ends) < 2:
            raise Failure("there is nothing before the first turn; /thread NAME begins another conversation")
        rest = str(len(ends) - 1)
    target = await _turn(chat, rest)
    await chat.agent.rewind(chat.thread_id, target.checkpoint_id, user_id=chat.user_id)
    chat.view.note(f"back at the end of turn {rest}; what came after stays in the thread's history")
    state = await chat.state()
    if state is not None and chat.session.out.in_terminal:
        chat.show_end(state)


async def resume(chat: "Chat", rest: str) -> None:
    if rest:
        raise Failure(f"/resume takes nothing, got {rest!r}")
    if await chat.is_unfinished():
        await chat.resume()
    else:
        chat.view.note("nothing is unfinished here")


# ── threads ───────────────────────────────────────────────────────────────────────────────────────────


async def fork(chat: "Chat", rest: str) -> None:
    name, _, number = rest.partition(" ")
    at = (await _turn(chat, number.strip())).checkpoint_id if number.strip() else None
    source = chat.thread_id
    if await chat.state() is None:
        raise Failure(f"thread {source!r} has nothing to fork yet")
    new = name or await _free_name(chat)
    await chat.agent.fork(source, at, new, user_id=chat.user_id)
    chat.thread_id = new
    where = f"at the end of turn {number.strip()}" if at else "where it stands"
    chat.view.note(f"this is thread {new} now: it begins as {source} {where}; /thread {source} goes back")


async def _free_name(chat: "Chat") -> str:
    for number in count(2):
        name = f"{chat.thread_id[:240]}-{number}"
        if not await chat.session.checkpointer.exists(name):
            return name
    raise AssertionError("numbers do not end")


async def threads(chat: "Chat", rest: str) -> None:
    checkpointer = chat.session.checkpointer
    page = await checkpointer.list_threads(SHOWN, rest or "*")
    rows = []
    for thread_id in page:
        head = await checkpointer.head(thread_id)
        if head is not None:  # else it was deleted just now
            here = "*" if thread_id == chat.thread_id else ""
            rows.append({"here": here, "thread": thread_id, "saved": head.created_at})
    if not rows:
        chat.view.note("no threads")
        return
    columns = [
        Column("here", "", "bold"),
        Column("thread", "thread", "bold cyan"),
        Column("saved", "last saved"),
    ]
    chat.session.out.records(rows, columns)
    if page.next:
        chat.view.note("there are more: /threads 'a pattern with * or ?'")


async def thread(chat: "Chat", rest: str) -> None:
    if rest:
        await chat.enter(rest)
    else:
        chat.view.note(f"this is thread {chat.thread_id}; /thread ID goes to another one, or begins it")


# ── memory ────────────────────────────────────────────────────────────────────────────────────────────


async def memory(chat: "Chat", rest: str) -> None:
    if rest:
        await _search(chat, rest)
        return
    state = await chat.state()
    if state is None:
        chat.view.note("nothing was said yet")
        return
    ends = await turn_ends(chat.session.checkpointer, chat.thread_id)
    runs = Counter(state.tool_history)
    tools = ", ".join(f"{text.escape(name)} {times}" for name, times in runs.most_common())
    facts = [
        ("thread", text.escape(chat.thread_id)),
        ("messages", f"{len(state.messages)} in {text.number(len(ends), 'turn')}"),
        ("tool calls", f"{len(state.tool_history)}{f' ({tools})' if tools else ''}"),
        ("tokens", f"{state.total_tokens} ({state.prompt_tokens} in, {state.completion_tokens} out)"),
        ("confidence", f"{state.confidence:.2f}" if state.confidence_history else "no tool has run yet"),
        ("last saved", text.moment(state.updated_at)),
    ]
    chat.session.out.facts(facts)


async def _search(chat: "Chat", query: str) -> None:
    """Over all conversations of this user, and over what the store remembers."""
    out, checkpointer = chat.session.out, chat.session.checkpointer
    hits = await checkpointer.search(query, FOUND) if checkpointer.capabilities.search else []
    namespace = ("memory",) if chat.user_id is None else ("memory", chat.user_id)
    items = await chat.session.store.search(namespace, query, FOUND, prefix=True)
    found = [(hit["thread_id"], hit["snippet"]) for hit in hits]
    found += [("/".join((*item.namespace, item.key)), _content(item.value)) for item in items]
    for place, words in found:
        spans = [(text.escape(place), "bold cyan"), ("\t" if not out.in_terminal else "  ", "")]
        out.paragraph([*spans, (text.escape(words), "")], highlight=query_terms(query))
    if not found:
        chat.view.note(f"nothing has a word of {query!r}")


def _content(value: object) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("content"), str):
        return str(value["content"])
    return value if isinstance(value, str) else text.to_json(value)


async def show_help(chat: "Chat", rest: str) -> None:
    rows = [{"usage": known.usage, "help": known.help} for known in COMMANDS.values()]
    rows.append({"usage": "/quit", "help": "end the chat; so does Ctrl-D"})
    chat.session.out.records(rows, [Column("usage", "command", "bold"), Column("help", "")])


COMMANDS = {
    "/help": Command("/help", "this list", show_help),
    "/history": Command("/history [all]", "the turns that led here, numbered", history),
    "/rewind": Command(
        "/rewind [N]", "go back to the end of turn N; without N, take the last turn back", rewind
    ),
    "/fork": Command("/fork [NAME [N]]", "go on in a new thread, from here or from the end of turn N", fork),
    "/resume": Command("/resume", "go on with an unfinished turn; an empty line does the same", resume),
    "/threads": Command("/threads [PATTERN]", "threads, last saved first", threads),
    "/thread": Command("/thread [ID]", "go to another thread, or begin it", thread),
    "/memory": Command("/memory [QUERY]", "what this thread holds; or find words in all of them", memory),
}
