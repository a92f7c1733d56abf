"""`memory list`, `search`, `facts` and `blame`: looking into what is remembered."""

import json

import pytest

from holdfast.memory.facts import Fact
from holdfast.resolving import LazyMemory
from tests.cli.conftest import Database
from tests.cli.memories import HARBOUR, memories, on

__all__ = ["memories"]

ALICE = ("--user", "alice")


def test_list_shows_users_with_how_much_is_kept_of_each(memories: Database) -> None:
    users = [(line[0], *line[1:5]) for line in memories.lines("memory", "list")]
    assert users == [("", "0", "0", "0", "1"), ("alice", "2", "3", "2", "1"), ("bob", "1", "1", "0", "0")]
    (nobody, *_) = memories.json("memory", "list", "--limit", "1")
    assert (nobody["user"], nobody["blocks"]) == (None, 1)
    result = memories.run("memory", "list", "--limit", "2")
    assert "there are more users" in result.stderr
    code, seen = memories.terminal("memory", "list", NO_COLOR="1")
    assert code == 0
    assert "(anonymous)" in seen


def test_list_shows_episodes_newest_first_sessions_and_blocks(memories: Database) -> None:
    texts = [line[3] for line in memories.lines("memory", "list", *ALICE)]
    assert texts == ["I moved to Oslo.", "My dog is called Biscuit.", HARBOUR]
    (line,) = memories.lines("memory", "list", *ALICE, "--session", "summer", "--limit", "1")
    assert line[:3] == ["2024-08-01T00:00:00+00:00", "summer", "user"]
    (episode, *_) = memories.json("memory", "list", *ALICE)
    assert (episode["checkpoint"], episode["ordinal"]) == ("c1000", 1)
    assert memories.lines("memory", "list", *ALICE, "--show", "sessions") == [
        ["summer", "2", "2024-07-01T09:30:00+00:00", "2024-08-01T00:00:00+00:00"],
        ["spring", "1", "2024-03-01T00:00:00+00:00", "2024-03-01T00:00:00+00:00"],
    ]
    assert memories.lines("memory", "list", *ALICE, "--show", "blocks") == [["style", "Short answers."]]
    assert memories.lines("memory", "list", "--anonymous", "--show", "blocks") == [["note", "Nobody's."]]


def test_a_user_is_a_partition_and_so_is_a_namespace(memories: Database) -> None:
    for command in (
        ["list", "--user", "nobody"],
        ["list", *ALICE, "--namespace", "other"],
        ["search", "Lisbon", "--user", "bob", "--embedder", "none"],
        ["facts", "--user", "bob"],
        ["facts", "--anonymous"],
    ):
        result = memories.run("memory", *command)
        assert (result.exit_code, result.stdout) == (1, ""), command
        assert memories.run("memory", *command, "--json").stdout == "[]\n"


def test_long_texts_are_cut_to_the_terminal_and_whole_everywhere_else(memories: Database) -> None:
    _, seen = memories.terminal("memory", "list", *ALICE, NO_COLOR="1")
    row = next(line for line in seen.splitlines() if "Lisbon" in line)
    assert row.rstrip().endswith("…")
    assert len(row) <= 100
    assert "2024-03-01 00:00:00Z" in row
    assert HARBOUR in memories.run("memory", "list", *ALICE).stdout
    assert HARBOUR in memories.run("memory", "list", *ALICE, "--json").stdout


@pytest.mark.parametrize(
    "command",
    [
        "search Lisbon",
        "facts",
        "blame 1234",
        "forget --yes",
        "export",
        "list --show blocks",
        "list --session s",
    ],
)
def test_nobody_is_meant_only_when_it_is_written_out(memories: Database, command: str) -> None:
    result = memories.run("memory", *command.split())
    assert result.exit_code == 2
    assert "--user ID, or --anonymous" in result.stderr
    both = memories.run("memory", *command.split(), *ALICE, "--anonymous")
    assert (both.exit_code, "exclude" in both.stderr) == (2, True)


