"""Several hosts' campaigns as one question, in words and as JSON. Pure: from figures to sentences
and plain data.
"""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.analysis.hosts.kinds_of_hosts import KindFigure
from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts, HostFigure
from dballoc.analysis.statistics.mean_over_hosts import MeanOverHosts
from dballoc.analysis.tables.baseline_comparison import Metric
from dballoc.numbers import NOTHING, count, percent
from dballoc.report.hosts.hosts_headline import compose_headline
from dballoc.report.hosts.hosts_notes import list_notes
from dballoc.report.wording.ratios_as_text import format_ratio


def describe_verdict(figure: FigureOverHosts) -> str:
    """Return one of the four verdicts, or why there is none."""
    if figure.no_verdict:
        return f"no verdict: {figure.no_verdict}" if figure.is_judged else NOTHING
    return figure.verdict.value


def print_verdicts(console: Console, pool: HostPool, figures: Sequence[FigureOverHosts]) -> None:
    """Print the answer, the hosts, and a table for each metric."""
    console.print(Text(compose_headline(pool, figures), style="bold"))
    console.print("", _tabulate_hosts(pool), sep="\n")
    for text in pool.left_out:
        console.print(Text(f"· Not pooled: {text}."))
    for metric in dict.fromkeys(figure.metric for figure in figures):
        of_metric = [figure for figure in figures if figure.metric == metric]
        console.print("", Text(_title_metric(metric, pool), style="bold"), sep="\n")
        console.print(_tabulate_means(of_metric))
        console.print(_tabulate_host_figures(of_metric))
    if pool.differences:
        console.print("", Text("What differs between the hosts", style="bold"), sep="\n")
        console.print(_tabulate_differences(pool))
    for note in list_notes(pool, figures):
        console.print(Text(f"· {note}", style="dim"))


def _title_metric(metric: Metric, pool: HostPool) -> str:
    return f"{metric.title}, ÷ {pool.baseline} (better: {metric.better})"


def _make_grid(headings: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for number in range(len(headings)):
        table.add_column(overflow="fold", no_wrap=number < 2)
    table.add_row(*(Text(heading, style="dim") for heading in headings))
    return table


def _tabulate_hosts(pool: HostPool) -> Table:
    table = _make_grid(["  host", "kind", "blocks", "results"])
    for host in pool.hosts:
        where = ", ".join(map(str, host.directories))
        table.add_row(*map(Text, (f"  {host.name}", host.kind, str(host.blocks), where)))
    return table


def _tabulate_means(figures: Sequence[FigureOverHosts]) -> Table:
    table = _make_grid(["  over hosts", "mean", "verdict", "between hosts", "next host"])
    for figure in figures:
        table.add_row(
            Text(f"  {figure.variant}"),
            Text(format_mean(figure.mean)),
            Text(describe_verdict(figure)),
            Text(format_between(figure.mean)),
            Text(format_next_host(figure)),
        )
        for kind in figure.kinds:
            cells = (f"    {describe_kind(kind)}", format_kind(kind), "", format_between(kind))
            table.add_row(*(Text(cell, style="dim") for cell in cells))
    return table


def format_next_host(figure: FigureOverHosts) -> str:
    """Return where one further host would lie: ``0.916 to 1.097``."""
    if figure.mean is None or figure.mean.next_host is None:
        return NOTHING
    return "{:.3f} to {:.3f}".format(*figure.mean.next_host)


def format_mean(mean: MeanOverHosts | None) -> str:
    """Return the mean and, from enough hosts, its interval."""
    if mean is None:
        return NOTHING
    return format_ratio(mean.estimate, mean.low, mean.high)


def format_between(figure: MeanOverHosts | KindFigure | None) -> str:
    """Return how much the ratio differs from host to host: ``±3.1 %``."""
    if figure is None or figure.between is None:
        return NOTHING
    return f"±{percent(figure.between)}"


def describe_kind(kind: KindFigure) -> str:
    """Return ``2 hosts: Xeon, 8 CPUs, 32 GiB``."""
    return f"{count(kind.hosts, 'host')}: {kind.kind}"


def format_kind(kind: KindFigure) -> str:
    """Return the mean of a kind of hosts with its 95 % interval."""
    return format_ratio(kind.ratio.estimate, kind.ratio.low, kind.ratio.high)


def _tabulate_host_figures(figures: Sequence[FigureOverHosts]) -> Table:
    table = _make_grid(["  each host, 95 %", *(figure.variant for figure in figures)])
    hosts = dict.fromkeys(f.host.name for figure in figures for f in figure.figures)
    for name in hosts:
        cells = []
        for figure in figures:
            of_host = [f for f in figure.figures if f.host.name == name]
            cells.append(format_host_figure(of_host[0]) if of_host else NOTHING)
        table.add_row(Text(f"  {name}"), *map(Text, cells))
    return table


def format_host_figure(figure: HostFigure) -> str:
    """Return ``0.712 [0.690, 0.735] lower``: the host's own verdict where it has one."""
    ratio = figure.ratio
    words = sorted({v.value for v in figure.verdicts if v is not Verdict.NOT_JUDGED})
    figures = format_ratio(ratio.estimate, ratio.low, ratio.high)
    return " ".join([figures, ", ".join(words)]).strip()


def _tabulate_differences(pool: HostPool) -> Table:
    table = _make_grid(["  what", *(host.name for host in pool.hosts)])
    for key, values in pool.differences:
        cells = (values[host.name] for host in pool.hosts)
        table.add_row(*map(Text, (f"  {key}", *cells)))
    return table


def describe_verdicts(pool: HostPool, figures: Sequence[FigureOverHosts]) -> dict[str, Any]:
    """Return the whole answer as plain data; null where there is no interval or no verdict."""
    return {
        "headline": compose_headline(pool, figures),
        "baseline": pool.baseline,
        "hosts": [
            {
                "host": host.name,
                "kind": host.kind,
                "directories": [str(directory) for directory in host.directories],
            }
            for host in pool.hosts
        ],
        "left_out": list(map(str, pool.left_out)),
        "differences": dict(pool.differences),
        "figures": [_describe_figure(figure) for figure in figures],
        "notes": list_notes(pool, figures),
    }


def _describe_figure(figure: FigureOverHosts) -> dict[str, Any]:
    mean = figure.mean
    return {
        "variant": figure.variant,
        "metric": figure.metric.key,
        "title": figure.metric.title,
        "better": figure.metric.better,
        "ratio": mean.estimate if mean else None,
        "low": mean.low if mean else None,
        "high": mean.high if mean else None,
        "confidence": mean.confidence if mean and mean.interval else None,
        "verdict": None if figure.no_verdict else figure.verdict.value,
        "no_verdict": figure.no_verdict or None,
        "between_hosts": mean.between if mean else None,
        "next_host": mean.next_host if mean else None,
        "higher_on": list(figure.higher_on),
        "lower_on": list(figure.lower_on),
        "lacking": dict(figure.lacking),
        "kinds": {
            kind.kind: {
                "ratio": kind.ratio.estimate,
                "low": kind.ratio.low,
                "high": kind.ratio.high,
                "between_hosts": kind.between,
                "hosts": kind.hosts,
            }
            for kind in figure.kinds
        },
        "hosts": [
            {
                "host": f.host.name,
                "ratio": f.ratio.estimate,
                "low": f.ratio.low,
                "high": f.ratio.high,
                "blocks": f.ratio.blocks,
                "verdicts": [verdict.value for verdict in f.verdicts],
            }
            for f in figure.figures
        ],
    }
