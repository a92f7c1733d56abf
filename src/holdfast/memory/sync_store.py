"""The blocking twin of the Store contract: the same names, the same rules, no event loop and no thread."""

from typing import Self

from holdfast.memory.blocking import blocking, blocking_iterator
from holdfast.memory.store import BaseStore
from holdfast.memory.store_capabilities import StoreCapabilities


class SyncStore:
    """Every method of :class:`BaseStore`, blocking. ``_inner`` must run on an engine that never suspends."""

    def __init__(self, inner: BaseStore) -> None:
        self._inner = inner

    @property
    def capabilities(self) -> StoreCapabilities:
        return self._inner.capabilities

    put = blocking(BaseStore.put)
    put_with_embedding = blocking(BaseStore.put_with_embedding)
    put_batch = blocking(BaseStore.put_batch)
    get = blocking(BaseStore.get)
    get_item = blocking(BaseStore.get_item)
    get_batch = blocking(BaseStore.get_batch)
    exists = blocking(BaseStore.exists)
    delete = blocking(BaseStore.delete)
    batch = blocking(BaseStore.batch)
    list_keys = blocking(BaseStore.list_keys)
    list_namespaces = blocking(BaseStore.list_namespaces)
    iterate = blocking_iterator(BaseStore.iterate)
    search = blocking(BaseStore.search)
    search_by_embedding = blocking(BaseStore.search_by_embedding)
    text_candidates = blocking(BaseStore.text_candidates)
    neighbours = blocking(BaseStore.neighbours)
    clear_namespace = blocking(BaseStore.clear_namespace)
    purge_expired = blocking(BaseStore.purge_expired)
    erase_deleted = blocking(BaseStore.erase_deleted)
    space_of = blocking(BaseStore.space_of)
    change_space = blocking(BaseStore.change_space)
    without_vectors = blocking(BaseStore.without_vectors)
    close = blocking(BaseStore.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
