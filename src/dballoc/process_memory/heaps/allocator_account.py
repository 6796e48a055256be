"""An allocator's account of itself."""

from dataclasses import dataclass, field, replace

LIVE_SMALL, LIVE_LARGE, LIVE_ALL = "live heap, small blocks", "live heap, large blocks", "live heap"
CACHES, HELD, LAZY, OWN = "threads' caches", "free but held", "lazily freed", "malloc's own"
LIVE = (LIVE_LARGE, LIVE_ALL, LIVE_SMALL)
# Of these a part may never have been touched.
_UNCERTAIN = (*LIVE, HELD, LAZY)


@dataclass(frozen=True)
class Holding:
    """Bytes that it has for one purpose, which need not all be in memory: what was never touched is
    not. ``resident``: how many are, None where that is not known.
    """

    owner: str
    bytes: int
    note: str = ""
    resident: int | None = None


@dataclass(frozen=True, kw_only=True)
class Account:
    """``holdings``: empty if it does not tell; ``returned``: address space without memory behind
    it; ``live``: bytes in use, None where it does not count them; ``age``: seconds that the figures
    are old; ``took``: seconds in which the server asked for them.
    """

    allocator: str
    holdings: list[Holding]
    live: int | None = None
    returned: int = 0
    notes: list[str] = field(default_factory=list)
    age: float = 0.0
    took: float = 0.0

    @property
    def source(self) -> str:
        """For the lines of a ledger."""
        return f"{self.allocator}'s books"


def account(
    allocator: str, holdings: list[Holding], returned: int = 0, notes: list[str] | None = None
) -> Account:
    """From what it has; nothing is below 0 (figures that were read one after the other may
    contradict each other).
    """
    found = [replace(h, bytes=max(0, h.bytes)) for h in holdings]
    live = [h.bytes for h in found if h.owner in LIVE]
    return Account(
        allocator=allocator,
        holdings=found,
        live=sum(live) if live else None,
        returned=max(0, returned),
        notes=notes or [],
    )


def resident(found: Account, pages: int) -> list[tuple[Holding, int]]:
    """How much of each holding is in memory, of ``pages`` resident bytes that are its at most.

    Whatever is told beyond the pages was never touched: the ends of live blocks that were rounded
    up or asked for in advance, and free pages that nobody has used yet. Which of them is not known,
    so they have it in proportion. Caches and metadata have been written to; only if all else is not
    enough, everything is less in proportion. Where it is known it is that.
    """
    told = {h.owner: h.bytes if h.resident is None else h.resident for h in found.holdings}
    there = dict(told)
    for owners in (_UNCERTAIN, tuple(there)):
        whole = sum(size for owner, size in there.items() if owner in owners)
        missing = sum(there.values()) - pages
        if missing > 0 and whole:
            left = max(0, whole - missing)
            there = {
                owner: size * left // whole if owner in owners else size
                for owner, size in there.items()
            }
    if found.holdings:
        # What the divisions have left over: a few bytes are no line of their own.
        largest = max(told, key=lambda owner: told[owner])
        over = max(0, min(sum(told.values()), pages) - sum(there.values()))
        there[largest] += min(over, told[largest] - there[largest])
    return [(h, there[h.owner]) for h in found.holdings]
