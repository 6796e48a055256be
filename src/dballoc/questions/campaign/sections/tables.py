"""The tables of a campaign's report, declared once for every form."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any

import polars as pl

from dballoc.document.model import Column, Table, tabulate
from dballoc.ground.numbers import NOTHING, count, mebibytes, number, percent, with_unit
from dballoc.questions.campaign.answer.compose_answer import describe_levels
from dballoc.questions.campaign.figures import level_curves, trial_tables
from dballoc.questions.campaign.sections.machine_and_variants import format_moment
from dballoc.questions.compare.answer_words import describe_verdict
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import CHANGES, OF_LEVEL, PEAK
from dballoc.questions.compare.ratios_as_text import (
    describe_exit,
    format_change,
    format_mean,
    format_ratio,
    show_ratio,
)
from dballoc.questions.statistics.ratio_interval import DESCRIPTIVE_CONFIDENCE

# A table of more columns than this is turned round.
_WIDEST = 12


def tabulate_verdicts(comparisons: Comparisons, levels: str = "") -> Table:
    """Return variants × primary metrics: ratio, interval, verdict; the A/A floor is last.
    ``levels``: the level of each measure's intervals in words, if not those of servers.
    """
    names = list(dict.fromkeys(c.variant for c in comparisons.family))
    columns = ["variant", *(m.title for m in comparisons.metrics)]
    rows = []
    for name in names:
        judged = [comparisons.find(name, m) for m in comparisons.metrics]
        rows.append(
            [name, *(f"{show_ratio(c.ratio)}\n{describe_verdict(c, comparisons)}" for c in judged)]
        )
    baseline = comparisons.baseline
    rows.append(
        [f"{baseline}, A2 ÷ A1", *(f"{show_ratio(c.ratio)}\nA/A floor" for c in comparisons.floor)]
    )
    if len(columns) > _WIDEST:
        columns, *rows = map(list, zip(columns, *rows, strict=True))
        columns[0] = "metric"
    levels = levels or " and ".join(
        f"{describe_levels(comparisons.procedures, design)} ({design})"
        for design in comparisons.procedures
    )
    caption = f"Ratios to {baseline} with intervals at {levels}."
    if comparisons.descriptive:
        title = comparisons.descriptive[0].metric.title
        figures = [
            f"{c.variant if c.variant != baseline else 'A2 ÷ A1'} {show_ratio(c.ratio)}"
            for c in comparisons.descriptive
            if c.ratio
        ]
        caption += (
            f" Descriptive, without a verdict, at {percent(DESCRIPTIVE_CONFIDENCE, 0)}: {title}: "
            f"{', '.join(figures) or 'no figures yet'}."
        )
    return Table(title="Verdicts", columns=columns, rows=rows, caption=caption, words=columns)


def tabulate_floor(comparisons: Comparisons) -> Table:
    """Return the baseline against itself in every primary metric."""

    def format_scatter(comparison: Comparison) -> str | None:
        ratio = comparison.ratio
        return percent(ratio.scatter) if ratio and ratio.interval else None

    # The baseline's own faults leave the floor: its figures are from the blocks with both runs.
    faultless = replace(comparisons, faulty={})
    columns = (
        Column("metric", lambda c: c.metric.title, words=True),
        Column("A2 ÷ A1", "ratio", show_ratio),
        Column("scatter of a block", format_scatter),
        Column("blocks", lambda c: c.ratio.blocks if c.ratio else 0),
        Column("what it shows", lambda c: describe_verdict(c, faultless), words=True),
    )
    return tabulate(f"{comparisons.baseline} against itself", columns, comparisons.floor)


# A workload, a level, a variant; and the columns that name them.
Place = tuple[str, int, str]
HEADS = tuple(
    Column(heading, itemgetter(i)) for i, heading in enumerate(("workload", "threads", "variant"))
)
# Figures with their intervals.
Cells = dict[Place, tuple[float, float | None, float | None]]


def index_cells(rows: pl.DataFrame, value: str = "ratio", **place: str) -> Cells:
    """Return a column of levels' rows with its interval, of the rows with ``place``'s values."""
    columns = rows.filter(**place).select("workload", "threads", "variant", value, "low", "high")
    return {
        (workload, threads, name): (figure, low, high)
        for workload, threads, name, figure, low, high in columns.iter_rows()
    }


def spread(form: Callable[..., str]) -> Callable[[Sequence[float | None]], str]:
    """Return what writes a cell's figure and its interval."""
    return lambda figures: form(*figures)


