"""Compare published figures with our own, and judge whether they have the same shape: which figure
is above which. Pure.

Published figures come from another machine and another version, mostly from one run: ours need not
match their size, but their order. Every two figures of a row are one question. A published ratio
within :data:`BAND` of 1 says "as good as equal", one beyond it "more" or "less". Our whole 95 %
interval must say the same, or nothing is decided:

as good as equal   agrees if the interval lies within the band, differs if it lies wholly beyond
more (less)        agrees if the interval lies above (below) 1 and reaches beyond the band; differs
                   if it lies on the other side of 1, or within the band

"""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

from dballoc.questions.campaign.figures import level_curves
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.published.measured_figures import Blocks, MeasuredFigures, compute_log_ratios
from dballoc.questions.published.post_figures import Published, PublishedFigure, PublishedTable
from dballoc.questions.statistics.ratio_interval import Interval, Ratio, compute_ratio

# Single runs of the same server differ by this.
BAND = 0.02


class ShapeAgreement(StrEnum):
    """Whether our figures agree with the published ones."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"


def judge_shape(published: float, interval: Interval | None) -> ShapeAgreement:
    """Judge our interval by the published ratio; undecided without an interval."""
    if interval is None:
        return ShapeAgreement.UNDECIDED
    low, high = interval
    within = low >= 1 - BAND and high <= 1 + BAND
    if _is_equal(published):
        beyond = low > 1 + BAND or high < 1 - BAND
        return (
            ShapeAgreement.AGREES
            if within
            else ShapeAgreement.DIFFERS
            if beyond
            else ShapeAgreement.UNDECIDED
        )
    same, other = (low > 1, high < 1) if published > 1 else (high < 1, low > 1)
    if within or other:
        return ShapeAgreement.DIFFERS
    return ShapeAgreement.AGREES if same else ShapeAgreement.UNDECIDED


def combine_shapes(shapes: Iterable[ShapeAgreement]) -> ShapeAgreement:
    """Return the shape of a row: it differs if any two of its figures do, and agrees if all that is
    decided agrees.
    """
    distinct = set(shapes)
    for shape in (ShapeAgreement.DIFFERS, ShapeAgreement.AGREES):
        if shape in distinct:
            return shape
    return ShapeAgreement.UNDECIDED


def _is_equal(ratio: float) -> bool:
    return 1 - BAND <= ratio <= 1 + BAND


@dataclass(frozen=True, kw_only=True)
class ReproducedFigure:
    """Our figure for a published one, in its unit: a mean over ``blocks``, or a ratio with its 95 %
    interval where the table has ratios; ``value`` is None where nothing was measured. ``change``:
    our ratio to the table's baseline, where the table shows it.
    """

    cell: PublishedFigure
    value: float | None
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    published_change: float | None = None
    change: Ratio | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two figures that are compared with each other: their published ratio, and ours (None: not
    measured).
    """

    group: str
    first: str
    second: str
    published: float
    measured_ratio: Ratio | None
    shape: ShapeAgreement


class _Measured(NamedTuple):
    """The values of a figure in our results, by block: the variant's, and those of the variant that
    it is relative to.
    """

    variant: Blocks
    base: Blocks


class _Member(NamedTuple):
    """A figure of a group: its label, the published value, and ours (None: not measured here)."""

    label: str
    published: float
    measured: _Measured | None


@dataclass(frozen=True, kw_only=True)
class CollapseComparison:
    """Where throughput collapses, published and measured here, as the last level before and the
    first one of the collapse; None: nowhere. ``expected``: our levels that stand for the published
    ones. ``measured``: whether this was measured here; ``shape`` is undecided where it was measured
    in one block only, and agrees where neither collapses or both do, no further apart than a level.
    """

    column: str
    published: tuple[int, int] | None
    expected: tuple[int, int] | None
    measured_levels: tuple[int, int] | None
    measured: bool
    shape: ShapeAgreement


@dataclass(frozen=True)
class TableComparison:
    """A published table, and what of it was measured here."""

    table: PublishedTable
    figures: dict[tuple[str, str], ReproducedFigure]
    pairs: list[Pair]
    falls: list[CollapseComparison]

    @property
    def shapes(self) -> dict[str, ShapeAgreement]:
        """The shape of each group of compared figures (a row or a column) with a pair that was
        measured here.
        """
        groups: dict[str, list[ShapeAgreement]] = {}
        for pair in self.pairs:
            if pair.measured_ratio is not None:
                groups.setdefault(pair.group, []).append(pair.shape)
        return {group: combine_shapes(shapes) for group, shapes in groups.items()}


def compare_published(campaign: Campaign, published: Published) -> list[TableComparison]:
    """Compare every table of the post with the campaign's own figures."""
    figures = MeasuredFigures(campaign)
    return [_compare_table(figures, table) for table in published.tables]


def _compare_table(measured: MeasuredFigures, table: PublishedTable) -> TableComparison:
    by_cell = {id(cell): _find_blocks(measured, table, cell) for cell in table.cells}
    figures = {(c.row, c.column): _build_figure(table, c, by_cell) for c in table.cells}
    groups: dict[str, list[_Member]] = {}
    for c in table.cells:
        group, label = (c.row, c.column) if table.across == "columns" else (c.column, c.row)
        groups.setdefault(group, []).append(_Member(label, c.value, by_cell[id(c)]))
    pairs = [
        _compare_pair(group, earlier, later)
        for group, members in groups.items()
        for earlier, later in combinations(_add_baseline(table, members), 2)
        # A published 0, of reads for one, has no ratio.
        if earlier.published and later.published
    ]
    falls = _compare_collapses(measured, table) if table.collapse else []
    return TableComparison(table, figures, pairs, falls)


