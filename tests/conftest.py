"""What every test run has: hypothesis profiles, required components, and a closing list of what was left out.

A test that needs something a machine may lack (a database, a service) skips with a reason that begins with
"needs <component>", or carries `@pytest.mark.requires("<component>")` beside its skip. `HOLDFAST_REQUIRE=a,b`
says that these components must be there: a test skipped for want of one fails the run.
"""

import gc
import os
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.servers.keeping import in_memory
from tests.suppressions import find_suppressions

pytest.register_assert_rewrite("holdfast.testing")

pytest_plugins = ("tests.servers.fixtures", "tests.servers.oracle")

# Examples have no deadline (machines differ) and print what reproduces them; CI draws the same each time.
settings.register_profile("holdfast", deadline=None, print_blob=True)
settings.register_profile("holdfast-ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile("holdfast-ci" if os.environ.get("CI") else "holdfast")

_NEEDS = re.compile(r"(?:needs |could not import ')([\w.-]*\w)")
_PROPERTY, _USED = "requires", "uses"
_SERVERS = {"postgres_server": "postgres", "mariadb_server": "mariadb"}
"""Fixtures that skip a test by themselves, if the component is not there."""


def required_components() -> frozenset[str]:
    """The components that `HOLDFAST_REQUIRE` names."""
    names = os.environ.get("HOLDFAST_REQUIRE", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Markers stay in the worker process; properties travel with the report to the one that sums up.
    for item in items:
        for marker in item.iter_markers("requires"):
            item.user_properties.extend((_PROPERTY, str(name)) for name in marker.args)
        used = _SERVERS.keys() & getattr(item, "fixturenames", ())
        item.user_properties.extend((_USED, _SERVERS[name]) for name in sorted(used))
    # What takes long as a whole must not begin when the other process has nothing left to do.
    items.sort(key=lambda item: not item.nodeid.startswith("tests/test_"))


# Tests make many objects that are gone at once: nothing is gained by looking for rings among them every 700.
gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish() -> None:
    # A third of a million objects of modules and tests stay to the end, and need not be looked at again and again.
    gc.collect()
    gc.freeze()


class Skips:
    """The skips of a run, gathered in the process that reports (xdist's workers only run tests)."""

    def __init__(self) -> None:
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.missing: dict[str, set[str]] = {}
        self.named: set[str] = set()
        self._modules: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        marked = {str(value) for name, value in report.user_properties if name == _PROPERTY}
        self.named |= marked | {str(value) for name, value in report.user_properties if name == _USED}
        # An expected failure is reported as skipped too, and left nothing out.
        if report.skipped and "wasxfail" not in vars(report):
            self._add(report.nodeid, _reason(report), marked)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # Each worker collects the whole suite: a module that skips itself is told of once per worker.
        if report.skipped and report.nodeid not in self._modules:
            self._modules.add(report.nodeid)
            self._add(report.nodeid, _reason(report), set())

    def _add(self, nodeid: str, reason: str, components: set[str]) -> None:
        needed = _NEEDS.match(reason)
        components = components | ({needed[1]} if needed else set())
        self.named |= components
        self.reasons[", ".join(sorted(components)) or "-", reason] += 1
        for component in components & required_components():
            self.missing.setdefault(component, set()).add(f"{nodeid}: {reason}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.missing and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        for title, lines in (
            ("suppressions (each with its reason)", [str(found) for found in find_suppressions()]),
            ("skipped components", list(self._skip_lines())),
        ):
            if lines:
                terminalreporter.section(title, sep="-")
                for line in lines:
                    write(line)
        unnamed = sorted(required_components() - self.named)
        if unnamed:
            write(
                f"HOLDFAST_REQUIRE names what no test of this run mentions: {', '.join(unnamed)}", yellow=True
            )
        if self.missing:
            terminalreporter.section("FAILED: required components were skipped", sep="=", red=True)
            for component, tests in sorted(self.missing.items()):
                write(
                    f"{component} is required (HOLDFAST_REQUIRE), yet {len(tests)} skipped for want of it:",
                    red=True,
                )
                for test in sorted(tests):
                    write(f"  {test}")

    def _skip_lines(self) -> Iterator[str]:
        for (components, reason), count in sorted(self.reasons.items()):
            yield f"{components}: {count} skipped: {reason}"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    place = report.longrepr
    text = place[2] if isinstance(place, tuple) else str(place)
    return text.removeprefix("Skipped: ")


def pytest_configure(config: pytest.Config) -> None:
    if (memory := in_memory()) is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))  # where `tmp_path` is
    if "workerinput" not in vars(config):
        config.pluginmanager.register(Skips(), "holdfast-skips")
