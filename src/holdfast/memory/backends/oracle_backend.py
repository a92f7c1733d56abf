"""Documents in an Oracle database, which looks into them itself: `JSON_EXISTS`, `JSON_TEXTCONTAINS`."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from holdfast.core import codec
from holdfast.core.errors import HoldfastError, SchemaMismatch
from holdfast.memory import validate
from holdfast.memory.backends import oracle_documents as documents
from holdfast.memory.backends.documents import DocumentBackend, SyncDocumentBackend
from holdfast.memory.backends.oracle import OracleCheckpointer
from holdfast.memory.backends.oracle_engine import code_in, nothing
from holdfast.memory.backends.oracle_json import Condition, has_values
from holdfast.memory.backends.sql.binding import BoundEngine
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.plan import PlanFactory
from holdfast.memory.backends.sql.server_engine import ServerEngine
from holdfast.memory.encoding import decode_id
from holdfast.memory.text import query_terms, snippet

# Not allowed, not installed, not there, no longer what it was: then there is no text index, and nothing is wrong.
_WITHOUT_INDEX = (439, 901, 922, 942, 1031, 1408, 1950, 20000, 29833, 29855, 29861, 40467)


class _Threads(OracleCheckpointer):
    """A checkpointer that tells where it keeps things."""

    @property
    def server(self) -> ServerEngine:
        return self._server

    @property
    def tables(self) -> Tables:
        return self._tables

    @property
    def place(self) -> tuple[str, str]:
        scope, ns, _ = self._key("x")
        return scope, ns

    def keeping(self, thread_id: str) -> PlanFactory[None]:
        return partial(documents.keep, self._tables, self._key(thread_id), self._clock.now_us())


class OracleBackend(DocumentBackend):
    """Documents in an Oracle database: one current dict a thread. Arguments as those of
    :class:`OracleCheckpointer`, which is its ``checkpointer``.

    The documents are also in the table ``..._documents``, as JSON for whoever asks the database, and for
    :meth:`search_data`, :meth:`search_text` and :meth:`query_by_metadata`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        threads = _Threads(*arguments, **options)
        super().__init__(threads)
        self._threads = threads
        tables, server = threads.tables, threads.server
        self._documents: BoundEngine | None = server.using(documents.documents_schema(tables))
        self._words: BoundEngine | None = server.using(documents.words_schema(tables))

    async def save(
        self,
        thread_id: Any,
        data: Any,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        saved = await super().save(thread_id, data, checkpoint_id, metadata)
        self._keep([data if isinstance(data, str) else thread_id])
        return saved

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Full text: messages that have words of the query, best first, then other documents that have all of them."""
        hits = await super().search(query, limit)
        if len(hits) < limit:
            known = {hit["thread_id"] for hit in hits}
            terms = query_terms(query)
            for found in await self.search_text(query, limit=limit):
                if found["thread_id"] not in known:
                    text = codec.dumps(found["data"])
                    place = {"thread_id": found["thread_id"], "checkpoint_id": found["checkpoint_id"]}
                    hits.append({**place, "score": 0.0, "snippet": snippet(text, terms)})
        return hits[:limit]

    async def query_by_metadata(self, key: str, value: Any, limit: int = 100) -> list[dict[str, Any]]:
        if self._documents is None:
            return await super().query_by_metadata(key, value, limit)
        validate.metadata({validate.text(key, "key"): value}, "value")
        found: list[dict[str, Any]] = []
        async for thread_id in self._narrowed(has_values("d.metadata", {(key,): value})):
            if len(found) >= limit:
                break
            head = await self.checkpointer.head(thread_id)
            if head is not None and key in head.metadata and codec.same(head.metadata[key], value):
                found.append(
                    {
                        "thread_id": thread_id,
                        "checkpoint_id": head.checkpoint_id,
                        "metadata": head.metadata,
                        "created_at": head.created_at,
                    }
                )
        return found

    def _having(self, path: Sequence[str], value: Any) -> AsyncIterator[str]:
        return self._narrowed(has_values("d.data", {tuple(path): value}))

    async def _with_words(self, path: Sequence[str], words: Sequence[str]) -> AsyncIterator[str]:
        condition = documents.has_words(self._threads.tables, path, words)
        if condition is not None and not await self._has_words():
            condition = None
        async for thread_id in self._narrowed(condition or ("1 = 1", ())):
            yield thread_id

    async def _narrowed(self, condition: Condition) -> AsyncIterator[str]:
        """Threads that may meet the condition. Without the table, or the right to it, that is all."""
        place = self._threads.place
        if self._documents is not None:
            plan = partial(documents.candidates, self._threads.tables, place, condition)
            try:
                found = await self._documents.read(plan)
            except HoldfastError as error:
                self._words = None
                if isinstance(error, SchemaMismatch):
                    self._documents = None
                elif code_in(error) not in _WITHOUT_INDEX:  # else the text index was dropped, or has failed
                    raise
            else:
                self._keep([decode_id(thread_id) for thread_id in found.behind[: documents.PORTION]])
                for thread_id in found.thread_ids:
                    yield decode_id(thread_id)
                return
        async for thread_id in self._all("*"):
            yield thread_id

    async def _has_words(self) -> bool:
        """Whether there is a text index. It is made for the first question that it can answer."""
        if self._documents is None or self._words is None:
            return False
        try:
            await self._documents.read(nothing)
            await self._words.read(nothing)
        except HoldfastError as error:
            if not isinstance(error, SchemaMismatch) and code_in(error) not in _WITHOUT_INDEX:
                raise
            self._words = None
        return self._words is not None

    def _keep(self, thread_ids: Sequence[str]) -> None:
        """Bring the rows of these threads up to date, behind the caller."""
        if self._documents is not None:
            for thread_id in thread_ids:
                self._documents.later(self._threads.keeping(thread_id))


class OracleSyncBackend(SyncDocumentBackend):
    """The blocking twin of :class:`OracleBackend`: the same arguments, no event loop."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(OracleBackend(*arguments, **options, blocking=True))
