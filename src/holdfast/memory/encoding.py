"""Ids as text that every database can hold and compare.

Databases refuse NUL (PostgreSQL) and lone surrogates (everything that speaks UTF-8). These, and the two
characters that stand for them, are written as pairs; every other string is stored as it is. A pair sorts
where the character that it stands for sorts: the encoded texts, compared by code points or by UTF-8 bytes,
have the order of the ids, and the encoding of a prefix is a prefix of the encoding.
"""

import re

from holdfast.core.errors import Corrupt

_LOW = "\x01"  # begins the pairs of U+0000 and of itself
_HIGH = "\ue000"  # begins the pairs of U+D800..U+DFFF and of itself: its place is right behind theirs
_SURROGATES = 0xD800
_SHIFTED = 0x100  # a surrogate's second character: U+0100..U+08FF, all below _HIGH

_SPECIAL = re.compile("[\x00\x01\ud800-\udfff\ue000]")
_PAIR = re.compile("([\x01\ue000])(.?)", re.DOTALL)
_PAIRS = {"\x00": "\x01\x01", "\x01": "\x01\x02", "\ue000": "\ue000\ue000"}
_SINGLES = {pair: single for single, pair in _PAIRS.items()}


def encode_id(value: str) -> str:
    """The text to store for an id. Ordinary strings are their own encoding; different ids never share one."""
    if value.isascii() and value.isprintable():
        return value
    return _SPECIAL.sub(_pair, value)


def decode_id(text: str) -> str:
    """The id that :func:`encode_id` made the text from."""
    if _LOW not in text and _HIGH not in text:
        return text
    return _PAIR.sub(_single, text)


def _pair(match: re.Match[str]) -> str:
    character = match[0]
    return _PAIRS.get(character) or _HIGH + chr(ord(character) - _SURROGATES + _SHIFTED)


def _single(match: re.Match[str]) -> str:
    pair = match[0]
    if single := _SINGLES.get(pair):
        return single
    if pair[0] == _HIGH and len(pair) == 2 and _SHIFTED <= ord(pair[1]) < _SHIFTED + 0x800:
        return chr(ord(pair[1]) - _SHIFTED + _SURROGATES)
    raise Corrupt(f"{match.string!r} is not an encoded id", place=ascii(match.string))
