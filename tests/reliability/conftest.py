"""Fixtures of the reliability tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.children import Children
from tests.reliability.places import Places


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    """A server of short-lived processes, started once."""
    with Children() as server:
        yield server


@pytest.fixture(params=["sqlite"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """Where agents of child processes keep what they keep. A test that also runs on servers says so: see `places`."""
    servers = {"postgres": "used_postgres", "mariadb": "used_mariadb", "oracle": "used_oracle"}
    if request.param == "sqlite":
        return Places(tmp_path, None)
    return Places(tmp_path, request.getfixturevalue(servers[request.param]))
