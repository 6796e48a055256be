"""What the report of a campaign of replays holds, in its order, and its tables."""

import polars as pl

from dballoc.document.charts import Variants
from dballoc.document.model import Column, Figure, Section, Table, tabulate
from dballoc.experiment.designs import Design
from dballoc.ground.numbers import NOTHING, count, listing, mebibytes, number, percent, with_unit
from dballoc.questions.campaign.answer.conditions_and_preference import (
    LEAST_MEMORY,
    Preference,
    check_preference,
)
from dballoc.questions.campaign.answer.recommendation import gather_evidence, recommend
from dballoc.questions.campaign.sections import machine_and_variants, tables
from dballoc.questions.campaign.sections.shared_sections import (
    make_environment_section,
    make_faults_section,
    make_floor_section,
)
from dballoc.questions.compare import ratio_charts
from dballoc.questions.compare.answer_words import measure_progress
from dballoc.questions.compare.baseline_comparison import compare_with_baseline
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.procedure import CPU, ERROR, MARGIN, MEMORY, Procedure
from dballoc.questions.replay import charts
from dballoc.questions.replay.answer import JudgedReplays, make_growth_section
from dballoc.questions.replay.figures import (
    Fidelity,
    average_curves,
    average_latencies,
    average_replays,
    find_growth,
    measure_fidelity,
)
from dballoc.store.replay_facts import ReplayFacts


def judge_replays(campaign: Campaign, preference: Preference = LEAST_MEMORY) -> JudgedReplays:
    """Return the figures, the comparisons, and what the rule makes of them. Raises UsageError if
    the campaign has not what the preference asks.
    """
    experiment = campaign.experiment
    facts = campaign.facts.replay
    assert facts
    check_preference(
        preference,
        campaign.names,
        experiment.workloads,
        bool(experiment.time.idle),
        () if facts.keeps_the_clock else facts.decaying,
    )
    comparisons = compare_with_baseline(campaign)
    evidence = gather_evidence(campaign, comparisons, preference)
    recommendation = recommend(comparisons, experiment.baseline, preference, evidence)
    return JudgedReplays(
        campaign=campaign,
        facts=facts,
        averages=average_replays(campaign),
        recommendation=recommendation,
        fidelity=measure_fidelity(campaign, facts),
        growth=find_growth(campaign, facts),
    )


def make_replay_subtitle(judged: JudgedReplays) -> str:
    """Return what stands under the title and under every chart."""
    facts, campaign = judged.facts, judged.campaign
    return " · ".join(
        [
            f"replay of {facts.program}, {facts.events:,} events",
            *facts.flaws,
            f"{measure_progress(campaign).words}, {count(campaign.trials.height, 'trial')}",
            str(campaign.environment.cpu),
        ]
    )


def make_replay_sections(judged: JudgedReplays) -> list[Section]:
    """Return the sections of the report."""
    campaign, facts, comparisons = judged.campaign, judged.facts, judged.recommendation.comparisons
    variants = Variants(campaign.names)
    levels = describe_replay_levels(comparisons.procedures[Design.SOLO])
    return [
        Section(
            key="heap",
            title="Heap and CPU",
            figures=_draw_heap(judged, variants),
            tables=[
                tabulate_replays(judged.averages, facts),
                *([tabulate_fidelity(judged.fidelity)] if judged.fidelity else []),
            ],
        ),
        *([make_growth_section(judged.growth, facts)] if judged.growth else []),
        Section(
            key="verdicts",
            title="Verdicts",
            figures=[
                ratio_charts.draw_forest(comparisons, m, variants) for m in comparisons.metrics
            ],
            tables=[tables.tabulate_verdicts(comparisons, levels)],
        ),
        Section(
            key="calls",
            title="Time of a call",
            tables=[
                tabulate_latencies(average_latencies(campaign), campaign.names),
                tabulate_replay_details(judged.averages),
            ],
        ),
        make_floor_section(comparisons),
        make_faults_section(campaign),
        Section(key="noise", title="Blocks and noise", tables=[tables.tabulate_blocks(campaign)]),
        make_environment_section(
            campaign,
            tabulate_trace(facts),
            machine_and_variants.tabulate_variants(campaign).drop_columns(
                "server", "buffer pool", "THP", "CPUs of the server"
            ),
            machine_and_variants.tabulate_environment(campaign),
            title="Trace and environment",
        ),
        Section(key="method", title="Method", text=describe_replay_method(judged)),
    ]


