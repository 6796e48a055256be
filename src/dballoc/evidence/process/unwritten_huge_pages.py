"""Huge pages outside the buffer pool, and how much of them was never written: small pages within
them that are all zero.

The kernel's own shrinker of underused huge pages (since 6.12) recognizes them in the same way. A
fixed number of small pages is read, drawn at random from a fixed seed, so that the cost is
bounded.
"""

import random
from dataclasses import dataclass

from dballoc.host.settings import thp
from dballoc.process.mapping_kind import MappingKind
from dballoc.process.memory_reader import PAGE, Memory
from dballoc.process.smaps import MemoryMapping
from dballoc.process.snapshot import ProcessSnapshot

# Where the kernel does not say: that with pages of 4 KiB.
_USUAL_SIZE = 2 << 20
_KINDS = (
    MappingKind.HEAP,
    MappingKind.MALLOC,
    MappingKind.REST,
    MappingKind.STACK,
    MappingKind.OLD_STACK,
)

# So many small pages give the share to ±2 % (standard error) and take a few ms.
_READ = 1024
_ZERO = bytes(PAGE)


@dataclass(frozen=True)
class HugePageSample:
    """``bytes`` of huge pages in the heap, in stacks and in caches; of the small pages in them,
    ``read`` were read and ``empty`` of these were all zero.
    """

    bytes: int
    read: int
    empty: int

    @property
    def share(self) -> float:
        """The share of them that is empty, by the sample."""
        return self.empty / self.read if self.read else 0.0


def sample_huge_pages(snapshot: ProcessSnapshot) -> HugePageSample | None:
    """Sample the huge pages of a process; None if it has none outside the buffer pool. Raises
    OSError if the process is gone.
    """
    mappings = [mapping for mapping in snapshot.mappings_of(*_KINDS) if mapping.huge]
    if not mappings:
        return None
    size = thp.read_mapped_size() or _USUAL_SIZE
    with Memory(snapshot.process, snapshot.budget) as memory:
        candidates = [address for m in mappings for address in _find_huge_pages(memory, m, size)]
        draw = random.Random(0)
        addresses = [
            draw.choice(candidates) + PAGE * draw.randrange(size // PAGE)
            for _ in range(_READ if candidates else 0)
        ]
        pages = [page for address in sorted(addresses) if (page := memory.page(address))]
    return HugePageSample(
        sum(m.huge for m in mappings), len(pages), sum(page == _ZERO for page in pages)
    )


def _find_huge_pages(memory: Memory, mapping: MemoryMapping, size: int) -> list[int]:
    """Return the addresses in it where huge pages of ``size`` bytes may lie: all resident."""
    first, end = -(-mapping.start // size) * size, mapping.end // size * size
    if end <= first:
        return []
    return list(memory.span(first, end).multiples(size, fully_resident=True))
