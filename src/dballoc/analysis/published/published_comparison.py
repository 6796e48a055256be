"""Published figures with ours beside them, and whether the shape is the same."""

import statistics
from dataclasses import dataclass
from itertools import combinations

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions import throughput_collapse
from dballoc.analysis.published.measured_figures import Blocks, Measured, logs
from dballoc.analysis.published.published_figures import Cell, Published, Table
from dballoc.analysis.published.shape_agreement import Shape, judge, together
from dballoc.analysis.statistics.ratio_interval import Ratio, ratio
from dballoc.analysis.tables.level_curves import CONFIDENCE


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Ours for a published one, in its unit: a mean over ``blocks``, or a ratio with its 95 %
    interval where the table has ratios; ``value`` is None where there is nothing. ``change``: ÷ the
    table's baseline, where the table shows it.
    """

    cell: Cell
    value: float | None
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    published_change: float | None = None
    change: Ratio | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two figures that are compared with each other: their published ratio, and ours."""

    group: str
    first: str
    second: str
    published: float
    ours: Ratio | None
    shape: Shape


# Of a group: label, published figure, and ours with what it is relative to.
_Member = tuple[str, float, tuple[Blocks, Blocks] | None]


@dataclass(frozen=True, kw_only=True)
class Fall:
    """Where throughput collapses, published and ours; None: nowhere. Levels: the last before it,
    and the first of it. ``measured``: whether it was here; undecided where it was in one block
    only.
    """

    column: str
    published: tuple[int, int] | None
    ours: tuple[int, int] | None
    measured: bool
    shape: Shape


@dataclass(frozen=True)
class Beside:
    """A table, and what of it was measured here."""

    table: Table
    figures: dict[tuple[str, str], Figure]
    pairs: list[Pair]
    falls: list[Fall]

    @property
    def shapes(self) -> dict[str, Shape]:
        """By group of figures that are compared, a row or a column; of those of which two were
        measured here.
        """
        groups: dict[str, list[Shape]] = {}
        for pair in self.pairs:
            if pair.ours is not None:
                groups.setdefault(pair.group, []).append(pair.shape)
        return {group: together(found) for group, found in groups.items()}


def beside(campaign: Campaign, published: Published) -> list[Beside]:
    """Every table of the post."""
    ours = Measured(campaign)
    return [_table(ours, table) for table in published.tables]


def _table(ours: Measured, table: Table) -> Beside:
    values = {id(cell): _blocks(ours, table, cell) for cell in table.cells}
    figures = {(c.row, c.column): _figure(table, c, values) for c in table.cells}
    groups: dict[str, list[_Member]] = {}
    for c in table.cells:
        group, label = (c.row, c.column) if table.across == "columns" else (c.column, c.row)
        groups.setdefault(group, []).append((label, c.value, values[id(c)]))
    pairs = [
        _pair(group, one, two)
        for group, found in groups.items()
        for one, two in combinations(_all(table, found), 2)
    ]
    return Beside(table, figures, pairs, _falls(ours, table) if table.collapse else [])


def _all(table: Table, found: list[_Member]) -> list[_Member]:
    """The figures of a group that are compared: with ratios, what they are relative to is one more,
    and it is 1.
    """
    if not table.ratios or table.baseline is None:
        return found
    known = next((values for _, _, values in found if values), None)
    return [(table.baseline, 1.0, (known[1], known[1]) if known else None), *found]


def _blocks(ours: Measured, table: Table, cell: Cell) -> tuple[Blocks, Blocks] | None:
    """(the variant's values, those of the baseline where the table has ratios); None where there
    are none.
    """
    if cell.variant is None:
        return None
    base = table.baseline if table.ratios and table.baseline else cell.variant
    if cell.threads == "largest" and cell.workload:
        levels = (
            ours.each_level(name, cell.measure, cell.workload) for name in (cell.variant, base)
        )
        return _furthest(*levels)
    mine, theirs = (
        ours.blocks(name, cell.measure, cell.workload, cell.threads)
        for name in (cell.variant, base)
    )
    return (mine, theirs) if mine.keys() & theirs.keys() else None


def _furthest(mine: dict[int, Blocks], base: dict[int, Blocks]) -> tuple[Blocks, Blocks] | None:
    """Both at the level where they are furthest from each other."""
    found = {n: statistics.fmean(d) for n in mine if (d := logs(mine[n], base.get(n, {})))}
    level = max(found, key=lambda n: abs(found[n]), default=None)
    return None if level is None else (mine[level], base[level])


def _figure(table: Table, cell: Cell, values: dict[int, tuple[Blocks, Blocks] | None]) -> Figure:
    found = values[id(cell)]
    published_change = change = None
    if table.change and cell.column != table.baseline:
        base = next(c for c in table.cells if (c.row, c.column) == (cell.row, table.baseline))
        published_change, theirs = cell.value / base.value, values[id(base)]
        change = _ratio(found[0], theirs[0]) if found and theirs else None
    if found is None:
        return Figure(cell=cell, value=None, published_change=published_change)
    if table.ratios:
        r = _ratio(*found)
        low, high = _ends(r)
        return Figure(
            cell=cell,
            value=r.estimate if r else None,
            low=low,
            high=high,
            blocks=r.blocks if r else 0,
        )
    unit = table.units.get(cell.measure, 1.0)
    mean = statistics.fmean(found[0].values()) / unit
    return Figure(
        cell=cell,
        value=mean,
        blocks=len(found[0]),
        published_change=published_change,
        change=change,
    )


def _pair(group: str, one: _Member, two: _Member) -> Pair:
    """The later figure against the earlier one."""
    published = two[1] / one[1]
    ours = _ratio(two[2][0], one[2][0]) if one[2] and two[2] else None
    return Pair(
        group=group,
        first=two[0],
        second=one[0],
        published=published,
        ours=ours,
        shape=judge(published, *_ends(ours)),
    )


def _ratio(first: Blocks, second: Blocks) -> Ratio | None:
    found = logs(first, second)
    return ratio(found, CONFIDENCE) if found else None


def _ends(found: Ratio | None) -> tuple[float | None, float | None]:
    return (found.low, found.high) if found and found.blocks > 1 else (None, None)


def _falls(ours: Measured, table: Table) -> list[Fall]:
    found = []
    for column in table.columns:
        cells = [c for c in table.cells if c.column == column]
        published = throughput_collapse.between(
            {c.threads: c.value for c in cells if isinstance(c.threads, int)}
        )
        one = cells[0]
        levels = (
            ours.each_level(one.variant, one.measure, one.workload)
            if one.variant and one.workload
            else {}
        )
        curve = {n: statistics.fmean(v.values()) for n, v in levels.items() if v}
        mine = throughput_collapse.between(curve) if curve else None
        same = Shape.AGREES if (mine is None) == (published is None) else Shape.DIFFERS
        repeated = any(len(v) > 1 for v in levels.values())
        found.append(
            Fall(
                column=column,
                published=published,
                ours=mine,
                measured=bool(curve),
                shape=same if repeated else Shape.UNDECIDED,
            )
        )
    return found
