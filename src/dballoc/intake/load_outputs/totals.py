"""The totals of one run of a load generator, and what its readers share. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dballoc.ground import readers
from dballoc.ground.errors import UsageError

# A line of a text and its number.
Numbered = tuple[int, str]

_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,18})?")


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The totals of a run that begins in ``line``; latencies in ms; ``reads``, ``writes``,
    ``transactions``: how many there were. None: the output does not tell. ``unread``: a line for
    what is left out.
    """

    line: int
    tps: float | None
    qps: float | None
    seconds: float | None
    threads: int | None
    p95: float | None = None
    p99: float | None = None
    reads: int | None = None
    writes: int | None = None
    transactions: int | None = None
    unread: tuple[str, ...] = ()

    @property
    def statements(self) -> float | None:
        """Reads and writes in a transaction; None if the output does not tell."""
        if self.reads is None or self.writes is None or not self.transactions:
            return None
        return (self.reads + self.writes) / self.transactions


def parse_number(text: str, place: str) -> float:
    """Return a number that a program printed. UsageError, which begins with ``place``."""
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"{place}: {readers.shown(text)} is not a number like 1234.5")
    return float(text)


def describe_password(place: str) -> str:
    """Return what to know of an output with a password, of which the results keep a copy."""
    return f"{place}: a password is in it, and in its copy below the results too"


def split_runs(text: str, beginning: re.Pattern[str]) -> Iterator[list[Numbered]]:
    """Yield the lines from each one in which ``beginning`` is found to the next; what stands before
    the first is left out.
    """
    part: list[Numbered] = []
    for number, line in enumerate(text.splitlines(), 1):
        if beginning.search(line):
            if part:
                yield part
            part = []
        elif not part:
            continue
        part.append((number, line))
    if part:
        yield part
