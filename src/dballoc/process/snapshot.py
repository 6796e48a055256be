"""A snapshot of a process's memory, read from outside: no SQL, no injection, no symbols."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dballoc.ground.errors import Failure
from dballoc.host.abandonable.look_limits import VARIABLE
from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import AT_PAGESZ, Process
from dballoc.host.process.read_rights import failing_for
from dballoc.host.resources.cgroup_tree import ControlGroups
from dballoc.process import bss, innodb_buffer_pool, mapping_kind, smaps
from dballoc.process import usage as process_usage
from dballoc.process.heaps import glibc_heap, mimalloc_heap
from dballoc.process.heaps.glibc_arenas import GlibcHeap
from dballoc.process.heaps.heap_walk import HeapWalk, LargeBlock
from dballoc.process.malloc import identify_malloc
from dballoc.process.malloc.identify_malloc import MallocInUse
from dballoc.process.mapping_kind import MappingKind
from dballoc.process.memory_reader import PAGE, Memory
from dballoc.process.read_limits import ReadBudget, Work
from dballoc.process.smaps import MemoryMapping
from dballoc.process.usage import ProcessUsage

# Libraries map small pieces of memory themselves, too; large ones are the server's caches.
_LARGE = 1 << 20

# MariaDB's executable; before 10.4 that was mysqld, whose pool may share a mapping with others.
_MARIADB = "mariadbd"


@dataclass(frozen=True)
class ServerMapping:
    """Memory that the server has mapped itself: not a malloc's, no stack, no file. In bytes;
    ``lazy``: the part of ``resident`` that was freed with MADV_FREE and not yet reclaimed.
    """

    start: int
    size: int
    resident: int
    lazy: int = 0


@dataclass(frozen=True, kw_only=True)
class ProcessSnapshot:
    """A snapshot of a process's memory.

    ``taken_at``: when, Unix time; ``heap``: malloc's heap, None under a malloc whose heap is
    not walked; ``server_mappings``: what the server has mapped itself, empty under another malloc
    than glibc's, from whose mappings it cannot be told; ``page_tables``, ``swap``: bytes;
    ``threads``: how many; ``seconds``: what taking the snapshot took; ``cgroups``: its own,
    None where they are not known; ``charged``: bytes that its cgroup is charged with, None if
    that is not known; ``given_back``: bytes that were lazily freed at some time, where it is
    not known how many of them are still there; ``usage``: its address space and CPU time;
    ``budget``: what was read, with notes on what was left out.
    """

    process: Process
    taken_at: float
    malloc: MallocInUse
    mappings: list[MemoryMapping]
    kinds: list[MappingKind]
    heap: HeapWalk | None
    server_mappings: list[ServerMapping]
    threads: int
    page_tables: int
    swap: int
    seconds: float
    cgroups: ControlGroups | None = None
    charged: int | None = None
    given_back: int = 0
    usage: ProcessUsage | None = None
    budget: ReadBudget = field(default_factory=ReadBudget, compare=False)

    @property
    def rss(self) -> int:
        """The resident bytes of all mappings."""
        return sum(m.rss for m in self.mappings)

    @property
    def mappings_with_kinds(self) -> Iterator[tuple[MemoryMapping, MappingKind]]:
        """Each mapping with its kind."""
        return mapping_kind.pair_with_kinds(self.mappings, self.kinds)

    def mappings_of(self, *kinds: MappingKind) -> list[MemoryMapping]:
        """Return the mappings of one kind, or of several."""
        return [mapping for mapping, kind in self.mappings_with_kinds if kind in kinds]


def take_process_snapshot(process: Process) -> ProcessSnapshot:
    """Take a snapshot of a live process, of as much as one snapshot may read
    (:mod:`dballoc.process.read_limits`). Raises Failure if it is gone or not ours.
    """
    began, budget = time.monotonic(), ReadBudget()
    with failing_for(process):
        malloc = identify_malloc.identify_malloc_in_use(process)
        _check_page_size(process)
        mappings = smaps.read_mappings(process, budget)
        if not mappings:
            raise Failure(_explain_no_mappings(process))
        mappings, kinds, heap, server_mappings = _read_heap(process, malloc, mappings, budget)
        status = smaps.read_status_sizes(process)
        if "VmRSS" not in status:
            raise Failure(f"{process} has ended")
        cgroups = ControlGroups(process)
        has_flags = any(m.flags for m in mappings)
        return ProcessSnapshot(
            process=process,
            taken_at=time.time(),
            malloc=malloc,
            mappings=mappings,
            kinds=kinds,
            heap=heap,
            server_mappings=server_mappings,
            threads=count_threads(process),
            page_tables=status.get("VmPTE", 0),
            swap=status.get("VmSwap", 0),
            seconds=time.monotonic() - began,
            cgroups=cgroups,
            charged=cgroups.read_memory_usage(),
            given_back=0 if has_flags else cgroups.read_lazily_freed_bytes(),
            usage=process_usage.read_usage(process, mappings),
            budget=budget,
        )


def _explain_no_mappings(process: Process) -> str:
    """Return why not one mapping of a process was read: it has ended, or the time was over."""
    if process.has_no_memory():
        return f"{process} has ended"
    return (
        f"{process}: the time for a look was over before its memory was read, as this machine is "
        f"busy; {VARIABLE}=60 gives a look more seconds"
    )


def parse_page_size(auxiliary: dict[int, int]) -> int | None:
    """Return the size of a process's pages by its auxiliary vector; None if that has none that is a
    power of two from 4 KiB to 64 KiB. Pure.

    All processes of a kernel have one size, 4 KiB on x86-64 and 4, 16 or 64 KiB on aarch64. What we
    are told of our own is the emulator's, where we ourselves run emulated.
    """
    size = auxiliary.get(AT_PAGESZ)
    return size if size in (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16) else None


def _check_page_size(process: Process) -> None:
    """Raises Failure if a process's pages are not of the size that we count in: we run emulated
    then. Raises OSError if the process is gone.
    """
    size = parse_page_size(process.read_auxiliary())
    if size not in (None, PAGE):
        raise Failure(
            f"{process}: its pages have {size} bytes, but dballoc sees pages of {PAGE}: it "
            "runs emulated; run it with a Python for this machine's architecture"
        )


def _read_heap(
    process: Process, malloc: MallocInUse, mappings: list[MemoryMapping], budget: ReadBudget
) -> tuple[list[MemoryMapping], list[MappingKind], HeapWalk | None, list[ServerMapping]]:
    """Read the heap of a process and what its mappings are for: the fields of
    :class:`ProcessSnapshot`.
    """
    pointers = read_stack_pointers(process, budget)
    heap: HeapWalk | None = None
    heap_starts: set[int] = set()
    server_mappings: list[ServerMapping] = []
    own_malloc = malloc.name != "glibc"
    with Memory(process, budget) as memory:
        mappings = _split_merged_mappings(memory, process, malloc, mappings)
        if malloc.name == "glibc":
            mappings = glibc_heap.split_off_heaps(memory, mappings)
            glibc, server_mappings = _walk_glibc_heap(memory, mappings, malloc.library, pointers)
            if not glibc.arenas:
                # As with an unknown malloc: nothing tells its mappings from the server's.
                glibc, server_mappings, own_malloc = GlibcHeap([], {}, glibc.trouble), [], True
            heap_starts = {m.start for a in glibc.arenas for m in a.heaps} | set(glibc.mapped)
            heap = glibc
        kinds = mapping_kind.classify_mappings(mappings, pointers, heap_starts, own_malloc)
        if malloc.name == "mimalloc":
            pairs = mapping_kind.pair_with_kinds(mappings, kinds)
            heap = mimalloc_heap.walk_heap(
                memory, [mapping for mapping, kind in pairs if kind is MappingKind.MALLOC]
            )
    return mappings, kinds, heap, server_mappings


def _split_merged_mappings(
    memory: Memory, process: Process, malloc: MallocInUse, mappings: list[MemoryMapping]
) -> list[MemoryMapping]:
    """Return the mappings, with the buffer pool and .bss apart from what they were merged with."""
    mappings = innodb_buffer_pool.split_off_buffer_pool(
        mappings,
        lambda address: memory.read_page_start(address, innodb_buffer_pool.HEADER_BYTES),
        memory.count_pages,
        alone=Path(malloc.executable).name == _MARIADB,
    )
    return bss.split_off_bss(
        mappings,
        lambda path: _read_elf_header(process, path),
        lambda start, end: memory.span(start, end).resident,
    )


def _read_elf_header(process: Process, path: str) -> bytes:
    return open_in_process_root.read_beginning(
        process.root, process.strip_root(path), bss.HEADER_BYTES
    )


def _walk_glibc_heap(
    memory: Memory, mappings: list[MemoryMapping], library: str, pointers: list[int]
) -> tuple[GlibcHeap, list[ServerMapping]]:
    """Walk glibc's heap; and what the server has mapped itself, as far as it is large."""
    kinds = mapping_kind.classify_mappings(mappings, pointers, (), own_malloc=False)
    others = {
        mapping.start
        for mapping, kind in mapping_kind.pair_with_kinds(mappings, kinds)
        if kind is not MappingKind.REST
    }
    heap = glibc_heap.walk_heap(memory, mappings, library, others)
    arena_starts = {m.start for arena in heap.arenas for m in arena.heaps}
    candidates = [
        m
        for m in mappings
        if m.private and m.rss and m.start not in others and m.start not in arena_starts
    ]
    return heap, [
        part
        for mapping in candidates
        for part in _find_server_parts(memory, mapping, heap.mapped.get(mapping.start, []))
    ]


