"""How listings of a store go on from page to page: written once, over a backend's ``_scan`` hook."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from holdfast.core.errors import InvalidInput
from holdfast.memory import store_checks as checks
from holdfast.memory.cursors import decode_cursor, decode_numbers, encode_cursor
from holdfast.memory.ranking import rank
from holdfast.memory.records import Page, SearchHit
from holdfast.memory.store_requests import ScanRequest, StoredCandidates, StoredItem, TextRequest

PORTION = 256
"""How many items a complete listing reads at a time."""
Scan = Callable[[ScanRequest], Awaitable[list[StoredItem]]]


async def by_key(scan: Scan, request: ScanRequest, after: str | None) -> Page[StoredItem]:
    """A page in the order of namespace and key."""
    if after is not None:
        request = replace(request, after=checks.place(*decode_cursor(after, "keys", 2), at="after."))
    found, more = await _some(scan, request)
    return Page(found, encode_cursor("keys", list(found[-1].namespace), found[-1].key) if more else None)


async def portions(
    scan: Scan, request: ScanRequest, now: Callable[[], int]
) -> AsyncIterator[list[StoredItem]]:
    """Everything in the order of namespace and key. ``now`` is asked before each portion is read."""
    more = True
    while more:
        found, more = await _some(scan, replace(request, now_us=now()))
        yield found
        if more:
            request = replace(request, after=(found[-1].namespace, found[-1].key))


async def newest(scan: Scan, request: ScanRequest, after: str | None) -> Page[StoredItem]:
    """A page, newest first.

    Versions grow with every write: an item that is written while pages are read jumps above the ``top``, the
    newest version of the first page. So at the bottom the listing turns and rises from there.
    """
    if after is None:
        first, more = await _some(scan, request)
        return Page(first, _cursor(first[0].version, first[-1].version, rising=False) if more else None)
    top, position, rising = decode_numbers(after, "newest", 3)
    if rising not in (0, 1):
        raise InvalidInput(f"after must be the `next` of a page of the same listing (newest), got {after!r}")
    if not request.limit:
        return Page()
    found: list[StoredItem] = []
    if not rising:
        found, more = await _some(scan, replace(request, version=position))
        if more:
            return Page(found, _cursor(top, found[-1].version, rising=False))
        position = top
    room = request.limit - len(found)
    risen = await scan(replace(request, order="oldest", version=position, limit=room + 1))
    more, risen = len(risen) > room, risen[:room]
    if risen:
        position = risen[-1].version
    return Page(found + risen, _cursor(top, position, rising=True) if more else None)


async def ranked(
    candidates: Callable[[TextRequest], Awaitable[StoredCandidates]], request: TextRequest, after: str | None
) -> Page[SearchHit]:
    """A page of the ranking, best first. A page is cut from the ranking as it is when it is asked for."""
    start = 0 if after is None else decode_numbers(after, "ranked", 1)[0]
    if not request.limit or not request.terms:
        return Page()
    end = start + request.limit
    found = rank((await candidates(replace(request, limit=end + 1))).decode())
    hits = [SearchHit(candidate.item, score) for score, candidate in found[start:end]]
    return Page(hits, encode_cursor("ranked", end) if len(found) > end else None)


def _cursor(top: int, position: int, *, rising: bool) -> str:
    return encode_cursor("newest", top, position, int(rising))


async def _some(scan: Scan, request: ScanRequest) -> tuple[list[StoredItem], bool]:
    """At most ``limit`` items, and whether there are more."""
    if not request.limit:
        return [], False
    found = await scan(replace(request, limit=request.limit + 1))
    return found[: request.limit], len(found) > request.limit
