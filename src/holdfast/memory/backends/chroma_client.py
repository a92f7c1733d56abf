"""A Chroma collection, blocking: opened when it is first needed, its errors ours, its log kept short.

All that is asked of Chroma is to keep records. Its vector index is of no use here: each process has its own, in
memory, and where two processes write to one directory they overwrite each other's index files until loading them
crashes (Chroma 1.5). So the index gets one constant vector for each record, is never written to files, and the
vectors are kept in the records, which SQLite shares well.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from holdfast.core.errors import (
    Corrupt,
    HoldfastError,
    InvalidInput,
    MissingExtra,
    SchemaMismatch,
    StorageFull,
    Unavailable,
)
from holdfast.core.ids import new_id
from holdfast.memory.backends import chroma_files
from holdfast.memory.backends.chroma_locks import WriteLock
from holdfast.memory.backends.chroma_rows import COUNTER, Record

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

FORMAT = 1
LOCK_FILE = "holdfast.lock"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,510}[A-Za-z0-9]")
_NO_INDEX_FILES = 2**62  # changes after which Chroma writes its vector index to files
_VECTOR = [0.0]
_IDS_AT_ONCE = 1000
_LOG_LENGTH = 200  # records: Chroma reads its whole log with every write
_PAUSE = 0.02

_opening = threading.Lock()
_opened_in: list[int] = []
"""The process in which Chroma was first used."""


class Place(NamedTuple):
    """Where a collection is: in a directory, at a client that somebody else made, or (neither) in memory."""

    path: str | None
    client: "ClientAPI | None"
    collection: str
    lock_path: str | None
    busy_seconds: float


class ChromaCollection:
    """The records of one store. Safe to use from several threads; writes are made within `writing`."""

    def __init__(self, place: Place) -> None:
        if find_spec("chromadb") is None:
            raise MissingExtra("ChromaStore", "chroma")
        if not _NAME.fullmatch(place.collection):
            raise InvalidInput(
                "collection must have 3 to 512 of the characters a-z, A-Z, 0-9, '.', '_' and '-', the first and last"
                f" a letter or digit, got {place.collection!r}"
            )
        path, self.remote = _whereabouts(place)
        self._path = path
        self._given = place.client
        self._busy_seconds = place.busy_seconds
        self._private = path is None and place.client is None
        # Clients in memory share one database within a process: a name of its own keeps a store's records its own.
        self._name = f"{place.collection}-{new_id()}" if self._private else place.collection
        file = str(Path(path) / LOCK_FILE) if path else place.lock_path
        self._lock = WriteLock(f"Chroma collection {path or ''} {self._name}", file, place.busy_seconds)
        self._open_lock = threading.Lock()
        self._client: ClientAPI | None = None
        self._collection: Collection | None = None
        self._at_once = 1
        self._logged = 0

    @property
    def exclusive(self) -> bool:
        """Whether `writing` keeps every other writer away. Unknown writers of a server are not kept away."""
        return self._lock.between_processes or (not self.remote and self._path is None)

    @property
    def batch_size(self) -> int:
        """How many records one write takes; they are written together or not at all."""
        self._opened()
        return self._at_once

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def get(self, ids: Iterable[str]) -> dict[str, Record]:
        """The records with these ids, those that there are."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, Record] = {}
        for start in range(0, len(wanted), _IDS_AT_ONCE):
            found |= {record.id: record for record in self._get(ids=wanted[start : start + _IDS_AT_ONCE])}
        return found

    def at(self, place: str, *, above: int | None = None) -> list[Record]:
        """The records of a place; with ``above`` those with a higher version."""
        newer = [] if above is None else [{"version": {"$gt": above}}]
        return self._get(where=_all({"place": place}, *newer))

    def expired(self, now_us: int) -> list[Record]:
        return self._get(where={"expires": {"$lte": now_us}})

    def ids_at(self, place: str, *, alive_at: int | None = None, limit: int | None = None) -> list[str]:
        """The ids of the records of a place; with ``alive_at`` of those that have not expired by then."""
        alive = [] if alive_at is None else [{"expires": {"$gt": alive_at}}]
        where = _all({"place": place}, *alive)
        return self._ask(lambda c: list(c.get(where=where, limit=limit, include=[])["ids"]))

    def _get(self, **which: Any) -> list[Record]:
        found = self._ask(lambda c: c.get(**which, include=["metadatas"]))
        metadatas = found["metadatas"] or []
        return [_record(name, metadata) for name, metadata in zip(found["ids"], metadatas, strict=True)]

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Between these, nobody else writes; see `exclusive`."""
        self._opened()
        with self._lock.held():
            yield

    def upsert(self, records: Sequence[Record]) -> None:
        """Write records, whether they were there or not. Up to `batch_size` of them are written together."""
        for some in self._portions(records):
            self._ask(partial(_upsert, some))
            self._shorten_log(len(some))

    def remove(self, ids: Sequence[str]) -> None:
        """Remove records."""
        for some in self._portions(ids):
            self._ask(partial(_delete, some))
            self._shorten_log(len(some))

    def erase(self) -> None:
        """Nothing that was removed or overwritten is in the files any more."""
        collection = self._opened()
        if self._path is not None:
            with self._mapped():
                self._apply_log(self._path, str(collection.id))
                chroma_files.erase(self._path, str(collection.id), self._busy_seconds)

    def _apply_log(self, path: str, collection: str) -> None:
        """A change that waits in the log has its old record still."""
        deadline = time.monotonic() + self._busy_seconds
        self.get([COUNTER])
        while not chroma_files.is_applied(path, collection, self._busy_seconds):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Chroma has not applied its log in {self._busy_seconds:g} s: nothing was erased"
                )
            time.sleep(_PAUSE)
            self.get([COUNTER])

    def _shorten_log(self, added: int) -> None:
        self._logged += added
        if self._path is not None and self._logged >= _LOG_LENGTH:
            with self._mapped():
                chroma_files.shorten_log(self._path, str(self._opened().id), self._busy_seconds)
            self._logged = 0

    def _portions(self, given: Sequence[T]) -> Iterator[Sequence[T]]:
        size = self.batch_size
        for start in range(0, len(given), size):
            yield given[start : start + size]

    # ── life ──────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Let go of the client, unless it was given."""
        with self._open_lock:
            client, self._client, self._collection = self._client, None, None
            if client is None or self._given is not None:
                return
            with _opening, self._mapped():
                if self._private:
                    client.delete_collection(self._name)
                cast("Client", client).close()

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def _opened(self) -> "Collection":
        collection = self._collection
        if collection is None:
            with self._open_lock:
                collection = self._collection or self._open()
        return collection

    def _open(self) -> "Collection":
        if self._path is not None and self._given is None:
            try:
                Path(self._path).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise Unavailable(f"can't make the directory {self._path}: {error.strerror}") from error
        # Two processes that open a new directory together would both make its tables. And what a killed writer
        # left in the log is applied by the first read of a process: before any other write, so under the lock.
        with self._lock.held(), self._mapped():
            client = self._given or _new_client(self._path)
            _opened_in[:] = [os.getpid()]
            try:
                collection = self._collection_of(client)
            except BaseException:
                if self._given is None:
                    cast("Client", client).close()
                raise
        self._client, self._collection = client, collection
        return collection

    def _collection_of(self, client: "ClientAPI") -> "Collection":
        collection = client.get_or_create_collection(
            self._name,
            metadata={"holdfast": FORMAT},
            configuration={} if self.remote else {"hnsw": {"sync_threshold": _NO_INDEX_FILES}},
            embedding_function=None,
        )
        found = (collection.metadata or {}).get("holdfast")
        if found != FORMAT:
            raise SchemaMismatch(
                f"the Chroma collection {self._name!r} has format {found!r}, this version reads {FORMAT}:"
                " it is somebody else's, or of another version; give collection= another name"
            )
        collection.get(limit=1, include=[])
        self._at_once = max(1, client.get_max_batch_size())
        return collection

    def _ask(self, call: "Callable[[Collection], T]") -> T:
        """Ask Chroma; while another process has the file for itself, wait as long as we may."""
        collection = self._opened()
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                with self._mapped():
                    return call(collection)
            except _Locked as error:
                if time.monotonic() > deadline:
                    raise Unavailable(str(error)) from error
                time.sleep(_PAUSE)

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Errors of Chroma, of its connection and of its files, as ours."""
        try:
            yield
        except HoldfastError:
            raise
        except BaseException as error:
            mapped = _translated(error, self._path or self._name)
            if mapped is None:
                raise
            raise mapped from error


def _upsert(records: Sequence[Record], collection: "Collection") -> None:
    collection.upsert(
        ids=[record.id for record in records],
        embeddings=list[Sequence[float] | Sequence[int]]([_VECTOR] * len(records)),
        metadatas=[
            {"place": r.place, "version": r.version, "expires": r.expires_us, "data": r.data} for r in records
        ],
    )


def _delete(ids: Sequence[str], collection: "Collection") -> None:
    collection.delete(ids=list(ids))


class _Locked(Unavailable):
    """Another process has the database for itself."""


def _new_client(path: str | None) -> "ClientAPI":
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    with _opening:
        if path is None:
            return chromadb.EphemeralClient(settings)
        return chromadb.PersistentClient(path, settings)


def forked() -> bool:
    """Whether Chroma was used before a fork: its threads don't live on in the child, and its calls never return."""
    return bool(_opened_in) and _opened_in != [os.getpid()]


