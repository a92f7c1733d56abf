"""How broken versions of the reference are kept, each with the test of the suite that must catch it."""

from collections.abc import Callable

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing.checkpointer_cases.base import CheckpointerCases
from holdfast.testing.running import failures

Mutant = type[MemoryCheckpointer]
Cases = type[CheckpointerCases]


class Mutants(dict[Mutant, tuple[Cases, str]]):
    """Mutants with the cases, and the one test among them, that must fail for each (others may)."""

    def caught_by(self, cases: Cases, test: str) -> Callable[[Mutant], Mutant]:
        def add(mutant: Mutant) -> Mutant:
            self[mutant] = (cases, test)
            return mutant

        return add


def failed_tests(cases: Cases, checkpointer: Mutant) -> dict[str, BaseException]:
    """The tests of these cases that fail for that class."""

    def open_one(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
        return checkpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)

    without_sharing = type("WithoutSharing", (cases,), {"shared_storage": False})
    return failures(without_sharing, lambda: open_one)


def check_mutant(mutant: Mutant, cases: Cases, test: str) -> None:
    failed = failed_tests(cases, mutant)
    print(mutant.__name__, sorted(failed))
    assert test in failed
    # Caught by what it does, not by a mistake in the mutant itself.
    assert not isinstance(failed[test], TypeError | AttributeError | NameError | LookupError)
