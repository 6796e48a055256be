"""The report of ``dballoc combine``: the answer, each metric over the hosts, who they are."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts
from dballoc.analysis.tables.baseline_comparison import Metric
from dballoc.numbers import count, percent
from dballoc.report.charts.ratios import capitalize_title, draw_intervals
from dballoc.report.charts.variant_marks import Figure, Variants
from dballoc.report.hosts.hosts_answer import (
    compose_headline,
    describe_verdict,
    format_host_figure,
    format_mean,
    format_next_host,
    list_notes,
)
from dballoc.report.outputs.csv_cells import escape_formula
from dballoc.report.outputs.page import Page
from dballoc.report.sections.section import Section
from dballoc.report.sections.tables import Table
from dballoc.report.wording.answer import Answer, Line
from dballoc.report.wording.ratios_as_text import format_ratio

_METHOD = (
    "Each host gives one number, the mean of its blocks' ln ratio to the baseline. The interval is "
    "Student's t of these numbers on hosts − 1 degrees of freedom (Hartung and Knapp's, with the "
    "same weight for every host), so it is about hosts of which these are a sample."
)


def gather_hosts_report(pool: HostPool, figures: Sequence[FigureOverHosts]) -> Page:
    """Return the page of several hosts' campaigns."""
    names = list(pool.variants)
    metrics = dict.fromkeys(figure.metric for figure in figures)
    sections = [
        _make_metric_section(metric, [f for f in figures if f.metric == metric], pool)
        for metric in metrics
    ]
    return Page(
        title=f"dballoc combine: {pool.first.experiment.name}",
        subtitle=f"{count(len(pool.hosts), 'host')} · {', '.join(names)}",
        names=names,
        answer=_make_answer(pool, figures),
        sections=[
            *sections,
            Section(
                key="hosts",
                title="The hosts",
                text=[f"Not pooled: {text}." for text in pool.left_out],
                tables=_tabulate_hosts(pool),
            ),
            Section(key="method", title="Method", text=[_METHOD]),
        ],
    )


def write_hosts_csv(figures: Sequence[FigureOverHosts], path: Path) -> None:
    """Write every host's figures, and those over all hosts, a row each. OSError if that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["metric", "variant", "host", "ratio", "low", "high", "confidence"])
        for figure in figures:
            rows: list[list[Any]] = [
                [f.host.name, f.ratio.estimate, f.ratio.low, f.ratio.high, f.ratio.confidence]
                for f in figure.figures
            ]
            # Over fewer than four hosts there is none for all.
            if (mean := figure.mean) and not (figure.is_judged and figure.no_verdict):
                rows.append(["", mean.estimate, mean.low, mean.high, mean.confidence])
            for row in rows:
                cells = [figure.metric.key, figure.variant, *row]
                writer.writerow([escape_formula(cell) for cell in cells])


def _make_answer(pool: HostPool, figures: Sequence[FigureOverHosts]) -> Answer:
    others = [name for name in pool.variants if name != pool.baseline]
    lines = [
        Line(
            name,
            "; ".join(
                f"{f.metric.title} × {format_mean(f.mean)}, {describe_verdict(f)}"
                for f in figures
                if f.variant == name and f.is_judged
            ),
        )
        for name in others
    ]
    return Answer(
        headline=compose_headline(pool, figures),
        reason="",
        against=f"Against {pool.baseline}, over the hosts",
        variants=lines,
        notes=list_notes(pool, figures),
    )


def _make_metric_section(
    metric: Metric, figures: Sequence[FigureOverHosts], pool: HostPool
) -> Section:
    key = metric.key.replace(":", "-")
    variants = Variants(list(pool.variants))
    return Section(
        key=key,
        title=capitalize_title(metric),
        figures=[_draw_hosts(f"{key}-{f.variant}", f, variants, pool.baseline) for f in figures],
        tables=[_tabulate_means(figures), _tabulate_host_figures(figures)],
    )


def _draw_hosts(key: str, figure: FigureOverHosts, variants: Variants, baseline: str) -> Figure:
    """Draw the mean over the hosts with its interval, and each host's under it."""
    rows: list[dict[str, Any]] = [
        {
            "row": f.host.name,
            "variant": figure.variant,
            "ratio": f.ratio.estimate,
            "low": f.ratio.low if f.ratio.has_interval else None,
            "high": f.ratio.high if f.ratio.has_interval else None,
            "words": format_host_figure(f),
            "verdict": "",
        }
        for f in figure.figures
    ]
    if (mean := figure.mean) is not None and not (figure.is_judged and figure.no_verdict):
        over_all = {
            "row": "over hosts",
            "variant": figure.variant,
            "ratio": mean.estimate,
            "low": mean.low,
            "high": mean.high,
            "words": format_mean(mean),
            "verdict": describe_verdict(figure),
        }
        rows = [over_all, *rows]
    level = f", over hosts at {percent(mean.confidence, 2)}" if mean else ""
    caption = (
        f"Better is {figure.metric.better}. Point and interval of each host at 95 %{level}; the "
        "band is ±1 %."
    )
    chart = draw_intervals(
        rows, [row["row"] for row in rows], f"{figure.variant} ÷ {baseline}", variants
    )
    return Figure(f"hosts-{key}", figure.variant, caption, chart)


def _tabulate_means(figures: Sequence[FigureOverHosts]) -> Table:
    rows = []
    for figure in figures:
        between = f"±{percent(figure.mean.between)}" if figure.mean else ""
        rows.append(
            [
                figure.variant,
                "all",
                format_mean(figure.mean),
                describe_verdict(figure),
                between,
                format_next_host(figure),
            ]
        )
        rows += [
            [figure.variant, kind, format_ratio(mean.estimate), "", f"±{percent(mean.between)}", ""]
            for kind, mean in figure.kinds.items()
        ]
    return Table(
        title="Over the hosts",
        columns=["variant", "hosts", "mean", "verdict", "between hosts", "next host"],
        rows=rows,
        heads=2,
        words=("verdict",),
    )


def _tabulate_host_figures(figures: Sequence[FigureOverHosts]) -> Table:
    hosts = dict.fromkeys(f.host.name for figure in figures for f in figure.figures)
    by_place = {
        (f.host.name, figure.variant): format_host_figure(f)
        for figure in figures
        for f in figure.figures
    }
    return Table(
        title="Each host, 95 %, with its own campaign's verdict",
        columns=["host", *(figure.variant for figure in figures)],
        rows=[[name, *(by_place.get((name, f.variant), "–") for f in figures)] for name in hosts],
    )


def _tabulate_hosts(pool: HostPool) -> list[Table]:
    hosts = Table(
        title="Which",
        columns=["host", "kind", "blocks"],
        rows=[
            [
                host.name,
                host.kind,
                str(sum(c.blocks(design) for c in host.campaigns for design in c.designs)),
            ]
            for host in pool.hosts
        ],
        words=("kind",),
    )
    names = [host.name for host in pool.hosts]
    differences = Table(
        title="In what they differ",
        columns=["what", *names],
        rows=[[key, *(values[name] for name in names)] for key, values in pool.differences],
        words=names,
    )
    return [hosts, differences] if pool.differences else [hosts]
