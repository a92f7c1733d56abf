"""What a store can do."""

from dataclasses import dataclass, fields

from holdfast.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class StoreCapabilities:
    """What a store can do. Declared by the backend, never guessed; what is not declared raises."""

    ttl: bool = False
    compare_and_set: bool = False
    text_search: bool = False
    vector_search: bool = False
    metadata_filter: bool = False
    atomic_batch: bool = False
    list_namespaces: bool = False

    @classmethod
    def all_but(cls, *missing: str) -> "StoreCapabilities":
        """Everything except the named ones."""
        names = {f.name for f in fields(cls)}
        if unknown := set(missing) - names:
            raise InvalidInput(f"unknown capability {sorted(unknown)}: known are {sorted(names)}")
        return cls(**{name: name not in missing for name in names})
