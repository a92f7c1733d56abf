"""What must hold of a conversation that agents of `agent_jobs` had, whatever happened to their processes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.core.messages import Message, Role
from holdfast.core.state import AgentState
from tests.agent.support import assert_well_formed
from tests.reliability.agent_jobs import THREAD, UNSAFE, decide
from tests.reliability.places import Place


class Start(NamedTuple):
    """A tool began to run: in that process, and for that thread as far as the tool was told."""

    key: str
    process: str
    thread_id: str


class Effects:
    """What the tools have done: read from their own file, not from the database."""

    def __init__(self, place: Place) -> None:
        self.starts: list[Start] = []
        self.receipts: dict[str, list[str]] = {}
        file = Path(f"{place.path}.effects")
        for line in file.read_text().splitlines() if file.exists() else ():
            kind, key, detail, thread_id = line.split("\t")
            if kind == "start":
                self.starts.append(Start(key, detail, thread_id))
            else:
                self.receipts.setdefault(key, []).append(detail)

    def repeated(self) -> Iterator[str]:
        """Complaints about tools that must not run twice and did."""
        starts = Counter(start.key for start in self.starts)
        for key, times in starts.items():
            if is_unsafe(key) and max(times, len(self.receipts.get(key, ()))) > 1:
                yield f"{key} ran {times} times"

    def real_results(self, key: str) -> list[str]:
        """What the tool gave back for that call, each time that it ran."""
        return [f"{key}: receipt {receipt}" for receipt in self.receipts.get(key, ())]


def is_unsafe(key: str) -> bool:
    """Whether that is a call of a tool that must not run twice."""
    return key.rpartition(" ")[2] in UNSAFE


def load(place: Place, thread_id: str = THREAD) -> AgentState | None:
    with place.blocking() as twin:
        return twin.load(thread_id)


def asked(state: AgentState | None) -> list[str]:
    """The prompts in it, in order."""
    return [] if state is None else [str(m.content) for m in state.messages if m.role is Role.USER]


def results(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """The key of each call, and what the model was told about it."""
    keys = {call.id: str(call.arguments["key"]) for message in messages for call in message.tool_calls}
    for message in messages:
        if message.role is Role.TOOL:
            yield keys.get(str(message.tool_call_id), "no call"), message.content or ""


def badly_told(messages: Sequence[Message]) -> Iterator[str]:
    """Complaints about a conversation that a provider would refuse, or that the model did not have."""
    try:
        assert_well_formed(messages)
    except AssertionError as error:
        yield f"not well-formed: {error}"
    for place, message in enumerate(messages):
        if message.role is Role.ASSISTANT and _said(message) != _said(decide(messages[:place])):
            yield f"message {place} is not what the model says there: {_said(message)}"
    if messages[-1].role is not Role.ASSISTANT or messages[-1].tool_calls:
        yield f"the last message is no answer: {messages[-1]}"


def _said(message: Message) -> tuple[str | None, list[tuple[str, object]]]:
    return message.content, [(call.name, call.arguments["key"]) for call in message.tool_calls]


def left_over(place: Place) -> Iterator[str]:
    """Complaints about where it is kept: damage, rows that nothing needs, results that nobody will ever fold."""
    yield from place.complaints()
    ((writes,),) = place.sql("SELECT COUNT(*) FROM holdfast_writes")
    if writes:
        yield f"{writes} pending writes are left behind"
