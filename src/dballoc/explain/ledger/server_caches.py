"""Lines of the ledger for the caches that the server maps itself, told apart by their size or by
what the server says they have filled. Pure.
"""

from collections.abc import Mapping, Sequence

from dballoc.evidence.sql.server_memory import ARIA, POOL, OwnerMemory, ServerMemory
from dballoc.explain.ledger.ledger_line import (
    UNNAMED,
    Confidence,
    LedgerLine,
    read_variable,
    subtract,
)
from dballoc.process.mapping_kind import MappingKind
from dballoc.process.snapshot import ProcessSnapshot, ServerMapping

_CHUNK = "innodb_buffer_pool_chunk_size"

# Behind a cache's name: what MariaDB has of it beside its pages.
LINKS = ", links and hash"

# Of what a cache's variable asks for, the share that it maps in one piece: the rest are its hash
# and its links. The smaller the blocks, the more of these: 1 KiB of the key cache, 8 KiB of Aria's.
_SHARES = {POOL: 1.0, ARIA: 0.955}
_SHARE_OF_KEYS = 0.82
# By which share of what was asked for a mapping's size may be off.
_TOLERANCE = 0.1


def make_server_area_lines(
    snapshot: ProcessSnapshot, labels: ServerMemory | None, has_pool: bool
) -> list[LedgerLine]:
    """Return the lines of what the server has mapped itself: each cache that is known by its size,
    and all others as one. ``has_pool``: the pool has a line already.
    """
    sizes = labels.mapped_caches if labels else {}
    filled = labels.filled if labels else {}
    # Of two caches of one size, the one that is filled has the pages.
    caches = {
        owner: (sizes[owner], filled.get(owner, 0))
        for owner in sorted(sizes, key=lambda owner: -filled.get(owner, 0))
        if not (has_pool and owner == POOL)
    }
    return _match_caches(snapshot.server_mappings, caches, read_variable(labels, _CHUNK))


def _match_caches(
    areas: Sequence[ServerMapping], caches: Mapping[str, tuple[int, int]], chunk: int
) -> list[LedgerLine]:
    """Return a line for each cache with the area of its size, and one for the rest. ``caches``:
    (configured, filled) bytes; ``chunk``: bytes of one chunk of the buffer pool, 0 if unknown.
    """
    rest, lines = sorted(areas, key=lambda area: -area.size), []
    for owner, sizes in caches.items():
        matching = _find_areas_of_cache(rest, owner, sizes, chunk)
        if matching:
            starts = {area.start for area in matching}
            rest = [area for area in rest if area.start not in starts]
            lines.append(_make_line(matching, owner, "mapped, and of its size", "likely"))
    if rest:
        note = f"{len(rest)} of 1 MiB or more"
        lines.append(_make_line(rest, UNNAMED, "no malloc's", "exact", note))
    return lines


def _make_line(
    areas: Sequence[ServerMapping], owner: str, source: str, confidence: Confidence, note: str = ""
) -> LedgerLine:
    return LedgerLine(
        group="server",
        owner=owner,
        resident=sum(area.resident - area.lazy for area in areas),
        size=sum(area.size for area in areas),
        source=source,
        confidence=confidence,
        note=note,
    )


def _find_areas_of_cache(
    areas: Sequence[ServerMapping], owner: str, sizes: tuple[int, int], chunk: int
) -> list[ServerMapping]:
    """Return the area whose size is nearest to what the cache maps, rather one that has all of what
    is filled; a pool may lie in pieces of one or more chunks. Empty if no size fits. ``sizes``:
    (configured, filled) bytes.
    """
    configured, filled = sizes
    wanted = configured * _SHARES.get(owner, _SHARE_OF_KEYS)
    tolerance = _TOLERANCE * configured
    near = [area for area in areas if abs(area.size - wanted) <= tolerance]
    if near:
        least = (1 - _TOLERANCE) * filled
        return [min(near, key=lambda area: (area.resident < least, abs(area.size - wanted)))]
    if owner != POOL or not chunk:
        return []
    pieces = [a for a in areas if a.size >= chunk and a.size % chunk <= _TOLERANCE * a.size]
    if not pieces or abs(sum(area.size for area in pieces) - wanted) > tolerance:
        return []
    return pieces


def claim_filled_caches(
    lines: list[LedgerLine], labels: ServerMemory, pool_pages: int
) -> list[LedgerLine]:
    """Return the lines with one more for each cache that no size has identified: the bytes that the
    server says it has filled, taken from memory without an owner.

    ``pool_pages``: bytes of the buffer pool that are known by the pages in them; its descriptors
    are not among these.
    """
    owners = {line.owner for line in lines if line.resident} | {x.owner for x in labels.heap}
    if MappingKind.POOL in owners and not pool_pages:
        owners.add(POOL)
    donors = {line.owner: line for line in lines if line.owner in (UNNAMED, MappingKind.MALLOC)}
    claimed = []
    for owner, filled in labels.filled.items():
        counted = pool_pages if owner == POOL else 0
        for name, donor in donors.items():
            # Of a pool that is counted in part, the remainder as far as there is memory for it: the
            # server goes on while it is read.
            missing = min(filled - counted, donor.resident) if counted else filled
            if owner not in owners and 0 < missing <= donor.resident:
                donors[name] = subtract(donor, missing, min(missing, donor.size))
                claimed.append(
                    LedgerLine(
                        group="server",
                        owner=owner,
                        resident=missing,
                        size=missing if counted else labels.mapped_caches.get(owner, filled),
                        source="status: what it has filled",
                        confidence="labelled",
                    )
                )
                owners.add(owner)
    return [*claimed, *(donors.get(line.owner, line) for line in lines)]


def add_cache_links(labels: ServerMemory, blocks_known: bool) -> list[OwnerMemory]:
    """Return the labels of the heap, with what MariaDB's caches have beside the pages that they
    map: links and hash, which are all resident from the start, whatever the cache holds.
    ``blocks_known``: malloc's blocks are known, so that there must be one of that size.
    """
    links = [
        OwnerMemory(
            owner=f"{owner}{LINKS}",
            bytes=int(configured * (1 - _SHARES.get(owner, _SHARE_OF_KEYS))),
            source="by its size",
            single_block=blocks_known,
            near=_TOLERANCE,
            zeroed=True,
        )
        for owner, configured in labels.mapped_caches.items()
        if owner != POOL and labels.mariadb
    ]
    return [*labels.heap, *links]
