"""VSZ and %CPU of a server, as ``ps`` and ``top`` show them, over a series of snapshots. Pure."""

from collections.abc import Sequence

from dballoc.explain.explanation import Explanation
from dballoc.numbers import percent, with_unit

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
