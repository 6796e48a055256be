"""glibc's malloc from outside: its arenas, their chunks, blocks with a mapping of their own.

Layouts as in glibc's malloc.c and arena.c, 64 bits, here those of 2.27 to 2.42; how others differ
is in :data:`LAYOUTS`:

    heap_info      ar_ptr, prev, size, mprotect_size[, pagesize]: 32 or 48 bytes at a multiple of
                   64 MiB
    malloc_state   mutex, flags, have_fastchunks | fastbinsY[10] @16 | top @96 | last_remainder |
                   bins[254] @112 | binmap @2144 | next @2160 | next_free | attached_threads |
                   system_mem @2184 | max_system_mem @2192
    chunk          prev_size, size | 1: previous one in use | 2: mapped by itself | 4: not of the
                   main arena
    tcache         counts[64] of 16 bits, entries[64]: a chunk of 0x290 bytes, the first of each
                   thread's; since 2.42 free_slots[76], entries[76]: a chunk of 0x300 bytes, or of
                   0x310 where an arena made it

A chunk is in use if the next one says so. Chunks in a thread's cache (tcache) and in the fast bins
are marked as in use. Since 2.42 a cache counts the free places of each of its lists; the last 12
lists are for sizes between powers of two, and empty unless the tunable tcache_max says otherwise.
2.43 has no fast bins.
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from dballoc.process.heaps.glibc_arenas import ArenaUsage, GlibcHeap, HeapUsage
from dballoc.process.heaps.glibc_chunks import (
    BrokenChunk,
    ChunkRun,
    follow_chunks,
    may_be_links,
    sum_overlaps,
)
from dballoc.process.heaps.heap_walk import LEAST_COUNTED, MOST_SIZES, LargeBlock
from dballoc.process.memory_reader import PAGE, Memory, Span
from dballoc.process.read_limits import Work
from dballoc.process.smaps import MemoryMapping

HEAP = 64 << 20
# In a mapping with room for more heaps than this, only resident places are tried.
_FEW_HEAPS = 64
_FAST_BINS = 10
# A free chunk's own fields: sizes, and links to others.
_CHUNK = 48
_IN_USE, _MAPPED, _FLAGS = 1, 2, 7
_TCACHE, _TCACHE_BINS = 0x290, 64
_TCACHE_SLOTS, _TCACHE_LISTS = (0x300, 0x310), 76
# Of both forms of tcache: the sizes of its chunk, the word of the chunk with its first link, how
# many links there are.
_CACHES = (
    ((_TCACHE,), 2 + _TCACHE_BINS // 4, _TCACHE_BINS),
    (_TCACHE_SLOTS, 2 + _TCACHE_LISTS // 4, _TCACHE_LISTS),
)
# The lengths of those chunks in words.
_CACHE_LENGTHS = frozenset(size >> 3 for sizes, *_ in _CACHES for size in sizes)

# By default malloc gives blocks from this size on a mapping of their own (M_MMAP_THRESHOLD,
# mallopt(3)).
_THRESHOLD = 128 << 10

# Every loop has a bound: a structure that changes while it is read, or that was forged, must not
# keep us in it for ever. What a process can have any amount of is counted over the whole snapshot
# (:mod:`dballoc.process.read_limits`).
_MOST_ARENAS = 4096
_TRIES = 3

# Bytes of a heap that are read at a time: more and more as long as one chunk follows the other.
_LEAST_WINDOW, _WINDOW = 64 << 10, 16 << 20
# Chunks that are counted together; pages after which the limits are checked.
_BATCH, _PAGE_BATCH = 1 << 16, 1 << 10


@dataclass(frozen=True, kw_only=True)
class ArenaLayout:
    """Offsets in malloc_state, and its ``size``, in bytes. ``fast``: None without fast bins."""

    versions: str
    fast: int | None
    top: int
    next: int
    system: int
    size: int


LAYOUTS = (
    ArenaLayout(versions="2.27 to 2.42", fast=16, top=96, next=2160, system=2184, size=2200),
    ArenaLayout(versions="2.43", fast=None, top=8, next=2072, system=2096, size=2112),
)


class InconsistentRead(Exception):
    """What was read contradicts itself: it changed meanwhile, or it is not what we take it for."""


def find_main_arena(
    memory: Memory,
    layout: ArenaLayout,
    data: Sequence[MemoryMapping],
    heap: MemoryMapping | None,
    addresses: Sequence[int],
) -> int | None:
    """Return the address of the main arena, None if there is none: in libc's writable ``data`` the
    malloc_state whose ``next`` leads to another arena, or to itself with its top in the heap.
    """
    arenas = frozenset(addresses)
    remaining = memory.budget.remaining(Work.DATA)
    for mapping in data:
        size = min(mapping.size, remaining)
        remaining -= size
        span = memory.span(mapping.start, mapping.start + size)
        words = memory.copy_words(span, mapping.start, mapping.start + size)
        for place in range(len(words) - layout.size // 8):
            following = words[place + layout.next // 8]
            at = mapping.start + 8 * place
            if following != at and following not in arenas:
                continue
            top, system = words[place + layout.top // 8], words[place + layout.system // 8]
            leads_on = following in arenas or (heap is not None and heap.start <= top < heap.end)
            if leads_on and top and top % 16 == 0 and 0 < system < 1 << 47 and not system % PAGE:
                return at
    if data and not remaining:
        memory.budget.note_limit(Work.DATA)
    return None


def split_off_heaps(memory: Memory, mappings: Sequence[MemoryMapping]) -> list[MemoryMapping]:
    """Return the mappings, with each heap as a mapping of its own: the kernel merges a heap with
    what else was mapped next to it.
    """
    parts = []
    for mapping in mappings:
        edges = sorted(_find_heap_edges(memory, mapping)) if mapping.private and mapping.rss else []
        span = memory.span(mapping.start, edges[-1]) if edges else None
        for start, end in pairwise([mapping.start, *edges]):
            # Sizes that are known for the whole mapping only stay with its last part, so that they
            # count once.
            rss = span.count_resident(start, end) if span else 0
            part = replace(
                mapping, start=start, end=end, rss=rss, lazy=0, swap=0, huge=0, hugetlb=0
            )
            parts.append(part)
            mapping = replace(mapping, start=end, rss=max(0, mapping.rss - part.rss))
        parts.append(mapping)
    return parts


def _find_heap_edges(memory: Memory, mapping: MemoryMapping) -> set[int]:
    """Return the addresses inside a mapping at which heaps begin and end."""
    edges: set[int] = set()
    places: Iterable[int] = range(-(-mapping.start // HEAP) * HEAP, mapping.end, HEAP)
    if mapping.size > _FEW_HEAPS * HEAP:
        places = memory.span(mapping.start, mapping.end).multiples(HEAP)
    for at in places:
        if memory.budget.out_of_time or not memory.budget.spend(Work.PLACES):
            break
        if (info := _read_heap_info(memory, at)) and memory.budget.spend(Work.HEAPS):
            edges |= {edge for edge in (at, at + info[1]) if mapping.start < edge < mapping.end}
    return edges


def _read_heap_info(memory: Memory, at: int) -> tuple[int, int] | None:
    """Return (arena, accessible bytes) of the heap that begins at an address; None if none does."""
    try:
        arena, previous, size, protected = memory.words(at, 4)
    except OSError:
        return None
    holds_arena = arena - at in (32, 48)
    plausible = (
        arena % 16 == 0
        and previous % HEAP == 0
        and 0 < size <= HEAP
        and size % PAGE == 0
        and size <= protected <= HEAP
    )
    return (
        (arena, protected)
        if plausible and (holds_arena or (arena % HEAP in (32, 48) and previous))
        else None
    )


def _find_heaps(
    memory: Memory, mappings: Sequence[MemoryMapping]
) -> dict[int, list[MemoryMapping]]:
    """Return the heaps of every arena but the main one, by the arena's address. ``mappings``: as
    :func:`split_off_heaps` returns them.
    """
    heaps: dict[int, list[MemoryMapping]] = {}
    for mapping in mappings:
        if (
            mapping.private
            and mapping.rss
            and mapping.start % HEAP == 0
            and (info := _read_heap_info(memory, mapping.start))
        ):
            heaps.setdefault(info[0], []).append(mapping)
    return heaps


def _follow_arena_ring(
    memory: Memory, layout: ArenaLayout, addresses: Sequence[int], main: int | None
) -> set[int]:
    """Return the arenas that the ring of ``next`` leads to. Raises InconsistentRead if it leads
    elsewhere than to arenas, or does not close.
    """
    candidates = {*addresses, *([main] if main else [])}
    start = at = main or next(iter(addresses))
    reached: set[int] = set()
    while at not in reached and len(reached) < _MOST_ARENAS:
        if at not in candidates:
            raise InconsistentRead(f"the ring of arenas leads to {at:#x}, which is not an arena")
        reached.add(at)
        (at,) = memory.words(at + layout.next)
    if at != start:
        raise InconsistentRead("the ring of arenas does not close")
    return reached


def _read_arena(
    memory: Memory, layout: ArenaLayout, address: int, heaps: Sequence[MemoryMapping], main: bool
) -> ArenaUsage:
    """Read one arena, again where it changed meanwhile. InconsistentRead, or OSError, if it changed
    every time.
    """
    for attempt in range(_TRIES):
        try:
            return _try_read_arena(memory, layout, address, heaps, main)
        except (InconsistentRead, OSError):
            if attempt == _TRIES - 1:
                raise
    raise AssertionError


def _try_read_arena(
    memory: Memory, layout: ArenaLayout, address: int, heaps: Sequence[MemoryMapping], main: bool
) -> ArenaUsage:
    state = memory.words(address, layout.size // 8)
    top = state[layout.top // 8]
    arena = ArenaUsage(address=address, system=state[layout.system // 8], heaps=list(heaps))
    for mapping in heaps:
        span = memory.span(mapping.start, mapping.end)
        header = 0 if main else _measure_heap_header(layout, mapping, address)
        first = mapping.start + header
        if mapping.start <= top < first:
            raise InconsistentRead(f"the top chunk lies before the first, at {top:#x}")
        stop = top if mapping.start <= top < mapping.end else mapping.end
        try:
            reading, end = _read_heap(memory, span, first, stop, last=stop == top)
        except InconsistentRead:
            if not main:
                raise
            # Other code in the process has moved the break: what lies between is not malloc's.
            arena.unread += span.resident
            continue
        _add_heap(arena, memory, reading)
        if reading.incomplete:
            arena.unread += span.count_resident(end, stop)
            end = stop
        arena.metadata += header
        arena.metadata_resident += span.count_resident(mapping.start, first)
        if stop == top:
            arena.free += mapping.end - top
            arena.free_resident += span.count_resident(top, mapping.end)
            if main:
                arena.trimmable += _count_trimmable(span, [top], [mapping.end])
        else:
            arena.metadata += mapping.end - end
            arena.metadata_resident += span.count_resident(end, mapping.end)
    if layout.fast is not None:
        _move_fast_bins(arena, memory, state[layout.fast // 8 :])
    return arena


def _measure_heap_header(layout: ArenaLayout, mapping: MemoryMapping, address: int) -> int:
    """Return the bytes before a heap's first chunk: heap_info, and in an arena's first heap its
    malloc_state.
    """
    info = address % HEAP
    return -(-(info + layout.size) // 16) * 16 if address - mapping.start == info else info


@dataclass(kw_only=True)
class _HeapReading(HeapUsage):
    """What was read of one heap. ``caches``: addresses of chunks that may be a thread's cache, for
    each form; ``incomplete``: there are more chunks.
    """

    caches: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    incomplete: bool = False


def _read_heap(
    memory: Memory, span: Span, start: int, stop: int, last: bool
) -> tuple[_HeapReading, int]:
    """Read the chunks from ``start`` to ``stop``, as many as one snapshot may read; return where
    they end, too. ``stop`` is the top chunk (``last``), or the end of the heap, where two fence
    posts stand. Raises InconsistentRead where one does not follow another.
    """
    if stop % 16:
        raise InconsistentRead(f"a top chunk at {stop:#x}")
    reading = _HeapReading()
    at = base = limit = start
    window = _LEAST_WINDOW
    words: Sequence[int] = ()
    if at < stop and not memory.budget.remaining(Work.CHUNKS):
        memory.budget.note_limit(Work.CHUNKS)
        reading.incomplete = True
        return reading, at
    while at < stop:
        if at + 16 > limit:
            # After a huge chunk the window is small again: little of such chunks is needed.
            window = min(2 * window, _WINDOW) if at - limit < _LEAST_WINDOW else _LEAST_WINDOW
            base, limit = at, min(at + window, -(-(stop + 16) // PAGE) * PAGE)
            words = memory.copy_words(span, base, limit)
        try:
            run = follow_chunks(
                words,
                at - base >> 3,
                stop - base >> 3,
                most=_BATCH,
                lengths=_CACHE_LENGTHS,
                large=LEAST_COUNTED >> 3,
                fence=not last,
            )
        except BrokenChunk as error:
            raise InconsistentRead(
                f"a chunk of {error.size} bytes at {base + 8 * error.at:#x}"
            ) from None
        at = base + 8 * run.end
        _add_chunks(reading, memory, span, run, base, words)
        if not memory.budget.spend(Work.CHUNKS, run.count) or memory.budget.out_of_time:
            reading.incomplete = at < stop and not run.fenced
            break
        if run.fenced:
            break
    return reading, at


def _add_chunks(
    reading: _HeapReading,
    memory: Memory,
    span: Span,
    run: ChunkRun,
    base: int,
    words: Sequence[int],
) -> None:
    """Add a run of chunks within ``words``, which begin at the address ``base``."""
    if not run.count:
        return
    end = base + 8 * run.end
    # The word that says whether the last chunk is in use stands behind it.
    next_size = memory.copy_words(span, end + 8, end + 16)[0] if end + 16 <= span.end else _IN_USE
    free_starts = [base + 8 * at for at in run.free_starts]
    free_ends = [base + 8 * at for at in run.free_ends]
    if not next_size & _IN_USE:
        free_starts.append(base + 8 * run.last)
        free_ends.append(end)
    first = base + 8 * run.first
    free = sum(free_ends) - sum(free_starts)
    reading.chunks += run.count
    reading.live_chunks += run.count - len(free_starts)
    reading.live += end - first - free
    reading.free += free
    gaps = span.iterate_gaps(first, end)
    free_resident = free - sum_overlaps(free_starts, free_ends, gaps)
    reading.free_resident += free_resident
    reading.trimmable += _count_trimmable(span, free_starts, free_ends)
    reading.live_resident += span.count_resident(first, end) - free_resident
    if run.sized and run.sized[-1] == run.last and not next_size & _IN_USE:
        run.sized.pop()
    if run.large and run.large[-1] == run.last and not next_size & _IN_USE:
        run.large.pop()
    _add_cache_candidates(reading, memory, run.sized, base, words)
    _add_large_blocks(reading, memory, span, [(base + 8 * at, words[at + 1]) for at in run.large])


def _count_trimmable(span: Span, starts: Sequence[int], ends: Sequence[int]) -> int:
    """Return the resident bytes of whole pages in free chunks, behind the links that a chunk begins
    with: what malloc_trim gives back (malloc.c, mtrim). Of the tops it takes the main arena's.
    """
    inner = [
        (first, last)
        for start, end in zip(starts, ends, strict=True)
        if (first := -(-(start + _CHUNK) // PAGE) * PAGE) < (last := end // PAGE * PAGE)
    ]
    if not inner:
        return 0
    firsts, lasts = [first for first, _ in inner], [last for _, last in inner]
    gaps = span.iterate_gaps(firsts[0], lasts[-1])
    return sum(lasts) - sum(firsts) - sum_overlaps(firsts, lasts, gaps)


def _add_large_blocks(
    reading: _HeapReading, memory: Memory, span: Span, chunks: Iterable[tuple[int, int]]
) -> None:
    """Add (address, size word) of chunks in use that are not small."""
    for address, word in chunks:
        size = word & ~_FLAGS
        if size in reading.sizes or len(reading.sizes) < MOST_SIZES:
            reading.sizes[size] = reading.sizes.get(size, 0) + 1
        if size >= _THRESHOLD and memory.budget.spend(Work.BLOCKS):
            resident = span.count_resident(address, address + size)
            reading.blocks.append(LargeBlock(address, size, resident))


def _add_cache_candidates(
    reading: _HeapReading, memory: Memory, sized: Iterable[int], base: int, words: Sequence[int]
) -> None:
    """Add those of the chunks, by their first word, that may be a thread's cache."""
    for at in sized:
        for candidates, (sizes, first, count) in zip(reading.caches, _CACHES, strict=True):
            if words[at + 1] & ~_FLAGS in sizes and may_be_links(words, at + first, count):
                if not memory.budget.spend(Work.CACHES):
                    return
                candidates.append(base + 8 * at)


