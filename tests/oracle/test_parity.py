"""The double has nothing that the real driver lacks: names, parameters, and what is awaited."""

import inspect

import oracledb
import pytest

from tests.oracle import driver

PAIRS = (
    (driver.SyncCursor, oracledb.Cursor),
    (driver.AsyncCursor, oracledb.AsyncCursor),
    (driver.SyncConnection, oracledb.Connection),
    (driver.AsyncConnection, oracledb.AsyncConnection),
    (driver.SyncPool, oracledb.ConnectionPool),
    (driver.AsyncPool, oracledb.AsyncConnectionPool),
    (driver.Lob, oracledb.LOB),
    (driver.AsyncLob, oracledb.AsyncLOB),
    (driver.Var, oracledb.Var),
    (driver.PipelineOpResult, oracledb.PipelineOpResult),
)
OWN = {"using", "on_loop", "connect", "take", "give_back"}
"""How the parts of the double talk to each other."""


@pytest.mark.parametrize(("double", "real"), PAIRS, ids=lambda kind: kind.__name__)
def test_every_method_of_the_double_is_the_drivers(double: type, real: type) -> None:
    names = [name for name in dir(double) if not name.startswith("_") and name not in OWN]
    assert names
    for name in names:
        ours, theirs = getattr(double, name), getattr(real, name)
        if not callable(ours):
            continue
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs), name
        known = inspect.signature(theirs).parameters
        for parameter in list(inspect.signature(ours).parameters.values())[1:]:
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                assert parameter.name in known, f"{name}({parameter.name}=)"
                assert parameter.kind == known[parameter.name].kind, f"{name}({parameter.name}=)"


@pytest.mark.parametrize(("double", "real"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_are_context_managers_of_the_same_kinds(double: type, real: type) -> None:
    for name in ("__enter__", "__aenter__", "__await__"):
        if hasattr(double, name):
            assert hasattr(real, name), name
