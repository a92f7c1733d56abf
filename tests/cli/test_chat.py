"""`holdfast chat` in a pipe: each line of the input is a message or a command."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from holdfast import connect
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from tests.cli.conftest import Database

TOOLS = ("--tools", "tests.cli.chat_tools:TOOLS")

Chat = Callable[..., Result]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No model is chosen."""
    for name in [*os.environ]:
        if name.startswith("HOLDFAST_MODEL") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CHAT_FOLDER", str(tmp_path))


@pytest.fixture
def chat(nowhere: Database) -> Chat:
    """A chat with these lines, on a new database."""

    def run(*lines: str, options: tuple[str, ...] = (), model: str = "mock:") -> Result:
        return nowhere.run("chat", "--model", model, *options, input="".join(f"{line}\n" for line in lines))

    return run


def logged(folder: Path) -> list[str]:
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


# ── talking ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation_is_answered_and_a_later_chat_goes_on_with_it(chat: Chat) -> None:
    first = chat("My name is Alice.")
    assert (first.exit_code, first.stdout) == (0, "Nice to meet you, Alice.\n")
    assert first.stderr == "thread chat: nothing was said yet\n"
    second = chat("What is my name?")
    assert second.stdout == "Your name is Alice.\n"
    assert second.stderr == "thread chat: 2 messages\n"


def test_threads_and_users_are_kept_apart(chat: Chat) -> None:
    chat("My name is Alice.", options=("--thread", "t", "--user", "u"))
    assert (
        chat("What is my name?", options=("--thread", "t", "--user", "u")).stdout == "Your name is Alice.\n"
    )
    for elsewhere in (
        ("--thread", "t"),
        ("--thread", "other", "--user", "u"),
        ("--thread", "t", "--user", "v"),
    ):
        assert "Alice" not in chat("What is my name?", options=elsewhere).stdout


def test_the_system_prompt_is_heard_and_not_stored(chat: Chat, nowhere: Database) -> None:
    order = "Whenever the user shares a fact, call save_note with it."
    shown = chat("I like tea.", options=("--system", order, *TOOLS)).stdout
    assert '→ save_note(content="I like tea")' in shown
    assert order not in nowhere.run("show", "chat").stdout


def test_tool_calls_are_shown_with_what_came_of_them(chat: Chat, tmp_path: Path) -> None:
    shown = chat("Save a note: Buy milk", options=TOOLS)
    assert shown.stdout.splitlines() == [
        '→ save_note(content="Buy milk")',
        "✓ save_note: Note saved: Buy milk",
        "Note saved: Buy milk.",
    ]
    assert logged(tmp_path) == ["save_note"]


def test_a_message_may_span_lines_and_begin_with_a_slash(chat: Chat, nowhere: Database) -> None:
    chat("one\\", "two", "//etc is a folder")
    shown = nowhere.json("show", "chat")["state"]["messages"]
    assert [message["content"] for message in shown if message["role"] == "user"] == [
        "one\ntwo",
        "/etc is a folder",
    ]


def test_blank_lines_and_the_end_of_the_input_are_no_messages(chat: Chat, nowhere: Database) -> None:
    assert chat("", "   ").exit_code == 0
    assert nowhere.run("threads").exit_code == 1


def test_what_a_terminal_would_obey_is_shown_and_lines_stay_lines(chat: Chat) -> None:
    shown = chat("Hello.", model="tests-rude:", options=TOOLS)
    assert shown.stdout == "\\x1b]0;title\\x07first\nsecond\\x1b[2J\n"


# ── a turn that does not end ──────────────────────────────────────────────────────────────────────────


def test_an_error_of_the_model_is_shown_and_the_chat_goes_on(chat: Chat) -> None:
    shown = chat("Hello?", "", model="tests-flaky:", options=TOOLS)
    assert shown.exit_code == 4
    assert shown.stdout == "I heard 1 messages.\n"
    assert shown.stderr.splitlines()[1:] == [
        "error: the service is on fire",
        "the turn is unfinished, at a safe point: Enter goes on with it, /rewind takes it back",
        "going on with the unfinished turn",
    ]


