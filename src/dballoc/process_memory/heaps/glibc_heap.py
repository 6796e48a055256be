"""glibc's malloc from outside: its arenas, their chunks, the blocks that it mapped by themselves.

Layouts as in glibc's malloc.c and arena.c, 64 bits, here those of 2.27 to 2.42; what others change
is in :data:`LAYOUTS`:

    heap_info      ar_ptr, prev, size, mprotect_size[, pagesize]   at a multiple of 64 MiB, 32 or 48
    bytes malloc_state   mutex, flags, have_fastchunks | fastbinsY[10] @16 | top @96 |
    last_remainder | bins[254] @112 |
                   binmap @2144 | next @2160 | next_free | attached_threads | system_mem @2184 |
                   max_system_mem @2192
    chunk          prev_size, size | 1 previous one in use | 2 mapped by itself | 4 not of the main
    arena tcache         counts[64] of 16 bits, entries[64]                a chunk of 0x290 bytes,
    the first of each thread's
                   free_slots[76], entries[76], since 2.42           a chunk of 0x300 bytes; of
                   0x310 where an arena made it

A chunk is in use if the next one says so. Chunks in a thread's cache (tcache) and in the fast bins
say that they are in use. Since 2.42 a cache counts the places that are left in each of its lists;
the last 12 lists are of sizes between powers of two, and empty unless the tunable tcache_max says
otherwise. 2.43 has no fast bins.
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dballoc.process_memory.memory_reader import PAGE, Memory, Span
from dballoc.process_memory.read_limits import Work
from dballoc.process_memory.smaps import Mapping

HEAP = 64 << 20
# In a mapping where there is room for more, only those are looked for that are in memory.
_FEW_HEAPS = 64
_FAST_BINS = 10
_IN_USE, _MAPPED, _FLAGS = 1, 2, 7
_TCACHE, _TCACHE_BINS = 0x290, 64
_TCACHE_SLOTS, _TCACHE_LISTS = (0x300, 0x310), 76
# Of both forms: the sizes of its chunk, the word of the chunk with its first link, how many there
# are.
_CACHES = (
    ((_TCACHE,), 2 + _TCACHE_BINS // 4, _TCACHE_BINS),
    (_TCACHE_SLOTS, 2 + _TCACHE_LISTS // 4, _TCACHE_LISTS),
)
_GATHERED = 4096

# The least that malloc maps by itself, unless told otherwise (M_MMAP_THRESHOLD, mallopt(3)).
_THRESHOLD = 128 << 10

# Bounds of every loop: no structure that is read while it changes, or was made so, may lead us
# round for ever. Those that a process can have without end are counted over the whole look
# (:mod:`dballoc.process_memory.read_limits`).
_MOST_ARENAS = 4096
_TRIES = 3

# Of a heap so much is read at a time: more and more as long as one chunk follows the other.
_LEAST_WINDOW, _WINDOW = 64 << 10, 16 << 20
# Chunks that are entered together; pages after which it is asked whether there may be more.
_BATCH, _TOGETHER = 1 << 16, 1 << 10


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Offsets in malloc_state, and its size. ``fast``: None without fast bins."""

    versions: str
    fast: int | None
    top: int
    next: int
    system: int
    size: int


LAYOUTS = (
    Layout(versions="2.27 to 2.42", fast=16, top=96, next=2160, system=2184, size=2200),
    Layout(versions="2.43", fast=None, top=8, next=2072, system=2096, size=2112),
)


class Torn(Exception):
    """What was read contradicts itself: it changed meanwhile, or it is not what we take it for."""


class _Enough(Exception):
    """There are more chunks than a look reads; what was read is good."""


@dataclass(kw_only=True)
class Books:
    """One arena's (or all mapped blocks') bytes, ``…_resident`` those of them that are in memory.

    ``live``: chunks in use, with their headers, less what the caches hold; ``tcache`` and ``fast``:
    freed, kept for the next malloc of the size; ``free``: in bins, and at the top; ``own``: heap
    and arena headers, fence posts; ``live_chunks``: how many chunks ``live`` is.
    """

    address: int
    system: int = 0
    chunks: int = 0
    live: int = 0
    live_resident: int = 0
    tcache: int = 0
    fast: int = 0
    free: int = 0
    free_resident: int = 0
    own: int = 0
    own_resident: int = 0
    heaps: list[Mapping] = field(default_factory=list)
    unread: int = 0
    live_chunks: int = 0


