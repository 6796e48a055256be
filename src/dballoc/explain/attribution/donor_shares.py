"""How many resident bytes of a stretch of live heap each of several owners has at least and at
most, from how many bytes each has asked for. Pure.

Of ``S`` bytes that are live, ``R`` are resident; owner i has asked for ``p_i`` of them and has
touched ``t_i`` at least, as malloc's blocks are written to at their beginnings. What is not
resident may be anybody's:

    least_i = t_i + max(0, p_i − t_i − (S − R))
    most_i  = min(p_i, R − Σ least_j of all others)

Between these, each owner is given all that it asked for, as far as there are pages. Where there are
not, the owners with the largest blocks have less: a page of a small block is touched with it or
with its neighbours, and most of a block of megabytes may never be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dballoc.explain.attribution.ledger_line import Line


class Demand(NamedTuple):
    """``size`` bytes that a label has asked for, ``touched`` of them at least; ``grain``: about how
    large the blocks are that may have other pages.
    """

    label: int
    size: int
    touched: int
    grain: int


@dataclass(frozen=True)
class Share:
    """Resident bytes: as printed, at least and at most."""

    resident: int
    least: int
    most: int

    def __add__(self, other: "Share") -> "Share":
        return Share(
            self.resident + other.resident, self.least + other.least, self.most + other.most
        )


@dataclass(frozen=True, kw_only=True)
class DividedDonor:
    """``shares``: one for each demand; ``slack``: by how many bytes these may be less in all."""

    shares: list[Share]
    slack: int


def divide_donor(donor: Line, demands: Sequence[Demand]) -> DividedDonor:
    """Divide the resident bytes of a line of live heap."""
    untouched = max(0, donor.size - donor.resident)
    touched = _scale_down([demand.touched for demand in demands], donor.resident)
    wanted = [demand.size - sure for demand, sure in zip(demands, touched, strict=True)]
    least = [sure + max(0, more - untouched) for sure, more in zip(touched, wanted, strict=True)]
    least = _scale_down(least, donor.resident)
    spare = donor.resident - sum(touched)
    shortage = max(0, sum(wanted) - spare)
    resident = [demand.size for demand in demands]
    for place in sorted(range(len(demands)), key=lambda i: -demands[i].grain):
        cut = min(shortage, wanted[place])
        resident[place] -= cut
        shortage -= cut
    all_least = sum(least)
    shares = [
        Share(
            resident=each,
            least=min(each, low),
            most=max(each, min(demand.size, donor.resident - all_least + low)),
        )
        for each, low, demand in zip(resident, least, demands, strict=True)
    ]
    together = sum(touched) + max(0, sum(wanted) - untouched)
    return DividedDonor(shares=shares, slack=max(0, sum(resident) - together))


def _scale_down(sizes: Sequence[int], most: int) -> list[int]:
    """Return the sizes, all smaller in proportion where they are more than ``most`` together."""
    total = sum(sizes)
    return list(sizes) if total <= most else [size * most // total for size in sizes]
