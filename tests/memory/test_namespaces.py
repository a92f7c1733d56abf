"""Keys and namespaces as text for databases: nothing collides, nothing is lost, the order stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Corrupt
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.namespaces import below, decode_namespace, encode_namespace
from holdfast.testing.store_cases.base import NASTY_NAMES

# Few characters, most of them special, so that near misses are common; surrogates included.
SPECIAL = "\x00\x01\x02ab/~01\\%_\ud800\udfff\ue000\uffff\U0001f600\u0100\u08ff"
names = st.text(st.sampled_from(SPECIAL), min_size=1, max_size=8) | st.text(
    st.characters(), min_size=1, max_size=8
)
spaces = st.lists(names, min_size=1, max_size=4).map(tuple)


def test_ordinary_ids_are_their_own_encoding() -> None:
    for name in ("user-1", "a/b:c", "Ünïcode 日本語", "back\\slash", "new\nline", "😀", " ", "%_*?[]'\""):
        assert encode_id(name) == name
        assert decode_id(name) == name


@pytest.mark.parametrize("name", NASTY_NAMES, ids=ascii)
def test_every_id_fits_any_database_and_comes_back(name: str) -> None:
    text = encode_id(name)
    assert "\x00" not in text
    text.encode()  # no lone surrogates
    assert 0 < len(text) <= 2 * len(name)
    assert decode_id(text) == name


@given(names)
def test_ids_round_trip(name: str) -> None:
    assert decode_id(encode_id(name)) == name


@given(names, names)
def test_encoded_ids_keep_their_order(a: str, b: str) -> None:
    assert (encode_id(a) < encode_id(b)) is (a < b)
    assert (encode_id(a).encode() < encode_id(b).encode()) is (a < b)


@given(names, names)
def test_the_encoding_of_a_prefix_is_a_prefix(a: str, b: str) -> None:
    assert encode_id(a + b).startswith(encode_id(a))


@pytest.mark.parametrize("text", ["\x01", "\x01x", "a\x01", "\ue000", "\ue000a", "\ue000\u0900"], ids=ascii)
def test_text_that_is_no_encoded_id_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        decode_id(text)


def test_namespaces_stay_readable() -> None:
    assert encode_namespace(("users", "ada", "notes")) == "users/ada/notes/"
    assert encode_namespace(("a/b", "c~d")) == "a~1b/c~0d/"


@given(spaces)
def test_namespaces_round_trip(namespace: tuple[str, ...]) -> None:
    text = encode_namespace(namespace)
    assert text
    assert "\x00" not in text
    text.encode()
    assert decode_namespace(text) == namespace


@given(spaces, spaces)
def test_a_prefix_of_the_text_is_a_prefix_of_the_namespace(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    is_below = b[: len(a)] == a
    assert encode_namespace(b).startswith(encode_namespace(a)) is is_below
    low, high = below(encode_namespace(a))
    assert (low <= encode_namespace(b) < high) is is_below
    assert (low.encode() <= encode_namespace(b).encode() < high.encode()) is is_below


def test_user1_is_no_prefix_of_user10() -> None:
    assert not encode_namespace(("user10",)).startswith(encode_namespace(("user1",)))
    assert encode_namespace(("a", "b")) != encode_namespace(("a/b",))


@pytest.mark.parametrize("text", ["", "a", "a/b"])
def test_text_that_is_no_encoded_namespace_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        decode_namespace(text)
