"""What an allocator has its memory for: as it says itself, or as its heap was walked."""

from dataclasses import dataclass, field, replace

LIVE_SMALL, LIVE_LARGE, LIVE_ALL = "live heap, small blocks", "live heap, large blocks", "live heap"
CACHES, HELD, LAZY, METADATA = "threads' caches", "free but held", "lazily freed", "malloc's own"
TCACHE, FAST_BINS = "threads' caches (tcache)", "fast bins"
HEADERS, FOREIGN = "malloc's headers of live blocks", "in the heap, and not malloc's"
LIVE = (LIVE_LARGE, LIVE_ALL, LIVE_SMALL)
# A part of these may never have been touched.
_UNCERTAIN = (*LIVE, HELD, LAZY)


@dataclass(frozen=True)
class Holding:
    """Bytes that an allocator has for one purpose. Those that were never touched are not in memory;
    ``resident``: how many are, None where that is not known.
    """

    owner: str
    bytes: int
    note: str = ""
    resident: int | None = None


@dataclass(frozen=True, kw_only=True)
class AllocatorStatistics:
    """An allocator's statistics, in bytes.

    ``holdings``: empty if it has no statistics; ``returned``: address space without memory behind
    it; ``live``: bytes in use, None where it does not count them; ``age``: how many seconds ago the
    statistics were read; ``took``: how many seconds the server took to read them; ``exact``: its
    heap has mappings of its own, and what is resident of each holding was counted.
    """

    allocator: str
    holdings: list[Holding]
    live: int | None = None
    returned: int = 0
    notes: list[str] = field(default_factory=list)
    age: float = 0.0
    took: float = 0.0
    exact: bool = False

    @property
    def source(self) -> str:
        """The source that a ledger's lines name."""
        return f"{self.allocator}'s books"


def make_statistics(
    allocator: str, holdings: list[Holding], returned: int = 0, notes: list[str] | None = None
) -> AllocatorStatistics:
    """Make an allocator's statistics of its holdings. Negative figures become 0: figures that were
    read one after the other may contradict each other.
    """
    valid = [replace(h, bytes=max(0, h.bytes)) for h in holdings]
    live = [h.bytes for h in valid if h.owner in LIVE]
    return AllocatorStatistics(
        allocator=allocator,
        holdings=valid,
        live=sum(live) if live else None,
        returned=max(0, returned),
        notes=notes or [],
    )


def apportion_resident(statistics: AllocatorStatistics, pages: int) -> list[tuple[Holding, int]]:
    """Return how many bytes of each holding are in memory, at most ``pages`` bytes of all.

    If the holdings are more than ``pages``, the difference was never touched: the ends of live
    blocks that were rounded up or asked for in advance, and free pages that were never used. How
    much of it belongs to which holding is not known, so it is taken from all such holdings in
    proportion. Caches and metadata have been written to: they are reduced, with all others in
    proportion, only if that is not enough. A holding whose resident bytes are known starts with
    those.
    """
    reported = {h.owner: h.bytes if h.resident is None else h.resident for h in statistics.holdings}
    resident_bytes = dict(reported)
    for owners in (_UNCERTAIN, tuple(resident_bytes)):
        total = sum(size for owner, size in resident_bytes.items() if owner in owners)
        untouched = sum(resident_bytes.values()) - pages
        if untouched > 0 and total:
            reduced = max(0, total - untouched)
            resident_bytes = {
                owner: size * reduced // total if owner in owners else size
                for owner, size in resident_bytes.items()
            }
    if statistics.holdings:
        # The few bytes lost by rounding down go to the largest holding, because they are not worth
        # a line.
        largest = max(reported, key=lambda owner: reported[owner])
        lost = max(0, min(sum(reported.values()), pages) - sum(resident_bytes.values()))
        resident_bytes[largest] += min(lost, reported[largest] - resident_bytes[largest])
    return [(h, resident_bytes[h.owner]) for h in statistics.holdings]
