"""The document shape: one current dict a thread, over any checkpointer.

``save(thread_id, data)`` and ``load(thread_id) -> dict`` on the same tables that an agent's threads are in: a dict that
is a whole agent state is stored as one, and an agent's thread loads as the dict of its state. Other dicts are stored as
they are. What was saved before stays in the thread's history until `vacuum`.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from holdfast.core import codec
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.frozen import thaw
from holdfast.core.state import AgentState
from holdfast.memory import validate
from holdfast.memory.blocking import blocking
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.records import Page

DOCUMENT = "$document"
_PAGE = 200
_WORD = re.compile(r"[^\W_]+")


class DocumentBackend:
    """A plain document store. ``checkpointer`` is what it is over: all that a thread has, for an agent."""

    def __init__(self, checkpointer: BaseCheckpointer) -> None:
        self.checkpointer = checkpointer

    async def save(
        self,
        thread_id: Any,
        data: Any,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Make ``data``, a dict, the thread's document; returns the id of its checkpoint.

        The other order, ``(state, thread_id)`` with an `AgentState`, is that of a checkpointer and works too.
        """
        if isinstance(thread_id, AgentState):
            thread_id, data = data, thread_id
        return await self.checkpointer.save(_state(data), thread_id, checkpoint_id, metadata)

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any] | None:
        """The thread's document, or the one of that checkpoint; ``None`` if there is none."""
        state = await self.checkpointer.load(thread_id, checkpoint_id)
        return None if state is None else document_of(state)

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete the document with its history, or one checkpoint. ``False``: it did not exist."""
        return await self.checkpointer.delete(thread_id, checkpoint_id)

    async def exists(self, thread_id: str) -> bool:
        return await self.checkpointer.exists(thread_id)

    async def list_threads(
        self, pattern: str = "*", limit: int = 100, *, after: str | None = None
    ) -> Page[str]:
        """Thread ids that match, last saved first."""
        return await self.checkpointer.list_threads(limit, pattern, after=after)

    async def count(self, pattern: str = "*") -> int:
        """How many threads match."""
        return len([thread_id async for thread_id in self._all(pattern)])

    async def get_metadata(self, thread_id: str) -> dict[str, Any] | None:
        return await self.checkpointer.get_metadata(thread_id)

    async def query_by_metadata(self, key: str, value: Any, limit: int = 100) -> list[dict[str, Any]]:
        """Current documents whose metadata has that key with just that value: `thread_id`, `checkpoint_id`,
        `metadata`, `created_at`."""
        found: list[dict[str, Any]] = []
        after: str | None = None
        while len(found) < limit:
            page = await self.checkpointer.query_by_metadata(key, value, _PAGE, after=after)
            for row in page:
                head = await self.checkpointer.head(row["thread_id"])
                if head is not None and head.checkpoint_id == row["checkpoint_id"]:
                    found.append(row)
            after = page.next
            if after is None:
                break
        return found[:limit]

    async def get_by_metadata(self, key: str, value: Any, limit: int = 100) -> list[dict[str, Any]]:
        """The same as :meth:`query_by_metadata`."""
        return await self.query_by_metadata(key, value, limit)

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Full text over the messages of the documents that are agent states; see `BaseCheckpointer.search`."""
        return await self.checkpointer.search(query, limit)

    async def search_data(self, path: str, value: Any, limit: int = 100) -> list[dict[str, Any]]:
        """Documents that have just that value at ``path``: field names with dots between, numbers for places in lists.

        Dicts with `thread_id`, `checkpoint_id`, `data`, `metadata`, `created_at`, last saved first. Every document is
        read to find them.
        """
        if not validate.text(path, "path"):
            raise InvalidInput(f"path must be a name such as 'agent_id' or 'metadata.tenant', got {path!r}")
        steps = path.split(".")

        def has_it(data: dict[str, Any]) -> bool:
            return any(codec.same(there, value) for there in _at(data, steps))

        return await self._found(self._having(steps, value), has_it, validate.limit(limit))

    async def search_text(self, query: str, path: str = "", limit: int = 100) -> list[dict[str, Any]]:
        """Documents whose texts at ``path`` or below, which is everywhere if it is empty, have all words of the query.

        A word is a run of letters and digits; capitals don't matter. Dicts as those of :meth:`search_data`, last saved
        first. Every document is read to find them, unless the database has an index for it.
        """
        words = set(_words(validate.text(query, "query")))
        steps = [step for step in validate.text(path, "path").split(".") if step]
        if not words:
            return []

        def has_them(data: dict[str, Any]) -> bool:
            there = {word for found in _at(data, steps) for text in _texts(found) for word in _words(text)}
            return words <= there

        return await self._found(self._with_words(steps, sorted(words)), has_them, validate.limit(limit))

    async def _found(
        self, thread_ids: AsyncIterator[str], test: Callable[[dict[str, Any]], bool], limit: int
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if not limit:
            return found
        async for thread_id in thread_ids:
            checkpoint = await self.checkpointer.get(thread_id)
            if checkpoint is None or not test(data := document_of(checkpoint.state)):
                continue
            found.append(
                {
                    "thread_id": thread_id,
                    "checkpoint_id": checkpoint.info.checkpoint_id,
                    "data": data,
                    "metadata": thaw(checkpoint.info.metadata),
                    "created_at": checkpoint.info.created_at,
                }
            )
            if len(found) >= limit:
                break
        return found

    # Where to look; a database that can look into documents itself leaves some out.

    def _having(self, path: Sequence[str], value: Any) -> AsyncIterator[str]:
        """Threads, last saved first, among which are all whose document has the value there."""
        return self._all("*")

    def _with_words(self, path: Sequence[str], words: Sequence[str]) -> AsyncIterator[str]:
        """Threads, last saved first, among which are all whose document has these words there."""
        return self._all("*")

    async def vacuum(self, older_than_days: int = 30) -> int:
        """Delete what is older: earlier versions of documents, and documents that were not saved since."""
        return await self.checkpointer.vacuum(older_than_days, stale_threads=True)

    async def close(self) -> None:
        """Close the connections. Never raises."""
        try:
            await self.checkpointer.close()
        except HoldfastError:
            return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _all(self, pattern: str) -> AsyncIterator[str]:
        seen: set[str] = set()
        after: str | None = None
        while True:
            page = await self.checkpointer.list_threads(_PAGE, pattern, after=after)
            for thread_id in page:
                if thread_id not in seen:
                    seen.add(thread_id)
                    yield thread_id
            after = page.next
            if after is None:
                return


class SyncDocumentBackend:
    """Every method of :class:`DocumentBackend`, blocking. Its engine must be one that never suspends."""

    def __init__(self, inner: DocumentBackend) -> None:
        self._inner = inner

    save = blocking(DocumentBackend.save)
    load = blocking(DocumentBackend.load)
    delete = blocking(DocumentBackend.delete)
    exists = blocking(DocumentBackend.exists)
    list_threads = blocking(DocumentBackend.list_threads)
    count = blocking(DocumentBackend.count)
    get_metadata = blocking(DocumentBackend.get_metadata)
    query_by_metadata = blocking(DocumentBackend.query_by_metadata)
    get_by_metadata = blocking(DocumentBackend.get_by_metadata)
    search = blocking(DocumentBackend.search)
    search_data = blocking(DocumentBackend.search_data)
    search_text = blocking(DocumentBackend.search_text)
    vacuum = blocking(DocumentBackend.vacuum)
    close = blocking(DocumentBackend.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _state(data: object) -> AgentState:
    """What is stored for a document: the state that it is, or a state that carries it."""
    if isinstance(data, AgentState):
        return data
    if not isinstance(data, Mapping):
        raise InvalidInput(f"data must be a dict or an AgentState, got {type(data).__name__}")
    document = dict(data)
    codec.dumps(document, path="data")
    if document.keys() >= {"agent_id", "messages", "iteration"}:
        try:
            state = AgentState.model_validate(document)
        except (ValidationError, HoldfastError):
            return _carrying(document)
        if codec.same(state.model_dump(), document):
            return state
    return _carrying(document)


def _carrying(document: dict[str, Any]) -> AgentState:
    return AgentState(metadata={DOCUMENT: document})


def document_of(state: AgentState) -> dict[str, Any]:
    if DOCUMENT in state.metadata:
        document: dict[str, Any] = thaw(state.metadata[DOCUMENT])
        return document
    return state.model_dump()


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for below in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(below)


def _at(value: Any, path: list[str]) -> list[Any]:
    """What is at the path; a list is looked into by number, or else each of its elements is."""
    if not path:
        return [value]
    name, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        return _at(value[name], rest) if name in value else []
    if isinstance(value, list | tuple):
        if name.isdigit():
            return _at(value[int(name)], rest) if int(name) < len(value) else []
        return [found for element in value for found in _at(element, path)]
    return []