def tabulate_levels(campaign: Campaign, group: str, title: str, *workloads: str) -> Table:
    """Return levels × variants, means with their 95 % intervals over blocks; of all workloads, or
    of one alone.
    """
    e, summary = campaign.experiment, level_curves.average_levels(campaign)
    # Some clients report no response times, and some kernels no figures of the host.
    measured = set(summary["measure"])
    cells = {
        m: index_cells(
            summary.with_columns(pl.col("mean", "low", "high") * m.scale), "mean", measure=m.levels
        )
        for m in OF_LEVEL.values()
        if m.group == group and m.heading and (m.levels in measured or not measured)
    }
    heads = HEADS[1:] if workloads else HEADS
    figures = [Column(m.heading, of.get, spread(format_mean)) for m, of in cells.items()]
    places = product(workloads or e.workloads, e.threads, campaign.names)
    return tabulate(
        ", ".join([title, *workloads]),
        [*heads, *figures],
        [place for place in places if any(place in of for of in cells.values())],
        caption="Means over blocks with 95 % intervals; descriptive.",
        heads=len(heads),
    )


def tabulate_relative_qps(campaign: Campaign, workload: str) -> Table:
    """Return relative QPS: levels × variants."""
    e, ratios = campaign.experiment, index_cells(level_curves.compute_relative_levels(campaign))
    variants = list_variants(ratios, workload, campaign.names[1:], spread(format_ratio))
    caption = RELATIVE_QPS.format(baseline=e.baseline)
    columns = [Column("threads", str), *variants]
    return tabulate(f"Relative QPS, {workload}", columns, e.threads, caption=caption)


def list_variants(
    cells: Cells, workload: str, names: Iterable[str], form: Callable[[Any], str]
) -> list[Column]:
    """Return a column a variant of a workload's figures; the rows are levels."""

    def select(name: str) -> Callable[[int], Any]:
        return lambda level: cells.get((workload, level, name))

    return [Column(name, select(name), form) for name in names]


RELATIVE_QPS = (
    "QPS with the variant ÷ QPS with {baseline}, block by block, with 95 % intervals; descriptive."
)


def tabulate_changes(campaign: Campaign, workload: str) -> Table:
    """Return Δ % of every measure: levels × variants."""
    e = campaign.experiment
    changes = [
        Column(
            f"Δ {title}, %",
            index_cells(level_curves.compute_relative_levels(campaign, measure)).get,
            spread(format_change),
        )
        for measure, title in CHANGES.items()
    ]
    return tabulate(
        f"Δ % against {e.baseline}, {workload}",
        [*HEADS[1:], *changes],
        product([workload], e.threads, campaign.names[1:]),
        caption="Differences in per cent, with 95 % intervals; descriptive.",
        heads=2,
    )


def tabulate_memory(campaign: Campaign) -> Table:
    """Return start, peak, mean under load, idle, growth, peak ÷ buffer pool. With fresh starts, a
    row a start and variant.
    """
    e = campaign.experiment
    heads = (
        *([Column("workload")] if e.sequence == "fresh" else []),
        *([Column("threads")] if e.levels == "fresh" else []),
        Column("variant"),
    )
    rows: list[dict[str, Any]] = []
    for level, workload in campaign.starts:
        part = campaign.part((level, workload))
        place = {"workload": workload, "threads": level}
        rows += [
            row | place | {"trials": _format_survived(part, row["variant"], row["n"])}
            for row in trial_tables.build_memory_table(part).iter_rows(named=True)
        ]
        rows += [
            place | {"variant": name, "peak": words, "trials": _format_survived(part, name, 0)}
            for name, words in _list_variants_without_survivor(part)
        ]
    return tabulate("Memory", (*heads, *_MEMORY), rows, caption=_MEMORY_CAPTION, heads=len(heads))


def _format_memory(size: float | str) -> str:
    """Write bytes in MiB; words that stand for them are words already."""
    return size if isinstance(size, str) else mebibytes(size)


_MEMORY = (
    *(
        Column(heading, key, _format_memory)
        for heading, key in (
            ("start", "start"),
            ("peak", "peak"),
            ("load mean", "load_mean"),
            ("idle", "idle"),
            ("growth", "growth"),
            ("peak VSZ", "vsz_peak"),
            ("VSZ growth", "vsz_growth"),
            ("PSS", "pss"),
            ("AnonHugePages", "anon_huge"),
        )
    ),
    Column("peak ÷ buffer pool", "peak_to_pool", "{:.2f}".format),
    Column("trials"),
)
_MEMORY_CAPTION = (
    "RSS in MiB, means over the trials that ended as planned. Growth: the end of the load less "
    "the start. VSZ is the whole address space, as ps shows it, without what a server reserves "
    "by the terabyte when it starts; VSZ growth leaves all reserved address space out. PSS and "
    "AnonHugePages: at the end of the load."
)


