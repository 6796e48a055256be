"""What the report holds, in its order: the sections that HTML and Markdown both show."""

from dataclasses import dataclass, replace

import polars as pl

from dballoc.analysis import curves, ledger, speed
from dballoc.analysis.campaign import Campaign
from dballoc.analysis.comparison import Comparisons, compare
from dballoc.analysis.contention import Contention
from dballoc.analysis.heap import Heaps
from dballoc.analysis.overtime import over_time
from dballoc.analysis.pairs import pairs
from dballoc.analysis.preference import MEMORY, Preference, check
from dballoc.analysis.published import Published
from dballoc.analysis.recommendation import Recommendation, constrained, recommend
from dballoc.experiment import file
from dballoc.report import contention, duet, glance, heap, imported, method, scaled, tables
from dballoc.report import published as post
from dballoc.report.answer import Answer, answer, fault_words, progress
from dballoc.report.charts import byworkload, levels, matrix, memory, overtime, plane, ratios
from dballoc.report.charts import ledger as pieces
from dballoc.report.charts.theme import Variants
from dballoc.report.numbers import count
from dballoc.report.page import Page
from dballoc.report.section import Listing, Section

_SOLO = "Solo design: one server at a time has the whole machine."
_CPU = ["Of the server alone, not of the client. An operation is a transaction of the workload."]
_PAIRS = "Any two variants against each other, not only against the baseline."


@dataclass(frozen=True)
class Content(Page):
    """The whole report of a campaign."""

    campaign: Campaign
    comparisons: Comparisons
    recommendation: Recommendation


def judge(campaign: Campaign, preference: Preference = MEMORY) -> tuple[Comparisons, Recommendation, Answer]:
    """The comparisons, what the rule makes of them, and both in words. UsageError if the campaign has not what it asks."""
    if campaign.imported:
        nothing = Recommendation(None, False, {}, [], preference, {})
        return imported.comparisons(campaign), nothing, imported.answer(campaign)
    check(preference, campaign.names, campaign.experiment.workloads, bool(campaign.experiment.time.idle))
    comparisons = compare(campaign)
    baseline = campaign.experiment.baseline
    recommendation = recommend(comparisons, baseline, preference, constrained(campaign, comparisons, preference))
    said = answer(comparisons, recommendation, baseline, progress(campaign))
    return comparisons, recommendation, replace(said, notes=[*scaled.notes(campaign), *said.notes])


def gather(
    campaign: Campaign, preference: Preference = MEMORY, published: Published | None = None,
    profiles: Contention | Heaps | None = None,
) -> Content:  # fmt: skip
    """Everything that the report says of a campaign, and of the post that it repeats. UsageError as for :func:`judge`."""
    comparisons, recommendation, said = judge(campaign, preference)
    title = f"dballoc: {campaign.experiment.name}"
    if campaign.imported:
        subtitle = f"made elsewhere · {count(campaign.trial.height, 'figure')}"
        sections = imported.sections(campaign)
        return Content(title, subtitle, campaign.names, said, sections, campaign, comparisons, recommendation)
    variants = Variants(campaign.names)
    few = not glance.many(campaign)
    sections = [
        *([post.section(campaign, published)] if published else []),
        *([_picture(comparisons, variants) if few else _glance(campaign, variants)] if "solo" in campaign.designs else []),
        _verdicts(comparisons, variants, few),
        *([duet.section(campaign, comparisons, variants, few)] if "duet" in campaign.designs else []),
        *(_solo(campaign, variants, few) if "solo" in campaign.designs else []),
        *([contention.section(campaign, profiles)] if isinstance(profiles, Contention) else []),
        *([heap.section(campaign, profiles, variants)] if isinstance(profiles, Heaps) else []),
        _pairs(campaign, few),
        Section("floor", "The A/A floor", [method.FLOOR], tables=[tables.floor(comparisons)]),
        _faults(campaign, comparisons),
        Section("noise", "Blocks and noise", tables=[tables.blocks(campaign)]),
        _environment(campaign),
        Section("method", "Method", method.text(campaign, comparisons.procedures, preference)),
    ]
    done = progress(campaign)
    servers = ", ".join(dict.fromkeys(f"{s} {e}" for s, e in campaign.variant.select("server", "engine").iter_rows()))
    subtitle = f"{servers} · {done.words}, {count(campaign.trials.height, 'trial')} · {campaign.environment.get('cpu')}"
    if campaign.experiment.scaled:
        subtitle = f"scaled to {campaign.experiment.scaled.factor:g} · {subtitle}"
    return Content(title, subtitle, campaign.names, said, sections, campaign, comparisons, recommendation)


def _solo(campaign: Campaign, variants: Variants, few: bool) -> list[Section]:
    shape = Section("shape", "Peaks and collapses", [_SOLO], tables=[tables.shapes(campaign)])
    return [
        _levels(campaign, variants) if few else _all_levels(campaign),
        _cpu(campaign, variants) if few else _all_cpu(campaign),
        Section("time", "Over time", [_SOLO], overtime.figures(over_time(campaign), variants, each=few)),
        _memory(campaign, variants, few),
        *([shape] if few or len(campaign.experiment.threads) > 1 else []),
        Section("sampler", "What measuring cost", [method.SAMPLER], tables=[tables.sampler(campaign)]),
    ]


def _picture(comparisons: Comparisons, variants: Variants) -> Section:
    """What one wants to see first: who is fast, and who is small."""
    figures = [plane.plane(comparisons, metric, variants) for metric in speed.pictured(comparisons)]
    return Section("picture", "Speed against memory", [], figures)


