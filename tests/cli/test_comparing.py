"""`diff`, `search`, `stats`, `version`."""

import holdfast
from tests.cli.conftest import Database


def test_diff_shows_what_came_since_a_checkpoint(database: Database) -> None:
    shown = database.run("diff", "parcel", "head~1").stdout.splitlines()
    assert shown[0].startswith("--- parcel  c3000")
    assert shown[1].startswith("+++ parcel  c4000")
    assert "iteration: 3 → 4" in shown
    assert shown[-2:] == ["messages: 5 in common", "  + user: Thanks!\\nAnd the invoice?"]


def test_diff_across_threads_shows_what_each_of_them_has(database: Database) -> None:
    shown = database.run("diff", "parcel", "head", "--other-thread", "other").stdout
    assert "  - user: Thanks!\\nAnd the invoice?\n  + assistant: It is lost.\n" in shown
    assert "errors: 0 in common\n  + no parcel\n" in shown
    assert "confidence: 0.0 → 0.4\n" in shown


def test_diff_as_json_has_fields_and_lists(database: Database) -> None:
    document = database.json("diff", "parcel", "c1000", "c2000")
    assert (document["before"]["checkpoint_id"], document["after"]["checkpoint_id"]) == ("c1000", "c2000")
    assert document["identical"] is False
    assert document["fields"]["iteration"] == {"before": 1, "after": 2}
    messages = document["lists"]["messages"]
    assert (messages["common"], messages["removed"]) == (2, [])
    assert [message["role"] for message in messages["added"]] == ["assistant", "tool"]


def test_diff_of_a_checkpoint_with_itself_says_so(database: Database) -> None:
    assert "no difference" in database.run("diff", "parcel", "head").stdout
    assert database.json("diff", "parcel", "head")["identical"] is True


def test_search_finds_words_by_their_stem_best_first(database: Database) -> None:
    lines = database.lines("search", "shipping")
    assert {line[1] for line in lines} == {"parcel", "other"}
    assert {line[3] for line in lines} == {"shipped", "It was shipped on Monday."}
    scores = [float(line[0]) for line in lines]
    assert scores == sorted(scores, reverse=True)


def test_search_as_json_is_an_array_of_hits_and_takes_a_limit(database: Database) -> None:
    (hit,) = database.json("search", "invoice", "--limit", "1")
    assert set(hit) == {"score", "thread_id", "checkpoint_id", "snippet"}
    assert (hit["thread_id"], hit["checkpoint_id"]) == ("parcel", "c4000")


def test_a_search_without_a_hit_is_exit_code_1(database: Database) -> None:
    result = database.run("search", "xylophone", "--json")
    assert (result.exit_code, result.stdout) == (1, "[]\n")


def test_stats_counts_one_scope_or_all_of_them(database: Database) -> None:
    (line,) = database.lines("stats")
    assert line[:3] == ["", "2", "8"]
    assert line[4] == "1"
    every = database.json("stats", "--all")
    assert [(row["scope"], row["threads"], row["checkpoints"]) for row in every] == [
        (None, 2, 8),
        ("user-1", 1, 1),
    ]
    (mine,) = database.json("--user", "user-1", "stats")
    assert (mine["scope"], mine["threads"]) == ("user-1", 1)


def test_version_needs_no_database(nowhere: Database) -> None:
    assert nowhere.run("version").stdout == f"holdfast {holdfast.__version__}\n"
    assert nowhere.run("--version").stdout == f"holdfast {holdfast.__version__}\n"
    assert nowhere.json("version")["holdfast"] == holdfast.__version__
    assert not nowhere.path.exists()
