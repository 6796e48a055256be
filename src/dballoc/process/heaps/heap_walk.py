"""A malloc's heap as it was walked from outside, whichever malloc it is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dballoc.process.heaps.allocator_statistics import AllocatorStatistics


@dataclass(frozen=True)
class LargeBlock:
    """A large block: its address and bytes, and how many of those are in memory.

    ``rounded``: malloc has rounded up the requested size by less than this; 0 for glibc, which
    rounds up to pages only.
    """

    address: int
    size: int
    resident: int
    rounded: int = 0

    @property
    def asked(self) -> int:
        """The bytes that were requested, as far as they can be known: those that were touched, but
        no fewer than the rounding allows.
        """
        return max(self.resident, self.size - self.rounded) if self.rounded else self.size


@dataclass(frozen=True, kw_only=True)
class BlockGroup:
    """Live blocks of nearly one size: ``size``: the largest of them; ``count``: how many;
    ``bytes``: of all, with malloc's headers, as they were asked for and not as they are resident.
    """

    size: int
    count: int
    bytes: int


# Blocks whose sizes differ by less than this share are one group; so many groups are kept, those
# with most bytes.
_NEAR, _MOST_GROUPS = 1 / 64, 32
# Smaller blocks are not counted by size, and no more sizes than this.
LEAST_COUNTED, MOST_SIZES = 4096, 1 << 16


def group_blocks(sizes: Mapping[int, int]) -> list[BlockGroup]:
    """Group blocks by size, the groups with most bytes first. ``sizes``: how many blocks there are
    of each size. Pure.
    """
    groups: list[BlockGroup] = []
    members: list[int] = []
    for size in [*sorted(sizes, reverse=True), 0]:
        if members and size < members[0] * (1 - _NEAR):
            groups.append(
                BlockGroup(
                    size=members[0],
                    count=sum(sizes[member] for member in members),
                    bytes=sum(member * sizes[member] for member in members),
                )
            )
            members = []
        members.append(size)
    return sorted(groups, key=lambda group: -group.bytes)[:_MOST_GROUPS]


def count_blocks(blocks: Iterable[LargeBlock]) -> dict[int, int]:
    """Return how many blocks there are of each size."""
    counts: dict[int, int] = {}
    for block in blocks:
        counts[block.size] = counts.get(block.size, 0) + 1
    return counts


class HeapWalk(Protocol):
    """What the walk of a heap has found."""

    @property
    def statistics(self) -> AllocatorStatistics:
        """What the malloc holds, with the resident bytes of each holding; nothing is live if the
        heap could not be read. Its notes say what was not.
        """

    @property
    def blocks(self) -> list[LargeBlock]:
        """The large blocks, those with pages of their own and those in an arena."""

    @property
    def groups(self) -> list[BlockGroup]:
        """Live blocks of 4 KiB and more by size, those with most bytes first; small ones are not
        among them.
        """

    @property
    def trimmable(self) -> int | None:
        """The resident bytes that the malloc gives back if it is asked to; None if not known."""

    @property
    def free_by_arena(self) -> list[int]:
        """The resident bytes that each arena holds free; empty for a malloc without arenas."""
