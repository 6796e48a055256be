"""The report of ``dballoc combine``: the answer, each metric over the hosts, who they are."""

from collections.abc import Sequence
from typing import Any

from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts, HostFigure
from dballoc.analysis.measures import Metric
from dballoc.analysis.statistics.mean_over_hosts import MeanOverHosts
from dballoc.analysis.statistics.ratio_interval import Ratio
from dballoc.document.charts import Variants
from dballoc.document.model import Column, Document, Figure, Section, Table, tabulate
from dballoc.numbers import NOTHING, count, percent
from dballoc.report.charts.ratios import capitalize_title, draw_intervals
from dballoc.report.hosts.hosts_answer import (
    answer_over_hosts,
    describe_verdict,
    describe_verdicts,
)
from dballoc.report.wording.ratios_as_text import describe_ratio, show_ratio

_METHOD = (
    "Each host gives one number, the mean of its blocks' ln ratio to the baseline. The interval is "
    "Student's t of these numbers on hosts − 1 degrees of freedom (Hartung and Knapp's, with the "
    "same weight for every host; no narrower than the scatter of the blocks alone makes it), so it "
    "is about hosts of which these are a sample."
)

_HOSTS = (
    Column("host", "name"),
    Column("kind", words=True),
    Column("blocks"),
    Column("results", lambda host: ", ".join(map(str, host.directories)), words=True),
)


def gather_hosts_report(pool: HostPool, figures: Sequence[FigureOverHosts]) -> Document:
    """Return the report of several hosts' campaigns."""
    names = list(pool.variants)
    sections = [
        *(
            _make_metric_section(metric, [f for f in figures if f.metric == metric], pool)
            for metric in dict.fromkeys(figure.metric for figure in figures)
        ),
        Section(
            key="hosts",
            title="The hosts",
            text=[f"Not pooled: {text}." for text in pool.left_out],
            tables=_tabulate_hosts(pool),
        ),
    ]
    return Document(
        title=f"dballoc combine: {pool.first.experiment.name}",
        subtitle=f"{count(len(pool.hosts), 'host')} · {', '.join(names)}",
        names=names,
        answer=answer_over_hosts(pool, figures),
        sections=[*sections, Section(key="method", title="Method", text=[_METHOD])],
        screen=sections,
        data_name="combined",
        data=describe_verdicts(pool, figures),
        csv=lambda: {"hosts": list_csv_rows(figures)},
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
    rows = [
        _make_bar(f.host.name, figure.variant, f.ratio, format_host_figure(f))
        for f in figure.figures
    ]
    level = ""
    if (mean := figure.mean) is not None and mean.interval:
        level = f", over hosts at {percent(mean.confidence, 2)}"
        over_all = _make_bar("over hosts", figure.variant, mean, show_ratio(mean))
        rows = [over_all | {"verdict": describe_verdict(figure)}, *rows]
    caption = (
        f"Better is {figure.metric.better}. Point and interval of each host at 95 %{level}; the "
        "band is ±1 %."
    )
    chart = draw_intervals(
        rows, [row["row"] for row in rows], f"{figure.variant} ÷ {baseline}", variants
    )
    return Figure(f"hosts-{key}", figure.variant, caption, chart)


def _make_bar(name: str, variant: str, ratio: Ratio, words: str) -> dict[str, Any]:
    bar = {"row": name, "variant": variant, "words": words, "verdict": ""}
    return bar | describe_ratio(ratio)


def _tabulate_means(figures: Sequence[FigureOverHosts]) -> Table:
    rows = []
    for figure in figures:
        words, between = describe_verdict(figure), format_between(figure.mean)
        cells = show_ratio(figure.mean), words, between, _format_next_host(figure.mean)
        rows.append([figure.variant, "all", *cells])
        rows += [
            [
                figure.variant,
                f"{count(mean.hosts, 'host')}: {kind}",
                show_ratio(mean),
                NOTHING,
                format_between(mean),
                NOTHING,
            ]
            for kind, mean in figure.kinds.items()
        ]
    return Table(
        title="Over the hosts",
        columns=["variant", "hosts", "mean", "verdict", "between hosts", "next host"],
        rows=rows,
        heads=2,
        words=("verdict",),
    )


def format_between(mean: MeanOverHosts | None) -> str:
    """Return how much the ratio differs from host to host: ``±3.1 %``."""
    return NOTHING if mean is None or mean.between is None else f"±{percent(mean.between)}"


def _format_next_host(mean: MeanOverHosts | None) -> str:
    """Return where one further host would lie: ``0.916 to 1.097``."""
    if mean is None or mean.next_host is None:
        return NOTHING
    return "{:.3f} to {:.3f}".format(*mean.next_host)


def _tabulate_host_figures(figures: Sequence[FigureOverHosts]) -> Table:
    cells: dict[str, dict[str, str]] = {}
    for figure in figures:
        for f in figure.figures:
            cells.setdefault(f.host.name, {})[figure.variant] = format_host_figure(f)
    names = [figure.variant for figure in figures]
    return Table(
        title="Each host, 95 %, with its own campaign's verdict",
        columns=["host", *names],
        rows=[
            [host, *(of_host.get(name, NOTHING) for name in names)]
            for host, of_host in cells.items()
        ],
    )


def format_host_figure(figure: HostFigure) -> str:
    """Return ``0.712 [0.690, 0.735] lower``: the host's own verdict where it has one."""
    words = sorted({v.value for v in figure.verdicts if v is not Verdict.NOT_JUDGED})
    return f"{show_ratio(figure.ratio)} {', '.join(words)}".strip()


def _tabulate_hosts(pool: HostPool) -> list[Table]:
    names = [host.name for host in pool.hosts]
    differences = Table(
        title="In what they differ",
        columns=["what", *names],
        rows=[[key, *(values[name] for name in names)] for key, values in pool.differences],
        words=names,
    )
    hosts = tabulate("Which", _HOSTS, pool.hosts)
    return [hosts, differences] if pool.differences else [hosts]


_CSV_COLUMNS = (
    "metric", "variant", "host", "ratio", "low", "high", "confidence", "kind", "hosts", "verdict",
)  # fmt: skip


def list_csv_rows(figures: Sequence[FigureOverHosts]) -> list[tuple[Any, ...]]:
    """Return the rows of ``hosts.csv``, one for each figure, after the headings; ``host`` is empty
    in one over several, ``kind`` in one over all.
    """
    rows: list[tuple[Any, ...]] = [_CSV_COLUMNS]
    for figure in figures:
        name = figure.metric.key, figure.variant
        rows += [
            (*name, f.host.name, *_list_ends(f.ratio), f.host.kind, 1, "") for f in figure.figures
        ]
        rows += [
            (*name, "", *_list_ends(mean), kind, mean.hosts, "")
            for kind, mean in figure.kinds.items()
        ]
        if mean := figure.mean:
            verdict = "" if figure.no_verdict else figure.verdict.value
            rows.append((*name, "", *_list_ends(mean), "", mean.hosts, verdict))
    return rows


def _list_ends(ratio: Ratio) -> tuple[float | None, ...]:
    return ratio.estimate, ratio.low, ratio.high, ratio.confidence if ratio.interval else None
