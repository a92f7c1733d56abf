"""Fixtures of the reliability tests."""

from collections.abc import Iterator

import pytest

from tests.reliability.children import Children


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    """A server of short-lived processes, started once."""
    with Children() as server:
        yield server
