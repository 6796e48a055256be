"""The numbers as CSV, one file a table: what charts and tables of the report are made of."""

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.measures import CHANGES, IDLE, PEAK
from dballoc.analysis.published.published_figures import Published
from dballoc.analysis.published.setup.campaign_setup import compare_campaign_with_post
from dballoc.analysis.replay.replay_facts import read_replay_facts
from dballoc.analysis.replay.replay_tables import (
    average_curves,
    average_latencies,
    average_replays,
)
from dballoc.analysis.statistics import duet_slices
from dballoc.analysis.tables import (
    counters,
    level_curves,
    memory_growth,
    memory_ledger,
    replica_lag,
)
from dballoc.analysis.tables.all_pairs import compare_all_pairs
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons
from dballoc.analysis.tables.profiles.contention import Contention
from dballoc.analysis.tables.profiles.heap_profiles import Heaps
from dballoc.analysis.tables.profiles.imported_profiles import ImportedProfiles, Profiles
from dballoc.analysis.tables.time_series import build_time_series
from dballoc.experiment.designs import Design
from dballoc.report.sections import contention, heap
from dballoc.report.sections import published as post
from dballoc.report.sections.imported import imported_profiles, imported_results
from dballoc.report.wording.answer import describe_verdict
from dballoc.report.wording.ratios_as_text import describe_ratio

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


def collect_all_tables(
    campaign: Campaign, comparisons: Comparisons, published: Published | None, profiles: Profiles
) -> dict[str, pl.DataFrame]:
    """Return the tables by file name, with those of profiles, and of a post beside ours."""
    source = imported_results if campaign.imported else post
    beside = source.collect_published_tables(campaign, published, profiles) if published else {}
    return collect_tables(campaign, comparisons) | beside | _collect_profile_tables(profiles)


def _collect_profile_tables(profiles: Profiles) -> dict[str, pl.DataFrame]:
    match profiles:
        case Contention():
            return contention.collect_contention_tables(profiles)
        case Heaps():
            return heap.collect_heap_tables(profiles)
        case ImportedProfiles():
            return imported_profiles.collect_imported_profile_tables(profiles)
    return {}


def collect_tables(campaign: Campaign, comparisons: Comparisons) -> dict[str, pl.DataFrame]:
    """Return the tables by file name. Units as in the database: bytes, seconds, milliseconds;
    ratios as they are.
    """
    if campaign.imported:
        return imported_results.collect_imported_tables(campaign)
    if campaign.is_replay:
        return _collect_replay_tables(campaign, comparisons)
    changed = [
        level_curves.compute_relative_levels(campaign, m).with_columns(measure=pl.lit(m))
        for m in CHANGES
    ]
    time = build_time_series(campaign)
    # What a campaign may have nothing of, and then has no table of.
    others = {
        "replicas": replica_lag.build_replica_table(campaign),
        "counters": counters.build_counter_table(campaign),
        "post": pl.DataFrame([vars(c) for c in compare_campaign_with_post(campaign)]),
    }
    duets = (
        {"duet": duet_slices.compute_block_logs(campaign)}
        if Design.DUET in campaign.designs
        else {}
    )
    return {
        "trials": campaign.trials.drop("log_tail", "proof"),
        "slices": campaign.slice,
        "levels": level_curves.average_levels(campaign),
        "relative": pl.concat(changed).select("measure", pl.exclude("measure")),
        "memory": memory_growth.build_memory_table(campaign),
        "ledger": memory_ledger.build_ledger_table(campaign),
        "timeline": time.series,
        "steps": time.steps,
        **_collect_comparisons(comparisons, campaign.experiment.baseline),
        "pairs": compare_all_pairs(campaign),
        "faults": campaign.trials.filter(pl.col("outcome") == "fault").select(_FAULT),
        "blocks": pl.concat([campaign.block, campaign.duet_block]),
        "variants": campaign.variant,
        **duets,
        **{name: table for name, table in others.items() if table.height},
    }


def _collect_comparisons(comparisons: Comparisons, baseline: str) -> dict[str, pl.DataFrame]:
    others = [c for c in comparisons.descriptive if c.variant != baseline]
    floor = [c for c in comparisons.descriptive if c.variant == baseline]
    return {
        "comparisons": _tabulate_comparisons([*comparisons.family, *others], comparisons),
        "floor": _tabulate_comparisons([*comparisons.floor, *floor], comparisons),
    }


# What columns of the store hold of a replay.
_HEAP = {"rss_start": "heap_start", PEAK.trial: "heap_peak", IDLE.trial: "heap_idle"}


def _collect_replay_tables(campaign: Campaign, comparisons: Comparisons) -> dict[str, pl.DataFrame]:
    """Return the tables of a campaign of replays; ns where a column is of calls or events."""
    facts = read_replay_facts(campaign)
    trials = campaign.trials.drop("log_tail", "proof", "level", "workload")
    return {
        "trials": trials.join(campaign.replay, on="trial", how="left").rename(_HEAP),
        "replays": average_replays(campaign),
        "heap": average_curves(campaign, facts),
        "calls": average_latencies(campaign),
        "marks": campaign.of(campaign.replay_mark).drop("trial_level", "trial_workload"),
        **_collect_comparisons(comparisons, campaign.experiment.baseline),
        "pairs": compare_all_pairs(campaign),
        "faults": campaign.trials.filter(pl.col("outcome") == "fault").select(_FAULT),
        "blocks": campaign.block,
        "variants": campaign.variant,
    }


def _tabulate_comparisons(judged: list[Comparison], comparisons: Comparisons) -> pl.DataFrame:
    rows = [
        {
            "variant": c.variant,
            "metric": c.metric.measure.name,
            "workload": c.metric.workload,
            "better": c.metric.better,
            **describe_ratio(c.ratio),
            "blocks": c.ratio.blocks if c.ratio else 0,
            "confidence": comparisons.confidence(c.metric),
            "scatter": c.ratio.scatter if c.ratio and c.ratio.interval else None,
            "smallest_detectable": c.ratio.detectable if c.ratio and c.ratio.interval else None,
            "verdict": "descriptive"
            if c in comparisons.descriptive
            else describe_verdict(c, comparisons),
        }
        for c in judged
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
