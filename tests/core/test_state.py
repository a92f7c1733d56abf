"""The state: immutable, cheap to extend, and readable from every version that was ever stored."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.core import codec
from holdfast.core import state as state_module
from holdfast.core.errors import Corrupt, InvalidInput, SchemaMismatch
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.state import (
    LOGGED_FIELDS,
    SCHEMA_VERSION,
    AgentState,
    ToolExecution,
    decode_state,
    encode_element,
    encode_head,
)

FIXTURE = Path(__file__).parent / "fixtures" / "state_v1.json"
CALL = ToolCall(id="c1", name="look", arguments={"q": "x"})
RESULT = ToolResult(tool_call_id="c1", name="look", content="found", duration_ms=2)


def full() -> AgentState:
    return (
        AgentState(agent_id="a", run_id="r")
        .with_messages([Message.user("hi"), Message.assistant(None, [CALL]), Message.tool(RESULT)])
        .with_iteration()
        .with_tool_execution(RESULT, CALL)
        .with_confidence(0.5)
        .with_confidence(1)
        .with_metadata({"user": "ann"}, tags=["a", ("b", 1)], when=datetime(2026, 1, 1, tzinfo=UTC))
        .with_error("boom \ud83d\ude00 \ud800")
        .with_tokens(prompt=10, completion=5)
    )


def texts(state: AgentState) -> dict[str, list[str]]:
    return {field: [encode_element(field, item) for item in getattr(state, field)] for field in LOGGED_FIELDS}


def test_a_new_state_is_empty_and_has_a_run_of_its_own() -> None:
    state = AgentState()
    assert (state.agent_id, state.messages, state.iteration, state.total_tokens) == ("agent", (), 0, 0)
    assert state.run_id != AgentState().run_id
    assert state.created_at.tzinfo is UTC
    assert state.schema_version == SCHEMA_VERSION


def test_each_with_method_gives_a_new_state_and_leaves_the_old() -> None:
    before = AgentState(run_id="r")
    after = full()
    assert before == before.model_copy()
    assert before.messages == ()
    assert [m.role for m in after.messages] == ["user", "assistant", "tool"]
    assert after.iteration == 1
    assert after.with_iteration(7).iteration == 7
    assert after.tool_history == ("look",)
    assert after.tool_executions[0] == ToolExecution(
        tool_call_id="c1", name="look", arguments={"q": "x"}, success=True, duration_ms=2.0
    )
    assert (after.confidence, after.confidence_history) == (1.0, (0.5, 1.0))
    assert after.metadata["tags"] == ["a", ("b", 1)]
    assert after.errors == ("boom \ud83d\ude00 \ud800",)
    assert (after.prompt_tokens, after.completion_tokens, after.total_tokens) == (10, 5, 15)
    assert after.with_run_id("s").run_id == "s"
    assert after.with_message(Message.user("x")).messages[:3] == after.messages


def test_a_new_state_shares_what_did_not_change() -> None:
    state = full()
    changed = state.with_message(Message.user("x"))
    assert changed.messages[0] is state.messages[0]
    assert changed.metadata is state.metadata


def test_every_change_moves_the_time_forward_and_keeps_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(state_module, "_now", lambda: moment)
    state = AgentState(created_at=moment, updated_at=moment)
    times = [(state := state.with_iteration()).updated_at for _ in range(3)]
    assert times == sorted(set(times))
    assert state.created_at == moment
    assert times[0] > moment


def test_a_tool_execution_refers_to_its_result_instead_of_holding_it() -> None:
    assert "content" not in ToolExecution.model_fields
    failed = ToolResult(tool_call_id="c1", name="look", error="no")
    state = AgentState().with_tool_execution(failed, CALL)
    assert (state.tool_executions[0].success, state.tool_executions[0].error) == (False, "no")


def test_nothing_in_a_state_can_be_changed() -> None:
    state = full()
    for name in AgentState.model_fields:
        with pytest.raises(ValidationError):
            setattr(state, name, None)
    with pytest.raises(TypeError):
        state.metadata["tags"].append("c")


WRONG: list[Callable[[AgentState, Any], object]] = [
    lambda s, bad: s.with_message(bad),
    lambda s, bad: s.with_messages([bad]),
    lambda s, bad: s.with_messages(Message.user("one, not many")),  # type: ignore[arg-type]  # the mistake under test
    lambda s, bad: s.with_iteration(bad),
    lambda s, _: s.with_iteration(-1),
    lambda s, _: s.with_iteration(True),
    lambda s, bad: s.with_tool_execution(bad),
    lambda s, _: s.with_tool_execution(RESULT),
    lambda s, _: s.with_tool_execution(RESULT, ToolCall(id="other", name="look")),
    lambda s, bad: s.with_confidence(bad),
    lambda s, _: s.with_confidence(1.01),
    lambda s, _: s.with_confidence(-0.01),
    lambda s, _: s.with_confidence(float("nan")),
    lambda s, bad: s.with_error(bad),
    lambda s, bad: s.with_metadata(bad),
    lambda s, bad: s.with_tokens(prompt=bad),
    lambda s, _: s.with_tokens(completion=-1),
    lambda s, bad: s.with_run_id(bad),
]


@pytest.mark.parametrize("call", WRONG)
def test_with_methods_refuse_wrong_arguments(call: Callable[[AgentState, Any], object]) -> None:
    with pytest.raises(InvalidInput):
        call(AgentState(), b"wrong")


@pytest.mark.parametrize(
    "fields",
    [
        {"confidence": 2},
        {"confidence": float("nan")},
        {"iteration": -1},
        {"unheard": 1},
        {"schema_version": 99},
        {"tool_history": ["never ran"]},
        {"total_tokens": 5},
        {"metadata": {1: 2}},
    ],
)
def test_construction_refuses_wrong_fields(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentState.model_validate(fields)


def test_times_are_kept_in_utc_and_naive_ones_are_taken_as_utc() -> None:
    state = AgentState(
        created_at=datetime(2026, 1, 1, 12),
        updated_at=datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))),
    )
    assert state.created_at == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert state.updated_at.isoformat() == "2026-01-01T10:00:00+00:00"


def test_a_dump_has_the_computed_fields_and_can_be_validated_again() -> None:
    state = full()
    assert state.model_dump()["tool_history"] == ("look",)
    assert state.model_dump()["total_tokens"] == 15
    assert AgentState.model_validate(state.model_dump()) == state
    assert AgentState.model_validate(codec.loads(codec.dumps(state.model_dump()))) == state
    assert codec.loads(codec.dumps(state)) == state
    plain = state.with_metadata(tags=[], when=None).model_copy(update={"errors": ("boom",)})
    assert AgentState.model_validate_json(plain.model_dump_json()) == plain


def test_equality_is_strict() -> None:
    state = full()
    assert state == decode_state(encode_head(state), texts(state))
    assert state.with_metadata(a=1) != state.with_metadata(a=True)
    same_time = {"created_at": state.created_at, "updated_at": state.updated_at, "run_id": "r"}
    one = AgentState.model_validate({**same_time, "metadata": {"a": 1}})
    assert one == AgentState.model_validate({**same_time, "metadata": {"a": 1}})
    assert one != AgentState.model_validate({**same_time, "metadata": {"a": 1.0}})
    assert one != AgentState.model_validate({**same_time, "metadata": {"a": 1}, "errors": ["x"]})
    assert hash(state) == hash(decode_state(encode_head(state), texts(state)))


def test_a_checkpoint_is_plain_json_and_comes_back_equal() -> None:
    state = full()
    document = json.loads(json.dumps(state.to_checkpoint()))
    assert document["messages"][0] == {"role": "user", "content": "hi"}
    assert document["schema_version"] == SCHEMA_VERSION
    again = AgentState.from_checkpoint(document)
    assert again == state
    assert again.metadata["tags"] == ["a", ("b", 1)]


def test_a_state_of_version_1_is_read_field_by_field() -> None:
    state = AgentState.from_checkpoint(json.loads(FIXTURE.read_text(encoding="utf-8")))
    arguments = {"city": "Lisbon", "days": 3}
    assert {name: getattr(state, name) for name in AgentState.model_fields} == {
        "agent_id": "travel-agent",
        "run_id": "01k0000000000000000000000r",
        "messages": (
            Message.system("You plan trips."),
            Message.user("Weather in Lisbon? ☀", name="ann", metadata={"channel": "web"}),
            Message.assistant("Let me look.", [ToolCall(id="call-1", name="weather", arguments=arguments)]),
            Message.tool(
                ToolResult(tool_call_id="call-1", name="weather", content='{"sky":"clear"}', duration_ms=12.5)
            ),
            Message.tool(ToolResult(tool_call_id="call-2", name="hotels", error="timed out")),
        ),
        "iteration": 2,
        "tool_executions": (
            ToolExecution(
                tool_call_id="call-1",
                name="weather",
                arguments=arguments,
                success=True,
                duration_ms=12.5,
                started_at=datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC),
            ),
            ToolExecution(tool_call_id="call-2", name="hotels", success=False, error="timed out"),
        ),
        "confidence": 0.4,
        "confidence_history": (0.6, 0.4),
        "metadata": {
            "user_id": "ann",
            "trip": {"from": datetime(2026, 7, 1, tzinfo=UTC), "stops": ("Lisbon", "Porto")},
            "ticket": b"\x00\x01",
        },
        "errors": ("hotels: timed out",),
        "prompt_tokens": 120,
        "completion_tokens": 30,
        "created_at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        "updated_at": datetime(2026, 1, 2, 3, 5, tzinfo=UTC),
        "schema_version": SCHEMA_VERSION,
    }
    assert state.tool_history == ("weather", "hotels")
    assert state.total_tokens == 150


def test_older_states_are_upgraded_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    state = full()
    stored_head, stored_lists, stored = encode_head(state), texts(state), state.to_checkpoint()

    def one_to_two(document: dict[str, Any]) -> dict[str, Any]:
        assert document["schema_version"] == 1
        return {**document, "agent": document["agent_id"] + "!"}

    def two_to_three(document: dict[str, Any]) -> dict[str, Any]:
        assert document["schema_version"] == 2
        document = dict(document)
        document["agent_id"] = document.pop("agent")
        document["errors"] = [*document["errors"], "upgraded"]
        return document

    monkeypatch.setattr(state_module, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(state_module, "UPGRADES", {1: one_to_two, 2: two_to_three})
    for upgraded in (decode_state(stored_head, stored_lists), AgentState.from_checkpoint(stored)):
        assert upgraded.schema_version == 3
        assert upgraded.agent_id == "a!"
        assert upgraded.errors == (*state.errors, "upgraded")
        assert upgraded.messages == state.messages
        assert upgraded.metadata["tags"] == ["a", ("b", 1)]


def test_a_missing_upgrade_step_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = full().to_checkpoint()
    monkeypatch.setattr(state_module, "SCHEMA_VERSION", 3)
    with pytest.raises(SchemaMismatch, match="can't upgrade a state of schema version 1"):
        AgentState.from_checkpoint(stored)


def test_a_state_without_a_version_is_taken_as_version_1() -> None:
    document = full().to_checkpoint()
    del document["schema_version"]
    assert AgentState.from_checkpoint(document).schema_version == 1


def test_a_newer_version_is_refused_with_both_versions_named() -> None:
    document = {**full().to_checkpoint(), "schema_version": SCHEMA_VERSION + 1, "fields": "of the future"}
    with pytest.raises(SchemaMismatch, match=rf"version {SCHEMA_VERSION + 1}.*up to {SCHEMA_VERSION}"):
        AgentState.from_checkpoint(document)


def test_the_head_is_small_and_has_no_logged_or_computed_field() -> None:
    head = json.loads(encode_head(full()))
    assert not head.keys() & {*LOGGED_FIELDS, "tool_history", "total_tokens"}
    assert head.keys() | set(LOGGED_FIELDS) == set(AgentState.model_fields)


@pytest.mark.parametrize(
    ("head", "lists", "place"),
    [
        ("", {}, "state"),
        ("[]", {}, "state"),
        ('{"iteration":"5"}', {}, "state"),
        ('{"unheard":5}', {}, "state"),
        ('{"created_at":"yesterday"}', {}, "state"),
        ('{"created_at":5}', {}, "state"),
        ('{"schema_version":"1"}', {}, "state"),
        ("{}", {"unheard": []}, "state"),
        ("{}", {"messages": ['{"role":"user"}', "{"]}, "messages[1]"),
        ("{}", {"messages": ["5"]}, "messages[0]"),
        ("{}", {"tool_executions": ['{"name":"x"}']}, "tool_executions[0]"),
        ("{}", {"tool_executions": ["5"]}, "tool_executions[0]"),
        ("{}", {"confidence_history": ["0.5", "2"]}, "confidence_history[1]"),
        ("{}", {"confidence_history": ["true"]}, "confidence_history[0]"),
        ("{}", {"errors": ['"a"', "5"]}, "errors[1]"),
    ],
)
def test_a_damaged_state_is_corrupt_and_names_its_place(
    head: str, lists: dict[str, list[str]], place: str
) -> None:
    with pytest.raises(Corrupt) as caught:
        decode_state(head, lists)
    assert caught.value.place == place


def test_a_checkpoint_that_is_not_one_is_refused() -> None:
    wrong: Any = []
    with pytest.raises(InvalidInput, match="must be a Mapping, got list"):
        AgentState.from_checkpoint(wrong)
    with pytest.raises(InvalidInput, match="to_checkpoint"):
        AgentState.from_checkpoint({"metadata": {"a": object()}})
    with pytest.raises(Corrupt, match="messages is not a list"):
        AgentState.from_checkpoint({"messages": None})


def test_what_cant_be_stored_is_named_by_its_path() -> None:
    with pytest.raises(InvalidInput, match=r"^state\.metadata\.x is a builtins\.object"):
        encode_head(AgentState().with_metadata(x=object()))
    with pytest.raises(InvalidInput, match="not a logged field"):
        encode_element("metadata", {})


def test_a_subclass_is_refused_rather_than_stored_without_its_fields() -> None:
    class Richer(AgentState):
        mood: str = ""

    with pytest.raises(InvalidInput, match="Richer"):
        encode_head(Richer())
