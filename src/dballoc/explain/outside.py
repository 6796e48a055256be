"""What can be known of a process's memory from outside: no SQL, no injection, no symbols."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from dballoc.allocators import identify, running
from dballoc.allocators.identify import InUse
from dballoc.errors import Failure
from dballoc.explain import address_space, bss, glibc, innodb_pages, mimalloc, pages, threads
from dballoc.explain.effort import Effort
from dballoc.explain.glibc import Block, Heap
from dballoc.explain.memory import Memory
from dballoc.explain.pages import Kind
from dballoc.explain.smaps import Mapping
from dballoc.host import inside, limits, target_files

# Small mappings of their own have libraries too; a server's own are caches.
_LARGE = 1 << 20


# Its executable; before 10.4 that was mysqld, whose pool may lie beside others'.
_MARIADB = "mariadbd"


@dataclass(frozen=True)
class Own:
    """Memory that the server has mapped itself: no malloc's, no stack, no file. Bytes; ``lazy``: of ``resident``, given back
    with MADV_FREE and not yet taken.
    """

    start: int
    size: int
    resident: int
    lazy: int = 0


@dataclass(frozen=True)
class Outside:
    """A look at a process. ``heap``: glibc's books, None under another malloc, in which what the server maps itself (``own``)
    cannot be told from what the malloc maps; ``books``: those of another malloc, where they can be read from outside;
    ``page_tables``, ``swap``: bytes; ``threads``: how many; ``seconds`` that looking took; ``charged``: bytes that its cgroup
    is charged with, None if that is not known; ``given_back``: bytes that were lazily freed at some time, where it is not known
    how much of them is left; ``effort``: that it took, with what it left out.
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
    books: mimalloc.Books | None = None
    effort: Effort = field(default_factory=Effort, compare=False)

    @property
    def rss(self) -> int:
        """The sum over all mappings."""
        return sum(m.rss for m in self.mappings)


def look(pid: int) -> Outside:
    """Read a live process, as much of it as a look may (:mod:`dballoc.explain.effort`). Failure in one line if it is gone or
    not ours.
    """
    began, effort = time.monotonic(), Effort()
    try:
        malloc = identify.identify(pid)
        mappings = address_space.read(pid, effort)
        if not mappings:
            raise Failure(f"process {pid}: it has just ended")
        pointers = threads.pointers(pid, effort)
        plain = malloc.name == "glibc"
        heap: Heap | None = None
        own: list[Own] = []
        with Memory(pid, effort) as memory:
            mappings = innodb_pages.split(
                mappings,
                lambda at: memory.head(at, innodb_pages.HEADER),
                memory.count,
                Path(malloc.executable).name == _MARIADB,
            )
            mappings = bss.split(mappings, lambda path: _head(pid, path), lambda a, b: memory.span(a, b).resident)
            if plain:
                mappings = glibc.split(memory, mappings)
                heap, own = _heap(memory, mappings, malloc.library, pointers)
            if heap and not heap.arenas:
                # As with a malloc that is not known: nothing tells its mappings from the server's.
                heap, own, plain = Heap([], {}, heap.trouble), [], False
            heaps = {m.start for arena in heap.arenas for m in arena.heaps} | set(heap.mapped) if heap else set()
            kinds = pages.classify(mappings, pointers, heaps, not plain)
            its = [m for m, kind in zip(mappings, kinds, strict=True) if kind is pages.Kind.MALLOC]
            books = mimalloc.read(memory, its) if malloc.name == "mimalloc" else None
        status = address_space.status(pid)
        if "VmRSS" not in status:
            raise Failure(f"process {pid}: it has ended meanwhile")
        return Outside(
            pid, time.time(), malloc, mappings, kinds, heap, own, threads.count(pid), status.get("VmPTE", 0),
            status.get("VmSwap", 0), time.monotonic() - began, limits.usage(pid),
            0 if any(m.flags for m in mappings) else limits.given_back(pid), books, effort,
        )  # fmt: skip
    except running.Unreadable as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(running.refusal(pid, error)) from None


def _head(pid: int, path: str) -> bytes:
    return target_files.read_beginning(target_files.root_of(pid), inside.own(pid, path), bss.HEAD)


def _heap(memory: Memory, mappings: list[Mapping], library: str, pointers: list[int]) -> tuple[Heap, list[Own]]:
    kinds = pages.classify(mappings, pointers, (), own_malloc=False)
    others = {m.start for m, k in zip(mappings, kinds, strict=True) if k is not Kind.REST}
    heap = glibc.read(memory, mappings, library, others)
    arenas = {m.start for books in heap.arenas for m in books.heaps}
    free = [m for m in mappings if m.private and m.rss and m.start not in others and m.start not in arenas]
    return heap, [own for m in free for own in _between(memory, m, heap.mapped.get(m.start, []))]


def _between(memory: Memory, mapping: Mapping, blocks: list[Block]) -> list[Own]:
    """What of a mapping is not malloc's blocks, if it is large."""
    edges = [mapping.start, *(edge for b in blocks for edge in (b.address, b.address + b.size)), mapping.end]
    gaps = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= _LARGE]
    span = memory.span(mapping.start, mapping.end)
    found = [Own(a, b - a, span.between(a, b)) for a, b in gaps]
    # smaps says it of a whole mapping.
    return [replace(own, lazy=min(own.resident, mapping.lazy)) for own in found] if len(found) == 1 else found
