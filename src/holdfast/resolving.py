"""A memory by a URL, by a dict, or as it is."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from holdfast.connection import connect
from holdfast.core.errors import InvalidInput
from holdfast.memory.agent_memory import AgentMemory
from holdfast.memory.embedder.base import Embedder, store_options
from holdfast.memory.embedder.resolve import is_automatic, resolve_embedder
from holdfast.memory.embedder.sticky import StickyEmbedder

__all__ = ["LazyMemory", "resolve_memory"]

_KEYS = ("backend", "path", "url", "namespace", "embedder", "with_facts")
_PLAIN = {
    "inmemory": "memory:",
    "memory": "memory:",
    "sqlite": "sqlite:holdfast.db",
    "chroma": "chroma::memory:",
}


class LazyMemory(AgentMemory):
    """A memory on a database of its own, which also keeps threads where it can. Nothing is opened before it is
    first used.

    Without a named ``embedder`` it stays with the one that made the vectors which are stored there, or refuses if that
    can't be had any more; where there are none yet, it takes the best that is there (`resolve_embedder`).
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        embedder: str | Embedder | None = None,
        with_facts: bool = True,
    ) -> None:
        found: Embedder | StickyEmbedder | None
        if is_automatic(embedder):
            connection = connect(url)
            found = StickyEmbedder(connection.store, namespace)
        else:
            found = resolve_embedder(embedder)
            connection = connect(url, **store_options(found))
        super().__init__(
            connection.store,
            connection.checkpointer if connection.keeps_threads else None,
            namespace=namespace,
            embedder=found,
            with_facts=with_facts,
        )
        self.url = url


def resolve_memory(spec: object) -> AgentMemory:
    """The memory that ``spec`` means: an `AgentMemory` as it is; a URL such as ``"inmemory"``, ``"sqlite"`` (which is
    ``./holdfast.db``), ``"sqlite:./bot.db"``, ``"chroma"`` (in memory) or ``"chroma:./dir"``; or a dict with
    ``backend`` and ``path`` or ``url``, and optionally ``namespace``, ``embedder`` and ``with_facts``."""
    if isinstance(spec, AgentMemory):
        return spec
    if isinstance(spec, str):
        return LazyMemory(_PLAIN.get(spec, spec))
    if isinstance(spec, Mapping):
        return _from_mapping(spec)
    raise InvalidInput(
        f"memory must be a URL such as 'sqlite:bot.db', a dict or an AgentMemory, got {type(spec).__name__}"
    )


def _from_mapping(spec: Mapping[str, Any]) -> AgentMemory:
    for key in spec:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_KEYS)}"
            raise InvalidInput(f"memory has an unknown key {key!r}: {hint}")
    if "path" in spec and "url" in spec:
        raise InvalidInput("memory has both 'path' and 'url': give one")
    backend, where = spec.get("backend"), spec.get("path", spec.get("url"))
    if backend is None and where is None:
        raise InvalidInput("memory needs 'backend', or a 'url' that tells it")
    if where is None:
        url = _PLAIN.get(str(backend), f"{backend}:")
    elif "url" in spec or backend is None:
        url = str(where)
    else:
        url = f"{backend}:{where}"
    options = {key: spec[key] for key in ("namespace", "embedder", "with_facts") if key in spec}
    return LazyMemory(url, **options)
