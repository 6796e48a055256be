"""The report of ``dballoc combine``: the answer, each metric over the hosts, who they are."""

from collections.abc import Sequence
from typing import Any

from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts
from dballoc.analysis.tables.baseline_comparison import Metric
from dballoc.document.charts import Variants
from dballoc.document.model import Answer, Document, Figure, Section, Table, VariantLine
from dballoc.numbers import NOTHING, count, percent
from dballoc.report.charts.ratios import capitalize_title, draw_intervals
from dballoc.report.hosts.hosts_answer import (
    describe_kind,
    describe_verdict,
    format_between,
    format_host_figure,
    format_kind,
    format_mean,
    format_next_host,
)
from dballoc.report.hosts.hosts_headline import compose_headline
from dballoc.report.hosts.hosts_notes import list_notes

_METHOD = (
    "Each host gives one number, the mean of its blocks' ln ratio to the baseline. The interval is "
    "Student's t of these numbers on hosts − 1 degrees of freedom (Hartung and Knapp's, with the "
    "same weight for every host; no narrower than the scatter of the blocks alone makes it), so it "
    "is about hosts of which these are a sample."
)


def gather_hosts_report(pool: HostPool, figures: Sequence[FigureOverHosts]) -> Document:
    """Return the page of several hosts' campaigns."""
    names = list(pool.variants)
    metrics = dict.fromkeys(figure.metric for figure in figures)
    sections = [
        _make_metric_section(metric, [f for f in figures if f.metric == metric], pool)
        for metric in metrics
    ]
    return Document(
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


def _make_answer(pool: HostPool, figures: Sequence[FigureOverHosts]) -> Answer:
    others = [name for name in pool.variants if name != pool.baseline]
    lines = [
        VariantLine(
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
        headline=compose_headline(pool, figures).removesuffix("."),
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
            "low": f.ratio.low,
            "high": f.ratio.high,
            "words": format_host_figure(f),
            "verdict": "",
        }
        for f in figure.figures
    ]
    level = ""
    if (mean := figure.mean) is not None and mean.interval:
        level = f", over hosts at {percent(mean.confidence, 2)}"
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
        rows.append(
            [
                figure.variant,
                "all",
                format_mean(figure.mean),
                describe_verdict(figure),
                format_between(figure.mean),
                format_next_host(figure),
            ]
        )
        rows += [
            [
                figure.variant,
                describe_kind(kind),
                format_kind(kind),
                NOTHING,
                format_between(kind),
                NOTHING,
            ]
            for kind in figure.kinds
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
        rows=[
            [name, *(by_place.get((name, f.variant), NOTHING) for f in figures)] for name in hosts
        ],
    )


def _tabulate_hosts(pool: HostPool) -> list[Table]:
    hosts = Table(
        title="Which",
        columns=["host", "kind", "blocks"],
        rows=[[host.name, host.kind, str(host.blocks)] for host in pool.hosts],
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