def tabulate_ledger(campaign: Campaign, ledger_rows: pl.DataFrame) -> Table:
    """Return resident memory by owner. ``ledger_rows``:
    :func:`dballoc.questions.campaign.figures.trial_tables.build_ledger_table`.
    """
    owners: dict[str, dict[str, float]] = {}
    for owner, variant, resident in ledger_rows.select("owner", "variant", "resident").iter_rows():
        owners.setdefault(owner, {})[variant] = resident
    names = [n for n in campaign.names if n in set(ledger_rows["variant"])]
    sums = {n: sum(of.get(n, 0) for of in owners.values()) for n in names}
    caption = (
        "Resident MiB at the end of the load, means over trials, read from outside as dballoc "
        "explain does. glibc's heap is walked, so live memory is told apart from memory that glibc "
        "only holds. Another malloc's memory is one line, together with what the server maps "
        "itself and does not mark: subtract glibc's live heap from it to see what the malloc adds."
    )
    return Table(
        title="Where the memory was",
        columns=["owner", *names],
        rows=[
            [owner, *(mebibytes(of.get(n, 0)) for n in names)]
            for owner, of in [*owners.items(), ("sum", sums)]
        ],
        caption=caption,
    )


def _format_survived(campaign: Campaign, name: str, good: int) -> str:
    """Return ``6``, or ``4 of 6`` where some ended in a fault."""
    every = campaign.trial.filter("counted", variant=name).height
    return str(good) if good == every else f"{good} of {every}"


def _list_variants_without_survivor(campaign: Campaign) -> list[tuple[str, str]]:
    """Return the variants with faults in all their trials, and in words the highest RSS that was
    seen of them.
    """
    faulty = []
    for name in campaign.names:
        trials = campaign.trial.filter("counted", variant=name)
        if trials.height and (trials["outcome"] == "fault").all():
            highest_rss = [mebibytes(v) for v in trials[PEAK.trial].drop_nulls().sort().tail(1)]
            killed = "killed for memory" if (trials["fault"] == "oom").any() else "a fault"
            faulty.append(
                (name, f"{killed} at {highest_rss[0]} or more" if highest_rss else killed)
            )
    return faulty


def tabulate_shapes(campaign: Campaign) -> Table:
    """Return where throughput peaks and where it collapses."""
    top, curves = max(campaign.experiment.threads), level_curves.read_curves(campaign)

    def describe_collapse(row: _ShapeRow) -> str:
        shape = row[-1]
        if shape.collapse_threads is None:
            return "none"
        share = percent(shape.collapse_share, 0)
        return f"at {shape.collapse_threads}: {share} of the best before it"

    def share_at_top(row: _ShapeRow) -> float | None:
        _, _, curve, shape = row
        return curve[top] / shape.peak if top in curve and shape.peak else None

    columns = (
        HEADS[0],
        Column("variant", itemgetter(1)),
        Column("peak at threads", lambda row: row[-1].peak_threads),
        Column("transactions/s there", lambda row: row[-1].peak, number),
        Column(f"at {top}, of the peak", share_at_top, partial(percent, digits=0)),
        Column("collapse", describe_collapse),
    )
    places = product(campaign.experiment.workloads, campaign.names)
    rows = [
        (*place, curve, level_curves.find_peak_and_collapse(curve))
        for place in places
        if (curve := curves.get(place))
    ]
    caption = (
        f"A collapse: throughput below {percent(level_curves.COLLAPSE_SHARE, 0)} of the best at a "
        "lower level."
    )
    return tabulate("Peaks and collapses", columns, rows, caption=caption, heads=2)


# Workload, variant, its curve, and the shape of that.
_ShapeRow = tuple[str, str, dict[int, float], level_curves.ThroughputCurve]


def tabulate_pairs(campaign: Campaign, ratios: pl.DataFrame) -> Table:
    """Return every pair of variants. ``ratios``: of
    :mod:`dballoc.questions.campaign.figures.level_curves`.
    """
    top = max(campaign.experiment.threads)
    titles = {"tps": f"{{}} at {top}", "cpu": "{}, CPU per transaction", PEAK.name: PEAK.label}
    measures = ratios.select("measure", "workload").unique(maintain_order=True).rows()
    cells: dict[tuple[str, str], dict[tuple[str, str | None], str]] = {}
    for row in ratios.iter_rows(named=True):
        place = cells.setdefault((row["first"], row["second"]), {})
        place[row["measure"], row["workload"]] = format_ratio(row["ratio"], row["low"], row["high"])
    headings = [titles[measure].format(workload) for measure, workload in measures]
    columns = ["variant", "relative to", *headings]
    rows = [[*pair, *(of.get(place, NOTHING) for place in measures)] for pair, of in cells.items()]
    is_wide = len(measures) > _WIDEST
    if is_wide:
        named = [[f"{first} ÷ {second}", *figures] for first, second, *figures in rows]
        columns, *rows = map(list, zip(["metric", *headings], *named, strict=True))
    return Table(
        title="Every pair",
        columns=columns,
        rows=rows,
        caption="Ratios with 95 % intervals; descriptive, not part of the declared family.",
        heads=1 if is_wide else 2,
    )


