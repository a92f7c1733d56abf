"""What a store can do."""

from dataclasses import dataclass

from holdfast.core.capabilities import Declared


@dataclass(frozen=True, slots=True)
class StoreCapabilities(Declared):
    """What a store can do. Declared by the backend, never guessed; what is not declared raises."""

    ttl: bool = False
    compare_and_set: bool = False
    text_search: bool = False
    vector_search: bool = False
    metadata_filter: bool = False
    atomic_batch: bool = False
    list_namespaces: bool = False
