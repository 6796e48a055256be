"""A line of the ledger, and the names of its owners. Pure."""

from dataclasses import dataclass, replace
from typing import Literal

from dballoc.evidence.sql.server_memory import ServerMemory, parse_number
from dballoc.ground.numbers import with_unit
from dballoc.process.heaps import allocator_statistics
from dballoc.process.heaps.allocator_statistics import LIVE_ALL
from dballoc.process.mapping_kind import MappingKind

# exact: counted page by page; likely: pages counted, and their owner known by their size; labelled:
# the owner's own figure; sampled: an estimate.
Confidence = Literal["exact", "likely", "labelled", "sampled"]

LIVE, MAPPED = allocator_statistics.LIVE_SMALL, allocator_statistics.LIVE_LARGE
UNNAMED = "mapped by the server itself"
UNACCOUNTED = "what the allocator does not account for"
LAZY = allocator_statistics.LAZY
# Lines whose memory counts as unowned.
UNOWNED = (LIVE, MAPPED, LIVE_ALL, UNNAMED, MappingKind.MALLOC, UNACCOUNTED)

# Bounds that are nearer to each other, in bytes or as a share, are as good as a figure.
NEAR_BYTES, _NEAR_SHARE = 1 << 20, 0.02


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """``resident`` bytes of RSS that ``owner`` has; ``size``: of address space, or as asked for,
    where that differs. ``source``: where the figure is from; ``note``: a remark on it; ``parts``:
    the largest users of ``size``, in bytes each. ``least`` and ``most``: bounds of ``resident``
    where its pages cannot be told from others', None where they can.
    """

    group: str
    owner: str
    resident: int
    size: int
    source: str
    confidence: Confidence
    note: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    least: int | None = None
    most: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether only bounds of its resident bytes are known, and they are not near each other."""
        if self.least is None or self.most is None:
            return False
        return self.most - self.least >= max(NEAR_BYTES, _NEAR_SHARE * self.resident)

    def describe_bounds(self) -> str:
        """Return its bounds and what was asked for, in words; empty where its pages are known and
        all that was asked for is resident.
        """
        least, most = self.bounds
        words = []
        if self.is_bounded and most - self.resident >= NEAR_BYTES:
            words.append(f"{with_unit(least)} to {with_unit(most)}")
        elif self.is_bounded:
            words.append(f"at most; at least {with_unit(least)}")
        # Of a cache that the server maps, the size is that of its mapping.
        is_request = self.confidence == "labelled" and self.group == "heap"
        if is_request and (missing := self.size - self.resident) >= NEAR_BYTES:
            words.append(f"asked for {with_unit(self.size)}")
            if not self.is_bounded:
                words.append(f"{with_unit(missing)} not resident")
        return "; ".join(words)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the most resident bytes."""
        return (
            self.resident if self.least is None else self.least,
            self.resident if self.most is None else self.most,
        )


def subtract(line: LedgerLine, resident: int, size: int) -> LedgerLine:
    """Return the line with so many bytes less."""
    return replace(line, resident=line.resident - resident, size=line.size - size)


def read_variable(labels: ServerMemory | None, name: str) -> int:
    """Return a numeric variable of the server; 0 where it is unknown or the server was not
    asked.
    """
    return parse_number(labels.variables, name) if labels else 0
