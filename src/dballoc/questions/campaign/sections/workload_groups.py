"""Many workloads at a glance: relative QPS by group, as comparisons of microbenchmarks are
published.
"""

from functools import partial
from itertools import product

import polars as pl

from dballoc.document.charts import (
    POINTS,
    Rows,
    Variants,
    draw,
    draw_points,
    is_valid,
    make_chart,
    make_names_axis,
    make_tips,
    span,
)
from dballoc.document.model import Column, Figure, Section, Table, tabulate
from dballoc.ground.numbers import NOTHING, number
from dballoc.questions.campaign.figures import level_curves
from dballoc.questions.campaign.sections.tables import (
    HEADS,
    RELATIVE_QPS,
    Cells,
    index_cells,
    spread,
)
from dballoc.questions.campaign.sections.workload_means import (
    WorkloadMeans,
    describe_workload_means,
    tabulate_workload_means,
)
from dballoc.questions.compare.answer_words import MANY
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import MEASURES
from dballoc.questions.compare.ratio_charts import (
    compute_ratio_range,
    draw_ratio_frame,
    make_ratio_axis,
)
from dballoc.questions.compare.ratios_as_text import format_ratio

# The groups of the published tables, in their order; others follow as the experiment has them.
_GROUPS = {
    "point": "point queries",
    "range": "range queries",
    "range-agg": "range queries with aggregation",
    "writes": "writes",
}


def has_many_workloads(campaign: Campaign) -> bool:
    """Whether there are too many workloads for a chart of each: the report shows tables of all of
    them.
    """
    return len(campaign.experiment.workloads) > MANY


def make_glance_section(
    campaign: Campaign, variants: Variants, means: WorkloadMeans, text: list[str]
) -> Section:
    """Return the section to see first of many workloads: every variant's mean over them, and
    relative QPS of each by group.
    """
    cells = collect_cells(campaign)
    figures = [draw_relative_qps(campaign, cells, means.threads, variants)] if cells else []
    return Section(
        key="glance",
        title="Every workload at a glance",
        text=[*describe_workload_means(means), *text],
        figures=figures,
        tables=[
            *tabulate_workload_means(means),
            tabulate_relative_qps(campaign, cells),
            *tabulate_scan_rates(campaign),
        ],
    )


def sort_by_group(campaign: Campaign) -> list[tuple[str, str]]:
    """Return (group, workload): the published groups first, else as the experiment has them."""
    facts = campaign.facts.workloads
    pairs = [(facts[w].group if w in facts else "", w) for w in campaign.experiment.workloads]
    return sorted(pairs, key=lambda pair: [*_GROUPS, pair[0]].index(pair[0]))


def collect_cells(campaign: Campaign) -> Cells:
    """Return QPS ÷ the baseline's, of transactions where a workload has no statements to count."""
    tps, qps = (
        index_cells(level_curves.compute_relative_levels(campaign, m)) for m in ("tps", "qps")
    )
    return tps | qps


def tabulate_relative_qps(campaign: Campaign, cells: Cells) -> Table:
    """Return workloads by group × variants, beside the baseline's throughput, unless imported
    files have ratios alone.
    """
    levels, (baseline, *others) = campaign.experiment.threads, campaign.names
    summary = level_curves.average_levels(campaign)
    measure = MEASURES[level_curves.choose_throughput(summary)]
    rates = index_cells(summary, "mean", measure=measure.levels)
    imported = campaign.facts.imported
    is_ratio = imported is not None and imported.relative_to is not None
    heads = [
        Column("group", lambda place: _GROUPS.get(groups[place[0]], groups[place[0]])),
        *HEADS[: 2 if len(levels) > 1 else 1],
    ]
    groups = {workload: group for group, workload in sort_by_group(campaign)}
    columns = [
        *heads,
        *(
            []
            if is_ratio
            else [
                Column(
                    f"{baseline}, {measure.heading}",
                    lambda place: rates.get((*place, baseline), (None,))[0],
                    number,
                )
            ]
        ),
        *(Column(name, partial(_find_cell, cells, name), spread(format_ratio)) for name in others),
    ]
    places = [
        place
        for place in product(groups, levels)
        if (*place, baseline) in rates or any((*place, name) in cells for name in others)
    ]
    caption = RELATIVE_QPS.format(baseline=baseline)
    return tabulate("Relative QPS", columns, places, caption=caption, heads=len(heads))


