"""A line of the ledger, and the names of its owners. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dballoc.explain.sources.server_memory import ServerMemory, parse_number
from dballoc.process_memory.heaps import allocator_statistics
from dballoc.process_memory.heaps.allocator_statistics import LIVE_ALL
from dballoc.process_memory.heaps.heap_walk import Block
from dballoc.process_memory.mapping_kind import Kind
from dballoc.process_memory.process_snapshot import ServerMapping

# exact: counted page by page; likely: pages counted, and their owner known by their size; labelled:
# the owner's own figure; sampled: an estimate.
Confidence = Literal["exact", "likely", "labelled", "sampled"]

LIVE, MAPPED = allocator_statistics.LIVE_SMALL, allocator_statistics.LIVE_LARGE
UNNAMED = "mapped by the server itself"
UNACCOUNTED = "what the allocator does not account for"
LAZY = allocator_statistics.LAZY
# Lines whose memory counts as unowned.
UNOWNED = (LIVE, MAPPED, LIVE_ALL, UNNAMED, Kind.MALLOC, UNACCOUNTED)


@dataclass(frozen=True, kw_only=True)
class Line:
    """``resident`` bytes of RSS that ``owner`` has; ``size``: of address space, or as asked for,
    where that differs. ``source``: where the figure is from; ``note``: a remark on it; ``parts``:
    the largest users of ``size``, in bytes each.
    """

    group: str
    owner: str
    resident: int
    size: int
    source: str
    confidence: Confidence
    note: str = ""
    parts: tuple[tuple[str, int], ...] = ()


def subtract(line: Line, resident: int, size: int) -> Line:
    """Return the line with so many bytes less."""
    return replace(line, resident=line.resident - resident, size=line.size - size)


def sum_sizes(pieces: Sequence[Block | ServerMapping]) -> tuple[int, int]:
    """Return the resident bytes and the size of all of them."""
    return sum(p.resident for p in pieces), sum(p.size for p in pieces)


def read_variable(labels: ServerMemory | None, name: str) -> int:
    """Return a numeric variable of the server; 0 where it is unknown or the server was not
    asked.
    """
    return parse_number(labels.variables, name) if labels else 0
