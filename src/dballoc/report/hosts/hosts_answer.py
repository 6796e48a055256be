"""Several hosts' campaigns as one question, in words and as JSON. Pure: from figures to sentences
and plain data.
"""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.analysis.decisions.sequential_test import ERROR
from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts, HostFigure
from dballoc.analysis.statistics.mean_over_hosts import FEWEST_HOSTS, MeanOverHosts
from dballoc.analysis.tables.baseline_comparison import Metric
from dballoc.numbers import NOTHING, count, listing, percent
from dballoc.report.wording.ratios_as_text import format_ratio

_NO_OWN_VERDICT = (
    "Each host's own figures are below, without a verdict: no campaign has reached its first "
    "interim analysis."
)


def compose_headline(pool: HostPool, figures: Sequence[FigureOverHosts]) -> str:
    """Return the answer in a sentence: what is shown over the hosts, and no more."""
    hosts = len(pool.hosts)
    if hosts < FEWEST_HOSTS:
        verdicts = {v for figure in figures for f in figure.figures for v in f.verdicts}
        has_own = not verdicts <= {Verdict.NOT_JUDGED}
        return f"{count(hosts, 'host')}: no verdict for all hosts, which takes {FEWEST_HOSTS}. " + (
            "Each host's own verdicts are below." if has_own else _NO_OWN_VERDICT
        )
    shown: dict[str, list[str]] = {}
    for figure in figures:
        if figure.mean and figure.verdict in (Verdict.HIGHER, Verdict.LOWER):
            title = figure.metric.title
            shown.setdefault(figure.variant, []).append(
                f"{title} {figure.verdict.value} ({format_ratio(figure.mean.estimate)})"
            )
    if not shown:
        return f"Over {hosts} hosts no variant is shown to differ from {pool.baseline}."
    parts = [f"{variant}: {listing(words)}" for variant, words in shown.items()]
    return f"Over {hosts} hosts, against {pool.baseline}: {'; '.join(parts)}."


def list_notes(pool: HostPool, figures: Sequence[FigureOverHosts]) -> list[str]:
    """Return what a reader must know beside the figures."""
    notes = []
    for figure in figures:
        if figure.is_judged and figure.higher_on and figure.lower_on:
            higher, lower = listing(list(figure.higher_on)), listing(list(figure.lower_on))
            notes.append(
                f"Hosts differ in sign: {figure.variant}, {figure.metric.title}: higher on "
                f"{higher}; lower on {lower}."
            )
    several = [host for host in pool.hosts if len(host.campaigns) > 1]
    for host in several:
        notes.append(f"{count(len(host.campaigns), 'campaign')} of {host.name} are one host.")
    judged = [f for f in figures if f.is_judged and f.mean]
    if len(pool.hosts) >= FEWEST_HOSTS and judged:
        notes.append(
            f"Intervals with a verdict: Student's t on {len(pool.hosts) - 1} degrees of freedom "
            "(fewer where a host lacks the figure), every host with the same weight; "
            f"all {count(len(judged), 'comparison')} together err in {percent(ERROR, 0)}."
        )
        notes.append(
            "Between hosts: the standard deviation of the ratio from host to host, without the "
            "scatter of the blocks where a host has several. Next host: where one further host "
            "like these would lie."
        )
    return notes


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
        blocks = sum(c.blocks(design) for c in host.campaigns for design in c.designs)
        where = ", ".join(map(str, host.directories))
        table.add_row(*map(Text, (f"  {host.name}", host.kind, str(blocks), where)))
    return table


def _tabulate_means(figures: Sequence[FigureOverHosts]) -> Table:
    table = _make_grid(["  over hosts", "mean", "verdict", "between hosts", "next host"])
    for figure in figures:
        table.add_row(
            Text(f"  {figure.variant}"),
            Text(format_mean(figure.mean)),
            Text(describe_verdict(figure)),
            Text(f"±{percent(figure.mean.between)}" if figure.mean else NOTHING),
            Text(format_next_host(figure)),
        )
        for kind, mean in figure.kinds.items():
            label = f"    {count(mean.hosts, 'host')}: {kind}"
            table.add_row(Text(label, style="dim"), Text(format_mean(mean), style="dim"))
    return table


def format_next_host(figure: FigureOverHosts) -> str:
    """Return where one further host would lie: ``0.916 to 1.097``."""
    if figure.mean is None or len(figure.figures) < FEWEST_HOSTS:
        return NOTHING
    return f"{figure.mean.next_low:.3f} to {figure.mean.next_high:.3f}"


def format_mean(mean: MeanOverHosts | None) -> str:
    """Return the mean and, from enough hosts, its interval."""
    if mean is None:
        return NOTHING
    if mean.hosts < FEWEST_HOSTS:
        return format_ratio(mean.estimate)
    return format_ratio(mean.estimate, mean.low, mean.high)


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
    interval = (ratio.low, ratio.high) if ratio.has_interval else (None, None)
    return " ".join([format_ratio(ratio.estimate, *interval), ", ".join(words)]).strip()


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
        "left_out": list(pool.left_out),
        "differences": dict(pool.differences),
        "figures": [_describe_figure(figure) for figure in figures],
        "notes": list_notes(pool, figures),
    }


def _describe_figure(figure: FigureOverHosts) -> dict[str, Any]:
    mean = figure.mean
    has_verdict = not figure.no_verdict
    return {
        "variant": figure.variant,
        "metric": figure.metric.key,
        "title": figure.metric.title,
        "better": figure.metric.better,
        "ratio": mean.estimate if mean else None,
        "low": mean.low if mean and has_verdict else None,
        "high": mean.high if mean and has_verdict else None,
        "confidence": mean.confidence if mean and has_verdict else None,
        "verdict": figure.verdict.value if has_verdict else None,
        "no_verdict": figure.no_verdict or None,
        "between_hosts": mean.between if mean else None,
        "next_host": [mean.next_low, mean.next_high] if mean and has_verdict else None,
        "higher_on": list(figure.higher_on),
        "lower_on": list(figure.lower_on),
        "kinds": {
            kind: {"ratio": of_kind.estimate, "hosts": of_kind.hosts}
            for kind, of_kind in figure.kinds.items()
        },
        "hosts": [
            {
                "host": f.host.name,
                "ratio": f.ratio.estimate,
                "low": f.ratio.low if f.ratio.has_interval else None,
                "high": f.ratio.high if f.ratio.has_interval else None,
                "blocks": f.ratio.blocks,
                "verdicts": [verdict.value for verdict in f.verdicts],
            }
            for f in figure.figures
        ],
    }
