"""An allocator's account of itself."""

from dataclasses import dataclass, field

LIVE_SMALL, LIVE_LARGE, LIVE_ALL = "live heap, small blocks", "live heap, large blocks", "live heap"
CACHES, HELD, LAZY, OWN = "threads' caches", "free but held", "lazily freed", "malloc's own"
LIVE = (LIVE_LARGE, LIVE_ALL, LIVE_SMALL)


@dataclass(frozen=True)
class Holding:
    """Bytes that it has for one purpose, which need not all be in memory: what was never touched is not."""

    owner: str
    bytes: int
    note: str = ""


@dataclass(frozen=True)
class Account:
    """``holdings``: empty if it does not tell; ``returned``: address space without memory behind it; ``live``: bytes in use,
    None where it does not count them.
    """

    allocator: str
    holdings: list[Holding]
    live: int | None = None
    returned: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        """For the lines of a ledger."""
        return f"{self.allocator}'s books"


def account(allocator: str, holdings: list[Holding], returned: int = 0, notes: list[str] | None = None) -> Account:
    """From what it has; nothing is below 0 (figures that were read one after the other may contradict each other)."""
    found = [Holding(h.owner, max(0, h.bytes), h.note) for h in holdings]
    live = [h.bytes for h in found if h.owner in LIVE]
    return Account(allocator, found, sum(live) if live else None, max(0, returned), notes or [])


def resident(found: Account, pages: int) -> list[tuple[Holding, int]]:
    """How much of each holding is in memory, of ``pages`` resident bytes that are its at most.

    Whatever is told beyond the pages was never touched. That is what was asked for and not yet used, so live memory has it,
    the large blocks before the small ones; only if that is not enough, everything else in proportion.
    """
    missing = sum(h.bytes for h in found.holdings) - pages
    there = {h.owner: h.bytes for h in found.holdings}
    for owner in LIVE:
        if missing > 0 and owner in there:
            less = min(missing, there[owner])
            there[owner] -= less
            missing -= less
    if missing > 0:
        whole = sum(there.values())
        there = {owner: size * pages // whole for owner, size in there.items()}
    return [(h, there[h.owner]) for h in found.holdings]
