"""How scopes and namespaces are written in keys."""

from functools import lru_cache
from hashlib import blake2b

from holdfast.core.ids import told_sequence
from holdfast.memory.encoding import decode_id, encode_id

DEFAULT_SCOPE = "d"
STATE_NS = "a"
"""The namespace of agents' states; a saver's namespaces begin with another letter."""
SCOPE_BYTES = 6


def encode_scope(scope: str | None) -> str:
    """The default scope is not a string that anybody can pass."""
    return DEFAULT_SCOPE if scope is None else "u" + encode_id(scope)


def decode_scope(scope: str) -> str | None:
    return None if scope == DEFAULT_SCOPE else decode_id(scope[1:])


def saver_ns(ns: str) -> str:
    """A saver's namespace, which may be empty, as text that never is."""
    return "s" + encode_id(ns)


def named(encoded_id: str, seq: int) -> int | None:
    """What marks a checkpoint for the index of ids: one whose id tells its sequence is found without it."""
    return None if told_sequence(encoded_id) == seq else 1


@lru_cache(maxsize=4096)
def scope_number(place: str, scope: str, ns: str) -> int:
    """A number for a lock on a scope of these tables. Others may share it: that costs time, nothing else."""
    digest = blake2b(f"{place}\0{scope}\0{ns}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


@lru_cache(maxsize=4096)
def scope_prefix(scope: str) -> bytes:
    """What all keys of a scope begin with."""
    return blake2b(scope.encode(), digest_size=SCOPE_BYTES).digest()
