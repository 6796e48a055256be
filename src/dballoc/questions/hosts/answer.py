"""The report of ``dballoc combine``: what several hosts' campaigns answer together, each metric
over the hosts, who they are, and the same as plain data. Pure.
"""

from collections.abc import Sequence
from typing import Any

from dballoc.document.charts import Variants
from dballoc.document.model import (
    Answer,
    Column,
    Document,
    Figure,
    Section,
    Table,
    VariantLine,
    tabulate,
)
from dballoc.ground.numbers import NOTHING, count, listing, percent
from dballoc.questions.compare.measures import Metric
from dballoc.questions.compare.procedure import ERROR
from dballoc.questions.compare.ratio_charts import capitalize_title, draw_intervals
from dballoc.questions.compare.ratios_as_text import describe_ratio, format_ratio, show_ratio
from dballoc.questions.compare.verdict import Verdict
from dballoc.questions.hosts.figures import FigureOverHosts, HostFigure
from dballoc.questions.hosts.host_pool import ALLOCATOR_OF, HostPool
from dballoc.questions.statistics.mean_over_hosts import FEWEST_HOSTS, MeanOverHosts
from dballoc.questions.statistics.ratio_interval import Ratio

_NO_OWN_VERDICT = (
    "Each host's own figures are below, without a verdict: no campaign has reached its first "
    "interim analysis."
)


def compose_headline(pool: HostPool, figures: Sequence[FigureOverHosts]) -> str:
    """Return the answer: what is shown over the hosts, and no more."""
    hosts = len(pool.hosts)
    if hosts < FEWEST_HOSTS:
        verdicts = {v for figure in figures for f in figure.figures for v in f.verdicts}
        has_own = not verdicts <= {Verdict.NOT_JUDGED}
        return f"{count(hosts, 'host')}: no verdict for all hosts, which takes {FEWEST_HOSTS}. " + (
            "Each host's own verdicts are below." if has_own else _NO_OWN_VERDICT
        )
    questions = [figure for figure in figures if figure.is_judged]
    judged = [figure for figure in questions if not figure.no_verdict]
    unjudged = [figure for figure in questions if figure.no_verdict]
    sentences = [_tell_shown(judged, pool)] if judged else []
    if unjudged:
        sentences.append(f"No verdict on {_list_reasons(unjudged)}.")
    return " ".join(sentences) or f"{count(hosts, 'host')}: nothing that is judged is on all."


def _tell_shown(judged: Sequence[FigureOverHosts], pool: HostPool) -> str:
    """Return what is shown of figures with a verdict; how many hosts it is over once, where that is
    the same for all.
    """
    shown = [f for f in judged if f.verdict in (Verdict.HIGHER, Verdict.LOWER)]
    numbers = {len(figure.figures) for figure in shown or judged}
    places = [_count_hosts(number, pool) for number in sorted(numbers)]
    where = f"Over {places[0] if len(places) == 1 else f'{places[0]} or more'}"
    if not shown:
        return f"{where} no variant is shown to differ from {pool.baseline} in what was judged."
    differences: dict[str, list[str]] = {}
    for figure in shown:
        assert figure.mean
        over = f", {_count_hosts(len(figure.figures), pool)}" if len(places) > 1 else ""
        differences.setdefault(figure.variant, []).append(
            f"{figure.metric.title} {figure.verdict.value} "
            f"({format_ratio(figure.mean.estimate)}{over})"
        )
    parts = [f"{variant}: {listing(words)}" for variant, words in differences.items()]
    return f"{where}, against {pool.baseline}: {'; '.join(parts)}."


def _count_hosts(number: int, pool: HostPool) -> str:
    """Return ``5 hosts``, or ``4 of 5 hosts``."""
    total = count(len(pool.hosts), "host")
    return total if number == len(pool.hosts) else f"{number} of {total}"


def _list_reasons(unjudged: Sequence[FigureOverHosts]) -> str:
    """Return the figures without a verdict, variant by variant, with the reason of each."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for figure in unjudged:
        by_reason.setdefault((figure.variant, figure.no_verdict), []).append(figure.metric.title)
    return "; ".join(
        f"{variant}, {listing(titles)}: {reason}" for (variant, reason), titles in by_reason.items()
    )


# Figures that a sentence names one by one; of more it says how many.
_MOST_NAMED = 4


def list_notes(pool: HostPool, figures: Sequence[FigureOverHosts]) -> list[str]:
    """Return a sentence or two for each."""
    judged = [figure for figure in figures if figure.is_judged]
    return [
        *_note_signs(judged),
        *_note_absences(figures),
        *_note_baseline_faults(pool, figures),
        *(_note_versions(pool) if judged else []),
        *_note_machines(pool),
        *_note_method(pool, judged),
    ]


def _note_signs(judged: Sequence[FigureOverHosts]) -> list[str]:
    return [
        f"Hosts differ in sign: {figure.variant}, {figure.metric.title}: higher on "
        f"{listing(figure.higher_on)}; lower on {listing(figure.lower_on)}."
        for figure in judged
        if figure.higher_on and figure.lower_on
    ]


def _note_absences(figures: Sequence[FigureOverHosts]) -> list[str]:
    """Say of each host that lacks figures which ones, and why."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for figure in figures:
        for host, reason in figure.lacking.items():
            title = f"{figure.variant}, {figure.metric.title}"
            lacking.setdefault((host, reason), []).append(title)
    return [
        f"{host} has no figure in "
        f"{'; '.join(titles) if len(titles) <= _MOST_NAMED else f'{len(titles)} comparisons'}: "
        f"{reason}."
        for (host, reason), titles in lacking.items()
    ]


