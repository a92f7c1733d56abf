"""Threads as JSON lines: streaming, checksummed, written once for every backend.

A file is a header line, then for each thread a line that opens it, a line for each checkpoint (as a change from
the one before) and a line that closes it with a count and a SHA-256 over its lines, then a closing line with the
number of threads. A reader hands out a thread only when its checksum is right and its states can be decoded: a file
may come from anywhere.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from holdfast.core import codec
from holdfast.core.errors import Corrupt, InvalidInput, SchemaMismatch
from holdfast.core.state import LOGGED_FIELDS, decode_state
from holdfast.memory import validate
from holdfast.memory.requests import DumpRecord, ListDelta, ThreadDump

FORMAT_VERSION = 1
_SURROGATE = re.compile("[\ud800-\udfff]")


class ExportWriter:
    """Turns threads into lines, in the order that they are given."""

    def __init__(self) -> None:
        self._threads = 0

    def begin(self) -> str:
        return _line({"holdfast_export": FORMAT_VERSION})

    def thread(self, dump: ThreadDump) -> Iterator[str]:
        checksum = hashlib.sha256()
        for line in _thread_lines(dump):
            checksum.update(_bytes(line))
            yield line
        self._threads += 1
        yield _line({"end": "thread", "checkpoints": len(dump.records), "sha256": checksum.hexdigest()})

    def end(self) -> str:
        return _line({"end": "export", "threads": self._threads})


class ImportReader:
    """Takes lines one by one; hands out each thread once it is complete and its checksum right."""

    def __init__(self) -> None:
        self._number = 0
        self._threads = 0
        self._begun = self._ended = False
        self._open: ThreadDump | None = None
        self._records: list[DumpRecord] = []
        self._ids: set[str] = set()
        self._lengths: dict[str, int] = {}
        self._checksum = hashlib.sha256()

    def feed(self, line: str) -> ThreadDump | None:
        """The thread that this line completes, if it completes one."""
        self._number += 1
        line = line.rstrip("\r\n")
        if not line:
            return None
        try:
            document = json.loads(line)
            return self._take(document, line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, Corrupt) as error:
            if isinstance(error, InvalidInput) and str(error).startswith("import line"):
                raise
            raise self._wrong(f"is not a line of a Holdfast export: {error}") from error

    def finish(self) -> None:
        """To be called after the last line: was the file complete?"""
        if not self._begun:
            raise InvalidInput("this is not a Holdfast export: it has no header line")
        if not self._ended:
            raise InvalidInput(
                f"the export is cut off after line {self._number}: {self._threads} threads before that are complete"
            )

    def _take(self, document: dict[str, Any], line: str) -> ThreadDump | None:
        if not self._begun:
            self._header(document)
        elif self._ended:
            raise self._wrong("comes after the end of the export")
        elif self._open is None:
            self._between_threads(document, line)
        elif document.get("end") == "thread":
            return self._close_thread(document)
        else:
            self._checksum.update(_bytes(line))
            self._records.append(self._checked(_record(document)))
        return None

    def _header(self, document: dict[str, Any]) -> None:
        version = document["holdfast_export"]
        if version != FORMAT_VERSION:
            raise SchemaMismatch(
                f"export format {version!r} is not one that this version reads ({FORMAT_VERSION})"
            )
        self._begun = True

    def _between_threads(self, document: dict[str, Any], line: str) -> None:
        if document.get("end") == "export":
            if document["threads"] != self._threads:
                raise self._wrong(f"says {document['threads']} threads, but {self._threads} were read")
            self._ended = True
            return
        self._open = ThreadDump(
            validate.identifier(document["thread"], "thread"), _whole(document["created_us"], "created_us")
        )
        self._records, self._ids, self._lengths = [], set(), dict.fromkeys(LOGGED_FIELDS, 0)
        self._checksum = hashlib.sha256(_bytes(line))

    def _close_thread(self, document: dict[str, Any]) -> ThreadDump:
        assert self._open is not None
        place = f"thread {self._open.thread_id!r}"
        if not self._records:
            raise self._wrong(f"{place} has no checkpoints")
        if document["checkpoints"] != len(self._records):
            raise self._wrong(
                f"{place} has {len(self._records)} checkpoints, expected {document['checkpoints']}"
            )
        if document["sha256"] != self._checksum.hexdigest():
            raise self._wrong(f"{place} does not match its checksum: the file was changed or damaged")
        dump = ThreadDump(self._open.thread_id, self._open.created_us, tuple(self._records))
        self._open = None
        self._threads += 1
        return dump

    def _checked(self, record: DumpRecord) -> DumpRecord:
        """The record, if a backend can take it as it is."""
        if record.checkpoint_id in self._ids:
            raise self._wrong(f"checkpoint {record.checkpoint_id!r} comes twice")
        self._ids.add(record.checkpoint_id)
        for name, delta in record.lists.items():
            if not 0 <= _whole(delta.keep, name) <= self._lengths.get(name, -1):
                raise self._wrong(f"{name} keeps {delta.keep} elements of {self._lengths.get(name)}")
        lists = {name: delta.keep + len(delta.add) for name, delta in record.lists.items()}
        self._lengths = dict.fromkeys(LOGGED_FIELDS, 0) | lists
        decode_state(record.head, {name: delta.add for name, delta in record.lists.items()})
        return record

    def _wrong(self, what: str) -> InvalidInput:
        return InvalidInput(f"import line {self._number}: {what}")


def _thread_lines(dump: ThreadDump) -> Iterator[str]:
    yield _line({"thread": dump.thread_id, "created_us": dump.created_us})
    for record in dump.records:
        yield _line(
            {
                "checkpoint": record.checkpoint_id,
                "parent": record.parent_id,
                "created_us": record.created_us,
                "metadata": json.loads(codec.dumps(dict(record.metadata))),
                "head": json.loads(record.head),
                "lists": {
                    name: [delta.keep, [json.loads(element) for element in delta.add]]
                    for name, delta in record.lists.items()
                },
                "writes": [
                    [task_id, idx, channel, json.loads(codec.dumps(value))]
                    for task_id, idx, channel, value in record.writes
                ],
            }
        )


def _record(document: dict[str, Any]) -> DumpRecord:
    return DumpRecord(
        checkpoint_id=validate.identifier(document["checkpoint"], "checkpoint"),
        parent_id=validate.optional_identifier(document["parent"], "parent"),
        created_us=_whole(document["created_us"], "created_us"),
        metadata=validate.metadata(codec.loads(json.dumps(document["metadata"]))),
        head=_text(document["head"]),
        lists={
            name: ListDelta(keep, [_text(element) for element in add])
            for name, (keep, add) in document["lists"].items()
        },
        writes=[
            (
                validate.identifier(task_id, "task_id"),
                _whole(idx, "idx"),
                validate.identifier(channel, "channel"),
                codec.loads(json.dumps(value)),
            )
            for task_id, idx, channel, value in document["writes"]
        ],
    )


def _whole(value: object, field: str) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise InvalidInput(f"{field} must be a whole number of 64 bits, got {value!r}")
    return value


def _text(value: Any) -> str:
    """JSON text as the codec writes it: an element that was exported comes back byte for byte."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text if text.isascii() or not _SURROGATE.search(text) else json.dumps(value, separators=(",", ":"))


def _line(document: dict[str, Any]) -> str:
    # ASCII, so that any string survives any file encoding on its way.
    return json.dumps(document, separators=(",", ":"))


def _bytes(line: str) -> bytes:
    return line.encode("utf-8", "surrogatepass")
