"""The mock model: it calls the tools that a prompt asks for, remembers what was said, and never varies."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from holdfast.core.errors import InvalidInput
from holdfast.core.messages import Message, Role, ToolResult
from holdfast.models.base import Model, ModelResponse, ToolSpec
from holdfast.models.mock import MockModel

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def spec(
    name: str, description: str = "", required: Mapping[str, Any] | None = None, **optional: Any
) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {**(required or {}), **optional},
        "required": list(required or {}),
    }
    return ToolSpec(name, description, schema)


SAVE_NOTE = spec("save_note", "Save a note for later reference.", {"content": TEXT})
GET_NOTES = spec("get_notes", "Get all saved notes.")
RECORD_FACT = spec("record_fact", "Persist what was said.", {"fact": TEXT})
ADD = spec("add", "Add two numbers.", {"a": WHOLE, "b": WHOLE})
LOOKUP = spec(
    "lookup", "Give the weather of a city.", {"city": TEXT}, unit={"enum": ["celsius", "fahrenheit"]}
)
ORDER = spec("find_order", "Find an order.", {"order_id": TEXT})
LETTERS = [spec(letter, f"Step {letter}.") for letter in "abc"]
STEPS = [spec(f"step_{number}") for number in range(1, 5)]
FACTS_ORDER = (
    "You are a helpful assistant. Whenever the user shares a fact about themselves (their name, job, hobbies, etc.), "
    "call record_fact exactly once with a short summary of that fact, then reply naturally."
)

Calls = list[tuple[str, dict[str, Any]]]


class Chat:
    """A conversation with the mock, with tools that answer "<name> did <arguments>"."""

    def __init__(self, *tools: ToolSpec, system: str | None = None, **options: Any) -> None:
        self.tools = list(tools)
        self.messages = [Message.system(system)] if system else []
        self.options = options

    def ask(self) -> ModelResponse:
        response = asyncio.run(MockModel().complete(self.messages, self.tools, **self.options))
        self.messages.append(response.message)
        return response

    def say(self, prompt: str) -> tuple[list[Calls], str]:
        """The calls of each step, and the answer."""
        self.messages.append(Message.user(prompt))
        steps: list[Calls] = []
        while (message := self.ask().message).tool_calls:
            steps.append([(call.name, dict(call.arguments)) for call in message.tool_calls])
            for call in message.tool_calls:
                result = ToolResult(tool_call_id=call.id, name=call.name, content=f"{call.name} did its work")
                self.messages.append(Message.tool(result))
        return steps, message.content or ""


def calls(prompt: str, *tools: ToolSpec, system: str | None = None) -> list[Calls]:
    return Chat(*tools, system=system).say(prompt)[0]


# ------------------------------------------------------------------------------------------- the seed notebook


def test_a_name_told_in_one_turn_is_known_in_the_next() -> None:
    chat = Chat(system="You are a helpful assistant. Remember what the user tells you.")
    assert "Alice" in chat.say("My name is Alice.")[1]
    assert chat.say("What's my name?") == ([], "Your name is Alice.")


def test_a_note_is_saved_and_listed_by_the_tool_that_fits() -> None:
    chat = Chat(SAVE_NOTE, GET_NOTES, system="You are a note-taking assistant.")
    steps, answer = chat.say("Save a note: Buy groceries")
    assert steps == [[("save_note", {"content": "Buy groceries"})]]
    assert answer == "save_note did its work."
    assert chat.say("What notes do I have?")[0] == [[("get_notes", {})]]


def test_a_secret_told_is_told_again() -> None:
    chat = Chat(system="You are a helpful assistant.")
    chat.say("Remember: The secret code is 42.")
    assert chat.say("What was the secret code?") == ([], "The secret code is 42.")


@pytest.mark.parametrize(("name", "food"), [("Alice", "pizza"), ("Bob", "sushi")])
def test_a_liking_answers_for_a_favourite(name: str, food: str) -> None:
    chat = Chat(system="You are a helpful assistant.")
    chat.say(f"I'm {name} and I like {food}.")
    assert chat.say("What's my favorite food?") == ([], f"You like {food}.")


def test_facts_about_the_user_are_recorded_when_the_system_prompt_says_so() -> None:
    chat = Chat(RECORD_FACT, system=FACTS_ORDER)
    steps, answer = chat.say("Hello, my name is Charlie.")
    assert steps == [[("record_fact", {"fact": "My name is Charlie"})]]
    assert answer == "Nice to meet you, Charlie. record_fact did its work."
    assert chat.say("I work as a data scientist.")[0] == [
        [("record_fact", {"fact": "I work as a data scientist"})]
    ]
    assert chat.say("What's my name?") == ([], "Your name is Charlie.")
    assert chat.say("What do I do?") == ([], "You work as a data scientist.")


def test_facts_in_the_system_prompt_answer_a_question_of_a_new_conversation() -> None:
    system = (
        "You are a helpful assistant. Be concise. Use any persistent facts you've been given about the user.\n"
        "- User stated a preference: us-chicago-1 for inference.\n- User's role / focus: OCI GenAI."
    )
    _, answer = Chat(system=system).say(
        "Remind me which OCI region I prefer for inference, and what I work on."
    )
    assert "us-chicago-1" in answer
    assert "OCI GenAI" in answer


# ------------------------------------------------------------------------------------------- choosing a tool


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Please save a note to buy milk", [("save_note", {"content": "buy milk"})]),
        ("Could you save a note that says hello?", [("save_note", {"content": "hello"})]),
        ("Store this note: call Bob", [("save_note", {"content": "call Bob"})]),
        ('Save the note "a, then b"', [("save_note", {"content": "a, then b"})]),
        ("Save a note: Buy milk, then go home", [("save_note", {"content": "Buy milk, then go home"})]),
        ("Show me my notes", [("get_notes", {})]),
        ("Which notes do I have?", [("get_notes", {})]),
        ("List all notes, please", [("get_notes", {})]),
        ("Add 2 and 3", [("add", {"a": 2, "b": 3})]),
        ("Please add five and seven", [("add", {"a": 5, "b": 7})]),
        ("What's the weather in Paris?", [("lookup", {"city": "Paris"})]),
        (
            "What's the weather in New York in fahrenheit?",
            [("lookup", {"city": "New York", "unit": "fahrenheit"})],
        ),
        ("Where is order A-1234?", [("find_order", {"order_id": "A-1234"})]),
    ],
)
def test_a_request_or_question_in_plain_words_calls_what_fits(prompt: str, expected: Calls) -> None:
    assert calls(prompt, SAVE_NOTE, GET_NOTES, ADD, LOOKUP, ORDER) == [expected]


@pytest.mark.parametrize(
    "prompt",
    [
        "Hello!",
        "I like notes.",
        "My notes are in the drawer.",
        "How do I save a note?",
        "Delete the note",
        "What's my name?",
        "Write a poem",
        "Don't call save_note",
        "Add 2",
        "",
    ],
)
def test_what_asks_for_no_tool_calls_none(prompt: str) -> None:
    assert calls(prompt, SAVE_NOTE, GET_NOTES, ADD, LOOKUP, ORDER) == []


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("call lookup with city=Paris", {"city": "Paris"}),
        ("Call lookup with city=New York, unit=celsius.", {"city": "New York", "unit": "celsius"}),
        ("use the `lookup` tool with city 'São Paulo'", {"city": "São Paulo"}),
        ('lookup({"city": "Rome", "unit": "Celsius"})', {"city": "Rome", "unit": "celsius"}),
        ("I want you to call lookup(city='Oslo')", {"city": "Oslo"}),
        ("run lookup('Oslo', 'celsius') now", {"city": "Oslo", "unit": "celsius"}),
    ],
)
def test_a_tool_that_is_named_is_called_with_what_is_written(prompt: str, expected: dict[str, Any]) -> None:
    assert calls(prompt, LOOKUP, ADD) == [[("lookup", expected)]]


@pytest.mark.parametrize(
    "prompt", ["use the `add` tool with a=2 and b=3", 'call add with {"a": 2, "b": 3}', "add(2, 3)"]
)
def test_numbers_are_numbers_however_they_are_written(prompt: str) -> None:
    assert calls(prompt, ADD, *LETTERS) == [[("add", {"a": 2, "b": 3})]]


def test_a_named_tool_without_enough_to_go_on_is_not_called_and_the_answer_says_what_is_missing() -> None:
    steps, answer = Chat(ADD).say("call add with a=1")
    assert steps == []
    assert answer == "To call add I need: b."


def test_every_kind_of_parameter_is_filled_from_the_words() -> None:
    class Place(BaseModel):
        city: str
        zip_code: int

    class Arguments(BaseModel):
        title: str
        amount: float
        urgent: bool
        level: str = Field(json_schema_extra={"enum": ["low", "high"]})
        tags: list[str]
        place: Place | None = None

    tool = ToolSpec("open_ticket", "Open a ticket.", Arguments.model_json_schema())
    prompt = (
        'call open_ticket with {"title": "Leak", "amount": 2, "urgent": true, "level": "high", "tags": ["a"]}'
    )
    ((call,),) = calls(prompt, tool)
    assert Arguments.model_validate(call[1]).amount == 2
    ((call,),) = calls("Open an urgent ticket with title Leak and amount 2.5 and level high, tags=a", tool)
    assert call[1] == {"title": "Leak", "amount": 2.5, "urgent": True, "level": "high", "tags": ["a"]}


@pytest.mark.parametrize(
    ("prompt", "tool", "expected"),
    [
        (
            "Transfer 100 euros to Bob",
            spec("transfer_money", "", {"amount": {"type": "number"}, "recipient": TEXT}),
            {"amount": 100, "recipient": "Bob"},
        ),
        (
            "Deploy version 1.2 to production",
            spec("deploy", "", {"version": TEXT, "environment": {"enum": ["staging", "production"]}}),
            {"version": "1.2", "environment": "production"},
        ),
        (
            "Translate hello to French",
            spec("translate", "", {"text": TEXT, "language": TEXT}),
            {"text": "hello", "language": "French"},
        ),
        ("Delete the file notes.txt", spec("delete_file", "", {"path": TEXT}), {"path": "notes.txt"}),
        (
            "Search the web for python tutorials",
            spec("search", "", {"query": TEXT}),
            {"query": "python tutorials"},
        ),
        (
            "Sum 1, 2 and 3",
            spec("sum", "", {"numbers": {"type": "array", "items": WHOLE}}),
            {"numbers": [1, 2, 3]},
        ),
    ],
)
def test_arguments_are_found_by_what_they_are(prompt: str, tool: ToolSpec, expected: dict[str, Any]) -> None:
    assert calls(prompt, tool) == [[(tool.name, expected)]]


# ------------------------------------------------------------------------------------------------------- steps


def test_then_makes_steps_and_and_makes_one() -> None:
    assert calls("Call a, then b, then c", *LETTERS) == [[("a", {})], [("b", {})], [("c", {})]]
    assert calls("call a and b", *LETTERS) == [[("a", {}), ("b", {})]]
    assert calls("Run step_1, then step_2 and step_3. Finally, step_4.", *STEPS) == [
        [("step_1", {})],
        [("step_2", {}), ("step_3", {})],
        [("step_4", {})],
    ]


def test_requests_in_plain_words_are_steps_too() -> None:
    tools = [spec("charge_card"), spec("reserve_stock"), spec("ship_order")]
    assert calls("Charge the card, reserve the stock and ship the order", *tools) == [
        [("charge_card", {})],
        [("reserve_stock", {})],
        [("ship_order", {})],
    ]
    assert calls("Save a note: Call Bob and then show my notes", SAVE_NOTE, GET_NOTES) == [
        [("save_note", {"content": "Call Bob"})],
        [("get_notes", {})],
    ]


def test_a_step_without_a_text_of_its_own_gets_the_result_before_it() -> None:
    fetch = spec("fetch_page")
    assert calls("Call fetch_page, then save_note", fetch, SAVE_NOTE) == [
        [("fetch_page", {})],
        [("save_note", {"content": "fetch_page did its work"})],
    ]


def test_the_answer_tells_every_result_and_every_error() -> None:
    chat = Chat(*LETTERS)
    chat.messages.append(Message.user("call a and b"))
    first, second = chat.ask().message.tool_calls
    chat.messages.append(Message.tool(ToolResult(tool_call_id=first.id, name="a", content='{"n": 1}')))
    chat.messages.append(Message.tool(ToolResult(tool_call_id=second.id, name="b", error="no disk")))
    assert chat.ask().message.content == 'The result of a is {"n": 1}. b failed: no disk.'


def test_a_turn_goes_on_from_the_messages_alone_as_after_a_crash() -> None:
    chat = Chat(*LETTERS)
    chat.say("Call a, then b, then c")
    for place, message in enumerate(chat.messages):
        if message.role is Role.ASSISTANT:
            again = asyncio.run(MockModel().complete(chat.messages[:place], LETTERS))
            assert (
                again.message == message
            )  # another object, another process: the same next step, the same ids


# -------------------------------------------------------------------------------------------- standing orders


def test_an_order_for_questions_waits_for_a_question_of_that_topic() -> None:
    tool = spec("forecast", "", {"request": TEXT})
    system = "When the user asks about rain, use forecast."
    assert calls("Will there be rain?", tool, system=system) == [
        [("forecast", {"request": "Will there be rain"})]
    ]
    assert calls("Rain is wet.", tool, system=system) == []
    assert calls("Will there be cake?", tool, system=system) == []


def test_an_order_never_to_call_is_obeyed() -> None:
    assert calls("I like tea.", RECORD_FACT, system="When in doubt, never call record_fact.") == []


def test_a_tool_that_says_it_keeps_facts_about_the_user_needs_no_order() -> None:
    tool = spec("remember", "Save a fact about the user.", {"text": TEXT})
    assert calls("I moved to Paris.", tool) == [[("remember", {"text": "I moved to Paris"})]]


# --------------------------------------------------------------------------------------------------- memory


def test_the_newest_statement_wins_and_another_favourite_is_no_answer() -> None:
    chat = Chat()
    for told in ("My favorite color is red.", "I like tea.", "My favorite color is blue."):
        chat.say(told)
    assert chat.say("What's my favourite color?")[1] == "Your favorite color is blue."
    assert chat.say("What's my favorite drink?")[1] == "You like tea."


def test_what_a_tool_found_is_remembered() -> None:
    messages = [
        Message.user("Look"),
        Message.tool(
            ToolResult(tool_call_id="1", name="look", content="The gate code is 7.\nThe sky is grey.")
        ),
        Message.assistant("Done."),
        Message.user("What is the gate code?"),
    ]
    assert asyncio.run(MockModel().complete(messages)).message.content == "The gate code is 7."


def test_what_was_never_said_is_not_known() -> None:
    assert Chat().say("What's my name?")[1].startswith("I don't know")


def test_a_summary_has_what_was_said() -> None:
    chat = Chat()
    chat.say("My name is Alice.")
    chat.say("I like pizza.")
    assert chat.say("Summarize the conversation.")[1] == "Summary: Your name is Alice. You like pizza."


# ---------------------------------------------------------------------------------------------------- options


class Answer(BaseModel):
    name: str = Field(min_length=2)
    size: int = Field(gt=3, multiple_of=5)
    kind: str = Field(pattern="", json_schema_extra={"enum": ["x", "y"]})
    parts: list["Answer"] = Field(default_factory=list)
    share: float = Field(lt=0)
    more: "Answer | None" = None


def test_a_schema_is_answered_with_json_that_fits_it() -> None:
    for schema in (Answer, Answer.model_json_schema()):
        text = Chat(response_schema=schema).say("Describe it")[1]
        assert Answer.model_validate_json(text).size == 5
    assert json.loads(Chat(response_schema={"type": "array", "items": TEXT, "minItems": 2}).say("?")[1]) == [
        "",
        "",
    ]


def test_a_schema_waits_for_the_tools() -> None:
    steps, answer = Chat(ADD, response_schema=Answer).say("Add 2 and 3")
    assert steps == [[("add", {"a": 2, "b": 3})]]
    assert Answer.model_validate_json(answer).size == 5


def test_a_schema_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match="response_schema must be a pydantic class or a JSON schema, got int"
    ):
        Chat(response_schema=3).say("Describe it")


def test_tool_choice_forbids_and_forces() -> None:
    assert Chat(ADD, tool_choice="none").say("Add 2 and 3")[0] == []
    assert Chat(ADD, GET_NOTES, tool_choice="get_notes").say("Add 2 and 3")[0][0] == [("get_notes", {})]
    assert Chat(ADD, GET_NOTES, tool_choice="required").say("Hello 7")[0][0] == [("add", {"a": 7, "b": 0})]
    with pytest.raises(InvalidInput, match="tool_choice is 'sub', but the tools are: add"):
        Chat(ADD, tool_choice="sub").say("Add 2 and 3")


def test_an_answer_that_is_too_long_is_cut_and_says_so() -> None:
    chat = Chat(max_tokens=3)
    chat.messages.append(Message.user("My name is Alice."))
    response = chat.ask()
    assert (response.message.content, response.finish_reason) == ("Nice to meet", "length")
    assert response.usage.completion_tokens == 3
    assert Chat(stop=["you"]).say("My name is Alice.")[1] == "Nice to meet "


def test_usage_counts_words() -> None:
    chat = Chat(system="Be kind.")
    chat.messages.append(Message.user("My name is Alice."))
    usage = chat.ask().usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (6, 5, 11)


def test_a_stream_gives_the_answer_word_by_word_and_then_whole() -> None:
    async def collect(messages: Sequence[Message]) -> list[Any]:
        return [chunk async for chunk in MockModel().stream(messages)]

    chunks = asyncio.run(collect([Message.user("My name is Alice.")]))
    assert [chunk.text for chunk in chunks] == ["Nice", " to", " meet", " you,", " Alice.", ""]
    assert [chunk.response is None for chunk in chunks] == [True] * 5 + [False]
    assert chunks[-1].response.message.content == "Nice to meet you, Alice."


def test_it_is_a_model_and_shows_its_name() -> None:
    model = MockModel("demo", api_key="sk-secret", temperature=0.5)
    assert isinstance(model, Model)
    assert (model.provider, model.name, repr(model)) == ("mock", "demo", "MockModel('demo')")
    asyncio.run(model.aclose())


def test_ids_of_calls_differ_from_turn_to_turn() -> None:
    chat = Chat(GET_NOTES)
    for _ in range(3):
        chat.say("What notes do I have?")
    ids = [call.id for message in chat.messages for call in message.tool_calls]
    assert len(set(ids)) == 3


@given(st.lists(st.text(), max_size=3), st.sampled_from([FACTS_ORDER, "", "call a"]))
def test_no_text_is_too_odd_and_the_same_text_has_the_same_answer(prompts: list[str], system: str) -> None:
    messages = [Message.system(system), *map(Message.user, prompts)]
    tools = [SAVE_NOTE, GET_NOTES, RECORD_FACT, ADD, LOOKUP, ORDER, *LETTERS]
    first = asyncio.run(MockModel().complete(messages, tools))
    assert first == asyncio.run(MockModel().complete(messages, tools))
    assert first.message.content or first.message.tool_calls


WORDS = "call use save a note note: add then and = { } 2 3 lookup with city= Paris 'x \" ( ) , . ? my name is b".split()


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_calls_always_have_what_the_tool_requires(parts: list[str]) -> None:
    tools = [SAVE_NOTE, GET_NOTES, ADD, LOOKUP, *LETTERS]
    answer = asyncio.run(MockModel().complete([Message.user(" ".join(parts))], tools))
    by_name = {tool.name: tool for tool in tools}
    for call in answer.message.tool_calls:
        schema = by_name[call.name].parameters
        assert set(schema["required"]) <= set(call.arguments) <= set(schema["properties"])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where do I live?", "You live in Lyon."),
        ("What is my name?", "Your name is Alice."),
        ("What do I love?", "You like pottery."),
        ("Do I have a dog?", "You have a dog called Rex."),
    ],
)
def test_what_an_agent_remembers_is_known_and_what_is_so_now_counts(question: str, answer: str) -> None:
    remembered = (
        "<remembered>\nData.\n- user lives in Lyon (since 2026-11-16)\n- user name Alice\n- user likes pottery\n"
        "- 2026-11-16, user: I live in Paris.\n- 2026-11-15, assistant: You live in Rome.\n"
        "- 2026-11-15, user: I have a dog called Rex.\n- user: I live in Bonn.\n</remembered>\n\n"
    )
    assert Chat().say(remembered + question) == ([], answer)