def _draw_heap(judged: JudgedReplays, variants: Variants) -> list[Figure]:
    curves = average_curves(judged.campaign, judged.facts)
    figures = [charts.draw_peak_heaps(judged.campaign, judged.facts, variants)]
    if curves.height:
        figures += [
            charts.draw_heap_curves(curves, judged.facts, variants, judged.fidelity),
            charts.draw_fragmentation(curves, judged.facts, variants),
        ]
    return figures if judged.averages.height else []


def describe_replay_method(judged: JudgedReplays) -> list[str]:
    """Return the paragraphs on the method, with the numbers of the campaign at hand."""
    campaign, procedure = judged.campaign, judged.recommendation.comparisons.procedures[Design.SOLO]
    rule = judged.recommendation.preference.describe_rule(judged.recommendation.evidence.margin)
    looks = listing([str(look) for look in procedure.looks])
    return [
        f"A block replays the trace once on every malloc, and twice on {campaign.names[0]}, the "
        f"baseline, in an order drawn from seed {campaign.experiment.seed}; each replay is a fresh "
        f"process of its own, alone on the machine. {count(procedure.looks[-1], 'block')} planned.",
        "The replay engine has a thread for each recorded thread and makes each thread's calls in "
        "their recorded order. Threads wait for each other only where one frees what another "
        "allocated, and so that none runs far ahead of the others in recorded time; that waiting "
        "is in no figure but its own. The engine takes nothing from the malloc that it measures. A "
        "replay counts only if every thread made exactly the trace's calls, and as many bytes were "
        "alive over time as in the trace.",
        "The heap is the resident anonymous memory of the process, less what the engine itself "
        "takes, read about every millisecond.",
        f"Two questions share the error of {percent(ERROR, 0)}, half each: peak heap, and CPU per "
        f"event; each half is shared by all variants, and over the looks, after {looks} blocks. "
        f"The intervals here are at {describe_replay_levels(procedure)}. "
        "Everything else is descriptive.",
        "Verdicts: higher or lower, if the interval excludes 1; equivalent within "
        f"±{percent(MARGIN, 0)}, if it lies within; else no difference shown.",
        f"Recommendation: {rule}. In a replay, peak RSS is the peak heap, and a transaction is an "
        "event.",
    ]


# As replay_rows stores the size class without a limit.
_ENDLESS = 2**48


def tabulate_replays(averages: pl.DataFrame, facts: ReplayFacts) -> Table:
    """Return each variant's means. ``averages``: of
    :func:`dballoc.questions.replay.figures.average_replays`.
    """
    unkept = [] if facts.keeps_the_clock else facts.decaying
    columns = (
        Column("variant"),
        Column("peak heap, MiB", "peak", mebibytes),
        Column("at the end, MiB", "end", mebibytes),
        Column(
            "idle, MiB", lambda row: None if row["variant"] in unkept else row["idle"], mebibytes
        ),
        # The peak of a stretch is not that of the live bytes.
        Column(
            "peak ÷ live bytes",
            lambda row: None if facts.window else row["fragmentation"],
            "{:.2f}".format,
        ),
        Column("CPU per event, ns", "cpu", number),
        Column("trials", "n"),
    )
    caption = (
        "Means over the trials that ended as planned. Live bytes: what the program had asked for "
        "and not freed, at the peak. Idle: at rest after the last event. CPU per event: of all "
        "threads, for the calls and for touching what they returned, their waiting for each other "
        "left out."
    )
    if unkept:
        caption += (
            f" Idle heap is not shown for {listing(list(unkept))}: what they give back "
            "depends on the clock, which this replay does not keep."
        )
    return tabulate("Heap and CPU", columns, averages.iter_rows(named=True), caption=caption)


_DETAILS = (
    Column("variant"),
    Column("in malloc, ns an event", "malloc", number),
    Column("events/s", "events", number),
    Column("page faults per 1,000 events", "faults", number),
    Column("waited, s", "waited", number),
    Column("engine's memory, MiB", "own_memory", mebibytes),
    Column("calls without memory", "failed"),
)


def tabulate_replay_details(averages: pl.DataFrame) -> Table:
    """Return how the replays went: the engine's side of them."""
    caption = (
        "In malloc: time by the clock, from the calls that were timed. Waited: for blocks of other "
        "threads, all threads together. The engine's memory is subtracted from every heap."
    )
    rows = averages.iter_rows(named=True)
    return tabulate("How the replays went", _DETAILS, rows, caption=caption)


