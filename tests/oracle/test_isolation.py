"""Nothing of one tenant is seen, counted or changed by another, on Oracle too: the checks of the other databases."""

import asyncio
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings

from holdfast.memory.backends.oracle_store import OracleStore
from tests.memory.facts.test_isolation import check_facts, names, owners_of_facts
from tests.memory.test_agent_memory_isolation import IDS, check_memories, owners_of_memories
from tests.oracle.place import NEW, Place

_numbers = count(1)


def _open(place: Place) -> OracleStore:
    options = place.options()
    return OracleStore(**{**options, "table_name": f"items{next(_numbers)}"})


@pytest.mark.parametrize("place", NEW, indirect=True)
def test_no_tenant_reaches_another_whatever_the_names(place: Place) -> None:
    @settings(
        max_examples=2,  # each makes its tables, and the double translates every statement: slow
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(owners_of_memories(), owners_of_facts, IDS, names, names)
    def check(
        owners: list[tuple[str, str | None]],
        others: list[tuple[str, str | None]],
        session: str,
        subject: str,
        predicate: str,
    ) -> None:
        async def scenario() -> None:
            async with _open(place) as store:
                await check_memories(store, owners, session)
            async with _open(place) as store:
                await check_facts(store, others, subject, predicate)

        asyncio.run(scenario())

    check()
