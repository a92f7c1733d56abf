"""A blocking twin of a store behind an asynchronous face, so that the conformance suite runs on it unchanged."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from holdfast.memory.store import BaseStore, StoreCapabilities, StoreItem
from holdfast.memory.sync_store import SyncStore
from tests.memory.facing import _calling


class BlockingStoreFace(BaseStore):
    """Every public method calls the twin's method of the same name, in place."""

    def __init__(self, twin: SyncStore) -> None:
        super().__init__()
        self._twin = twin

    @property
    def capabilities(self) -> StoreCapabilities:
        return self._twin.capabilities

    async def iterate(
        self, namespace: Sequence[str], filter: Mapping[str, Any] | None = None, *, prefix: bool = False
    ) -> AsyncIterator[StoreItem]:
        for item in self._twin.iterate(namespace, filter, prefix=prefix):
            yield item


for _name in (
    "put put_with_embedding put_batch get get_item get_batch exists delete batch list_keys list_namespaces search"
    " search_by_embedding text_candidates neighbours clear_namespace purge_expired space_of change_space"
    " without_vectors close"
).split():
    setattr(BlockingStoreFace, _name, _calling(_name))
