"""Divide live heap by owner: find malloc's blocks that have a label's sizes, and estimate the rest.
Pure.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dballoc.evidence.sql.server_memory import SCHEMA, OwnerMemory
from dballoc.explain.ledger.ledger_line import LIVE, MAPPED, UNACCOUNTED, LedgerLine, subtract
from dballoc.process.heaps.allocator_statistics import LIVE_ALL
from dballoc.process.heaps.heap_walk import LargeBlock
from dballoc.process.mapping_kind import MappingKind


class Demand(NamedTuple):
    """``size`` bytes that a label has asked for, ``touched`` of them at least; ``grain``: about how
    large the blocks are that may have other pages.
    """

    label: int
    size: int
    touched: int
    grain: int


@dataclass(frozen=True)
class ResidentShare:
    """Resident bytes: as printed, at least and at most."""

    resident: int
    least: int
    most: int

    def __add__(self, other: "ResidentShare") -> "ResidentShare":
        return ResidentShare(
            self.resident + other.resident, self.least + other.least, self.most + other.most
        )


@dataclass(frozen=True, kw_only=True)
class DividedDonor:
    """``shares``: one for each demand; ``slack``: by how many bytes these may be less in all."""

    shares: list[ResidentShare]
    slack: int


def divide_donor(donor: LedgerLine, demands: Sequence[Demand]) -> DividedDonor:
    """Divide the resident bytes of a line of live heap.

    Of ``S`` bytes that are live, ``R`` are resident; owner i has asked for ``p_i`` of them and
    has touched ``t_i`` at least, as malloc's blocks are written to at their beginnings. What is
    not resident may be anybody's:

        least_i = t_i + max(0, p_i − t_i − (S − R))
        most_i  = min(p_i, R − Σ least_j of all others)

    Between these, each owner is given all that it asked for, as far as there are pages. Where
    there are not, the owners with the largest blocks have less: a page of a small block is
    touched with it or with its neighbours, and most of a block of megabytes may never be.
    """
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
        ResidentShare(
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


# Lines that a label's memory is taken from, in this order.
_DONORS = (LIVE, LIVE_ALL, MAPPED, MappingKind.MALLOC, UNACCOUNTED)
# The same for zeroed memory where no block is known: it is in a few large blocks.
_LARGE_FIRST = (MAPPED, LIVE_ALL, LIVE, MappingKind.MALLOC, UNACCOUNTED)

# An array of performance_schema, aligned and with malloc's header, is a block of so many bytes
# more, at most.
_MORE = 4096 + 64 + 16

# So many of one owner's arrays are looked for; the largest come first.
_MOST_SIZES = 1 << 12


@dataclass(frozen=True)
class _BlocksOfLabel:
    """A label with the blocks that have its sizes, each with the bytes that were asked for."""

    label: OwnerMemory
    blocks: list[tuple[LargeBlock, int]]

    @property
    def resident(self) -> int:
        return sum(block.resident for block, _ in self.blocks)

    @property
    def requested(self) -> int:
        return sum(size for _, size in self.blocks)

    @property
    def plausible(self) -> bool:
        """A label that is known by its size alone is dropped where no block has that size."""
        return bool(self.blocks) or not self.label.single_block

    @property
    def remainder(self) -> int:
        """Bytes of the label that are in none of these blocks."""
        return 0 if self.blocks and self.label.near else self.label.bytes - self.requested


@dataclass(frozen=True, kw_only=True)
class SplitHeap:
    """``lines``: those that were given, with one for each label; ``more_unowned``: by how many
    bytes more than these lines say live heap may have no owner.
    """

    lines: list[LedgerLine]
    more_unowned: int


def split_live_heap(
    lines: list[LedgerLine],
    labels: list[OwnerMemory],
    tables: Sequence[int],
    blocks: list[LargeBlock],
) -> SplitHeap:
    """Divide live heap: a line for each label; the rest of it stays where it is. ``tables``: bytes
    of performance_schema's tables; ``blocks``: the large ones.

    Blocks that have a label's sizes are counted in pages. What else a label asked for lies
    somewhere in a donor, a line of live heap, and whose pages were never touched is not known: the
    label has between its least and its most of them.
    """
    matches = [m for m in _match_blocks(labels, tables, blocks) if m.plausible]
    donors = {line.owner: line for line in lines if line.owner in _DONORS}
    for match in matches:
        if match.blocks:
            block_bytes = sum(block.asked for block, _ in match.blocks)
            donors[MAPPED] = subtract(donors[MAPPED], match.resident, block_bytes)
    shares = {
        id(match): ResidentShare(match.resident, match.resident, match.resident)
        for match in matches
    }
    demands, donors = _assign_to_donors(matches, donors, bool(blocks))
    more_unowned = 0
    for owner, demanded in demands.items():
        donor = donors[owner]
        divided = divide_donor(donor, demanded)
        for demand, share in zip(demanded, divided.shares, strict=True):
            shares[demand.label] += share
        donors[owner] = subtract(
            donor,
            sum(share.resident for share in divided.shares),
            min(donor.size, sum(demand.size for demand in demanded)),
        )
        more_unowned += divided.slack
    others = [line for line in lines if line.owner not in donors]
    first = next((i for i, line in enumerate(others) if line.group == "heap"), len(others))
    return SplitHeap(
        lines=[
            *others[:first],
            *(_make_label_line(match, shares[id(match)]) for match in matches),
            *donors.values(),
            *others[first:],
        ],
        more_unowned=more_unowned,
    )


def _assign_to_donors(
    matches: Sequence[_BlocksOfLabel], donors: Mapping[str, LedgerLine], has_blocks: bool
) -> tuple[dict[str, list[Demand]], dict[str, LedgerLine]]:
    """Return what the labels' bytes beyond their blocks demand of each donor, and the donors as
    they are. Zeroed memory takes resident bytes, and takes them first.
    """
    demands: dict[str, list[Demand]] = {}
    available = {owner: (line.size, line.resident) for owner, line in donors.items()}
    for match in sorted(matches, key=lambda m: not m.label.zeroed):
        label, remainder = match.label, match.remainder
        for owner in _LARGE_FIRST if label.zeroed and not has_blocks else _DONORS:
            size, resident = available.get(owner, (0, 0))
            part = min(remainder, resident if label.zeroed else size)
            if part <= 0:
                continue
            available[owner] = size - part, resident - part if label.zeroed else resident
            remainder -= part
            touched = (
                part if label.zeroed else part * min(label.touched, label.bytes) // label.bytes
            )
            grain = label.grain or label.bytes
            demands.setdefault(owner, []).append(Demand(id(match), part, touched, grain))
    return demands, dict(donors)


def _make_label_line(match: _BlocksOfLabel, share: ResidentShare) -> LedgerLine:
    label = match.label
    return LedgerLine(
        group="heap",
        owner=label.owner,
        resident=share.resident,
        size=label.bytes,
        source=label.source,
        confidence="labelled",
        note=f"{len(match.blocks)} blocks found by their sizes" if match.blocks else "",
        parts=label.parts,
        least=share.least,
        most=share.most,
    )


def _match_blocks(
    labels: Sequence[OwnerMemory], tables: Sequence[int], blocks: Sequence[LargeBlock]
) -> list[_BlocksOfLabel]:
    """Return every label with the blocks of its sizes. A block is one label's only, and the first
    label that fits has it.
    """
    rest = sorted(blocks, key=_get_block_size)
    matches = []
    for label in labels:
        sizes = tables if label.owner == SCHEMA else label.sizes or [label.bytes]
        matching, rest = _take_blocks(rest, sizes, label.near)
        matches.append(_BlocksOfLabel(label, matching))
    return matches


def _take_blocks(
    blocks: list[LargeBlock], sizes: Sequence[int], tolerance: float
) -> tuple[list[tuple[LargeBlock, int]], list[LargeBlock]]:
    """Return the blocks that are as large as these arrays, each with what was asked for, and the
    other blocks. ``blocks``: by size; ``tolerance``: the share by which a size may be off.
    """
    rest = list(blocks)
    matching = []
    rounded = max((block.rounded for block in rest), default=0)
    for size in sizes[:_MOST_SIZES]:
        low, high = size * (1 - tolerance), size * (1 + tolerance) + _MORE
        candidates = rest[
            bisect_left(rest, low, key=_get_block_size) : bisect_right(
                rest, high + rounded, key=_get_block_size
            )
        ]
        # Touched bytes have been requested.
        fitting = [block for block in candidates if block.asked <= high]
        if fitting:
            # Of several blocks that may have been rounded up to the same size, take the one that
            # was touched most.
            best = max(fitting, key=lambda b: b.resident) if fitting[0].rounded else fitting[0]
            rest.remove(best)
            matching.append((best, size if best.rounded else best.size))
    return matching, rest


def _get_block_size(block: LargeBlock) -> int:
    return block.size