def _add_heap(arena: ArenaUsage, memory: Memory, reading: _HeapReading) -> None:
    """Add what was read of a heap to its arena, with the blocks in threads' caches not as live."""
    arena.add(reading)
    arena.blocks_resident += sum(block.resident for block in reading.blocks)
    for measure_cache, addresses in zip(
        (_measure_tcache, _measure_tcache_with_slots), reading.caches, strict=True
    ):
        for address in addresses:
            if memory.budget.out_of_time:
                return
            count, cached = measure_cache(memory, address)
            if cached > arena.small_resident:
                continue  # a block that looks like a cache, or one that was read while it changed
            arena.live_chunks -= count
            arena.tcache += cached
            arena.live -= cached
            arena.live_resident -= cached


def _measure_tcache_with_slots(memory: Memory, chunk: int) -> tuple[int, int]:
    """Do what :func:`_measure_tcache` does, for glibc 2.42 and later."""
    slots, entries = _read_cache_lists(memory, chunk, _TCACHE_LISTS)
    # The empty lists show how many chunks a list may hold.
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
    return sum(held), small + sum(_sum_list(memory, entry, count) for entry, count in large)


def _read_cache_lists(
    memory: Memory, chunk: int, lists: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the number of each of a cache's lists, of 16 bits, and its first entry; none if it
    cannot be read.
    """
    try:
        words = memory.words(chunk + 16, lists * 10 // 8)
    except OSError:
        return (), ()
    numbers = struct.pack(f"<{lists // 4}Q", *words[: lists // 4])
    return struct.unpack(f"<{lists}H", numbers), words[lists // 4 :]


def _sum_list(memory: Memory, entry: int, count: int) -> int:
    """Return the bytes of the ``count`` chunks in a cache's list, as far as it can be followed."""
    total = 0
    for _ in range(count):
        if not memory.budget.spend(Work.LINKS):
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


def _measure_tcache(memory: Memory, chunk: int) -> tuple[int, int]:
    """Return how many chunks are in a thread's cache, and their bytes; (0, 0) if this chunk is not
    a cache.
    """
    counts, entries = _read_cache_lists(memory, chunk, _TCACHE_BINS)
    if any(
        (count == 0) != (entry == 0) or entry % 16
        for count, entry in zip(counts, entries, strict=True)
    ):
        return 0, 0
    return sum(counts), sum(count * (32 + 16 * i) for i, count in enumerate(counts))


def _move_fast_bins(arena: ArenaUsage, memory: Memory, fast: Sequence[int]) -> None:
    """Count what the fast bins hold not as live. Their links are mangled since 2.32 (safe-linking):
    address >> 12 ^ link.
    """
    for i in range(_FAST_BINS):
        # A list with more chunks than the arena has is circular.
        count = sum(1 for _ in _follow_fast_bin(memory, fast[i], arena.chunks))
        held = count * (32 + 16 * i)
        if held > arena.small_resident:
            raise InconsistentRead("a fast bin holds more than there is")
        arena.live_chunks -= count
        arena.fast += held
        arena.live -= held
        arena.live_resident -= held


def _follow_fast_bin(memory: Memory, first: int, most: int) -> Iterator[int]:
    """Yield the chunks of a fast bin, ``most`` of them. Raises InconsistentRead if there are
    more.
    """
    at, count = first, 0
    while at and count < most:
        if not memory.budget.spend(Work.LINKS):
            return
        if at % 16:
            raise InconsistentRead("a fast bin leads to an address that is not a chunk")
        yield at
        (link,) = memory.words(at + 16)
        plain = link ^ (at + 16 >> 12)
        at = plain if plain % 16 == 0 else link
        count += 1
    if at:
        raise InconsistentRead("a fast bin has no end")


def _find_mapped_blocks(memory: Memory, mapping: MemoryMapping) -> list[LargeBlock]:
    """Return the chunks in this mapping that malloc gave a mapping of their own; none if it has
    none.

    The kernel merges neighbours into one mapping, so that chunks may follow one another, with
    mappings of others between. What looks like a chunk is taken for one at the mapping's start,
    right behind another one, or if it has at least the size from which malloc maps.
    """
    if not memory.budget.remaining(Work.PAGES) or not memory.budget.remaining(Work.BLOCKS):
        memory.budget.note_limit(Work.BLOCKS if memory.budget.remaining(Work.PAGES) else Work.PAGES)
        return []
    if mapping.size < _THRESHOLD and not _begins_with_block(memory, mapping):
        return []  # in so small a mapping there is one at its start, or none
    span = memory.span(mapping.start, mapping.end)
    blocks: list[LargeBlock] = []
    behind = mapping.start
    pages_read = 0
    for run_start, run_end in zip(span.starts, span.ends, strict=True):
        at = max(run_start, behind)
        while at < run_end:
            pages_read += 1
            if pages_read % _PAGE_BATCH == 0 and (
                memory.budget.out_of_time or not memory.budget.spend(Work.PAGES, _PAGE_BATCH)
            ):
                return blocks
            before, size = memory.read_first_words(at)
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
            if not memory.budget.spend(Work.BLOCKS):
                return blocks
            blocks.append(LargeBlock(at, length, span.count_resident(at, at + length)))
            at = behind = at + length
    memory.budget.spend(Work.PAGES, pages_read % _PAGE_BATCH)
    return blocks


def _begins_with_block(memory: Memory, mapping: MemoryMapping) -> bool:
    try:
        before, size = memory.words(mapping.start, 2)
    except OSError:
        return False
    return size & _FLAGS == _MAPPED and not before


def walk_heap(
    memory: Memory, mappings: Sequence[MemoryMapping], libc: str, others: Collection[int]
) -> GlibcHeap:
    """Walk the heap of a process. ``libc``: the file whose malloc it is; ``others``: starts of
    mappings that are known not to be malloc's.
    """
    heap_candidates = _find_heaps(memory, mappings)
    brk = next((m for m in mappings if m.path == "[heap]"), None)
    ring, trouble = _find_arena_ring(memory, mappings, libc, brk, list(heap_candidates))
    readings = []
    if ring:
        heaps_of = {ring.main: [brk] if brk else []} if ring.main else {}
        # What looks like a heap but belongs to no arena of the ring is not malloc's.
        heaps_of |= {
            address: heaps
            for address, heaps in heap_candidates.items()
            if address in ring.addresses
        }
        for address, heaps in heaps_of.items():
            try:
                readings.append(
                    _read_arena(memory, ring.layout, address, heaps, main=address == ring.main)
                )
            except (InconsistentRead, OSError) as error:
                trouble.append(f"glibc's arena {address:#x} was not read: {error}")
    claimed = {m.start for arena in readings for m in arena.heaps} | set(others)
    mapped = {
        m.start: blocks
        for m in mappings
        if m.private
        and m.start not in claimed
        and m.rss
        and (blocks := _find_mapped_blocks(memory, m))
    }
    return GlibcHeap(readings, mapped, trouble)


@dataclass(frozen=True)
class _ArenaRing:
    """The layout with which the ring of arenas closes, the main arena if it was found, and the
    addresses of all arenas.
    """

    layout: ArenaLayout
    main: int | None
    addresses: set[int]


def _find_arena_ring(
    memory: Memory,
    mappings: Sequence[MemoryMapping],
    libc: str,
    brk: MemoryMapping | None,
    candidates: list[int],
) -> tuple[_ArenaRing | None, list[str]]:
    """Return the ring of arenas in the layout with which it closes, else None and what is wrong."""
    trouble = ["glibc's heap was not read (no arena of a known layout): all of it is one line"]
    for layout in LAYOUTS:
        main = find_main_arena(memory, layout, _find_writable_data(mappings, libc), brk, candidates)
        if main is None and not candidates:
            continue
        try:
            addresses = _follow_arena_ring(memory, layout, candidates, main)
        except (InconsistentRead, OSError) as error:
            trouble = [f"glibc's heap was not read ({error}): all of it is one line"]
            continue
        return _ArenaRing(layout, main, addresses), []
    return None, trouble


def find_arenas(memory: Memory, mappings: Sequence[MemoryMapping], libc: str) -> set[int]:
    """Return the addresses of all arenas, each of which begins with its mutex; none if they are not
    found. ``mappings``: as :func:`split_off_heaps` returns them. No chunk is read.
    """
    brk = next((m for m in mappings if m.path == "[heap]"), None)
    ring, _ = _find_arena_ring(memory, mappings, libc, brk, list(_find_heaps(memory, mappings)))
    return ring.addresses if ring else set()


def _find_writable_data(mappings: Sequence[MemoryMapping], libc: str) -> list[MemoryMapping]:
    """Return a library's writable mappings, its .bss included."""
    places = [
        i for i, m in enumerate(mappings) if m.path == libc and m.permissions.startswith("rw")
    ]
    bss = [
        after
        for i in places
        for after in mappings[i + 1 : i + 2]
        if after.private and after.start == mappings[i].end
    ]
    return [*(mappings[i] for i in places), *bss]
