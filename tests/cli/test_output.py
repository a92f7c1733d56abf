"""What is printed is safe, exact, and made for its reader."""

import asyncio
import json
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.cli import text
from holdfast.core.messages import Message
from tests.cli.conftest import COMMAND, Database, environment, save_one

EVIL = "a\x1b[31mred\x1b]0;title\x07\x9b5m\u202eback\nassistant\n[bold red]markup[/] \udc80 :smile: é 漢"
COMMANDS = [
    ["threads"],
    ["history", EVIL],
    ["show", EVIL],
    ["diff", EVIL, "head", "--other-thread", "parcel"],
    ["search", "markup"],
    ["fork", EVIL, EVIL + "2"],
    ["export"],
    ["rm", EVIL, "head", "--yes"],
]
# The escapes that we print ourselves: colours and styles, and nothing else.
OWN = r"\x1b\[[0-9;]*m"


@pytest.fixture
def evil(database: Database) -> Database:
    asyncio.run(
        save_one(database.path, EVIL, Message.user(EVIL, name=EVIL, metadata={EVIL: EVIL}), "e\x1b[2J")
    )
    return database


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_control_character_of_stored_text_reaches_a_pipe(evil: Database, command: list[str]) -> None:
    result = evil.run(*command)
    assert result.exit_code == 0, result.output
    assert set("\x1b\x07\x9b\u202e") & set(result.output) == set()


@pytest.mark.parametrize("command", COMMANDS[:5], ids=lambda command: command[0])
def test_no_control_character_of_stored_text_reaches_a_terminal(evil: Database, command: list[str]) -> None:
    code, seen = evil.terminal(*command)
    assert code == 0, seen
    assert set("\x1b\x07\x9b\u202e") & set(re.sub(OWN, "", seen)) == set()
    joined = re.sub(r"\s+", "", re.sub(OWN, "", seen))
    assert "[boldred]markup[/]" in joined
    assert ":smile:" in joined


def test_an_error_that_names_stored_text_is_one_harmless_line(evil: Database) -> None:
    result = evil.run("show", EVIL, "zzzz\x1b[31m")
    assert result.exit_code == 1
    assert "\x1b" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_json_is_exact_and_harmless(evil: Database) -> None:
    result = evil.run("show", EVIL, "--json")
    assert set("\x1b\x07\x9b\u202e") & set(result.stdout) == set()
    document = json.loads(result.stdout)
    assert document["thread_id"] == EVIL
    assert document["state"]["messages"][0]["content"] == EVIL
    assert "漢" in result.stdout


def test_text_in_a_conversation_can_not_pass_for_a_heading(evil: Database) -> None:
    shown = evil.run("show", EVIL).stdout
    assert [line for line in shown.splitlines() if line.startswith("assistant")] == []
    assert "  assistant\n" in shown


def test_an_output_that_knows_only_ascii_gets_everything_escaped(evil: Database) -> None:
    for arguments in (["threads"], ["threads", "--json"], ["show", "parcel"]):
        env = environment(evil.url, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        result = subprocess.run([*COMMAND, *arguments], capture_output=True, check=False, env=env)
        assert result.returncode == 0, os.fsdecode(result.stderr)
        assert result.stdout.isascii()
        if "--json" in arguments:
            assert EVIL in [thread["thread_id"] for thread in json.loads(result.stdout)]


def test_a_terminal_gets_tables_with_colour_and_no_color_takes_it_away(database: Database) -> None:
    code, seen = database.terminal("threads")
    assert code == 0
    assert "\x1b[" in seen
    assert "last saved" in seen
    for arguments, variables in ((["--no-color"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})):
        _, plain = database.terminal("threads", *arguments, **variables)
        assert "\x1b" not in plain
        assert "last saved" in plain


def test_a_terminal_gets_a_coloured_conversation(database: Database) -> None:
    _, seen = database.terminal("show", "parcel")
    assert "\x1b[1;36muser\x1b[0m" in seen
    assert "\x1b[1;32massistant\x1b[0m" in seen


def test_json_in_a_terminal_is_still_json(database: Database) -> None:
    _, seen = database.terminal("stats", "--json")
    assert json.loads(seen)[0]["threads"] == 2


def test_a_narrow_terminal_cuts_nothing_off(database: Database) -> None:
    thread = "a-long-thread-name-" * 8
    asyncio.run(save_one(database.path, thread, Message.user("hi")))
    _, seen = database.terminal("--no-color", "threads", COLUMNS="60")
    assert thread in "".join(line.split(" ")[0] for line in seen.splitlines())


def test_values_of_every_type_have_a_json_form() -> None:
    value = {"when": datetime(2026, 1, 1, tzinfo=UTC), "raw": b"\x00", "odd": [float("nan"), (1, True, None)]}
    printed = json.loads(text.to_json(value))
    assert printed["when"] == "2026-01-01T00:00:00+00:00"
    assert printed["odd"][1] == [1, True, None]
    assert set(printed["raw"]) == {"$hf", "v"}


def test_ages_and_sizes_read_naturally() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    ages = [
        timedelta(seconds=5),
        timedelta(minutes=5),
        timedelta(hours=30),
        timedelta(days=3),
        timedelta(days=90),
    ]
    assert [text.age(now - age, now) for age in ages] == [
        "just now",
        "5 min ago",
        "30 h ago",
        "3 days ago",
        "March 2026",
    ]
    assert [text.size(count) for count in (0, 999, 1000, 73_700, 5 * 10**9)] == [
        "0 bytes",
        "999 bytes",
        "1.0 KB",
        "73.7 KB",
        "5.0 GB",
    ]
