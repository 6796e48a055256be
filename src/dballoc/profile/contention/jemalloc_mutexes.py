"""What jemalloc says itself of the waits for its own mutexes, in the statistics that it prints at
exit. Pure.

Since 5.1, one table of the whole library's mutexes, one of the arenas' (all together, or of the
only one), and the last columns of the table of bins; each with ``n_lock_ops (#/sec) n_waiting
(#/sec) n_spin_acq (#/sec) n_owner_switch (#/sec) total_wait_ns (#/sec) max_wait_ns max_n_thds``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

_HEADING = "n_lock_ops"
_BINS = "bins:"
_COLUMNS = 12


@dataclass(frozen=True, kw_only=True)
class Mutex:
    """``locked``, ``waited`` and ``spun``: how often; ``seconds`` waited together."""

    name: str
    locked: int
    waited: int
    spun: int
    seconds: float


def parse(lines: Iterable[str]) -> list[Mutex]:
    """Of a server's log; the bins' mutexes together are one. Empty where there is no such table."""
    mutexes: dict[str, Mutex] = {}
    tables = bins = 0
    reading = ""
    for line in lines:
        if _HEADING in line:
            is_bins = line.startswith(_BINS)
            bins, tables = bins + is_bins, tables + (not is_bins)
            # What follows of single arenas is in the sum already.
            reading = (
                "bins"
                if is_bins and bins == 1
                else "mutexes"
                if not is_bins and tables <= 2
                else ""
            )
        elif reading and (row := _parse_row(line, reading)):
            previous = mutexes.get(
                row.name, Mutex(name=row.name, locked=0, waited=0, spun=0, seconds=0.0)
            )
            mutexes[row.name] = Mutex(
                name=row.name,
                locked=previous.locked + row.locked,
                waited=previous.waited + row.waited,
                spun=previous.spun + row.spun,
                seconds=previous.seconds + row.seconds,
            )
        elif line.strip() and not line.strip().startswith("---"):
            reading = ""
    return sorted(mutexes.values(), key=lambda m: (-m.seconds, -m.waited, m.name))


def _parse_row(line: str, reading: str) -> Mutex | None:
    words = line.split()
    numbers = words[-_COLUMNS:]
    if len(words) <= _COLUMNS or not all(word.isdecimal() for word in numbers):
        return None
    locked, _, waited, _, spun, _, _, _, nanoseconds, *_ = map(int, numbers)
    return Mutex(
        name="bins" if reading == "bins" else words[0],
        locked=locked,
        waited=waited,
        spun=spun,
        seconds=nanoseconds / 1e9,
    )