def test_where_an_error_came_from_is_shown_only_when_asked_for(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Traceback" not in chat("Hello?", model="tests-flaky:", options=TOOLS).stderr
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    assert "Traceback" in chat("/rewind x").stderr


def test_an_unfinished_turn_is_gone_on_with_at_the_start_and_that_is_said(nowhere: Database) -> None:
    async def leave_a_question() -> None:
        async with connect(nowhere.url) as db:
            await db.checkpointer.save(AgentState().with_message(Message.user("My name is Alice.")), "chat")

    asyncio.run(leave_a_question())
    shown = nowhere.run("chat", "--model", "mock:", input="What is my name?\n")
    assert shown.stdout == "Nice to meet you, Alice.\nYour name is Alice.\n"
    assert shown.stderr.splitlines() == ["thread chat: 1 message", "going on with the unfinished turn"]


@pytest.mark.parametrize(
    ("answer", "outcome", "payments"),
    [
        ("y", "✓ pay: Paid 250 euros to Bob", 1),
        ("n", "✗ pay: the call was not approved: it was refused", 0),
        ("", "✗ pay: the call was not approved: it was refused", 0),
        ("too much", "✗ pay: the call was not approved: too much", 0),
    ],
)
def test_a_tool_that_needs_approval_is_asked_about(
    chat: Chat, tmp_path: Path, answer: str, outcome: str, payments: int
) -> None:
    shown = chat("Pay 250 euros to Bob.", answer, options=TOOLS)
    assert 'allow pay(euros=250, to="Bob")? [y/N, or why not]' in shown.stderr
    assert outcome in shown.stdout.splitlines()
    assert logged(tmp_path).count("pay") == payments


def test_a_question_that_nobody_answers_is_asked_again_when_the_thread_is_opened(
    chat: Chat, tmp_path: Path
) -> None:
    chat("Pay 250 euros to Bob.", options=TOOLS)
    assert logged(tmp_path) == []
    again = chat("yes", options=TOOLS)
    assert 'allow pay(euros=250, to="Bob")?' in again.stderr
    assert "✓ pay: Paid 250 euros to Bob" in again.stdout
    assert logged(tmp_path) == ["pay"]


# ── commands ──────────────────────────────────────────────────────────────────────────────────────────


def test_history_numbers_the_turns_and_rewind_goes_back_to_one(chat: Chat) -> None:
    shown = chat(
        "My name is Alice.",
        "I like tea.",
        "I live in Lisbon.",
        "/history",
        "/rewind 2",
        "/history",
        "Where do I live?",
        "/history",
    )
    rows = [line.split("\t") for line in shown.stdout.splitlines() if "\t" in line]
    asked = [(row[0], row[3]) for row in rows]
    one, two, three = ("1", "My name is Alice."), ("2", "I like tea."), ("3", "I live in Lisbon.")
    assert asked == [one, two, three, one, two, one, two, ("3", "Where do I live?")]
    assert rows[1][4] == "Good to know: you like tea."
    assert rows[1][1:3] == rows[4][1:3]
    assert "Lisbon" not in rows[-1][4]
    assert "back at the end of turn 2" in shown.stderr


def test_rewind_alone_takes_the_last_turn_back_also_after_a_rewind(chat: Chat) -> None:
    shown = chat("One.", "Two.", "Three.", "/rewind", "Four.", "/rewind", "/rewind", "/history")
    assert [line.split("\t")[3] for line in shown.stdout.splitlines() if "\t" in line] == ["One."]


def test_a_first_turn_that_failed_can_be_taken_back(chat: Chat) -> None:
    shown = chat("Hello?", "/rewind", "/history", "Hi.", "/history", model="tests-flaky:", options=TOOLS)
    assert "I heard 1 messages." in shown.stdout.splitlines()
    assert [line.split("\t")[3] for line in shown.stdout.splitlines() if "\t" in line] == ["Hi."]
    assert "nothing was said yet" in shown.stderr.splitlines()


def test_a_turn_with_tools_is_one_turn(chat: Chat) -> None:
    shown = chat("Save a note: Buy milk", "Thanks!", "/history", options=TOOLS)
    rows = [line.split("\t") for line in shown.stdout.splitlines() if "\t" in line]
    assert [row[3] for row in rows] == ["Save a note: Buy milk", "Thanks!"]


def test_an_unfinished_turn_is_called_so(chat: Chat) -> None:
    shown = chat("Hello?", "/history", model="tests-flaky:", options=TOOLS)
    assert shown.stdout.split("\t")[3:] == ["Hello?", "(unfinished)\n"]


def test_fork_goes_on_elsewhere_and_leaves_the_thread_as_it_was(chat: Chat, nowhere: Database) -> None:
    shown = chat(
        "My name is Alice.",
        "/fork",
        "I like tea.",
        "/fork early 1",
        "What do I like?",
        "/thread chat",
        "/history",
        "/fork early",
    )
    assert "this is thread chat-2 now" in shown.stderr
    assert "this is thread early now: it begins as chat-2 at the end of turn 1" in shown.stderr
    assert "tea" not in shown.stdout.splitlines()[2]
    assert [line.split("\t")[3] for line in shown.stdout.splitlines() if "\t" in line] == [
        "My name is Alice."
    ]
    assert "error: " in shown.stderr.splitlines()[-1]
    assert sorted(line[0] for line in nowhere.lines("threads")) == ["chat", "chat-2", "early"]


def test_threads_are_listed_and_entered(chat: Chat) -> None:
    shown = chat("One.", "/thread other", "Two.", "/threads", "/threads o*", "/thread")
    rows = [line.split("\t")[:2] for line in shown.stdout.splitlines() if "\t" in line]
    assert rows == [["*", "other"], ["", "chat"], ["*", "other"]]
    assert "thread other: nothing was said yet" in shown.stderr
    assert "this is thread other" in shown.stderr


def test_memory_says_what_the_thread_holds(chat: Chat) -> None:
    shown = chat("Save a note: Buy milk", "Thanks!", "/memory", options=TOOLS)
    facts = dict(line.split("\t") for line in shown.stdout.splitlines() if "\t" in line)
    assert facts["thread"] == "chat"
    assert facts["messages"] == "6 in 2 turns"
    assert facts["tool calls"] == "1 (save_note 1)"
    assert facts["confidence"] == "0.25"
    assert int(facts["tokens"].split()[0]) > 0


def test_memory_with_a_query_finds_words_in_all_threads_and_in_the_store(
    chat: Chat, nowhere: Database
) -> None:
    async def remember() -> None:
        async with connect(nowhere.url) as db:
            await db.store.put(("memory", "user"), "drink", {"content": "Prefers tea to coffee"})
            await db.store.put(("memory", "u", "user"), "drink", {"content": "Never drinks tea"})
            await db.store.put(("elsewhere",), "drink", "tea")

    asyncio.run(remember())
    chat("I like tea.", options=("--thread", "kitchen"))
    chat("Tea is not mine.", options=("--thread", "secret", "--user", "u"))
    mine = chat("/memory teas", "/memory chocolate")
    found = mine.stdout.splitlines()
    assert sorted(found[:2]) == ["kitchen\tGood to know: you like tea.", "kitchen\tI like tea."]
    assert sorted(found[2:]) == [
        "memory/u/user/drink\tNever drinks tea",
        "memory/user/drink\tPrefers tea to coffee",
    ]
    assert "nothing has a word of 'chocolate'" in mine.stderr
    theirs = chat("/memory tea", options=("--user", "u")).stdout
    assert "memory/u/user/drink\tNever drinks tea" in theirs
    assert "kitchen" not in theirs
    assert "memory/user/drink" not in theirs


def test_help_lists_every_command(chat: Chat) -> None:
    names = [line.split("\t")[0].split()[0] for line in chat("/help").stdout.splitlines()]
    expected = ["/help", "/history", "/rewind", "/fork", "/resume", "/threads", "/thread", "/memory", "/quit"]
    assert names == expected


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("/histroy", "there is no command /histroy: did you mean /history?"),
        ("/zzz", "there is no command /zzz: /help lists them"),
        ("/rewind 7", "no turn '7': thread 'chat' has turns 1 to 1"),
        ("/rewind x", "no turn 'x'"),
        ("/rewind", "there is nothing before the first turn"),
        ("/fork new 7", "no turn '7'"),
        ("/history 7", "/history takes nothing or 'all'"),
    ],
)
def test_a_wrong_command_is_explained_and_the_chat_goes_on(chat: Chat, line: str, complaint: str) -> None:
    shown = chat("My name is Alice.", line, "What is my name?")
    assert shown.exit_code == 0
    assert f"error: {complaint}" in shown.stderr
    assert shown.stdout.splitlines()[-1] == "Your name is Alice."