def _glance(campaign: Campaign, variants: Variants) -> Section:
    """What one wants to see first of many workloads: relative QPS, by group."""
    found = glance.cells(campaign)
    figures = [byworkload.figure(found, t, variants) for t in campaign.experiment.threads[-1:] if found]
    shown = [glance.relative(campaign, found)]
    if (rows := glance.scanned(campaign)) is not None:
        shown.append(rows)
    return Section("glance", "Every workload at a glance", [_SOLO], figures, shown)


def _pairs(campaign: Campaign, few: bool) -> Section:
    found = pairs(campaign)
    shown = [(m, w) for m, w in found.select("measure", "workload").unique(maintain_order=True).rows() if few or w is None]
    figures = [matrix.matrix(found, measure, workload, campaign.names) for measure, workload in shown]
    return Section("pairs", "Every pair", [_PAIRS], figures, [tables.pairs_table(campaign, found)])


def _verdicts(comparisons: Comparisons, variants: Variants, few: bool) -> Section:
    pictured = [m for m in comparisons.metrics if few or m.workload is None]
    figures = [ratios.forest(comparisons, metric, variants) for metric in pictured]
    return Section("verdicts", "Verdicts", [], figures, [tables.verdicts(comparisons)])


def _levels(campaign: Campaign, variants: Variants) -> Section:
    found, qps = curves.summary(campaign), curves.relative(campaign, "qps")
    figures, shown = [], []
    for workload in campaign.experiment.workloads:
        speed = [m for m in (levels.TPS, levels.P95, levels.P99) if levels.known(found, workload, m)]
        figures += [levels.curve(found, workload, m, variants) for m in speed]
        figures.append(levels.relative(qps, workload, variants))
        shown += [
            tables.levels(campaign, workload, tables.SPEED, "Throughput and response time"),
            tables.relative(campaign, workload),
            tables.changes(campaign, workload),
        ]
    if (rows := glance.scanned(campaign)) is not None:
        shown.append(rows)
    return Section("levels", "Throughput and response time", [_SOLO], figures, shown)


def _all_levels(campaign: Campaign) -> Section:
    title = "Throughput and response time"
    return Section("levels", title, [_SOLO], tables=[tables.all_levels(campaign, tables.SPEED, title)])


def _cpu(campaign: Campaign, variants: Variants) -> Section:
    found = curves.summary(campaign)
    figures, shown = [], []
    for workload in campaign.experiment.workloads:
        measures = (levels.CPU_PER_OP, levels.SWITCHES_PER_OP, levels.USER, levels.SYSTEM)
        figures += [levels.curve(found, workload, m, variants) for m in measures]
        shown.append(tables.levels(campaign, workload, tables.CPU, "CPU and context switches"))
    return Section("cpu", "CPU and context switches", _CPU, figures, shown)


def _all_cpu(campaign: Campaign) -> Section:
    title = "CPU and context switches"
    return Section("cpu", title, _CPU, tables=[tables.all_levels(campaign, tables.CPU, title)])


def _memory(campaign: Campaign, variants: Variants, few: bool) -> Section:
    e, found = campaign.experiment, curves.summary(campaign)
    books = ledger.table(campaign)
    figures = [memory.figure(campaign, variants), *([pieces.figure(books, variants.names)] if books.height else [])]
    shown = [tables.memory_table(campaign), *([tables.ledger(campaign, books)] if books.height else [])]
    if few:
        figures += [levels.curve(found, workload, levels.RSS_PEAK, variants) for workload in e.workloads]
        shown += [tables.levels(campaign, w, tables.PEAK, "Peak RSS by level") for w in e.workloads]
    else:
        shown.append(tables.all_levels(campaign, tables.PEAK, "Peak RSS by level"))
    text = [_SOLO]
    if e.levels == "rising":
        text.append("All levels run in one server start, so what a level left behind is in the next one's RSS.")
    if e.sequence == "cycle" and len(e.workloads) > 1:
        text.append("So do all workloads, each on what those before it left of the data.")
    return Section("memory", "Memory", text, figures, shown)


def _faults(campaign: Campaign, comparisons: Comparisons) -> Section:
    bad = campaign.trials.filter(pl.col("outcome") == "fault")
    if not bad.height:
        return Section("faults", "Faults", [f"None: {count(campaign.trials.height, 'trial')} ended as planned."])
    lines = [f"{name}: {fault_words(k_of_n)}." for name, k_of_n in comparisons.faulty.items()]
    lines.append("A variant with faults gets no verdict: what survived says nothing of what did not.")
    logs = [
        Listing(f"Log of {tables.where(r)}, {tables.who(r)}: {r['fault']}", r["log_tail"])
        for r in bad.iter_rows(named=True) if r["log_tail"]
    ]  # fmt: skip
    return Section(
        "faults", "Faults", lines, tables=[tables.faults(campaign, comparisons), tables.fault_list(campaign)], listings=logs
    )


def _environment(campaign: Campaign) -> Section:
    listings = [Listing("Experiment file", file.dump(campaign.experiment))]
    listings += [Listing(f"Server command of {name}", text) for name, text in tables.commands(campaign).items()]
    shown = [tables.environment(campaign), tables.variants(campaign)]
    if (workloads := glance.workloads(campaign)) is not None:
        shown.append(workloads)
    return Section("environment", "Environment", [], [], shown, listings)
