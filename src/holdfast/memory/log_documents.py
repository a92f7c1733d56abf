"""General dict checkpoints on the same log: a list that grows by appending is stored by its new elements.

Any list under string keys is kept as a log once it is large enough to matter, or was kept so before. The head is the
document with these lists empty; the names of the lists say where they belong.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from holdfast.core import codec
from holdfast.core.errors import Corrupt
from holdfast.memory.log import LOGS_A_SAVE, Parts

_MOST_DEPTH = 4
_MANY_ELEMENTS = 8
_MANY_CHARACTERS = 1024


def split_document(document: Mapping[str, Any], logged: Collection[str] = ()) -> Parts:
    """Take a document apart. ``logged``: the lists that its predecessor kept as logs."""
    head = json.loads(codec.dumps(dict(document), path="checkpoint_data"))
    lists: dict[str, tuple[str, ...]] = {}
    for path, parent, key in list(_lists(head, ())):
        name = json.dumps(path)
        texts = tuple(_text(element) for element in parent[key])
        large = len(texts) >= _MANY_ELEMENTS or sum(map(len, texts)) >= _MANY_CHARACTERS
        if (large or name in logged) and len(lists) < LOGS_A_SAVE:
            lists[name] = texts
            parent[key] = []
    return Parts(_text(head), lists, dict.fromkeys(lists, _itself))


def join_document(head: str, lists: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The reverse of :func:`split_document`."""
    try:
        document = json.loads(head)
        for name, texts in lists.items():
            *path, last = json.loads(name)
            parent = document
            for key in path:
                parent = parent[key]
            parent[last] = json.loads(f"[{','.join(texts)}]")
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt("the stored document can't be put together", place="document") from error
    value = codec.loads(_text(document), place="document")
    if not isinstance(value, dict):
        raise Corrupt("the stored document is not an object", place="document")
    return value


def _lists(
    parent: dict[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], dict[str, Any], str]]:
    """Non-empty lists that are reached by keys alone, in the codec's plain form."""
    if "$hf" in parent:
        return  # a typed value: what is in it is the codec's
    for key, value in parent.items():
        if type(value) is list and value:
            yield (*path, key), parent, key
        elif type(value) is dict and len(path) + 1 < _MOST_DEPTH:
            yield from _lists(value, (*path, key))


def _itself(text: str) -> str:
    return text


def _text(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text if codec.is_unicode(text) else json.dumps(value, separators=(",", ":"))
