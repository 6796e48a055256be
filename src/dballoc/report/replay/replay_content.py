"""What the report of a campaign of replays holds, in its order."""

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.noninferiority import DEFAULT_MARGIN
from dballoc.analysis.decisions.preference import LEAST_MEMORY, Preference, check_preference
from dballoc.analysis.decisions.recommendation import Evidence, recommend
from dballoc.analysis.decisions.sequential_test import ERROR, MARGIN
from dballoc.analysis.replay.cycle_growth import find_growth
from dballoc.analysis.replay.fidelity import measure_fidelity
from dballoc.analysis.replay.replay_facts import read_replay_facts
from dballoc.analysis.replay.replay_tables import (
    average_curves,
    average_latencies,
    average_replays,
)
from dballoc.analysis.tables.baseline_comparison import compare_with_baseline
from dballoc.document.charts import Variants
from dballoc.document.model import Figure, Section
from dballoc.experiment.designs import Design
from dballoc.numbers import count, listing, percent
from dballoc.report.charts import ratios
from dballoc.report.replay import replay_charts, replay_sections
from dballoc.report.replay.growth_section import make_growth_section
from dballoc.report.replay.replay_answer import JudgedReplays
from dballoc.report.sections import tables
from dballoc.report.sections.shared_sections import (
    make_environment_section,
    make_faults_section,
    make_floor_section,
)
from dballoc.report.wording.answer import measure_progress


def judge_replays(campaign: Campaign, preference: Preference = LEAST_MEMORY) -> JudgedReplays:
    """Return the figures, the comparisons, and what the rule makes of them.
    UsageError if the campaign has not what the preference asks.
    """
    experiment = campaign.experiment
    facts = read_replay_facts(campaign)
    check_preference(
        preference,
        campaign.names,
        experiment.workloads,
        bool(experiment.time.idle),
        () if facts.keeps_the_clock else facts.decaying,
    )
    comparisons = compare_with_baseline(campaign)
    margin = preference.margin or campaign.margin or DEFAULT_MARGIN
    evidence = Evidence(margin=margin, exploratory=margin != campaign.margin)
    recommendation = recommend(comparisons, experiment.baseline, preference, evidence)
    return JudgedReplays(
        campaign=campaign,
        facts=facts,
        averages=average_replays(campaign),
        comparisons=comparisons,
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
            str(campaign.environment.get("cpu")),
        ]
    )


def make_replay_sections(judged: JudgedReplays) -> list[Section]:
    """Return the sections of the report."""
    campaign, facts, comparisons = judged.campaign, judged.facts, judged.comparisons
    variants = Variants(campaign.names)
    levels = replay_sections.describe_replay_levels(comparisons.procedures[Design.SOLO])
    return [
        Section(
            key="heap",
            title="Heap and CPU",
            figures=_draw_heap(judged, variants),
            tables=[
                replay_sections.tabulate_replays(judged.averages, facts),
                *([replay_sections.tabulate_fidelity(judged.fidelity)] if judged.fidelity else []),
            ],
        ),
        *([make_growth_section(judged.growth, facts)] if judged.growth else []),
        Section(
            key="verdicts",
            title="Verdicts",
            figures=[ratios.draw_forest(comparisons, m, variants) for m in comparisons.metrics],
            tables=[tables.tabulate_verdicts(comparisons, levels)],
        ),
        Section(
            key="calls",
            title="Time of a call",
            tables=[
                replay_sections.tabulate_latencies(average_latencies(campaign), campaign.names),
                replay_sections.tabulate_replay_details(judged.averages),
            ],
        ),
        make_floor_section(comparisons),
        make_faults_section(campaign, comparisons),
        Section(key="noise", title="Blocks and noise", tables=[tables.tabulate_blocks(campaign)]),
        make_environment_section(
            campaign,
            replay_sections.tabulate_trace(facts),
            replay_sections.tabulate_mallocs(campaign),
            tables.tabulate_environment(campaign),
            title="Trace and environment",
        ),
        Section(key="method", title="Method", text=describe_replay_method(judged)),
    ]


def _draw_heap(judged: JudgedReplays, variants: Variants) -> list[Figure]:
    curves = average_curves(judged.campaign, judged.facts)
    figures = [replay_charts.draw_peak_heaps(judged.campaign, judged.facts, variants)]
    if curves.height:
        figures += [
            replay_charts.draw_heap_curves(curves, judged.facts, variants, judged.fidelity),
            replay_charts.draw_fragmentation(curves, judged.facts, variants),
        ]
    return figures if judged.averages.height else []


def describe_replay_method(judged: JudgedReplays) -> list[str]:
    """Return the paragraphs on the method, with the numbers of the campaign at hand."""
    campaign, procedure = judged.campaign, judged.comparisons.procedures[Design.SOLO]
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
        f"The intervals here are at {replay_sections.describe_replay_levels(procedure)}. "
        "Everything else is descriptive.",
        "Verdicts: higher or lower, if the interval excludes 1; equivalent within "
        f"±{percent(MARGIN, 0)}, if it lies within; else no difference shown.",
        f"Recommendation: {rule}. In a replay, peak RSS is the peak heap, and a transaction is an "
        "event.",
    ]
