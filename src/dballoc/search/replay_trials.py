"""The first stage of a search: a recorded trace of the workload, replayed on each configuration. A
replay takes seconds, where a server takes tens of them.
"""

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
from dballoc.campaign.ways.replay import (
    PlannedTrace,
    replay_variant,
)
from dballoc.experiment.designs import Design
from dballoc.experiment.model import REPLAY, Experiment, TraceReplay, Variant
from dballoc.ground.errors import UsageError
from dballoc.host.guardian.guardian_client import Custody
from dballoc.search.plan_trials import Candidate
from dballoc.search.search_space import apply_parameters
from dballoc.store.results import TrialRecord


def replay_candidate(
    custody: Custody,
    replays: PreparedReplay,
    trace: PlannedTrace,
    candidate: Candidate,
    directory: Path,
) -> TrialRecord:
    """Replay the trace on a configuration. Raises UsageError if the malloc refuses its settings."""
    base, experiment = candidate.base, replays.experiment
    variant = apply_parameters(experiment.find(base), candidate.parameters, base)
    malloc = prove_malloc(f"variant {base!r}", experiment, replays.user, find_engine(), variant)
    prepared = PreparedReplayVariant(**vars(malloc), trace=replays.trace)
    return replay_variant(custody, replays, trace, prepared, directory)


def prepare_replays(setting: PreparedCampaign, pace: TraceReplay) -> PreparedReplay:
    """Find and check what replays of the trace need. Raises UsageError for what this machine cannot
    do.
    """
    path = Path(pace.trace)
    if hash_trace(path) != pace.sha256:
        raise UsageError(f"{path}: not the trace that the search began with; choose a new --out")
    recorded = describe_trace(read_any_trace(path))
    experiment = _make_replay_experiment(setting, pace, recorded.threads)
    return prepare_replay(experiment, path.absolute(), recorded)


def prepare_recorded_replays(setting: PreparedCampaign, trace: Path) -> PreparedReplay:
    """Find and check what replays of a trace need that the search has recorded. Raises UsageError
    for what this machine cannot do.
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
