"""The ledger: every resident byte on one line, and what no line claims. Pure."""

from dataclasses import dataclass, field

from dballoc import catalogue
from dballoc.evidence.sql.server_memory import POOL, ServerMemory
from dballoc.explain.ledger.label_blocks import SplitHeap, split_live_heap
from dballoc.explain.ledger.ledger_line import LAZY, NEAR_BYTES, UNOWNED, LedgerLine
from dballoc.explain.ledger.malloc_lines import (
    add_functions,
    choose_statistics,
    list_statistics_notes,
    make_malloc_lines,
)
from dballoc.explain.ledger.mapping_lines import (
    classify_log_buffers,
    drop_decoys_of_pool,
    make_file_lines,
    make_kind_line,
    make_pool_lines,
    sum_lazy,
)
from dballoc.explain.ledger.server_caches import (
    add_cache_links,
    claim_filled_caches,
    make_server_area_lines,
)
from dballoc.process.heaps.allocator_statistics import AllocatorStatistics
from dballoc.process.heaps.heap_probe_estimate import ProbeEstimate
from dballoc.process.heaps.heap_walk import HeapWalk
from dballoc.process.mapping_kind import MappingKind
from dballoc.process.snapshot import ProcessSnapshot

# What is no part of RSS: pages of hugetlbfs.
HUGETLB = "hugetlb"


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Lines that add up to ``rss`` with ``rest``, pages that no class claims. ``unowned``: memory
    that no owner claims, unlabelled live heap included: so much at least, and ``unowned_most`` at
    most, where owners may have touched less than they asked for. ``beside``: what RSS does not
    count; ``within``: what it does, on any line. All in bytes.
    """

    pid: int
    executable: str
    malloc: str
    rss: int
    lines: list[LedgerLine]
    rest: int
    unowned: int
    beside: dict[str, int]
    tiers: list[str]
    notes: list[str] = field(default_factory=list)
    within: dict[str, int] = field(default_factory=dict)
    unowned_most: int | None = None

    @property
    def unowned_bounds(self) -> tuple[int, int]:
        """What no owner claims at least and at most; the same where these are near each other."""
        most = self.unowned if self.unowned_most is None else self.unowned_most
        return self.unowned, most if most - self.unowned >= NEAR_BYTES else self.unowned

    def sum_resident(self, *owners: str) -> int:
        """Return the resident bytes of owners of these names."""
        return sum(line.resident for line in self.lines if line.owner in owners)

    def sum_by_line(self) -> dict[tuple[str, str], int]:
        """Return the resident bytes by group and owner; lines of the same name are one."""
        sizes: dict[tuple[str, str], int] = {}
        for line in self.lines:
            key = line.group, str(line.owner)
            sizes[key] = sizes.get(key, 0) + line.resident
        return sizes

    def sum_by_owner(self, group: str | None = None) -> dict[str, int]:
        """Return the resident bytes by owner, of one group or of all."""
        sizes: dict[str, int] = {}
        for (of, owner), size in self.sum_by_line().items():
            if group in (None, of):
                sizes[owner] = sizes.get(owner, 0) + size
        return sizes

    @property
    def hugetlb(self) -> int:
        """Bytes in pages of hugetlbfs."""
        return self.beside.get(HUGETLB, 0)


def build_ledger(
    snapshot: ProcessSnapshot,
    labels: ServerMemory | None = None,
    reported: AllocatorStatistics | None = None,
    sampled: ProbeEstimate | None = None,
) -> Ledger:
    """Build the ledger from a snapshot from outside, the server's own labels, the statistics that
    its malloc ``reported`` by the loadable function, and what a heap probe in it knows.
    """
    snapshot = classify_log_buffers(drop_decoys_of_pool(snapshot, labels), labels)
    heap = snapshot.heap
    account = choose_statistics(heap, reported)
    malloc_line, server_lines = _claim_server_memory(snapshot, labels)
    lines = [
        *server_lines,
        *make_malloc_lines(malloc_line, account, sampled),
        *_make_other_lines(snapshot),
    ]
    split = _split_by_labels(lines, labels, heap)
    lines = add_functions(split.lines, sampled) if sampled else split.lines
    lines = [line for line in lines if line.resident]
    rest = snapshot.rss - sum(line.resident for line in lines)
    unowned = rest + sum(line.resident for line in lines if line.owner in UNOWNED)
    return Ledger(
        pid=snapshot.process.pid,
        executable=snapshot.malloc.executable,
        malloc=f"{snapshot.malloc.title} {snapshot.malloc.version}".strip(),
        rss=snapshot.rss,
        lines=lines,
        rest=rest,
        unowned=unowned,
        unowned_most=unowned + split.more_unowned,
        beside={
            "swap": snapshot.swap,
            "page tables": snapshot.page_tables,
            HUGETLB: sum(m.hugetlb for m in snapshot.mappings),
            "charged to its cgroup, page cache included": snapshot.charged or 0,
        },
        tiers=[
            "outside",
            *(["SQL"] if labels else []),
            *(["function"] if reported else []),
            *(["probe"] if sampled else []),
        ],
        notes=[
            *snapshot.budget.notes,
            *(heap.statistics.notes if heap else []),
            *_list_lazy_notes(snapshot),
            *(labels.notes if labels else []),
            *list_statistics_notes(malloc_line.resident, account, reported),
        ],
        within={"huge pages (THP)": sum(m.huge for m in snapshot.mappings)},
    )


def _split_by_labels(
    lines: list[LedgerLine], labels: ServerMemory | None, heap: HeapWalk | None
) -> SplitHeap:
    if labels is None:
        return SplitHeap(lines=lines, more_unowned=0)
    return split_live_heap(
        lines,
        add_cache_links(labels, blocks_known=bool(heap and heap.statistics.live)),
        labels.tables,
        heap.blocks if heap else [],
    )


def _claim_server_memory(
    snapshot: ProcessSnapshot, labels: ServerMemory | None
) -> tuple[LedgerLine, list[LedgerLine]]:
    """Return malloc's line, and the lines of memory that the server maps itself. Caches that are
    known by how far they are filled are not malloc's blocks, so they are taken off malloc's line
    before its own statistics divide it.
    """
    source = f"what no other class claims; malloc is {snapshot.malloc.title}"
    pool_lines = make_pool_lines(snapshot, labels)
    has_pool = any(line.owner in (POOL, MappingKind.POOL) for line in pool_lines)
    lines = [
        *pool_lines,
        *make_server_area_lines(snapshot, labels, has_pool),
        make_kind_line(snapshot, MappingKind.MALLOC, "heap", source),
    ]
    if labels:
        pool_pages = sum(m.rss for m in snapshot.mappings if m.innodb)
        lines = claim_filled_caches(lines, labels, pool_pages)
    return lines[-1], lines[:-1]


def _make_other_lines(snapshot: ProcessSnapshot) -> list[LedgerLine]:
    """Return the lines of stacks, files and lazily freed pages."""
    stacks = f"stack pointers of {snapshot.threads} threads"
    lazy = sum_lazy(snapshot)
    return [
        make_kind_line(snapshot, MappingKind.STACK, "threads", stacks),
        make_kind_line(
            snapshot, MappingKind.OLD_STACK, "threads", "behind a guard, and no thread is in it"
        ),
        make_kind_line(snapshot, MappingKind.CODE, "files", "mapped, executable in part"),
        make_kind_line(
            snapshot, MappingKind.DATA, "files", "their writable pages, and what follows them"
        ),
        *make_file_lines(snapshot.mappings_of(MappingKind.FILE), catalogue.mapped_files()),
        make_kind_line(snapshot, MappingKind.KERNEL, "files", "io_uring, vdso, shared memory"),
        LedgerLine(
            group="heap",
            owner=LAZY,
            resident=lazy,
            size=lazy,
            source="smaps: LazyFree",
            confidence="exact",
            note="given back with MADV_FREE; the kernel may take it",
        ),
    ]


def _list_lazy_notes(snapshot: ProcessSnapshot) -> list[str]:
    """Return what a snapshot without smaps leaves open."""
    if not snapshot.given_back:
        return []
    return [
        f"{snapshot.given_back / 2**20:,.1f} MiB were lazily freed (MADV_FREE) in its cgroup so "
        "far; part of that may still be in memory and counted on its owners' lines: only smaps "
        "shows how much, and reading smaps would stall a server of this size for too long"
    ]
