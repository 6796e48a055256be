"""The first stage of a search: a recorded trace of the workload, replayed on each configuration. A
replay takes seconds, where a server takes tens of them.
"""

from dataclasses import dataclass
from pathlib import Path

from dballoc.allocators import find_library
from dballoc.allocators.find_library import Allocator
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.proved_malloc import prove_malloc
from dballoc.campaign.replay.describe_trace import describe_trace
from dballoc.campaign.replay.hash_trace import hash_trace
from dballoc.campaign.replay.prepare_replay import (
    PreparedReplay,
    PreparedReplayVariant,
    find_engine,
    prepare_replay,
)
from dballoc.campaign.replay.read_trace_file import read_any_trace
from dballoc.campaign.replay.replay_limits import estimate_replay_seconds
from dballoc.campaign.ways.replay import (
    PlannedTrace,
    plan_trace,
    replay_variant,
)
from dballoc.errors import UsageError
from dballoc.experiment.designs import Design
from dballoc.experiment.model import REPLAY, Experiment, TraceReplay, Variant
from dballoc.host.guardian.guardian_client import Custody
from dballoc.store.results import TrialRecord
from dballoc.tune.search_space import Parameters, apply_parameters


@dataclass(frozen=True, kw_only=True)
class ReplayTrials:
    """What replays of a search need: the prepared trace, and the variants by base."""

    setting: PreparedReplay

    def estimate_seconds(self) -> float:
        """Estimate the seconds of one replay."""
        trace = self.setting.trace
        return estimate_replay_seconds(self.setting.experiment, trace.events, trace.seconds)

    def plan(self, custody: Custody) -> PlannedTrace:
        """Make the plan of the trace, which the guardian removes in the end."""
        return plan_trace(custody, self.setting)

    def replay_candidate(
        self,
        custody: Custody,
        trace: PlannedTrace,
        base: str,
        parameters: Parameters,
        directory: Path,
    ) -> TrialRecord:
        """Replay the trace on a configuration. UsageError if the malloc refuses its settings."""
        experiment = self.setting.experiment
        variant = apply_parameters(experiment.find(base), parameters, base)
        malloc = prove_malloc(
            f"variant {base!r}", experiment, self.setting.user, find_engine(), variant
        )
        prepared = PreparedReplayVariant(variant=variant, malloc=malloc, trace=self.setting.trace)
        return replay_variant(custody, self.setting, trace, prepared, directory)


def prepare_replays(setting: PreparedCampaign, pace: TraceReplay) -> ReplayTrials:
    """Find and check what replays of the trace need. UsageError for what this machine cannot do."""
    path = Path(pace.trace)
    if hash_trace(path) != pace.sha256:
        raise UsageError(f"{path}: not the trace that the search began with; choose a new --out")
    recorded = describe_trace(read_any_trace(path))
    experiment = _make_replay_experiment(setting, pace, recorded.threads)
    return ReplayTrials(setting=prepare_replay(experiment, path.absolute(), recorded))


def prepare_recorded_replays(setting: PreparedCampaign, trace: Path) -> ReplayTrials:
    """Find and check what replays of a trace need that the search has recorded. UsageError for
    what this machine cannot do.
    """
    return prepare_replays(setting, TraceReplay(trace=str(trace), sha256=hash_trace(trace)))


def _make_replay_experiment(
    setting: PreparedCampaign, pace: TraceReplay, threads: int
) -> Experiment:
    """Return the search's experiment as a replay's: the engine runs on this machine's C library,
    and has no server options.
    """
    experiment = setting.experiment
    variants = [_strip_server(v, setting.variants[v.name].allocator) for v in experiment.variant]
    return experiment.model_copy(
        update={
            "workloads": [REPLAY],
            "threads": [max(1, threads)],
            "workload": {},
            "tune": None,
            "replay": pace,
            "record": None,
            "design": Design.SOLO.value,
            "variant": variants,
        }
    )


def _strip_server(variant: Variant, allocator: Allocator) -> Variant:
    empty = Variant(name=variant.name).server
    named = variant.allocator
    if named is None and not variant.preload and allocator.server_library is not None:
        named = find_library.find_allocator(allocator.name).name
    return variant.model_copy(update={"server": empty, "allocator": named, "thp": None})
