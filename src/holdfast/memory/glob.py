r"""Thread patterns: ``*`` is any run of characters, ``?`` any one, ``\`` takes the next one literally."""

import re
from functools import lru_cache


@lru_cache(maxsize=256)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression for ``fullmatch``."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == "*":
            parts.append(".*")
        elif character == "?":
            parts.append(".")
        else:
            literal = next(characters, "\\") if character == "\\" else character
            parts.append(re.escape(literal))
    return re.compile("".join(parts), re.DOTALL)


def literal_prefix(pattern: str) -> str:
    """The characters that every match begins with."""
    prefix: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character in "*?":
            break
        prefix.append(next(characters, "\\") if character == "\\" else character)
    return "".join(prefix)