def _add_baseline(table: PublishedTable, members: list[_Member]) -> list[_Member]:
    """Return the figures of a group that are compared. In a table of ratios the baseline, whose
    ratio is 1, is one more.
    """
    if not table.ratios or table.baseline is None:
        return members
    base = next((member.measured.base for member in members if member.measured), None)
    measured = None if base is None else _Measured(base, base)
    return [_Member(table.baseline, 1.0, measured), *members]


def _find_blocks(
    measured: MeasuredFigures, table: PublishedTable, cell: PublishedFigure
) -> _Measured | None:
    """Return the variant's values and, where the table has ratios, those of its baseline; None
    where there are none.
    """
    if cell.variant is None:
        return None
    base = table.baseline if table.ratios and table.baseline else cell.variant
    if cell.threads == "largest" and cell.workload:
        return _find_furthest(
            measured.find_blocks_by_level(cell.variant, cell.measure, cell.workload),
            measured.find_blocks_by_level(base, cell.measure, cell.workload),
        )
    variant_blocks, base_blocks = (
        measured.find_blocks(name, cell.measure, cell.workload, cell.threads)
        for name in (cell.variant, base)
    )
    if not variant_blocks.keys() & base_blocks.keys():
        return None
    return _Measured(variant_blocks, base_blocks)


def _find_furthest(variant: dict[int, Blocks], base: dict[int, Blocks]) -> _Measured | None:
    """Return both at the level where they are furthest from each other."""
    mean_logs = {
        level: statistics.fmean(logs)
        for level, blocks in variant.items()
        if (logs := compute_log_ratios(blocks, base.get(level, {})))
    }
    furthest = max(mean_logs, key=lambda level: abs(mean_logs[level]), default=None)
    return None if furthest is None else _Measured(variant[furthest], base[furthest])


def _build_figure(
    table: PublishedTable, cell: PublishedFigure, by_cell: dict[int, _Measured | None]
) -> ReproducedFigure:
    measured = by_cell[id(cell)]
    published_change = change = None
    if table.change and cell.column != table.baseline:
        base = next(c for c in table.cells if (c.row, c.column) == (cell.row, table.baseline))
        published_change, base_measured = cell.value / base.value, by_cell[id(base)]
        if measured and base_measured:
            change = _compute_ratio(measured.variant, base_measured.variant)
    if measured is None:
        return ReproducedFigure(cell=cell, value=None, published_change=published_change)
    if table.ratios:
        to_base = _compute_ratio(measured.variant, measured.base)
        return ReproducedFigure(
            cell=cell,
            value=to_base.estimate if to_base else None,
            low=to_base.low if to_base else None,
            high=to_base.high if to_base else None,
            blocks=to_base.blocks if to_base else 0,
        )
    unit = table.units.get(cell.measure, 1.0)
    return ReproducedFigure(
        cell=cell,
        value=statistics.fmean(measured.variant.values()) / unit,
        blocks=len(measured.variant),
        published_change=published_change,
        change=change,
    )


def _compare_pair(group: str, earlier: _Member, later: _Member) -> Pair:
    """Compare the later figure of a row or column with the earlier one."""
    published = later.published / earlier.published
    measured_ratio = (
        _compute_ratio(later.measured.variant, earlier.measured.variant)
        if earlier.measured and later.measured
        else None
    )
    return Pair(
        group=group,
        first=later.label,
        second=earlier.label,
        published=published,
        measured_ratio=measured_ratio,
        shape=judge_shape(published, measured_ratio.interval if measured_ratio else None),
    )


def _compute_ratio(first: Blocks, second: Blocks) -> Ratio | None:
    logs = compute_log_ratios(first, second)
    return compute_ratio(logs) if logs else None


def _is_same_collapse(first: tuple[int, int] | None, second: tuple[int, int] | None) -> bool:
    """Whether both curves collapse, between the same two levels or the next ones, or neither."""
    if first is None or second is None:
        return first is second
    return max(first[0], second[0]) <= min(first[1], second[1])


def _compare_collapses(
    measured: MeasuredFigures, table: PublishedTable
) -> list[CollapseComparison]:
    falls = []
    for column in table.columns:
        cells = [c for c in table.cells if c.column == column]
        published = level_curves.find_collapse(
            {c.threads: c.value for c in cells if isinstance(c.threads, int)}
        )
        first = cells[0]
        levels = (
            measured.find_blocks_by_level(first.variant, first.measure, first.workload)
            if first.variant and first.workload
            else {}
        )
        curve = {n: statistics.fmean(v.values()) for n, v in levels.items() if v}
        collapse = level_curves.find_collapse(curve) if curve else None
        expected = None
        if published is not None:
            expected = measured.scale_level(published[0]), measured.scale_level(published[1])
        shape = (
            ShapeAgreement.AGREES
            if _is_same_collapse(expected, collapse)
            else ShapeAgreement.DIFFERS
        )
        repeated = any(len(v) > 1 for v in levels.values())
        falls.append(
            CollapseComparison(
                column=column,
                published=published,
                expected=expected,
                measured_levels=collapse,
                measured=bool(curve),
                shape=shape if repeated else ShapeAgreement.UNDECIDED,
            )
        )
    return falls
