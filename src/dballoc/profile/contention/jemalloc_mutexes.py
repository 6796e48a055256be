"""The waits for jemalloc's own mutexes, from the statistics that it prints at exit. Pure.

Since 5.1 there is one table of the library's mutexes, one of the arenas' (merged, or of the
only arena), and the last columns of the table of bins; each with ``n_lock_ops (#/sec) n_waiting
(#/sec) n_spin_acq (#/sec) n_owner_switch (#/sec) total_wait_ns (#/sec) max_wait_ns max_n_thds``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

_HEADING = "n_lock_ops"
_BINS = "bins:"
_COLUMNS = 12


@dataclass(frozen=True, kw_only=True)
class Mutex:
    """A mutex. ``locked``, ``waited`` and ``spun``: how often; ``seconds``: the total time waited
    for it.
    """

    name: str
    locked: int
    waited: int
    spun: int
    seconds: float


def parse_mutexes(lines: Iterable[str]) -> list[Mutex]:
    """Parse the mutexes in a server's log, the longest waited for first; those of all bins are
    summed up as one. Empty if there is no such table.
    """
    mutexes: dict[str, Mutex] = {}
    tables = bins = 0
    table = ""
    for line in lines:
        if _HEADING in line:
            is_bins = line.startswith(_BINS)
            bins, tables = bins + is_bins, tables + (not is_bins)
            # The tables of single arenas follow; the merged one includes them.
            table = (
                "bins"
                if is_bins and bins == 1
                else "mutexes"
                if not is_bins and tables <= 2
                else ""
            )
        elif table and (row := _parse_row(line, table)):
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
            table = ""
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
