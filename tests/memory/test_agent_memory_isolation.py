"""Whatever users, namespaces and sessions are called, nothing of another is ever returned, counted or deleted."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.memory import AgentMemory, Episode
from holdfast.memory.store import BaseStore
from tests.memory.every_store import KINDS, opener

_CHARACTERS = st.one_of(st.sampled_from("aA/:%_*.\n'\"\\ \x00u"), st.characters(codec="utf-8"))
IDS = st.text(_CHARACTERS, min_size=1, max_size=8).filter(lambda text: not text.isspace())
_TWINS = ["alice", "ALICE", "alice ", "u:alice", "anonymous", "shared", "a", "a/b"]
_USERS = st.one_of(st.none(), st.sampled_from(_TWINS), st.sampled_from(_TWINS), IDS)


@st.composite
def owners_of_memories(draw: st.DrawFn) -> list[tuple[str, str | None]]:
    """Many users of one space that look alike, and one of them in a space of another name."""
    users = draw(st.lists(_USERS, min_size=4, max_size=8, unique=True))
    other = draw(IDS.filter(lambda name: name != "default"))
    return [*(("default", user) for user in users), (other, users[0])]


async def check_memories(store: BaseStore, owners: list[tuple[str, str | None]], session: str) -> None:
    memories = {space: AgentMemory(store, namespace=space) for space, _ in owners}
    for number, (space, user) in enumerate(owners):
        said = Episode(text=f"canary number {number}", session_id=session)
        await memories[space].remember(said, user_id=user)
        await memories[space].append_block("block", f"canary {number}", user_id=user)
    for number, (space, user) in enumerate(owners):
        memory, mine = memories[space], f"canary number {number}"
        assert [e.text for e in await memory.recall("canary number", 100, user_id=user)] == [mine]
        assert [e.text for e in await memory.session_messages(session, user_id=user)] == [mine]
        assert await memory.working(user_id=user) == {"block": f"canary {number}"}
        profile = await memory.profile(user_id=user)
        assert (profile.episodes, profile.sessions, len(profile.blocks)) == (1, 1, 1)
        exported = [line async for line in memory.export(user_id=user)]
        assert sum("canary" in line for line in exported) == 2
        assert all(str(number) in line for line in exported if "canary" in line)
    space, user = owners[0]
    receipt = await memories[space].forget(user_id=user)
    assert receipt.complete
    assert (receipt.removed["episodes"], receipt.removed["blocks"]) == (1, 1)
    for number, (other, whose) in enumerate(owners):
        left = await memories[other].recall("canary number", 100, user_id=whose)
        assert len(left) == (number != 0)


# Each example opens a store of its own, and Chroma takes milliseconds for a write: slow.
EXAMPLES = {"memory": 40, "sqlite": 15, "postgres": 8, "mariadb": 5, "chroma": 4}


@pytest.mark.parametrize("kind", KINDS)
def test_no_read_path_reaches_another_tenant_whatever_the_names(
    kind: str, request: pytest.FixtureRequest
) -> None:
    opened = opener(kind, request)

    @settings(
        max_examples=EXAMPLES[kind],  # see there
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(owners_of_memories(), IDS)
    def check(owners: list[tuple[str, str | None]], session: str) -> None:
        async def scenario() -> None:
            async with opened() as store:
                await check_memories(store, owners, session)

        asyncio.run(scenario())

    check()
