"""What each replay of a campaign may take, and what is refused before the first. Pure, but for this
machine's free memory.
"""

import psutil

from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import with_unit
from dballoc.store.replay_facts import RecordedTrace
from dballoc.trace.replay.replay_settings import ReplayLimits

# Seconds, as measured on two cores: of an event, of a start.
_PER_EVENT = 1.5e-7
PER_START = 1.0
# A replay may take this many times as long as is expected, and so many seconds more; and without
# --max-time no more than a day.
_PATIENCE, _MORE, _DAY = 50.0, 120.0, 24 * 3600.0
# Bytes that are left to the rest of the machine.
_RESERVE = 512 << 20
_CUT = "take a stretch of it (dballoc trace cut)"


def estimate_replay_seconds(experiment: Experiment, trace: RecordedTrace) -> float:
    """Estimate the seconds of one replay of a trace."""
    replay = experiment.replay
    assert replay
    paced = trace.seconds / replay.speed if replay.mode == "timed" else 0.0
    return max(paced, trace.events * _PER_EVENT) + experiment.time.idle + PER_START


def measure_spare_memory() -> int:
    """Measure the bytes of this machine's memory that a replay may take."""
    return max(0, psutil.virtual_memory().available - _RESERVE)


def make_limits(experiment: Experiment, trace: RecordedTrace, spare: int) -> ReplayLimits:
    """Return what a replay may take, where the machine has so many ``spare`` bytes: those, unless
    the experiment says how many.
    """
    replay, memory = experiment.replay, experiment.limits.memory
    assert replay
    expected = estimate_replay_seconds(experiment, trace)
    return ReplayLimits(
        memory=spare if memory is None else memory,
        needs_cgroup=memory is not None,
        seconds=min(_PATIENCE * expected + _MORE, _DAY)
        if replay.max_time is None
        else replay.max_time,
    )


def check_needs(experiment: Experiment, trace: RecordedTrace, spare: int) -> None:
    """Raise UsageError if replays of the trace need more than they may take, where the machine has
    so many ``spare`` bytes.
    """
    limits = make_limits(experiment, trace, spare)
    if trace.threads > limits.threads:
        raise UsageError(
            f"trace: {trace.threads:,} threads, and no more than {limits.threads:,} can be "
            f"replayed; {_CUT}"
        )
    if trace.threads_at_once > limits.threads_alive:
        raise UsageError(
            f"trace: {trace.threads_at_once:,} threads at once, and no more than "
            f"{limits.threads_alive:,} can be replayed; {_CUT}"
        )
    if trace.peak_live > limits.live_bytes:
        raise UsageError(
            f"trace: {with_unit(trace.peak_live)} alive at once, and no more than "
            f"{with_unit(limits.live_bytes)} can be replayed; {_CUT}"
        )
    _check_memory(experiment, trace, spare)
    _check_time(experiment, trace, limits)


def _check_memory(experiment: Experiment, trace: RecordedTrace, spare: int) -> None:
    """Under a limit that the user asked for, a killed replay is a result."""
    assert experiment.replay
    is_all = experiment.replay.touch == "all"
    touched = trace.peak_live if is_all else trace.peak_touched
    if experiment.limits.memory is None and touched > spare:
        raise UsageError(
            f"trace: a replay touches {with_unit(touched)} at once, and this machine has "
            f"{with_unit(spare)} to spare; {_CUT}, or replay it where there is more memory"
        )


def _check_time(experiment: Experiment, trace: RecordedTrace, limits: ReplayLimits) -> None:
    expected = estimate_replay_seconds(experiment, trace)
    if expected > limits.seconds:
        raise UsageError(
            f"trace: a replay takes about {expected / 3600:.1f} hours, and no more than "
            f"{limits.seconds / 3600:.1f} are allowed; give --max-time, or {_CUT}"
        )
