"""The versioned saver on Oracle, asynchronous and blocking."""

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.memory.backends.oracle import OracleCheckpointSaver, OracleSyncCheckpointSaver
from tests.memory.saver_suite import SaverSuite, opened
from tests.oracle.place import Place


@pytest.fixture(params=[OracleCheckpointSaver, OracleSyncCheckpointSaver])
def saver(request: pytest.FixtureRequest, used_place: Place) -> Iterator[Any]:
    blocking = request.param is OracleSyncCheckpointSaver
    with opened(request.param(**used_place.options()), blocking=blocking) as facing:
        yield facing


class TestOracleSaver(SaverSuite):
    pass