def test_search_gives_scores_with_their_parts(memories: Database) -> None:
    hits = memories.json("memory", "search", "Where do I live?", *ALICE)
    assert hits[0]["text"] == HARBOUR
    assert hits[0]["score"] == pytest.approx(sum(hits[0]["parts"].values()))
    assert {"words", "meaning"} <= hits[0]["parts"].keys()
    code, seen = memories.terminal("memory", "search", "Where do I live?", *ALICE, "--explain", NO_COLOR="1")
    assert code == 0
    assert "words +" in seen
    assert "meaning +" in seen
    assert "words +" not in memories.terminal("memory", "search", "live", *ALICE, NO_COLOR="1")[1]
    (hit,) = memories.json("memory", "search", "dog", *ALICE, "--session", "summer", "--limit", "1")
    assert hit["text"] == "My dog is called Biscuit."


def test_search_goes_by_words_where_vectors_do_not_fit_and_says_so(memories: Database) -> None:
    result = memories.run("memory", "search", "Where do I live?", *ALICE, "--embedder", "hash", "--json")
    assert result.exit_code == 0
    assert "by words alone" in result.stderr
    assert "dimension 64" in result.stderr
    assert "dimension 256" in result.stderr
    assert "holdfast reembed" in result.stderr
    assert "meaning" not in json.loads(result.stdout)[0]["parts"]
    silent = memories.run("memory", "search", "live", *ALICE, "--embedder", "none")
    assert (silent.exit_code, silent.stderr) == (0, "")


def test_search_says_if_the_embedder_of_what_is_stored_can_not_be_had(memories: Database) -> None:
    async def change(memory: LazyMemory) -> None:
        from holdfast.memory import vectors

        where = ("memory", "default", "u:alice", "episodes")
        space = vectors.VectorSpace(64, vectors.Metric.COSINE, "of my own")
        await memory.store.change_space(where, space)

    on(memories, change)
    result = memories.run("memory", "search", "Where do I live?", *ALICE)
    assert result.exit_code == 0
    assert "by words alone: the stored vectors are of embedder 'of my own'" in result.stderr
    wrong = memories.run("memory", "search", "live", *ALICE, "--embedder", "opnai")
    assert (wrong.exit_code, "did you mean" in wrong.stderr) == (2, True)


def test_facts_are_asked_for_on_both_axes_of_time(memories: Database) -> None:
    def known(*options: str) -> list[list[str]]:
        return [line[1:4] for line in memories.lines("memory", "facts", *ALICE, *options)]

    assert known() == [["user", "has_pet", "Biscuit"], ["user", "lives_in", "Oslo"]]
    assert known("--valid-at", "2024-05-01") == [["user", "lives_in", "Lisbon"]]
    assert known("--predicate", "lives_in", "--subject", "user") == [["user", "lives_in", "Oslo"]]
    assert known("--history", "--predicate", "lives_in") == [
        ["user", "lives_in", "Lisbon"],
        ["user", "lives_in", "Oslo"],
    ]
    assert known("--history", "--predicate", "Lives in") == known("--history", "--predicate", "lives_in")
    assert len(known("--history", "--subject", "I")) == len(known("--history")) == 3
    assert known("--subject", "user", "--predicate", "lives_in", "--history")[0][2] == "Lisbon"
    nothing = memories.run("memory", "facts", *ALICE, "--known-at", "2024-05-01T12:00Z")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    (fact, *_) = memories.json("memory", "facts", *ALICE, "--limit", "1")
    assert (fact["object"], fact["confidence"], len(fact["sources"])) == ("Biscuit", 0.9, 1)
    assert "more facts" in memories.run("memory", "facts", *ALICE, "--limit", "1").stderr


