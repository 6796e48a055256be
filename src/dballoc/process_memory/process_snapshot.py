"""What can be known of a process's memory from outside: no SQL, no injection, no symbols."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from dballoc.errors import Failure
from dballoc.host import process_root, target_files
from dballoc.host.resources import process_limits
from dballoc.process_memory import (
    address_space,
    bss,
    identify_malloc,
    innodb_buffer_pool,
    malloc_bindings,
    mapping_kind,
    thread_stacks,
)
from dballoc.process_memory.heaps import glibc_heap, mimalloc_heap
from dballoc.process_memory.heaps.glibc_heap import Block, Heap
from dballoc.process_memory.identify_malloc import InUse
from dballoc.process_memory.mapping_kind import Kind
from dballoc.process_memory.memory_reader import Memory
from dballoc.process_memory.read_limits import Effort
from dballoc.process_memory.smaps import Mapping

# Small mappings of their own have libraries too; a server's own are caches.
_LARGE = 1 << 20


# Its executable; before 10.4 that was mysqld, whose pool may lie beside others'.
_MARIADB = "mariadbd"


@dataclass(frozen=True)
class Own:
    """Memory that the server has mapped itself: no malloc's, no stack, no file. Bytes; ``lazy``: of
    ``resident``, given back with MADV_FREE and not yet taken.
    """

    start: int
    size: int
    resident: int
    lazy: int = 0


@dataclass(frozen=True, kw_only=True)
class Outside:
    """A look at a process. ``heap``: glibc's books, None under another malloc, in which what the
    server maps itself (``own``) cannot be told from what the malloc maps; ``books``: those of
    another malloc, where they can be read from outside; ``page_tables``, ``swap``: bytes;
    ``threads``: how many; ``seconds`` that looking took; ``charged``: bytes that its cgroup is
    charged with, None if that is not known; ``given_back``: bytes that were lazily freed at some
    time, where it is not known how much of them is left; ``effort``: that it took, with what it
    left out.
    """

    pid: int
    taken: float
    malloc: InUse
    mappings: list[Mapping]
    kinds: list[Kind]
    heap: Heap | None
    own: list[Own]
    threads: int
    page_tables: int
    swap: int
    seconds: float
    charged: int | None = None
    given_back: int = 0
    books: mimalloc_heap.Books | None = None
    effort: Effort = field(default_factory=Effort, compare=False)

    @property
    def rss(self) -> int:
        """The sum over all mappings."""
        return sum(m.rss for m in self.mappings)


def look(pid: int) -> Outside:
    """Read a live process, as much of it as a look may (:mod:`dballoc.process_memory.read_limits`).
    Failure in one line if it is gone or not ours.
    """
    began, effort = time.monotonic(), Effort()
    try:
        malloc = identify_malloc.identify(pid)
        mappings = address_space.read(pid, effort)
        if not mappings:
            raise Failure(f"process {pid}: it has just ended")
        pointers = thread_stacks.pointers(pid, effort)
        plain = malloc.name == "glibc"
        heap: Heap | None = None
        own: list[Own] = []
        with Memory(pid, effort) as memory:
            mappings = innodb_buffer_pool.split(
                mappings,
                lambda at: memory.head(at, innodb_buffer_pool.HEADER),
                memory.count,
                Path(malloc.executable).name == _MARIADB,
            )
            mappings = bss.split(
                mappings, lambda path: _head(pid, path), lambda a, b: memory.span(a, b).resident
            )
            if plain:
                mappings = glibc_heap.split(memory, mappings)
                heap, own = _heap(memory, mappings, malloc.library, pointers)
            if heap and not heap.arenas:
                # As with a malloc that is not known: nothing tells its mappings from the server's.
                heap, own, plain = Heap([], {}, heap.trouble), [], False
            heaps = (
                {m.start for arena in heap.arenas for m in arena.heaps} | set(heap.mapped)
                if heap
                else set()
            )
            kinds = mapping_kind.classify(mappings, pointers, heaps, not plain)
            its = [
                m
                for m, kind in zip(mappings, kinds, strict=True)
                if kind is mapping_kind.Kind.MALLOC
            ]
            books = mimalloc_heap.read(memory, its) if malloc.name == "mimalloc" else None
        status = address_space.status(pid)
        if "VmRSS" not in status:
            raise Failure(f"process {pid}: it has ended meanwhile")
        return Outside(
            pid=pid,
            taken=time.time(),
            malloc=malloc,
            mappings=mappings,
            kinds=kinds,
            heap=heap,
            own=own,
            threads=thread_stacks.count(pid),
            page_tables=status.get("VmPTE", 0),
            swap=status.get("VmSwap", 0),
            seconds=time.monotonic() - began,
            charged=process_limits.usage(pid),
            given_back=0 if any(m.flags for m in mappings) else process_limits.given_back(pid),
            books=books,
            effort=effort,
        )
    except malloc_bindings.Unreadable as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(malloc_bindings.refusal(pid, error)) from None


def _head(pid: int, path: str) -> bytes:
    return target_files.read_beginning(
        target_files.root_of(pid), process_root.own(pid, path), bss.HEAD
    )


def _heap(
    memory: Memory, mappings: list[Mapping], library: str, pointers: list[int]
) -> tuple[Heap, list[Own]]:
    kinds = mapping_kind.classify(mappings, pointers, (), own_malloc=False)
    others = {m.start for m, k in zip(mappings, kinds, strict=True) if k is not Kind.REST}
    heap = glibc_heap.read(memory, mappings, library, others)
    arenas = {m.start for books in heap.arenas for m in books.heaps}
    free = [
        m
        for m in mappings
        if m.private and m.rss and m.start not in others and m.start not in arenas
    ]
    return heap, [own for m in free for own in _between(memory, m, heap.mapped.get(m.start, []))]


def _between(memory: Memory, mapping: Mapping, blocks: list[Block]) -> list[Own]:
    """What of a mapping is not malloc's blocks, if it is large."""
    edges = [
        mapping.start,
        *(edge for b in blocks for edge in (b.address, b.address + b.size)),
        mapping.end,
    ]
    gaps = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= _LARGE]
    span = memory.span(mapping.start, mapping.end)
    found = [Own(a, b - a, span.between(a, b)) for a, b in gaps]
    # smaps says it of a whole mapping.
    return (
        [replace(own, lazy=min(own.resident, mapping.lazy)) for own in found]
        if len(found) == 1
        else found
    )
