"""Published figures beside ours, in the post's own layout: where the shape agrees, where it
doesn't, and why that may be.
"""

from collections import Counter

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.published.published_comparison import Beside, Fall, Figure, beside
from dballoc.analysis.published.published_figures import Published
from dballoc.analysis.published.shape_agreement import BAND, Shape
from dballoc.experiment import scale
from dballoc.report.sections.scaled import stand_ins
from dballoc.report.sections.section import Section
from dballoc.report.sections.tables import Table
from dballoc.report.wording.ratios_as_text import (
    NOTHING,
    change,
    count,
    listing,
    number,
    percent,
    times,
)

_RULE = (
    "Shape: who is above whom. Every two figures of a row (of a column, where a row is a variant) "
    "are compared. A published "
    f"ratio within ±{percent(BAND, 0)} of 1 counts as equal. Ours agrees if its 95 % interval says "
    "the same, differs if it "
    "says another thing, and is open if it says neither or if there is no interval. A row differs "
    "if any two of its figures do."
)


def section(campaign: Campaign, published: Published) -> Section:
    """Everything that is said of the post."""
    found = beside(campaign, published)
    tables = []
    for one in found:
        tables.append(
            _by_columns(one, campaign) if one.table.across == "columns" else _by_rows(one)
        )
        if one.falls:
            tables.append(_falls(one))
    text = [
        f"{published.source}: {published.machine}; {published.server}; {published.method}.",
        *published.remarks,
        _verdict(found),
        _RULE,
        f"Why it may differ: {' '.join(_why(campaign, published))}",
    ]
    return Section(key="published", title="Published beside measured", text=text, tables=tables)


def frames(campaign: Campaign, published: Published) -> dict[str, pl.DataFrame]:
    """For csv/: the figures, and every pair of them that was compared."""
    figures, pairs = [], []
    for one in beside(campaign, published):
        figures += [
            (
                one.table.name,
                f.cell.row,
                f.cell.column,
                f.cell.variant,
                f.cell.measure,
                f.cell.value,
                f.value,
                f.low,
                f.high,
                f.blocks,
            )
            for f in one.figures.values()
        ]
        for p in one.pairs:
            known = p.ours is not None and p.ours.blocks > 1
            pairs.append(
                (
                    one.table.name,
                    p.group,
                    p.first,
                    p.second,
                    p.published,
                    p.ours.estimate if p.ours else None,
                    p.ours.low if p.ours and known else None,
                    p.ours.high if p.ours and known else None,
                    p.shape.value,
                )
            )
    return {
        "published": pl.DataFrame(figures, schema=_FIGURES, orient="row"),
        "published-shape": pl.DataFrame(pairs, schema=_PAIRS, orient="row"),
    }


_FIGURES = {
    "table": pl.String,
    "row": pl.String,
    "column": pl.String,
    "variant": pl.String,
    "measure": pl.String,
    "published": pl.Float64,
    "ours": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "blocks": pl.Int64,
}
_PAIRS = {
    "table": pl.String,
    "compared_in": pl.String,
    "first": pl.String,
    "second": pl.String,
    "published": pl.Float64,
    "ours": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "shape": pl.String,
}


def _verdict(found: list[Beside]) -> str:
    rows = sum(
        len(one.table.rows if one.table.across == "columns" else one.table.columns) for one in found
    )
    shapes = Counter(shape for one in found for shape in one.shapes.values())
    if not shapes:
        return f"Of {count(rows, 'row')}, none was measured here."
    differing = [
        f"{group} ({one.table.title})"
        for one in found
        for group, s in one.shapes.items()
        if s is Shape.DIFFERS
    ]
    said = (
        f"Of {count(rows, 'row')}, {sum(shapes.values())} were measured here: the shape agrees in "
        f"{shapes[Shape.AGREES]}, "
        f"differs in {shapes[Shape.DIFFERS]} and is open in {shapes[Shape.UNDECIDED]}."
    )
    return f"{said} It differs in {listing(differing)}." if differing else said


def _by_columns(one: Beside, campaign: Campaign) -> Table:
    """A row as the post has it: the shape, and of each column the published figure and ours."""
    table = one.table
    columns = ["row", "shape"]
    for column in table.columns:
        columns += [f"{column}: published", "ours"]
        if table.change and column != table.baseline:
            columns += ["Δ %: published", "Δ %: ours"]
    rows = []
    for row in table.rows:
        cells = [_label(one, row, campaign), _shape(one, row)]
        for column in table.columns:
            figure = one.figures.get((row, column))
            cells += _figure(figure, table.ratios)
            if table.change and column != table.baseline:
                cells += _change(figure)
        rows.append(cells)
    return Table(
        title=table.title, columns=columns, rows=rows, caption=_caption(one), words=("shape",)
    )