def _note_baseline_faults(pool: HostPool, figures: Sequence[FigureOverHosts]) -> list[str]:
    if not figures or not figures[0].baseline_faults:
        return []
    faults = [f"{k} of {n} on {host}" for host, (k, n) in figures[0].baseline_faults.items()]
    return [
        f"Trials of {pool.baseline}, the baseline, ended in a fault: {listing(faults)}. Their "
        "blocks are in no figure of solo runs, and their pairings in none of the duet's."
    ]


def _note_versions(pool: HostPool) -> list[str]:
    """Name allocators whose versions differ: what is shown is then of several versions at once."""
    notes = []
    for title, by_host in pool.differences:
        if title.startswith(ALLOCATOR_OF):
            hosts: dict[str, list[str]] = {}
            for host, version in by_host.items():
                hosts.setdefault(version, []).append(host)
            versions = [f"{version} on {listing(names)}" for version, names in hosts.items()]
            notes.append(f"Versions of the {title} differ: {'; '.join(versions)}.")
    return notes


def _note_machines(pool: HostPool) -> list[str]:
    several = [
        f"{count(len(host.results), 'campaign')} of {host.name} are one host."
        for host in pool.hosts
        if len(host.results) > 1
    ]
    return several + [
        f"{listing(names)} differ in nothing but their name, and no boot ID tells whether they are "
        "one machine, as containers of one would be. If they are, give the results of one alone."
        for names in pool.alike
    ]


def _note_method(pool: HostPool, judged: Sequence[FigureOverHosts]) -> list[str]:
    with_verdict = [figure for figure in judged if not figure.no_verdict]
    if len(pool.hosts) < FEWEST_HOSTS or not with_verdict:
        return []
    return [
        f"Intervals with a verdict: Student's t on {len(pool.hosts) - 1} degrees of freedom "
        "(fewer where a host lacks the figure), every host with the same weight; "
        f"all {count(len(with_verdict), 'comparison')} together err in {percent(ERROR, 0)}.",
        "Between hosts: the standard deviation of the ratio from host to host, without the "
        "scatter of the blocks. Next host: where one further host like these would lie.",
    ]


def describe_verdict(figure: FigureOverHosts) -> str:
    """Return one of the four verdicts, or why there is none."""
    if figure.no_verdict:
        return f"no verdict: {figure.no_verdict}" if figure.is_judged else NOTHING
    return figure.verdict.value


def answer_over_hosts(pool: HostPool, figures: Sequence[FigureOverHosts]) -> Answer:
    """Return the answer in words, with a line for each variant."""
    return Answer(
        headline=compose_headline(pool, figures).removesuffix("."),
        reason="",
        against=f"Against {pool.baseline}, over the hosts",
        variants=[
            VariantLine(
                name,
                "; ".join(
                    f"{f.metric.title} × {show_ratio(f.mean)}, {describe_verdict(f)}"
                    for f in figures
                    if f.variant == name and f.is_judged
                ),
            )
            for name in pool.variants
            if name != pool.baseline
        ],
        notes=list_notes(pool, figures),
    )


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
        **describe_ratio(mean),
        "confidence": mean.confidence if mean and mean.interval else None,
        "verdict": None if figure.no_verdict else figure.verdict.value,
        "no_verdict": figure.no_verdict or None,
        "between_hosts": mean.between if mean else None,
        "next_host": mean.next_host if mean else None,
        "higher_on": figure.higher_on,
        "lower_on": figure.lower_on,
        "lacking": dict(figure.lacking),
        "kinds": {
            kind: describe_ratio(of_kind)
            | {"between_hosts": of_kind.between, "hosts": of_kind.hosts}
            for kind, of_kind in figure.kinds.items()
        },
        "hosts": [
            {
                "host": f.host.name,
                **describe_ratio(f.ratio),
                "blocks": f.ratio.blocks,
                "verdicts": f.verdicts,
            }
            for f in figure.figures
        ],
    }


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