def tabulate_faults(campaign: Campaign) -> Table:
    """Return faulty trials of all trials, lost hosts among them, for each variant with any."""
    rows = []
    for name in campaign.names:
        trials = campaign.trials.filter(variant=name)
        faults = trials.filter(outcome="fault")
        if faults.height:
            kinds = faults.group_by("fault", maintain_order=True).len()
            words = ", ".join(f"{kind} ({n})" for kind, n in kinds.iter_rows())
            highest_rss = with_unit(faults[PEAK.trial].max())  # type: ignore[arg-type]
            rows.append([name, f"{faults.height} of {trials.height}", words, highest_rss])
    columns = ["variant", "trials with a fault", "kinds", "highest RSS seen in them"]
    return Table(title="Faults by variant", columns=columns, rows=rows, words=columns)


def tabulate_every_fault(campaign: Campaign) -> Table:
    """Return every trial that ended in a fault, those of repeated blocks included."""
    columns = (
        Column("trial", name_trial),
        Column("variant", name_variant_of_trial),
        Column("kind", "fault"),
        Column("exit", "exit_status", describe_exit),
        Column("what happened", "fault_text"),
        Column("highest RSS seen", PEAK.trial, with_unit),
    )
    faults = campaign.trials.filter(outcome="fault").iter_rows(named=True)
    return tabulate("Every fault", columns, faults, words=True)


_BLOCKS = (
    Column("design"),
    Column("block"),
    Column("attempt", lambda row: row["attempt"] + 1),
    Column("began (UTC)", lambda row: format_moment(row["started"])),
    Column("minutes", lambda row: (row["ended"] - row["started"]) / 60, number),
    Column("steal", form=percent),
    Column("CPU of others", "others", percent),
    Column("probe before, ms", lambda row: row["probe_before"] * 1e3, number),
    Column("after, ms", lambda row: row["probe_after"] * 1e3, number),
    Column("disturbed", lambda row: row["disturbed"] or "no", words=True),
    Column("counts", lambda row: "yes" if row["counts"] else "no: repeated", words=True),
)


def tabulate_blocks(campaign: Campaign) -> Table:
    """Return what the noise guard saw."""
    last = pl.col("attempt") == pl.col("attempt").max().over("design", "block")
    attempts = campaign.every_block.with_columns(counts=last)
    noise = campaign.experiment.noise
    caption = (
        f"Disturbed: steal above {percent(noise.steal)}, CPU used by others above "
        f"{percent(noise.others)} of all, or the fixed probe {noise.probe:g} times slower than "
        f"usual. A disturbed block is repeated whole, {count(noise.repeats, 'time')} in a design "
        "at most; nothing is dropped because of its outcome."
    )
    rows = attempts.sort("started").iter_rows(named=True)
    return tabulate("Blocks and noise", _BLOCKS, rows, caption=caption)


_OWN_CPU = (
    Column("design"),
    Column("workload", words=True),
    Column("clients"),
    Column("of all CPUs", "of_machine", lambda share: percent(share, 3)),
    Column("of one CPU", "of_cpu", lambda share: percent(share, 2)),
    Column("of one CPU, a client", "each", lambda share: percent(share, 3)),
)


def tabulate_own_cpu(campaign: Campaign) -> Table:
    """Return the CPU that dballoc itself used beside the load."""
    rows = trial_tables.compute_own_cpu(campaign).iter_rows(named=True)
    return tabulate("CPU time of dballoc itself", _OWN_CPU, rows)


def name_trial(trial: dict[str, Any]) -> str:
    """Return a trial's place, ``solo block 1, attempt 2``."""
    if trial["design"] == "pilot":
        return "the duet's pilot"
    return f"{trial['design']} block {trial['block']}" + (
        f", attempt {trial['attempt'] + 1}" if trial["attempt"] else ""
    )


def name_variant_of_trial(trial: dict[str, Any]) -> str:
    """Return a trial's variant, ``glibc (A2) at 16``."""
    role = f" ({trial['role']})" if trial["role"] != "V" else ""
    workload = f" in {trial['workload']}" if trial["workload"] is not None else ""
    level = f" at {trial['level']}" if trial["level"] is not None else ""
    return trial["variant"] + role + workload + level