def tabulate_latencies(latencies: pl.DataFrame, names: list[str]) -> Table:
    """Return how long calls take by operation and size class: p50 / p99 of every variant."""
    cells = {
        (r["operation"], r["largest"], r["variant"]): r for r in latencies.iter_rows(named=True)
    }
    rows = []
    for operation, largest in dict.fromkeys((o, size) for o, size, _ in cells):
        of_class = [cells.get((operation, largest, name)) for name in names]
        if all(r is None or r["p50"] is None for r in of_class):
            continue
        calls = max((r["calls"] for r in of_class if r), default=0)
        size = "larger" if largest == _ENDLESS else f"up to {with_unit(largest)}"
        shown = [f"{number(r['p50'])} / {number(r['p99'])}" if r else NOTHING for r in of_class]
        rows.append([operation, size, f"{calls:,.0f}", *shown])
    return Table(
        title="Time of a call",
        columns=["call", "size", "calls", *(f"{name}, p50 / p99, ns" for name in names)],
        rows=rows,
        heads=2,
        words=("size",),
        caption="Of a sample of the calls, the clock's own cost subtracted; means over trials.",
    )


def describe_replay_levels(procedure: Procedure) -> str:
    """Return the level of each measure's intervals."""
    names = {MEMORY: "peak heap", CPU: "CPU per event"}
    return listing(
        [
            f"{percent(level, 2)} ({names[measure]})"
            for measure, level in procedure.levels.items()
            if measure in names
        ]
    )


def tabulate_fidelity(fidelity: Fidelity) -> Table:
    """Return the recorded process's heap beside the replayed one."""
    has_books = any(m.books is not None for m in fidelity.marks)
    columns = [
        Column("moment", "name"),
        Column("at, s", "t", number),
        Column("real heap, MiB", "real", mebibytes),
        Column("replayed, MiB", "replayed", mebibytes),
        Column("replayed against real", "error", _format_error),
    ]
    if has_books:
        columns += [
            Column("in use by malloc's books, MiB", "books", mebibytes),
            Column("alive in the trace, MiB", "alive", mebibytes),
        ]
    peak = {
        "name": "peak" if fidelity.peak_is_estimated else "most at any mark",
        "real": fidelity.real_peak,
        "replayed": fidelity.replayed_peak,
        "error": fidelity.error,
    }
    caption = (
        f"Replayed: mean over trials of {fidelity.variant}, whose malloc is the recorded one, by "
        "its name, version and settings as far as the trace tells them."
    )
    if fidelity.peak_is_estimated:
        caption += " The real peak: the high-water mark of RSS, less what was not heap at rest."
    if has_books:
        caption += " Malloc's books count blocks as it rounded them."
    title = "The replay beside the recorded process"
    return tabulate(title, columns, [peak, *fidelity.marks], caption=caption)


def _format_error(error: float) -> str:
    text = percent(error)
    return text if text.startswith("−") else f"+{text}"


def tabulate_trace(facts: ReplayFacts) -> Table:
    """Return what the trace is."""
    rows = [
        ("file", f"{facts.trace}, SHA-256 {facts.sha256[:16]}…"),
        ("program", f"{facts.program}, under {facts.malloc}{_doubt_settings(facts)}"),
        ("recorded", f"{number(facts.seconds)} s, ended by: {facts.ended_by}"),
        ("events", f"{facts.events:,} in {count(facts.threads, 'thread')}"),
        ("live bytes at most", with_unit(facts.peak_live)),
        ("from the start", "yes" if facts.from_start else "no: it began late"),
        ("events that are missing", f"{facts.dropped:,}" if facts.dropped else "none"),
        ("not seen", listing(list(facts.not_seen)) or "nothing that is known"),
        ("peak heap judged", _format_window(facts)),
        ("replayed", f"{facts.mode}, speed {facts.speed:g}, pages touched: {facts.touch}"),
    ]
    return tabulate("The trace", machine_and_variants.FOUND, rows)


def _doubt_settings(facts: ReplayFacts) -> str:
    """Return what to add where a recording does not say how its malloc was set."""
    return "; with which settings is not known" if facts.settings is None else ""


def _format_window(facts: ReplayFacts) -> str:
    if facts.window is None:
        return "of all of it"
    return f"from {number(facts.window[0])} s to {number(facts.window[1])} s"