def _find_cell(
    cells: Cells, variant: str, place: tuple[str, int]
) -> tuple[float, float | None, float | None] | None:
    return cells.get((*place, variant))


def tabulate_scan_rates(campaign: Campaign) -> list[Table]:
    """Return the table of rows per second of the workloads whose event is a whole table, if any."""
    facts = campaign.facts.workloads
    table_scans = [
        w for w in campaign.experiment.workloads if w in facts and facts[w].reads_whole_tables
    ]
    scan_rates = level_curves.average_levels(campaign).filter(
        pl.col("workload").is_in(table_scans), measure="tps"
    )
    size = campaign.experiment.data.rows
    columns = (
        Column("workload"),
        Column("threads"),
        Column("variant"),
        Column("rows/s", lambda row: number(row["mean"] * size)),
    )
    rows = scan_rates.iter_rows(named=True)
    caption = "Of all clients together."
    table = tabulate("Rows a second", columns, rows, caption=caption, heads=3)
    return [table] if table.rows else []


def tabulate_workloads(campaign: Campaign) -> Table | None:
    """Return what the workloads were; None for a campaign that did not note it."""
    rows = [
        [
            name, w.title or NOTHING, w.script,
            "\n".join(f"{k}={v}" for k, v in w.options.items()) or NOTHING,
            "prepared" if w.prepared_statements else "text",
            "unmeasured warm-up" if name not in campaign.experiment.workloads else "",
        ]
        for name, w in campaign.facts.workloads.items()
    ]  # fmt: skip
    columns = ["workload", "what it does", "script", "options", "statements", "note"]
    return Table(title="Workloads", columns=columns, rows=rows, words=columns) if rows else None


# Pixels for each variant of a row, and between rows.
_POINT, _GAP = 9, 8


def draw_relative_qps(campaign: Campaign, cells: Cells, threads: int, variants: Variants) -> Figure:
    """Draw one row a workload by group, one point a variant, at that level."""
    rows: Rows = [
        {
            "variant": name, "row": workload, "ratio": ratio, "low": low, "high": high,
            "words": format_ratio(ratio, low, high), "group": group or "–",
        }
        for group, workload in sort_by_group(campaign)
        for name in campaign.names[1:]
        for ratio, low, high in [cells.get((workload, threads, name), (None, None, None))]
        if ratio is not None
    ]  # fmt: skip
    low, high = compute_ratio_range(rows)
    for row in rows:
        row["low"] = None if row["low"] is None else max(row["low"], low)
        row["high"] = None if row["high"] is None else min(row["high"], high)
    names = list(dict.fromkeys(row["row"] for row in rows))
    x = make_ratio_axis(f"QPS, ratio to {variants.names[0]}", low, high)
    common = {
        "y": make_names_axis("row", names, grid=True, labelLimit=220),
        "yOffset": {"field": "variant", "type": "nominal", "sort": variants.names[1:]},
    }
    tip = make_tips({"row": "workload", "group": "", "variant": "", "words": "ratio"})
    color, points = variants.encode_color(POINTS), variants.encode_points(POINTS)
    layers = [
        *draw_ratio_frame(x=x),
        draw(rows, "rule", is_valid("low"), strokeWidth=1.5, **span("x", x), **common, **color),
        draw_points(rows, 45, x=x, tooltip=tip, **common, **points),
    ]
    height = len(names) * (_GAP + _POINT * max(1, len(variants.names) - 1))
    caption = (
        f"QPS with the variant ÷ QPS with {variants.names[0]} at "
        f"{campaign.describe_clients(threads)}, with 95 % intervals where there are two blocks or "
        "more; descriptive. The band is ±1 %."
    )
    return Figure(
        "relative-qps",
        "Relative QPS of every workload",
        caption,
        make_chart(height, layers),
    )
