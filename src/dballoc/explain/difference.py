"""Two looks compared line by line: what grew. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dballoc.explain.attribution.ledger import Ledger
from dballoc.explain.explanation import Explanation
from dballoc.numbers import duration, percent, with_unit

REST = "rest: pages that no class claims"


@dataclass(frozen=True)
class Change:
    """A line of either look; resident bytes."""

    group: str
    owner: str
    before: int
    after: int

    @property
    def change(self) -> int:
        """After less before."""
        return self.after - self.before


@dataclass(frozen=True, kw_only=True)
class Difference:
    """``changes``: every line of both, the rest included, the largest rise first; they add up to
    RSS's change. ``beside``: what RSS does not count, before and after. ``notes``: what makes the
    two less comparable.
    """

    before: Explanation
    after: Explanation
    changes: list[Change]
    beside: dict[str, tuple[int, int]]
    notes: list[str]

    @property
    def rss(self) -> int:
        """RSS after less before."""
        return self.after.ledger.rss - self.before.ledger.rss

    @property
    def seconds(self) -> float:
        """From the one look to the other."""
        return self.after.taken - self.before.taken

    @property
    def sentence(self) -> str:
        """What RSS did, and which line most of it is."""
        whole = self.rss
        over = f" in {duration(self.seconds)}" if self.seconds > 0 else ""
        if not whole:
            return f"RSS is the same{over}: {with_unit(self.after.ledger.rss)}."
        best = self.changes[0] if whole > 0 else self.changes[-1]
        verb = "grew" if whole > 0 else "shrank"
        found = f"RSS {verb} by {with_unit(abs(whole))}{over}"
        if best.change * whole <= 0:
            return f"{found}."
        return (
            f"{found}; most of it is {best.owner}, {with_unit(abs(best.change))} "
            f"({percent(best.change / whole, 0)})."
        )

    def as_json(self) -> dict[str, Any]:
        """Bytes; ``share``: of RSS's change, None where that is none."""
        return {
            "sentence": self.sentence,
            "seconds": self.seconds,
            "rss": {
                "before": self.before.ledger.rss,
                "after": self.after.ledger.rss,
                "change": self.rss,
            },
            "changes": [
                asdict(c) | {"change": c.change, "share": c.change / self.rss if self.rss else None}
                for c in self.changes
            ],
            "beside": {
                what: {"before": a, "after": b, "change": b - a}
                for what, (a, b) in self.beside.items()
            },
            "notes": self.notes,
        }


def difference(before: Explanation, after: Explanation) -> Difference:
    """Of two looks, at one server or at two."""
    old, new = _sizes(before.ledger), _sizes(after.ledger)
    changes = [Change(*key, old.get(key, 0), new.get(key, 0)) for key in {**old, **new}]
    changes.sort(key=lambda c: -c.change)
    beside = {
        what: (before.ledger.beside.get(what, 0), after.ledger.beside.get(what, 0))
        for what in {**before.ledger.beside, **after.ledger.beside}
    }
    return Difference(
        before=before,
        after=after,
        changes=changes,
        beside=beside,
        notes=_notes(before.ledger, after.ledger),
    )


def _sizes(ledger: Ledger) -> Mapping[tuple[str, str], int]:
    """Lines of the same name are one."""
    found: dict[tuple[str, str], int] = {}
    for line in ledger.lines:
        key = line.group, str(line.owner)
        found[key] = found.get(key, 0) + line.resident
    return found | {("rest", REST): ledger.rest}


def _notes(before: Ledger, after: Ledger) -> list[str]:
    found = []
    if before.executable != after.executable:
        found.append(f"two servers: {before.executable} and {after.executable}")
    elif before.pid != after.pid:
        found.append(f"two processes: {before.pid} and {after.pid}")
    if before.malloc != after.malloc:
        found.append(f"two mallocs: {before.malloc} and {after.malloc}")
    if before.tiers != after.tiers:
        found.append(
            f"known from {', '.join(before.tiers)} before and from {', '.join(after.tiers)} after: "
            "lines differ by that alone"
        )
    return found
