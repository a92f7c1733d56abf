"""What a backend can do is declared, never guessed."""

from typing import Any, ClassVar, Self

from holdfast.core.errors import InvalidInput


class Declared:
    """Base of the frozen dataclasses of flags that say what a contract's backend can do."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def all_but(cls, *missing: str) -> Self:
        """Everything except the named ones."""
        names = cls.__dataclass_fields__.keys()
        if unknown := set(missing) - names:
            raise InvalidInput(f"unknown capability {sorted(unknown)}: known are {sorted(names)}")
        return cls(**{name: name not in missing for name in names})
