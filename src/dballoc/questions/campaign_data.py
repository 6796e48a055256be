"""A campaign's figures as data: the tables of csv/, which charts and tables of the report are made
of, and the recommendation for programs: the rule, what it chose and why, and every candidate's
figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

import dballoc
from dballoc.document.model import Answer
from dballoc.experiment.designs import Design
from dballoc.questions.campaign.answer.recommendation import Bound, Recommendation
from dballoc.questions.campaign.figures import counters, level_curves, trial_tables
from dballoc.questions.campaign.figures.level_curves import compare_all_pairs
from dballoc.questions.campaign.figures.profiles import (
    CampaignContention,
    Heaps,
    ImportedProfiles,
    Profiles,
)
from dballoc.questions.campaign.figures.time_series import build_time_series
from dballoc.questions.campaign.sections import contention, heap
from dballoc.questions.campaign.sections.over_cpus import tabulate_cpus
from dballoc.questions.compare import values
from dballoc.questions.compare.answer_words import describe_verdict, measure_progress
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import CHANGES, IDLE, PEAK
from dballoc.questions.compare.ratios_as_text import describe_ratio
from dballoc.questions.imported import sections
from dballoc.questions.published import sections as post
from dballoc.questions.published.post_figures import Published
from dballoc.questions.published.setup.campaign_setup import compare_campaign_with_post
from dballoc.questions.replay.figures import average_curves, average_latencies, average_replays

_FAULT = (
    "trial",
    "design",
    "block",
    "attempt",
    "variant",
    "role",
    "level",
    "counted",
    "fault",
    "fault_text",
    "exit_status",
    "log_tail",
)


@dataclass(frozen=True, kw_only=True)
class JudgedPart:
    """What is compared with one baseline: a whole ``campaign``, or its variants on one number of
    CPUs; what the rule makes of that, and the answer in words. ``minutes``: what would settle it.
    """

    campaign: Campaign
    recommendation: Recommendation
    answer: Answer
    minutes: int | None = None


def collect_all_tables(
    campaign: Campaign,
    parts: Sequence[JudgedPart],
    published: Published | None,
    profiles: Profiles,
) -> dict[str, pl.DataFrame]:
    """Return the tables by file name, with those of profiles, and of a post beside ours."""
    source = sections if campaign.imported else post
    beside = source.collect_published_tables(campaign, published, profiles) if published else {}
    return collect_tables(campaign, parts) | beside | _collect_profile_tables(profiles)


def _collect_profile_tables(profiles: Profiles) -> dict[str, pl.DataFrame]:
    match profiles:
        case CampaignContention():
            return contention.collect_contention_tables(profiles)
        case Heaps():
            return heap.collect_heap_tables(profiles)
        case ImportedProfiles():
            return sections.collect_imported_profile_tables(profiles)
    return {}


def collect_tables(campaign: Campaign, parts: Sequence[JudgedPart]) -> dict[str, pl.DataFrame]:
    """Return the tables by file name. Units as in the database: bytes, seconds, milliseconds;
    ratios as they are.
    """
    if campaign.imported:
        return sections.collect_imported_tables(campaign)
    if campaign.is_replay:
        return _collect_replay_tables(campaign, parts)
    changed = [
        level_curves.compute_relative_levels(part.campaign, m).with_columns(measure=pl.lit(m))
        for m in CHANGES
        for part in parts
    ]
    time = build_time_series(campaign)
    # What a campaign may have nothing of, and then has no table of.
    others = {
        "replicas": trial_tables.build_replica_table(campaign),
        "counters": pl.concat([counters.build_counter_table(part.campaign) for part in parts]),
        "cpus": tabulate_cpus(campaign),
        "post": pl.DataFrame([vars(c) for c in compare_campaign_with_post(campaign)]),
    }
    paired = {}
    if Design.DUET in campaign.facts.designs:
        paired["duet"] = values.compute_block_logs(campaign)
    if Design.TURNS in campaign.facts.designs:
        paired |= {"turns": campaign.turn, "turn-blocks": values.compute_turn_logs(campaign)}
    return {
        "trials": campaign.trials.drop("log_tail", "proof"),
        "slices": campaign.slice,
        "levels": level_curves.average_levels(campaign),
        "relative": pl.concat(changed).select("measure", pl.exclude("measure")),
        "memory": trial_tables.build_memory_table(campaign),
        "ledger": trial_tables.build_ledger_table(campaign),
        "timeline": time.series,
        "steps": time.steps,
        **_collect_comparisons(parts),
        "pairs": compare_all_pairs(campaign),
        "faults": campaign.trials.filter(outcome="fault").select(_FAULT),
        "blocks": campaign.every_block,
        "variants": campaign.variant,
        **paired,
        **{name: table for name, table in others.items() if table.height},
    }


def _collect_comparisons(parts: Sequence[JudgedPart]) -> dict[str, pl.DataFrame]:
    tables: dict[str, list[dict[str, Any]]] = {"comparisons": [], "floor": []}
    for part in parts:
        comparisons, baseline = part.recommendation.comparisons, part.campaign.experiment.baseline
        others = [c for c in comparisons.descriptive if c.variant != baseline]
        floor = [c for c in comparisons.descriptive if c.variant == baseline]
        for name, compared in (
            ("comparisons", [*comparisons.family, *others]),
            ("floor", [*comparisons.floor, *floor]),
        ):
            tables[name] += _list_comparisons(compared, comparisons, has_several=len(parts) > 1)
    return {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in tables.items()}


# What columns of the store hold of a replay.
_HEAP = {"rss_start": "heap_start", PEAK.trial: "heap_peak", IDLE.trial: "heap_idle"}


def _collect_replay_tables(
    campaign: Campaign, parts: Sequence[JudgedPart]
) -> dict[str, pl.DataFrame]:
    """Return the tables of a campaign of replays; ns where a column is of calls or events."""
    facts = campaign.facts.replay
    assert facts
    trials = campaign.trials.drop("log_tail", "proof", "level", "workload")
    return {
        "trials": trials.join(campaign.replay, on="trial", how="left").rename(_HEAP),
        "replays": average_replays(campaign),
        "heap": average_curves(campaign, facts),
        "calls": average_latencies(campaign),
        "marks": campaign.of(campaign.replay_mark).drop("trial_level", "trial_workload"),
        **_collect_comparisons(parts),
        "pairs": compare_all_pairs(campaign),
        "faults": campaign.trials.filter(outcome="fault").select(_FAULT),
        "blocks": campaign.block,
        "variants": campaign.variant,
    }


def _list_comparisons(
    judged: list[Comparison], comparisons: Comparisons, *, has_several: bool
) -> list[dict[str, Any]]:
    """Return the rows of comparisons; with their baseline where there are several."""
    return [
        {
            "variant": c.variant,
            **({"baseline": comparisons.baseline} if has_several else {}),
            "metric": c.metric.measure.name,
            "workload": c.metric.workload,
            "better": c.metric.better,
            **describe_ratio(c.ratio),
            "blocks": c.ratio.blocks if c.ratio else 0,
            "confidence": comparisons.confidence(c.metric),
            "bound": c.bound,
            "bound_confidence": comparisons.get_bound_level(c.metric),
            "scatter": c.ratio.scatter if c.ratio and c.ratio.interval else None,
            "smallest_detectable": c.ratio.detectable if c.ratio and c.ratio.interval else None,
            "verdict": "descriptive"
            if c in comparisons.descriptive
            else describe_verdict(c, comparisons),
        }
        for c in judged
    ]


# Raise it when a key changes its meaning or goes.
FORMAT = 1


def describe_answers(parts: Sequence[JudgedPart], answer: Answer) -> dict[str, Any]:
    """Return the recommendation as plain data. Of several numbers of CPUs it has none of its own,
    but ``by_cpus``, one for each, and the ``answer`` to all.
    """
    each = [describe_recommendation(part) for part in parts]
    if len(parts) == 1:
        return each[0] | {"notes": answer.notes}
    common = ("format", "dballoc", "experiment", "prefer", "rule", "margin")
    return {
        **{key: each[0][key] for key in common},
        "headline": answer.headline,
        "reason": answer.reason,
        "command": answer.command or None,
        "by_cpus": [
            {"cpus": part.campaign.cpus, **described}
            for part, described in zip(parts, each, strict=True)
        ],
        "notes": answer.notes,
    }


def describe_recommendation(part: JudgedPart) -> dict[str, Any]:
    """Return a part's recommendation as plain data. Ratios are to the baseline; an interval's ends
    are null where there is none. ``recommended`` is null when the rule cannot choose: the baseline
    had faults, fewer than two blocks have what it takes, or a gain has to be weighed against a
    loss.
    ``answer`` is the part's ending
    (:class:`dballoc.questions.campaign.answer.recommendation.Ending`), and ``subject`` the variant
    that it names; ``ending`` is why the campaign ended.
    """
    campaign, chosen, answer = part.campaign, part.recommendation, part.answer
    comparisons = chosen.comparisons
    progress, baseline = measure_progress(campaign), campaign.experiment.baseline
    blocks = max((c.ratio.blocks for c in comparisons.family if c.ratio), default=0)
    # Without memory there is no recommendation by it; see dballoc.questions.campaign.answer.ending.
    memory = (
        any(m.question == "memory" for m in comparisons.metrics)
        or chosen.preference.objective == "speed"
    )
    judged = any(c.judged for c in comparisons.family)
    recommended = chosen.variant if blocks > 1 and memory and judged else None
    return {
        "format": FORMAT,
        "dballoc": dballoc.__version__,
        "experiment": campaign.experiment.name,
        "prefer": chosen.preference.text,
        "rule": chosen.preference.describe_rule(chosen.evidence.margin),
        "margin": chosen.evidence.margin,
        "exploratory": chosen.evidence.exploratory,
        "answer": chosen.ending.value,
        "subject": chosen.subject,
        "command": answer.command or None,
        "recommended": recommended,
        "tie": chosen.tie if recommended else None,
        "headline": answer.headline,
        "reason": answer.reason,
        "final": progress.final,
        "ending": progress.ending,
        "blocks": progress.blocks,
        "planned_blocks": progress.planned,
        "baseline": baseline,
        "candidates": [
            {
                "variant": name,
                "baseline": name == baseline,
                "faults": _count_faults(comparisons.faulty.get(name)),
                "excluded": chosen.excluded.get(name),
                "figures": [
                    _describe_figure(c, comparisons)
                    for c in [*comparisons.family, *comparisons.descriptive]
                    if c.variant == name != baseline
                ],
                "constraints": [_describe_bound(b) for b in chosen.evidence.bounds.get(name, [])],
            }
            for name in campaign.names
        ],
        "floor": [_describe_figure(c, comparisons) for c in comparisons.floor],
        "notes": answer.notes,
    }


def _count_faults(k_of_n: tuple[int, int] | None) -> dict[str, int] | None:
    return {"trials": k_of_n[1], "with_a_fault": k_of_n[0]} if k_of_n else None


def _describe_figure(comparison: Comparison, comparisons: Comparisons) -> dict[str, Any]:
    is_judged = comparison in comparisons.family
    r, m = comparison.ratio, comparison.metric
    return {
        "metric": m.measure.name,
        "workload": m.workload,
        "title": m.title,
        "better": m.better,
        "design": m.design,
        "confidence": comparisons.confidence(m),
        **describe_ratio(r),
        "bound": comparison.bound,
        "bound_confidence": comparisons.get_bound_level(m),
        "blocks": r.blocks if r else 0,
        "verdict": describe_verdict(comparison, comparisons) if is_judged else None,
    }


def _describe_bound(bound: Bound) -> dict[str, Any]:
    return {
        "constraint": bound.constraint.text,
        "workload": bound.workload,
        "ratio": bound.ratio.estimate,
        "low": bound.ratio.low,
        "high": bound.ratio.high,
        "confidence": bound.ratio.confidence,
        "holds": bound.holds,
    }
