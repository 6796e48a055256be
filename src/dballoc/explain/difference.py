"""Two snapshots compared line by line: what grew. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dballoc.explain.explanation import Explanation
from dballoc.explain.ledger.ledger import Ledger
from dballoc.ground.numbers import duration, percent, with_unit

# Two snapshots are of one process if they agree on its start to so many seconds: a wall clock that
# is being set moves it a little.
_SAME_START = 5.0
# Address space that nobody can access is named from this share on: MariaDB reserves terabytes for
# a pool that may grow.
_MUCH_RESERVED = 0.1


def compute_cpu_share(before: Explanation, after: Explanation) -> float | None:
    """Return the CPU time per second between two snapshots of one process, 1 = one CPU: what top(1)
    shows. None where they are of two processes, of one moment, or an older dballoc saved them.
    """
    first, last = before.usage, after.usage
    seconds = after.timestamp - before.timestamp
    if not first or not last or seconds <= 0 or before.ledger.pid != after.ledger.pid:
        return None
    starts = [e.timestamp - u.running_seconds for e, u in ((before, first), (after, last))]
    used = last.cpu_seconds - first.cpu_seconds
    if used < 0 or abs(starts[1] - starts[0]) > _SAME_START:
        return None
    return used / seconds


def describe_vsz_and_cpu(series: Sequence[Explanation]) -> str:
    """Return VSZ and %CPU of the last snapshot in words: since the snapshot before it, and since
    the server's start. Empty where an older dballoc saved it.
    """
    usage = series[-1].usage
    if usage is None:
        return ""
    reserved = (
        f" ({with_unit(usage.reserved)} of it reserved)"
        if usage.reserved > _MUCH_RESERVED * usage.vsz
        else ""
    )
    recent = compute_cpu_share(series[-2], series[-1]) if len(series) > 1 else None
    since_start = f"{percent(usage.cpu_share)} since its start"
    cpu = since_start if recent is None else f"{percent(recent)} now, {since_start}"
    return f"VSZ {with_unit(usage.vsz)}{reserved}; CPU {cpu}"


REST = "rest: pages that no class claims"


@dataclass(frozen=True, kw_only=True)
class LineChange:
    """A line of either snapshot; resident bytes. ``least`` and ``most``: bounds of their change,
    None where both snapshots count the pages.
    """

    group: str
    owner: str
    before: int
    after: int
    least: int | None = None
    most: int | None = None

    @property
    def change(self) -> int:
        """After less before."""
        return self.after - self.before

    def describe_bounds(self) -> str:
        """Return the bounds of the change, in words; empty where it is known."""
        if self.least is None or self.most is None:
            return ""
        low, high = (
            f"{'−' if size < 0 else '+'}{with_unit(abs(size))}" for size in (self.least, self.most)
        )
        return f"between {low} and {high}"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """``changes``: every line of both, the rest included, the largest rise first; they add up to
    RSS's change. ``beside``: what RSS does not count, before and after. ``notes``: what makes the
    two less comparable.
    """

    before: Explanation
    after: Explanation
    changes: list[LineChange]
    beside: dict[str, tuple[int, int]]
    notes: list[str]

    @property
    def rss(self) -> int:
        """RSS after less before."""
        return self.after.ledger.rss - self.before.ledger.rss

    @property
    def seconds(self) -> float:
        """From the one snapshot to the other."""
        return self.after.timestamp - self.before.timestamp

    @property
    def vsz(self) -> tuple[int, int] | None:
        """VSZ before and after, bytes; None where an older dballoc saved one of them."""
        first, last = self.before.usage, self.after.usage
        return (first.vsz, last.vsz) if first and last else None

    @property
    def sentence(self) -> str:
        """What RSS did, and which lines did it. A line that changed by more than RSS is named with
        the largest change the other way, which hid part of it.
        """
        change = self.rss
        over = f" in {duration(self.seconds)}" if self.seconds > 0 else ""
        if not change:
            return f"RSS is the same{over}: {with_unit(self.after.ledger.rss)}."
        rise, fall = self.changes[0], self.changes[-1]
        largest, opposite = (rise, fall) if change > 0 else (fall, rise)
        sentence = f"RSS {_describe_change(change)}{over}"
        share = largest.change / change
        bounds = f", {largest.describe_bounds()}" if largest.least is not None else ""
        if share > 1:
            return (
                f"{sentence}: {largest.owner} {_describe_change(largest.change)}{bounds}, "
                f"{opposite.owner} {_describe_change(opposite.change)}."
            )
        part = "most of it is" if share > 0.5 else "the largest part of it is"
        return (
            f"{sentence}; {part} {largest.owner}, {with_unit(abs(largest.change))} "
            f"({percent(share, 0)}){bounds}."
        )

    def as_json(self) -> dict[str, Any]:
        """Bytes; ``share``: of RSS's change, None where RSS did not change; ``cpu_share``: CPU time
        per second between them, None where they are not of one process.
        """
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
                name: {"before": a, "after": b, "change": b - a}
                for name, (a, b) in self.beside.items()
            },
            "vsz": (
                {"before": self.vsz[0], "after": self.vsz[1], "change": self.vsz[1] - self.vsz[0]}
                if self.vsz
                else None
            ),
            "cpu_share": compute_cpu_share(self.before, self.after),
            "notes": self.notes,
        }


def _describe_change(change: int) -> str:
    return f"{'grew' if change > 0 else 'shrank'} by {with_unit(abs(change))}"


def compare_explanations(before: Explanation, after: Explanation) -> Difference:
    """Compare two snapshots, of one server or of two."""
    old, new = (
        ledger.sum_by_line() | {("rest", REST): ledger.rest}
        for ledger in (before.ledger, after.ledger)
    )
    changes = [
        LineChange(
            group=key[0],
            owner=key[1],
            before=old.get(key, 0),
            after=new.get(key, 0),
            least=least,
            most=most,
        )
        for key in {**old, **new}
        for least, most in [_bound_change(before.ledger, after.ledger, key)]
    ]
    changes.sort(key=lambda c: -c.change)
    beside = {
        name: (before.ledger.beside.get(name, 0), after.ledger.beside.get(name, 0))
        for name in {**before.ledger.beside, **after.ledger.beside}
    }
    return Difference(
        before=before,
        after=after,
        changes=changes,
        beside=beside,
        notes=_list_incomparables(before.ledger, after.ledger),
    )


def _bound_change(
    before: Ledger, after: Ledger, key: tuple[str, str]
) -> tuple[int, int] | tuple[None, None]:
    """Return the least and the most change of a line, (None, None) where its pages are known."""
    old, new = ([x for x in each.lines if (x.group, x.owner) == key] for each in (before, after))
    if not any(line.is_bounded for line in (*old, *new)):
        return None, None
    least, most = (
        (sum(x.bounds[0] for x in each), sum(x.bounds[1] for x in each)) for each in (old, new)
    )
    return most[0] - least[1], most[1] - least[0]


def _list_incomparables(before: Ledger, after: Ledger) -> list[str]:
    """Return notes on what makes the two less comparable."""
    notes = []
    if before.executable != after.executable:
        notes.append(f"two servers: {before.executable} and {after.executable}")
    elif before.pid != after.pid:
        notes.append(f"two processes: {before.pid} and {after.pid}")
    if before.malloc != after.malloc:
        notes.append(f"two mallocs: {before.malloc} and {after.malloc}")
    if before.tiers != after.tiers:
        notes.append(
            f"known from {', '.join(before.tiers)} before and from {', '.join(after.tiers)} after: "
            "some lines may differ for that reason alone"
        )
    return notes
