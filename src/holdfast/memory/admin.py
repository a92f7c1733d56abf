"""Operators see every scope; tenants never use this."""

from holdfast.memory import validate
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.cursors import decode_cursor, encode_cursor
from holdfast.memory.records import CheckpointerStats, Page


class CheckpointerAdmin:
    """Every scope at once: for operators, never for requests of a tenant."""

    def __init__(self, checkpointer: BaseCheckpointer) -> None:
        self._checkpointer = checkpointer

    async def scopes(self) -> list[str | None]:
        """Scopes that have threads, in order; ``None`` is the default one."""
        self._checkpointer._check("scopes")
        return sorted(await self._checkpointer._scopes(), key=_order)

    async def list_threads(
        self, limit: int = 100, pattern: str = "*", *, after: str | None = None
    ) -> Page[tuple[str | None, str]]:
        """``(scope, thread_id)`` of all scopes, scope by scope."""
        limit = validate.limit(limit)
        start, inner = (None, None) if after is None else decode_cursor(after, "admin", 2)
        found: list[tuple[str | None, str]] = []
        for scope in await self.scopes():
            if after is not None and (_order(scope) < _order(start) or (scope == start and inner is None)):
                continue
            page = await self._checkpointer._view(scope).list_threads(
                limit - len(found), pattern, after=inner if scope == start else None
            )
            found += [(scope, thread_id) for thread_id in page]
            if len(found) >= limit or page.next is not None:
                return Page(found, encode_cursor("admin", scope, page.next) if limit else None)
        return Page(found)

    async def stats(self) -> dict[str | None, CheckpointerStats]:
        """Counts per scope."""
        return {scope: await self._checkpointer._view(scope).stats() for scope in await self.scopes()}

    async def delete_scope(self, scope: str) -> int:
        """See :meth:`BaseCheckpointer.delete_scope`."""
        return await self._checkpointer.delete_scope(scope)


def _order(scope: str | None) -> tuple[bool, str]:
    return (scope is not None, scope or "")
