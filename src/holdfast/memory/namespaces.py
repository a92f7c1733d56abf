"""Namespaces as one text key: ``("users", "a/b")`` is ``users/a~1b/``.

Every part ends with ``/``, which no part contains, so a text prefix is a namespace prefix: ``user1/`` is not
one of ``user10/``. ``/`` within a part is ``~1`` and ``~`` is ``~0``; what a database can't hold is encoded
as in ids.
"""

from collections.abc import Sequence

from holdfast.core.errors import Corrupt
from holdfast.memory.encoding import decode_id, encode_id


def encode_namespace(namespace: Sequence[str]) -> str:
    """The key of a namespace; of everything below it, it is a prefix. Never empty."""
    return "".join([_encode_part(part) + "/" for part in namespace])


def decode_namespace(text: str) -> tuple[str, ...]:
    """The namespace that :func:`encode_namespace` made the key from."""
    if not text.endswith("/"):
        raise Corrupt(f"{text!r} is not an encoded namespace", place=ascii(text))
    return tuple(_decode_part(part) for part in text[:-1].split("/"))


def below(text: str) -> tuple[str, str]:
    """Bounds ``low <= key < high`` of a namespace's key and those of all namespaces below it."""
    return text, text[:-1] + "0"  # "0" is the character after "/"


def _encode_part(part: str) -> str:
    text = encode_id(part)
    if "~" in text or "/" in text:
        text = text.replace("~", "~0").replace("/", "~1")
    return text


def _decode_part(text: str) -> str:
    return decode_id(text.replace("~1", "/").replace("~0", "~") if "~" in text else text)
