"""A malloc's heap as it was walked from outside, whichever malloc it is."""

from dataclasses import dataclass
from typing import Protocol

from dballoc.process_memory.heaps.allocator_statistics import AllocatorStatistics


@dataclass(frozen=True)
class Block:
    """A block with pages of its own: their address and bytes, and how many of those are in memory.

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


class HeapWalk(Protocol):
    """What the walk of a heap has found."""

    @property
    def statistics(self) -> AllocatorStatistics:
        """What the malloc holds, with the resident bytes of each holding; nothing is live if the
        heap could not be read. Its notes say what was not.
        """

    @property
    def blocks(self) -> list[Block]:
        """The blocks with pages of their own."""

    @property
    def free_by_arena(self) -> list[int]:
        """The resident bytes that each arena holds free; empty for a malloc without arenas."""