def _label(one: Beside, row: str, campaign: Campaign) -> str:
    """The row's, and the level of ours where that is another."""
    was = campaign.experiment.scaled
    published = next(
        (c.threads for c in one.table.cells if c.row == row and isinstance(c.threads, int)), None
    )
    if was is None or published is None:
        return row
    return f"{row} (ours: {scale.level(published, was.factor)})"


def _by_rows(one: Beside) -> Table:
    """A row a variant; the shape of each column below it."""
    table = one.table
    columns = ["variant"]
    for column in table.columns:
        columns += [f"{column}: published", "ours"]
    rows = [
        [
            r,
            *(
                cell
                for c in table.columns
                for cell in _figure(one.figures.get((r, c)), table.ratios)
            ),
        ]
        for r in table.rows
    ]
    rows.append(["shape", *(cell for c in table.columns for cell in ("", _shape(one, c)))])
    return Table(title=table.title, columns=columns, rows=rows, caption=_caption(one))


def _caption(one: Beside) -> str:
    what = "ratios to the baseline with 95 % intervals" if one.table.ratios else "means over blocks"
    return f"{one.table.caption} Ours: {what}."


def _figure(figure: Figure | None, ratios: bool) -> list[str]:
    if figure is None:
        return [NOTHING, NOTHING]
    if not ratios:
        return [number(figure.cell.value), number(figure.value)]
    return [f"{figure.cell.value:.2f}", times(figure.value, figure.low, figure.high)]


def _change(figure: Figure | None) -> list[str]:
    if figure is None:
        return [NOTHING, NOTHING]
    r = figure.change
    known = r is not None and r.blocks > 1
    ours = change(
        r.estimate if r else None, r.low if r and known else None, r.high if r and known else None
    )
    return [change(figure.published_change), ours]


def _shape(one: Beside, group: str) -> str:
    if group not in one.shapes:
        return NOTHING
    mine = Counter(p.shape for p in one.pairs if p.group == group and p.ours is not None)
    words = {Shape.AGREES: "agree", Shape.DIFFERS: "differ", Shape.UNDECIDED: "open"}
    counts = ", ".join(f"{mine[shape]} {word}" for shape, word in words.items() if mine[shape])
    said = "open" if one.shapes[group] is Shape.UNDECIDED else one.shapes[group].value
    return f"{said}\n{counts}" if len(mine) > 1 else said


def _falls(one: Beside) -> Table:
    rows = [
        [
            f.column,
            _between(f.published),
            *([_between(f.ours), _same(f)] if f.measured else [NOTHING, NOTHING]),
        ]
        for f in one.falls
    ]
    columns = ["variant", "published", "ours", "shape"]
    return Table(
        title=f"Collapses, {one.table.title.partition(',')[0]}",
        columns=columns,
        rows=rows,
        caption="Between these levels, of means.",
        words=columns,
    )


def _between(levels: tuple[int, int] | None) -> str:
    if levels is None:
        return "none"
    return f"{levels[0]} and {levels[1]}"


def _same(fall: Fall) -> str:
    return "open" if fall.shape is Shape.UNDECIDED else fall.shape.value


def _why(campaign: Campaign, published: Published) -> list[str]:
    """What is different here, each in a sentence; only what is."""
    e, found = campaign.experiment, []
    if (cpus := campaign.environment.get("cpus")) and cpus != published.cpus:
        found.append(
            f"{published.cpus} CPUs there, {cpus} here: less contention, and fewer arenas where "
            "they go by CPUs."
        )
    if e.scaled:
        found.append(
            f"Scaled to {e.scaled.factor:g}: rows and caches shrink in proportion, but what a "
            "server and a malloc hold at "
            "least does not, so ratios to a cache are higher here."
        )
        found.append(
            "Rows shrink more than clients do, so where a workload writes, more clients wait for "
            "each other's rows."
        )
        found.append(
            "A level of few seconds ends before caches, logs and heaps are in their steady state."
        )
    found += [f"{mine} stands for {theirs}." for mine, theirs in stand_ins(campaign)]
    if published.host_wide_cpu:
        found.append(
            "The post's CPU figures are the whole host's, client included; ours are the server's "
            "alone."
        )
    if blocks := set(campaign.block["block"]):
        found.append(
            f"The post's figures have no intervals; ours are of {count(len(blocks), 'block')} in "
            "random order."
        )
    if any(c.measure.startswith("vsz") for t in published.tables for c in t.cells):
        found.append(
            "VSZ counts address space that was never used; ours leaves out what is reserved "
            "without access."
        )
    return found
