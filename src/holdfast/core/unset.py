"""A default that no caller can pass by accident: "not given", where ``None`` means something."""

from enum import Enum
from typing import Final, Literal


class Unset(Enum):
    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
UnsetType = Literal[Unset.UNSET]
