"""An agent from a configuration, and the OpenRouter client that it uses."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.memory.working import (
    DatabaseMemoryManager,
    ILLMConfig,
    ILLMInput,
    InMemoryManager,
    MemoryRecord,
    OpenRouterClient,
    RedisMemoryManager,
    create_memory_agent,
)
from holdfast.models import MockModel
from tests.memory.working.support import message
from tests.models.test_openrouter import answer
from tests.models.wire import WireServer

SLUG = "openai/gpt-4.1-mini"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    for name in ("HOLDFAST_MODEL", "HOLDFAST_MODEL_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    with WireServer() as running:
        monkeypatch.setenv("OPENROUTER_API_KEY", "test-key")
        monkeypatch.setenv("OPENROUTER_BASE_URL", f"{running.url}/api/v1")
        yield running


def test_a_configuration_with_a_model_keeps_memory_in_the_process(server: WireServer) -> None:
    server.reply(json=answer({"content": "Alice likes tea."}))
    agent = create_memory_agent({"model": SLUG})
    assert isinstance(agent.llm_client, OpenRouterClient)
    assert isinstance(agent.memory_manager, InMemoryManager)
    assert asyncio.run(agent.process(message("I am Alice and like tea"))) == "success"
    assert agent.memory_manager.memories == {"c1": "Alice likes tea."}
    sent = server.requests[0].json
    assert (sent["model"], sent["temperature"]) == (SLUG, 0.7)
    assert [one["role"] for one in sent["messages"]] == ["system", "user"]
    assert "I am Alice and like tea" in sent["messages"][1]["content"]


def test_a_failing_service_is_a_status_and_keeps_the_memory(server: WireServer) -> None:
    server.reply(status=400, json={"error": {"code": 400, "message": "no such model"}})
    agent = create_memory_agent({"model": SLUG, "temperature": 0, "memory_type": "memory"})
    agent.memory_manager.memories["c1"] = "kept"
    status = asyncio.run(agent.process(message("x")))
    assert status.startswith("error: ")
    assert "no such model" in status
    assert agent.memory_manager.memories == {"c1": "kept"}


def test_a_database_is_named_by_its_url(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'memory.db'}"
    config = {"model": "mock:", "memory_type": "database", "db_connection": url}

    async def turn(text: str) -> str | None:
        agent = create_memory_agent(config)
        assert isinstance(agent.memory_manager, DatabaseMemoryManager)
        assert await agent.process(message(text)) == "success"
        (found,) = await agent.memory_manager.retrieve({"conversation_id": "c1"}) or [MemoryRecord("missing")]
        await agent.memory_manager.aclose()
        assert found.working_memory == agent.last_memory
        return agent.last_memory

    assert "Alice" in (asyncio.run(turn("My name is Alice")) or "")
    assert "tea" in (asyncio.run(turn("I like tea")) or "")


def test_redis_is_named_by_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("redis", "redis.asyncio", "redis.exceptions"):  # doubles: nothing is asked of them here
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    agent = create_memory_agent(
        {"model": SLUG, "memory_type": "redis", "redis_url": "redis://localhost:6379"}
    )
    assert isinstance(agent.memory_manager, RedisMemoryManager)


def test_a_model_of_any_provider_can_be_named_and_openrouters_own_colons_are_its_own() -> None:
    assert isinstance(create_memory_agent({"model": "mock:"}).llm_client, MockModel)
    free = create_memory_agent({"model": "deepseek/deepseek-r1:free", "system_prompt": "Be brief."})
    assert repr(free.llm_client) == "OpenRouterClient('deepseek/deepseek-r1:free')"
    assert free.system_prompt == "Be brief."


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "must have the key 'model'"),
        ({"model": ""}, "model"),
        ({"model": SLUG, "temprature": 1}, "did you mean 'temperature'"),
        ({"model": SLUG, "temperature": "hot"}, "temperature"),
        ({"model": SLUG, "memory_type": "reddis"}, "did you mean 'redis'"),
        ({"model": SLUG, "memory_type": "redis"}, "must have the key 'redis_url'"),
        ({"model": SLUG, "memory_type": "database"}, "must have the key 'db_connection'"),
        ({"model": "opnai:gpt-4.1"}, "did you mean 'openai:gpt-4.1'"),
        ([], "config must be a dict"),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(config: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        create_memory_agent(config)


def test_the_client_answers_with_text_and_usage(server: WireServer) -> None:
    server.reply(json=answer({"content": "ok"}))
    client = OpenRouterClient(ILLMConfig(model=SLUG, temperature=0.2))
    found = asyncio.run(client.chat(ILLMInput(system_prompt="be brief", user_message="hello")))
    assert found == {
        "llm_response": "ok",
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }
    with pytest.raises(InvalidInput, match="config"):
        OpenRouterClient(SLUG)  # type: ignore[arg-type]  # what is refused is the point


def test_without_a_key_the_agent_is_made_and_its_turn_says_what_is_missing(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY")
    agent = create_memory_agent({"model": SLUG})
    status = asyncio.run(agent.process(message("x")))
    assert status.startswith("error: ")
    assert "OPENROUTER_API_KEY" in status


def test_where_the_environment_asks_for_the_mock_it_answers(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_MODEL_PROVIDER", "mock")
    agent = create_memory_agent({"model": SLUG})
    assert asyncio.run(agent.process(message("My name is Alice"))) == "success"
    assert "Alice" in (agent.last_memory or "")
    assert server.requests == []
