"""Huge pages outside the buffer pool, and how much of them was never written: small pages within
them that are all zero.

The kernel's own shrinker of underused huge pages (since 6.12) tells them in the same way. Some
small pages of some huge ones are read, so that the cost has a bound; which ones is drawn from a
fixed seed.
"""

import random
from dataclasses import dataclass

from dballoc.process_memory.mapping_kind import Kind
from dballoc.process_memory.memory_reader import PAGE, Memory
from dballoc.process_memory.process_snapshot import Outside
from dballoc.process_memory.smaps import Mapping

SIZE = 2 << 20
_KINDS = (Kind.HEAP, Kind.MALLOC, Kind.REST, Kind.STACK, Kind.OLD_STACK)

# So many small pages give the share to ±2 % (standard error) and take a few ms.
_READ = 1024
_ZERO = bytes(PAGE)


@dataclass(frozen=True)
class Huge:
    """``bytes`` of huge pages in the heap, in stacks, in caches; of ``read`` small pages in them,
    so many were ``empty``.
    """

    bytes: int
    read: int
    empty: int

    @property
    def share(self) -> float:
        """Of them that is empty, by the sample."""
        return self.empty / self.read if self.read else 0.0


def look(seen: Outside) -> Huge | None:
    """None where there are none. OSError if the process is gone."""
    mine = [
        m for m, kind in zip(seen.mappings, seen.kinds, strict=True) if kind in _KINDS and m.huge
    ]
    if not mine:
        return None
    total = sum(m.huge for m in mine)
    with Memory(seen.pid, seen.effort) as memory:
        candidates = [at for m in mine for at in _whole(memory, m)]
        draw = random.Random(0)
        places = [
            draw.choice(candidates) + PAGE * draw.randrange(SIZE // PAGE)
            for _ in range(_READ if candidates else 0)
        ]
        found = [memory.page(at) for at in sorted(places)]
    read = [page for page in found if page]
    return Huge(total, len(read), sum(page == _ZERO for page in read))


def _whole(memory: Memory, mapping: Mapping) -> list[int]:
    """Where in it huge pages may lie: 2 MiB that are all there."""
    first, end = -(-mapping.start // SIZE) * SIZE, mapping.end // SIZE * SIZE
    if end <= first:
        return []
    return list(memory.span(first, end).multiples(SIZE, whole=True))
