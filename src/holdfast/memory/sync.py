"""Blocking twins of the contracts: the same names, the same rules, no event loop and no thread."""

from typing import Self

from holdfast.memory.blocking import blocking, blocking_iterator
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities


class SyncCheckpointer:
    """Every method of :class:`BaseCheckpointer`, blocking. ``_inner`` must run on an engine that never suspends."""

    def __init__(self, inner: BaseCheckpointer) -> None:
        self._inner = inner

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return self._inner.capabilities

    @property
    def scope(self) -> str | None:
        return self._inner.scope

    def scoped(self, scope: str) -> "SyncCheckpointer":
        """See :meth:`BaseCheckpointer.scoped`."""
        return SyncCheckpointer(self._inner.scoped(scope))

    save = blocking(BaseCheckpointer.save)
    load = blocking(BaseCheckpointer.load)
    get = blocking(BaseCheckpointer.get)
    head = blocking(BaseCheckpointer.head)
    exists = blocking(BaseCheckpointer.exists)
    list_checkpoints = blocking(BaseCheckpointer.list_checkpoints)
    history = blocking(BaseCheckpointer.history)
    delete = blocking(BaseCheckpointer.delete)
    put_writes = blocking(BaseCheckpointer.put_writes)
    get_writes = blocking(BaseCheckpointer.get_writes)
    search = blocking(BaseCheckpointer.search)
    query_by_metadata = blocking(BaseCheckpointer.query_by_metadata)
    get_metadata = blocking(BaseCheckpointer.get_metadata)
    list_with_metadata = blocking(BaseCheckpointer.list_with_metadata)
    list_threads = blocking(BaseCheckpointer.list_threads)
    diff = blocking(BaseCheckpointer.diff)
    stats = blocking(BaseCheckpointer.stats)
    copy_thread = blocking(BaseCheckpointer.copy_thread)
    fork = blocking(BaseCheckpointer.fork)
    vacuum = blocking(BaseCheckpointer.vacuum)
    prune = blocking(BaseCheckpointer.prune)
    export_threads = blocking_iterator(BaseCheckpointer.export_threads)
    import_threads = blocking(BaseCheckpointer.import_threads)
    delete_scope = blocking(BaseCheckpointer.delete_scope)
    close = blocking(BaseCheckpointer.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