def check_process() -> None:
    if forked():
        raise Unavailable(
            "this process was forked from one that had used Chroma, whose threads a fork leaves behind: start it by"
            " the methods 'spawn' or 'forkserver' of multiprocessing, or fork before the first use"
        )


def _whereabouts(place: Place) -> tuple[str | None, bool]:
    """The directory, if there is one, and whether the records are with a server."""
    if place.client is None:
        return (None if place.path is None else str(Path(place.path).resolve())), False
    from chromadb.api import ClientAPI

    if not isinstance(place.client, ClientAPI):
        raise InvalidInput(
            "client must be a chromadb client such as PersistentClient or HttpClient, got"
            f" {type(place.client).__name__}"
        )
    settings = place.client.get_settings()
    if settings.chroma_api_impl not in (
        "chromadb.api.rust.RustBindingsAPI",
        "chromadb.api.segment.SegmentAPI",
    ):
        return None, True
    return (str(Path(settings.persist_directory).resolve()) if settings.is_persistent else None), False


def _record(id: str, metadata: Mapping[str, Any] | None) -> Record:
    try:
        fields = metadata or {}
        return Record(
            id, str(fields["place"]), int(fields["version"]), int(fields["expires"]), str(fields["data"])
        )
    except (KeyError, TypeError, ValueError) as error:
        place = f"record {id}"
        raise Corrupt(f"{place} of the Chroma collection is damaged", place=place) from error


def _all(*conditions: dict[str, Any]) -> dict[str, Any]:
    return conditions[0] if len(conditions) == 1 else {"$and": list(conditions)}


def _translated(error: BaseException, place: str) -> HoldfastError | None:
    """``None`` for what is not Chroma's."""
    kind, text = type(error), str(error)
    home = kind.__module__.partition(".")[0]
    if home not in ("chromadb", "sqlite3", "httpx", "pyo3_runtime") and not isinstance(error, ValueError):
        return None
    lower = text.lower()
    if "database is locked" in lower or "(code: 5)" in lower:
        return _Locked(f"{place} is not available: {text}")
    if "different settings" in lower:
        return InvalidInput(f"this process has another Chroma client on {place}: pass it as client=")
    if "disk is full" in lower or "(code: 13)" in lower:
        return StorageFull(f"{place}: {text}")
    if "malformed" in lower or "not a database" in lower:
        return Corrupt(f"{place} is damaged or is not a Chroma directory: {text}", place=place)
    if home == "builtins":  # a ValueError of Chroma's own checks: the contract's came before
        return HoldfastError(f"{place}: {text}")
    return Unavailable(f"{place} is not available: {kind.__name__}: {text}")