def test_commands_on_a_new_thread_say_that_there_is_nothing(chat: Chat) -> None:
    shown = chat("/history", "/memory", "/threads", "/resume", "/fork")
    assert shown.stdout == ""
    assert shown.stderr.splitlines()[1:] == [
        "nothing was said yet",
        "nothing was said yet",
        "no threads",
        "nothing is unfinished here",
        "error: thread 'chat' has nothing to fork yet",
    ]


@pytest.mark.parametrize("end", ["/quit", "/exit"])
def test_nothing_is_read_after_quit(chat: Chat, end: str) -> None:
    assert chat("My name is Alice.", end, "What is my name?").stdout == "Nice to meet you, Alice.\n"


# ── how it is started ─────────────────────────────────────────────────────────────────────────────────


def test_without_a_model_it_says_how_to_choose_one_and_creates_nothing(nowhere: Database) -> None:
    shown = nowhere.run("chat", input="Hello.\n")
    assert shown.exit_code == 2
    for words in ("--model PROVIDER:NAME", "HOLDFAST_MODEL", "OPENAI_API_KEY", "--model mock:"):
        assert words in shown.stderr
    assert not nowhere.path.exists()


def test_the_environment_chooses_the_model(nowhere: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_MODEL_PROVIDER", "mock")
    assert nowhere.run("chat", input="My name is Alice.\n").stdout == "Nice to meet you, Alice.\n"
    monkeypatch.setenv("HOLDFAST_MODEL", "mokc:")
    wrong = nowhere.run("chat", input="Hello.\n")
    assert wrong.exit_code == 2
    assert "did you mean 'mock:'" in wrong.stderr


@pytest.mark.parametrize(
    ("tools", "complaint"),
    [
        ("no_colon", "takes MODULE:NAME"),
        ("no_such_module:x", "there is no module 'no_such_module'"),
        ("tests.cli.chat_tools:MISSING", "has no 'MISSING'"),
        ("tests.cli.chat_tools:NOTHING", "tools[0] must be a function or a tool, got int"),
        ("broken_module:x", "importing it failed: ZeroDivisionError"),
        ("needy_module:x", "needy_module needs absent_package, which is missing"),
    ],
)
def test_tools_that_can_not_be_had_are_wrong_usage(
    nowhere: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: str, complaint: str
) -> None:
    (tmp_path / "broken_module.py").write_text("1 / 0")
    (tmp_path / "needy_module.py").write_text("import absent_package")
    monkeypatch.syspath_prepend(str(tmp_path))
    shown = nowhere.run("chat", "--model", "mock:", "--tools", tools, input="Hello.\n")
    assert shown.exit_code == 2
    assert complaint in shown.stderr
    assert not nowhere.path.exists()


def test_tools_in_the_working_directory_are_found(nowhere: Database, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def double(number: int) -> int:\n    'Double a number.'\n    return 2 * number\n"
    )
    done = nowhere.process(
        *("chat", "--model", "mock:", "--tools", "mine:double"),
        input=b"Call double with number=21.\n",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "✓ double: 42".encode() in done.stdout


def test_there_is_no_json_form(nowhere: Database) -> None:
    shown = nowhere.run("chat", "--model", "mock:", "--json", input="Hello.\n")
    assert shown.exit_code == 2
    assert "holdfast show THREAD --json" in shown.stderr
