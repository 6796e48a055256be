"""The facts that a results directory records of its campaign when it is made."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dballoc
from dballoc.analysis.decisions.verdict import DEFAULT_MARGIN
from dballoc.analysis.replay.replay_facts import ReplayFacts
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepared import Prepared
from dballoc.errors import UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.cpu_list import format_cpus
from dballoc.host import machine_description
from dballoc.store.results import KIND, REPLAY


def make_common_facts(setting: Prepared) -> dict[str, str]:
    """Return the facts that every results directory records of its campaign."""
    experiment = setting.experiment
    return {
        "dballoc": dballoc.__version__,
        "identity": experiment_file.compute_identity(experiment),
        "experiment": experiment_file.format_experiment(experiment),
        "seed": str(experiment.seed),
        "started": str(time.time()),
        "environment": json.dumps(machine_description.describe_machine()),
        "server_user": setting.user.name,
    }


def make_server_facts(setting: PreparedCampaign) -> dict[str, str]:
    """Return the facts of every campaign that loads servers."""
    baseline = setting.variants[setting.experiment.baseline]
    return make_common_facts(setting) | {
        "sysbench": setting.sysbench.version,
        "workloads": json.dumps(_make_workloads_fact(setting)),
        "option_defaults": json.dumps(baseline.build.entry.defaults),
    }


def make_replay_facts(
    setting: Prepared, planned_blocks: dict[str, int], replay: ReplayFacts
) -> dict[str, str]:
    """Return all facts of a campaign of replays."""
    return make_common_facts(setting) | {
        KIND: REPLAY,
        "planned_blocks": json.dumps(planned_blocks),
        "designs": "solo",
        "margin": str(setting.margin or DEFAULT_MARGIN),
        "duet": "{}",
        REPLAY: json.dumps(asdict(replay)),
    }


def make_block_facts(setting: PreparedCampaign, planned_blocks: dict[str, int]) -> dict[str, str]:
    """Return all facts of a campaign of blocks."""
    return make_server_facts(setting) | {
        "planned_blocks": json.dumps(planned_blocks),
        "designs": " ".join(setting.designs),
        "margin": str(setting.margin or DEFAULT_MARGIN),
        "duet": json.dumps(_make_duet_fact(setting)),
        "counters": json.dumps(
            {
                "events": [event.name for event in setting.countable.events],
                "refusal": setting.countable.refusal,
            }
        ),
    }


def check_margin(chosen: float | None, stored: str | None, path: Path) -> None:
    """Raise UsageError if a campaign that is resumed is asked for another margin than the one that
    it stored before its first block.
    """
    if chosen is None or (stored is not None and float(stored) == chosen):
        return
    before = f"has the margin {float(stored) * 100:g} %" if stored else "has no stored margin"
    raise UsageError(
        f"--margin: {path} {before}, which cannot change once a campaign has begun; for another "
        "view of its results use dballoc report --margin"
    )


def _make_duet_fact(setting: PreparedCampaign) -> dict[str, Any]:
    """Return how duets are run, for the report; the pilot adds to it."""
    duet = setting.duet
    if duet is None:
        return {"none": setting.no_duet} if setting.no_duet else {}
    return {
        "halves": [format_cpus(half) for half in duet.halves],
        "threads": duet.threads,
        "left_out": duet.left_out,
        "estimate": setting.experiment.duet.estimate,
    }


def _make_workloads_fact(setting: PreparedCampaign) -> dict[str, Any]:
    """Return what each workload is, for the report, with those of its options that are its own or
    the experiment's.
    """
    experiment = setting.experiment
    load = experiment.load
    workloads = {}
    for name in experiment.loads:
        work = setting.sysbench.workload(name)
        workloads[name] = {
            "title": work.title,
            "driver": work.driver,
            "group": work.group,
            "script": work.file.name if work.file else Path(work.script).name,
            "options": {**work.options, **load.options},
            "prepared_statements": work.prepares(load),
            "brings": work.brings,
            "writes": work.writes,
            "whole": work.reads_whole_tables,
        }
    return workloads
