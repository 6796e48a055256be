"""Lines of the ledger that are whole classes of mappings; InnoDB's log buffers by their size.
Pure.

A large mapped file has a line by its name, with what it is for and whether the kernel can take its
pages back; what files are: mapped_files.toml.
"""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from posixpath import basename
from typing import Any

from dballoc.evidence.sql.server_memory import LOGS, POOL, ServerMemory
from dballoc.explain.ledger.ledger_line import LedgerLine, read_variable
from dballoc.ground import readers
from dballoc.ground.numbers import with_unit
from dballoc.process.mapping_kind import MappingKind
from dballoc.process.smaps import MemoryMapping
from dballoc.process.snapshot import ProcessSnapshot

# Kinds whose lazily freed pages are taken off their line; in a heap that was walked, nothing tells
# which chunks those are.
_WITHOUT_LAZY = (
    MappingKind.POOL,
    MappingKind.MALLOC,
    MappingKind.STACK,
    MappingKind.OLD_STACK,
    MappingKind.DATA,
)
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


def make_kind_line(
    snapshot: ProcessSnapshot, kind: MappingKind, group: str, source: str
) -> LedgerLine:
    """Return the one line of all mappings of a kind."""
    return _make_line(snapshot.mappings_of(kind), kind, group, source)


def drop_decoys_of_pool(snapshot: ProcessSnapshot, labels: ServerMemory | None) -> ProcessSnapshot:
    """Return the snapshot with only those mappings classed as pool and log buffers that can be
    these by their pages, or by their sizes against the configured ones. Other things are left out
    of core dumps, too: the buffers of an index build, a library's keys.
    """
    size = read_variable(labels, "innodb_buffer_pool_size")
    if not size or MappingKind.POOL not in snapshot.kinds:
        return snapshot
    mappings = snapshot.mappings_of(MappingKind.POOL)
    others = [m for m in mappings if not _count_log_buffers(m, labels)]
    pool = _choose_pool(others, labels, size) or _choose_pool(mappings, labels, size)
    logs = [m for m in mappings if m not in pool and _count_log_buffers(m, labels)]
    chosen = {m.start for m in (*pool, *(logs if _can_be_log_buffers(logs, labels) else []))}
    return replace(
        snapshot,
        kinds=[
            MappingKind.MALLOC if kind is MappingKind.POOL and m.start not in chosen else kind
            for m, kind in snapshot.mappings_with_kinds
        ],
    )


def _choose_pool(
    mappings: Sequence[MemoryMapping], labels: ServerMemory | None, size: int
) -> list[MemoryMapping]:
    """Return the mappings that are the pool of ``size`` bytes: those with its pages, and those as
    large as a chunk; none if these are too small together.
    """
    piece = read_variable(labels, "innodb_buffer_pool_chunk_size") or _MOST_OF * size
    pool = [m for m in mappings if m.innodb or m.size >= min(piece, _MOST_OF * size)]
    fits = any(m.innodb for m in pool) or sum(m.size for m in pool) >= _MOST_OF * size
    return pool if fits else []


def make_pool_lines(snapshot: ProcessSnapshot, labels: ServerMemory | None) -> list[LedgerLine]:
    """Return the lines of what :func:`drop_decoys_of_pool` has left: one, or the buffer pool and
    its log buffers where these have the size of innodb_log_buffer_size.
    """
    mappings = snapshot.mappings_of(MappingKind.POOL)
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
        return [_make_line(mappings, MappingKind.POOL, "server", source)] if mappings else []
    log_line = replace(
        _make_line(
            logs,
            MappingKind.POOL,
            "server",
            source if all(m.flags for m in logs) else "by its size",
        ),
        owner=LOGS,
        note="of the size of innodb_log_buffer_size",
        confidence="likely",
    )
    if not others:
        return [log_line]
    return [replace(_make_line(others, MappingKind.POOL, "server", source), owner=POOL), log_line]


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
        and (kind is MappingKind.MALLOC or (m.start, m.size) in server_areas)
    ]  # fmt: skip
    if not _can_be_log_buffers(logs, labels) or MappingKind.POOL not in snapshot.kinds:
        return snapshot
    starts = {m.start for m in logs}
    kinds = [
        MappingKind.POOL if m.start in starts else kind for m, kind in snapshot.mappings_with_kinds
    ]
    areas = [area for area in snapshot.server_mappings if area.start not in starts]
    return replace(snapshot, kinds=kinds, server_mappings=areas)


