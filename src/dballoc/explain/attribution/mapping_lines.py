"""Lines of the ledger that are whole classes of mappings; InnoDB's log buffers by their size.
Pure.
"""

from collections.abc import Sequence
from dataclasses import replace

from dballoc.explain.attribution.ledger_line import Line, read_variable
from dballoc.explain.sources.server_memory import LOGS, POOL, ServerMemory
from dballoc.process_memory.mapping_kind import Kind
from dballoc.process_memory.process_snapshot import ProcessSnapshot
from dballoc.process_memory.smaps import Mapping

# Kinds whose lazily freed pages are taken off their line; in a heap that was walked, nothing tells
# which chunks those are.
_WITHOUT_LAZY = (Kind.POOL, Kind.MALLOC, Kind.STACK, Kind.OLD_STACK, Kind.DATA)
# MariaDB has two; they may lie side by side, as one mapping.
_MOST_LOG_BUFFERS = 2

# Of the configured pool, what its mappings have at least.
_MOST_OF = 0.9
# A mapping of a log buffer may be rounded up to so much more.
_ROUNDED = 64 << 10


def sum_lazy(snapshot: ProcessSnapshot) -> int:
    """Return the bytes that were freed with MADV_FREE and that the kernel has not taken yet."""
    return sum(map(_count_lazy, snapshot.mappings_of(*_WITHOUT_LAZY))) + sum(
        area.lazy for area in snapshot.server_mappings
    )


def make_kind_line(snapshot: ProcessSnapshot, kind: Kind, group: str, source: str) -> Line:
    """Return the one line of all mappings of a kind."""
    return _make_line(snapshot.mappings_of(kind), kind, group, source)


def drop_decoys_of_pool(snapshot: ProcessSnapshot, labels: ServerMemory | None) -> ProcessSnapshot:
    """Return the snapshot with only those mappings classed as pool and log buffers that can be
    these by their pages, or by their sizes against the configured ones. Other things are left out
    of core dumps, too: the buffers of an index build, a library's keys.
    """
    size = read_variable(labels, "innodb_buffer_pool_size")
    if not size or Kind.POOL not in snapshot.kinds:
        return snapshot
    mappings = snapshot.mappings_of(Kind.POOL)
    others = [m for m in mappings if not _count_log_buffers(m, labels)]
    pool = _choose_pool(others, labels, size) or _choose_pool(mappings, labels, size)
    logs = [m for m in mappings if m not in pool and _count_log_buffers(m, labels)]
    chosen = {m.start for m in (*pool, *(logs if _can_be_log_buffers(logs, labels) else []))}
    return replace(
        snapshot,
        kinds=[
            Kind.MALLOC if kind is Kind.POOL and m.start not in chosen else kind
            for m, kind in snapshot.mappings_with_kinds
        ],
    )


def _choose_pool(
    mappings: Sequence[Mapping], labels: ServerMemory | None, size: int
) -> list[Mapping]:
    """Return the mappings that are the pool of ``size`` bytes: those with its pages, and those as
    large as a chunk; none if these are too small together.
    """
    piece = read_variable(labels, "innodb_buffer_pool_chunk_size") or _MOST_OF * size
    pool = [m for m in mappings if m.innodb or m.size >= min(piece, _MOST_OF * size)]
    fits = any(m.innodb for m in pool) or sum(m.size for m in pool) >= _MOST_OF * size
    return pool if fits else []


def make_pool_lines(snapshot: ProcessSnapshot, labels: ServerMemory | None) -> list[Line]:
    """Return the lines of what :func:`drop_decoys_of_pool` has left: one, or the buffer pool and
    its log buffers where these have the size of innodb_log_buffer_size.
    """
    mappings = snapshot.mappings_of(Kind.POOL)
    source = (
        "InnoDB's pages lie in it"
        if any(m.innodb for m in mappings)
        else "left out of core dumps (VmFlags dd)"
    )
    logs = [m for m in mappings if _count_log_buffers(m, labels)]
    others = [m for m in mappings if not _count_log_buffers(m, labels)]
    size = read_variable(labels, "innodb_buffer_pool_size")
    has_pool = any(m.size >= size for m in others) or _choose_pool(others, labels, size)
    if not _can_be_log_buffers(logs, labels) or (
        not has_pool and any(m.size >= _MOST_OF * size for m in logs)
    ):
        return [_make_line(mappings, Kind.POOL, "server", source)] if mappings else []
    log_line = replace(
        _make_line(
            logs, Kind.POOL, "server", source if all(m.flags for m in logs) else "by its size"
        ),
        owner=LOGS,
        note="of the size of innodb_log_buffer_size",
        confidence="likely",
    )
    if not others:
        return [log_line]
    return [replace(_make_line(others, Kind.POOL, "server", source), owner=POOL), log_line]


def classify_log_buffers(snapshot: ProcessSnapshot, labels: ServerMemory | None) -> ProcessSnapshot:
    """Return the snapshot with MariaDB's log buffers classed with the pool, known by their size:
    without VmFlags nothing else distinguishes them from other mappings. Only where the pool was
    found by the pages in it.
    """
    # A heap among the server's mappings may have some as large as log buffers, as mimalloc's
    # segments are.
    mixed = snapshot.heap and not snapshot.heap.statistics.exact
    if not labels or not labels.mariadb or mixed:
        return snapshot
    server_areas = {(area.start, area.size) for area in snapshot.server_mappings}
    logs = [
        m
        for m, kind in snapshot.mappings_with_kinds
        if m.flags is None and not m.innodb and m.private and _count_log_buffers(m, labels)
        and (kind is Kind.MALLOC or (m.start, m.size) in server_areas)
    ]  # fmt: skip
    if not _can_be_log_buffers(logs, labels) or Kind.POOL not in snapshot.kinds:
        return snapshot
    starts = {m.start for m in logs}
    kinds = [Kind.POOL if m.start in starts else kind for m, kind in snapshot.mappings_with_kinds]
    areas = [area for area in snapshot.server_mappings if area.start not in starts]
    return replace(snapshot, kinds=kinds, server_mappings=areas)


def _count_log_buffers(mapping: Mapping, labels: ServerMemory | None) -> int:
    """Return how many log buffers the mapping has the size of; 0 if of none."""
    size = read_variable(labels, "innodb_log_buffer_size")
    numbers = range(1, _MOST_LOG_BUFFERS + 1) if size else ()
    return next((n for n in numbers if 0 <= mapping.size - n * size <= _ROUNDED), 0)


def _can_be_log_buffers(mappings: Sequence[Mapping], labels: ServerMemory | None) -> bool:
    """Whether the mappings are no more than all log buffers. If they are, some belong to another
    (an extent of jemalloc's may happen to have that size), and nothing tells which.
    """
    return 0 < sum(_count_log_buffers(m, labels) for m in mappings) <= _MOST_LOG_BUFFERS


def _make_line(mappings: Sequence[Mapping], kind: Kind, group: str, source: str) -> Line:
    lazy = sum(_count_lazy(m) for m in mappings) if kind in _WITHOUT_LAZY else 0
    return Line(
        group=group,
        owner=kind,
        resident=sum(m.rss for m in mappings) - lazy,
        size=sum(m.size for m in mappings),
        source=source,
        confidence="exact",
    )


def _count_lazy(mapping: Mapping) -> int:
    return min(mapping.lazy, mapping.rss)
