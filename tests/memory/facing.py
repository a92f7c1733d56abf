"""A blocking twin behind an asynchronous face, so that the conformance suites run on it unchanged."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.memory.sync import SyncCheckpointer


def _calling(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._twin, name)(*args, **kwargs)

    return call


class BlockingCheckpointerFace(BaseCheckpointer):
    """Every public method calls the twin's method of the same name, in place."""

    def __init__(self, twin: SyncCheckpointer) -> None:
        super().__init__()
        self._twin = twin

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return self._twin.capabilities

    @property
    def scope(self) -> str | None:
        return self._twin.scope

    def scoped(self, scope: str) -> Any:
        return BlockingCheckpointerFace(self._twin.scoped(scope))

    def admin(self) -> Any:
        return self._twin._inner.admin()

    async def export_threads(self, pattern: str = "*") -> AsyncIterator[str]:
        for line in self._twin.export_threads(pattern):
            yield line


for _name in (
    "save load get head exists list_checkpoints history delete put_writes get_writes search query_by_metadata"
    " get_metadata list_with_metadata list_threads diff stats copy_thread fork vacuum prune import_threads delete_scope"
    " close"
).split():
    setattr(BlockingCheckpointerFace, _name, _calling(_name))
