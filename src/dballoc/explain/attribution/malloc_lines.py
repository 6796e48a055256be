"""Lines of the ledger for malloc's memory: glibc's heap as it was walked, another malloc by its own
statistics or by a heap probe. Pure.
"""

from collections.abc import Sequence
from dataclasses import replace

from dballoc.explain.attribution.ledger_line import (
    HEADERS,
    LIVE,
    MAPPED,
    UNACCOUNTED,
    Line,
    subtract,
    sum_sizes,
)
from dballoc.process_memory.heaps import allocator_statistics
from dballoc.process_memory.heaps.allocator_statistics import LIVE_ALL, AllocatorStatistics
from dballoc.process_memory.heaps.glibc_heap import ArenaUsage, Block, GlibcHeap
from dballoc.process_memory.heaps.heap_probe_estimate import ProbeEstimate
from dballoc.process_memory.process_snapshot import ProcessSnapshot

_GLIBC = "glibc's books"
# By which share an allocator may contradict the walk of its heap before a note says so.
_TOLERANCE = 0.01

# glibc's header of a small block that malloc has given out: the word with its size (malloc.c,
# "chunk").
_HEADER = 8


def make_glibc_lines(heap: GlibcHeap) -> list[Line]:
    """Return the lines of glibc's arenas and of the blocks that it has mapped by themselves."""
    blocks = list_mapped_blocks(heap)
    mapped_resident, mapped_size = sum_sizes(blocks)
    chunks = sum(arena.live_chunks for arena in heap.arenas)
    headers = min(_HEADER * chunks, sum(arena.live_resident for arena in heap.arenas))
    live = _sum_arenas(
        heap, LIVE, "live_resident", "live", f"{len(heap.arenas)} arenas, {chunks} chunks"
    )
    return [
        subtract(live, headers, headers),
        Line(
            group="heap",
            owner=HEADERS,
            resident=headers,
            size=headers,
            source=_GLIBC,
            confidence="exact",
            note=f"{_HEADER} bytes of each chunk",
        ),
        Line(
            group="heap",
            owner=MAPPED,
            resident=mapped_resident,
            size=mapped_size,
            source=_GLIBC,
            confidence="exact",
            note=f"{len(blocks)} blocks",
        ),
        _sum_arenas(heap, "threads' caches (tcache)", "tcache", "tcache"),
        _sum_arenas(heap, "fast bins", "fast", "fast"),
        _sum_arenas(heap, "free but held", "free_resident", "free", _describe_worst(heap.arenas)),
        _sum_arenas(heap, "malloc's own", "metadata_resident", "metadata"),
        _sum_arenas(heap, "in the heap, and not malloc's", "unread", "unread"),
    ]


def _sum_arenas(heap: GlibcHeap, owner: str, resident: str, size: str, note: str = "") -> Line:
    """Sum a kind of memory over all arenas; ``resident`` and ``size`` are fields of ArenaUsage."""
    return Line(
        group="heap",
        owner=owner,
        resident=sum(getattr(arena, resident) for arena in heap.arenas),
        size=sum(getattr(arena, size) for arena in heap.arenas),
        source=_GLIBC,
        confidence="exact",
        note=note,
    )


def _describe_worst(arenas: Sequence[ArenaUsage]) -> str:
    worst = max((arena.free_resident for arena in arenas), default=0)
    return f"most of one arena: {worst / 2**20:.1f} MiB"


def list_mapped_blocks(heap: GlibcHeap) -> list[Block]:
    """Return the blocks that glibc has mapped by themselves."""
    return [block for blocks in heap.mapped.values() for block in blocks]


def split_malloc_line(
    malloc_line: Line,
    snapshot: ProcessSnapshot,
    statistics: AllocatorStatistics | None,
    sampled: ProbeEstimate | None,
) -> list[Line]:
    """Return the lines of another malloc than glibc's: by its own statistics where they are known,
    with a line for what they leave out; else by what a probe sampled as live, with a line for the
    rest.
    """
    if snapshot.heap:
        return [malloc_line]
    if statistics is None or not statistics.holdings:
        return _split_by_sample(malloc_line, sampled) if sampled else [malloc_line]
    lines = [
        Line(
            group="heap",
            owner=holding.owner,
            resident=resident,
            size=holding.bytes,
            source=statistics.source,
            confidence="labelled",
            note=holding.note,
        )
        for holding, resident in allocator_statistics.apportion_resident(
            statistics, malloc_line.resident
        )
    ]
    rest = malloc_line.resident - sum(line.resident for line in lines)
    size = malloc_line.size - sum(line.size for line in lines) - statistics.returned
    return [*lines, replace(malloc_line, owner=UNACCOUNTED, resident=rest, size=max(rest, size))]


def _split_by_sample(malloc_line: Line, sampled: ProbeEstimate) -> list[Line]:
    """Return what is live of a malloc's memory, and the rest."""
    live = min(sampled.live, malloc_line.resident)
    return [
        Line(
            group="heap",
            owner=LIVE_ALL,
            resident=live,
            size=live,
            source=sampled.source,
            confidence="sampled",
        ),
        replace(
            subtract(malloc_line, live, min(live, malloc_line.size)),
            owner=allocator_statistics.HELD,
            confidence="sampled",
            note="what malloc holds beyond live blocks: caches, fragments, free pages",
        ),
    ]


def add_functions(lines: list[Line], sampled: ProbeEstimate) -> list[Line]:
    """Return the lines; the largest one of live heap without an owner has as its parts the
    functions whose allocations no instrument counts.
    """
    live_lines = [line for line in lines if line.owner in (LIVE, LIVE_ALL)]
    if not live_lines:
        return lines
    largest = max(live_lines, key=lambda line: line.resident)
    origin = "" if sampled.source in largest.source else f"functions by {sampled.source}"
    with_parts = replace(
        largest, parts=sampled.parts, note="; ".join(filter(None, [largest.note, origin]))
    )
    return [with_parts if line is largest else line for line in lines]


def list_statistics_notes(
    malloc_resident: int, snapshot: ProcessSnapshot, statistics: AllocatorStatistics | None
) -> list[str]:
    """Return the notes on a malloc's own statistics: its own, and where they contradict the pages
    or the walk of its heap. ``malloc_resident``: resident bytes that are malloc's.
    """
    if statistics is None:
        return []
    notes = list(statistics.notes)
    if statistics.returned:
        notes.append(
            f"{statistics.allocator} keeps {statistics.returned / 2**20:,.1f} MiB of address space "
            "without memory behind it"
        )
    accounted = sum(holding.bytes for holding in statistics.holdings)
    if snapshot.heap and statistics.live is not None:
        walked = _sum_live(snapshot.heap)
        if abs(statistics.live - walked) > _TOLERANCE * walked:
            notes.append(
                f"{statistics.allocator} itself says that {statistics.live / 2**20:,.1f} MiB are "
                "in use, threads' caches included;"
                f" the walk of its heap found {walked / 2**20:,.1f} MiB"
            )
    elif accounted > malloc_resident:
        notes.append(
            f"{(accounted - malloc_resident) / 2**20:,.1f} MiB of what {statistics.allocator} "
            "accounts for are not in memory: never touched"
        )
    return notes


def _sum_live(heap: GlibcHeap) -> int:
    """Return the bytes in use by the walk, threads' caches included."""
    in_arenas = sum(arena.live + arena.tcache for arena in heap.arenas)
    return in_arenas + sum_sizes(list_mapped_blocks(heap))[1]