def _find_server_parts(
    memory: Memory, mapping: MemoryMapping, blocks: list[LargeBlock]
) -> list[ServerMapping]:
    """Return the large parts of a mapping that are not malloc's blocks."""
    edges = [
        mapping.start,
        *(edge for b in blocks for edge in (b.address, b.address + b.size)),
        mapping.end,
    ]
    gaps = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= _LARGE]
    span = memory.span(mapping.start, mapping.end)
    parts = [
        ServerMapping(start, end - start, span.count_resident(start, end)) for start, end in gaps
    ]
    if len(parts) != 1:
        return parts
    # smaps has the lazily freed bytes of a whole mapping only.
    return [replace(part, lazy=min(part.resident, mapping.lazy)) for part in parts]


def read_stack_pointers(process: Process, budget: ReadBudget) -> list[int]:
    """Read the stack pointers of the threads that wait, of as many as one snapshot may read. A
    running thread shows none (proc_pid_syscall(5)). Raises OSError if the process is gone or not
    ours.
    """
    pointers = []
    for task in process.list_threads():
        if budget.out_of_time or not budget.spend(Work.THREADS):
            break
        try:
            words = process.read_text(f"task/{task}/syscall").split()
        except OSError:
            continue
        if len(words) >= 3:
            pointers.append(int(words[-2], 16))
    return pointers


def count_threads(process: Process) -> int:
    """Return how many threads a process has. Raises OSError if it is gone."""
    return len(process.list_threads())
