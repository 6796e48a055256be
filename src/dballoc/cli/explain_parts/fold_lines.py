"""Which lines of a ledger fill a screen, and which ones are folded into one. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.explain.attribution.ledger_line import Line

# Lines with less of RSS than that are folded.
SMALL = 0.01


@dataclass(frozen=True)
class Folded:
    """The lines to show, the largest first; of those that are folded how many, and their resident
    bytes.
    """

    lines: list[Line]
    count: int
    resident: int


def fold_small_lines(lines: Sequence[Line], rss: int, all_lines: bool) -> Folded:
    """Fold the small lines of a ledger of ``rss`` bytes: none with ``all_lines``, nor one alone."""
    in_order = sorted(lines, key=lambda line: -line.resident)
    small = [] if all_lines else [line for line in in_order if line.resident < SMALL * rss]
    if len(small) < 2:
        return Folded(in_order, 0, 0)
    large = in_order[: len(in_order) - len(small)]
    return Folded(large, len(small), sum(line.resident for line in small))
