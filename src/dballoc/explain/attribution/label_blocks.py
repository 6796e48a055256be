"""Divide live heap by owner: find malloc's blocks that have a label's sizes, and estimate the rest.
Pure.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.explain.attribution.ledger_line import (
    LIVE,
    MAPPED,
    UNACCOUNTED,
    Line,
    subtract,
)
from dballoc.explain.sources.server_memory import SCHEMA, OwnerMemory
from dballoc.process_memory.heaps.allocator_statistics import LIVE_ALL
from dballoc.process_memory.heaps.heap_walk import Block
from dballoc.process_memory.mapping_kind import Kind

# Lines that a label's memory is taken from, in this order.
_DONORS = (LIVE, LIVE_ALL, MAPPED, Kind.MALLOC, UNACCOUNTED)
# The same for zeroed memory where no block is known: it is in a few large blocks.
_LARGE_FIRST = (MAPPED, LIVE_ALL, LIVE, Kind.MALLOC, UNACCOUNTED)

# An array of performance_schema, aligned and with malloc's header, is a block of so many bytes
# more, at most.
_MORE = 4096 + 64 + 16

# So many of one owner's arrays are looked for; the largest come first.
_MOST_SIZES = 1 << 12


@dataclass(frozen=True)
class _BlocksOfLabel:
    """A label with the blocks that have its sizes, each with the bytes that were asked for."""

    label: OwnerMemory
    blocks: list[tuple[Block, int]]

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


def split_live_heap(
    lines: list[Line], labels: list[OwnerMemory], tables: Sequence[int], blocks: list[Block]
) -> list[Line]:
    """Return the lines with one for each label, taken from live heap; the rest of it stays where it
    is. ``tables``: bytes of performance_schema's tables; ``blocks``: the large ones.
    """
    matches = [m for m in _match_blocks(labels, tables, blocks) if m.plausible]
    donors = {line.owner: line for line in lines if line.owner in _DONORS}
    for match in matches:
        if match.blocks:
            block_bytes = sum(block.asked for block, _ in match.blocks)
            donors[MAPPED] = subtract(donors[MAPPED], match.resident, block_bytes)
    undivided = dict(donors)
    labelled: dict[int, Line] = {}
    # The owners of untouched pages are unknown, but zeroed memory has none: it comes first and
    # takes resident bytes; all other labels get resident bytes in proportion.
    for match in sorted(matches, key=lambda m: not m.label.zeroed):
        order = _LARGE_FIRST if match.label.zeroed and not blocks else _DONORS
        resident, donors = _take_remainder(match, donors, undivided, order)
        labelled[id(match)] = _make_label_line(match, match.resident + resident)
    others = [line for line in lines if line.owner not in donors]
    first = next((i for i, line in enumerate(others) if line.group == "heap"), len(others))
    return [
        *others[:first],
        *(labelled[id(match)] for match in matches),
        *donors.values(),
        *others[first:],
    ]


def _take_remainder(
    match: _BlocksOfLabel,
    donors: dict[str, Line],
    undivided: dict[str, Line],
    order: Sequence[str],
) -> tuple[int, dict[str, Line]]:
    """Return the resident bytes of a label beyond its blocks, and the lines without these.
    ``undivided``: the lines before any label had its share; ``order``: which line gives first.
    """
    zeroed, remainder = match.label.zeroed, match.remainder
    donors, resident = dict(donors), 0
    for owner in order:
        donor = donors.get(owner)
        if remainder <= 0 or donor is None or not donor.size:
            continue
        part = min(remainder, donor.resident if zeroed else donor.size)
        # Of a malloc without statistics only the mappings are known. They are larger than the
        # memory that it has handed out, so no proportion can be derived from their size.
        in_proportion = not zeroed and owner not in (Kind.MALLOC, UNACCOUNTED)
        before = undivided[owner]
        share = part * before.resident // before.size if in_proportion else part
        touched = min(share, donor.resident)
        donors[owner] = subtract(donor, touched, part)
        resident, remainder = resident + touched, remainder - part
    return resident, donors


def _make_label_line(match: _BlocksOfLabel, resident: int) -> Line:
    label = match.label
    return Line(
        group="heap",
        owner=label.owner,
        resident=resident,
        size=label.bytes,
        source=label.source,
        confidence="labelled",
        note=f"{len(match.blocks)} blocks found by their sizes" if match.blocks else "",
        parts=label.parts,
    )


def _match_blocks(
    labels: Sequence[OwnerMemory], tables: Sequence[int], blocks: Sequence[Block]
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
    blocks: list[Block], sizes: Sequence[int], tolerance: float
) -> tuple[list[tuple[Block, int]], list[Block]]:
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


def _get_block_size(block: Block) -> int:
    return block.size
