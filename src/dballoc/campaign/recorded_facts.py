"""The facts that a results directory records of its campaign when it is made."""

import time
from dataclasses import replace
from pathlib import Path

import dballoc
from dballoc.campaign.own_libraries import hash_preloads
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepared import Prepared
from dballoc.experiment import experiment_file
from dballoc.experiment.cpu_list import format_cpus
from dballoc.experiment.designs import Design
from dballoc.fetch import private_store
from dballoc.ground.errors import UsageError
from dballoc.host import machine_description
from dballoc.questions.compare.verdict import DEFAULT_MARGIN
from dballoc.store.facts import (
    CounterFacts,
    DuetFacts,
    Environment,
    Facts,
    TurnsFacts,
    WorkloadFacts,
)
from dballoc.store.replay_facts import ReplayFacts


def make_common_facts(setting: Prepared) -> Facts:
    """Return the facts that every results directory records of its campaign: a solo design without
    planned blocks.
    """
    experiment = setting.experiment
    return Facts(
        dballoc=dballoc.__version__,
        identity=experiment_file.compute_identity(experiment),
        experiment=experiment_file.format_experiment(experiment),
        seed=experiment.seed,
        started=time.time(),
        environment=Environment(**machine_description.describe_machine()),
        server_user=setting.user.name,
        designs=(Design.SOLO,),
        planned_blocks={},
        duet=DuetFacts(),
        preloads=hash_preloads(experiment),
        untried=_list_untried(setting),
    )


def _list_untried(setting: Prepared) -> dict[str, str]:
    """Return by variant what built its fetched allocator, where no recipe of dballoc's did."""
    owners = {
        name: private_store.find_owner(library)
        for name, prepared in setting.variants.items()
        for library in prepared.allocator.libraries[:1]
    }
    return {
        name: entry.untried_build for name, entry in owners.items() if entry and entry.untried_build
    }


def make_server_facts(setting: PreparedCampaign) -> Facts:
    """Return the facts of every campaign that loads servers."""
    baseline = setting.variants[setting.experiment.baseline]
    return replace(
        make_common_facts(setting),
        sysbench=setting.sysbench.version,
        workloads=_make_workload_facts(setting),
        option_defaults=dict(baseline.build.entry.defaults),
    )


def make_replay_facts(
    setting: Prepared, planned_blocks: dict[str, int], replay: ReplayFacts
) -> Facts:
    """Return all facts of a campaign of replays."""
    return replace(
        make_common_facts(setting),
        kind="replay",
        planned_blocks=planned_blocks,
        margin=setting.margin or DEFAULT_MARGIN,
        replay=replay,
    )


def make_block_facts(setting: PreparedCampaign, planned_blocks: dict[str, int]) -> Facts:
    """Return all facts of a campaign of blocks."""
    return replace(
        make_server_facts(setting),
        planned_blocks=planned_blocks,
        designs=tuple(setting.designs),
        margin=setting.margin or DEFAULT_MARGIN,
        duet=_make_duet_facts(setting),
        turns=_make_turns_facts(setting),
        counters=CounterFacts(
            events=tuple(event.name for event in setting.countable.events),
            refusal=setting.countable.refusal,
        ),
    )


def check_margin(chosen: float | None, stored: float | None, path: Path) -> None:
    """Raise UsageError if a resumed campaign is given another margin than it stored before its
    first block.
    """
    if chosen is None or stored == chosen:
        return
    before = f"has the margin {stored * 100:g} %" if stored else "has no stored margin"
    raise UsageError(
        f"--margin: {path} {before}, which cannot change once a campaign has begun; for another "
        "view of its results use dballoc report --margin"
    )


def _make_duet_facts(setting: PreparedCampaign) -> DuetFacts:
    """Return how duets are run, for the report; the pilot adds to it."""
    duet = setting.duet
    if duet is None:
        return DuetFacts(none=setting.no_duet or None)
    return DuetFacts(
        halves=tuple(format_cpus(half) for half in duet.cpus.halves),
        client_halves=tuple(format_cpus(half) for half in duet.cpus.client_halves)
        if duet.cpus.clients_apart
        else (),
        threads=duet.threads,
        left_out=duet.left_out,
        estimate=setting.experiment.duet.estimate,
    )


def _make_turns_facts(setting: PreparedCampaign) -> TurnsFacts:
    """Return how turns are run, for the report."""
    turns = setting.turns
    if turns is None:
        return TurnsFacts(none=setting.no_turns)
    return TurnsFacts(
        in_pairs=turns.in_pairs,
        seconds=setting.experiment.turns.length,
    )


def _make_workload_facts(setting: PreparedCampaign) -> dict[str, WorkloadFacts]:
    """Return what each workload is, for the report, with those of its options that are its own or
    the experiment's.
    """
    load, workloads = setting.experiment.load, {}
    for name in setting.experiment.loads:
        work = setting.sysbench.workload(name)
        workloads[name] = WorkloadFacts(
            title=work.title,
            driver=work.driver,
            group=work.group,
            script=work.file.name if work.file else Path(work.script).name,
            options={**work.options, **load.options},
            prepared_statements=work.prepares(load),
            brings=work.brings,
            writes=work.writes,
            reads_whole_tables=work.reads_whole_tables,
        )
    return workloads