def _count_log_buffers(mapping: MemoryMapping, labels: ServerMemory | None) -> int:
    """Return how many log buffers the mapping has the size of; 0 if of none."""
    size = read_variable(labels, "innodb_log_buffer_size")
    numbers = range(1, _MOST_LOG_BUFFERS + 1) if size else ()
    return next((n for n in numbers if 0 <= mapping.size - n * size <= _ROUNDED), 0)


def _can_be_log_buffers(mappings: Sequence[MemoryMapping], labels: ServerMemory | None) -> bool:
    """Whether the mappings are no more than all log buffers. If they are, some belong to another
    (an extent of jemalloc's may happen to have that size), and nothing tells which.
    """
    return 0 < sum(_count_log_buffers(m, labels) for m in mappings) <= _MOST_LOG_BUFFERS


def _make_line(
    mappings: Sequence[MemoryMapping], owner: str, group: str, source: str, note: str = ""
) -> LedgerLine:
    lazy = sum(_count_lazy(m) for m in mappings) if owner in _WITHOUT_LAZY else 0
    return LedgerLine(
        group=group,
        owner=owner,
        resident=sum(m.rss for m in mappings) - lazy,
        size=sum(m.size for m in mappings),
        source=source,
        confidence="exact",
        note=note,
    )


def _count_lazy(mapping: MemoryMapping) -> int:
    return min(mapping.lazy, mapping.rss)


# A file with fewer resident bytes is one of the rest; a process may map any number of files.
_LARGE, _MOST_FILES = 4 << 20, 10
# Before a file's name: it may be that of any other owner.
_FILE, _DELETED = "mapped file", " (deleted)"
# File systems whose files are memory themselves.
_IN_MEMORY = ("/dev/shm/", "/run/")  # noqa: S108


def make_file_lines(
    mappings: Sequence[MemoryMapping], catalogue: dict[str, Any]
) -> list[LedgerLine]:
    """Return a line for each large mapped file, and one for all others. ``catalogue``:
    :func:`dballoc.catalogue.mapped_files`.
    """
    by_path: dict[str, list[MemoryMapping]] = {}
    for mapping in mappings:
        by_path.setdefault(mapping.path, []).append(mapping)
    ranked = sorted(by_path.items(), key=lambda item: -sum(m.rss for m in item[1]))
    large = [(p, ms) for p, ms in ranked[:_MOST_FILES] if sum(m.rss for m in ms) >= _LARGE]
    named = {path for path, _ in large}
    others = [m for m in mappings if m.path not in named]
    return [
        *(_make_file_line(path, each, catalogue) for path, each in large),
        _make_line(others, MappingKind.FILE, "files", "mapped"),
    ]


def _make_file_line(
    path: str, mappings: Sequence[MemoryMapping], catalogue: dict[str, Any]
) -> LedgerLine:
    owner = f"{_FILE} {readers.one_line(basename(path.removesuffix(_DELETED)))}"
    notes = filter(None, [describe_file(path, catalogue), describe_reclaim(mappings)])
    source = f"{_FILE} {readers.one_line(path)}"
    return _make_line(mappings, owner, "files", source, "; ".join(notes))


def describe_file(path: str, catalogue: dict[str, Any]) -> str:
    """Return what a file is for and which setting bounds it; empty where that is not known."""
    name = basename(path.removesuffix(_DELETED))
    for pattern, entry in catalogue.items():
        if fnmatchcase(name, pattern):
            return f"{entry['of']}: {entry['setting']}"
    return ""


def describe_reclaim(mappings: Sequence[MemoryMapping]) -> str:
    """Return whether the kernel can take the resident pages of a file's mappings back."""
    if mappings[0].path.startswith(_IN_MEMORY):
        return "a file in memory: the kernel can only swap it out"
    if any("lo" in (m.flags or ()) for m in mappings):
        return "locked in memory: the kernel cannot take it back"
    resident = sum(m.rss for m in mappings)
    if any(m.flags is None for m in mappings):
        writable = any(m.permissions[1] == "w" and m.permissions[3] == "p" for m in mappings)
        return (
            "how much of it are private copies is not known without smaps"
            if writable
            else "file-backed: the kernel can take it back, after writing what has changed"
        )
    copies = min(resident, sum(m.anonymous for m in mappings))
    dirty = min(resident, sum(m.dirty for m in mappings)) - copies
    parts = [
        (resident - copies - max(0, dirty), "taken back at once"),
        (dirty, "written to the file first"),
        (copies, "private copies that can only be swapped out"),
    ]
    sizes = [f"{with_unit(size)} {words}" for size, words in parts if size > 0]
    return f"file-backed, by the kernel: {', '.join(sizes)}"
