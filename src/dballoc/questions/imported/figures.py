"""Split imported results by machine: figures of one machine say nothing about another. Pure."""

from dataclasses import dataclass, replace

import polars as pl

from dballoc.experiment.model import Experiment
from dballoc.questions.compare.campaign_tables import Campaign


@dataclass(frozen=True)
class ImportedMachine:
    """A machine's ``name``, empty where the figures named none, and its part of the campaign."""

    name: str
    campaign: Campaign


def split_by_machine(campaign: Campaign) -> list[ImportedMachine]:
    """Return the machines in the order of the files, each with an experiment of what ran on it
    alone. Where the baseline did not run, the machine's first variant takes its place.
    """
    machines, first = [], 1
    assert campaign.facts.imported
    for entry in campaign.facts.imported.machines:
        trials = campaign.trial.filter(pl.col("trial").is_between(first, first + entry.trials - 1))
        first += entry.trials
        step = campaign.step.filter(pl.col("trial").is_in(trials["trial"].to_list()))
        experiment = _reduce_experiment(campaign.experiment, trials, step)
        if experiment.baseline != campaign.experiment.baseline:
            trials = trials.with_columns(
                role=pl.when(pl.col("variant") == experiment.baseline)
                .then(pl.lit("A1"))
                .otherwise(pl.lit("V"))
            )
        machines.append(
            ImportedMachine(
                entry.name, replace(campaign, trial=trials, step=step, experiment=experiment)
            )
        )
    return machines


def list_private_bytes(campaign: Campaign) -> pl.DataFrame:
    """Return the most private bytes of each figure that has them: block, variant, workload, threads
    and ``private``, bytes.
    """
    assert campaign.facts.imported
    peaks = pl.DataFrame(
        [(row.trial, row.peak) for row in campaign.facts.imported.private],
        schema={"trial": pl.Int64, "private": pl.Int64},
        orient="row",
    )
    return (
        campaign.of(campaign.step)
        .join(peaks, on="trial", how="inner", maintain_order="left")
        .select("block", "variant", "workload", "threads", "private")
    )


def is_of_ratios(campaign: Campaign) -> bool:
    """Whether the files have ratios to the baseline in place of throughput."""
    assert campaign.facts.imported
    return campaign.facts.imported.relative_to is not None


def count_figures(campaign: Campaign) -> int:
    """Return how many figures the files have: the variant that ratios are relative to has none."""
    assert campaign.facts.imported
    base = campaign.facts.imported.relative_to
    return campaign.trial.filter(pl.col("variant").ne_missing(base)).height


def is_repeated(campaign: Campaign) -> bool:
    """Whether anything was measured more than once."""
    return int(campaign.trial["block"].n_unique()) > 1


def _reduce_experiment(
    experiment: Experiment, trials: pl.DataFrame, step: pl.DataFrame
) -> Experiment:
    names, workloads, threads = set(trials["variant"]), set(step["workload"]), set(step["threads"])
    variants = [v for v in experiment.variant if v.name in names]
    return experiment.model_copy(
        update={
            "variant": variants,
            "workloads": [w for w in experiment.workloads if w in workloads],
            "threads": [n for n in experiment.threads if n in threads],
            "baseline": experiment.baseline if experiment.baseline in names else variants[0].name,
        }
    )
