"""The versioned saver on a real MariaDB, asynchronous and blocking."""

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.memory.backends.mysql import MySQLCheckpointSaver, MySQLSyncCheckpointSaver
from tests.memory.saver_suite import SaverSuite, opened
from tests.servers.fixtures import MariaDatabase


@pytest.fixture(params=[MySQLCheckpointSaver, MySQLSyncCheckpointSaver])
def saver(request: pytest.FixtureRequest, used_mariadb: MariaDatabase) -> Iterator[Any]:
    blocking = request.param is MySQLSyncCheckpointSaver
    with opened(request.param(used_mariadb.url), blocking=blocking) as facing:
        yield facing


class TestMySQLSaver(SaverSuite):
    pass
