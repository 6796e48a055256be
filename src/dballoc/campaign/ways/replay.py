"""Replay: the same blocks as of servers, each trial a recorded trace on one malloc."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dballoc.campaign.interruptible_session import Session
from dballoc.campaign.recorded_facts import make_replay_facts
from dballoc.campaign.replay import read_trace_file
from dballoc.campaign.replay.check_replay import ExpectedReplay, expect_replay, find_difference
from dballoc.campaign.replay.describe_trace import describe_replay
from dballoc.campaign.replay.prepare_replay import PreparedReplay, PreparedReplayVariant
from dballoc.campaign.replay.replay_limits import (
    PER_START,
    estimate_replay_seconds,
    make_limits,
    measure_spare_memory,
)
from dballoc.campaign.replay.replay_rows import fill_record
from dballoc.campaign.run_blocks import CampaignKind
from dballoc.campaign.trial.host_thp import check_host_thp, switch_thp
from dballoc.campaign.ways.solo import plan_blocks
from dballoc.campaign.ways.way import BlockEstimate, Blocks, DurationEstimate
from dballoc.experiment import schedule
from dballoc.experiment.designs import Design
from dballoc.experiment.schedule import Slot
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.settings import thp
from dballoc.store.facts import Facts
from dballoc.store.results import Results, TrialRecord
from dballoc.store.rows import MeasuredTrial
from dballoc.trace.replay import plan_file, run_replay
from dballoc.trace.replay.replay_result import ReplayFault
from dballoc.trace.replay.replay_settings import ReplaySettings

# Seconds of a block beside its replays, as measured on two cores.
_PER_BLOCK = 0.5


@dataclass(frozen=True, kw_only=True)
class PlannedTrace:
    """A trace as it is replayed. ``plan``: for the engine; ``expected``: what a replay does."""

    plan: plan_file.ReplayPlan
    expected: ExpectedReplay


class ReplayBlocks(Blocks[PreparedReplay, Slot]):
    """Runs the replays of blocks. Their length is not chosen."""

    interruptible = True

    def __init__(
        self,
        session: Session[PreparedReplay],
        results: Results,
        trace: PlannedTrace,
        planned_seconds: float,
    ) -> None:
        super().__init__(session, results, planned_seconds)
        self._trace = trace

    def list_trials(self, number: int, attempt: int) -> Sequence[Slot]:
        """Return the replays of a block in their order."""
        return schedule.order_block(self._session.setting.experiment, number, attempt)

    def measure(self, slot: Slot, directory: Path) -> Sequence[TrialRecord]:
        """Run one replay."""
        custody, setting = self._session.custody, self._session.setting
        prepared = setting.variants[slot.variant]
        return [replay_variant(custody, setting, self._trace, prepared, directory)]


def plan_trace(custody: Custody, setting: PreparedReplay) -> PlannedTrace:
    """Make the plan of a campaign's trace, which the guardian removes in the end."""
    scratch = directories.make_run_directory(custody.scratch)
    setting.user.show(scratch)
    trace = read_trace_file.read_any_trace(setting.path)
    plan = plan_file.write_plan(trace, scratch / "plan")
    return PlannedTrace(plan=plan, expected=expect_replay(trace, plan))


def replay_variant(
    custody: Custody,
    setting: PreparedReplay,
    trace: PlannedTrace,
    prepared: PreparedReplayVariant,
    directory: Path,
) -> TrialRecord:
    """Replay the trace once on a variant's malloc, and return what it measured."""
    record = TrialRecord(trial=MeasuredTrial(started=time.time()))
    host = switch_thp(custody, setting, prepared.variant.host_settings)
    record.trial.thp = thp.describe_host(host) if prepared.variant.host_settings else None
    result = run_replay.run_replay(
        trace.plan,
        prepared.allocator,
        make_settings(setting),
        custody=custody,
        scratch=directory,
        environment=prepared.environment,
        cpus=setting.server_cpus,
        engine=prepared.build.executable,
    )
    check_host_thp(host)
    if result.figures and (difference := find_difference(result.figures, trace.expected)):
        fault = ReplayFault(kind="not proved", text=f"not what the trace says: {difference}")
        result = replace(result, figures=None, fault=fault)
    experiment = setting.experiment
    assert experiment.replay
    fill_record(record, result, setting.trace, experiment.time.idle, experiment.replay.window)
    record.trial.ended = time.time()
    return record


def make_settings(setting: PreparedReplay) -> ReplaySettings:
    """Return how the engine replays, and what a replay may take."""
    experiment = setting.experiment
    replay = experiment.replay
    assert replay
    return ReplaySettings(
        speed=replay.speed if replay.mode == "timed" else None,
        touch=replay.touch,
        idle=experiment.time.idle,
        limits=make_limits(experiment, setting.trace, measure_spare_memory()),
    )


def estimate_replays(setting: PreparedReplay) -> DurationEstimate:
    """Estimate a campaign: the experiment's blocks; else as many as fit into the budget, up to the
    last look; else those up to the first look.
    """
    experiment = setting.experiment
    trials = len(schedule.order_block(experiment, 1))
    each = estimate_replay_seconds(experiment, setting.trace)
    block = trials * each + _PER_BLOCK
    blocks = plan_blocks(experiment.blocks, experiment.budget, block)
    on_purpose = trials * (each - PER_START)
    estimate = BlockEstimate(blocks=blocks, trials=trials, seconds=block, on_purpose=on_purpose)
    return DurationEstimate(ways={Design.SOLO: estimate})


def _prepare_blocks(
    session: Session[PreparedReplay],
    results: Results,
    estimate: DurationEstimate,
    _: Sequence[str],
) -> dict[str, Blocks]:
    session.observer.notice(f"reading {session.setting.path}")
    trace = plan_trace(session.custody, session.setting)
    seconds = estimate.ways[Design.SOLO].seconds
    return {Design.SOLO: ReplayBlocks(session, results, trace, seconds)}


def _make_facts(setting: PreparedReplay, planned_blocks: dict[str, int]) -> Facts:
    assert setting.experiment.replay
    replay = describe_replay(
        setting.trace,
        setting.experiment.replay,
        setting.list_decaying_variants(),
        setting.find_recorded_variant(),
    )
    return make_replay_facts(setting, planned_blocks, replay)


REPLAYS = CampaignKind(
    name="replay",
    estimate=estimate_replays,
    make_facts=_make_facts,
    prepare_blocks=_prepare_blocks,
)
