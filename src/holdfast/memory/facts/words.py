"""When two names mean the same, and how many values a predicate has."""

import re
import unicodedata
from functools import lru_cache
from typing import Final

from holdfast.memory.facts.records import Cardinality

USER: Final = "user"
"""The person whose memory it is."""

_SELF: Final = frozenset({"i", "me", "myself", "the user"})

SAME: Final = frozenset({"same_as", "also_known_as", "alias"})
"""Predicates that say of any two names that they are one subject."""
NAMES: Final = frozenset({"name", "full_name", "first_name", "nickname"})
"""Predicates whose object is another name of the user. Of others it is not: two friends may share a name."""

_ONE: Final = frozenset(
    """
    lives_in lives_at located_in based_in home_city home_town hometown address country city
    works_at works_for works_as employer employed_by job job_title occupation profession role title salary
    name full_name first_name last_name age birthday born_on born_in birth_date date_of_birth birthplace gender pronouns
    height weight eye_color hair_color blood_type marital_status relationship_status married_to spouse husband wife
    email email_address phone phone_number timezone time_zone locale diet
    """.split()
)
_ONE_STARTS: Final = ("favorite_", "favourite_", "preferred_", "current_")


@lru_cache(maxsize=8192)
def plain(text: str) -> str:
    """The text without what makes no difference: case, width, spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def subject_of(name: str) -> str:
    """A subject's name, to compare. "I" and "me" are the user."""
    found = plain(name)
    return USER if found in _SELF else found


@lru_cache(maxsize=1024)
def predicate_of(name: str) -> str:
    """A predicate's name, to compare: "Lives in" is ``lives_in``."""
    return re.sub(r"[\s_-]+", "_", plain(name)).strip("_") or plain(name)


def usual(predicate: str) -> Cardinality:
    """How many values a predicate has unless somebody declares it."""
    return "one" if predicate in _ONE or predicate.startswith(_ONE_STARTS) else "many"
