"""What the walk of glibc's heap finds: arenas, and blocks with a mapping of their own."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from dballoc.process.heaps.allocator_statistics import (
    FAST_BINS,
    FOREIGN,
    HEADERS,
    HELD,
    LIVE_LARGE,
    LIVE_SMALL,
    METADATA,
    TCACHE,
    AllocatorStatistics,
    Holding,
    make_statistics,
)
from dballoc.process.heaps.heap_walk import (
    MOST_SIZES,
    BlockGroup,
    LargeBlock,
    count_blocks,
    group_blocks,
)
from dballoc.process.smaps import MemoryMapping

# glibc's header of a small block that malloc has given out: the word with its size (malloc.c,
# "chunk").
_HEADER = 8


@dataclass(kw_only=True)
class HeapUsage:
    """The bytes of a heap's chunks, ``…_resident`` those of them that are in memory.

    ``live``: chunks in use, with their headers; ``free``: in bins, and at the top;
    ``live_chunks``: how many chunks ``live`` is; ``blocks``: the large ones of those;
    ``trimmable``: resident bytes in whole free pages, which malloc_trim gives back; ``sizes``: how
    many there are of each size, small ones left out.
    """

    chunks: int = 0
    live_chunks: int = 0
    live: int = 0
    live_resident: int = 0
    free: int = 0
    free_resident: int = 0
    trimmable: int = 0
    blocks: list[LargeBlock] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)

    def add(self, other: "HeapUsage") -> None:
        """Add the chunks of another heap."""
        for name in (each.name for each in fields(HeapUsage) if each.type is int):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.blocks += other.blocks
        for size, number in other.sizes.items():
            self.sizes[size] = self.sizes.get(size, 0) + number


@dataclass(kw_only=True)
class ArenaUsage(HeapUsage):
    """All of one arena. What its caches hold is not ``live``: ``tcache`` and ``fast``, freed, and
    kept for the next malloc of the size. ``blocks_resident``: bytes of its ``blocks``;
    ``metadata``: heap and arena headers, fence posts; ``unread``: resident bytes that could not be
    read as chunks.
    """

    address: int
    system: int = 0
    tcache: int = 0
    fast: int = 0
    metadata: int = 0
    metadata_resident: int = 0
    heaps: list[MemoryMapping] = field(default_factory=list)
    unread: int = 0
    blocks_resident: int = 0

    @property
    def small_resident(self) -> int:
        """The resident bytes of live chunks that are not large."""
        return self.live_resident - self.blocks_resident


@dataclass(frozen=True)
class GlibcHeap:
    """All of a process's heap, a :class:`dballoc.process.heaps.heap_walk.HeapWalk`:
    ``arenas``, the main one first if it was found; ``mapped``: blocks with a mapping of their own,
    by the mapping's start; ``trouble``: what could not be read, in words.
    """

    arenas: list[ArenaUsage]
    mapped: dict[int, list[LargeBlock]]
    trouble: list[str]

    @cached_property
    def blocks(self) -> list[LargeBlock]:
        """The blocks with a mapping of their own, and those in arenas that are as large. Where a
        large block was freed once, malloc puts blocks up to its size, and 32 MiB, into arenas.
        """
        return [*self._mapped_blocks, *(block for arena in self.arenas for block in arena.blocks)]

    @cached_property
    def groups(self) -> list[BlockGroup]:
        """Live blocks by size."""
        counts = count_blocks(self._mapped_blocks)
        for arena in self.arenas:
            for size, count in arena.sizes.items():
                if size in counts or len(counts) < MOST_SIZES:
                    counts[size] = counts.get(size, 0) + count
        return group_blocks(counts)

    @cached_property
    def _mapped_blocks(self) -> list[LargeBlock]:
        return [block for blocks in self.mapped.values() for block in blocks]

    @property
    def trimmable(self) -> int | None:
        """The resident bytes that malloc_trim gives back."""
        return self._sum(lambda arena: arena.trimmable)

    @property
    def free_by_arena(self) -> list[int]:
        """The resident bytes that each arena holds free."""
        return [arena.free_resident for arena in self.arenas]

    @cached_property
    def statistics(self) -> AllocatorStatistics:
        """What all arenas hold together, and the mapped blocks. As malloc itself counts, what is in
        threads' caches is live.
        """
        return replace(
            make_statistics("glibc", self._list_holdings()),
            live=self._sum(lambda arena: arena.live + arena.tcache)
            + sum(block.size for block in self._mapped_blocks),
            notes=self.trouble,
            exact=True,
        )

    def _list_holdings(self) -> list[Holding]:
        large = [block for arena in self.arenas for block in arena.blocks]
        live = self._sum(lambda a: a.live) - sum(block.size for block in large)
        resident = self._sum(lambda a: a.small_resident)
        chunks = self._sum(lambda a: a.live_chunks) - len(large)
        headers = min(_HEADER * chunks, resident)
        in_arenas = f"{len(self.arenas)} arenas, {chunks} chunks"
        tcache, fast = self._sum(lambda a: a.tcache), self._sum(lambda a: a.fast)
        most_free = f"most of one arena: {max(self.free_by_arena, default=0) / 2**20:.1f} MiB"
        unread = self._sum(lambda a: a.unread)
        return [
            Holding(LIVE_SMALL, live - headers, in_arenas, resident - headers),
            Holding(HEADERS, headers, f"{_HEADER} bytes of each chunk", headers),
            Holding(
                LIVE_LARGE,
                sum(block.size for block in self.blocks),
                f"{len(self.blocks)} blocks"
                + (f", {len(large)} of them in arenas" if large else ""),
                sum(block.resident for block in self.blocks),
            ),
            Holding(TCACHE, tcache, resident=tcache),
            Holding(FAST_BINS, fast, resident=fast),
            Holding(HELD, self._sum(lambda a: a.free), most_free, sum(self.free_by_arena)),
            Holding(
                METADATA,
                self._sum(lambda a: a.metadata),
                resident=self._sum(lambda a: a.metadata_resident),
            ),
            Holding(FOREIGN, unread, resident=unread),
        ]

    def _sum(self, count: Callable[[ArenaUsage], int]) -> int:
        return sum(map(count, self.arenas))