@dataclass(frozen=True, kw_only=True)
class _Chunks:
    """Starts and sizes of consecutive chunks; ``used``: by the next one's word; ``words`` from
    ``base`` on, where they lie.
    """

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    used: NDArray[np.bool_]
    base: int
    words: NDArray[np.uint64]

    @property
    def end(self) -> int:
        """Behind the last one."""
        return int(self.starts[-1] + self.sizes[-1])


@dataclass(frozen=True)
class Block:
    """A block with pages of its own: their address and bytes, how many of those are in memory, and
    by how much less than ``rounded`` malloc may have rounded up what was asked for (glibc's pages
    apart).
    """

    address: int
    size: int
    resident: int
    rounded: int = 0

    @property
    def asked(self) -> int:
        """What was asked for, as far as it can be known: what is touched, if malloc has rounded up
        no more than the rest.
        """
        return max(self.resident, self.size - self.rounded) if self.rounded else self.size


def find_main(
    memory: Memory,
    layout: Layout,
    data: Sequence[Mapping],
    heap: Mapping | None,
    arenas: Sequence[int],
) -> int | None:
    """The address of the main arena: in libc's writable ``data`` the malloc_state whose ``next``
    leads to another arena or to itself, and whose top lies in the heap. None if there is none.
    """
    known = np.array(sorted(arenas), np.uint64)
    left = memory.effort.left(Work.DATA)
    for mapping in data:
        size = min(mapping.size, left)
        left -= size
        span = memory.span(mapping.start, mapping.start + size)
        words = np.frombuffer(memory.copy(span, mapping.start, mapping.start + size), np.uint64)
        count = len(words) - layout.size // 8
        if count <= 0:
            continue
        top, following, system = (
            words[at // 8 :][:count] for at in (layout.top, layout.next, layout.system)
        )
        other = np.isin(following, known)
        itself = following == mapping.start + 8 * np.arange(count, dtype=np.uint64)
        if heap is not None:
            itself &= (top >= heap.start) & (top < heap.end)
        else:
            itself[:] = False
        plausible = (
            (top % 16 == 0) & (top > 0) & (system > 0) & (system < 1 << 47) & (system % PAGE == 0)
        )
        if len(places := np.flatnonzero((other | itself) & plausible)):
            return mapping.start + 8 * int(places[0])
    if data and not left:
        memory.effort.cut(Work.DATA)
    return None


def split(memory: Memory, mappings: Sequence[Mapping]) -> list[Mapping]:
    """The mappings, with each heap one of its own: the kernel merges a heap with what else was
    mapped next to it.
    """
    found = []
    for mapping in mappings:
        edges = sorted(_edges(memory, mapping)) if mapping.private and mapping.rss else []
        span = memory.span(mapping.start, edges[-1]) if edges else None
        for start, end in pairwise([mapping.start, *edges]):
            # What is known of the whole mapping alone stays with what is left of it, so that it
            # counts once.
            rss = span.between(start, end) if span else 0
            part = replace(
                mapping, start=start, end=end, rss=rss, lazy=0, swap=0, huge=0, hugetlb=0
            )
            found.append(part)
            mapping = replace(mapping, start=end, rss=max(0, mapping.rss - part.rss))
        found.append(mapping)
    return found


def _edges(memory: Memory, mapping: Mapping) -> set[int]:
    """Where heaps begin and end inside a mapping."""
    found: set[int] = set()
    places: Iterable[int] = range(-(-mapping.start // HEAP) * HEAP, mapping.end, HEAP)
    if mapping.size > _FEW_HEAPS * HEAP:
        places = memory.span(mapping.start, mapping.end).multiples(HEAP)
    for at in places:
        if memory.effort.over or not memory.effort.spend(Work.PLACES):
            break
        if (info := _heap_info(memory, at)) and memory.effort.spend(Work.HEAPS):
            found |= {edge for edge in (at, at + info[1]) if mapping.start < edge < mapping.end}
    return found


def _heap_info(memory: Memory, at: int) -> tuple[int, int] | None:
    """(arena, bytes that may be touched) of the heap that begins here; None if there is none."""
    try:
        arena, previous, size, protected = memory.words(at, 4)
    except OSError:
        return None
    own = arena - at in (32, 48)
    plausible = (
        arena % 16 == 0
        and previous % HEAP == 0
        and 0 < size <= HEAP
        and size % PAGE == 0
        and size <= protected <= HEAP
    )
    return (
        (arena, protected)
        if plausible and (own or (arena % HEAP in (32, 48) and previous))
        else None
    )


def heads(memory: Memory, mappings: Sequence[Mapping]) -> dict[int, list[Mapping]]:
    """The heaps of every arena but the main one, by the arena's address. ``mappings``: as
    :func:`split` has them.
    """
    found: dict[int, list[Mapping]] = {}
    for mapping in mappings:
        if (
            mapping.private
            and mapping.rss
            and mapping.start % HEAP == 0
            and (info := _heap_info(memory, mapping.start))
        ):
            found.setdefault(info[0], []).append(mapping)
    return found


def ring(memory: Memory, layout: Layout, arenas: Sequence[int], main: int | None) -> set[int]:
    """The arenas that the ring of ``next`` leads to. Torn if it leads astray."""
    known = {*arenas, *([main] if main else [])}
    start = at = main or next(iter(arenas))
    seen: set[int] = set()
    while at not in seen and len(seen) < _MOST_ARENAS:
        if at not in known:
            raise Torn(f"the ring of arenas leads to {at:#x}")
        seen.add(at)
        (at,) = memory.words(at + layout.next)
    if at != start:
        raise Torn("the ring of arenas does not close")
    return seen


def arena(
    memory: Memory, layout: Layout, address: int, heaps: Sequence[Mapping], main: bool
) -> Books:
    """The books of one arena. Torn if it changed so fast that no reading of it holds together."""
    for attempt in range(_TRIES):
        try:
            return _arena(memory, layout, address, heaps, main)
        except (Torn, OSError):
            if attempt == _TRIES - 1:
                raise
    raise AssertionError


def _arena(
    memory: Memory, layout: Layout, address: int, heaps: Sequence[Mapping], main: bool
) -> Books:
    state = memory.words(address, layout.size // 8)
    top = state[layout.top // 8]
    books = Books(address=address, system=state[layout.system // 8], heaps=list(heaps))
    for mapping in heaps:
        span = memory.span(mapping.start, mapping.end)
        head = 0 if main else _head(layout, mapping, address)
        first = mapping.start + head
        if mapping.start <= top < first:
            raise Torn(f"the top chunk lies before the first, at {top:#x}")
        stop = top if mapping.start <= top < mapping.end else mapping.end
        try:
            read, end = _read(memory, span, first, stop, last=stop == top)
        except Torn:
            if not main:
                raise
            # Somebody else has moved the break: what lies between is not malloc's.
            books.unread += span.resident
            continue
        _add(books, memory, read)
        if read.cut:
            books.unread += span.between(end, stop)
            end = stop
        books.own += head
        books.own_resident += span.between(mapping.start, first)
        if stop == top:
            books.free += mapping.end - top
            books.free_resident += span.between(top, mapping.end)
        else:
            books.own += mapping.end - end
            books.own_resident += span.between(end, mapping.end)
    if layout.fast is not None:
        _move_fast(books, memory, state[layout.fast // 8 :])
    return books


def _head(layout: Layout, mapping: Mapping, address: int) -> int:
    """Bytes before a heap's first chunk: heap_info, and in an arena's first heap its
    malloc_state.
    """
    info = address % HEAP
    return -(-(info + layout.size) // 16) * 16 if address - mapping.start == info else info


@dataclass(kw_only=True)
class _Read:
    """What was read of one heap: bytes as in :class:`Books`; ``caches``: chunks that may be a
    thread's cache, of both forms; ``cut``: there is more of it.
    """

    chunks: int = 0
    live_chunks: int = 0
    live: int = 0
    live_resident: int = 0
    free: int = 0
    free_resident: int = 0
    caches: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    cut: bool = False


def _read(memory: Memory, span: Span, start: int, stop: int, last: bool) -> tuple[_Read, int]:
    """The chunks of a heap as :func:`_walk` finds them, and where they end."""
    read, end = _Read(), start
    try:
        for chunks in _walk(memory, span, start, stop, last):
            _enter(read, memory, span, chunks)
            end = chunks.end
    except _Enough:
        read.cut = True
    return read, end


def _walk(memory: Memory, span: Span, start: int, stop: int, last: bool) -> Iterator[_Chunks]:
    """The chunks from ``start`` to ``stop``, the top chunk or the end of the heap (where two fence
    posts stand), some at a time. _Enough where a look reads no more of them.
    """
    starts: list[int] = []
    sizes: list[int] = []
    at = base = limit = start
    window = _LEAST_WINDOW
    words = memoryview(b"").cast("Q")
    if at < stop and not memory.effort.left(Work.CHUNKS):
        memory.effort.cut(Work.CHUNKS)
        raise _Enough

    def together(behind: int) -> _Chunks:
        """``behind``: the word with the size of the chunk that follows."""
        flagged = np.array([*sizes, behind], np.uint64)
        length_of = (flagged[:-1] & ~np.uint64(_FLAGS)).astype(np.int64)
        used = (flagged[1:] & np.uint64(_IN_USE)) != 0
        return _Chunks(
            starts=np.array(starts, np.int64),
            sizes=length_of,
            used=used,
            base=base,
            words=np.frombuffer(words, np.uint64),
        )

    while at < stop:
        if at + 16 > limit:
            if memory.effort.over:
                raise _Enough
            # From one huge chunk to the next one, little of each is looked at.
            window = min(2 * window, _WINDOW) if at - limit < _LEAST_WINDOW else _LEAST_WINDOW
            after = min(at + window, -(-(stop + 16) // PAGE) * PAGE)
            more = memory.copy(span, at, after)
            if starts:
                yield together(more[1])
                if not memory.effort.spend(Work.CHUNKS, len(starts)):
                    raise _Enough
                starts, sizes = [], []
            base, limit, words = at, after, more
        size = words[(at - base >> 3) + 1]
        length = size & ~_FLAGS
        if not last and length <= 16:
            break  # a fence post
        if length < 32 or length & 15 or at + length > stop:
            raise Torn(f"a chunk of {length} bytes at {at:#x}")
        if len(starts) == _BATCH:
            yield together(size)
            if not memory.effort.spend(Work.CHUNKS, len(starts)) or memory.effort.over:
                raise _Enough
            starts, sizes = [], []
        starts.append(at)
        sizes.append(size)
        at += length
    if starts:
        memory.effort.spend(Work.CHUNKS, len(starts))
        # The word that says whether the last chunk is in use stands behind it.
        yield together(memory.copy(span, at + 8, at + 16)[0] if at + 16 <= span.end else _IN_USE)


def _enter(read: _Read, memory: Memory, span: Span, chunks: _Chunks) -> None:
    ends = chunks.starts + chunks.sizes
    used, free = chunks.used, ~chunks.used
    read.chunks += len(chunks.starts)
    read.live_chunks += int(used.sum())
    read.live += int(chunks.sizes[used].sum())
    read.live_resident += span.bytes(chunks.starts[used], ends[used])
    read.free += int(chunks.sizes[free].sum())
    read.free_resident += span.bytes(chunks.starts[free], ends[free])
    for kept, (sizes, first, count) in zip(read.caches, _CACHES, strict=True):
        if not memory.effort.left(Work.CACHES):
            break
        for address in _like_caches(
            chunks, chunks.starts[used & np.isin(chunks.sizes, sizes)], first, count
        ):
            if not memory.effort.spend(Work.CACHES):
                break
            kept.append(address)


def _like_caches(chunks: _Chunks, starts: NDArray[np.int64], first: int, count: int) -> list[int]:
    """Those of the chunks that have what could be the links of a cache, some of them none:
    ``count`` of them from the word ``first`` on.
    """
    at = (starts - chunks.base) // 8 + first
    there = (at >= 0) & (at + count <= len(chunks.words))
    # Of those that are not there whole it is not known here.
    kept = starts[~there].tolist()
    some, at = starts[there], at[there]
    for i in range(0, len(some), _GATHERED):
        links = chunks.words[at[i : i + _GATHERED, None] + np.arange(count)]
        plausible = (links % 16 == 0).all(axis=1) & links.any(axis=1)
        kept += some[i : i + _GATHERED][plausible].tolist()
    return sorted(kept)


def _add(books: Books, memory: Memory, read: _Read) -> None:
    """Enter what was read of a heap, with what its threads' caches hold apart."""
    books.chunks += read.chunks
    books.live_chunks += read.live_chunks
    books.live += read.live
    books.live_resident += read.live_resident
    books.free += read.free
    books.free_resident += read.free_resident
    for cache, addresses in zip((_tcache, _tcache_slots), read.caches, strict=True):
        for address in addresses:
            if memory.effort.over:
                return
            count, cached = cache(memory, address)
            if cached > books.live_resident:
                continue  # a block that looks like a cache, or one that was read while it changed
            books.live_chunks -= count
            books.tcache += cached
            books.live -= cached
            books.live_resident -= cached


def _tcache_slots(memory: Memory, chunk: int) -> tuple[int, int]:
    """As :func:`_tcache`, since 2.42."""
    try:
        words = memory.words(chunk + 16, _TCACHE_LISTS * 10 // 8)
    except OSError:
        return 0, 0
    slots = struct.unpack(
        f"<{_TCACHE_LISTS}H", struct.pack(f"<{_TCACHE_LISTS // 4}Q", *words[: _TCACHE_LISTS // 4])
    )
    entries = words[_TCACHE_LISTS // 4 :]
    # How many a list may hold is told by those that are empty.
    most = {slot for slot, entry in zip(slots, entries, strict=True) if not entry}
    if len(most) != 1:
        return 0, 0
    held = [max(most) - slot for slot in slots]
    if any(
        (count == 0) != (entry == 0) or count < 0 or entry % 16
        for count, entry in zip(held, entries, strict=True)
    ):
        return 0, 0
    small = sum(count * (32 + 16 * i) for i, count in enumerate(held[:_TCACHE_BINS]))
    large = zip(entries[_TCACHE_BINS:], held[_TCACHE_BINS:], strict=True)
    return sum(held), small + sum(_sizes(memory, entry, count) for entry, count in large)


def _sizes(memory: Memory, entry: int, count: int) -> int:
    """The sizes of so many chunks of a cache's list together, as far as it can be followed."""
    total = 0
    for _ in range(count):
        if not memory.effort.spend(Work.LINKS):
            break
        try:
            size, link = memory.words(entry - 8, 2)
        except OSError:
            break
        total += size & ~_FLAGS
        entry = link ^ (entry >> 12)
        if not entry or entry % 16:
            break
    return total


def _tcache(memory: Memory, chunk: int) -> tuple[int, int]:
    """How many chunks are in a thread's cache, and their bytes, if this chunk is one; else none."""
    try:
        words = memory.words(chunk + 16, _TCACHE_BINS * 10 // 8)
    except OSError:
        return 0, 0
    counts = struct.unpack(
        f"<{_TCACHE_BINS}H", struct.pack(f"<{_TCACHE_BINS // 4}Q", *words[: _TCACHE_BINS // 4])
    )
    entries = words[_TCACHE_BINS // 4 :]
    if any(
        (count == 0) != (entry == 0) or entry % 16
        for count, entry in zip(counts, entries, strict=True)
    ):
        return 0, 0
    return sum(counts), sum(count * (32 + 16 * i) for i, count in enumerate(counts))


def _move_fast(books: Books, memory: Memory, fast: Sequence[int]) -> None:
    """What the fast bins hold is not live. Their links are mangled since 2.32 (safe-linking):
    address >> 12 ^ link.
    """
    for i in range(_FAST_BINS):
        # More chunks than there are, and the list has no end.
        count = sum(1 for _ in _list(memory, fast[i], books.chunks))
        held = count * (32 + 16 * i)
        if held > books.live_resident:
            raise Torn("a fast bin holds more than there is")
        books.live_chunks -= count
        books.fast += held
        books.live -= held
        books.live_resident -= held


def _list(memory: Memory, first: int, most: int) -> Iterator[int]:
    at, seen = first, 0
    while at and seen < most:
        if not memory.effort.spend(Work.LINKS):
            return
        if at % 16:
            raise Torn("a fast bin leads astray")
        yield at
        (link,) = memory.words(at + 16)
        plain = link ^ (at + 16 >> 12)
        at = plain if plain % 16 == 0 else link
        seen += 1
    if at:
        raise Torn("a fast bin has no end")


def blocks(memory: Memory, mapping: Mapping) -> list[Block]:
    """The chunks in this mapping that malloc mapped by themselves; none if it is no such mapping.

    The kernel merges neighbours into one mapping, so one chunk follows another, with what somebody
    else mapped between. What looks like a chunk is one at the mapping's start, right behind another
    one, or at the size from which malloc maps.
    """
    if not memory.effort.left(Work.PAGES) or not memory.effort.left(Work.BLOCKS):
        memory.effort.cut(Work.BLOCKS if memory.effort.left(Work.PAGES) else Work.PAGES)
        return []
    if mapping.size < _THRESHOLD and not _begins_with_block(memory, mapping):
        return []  # in so small a mapping there is one at its start, or none
    span = memory.span(mapping.start, mapping.end)
    found: list[Block] = []
    behind = mapping.start
    looked = 0
    for run_start, run_end in _rows(span):
        at = max(run_start, behind)
        while at < run_end:
            looked += 1
            if looked % _TOGETHER == 0 and (
                memory.effort.over or not memory.effort.spend(Work.PAGES, _TOGETHER)
            ):
                return found
            before, size = memory.pair(at)
            length = size & ~_FLAGS
            if length % PAGE == PAGE - 16:
                length += 16  # 2.43 leaves the header out
            fits = (
                size & _FLAGS == _MAPPED
                and not before
                and length
                and not length % PAGE
                and at + length <= mapping.end
            )
            if not fits or (at != behind and length < _THRESHOLD):
                at += PAGE
                continue
            if not memory.effort.spend(Work.BLOCKS):
                return found
            found.append(Block(at, length, span.between(at, at + length)))
            at = behind = at + length
    memory.effort.spend(Work.PAGES, looked % _TOGETHER)
    return found


def _begins_with_block(memory: Memory, mapping: Mapping) -> bool:
    try:
        before, size = memory.words(mapping.start, 2)
    except OSError:
        return False
    return size & _FLAGS == _MAPPED and not before


def _rows(span: Span) -> Iterator[tuple[int, int]]:
    """The runs of a span, a few at a time."""
    for i in range(0, len(span.runs), _BATCH):
        yield from span.runs[i : i + _BATCH].tolist()


@dataclass(frozen=True)
class Heap:
    """All of a process's heap: ``arenas``, the main one first if it was found; ``mapped``: by
    mapping's start; ``trouble``: what could not be read, in words.
    """

    arenas: list[Books]
    mapped: dict[int, list[Block]]
    trouble: list[str]


def read(memory: Memory, mappings: Sequence[Mapping], libc: str, others: Collection[int]) -> Heap:
    """Walk the heap of a process. ``libc``: the file whose malloc it is; ``others``: starts of
    mappings that are others'.
    """
    found = heads(memory, mappings)
    brk = next((m for m in mappings if m.path == "[heap]"), None)
    fit, trouble = _fitting(memory, mappings, libc, brk, list(found))
    arenas = []
    if fit:
        layout, main = fit.layout, fit.main
        heaps_of = {main: [brk] if brk else []} if main else {}
        # What looks like a heap and is in no ring is somebody else's.
        heaps_of |= {address: heaps for address, heaps in found.items() if address in fit.arenas}
        for address, heaps in heaps_of.items():
            try:
                arenas.append(arena(memory, layout, address, heaps, address == main))
            except (Torn, OSError) as error:
                trouble.append(f"arena {address:#x}: {error}")
    taken = {m.start for books in arenas for m in books.heaps} | set(others)
    mapped = {
        m.start: row
        for m in mappings
        if m.private and m.start not in taken and m.rss and (row := blocks(memory, m))
    }
    return Heap(arenas, mapped, trouble)


@dataclass(frozen=True)
class _Fit:
    layout: Layout
    main: int | None
    arenas: set[int]


def _fitting(
    memory: Memory, mappings: Sequence[Mapping], libc: str, brk: Mapping | None, arenas: list[int]
) -> tuple[_Fit | None, list[str]]:
    """The layout with which the ring of arenas closes; else what is wrong."""
    trouble = ["no arena was found: glibc of an unknown layout; its heap is one line"]
    for layout in LAYOUTS:
        main = find_main(memory, layout, _data(mappings, libc), brk, arenas)
        if main is None and not arenas:
            continue
        try:
            reached = ring(memory, layout, arenas, main)
        except (Torn, OSError) as error:
            trouble = [str(error)]
            continue
        return _Fit(layout, main, reached), []
    return None, trouble


def arenas(memory: Memory, mappings: Sequence[Mapping], libc: str) -> set[int]:
    """The addresses of all arenas, each of which begins with its mutex; empty if they are not
    found. ``mappings``: as
    :func:`split` has them. No chunk is read.
    """
    heap = next((m for m in mappings if m.path == "[heap]"), None)
    fit, _ = _fitting(memory, mappings, libc, heap, list(heads(memory, mappings)))
    return fit.arenas if fit else set()


def _data(mappings: Sequence[Mapping], libc: str) -> list[Mapping]:
    """A library's writable pages, those that its file does not back included."""
    found = [i for i, m in enumerate(mappings) if m.path == libc and m.permissions.startswith("rw")]
    bss = [
        after
        for i in found
        for after in mappings[i + 1 : i + 2]
        if after.private and after.start == mappings[i].end
    ]
    return [*(mappings[i] for i in found), *bss]