def test_what_was_believed_at_a_moment_between_two_changes_is_found(memories: Database) -> None:
    facts = memories.json("memory", "facts", *ALICE, "--history", "--predicate", "lives_in")
    moment = facts[1]["recorded_at"]  # of Oslo: at that moment it is known
    (now,) = memories.json("memory", "facts", *ALICE, "--predicate", "lives_in", "--known-at", moment)
    assert now["object"] == "Oslo"
    first = facts[0]["recorded_at"]
    (before,) = memories.json(
        "memory", "facts", *ALICE, "--predicate", "lives_in", "--known-at", first, "--valid-at", first
    )
    assert before["object"] == "Lisbon"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--valid-at", "yesterday"], "2026-03-01T12:30Z"),
        (["--history", "--valid-at", "2024-01-01"], "--valid-at"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_a_question_about_facts_that_means_nothing_is_refused(
    memories: Database, options: list[str], message: str
) -> None:
    result = memories.run("memory", "facts", *ALICE, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_blame_tells_who_said_so_and_what_took_its_place(memories: Database) -> None:
    lisbon, oslo = memories.json("memory", "facts", *ALICE, "--history", "--predicate", "lives_in")
    told = memories.json("memory", "blame", lisbon["id"], *ALICE)
    assert told["fact"] == lisbon
    assert told["superseded_by"] == [oslo]
    (change,) = told["changes"]
    assert (change["kind"], change["author"], change["object"]) == ("add", "extraction", "Lisbon")
    assert [(source["text"], source["session_id"]) for source in change["sources"]] == [(HARBOUR, "spring")]
    (line,) = memories.lines("memory", "blame", oslo["id"][:8], *ALICE)
    assert line[0] == "add"
    assert line[5] == "c1000"
    assert line[10] == "I moved to Oslo."
    code, seen = memories.terminal("memory", "blame", lisbon["id"][:6], *ALICE, NO_COLOR="1")
    assert code == 0
    assert f"superseded by  Oslo ({oslo['id'][:8]})" in seen
    assert "by extraction, 0.80 sure" in seen


def test_blame_tells_of_retractions_and_of_sources_that_are_gone(memories: Database) -> None:
    async def retract(memory: LazyMemory) -> str:
        assert memory.facts is not None
        fact = await memory.facts.add(Fact("user", "likes", "rain"), user_id="alice", source="gone")
        await memory.facts.retract(fact.id, "a misunderstanding", user_id="alice", author="support")
        return fact.id

    told = memories.json("memory", "blame", on(memories, retract), *ALICE)
    stated, retracted = told["changes"]
    assert stated["sources"] == [{"id": "gone"}]
    assert (retracted["kind"], retracted["reason"], retracted["author"]) == (
        "retract",
        "a misunderstanding",
        "support",
    )
    assert memories.run("memory", "facts", *ALICE, "--predicate", "likes").exit_code == 1


def test_a_fact_that_is_not_there_or_not_named_well_is_said_so(memories: Database) -> None:
    facts = memories.json("memory", "facts", *ALICE)
    assert memories.run("memory", "blame", "zzzz", *ALICE).exit_code == 1
    assert memories.run("memory", "blame", facts[0]["id"], "--user", "bob").exit_code == 1
    short = memories.run("memory", "blame", facts[0]["id"][:2], *ALICE)
    assert (short.exit_code, "4 characters" in short.stderr) == (2, True)


def test_stored_text_can_not_move_the_cursor(memories: Database) -> None:
    async def hostile(memory: LazyMemory) -> None:
        assert memory.facts is not None
        said = await memory.remember("evil \x1b[2J\u202e", user_id="mallory\x1b[0m")
        await memory.facts.add(
            Fact("user", "is", "x\x1b[31m"), user_id="mallory\x1b[0m", source=said.id, author="a\x1b[1m"
        )

    on(memories, hostile)
    (fact,) = memories.json("memory", "facts", "--user", "mallory\x1b[0m")
    for command in (
        ["list"],
        ["list", "--user", "mallory\x1b[0m"],
        ["search", "evil", "--user", "mallory\x1b[0m", "--explain"],
        ["facts", "--user", "mallory\x1b[0m"],
        ["blame", fact["id"], "--user", "mallory\x1b[0m"],
        ["facts", "--user", "nobody\x1b[0m"],
    ):
        _, seen = memories.terminal("memory", *command, NO_COLOR="1")
        assert "\x1b" not in seen, command
        assert "\x1b" not in memories.run("memory", *command).output


def test_the_group_shows_its_help_and_takes_shared_options_anywhere(
    memories: Database, tmp_path: str
) -> None:
    help_text = memories.run("memory").stdout
    names = "list search facts blame forget export import".split()
    places = [help_text.index(f"\n  {name} ") for name in names]
    assert places == sorted(places)
    other = Database(memories.path.with_name("not-this-one.db"))
    assert other.run("memory", "--db", memories.url, "list").exit_code == 0
    assert other.run("--db", memories.url, "--user", "alice", "memory", "list").stdout.count("\n") == 3


def test_it_runs_as_a_process(memories: Database) -> None:
    result = memories.process("memory", "search", "Where do I live?", "--user", "alice", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)[0]["text"] == HARBOUR
    assert result.stderr == b""
