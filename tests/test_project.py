"""The project keeps its own rules: packaging, lock, sizes, who imports what, a reason for each exception."""

import ast
import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path

import pytest

import holdfast
from tests.suppressions import ROOT, find_suppressions, scan

SOURCES = sorted((ROOT / "src").rglob("*.py"))
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80

# The licence as its authors publish it, to the byte.
APACHE_2_SHA256 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"

# What may be imported only from these modules: a driver by its backend, a tool by the part that it is for.
IMPORTERS = {
    # Chroma's own file is SQLite's, and keeps what was deleted.
    "sqlite3": (
        "holdfast.memory.backends.sqlite*",
        "holdfast.memory.backends.chroma_files",
        "holdfast.testing.faults",
    ),
    "aiomysql": ("holdfast.memory.backends.mysql_*",),
    "chromadb": ("holdfast.memory.backends.chroma*",),
    "pymysql": ("holdfast.memory.backends.mysql_*",),
    "oracledb": ("holdfast.memory.backends.oracle_*",),
    "psycopg": ("holdfast.memory.backends.postgres_*",),
    "psycopg_pool": ("holdfast.memory.backends.postgres_*",),
    "pytest": ("holdfast.testing*",),
    "hypothesis": ("holdfast.testing*",),
    "click": ("holdfast.cli*",),
    "rich": ("holdfast.cli*",),
    "docstring_parser": ("holdfast.tools*",),
    "opentelemetry": ("holdfast.agent.telemetry",),
    "anthropic": ("holdfast.models.anthropic*",),
    "litellm": ("holdfast.models.litellm*",),
    "oci": ("holdfast.models.oci*",),
    "ollama": ("holdfast.models.ollama*",),
    "openai": ("holdfast.models.openai*",),
    "openrouter": ("holdfast.models.openrouter*",),
    "tokenizers": ("holdfast.memory.embedder.local",),
    "safetensors": ("holdfast.memory.embedder.local",),
    "httpx": ("holdfast.models.openrouter*",),
}
HEAVY = ("pydantic", "asyncio", "numpy", "sqlite3")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tracked_files() -> list[Path]:
    """What is in the repository, or would be with the next commit."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git: the files of a checkout are listed by it")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every import, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


# -------------------------------------------------------------------------------------------------- packaging


def test_the_version_is_the_same_in_code_metadata_and_changelog() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", holdfast.__version__)
    assert metadata.version("holdfast") == holdfast.__version__, "run `make setup`"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [line for line in changelog.splitlines() if line.startswith("## ")]
    assert any(re.search(rf"(?<![\d.]){re.escape(holdfast.__version__)}(?![\d.])", line) for line in headings)


def test_the_licence_is_the_exact_text_of_apache_2() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2_SHA256


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = target.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    info = f"holdfast-{holdfast.__version__}.dist-info"
    fields = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert fields["Name"] == "holdfast"
    assert fields["Version"] == holdfast.__version__
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Requires-Python"] == ">=3.11"
    assert fields["Summary"]
    assert set(fields.get_all("License-File", [])) == {"LICENSE", "NOTICE"}
    assert {"cli", "testing", "vectors"} <= set(fields.get_all("Provides-Extra", []))
    needed = [line for line in fields.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = sorted(re.split(r"[<>=! ;]", line)[0].lower() for line in needed)
    assert names == ["docstring-parser", "pydantic", "pystemmer"]
    assert "holdfast = holdfast.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()


def test_the_wheel_holds_the_package_its_type_marker_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "holdfast/py.typed" in names
    assert {name.partition("/")[0] for name in names} == {
        "holdfast",
        f"holdfast-{holdfast.__version__}.dist-info",
    }
    assert {module for module in names if module.endswith(".py")} == {
        path.relative_to(ROOT / "src").as_posix() for path in SOURCES
    }


# ------------------------------------------------------------------------------------------------------- lock


def requirements(lock: Path) -> list[str]:
    """The logical lines of a lock: continuations joined, comments dropped."""
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def test_there_is_a_lock_for_each_list_of_requirements() -> None:
    wanted = sorted(path.with_suffix(".txt") for path in (ROOT / "requirements").glob("*.in"))
    assert wanted
    assert wanted == LOCKS


@pytest.mark.parametrize("lock", LOCKS, ids=relative)
def test_a_lock_pins_every_requirement_with_hashes_and_names_no_index(lock: Path) -> None:
    lines = requirements(lock)
    assert lines
    for line in lines:
        assert re.fullmatch(r"[a-z0-9._-]+==[\w.+!]+( ;[^#]*?)?( +--hash=sha256:[0-9a-f]{64})+", line), line
    text = lock.read_text(encoding="utf-8")
    for forbidden in ("://", "--index", "--extra-index", "--trusted-host", "--find-links", "@"):
        assert forbidden not in text


def test_the_development_lock_covers_the_project_its_extras_and_its_build() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted.extend(extra)
    wanted.extend(requirements(ROOT / "requirements" / "dev.in"))
    names = {re.split(r"[<>=!\[ ;]", line)[0].lower() for line in wanted}
    locked = {line.partition("==")[0] for line in requirements(ROOT / "requirements" / "dev.txt")}
    assert names <= locked, "run `make lock`"


# ------------------------------------------------------------------------------------------------ cleanliness

# Written so that this file does not contain what it looks for.
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:(?:work|root)/|(?:home|Users)/\w)")
REGISTRIES = re.compile(
    r"py[p]i\.(?:org|python)|python[h]osted\.|registry\.(?:npm|yarn)|ana[c]onda\.(?:org|com)|j[f]rog\.io",
    re.IGNORECASE,
)


def matches(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines = enumerate(text.splitlines(), start=1)
        found += [
            f"{relative(path)}:{number}: {line.strip()[:120]}"
            for number, line in lines
            if pattern.search(line)
        ]
    return found


def test_no_file_names_a_path_of_one_machine() -> None:
    assert matches(MACHINE_PATHS) == []


def test_no_file_names_a_package_registry() -> None:
    assert matches(REGISTRIES) == []


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        (MACHINE_PATHS, ("see ", "root", "x")),
        (MACHINE_PATHS, ("'", "home", "ann", "file'")),
        (MACHINE_PATHS, ("path=", "work", "main")),
        (REGISTRIES, ("https:", "", "py" + "pi.org", "simple")),
        (REGISTRIES, ("https:", "", "files.python" + "hosted.org", "packages")),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], parts: tuple[str, ...]) -> None:
    assert pattern.search("/".join(parts))


# ------------------------------------------------------------------------------------------------------ sizes


def test_no_source_file_is_longer_than_the_limit() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_the_limit() -> None:
    offenders = [
        f"{relative(path)}:{node.lineno}: {node.name}: {length} lines"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert offenders == []


# ---------------------------------------------------------------------------------------------------- imports


def test_drivers_and_tools_are_imported_only_by_the_modules_they_are_for() -> None:
    offenders = [
        f"{relative(path)}:{line}: {package}"
        for path in SOURCES
        for line, package in imports(path)
        if package in IMPORTERS
        and not any(fnmatchcase(module_name(path), allowed) for allowed in IMPORTERS[package])
    ]
    assert offenders == []


def test_importing_holdfast_is_light() -> None:
    code = f"import holdfast, sys; print(*[name for name in {HEAVY} if name in sys.modules])"
    # A coverage or debugging hook would import things of its own.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))
    }
    command = [sys.executable, "-c", code]
    fresh = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert fresh.stdout.split() == []


# ------------------------------------------------------------------------------------------------- exceptions


def test_every_suppression_gives_its_reason_on_the_line() -> None:
    assert [str(found) for found in find_suppressions() if not found.reason] == []


@pytest.mark.parametrize(
    ("source", "kind", "reason"),
    [
        ("x = f()  # type: ignore[no-any-return]", "type: ignore", ""),
        ("x = f()  # type: ignore[no-any-return]  # the stub lies", "type: ignore", "the stub lies"),
        ("x = f()  # noqa: S608", "noqa", ""),
        ("x = f()  # noqa: S608, E501 - names are ours", "noqa", "names are ours"),
        ("# ruff: noqa", "noqa", ""),
        ("pytest.skip()", "skip", ""),
        ("pytest.skip('needs a tmpfs')", "skip", "needs a tmpfs"),
        ("pytest.skip(why)", "skip", "why"),
        ("@pytest.mark.skip\ndef test(): ...", "skip", ""),
        ("pytest.mark.skipif(old, reason='needs 3.12')", "skipif", "needs 3.12"),
        ("pytest.mark.xfail(True)", "xfail", ""),
        ("pytest.xfail('bug in sqlite')", "xfail", "bug in sqlite"),
        ("pytest.importorskip('numpy')", "importorskip", ""),
        ("pytest.importorskip('numpy')  # the vectors extra", "importorskip", "the vectors extra"),
        ("settings(max_examples=10)", "max_examples=10", ""),
        ("settings(max_examples=10)  # each starts a process", "max_examples=10", "each starts a process"),
    ],
)
def test_a_suppression_is_found_with_its_reason(source: str, kind: str, reason: str) -> None:
    (found,) = scan(source)
    assert (found.kind, found.reason) == (kind, reason)


@pytest.mark.parametrize(
    "source",
    [
        "text = '# type: ignore'",
        "rows.skip(3)",
        "pytest.skip.Exception",
        "settings(max_examples=200)",
        "# ignore the type",
    ],
)
def test_what_only_looks_like_a_suppression_is_not_one(source: str) -> None:
    assert list(scan(source)) == []
