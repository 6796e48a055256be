"""The first cache sizes that ``dballoc fit --from`` tries: the memory less the heap that each
malloc needs for a recorded trace of a similar server.
"""

from collections.abc import Sequence
from pathlib import Path

from dballoc.campaign.interruptible_session import Session
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.proved_malloc import prove_malloc
from dballoc.campaign.replay import read_trace_file
from dballoc.campaign.replay.describe_trace import describe_trace
from dballoc.campaign.replay.hash_trace import hash_trace
from dballoc.campaign.replay.prepare_replay import PreparedReplayVariant, find_engine
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.experiment.model import Variant
from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_directory import remove_own
from dballoc.ground.numbers import with_unit
from dballoc.host import directories
from dballoc.store.replay_facts import RecordedMark, RecordedTrace
from dballoc.trace.replay import plan_file, run_replay
from dballoc.trace.replay.replay_settings import ReplayLimits, ReplaySettings

# A replay that takes longer is no quick guess.
_MOST_SECONDS = 1800.0


def guess_first_sizes(session: Session[PreparedCampaign]) -> dict[str, int]:
    """Replay the trace once on every variant's malloc, and return each variant's first size in
    bytes; none if its replay fails, which is reported. Raises UsageError if the trace is not the
    one that was named, or cannot be replayed.
    """
    experiment, observer = session.setting.experiment, session.observer
    assert experiment.fit.guess
    assert experiment.limits.memory
    path = Path(experiment.fit.guess.trace)
    if hash_trace(path) != experiment.fit.guess.sha256:
        raise UsageError(f"{path}: it is not the trace that this search began with")
    observer.notice(f"reading {path}")
    trace = read_trace_file.read_any_trace(path)
    recorded = describe_trace(trace)
    _tell_flaws(session, recorded)
    other = find_other_memory(recorded.marks)
    scratch = directories.make_run_directory(session.custody.scratch)
    session.setting.user.show(scratch)
    plan = plan_file.write_plan(trace, scratch / "plan")
    sizes = {}
    for variant in experiment.variant:
        try:
            heap = _replay_heap(session, variant, recorded, plan)
        except UsageError as error:
            observer.notice(f"no guess from the trace: {error}")
            continue
        size = max(0, experiment.limits.memory - heap - (other or 0))
        sizes[variant.name] = size
        beside = f", and {with_unit(other)} beside heap and cache" if other is not None else ""
        observer.notice(
            f"{variant.name}: the replay takes {with_unit(heap)} of heap{beside}; first size "
            f"about {format_size(size >> 20 << 20)}"
        )
    remove_own(plan.path)
    return sizes


def find_other_memory(marks: Sequence[RecordedMark]) -> int | None:
    """Return the bytes that the recorded server held beside its heap and its cache: the most at any
    mark, where the cache was full. None if it was not measured. Pure.
    """
    beside = [
        mark.truth["rss"] - mark.truth["heap"] - mark.truth["pool"]
        for mark in marks
        if mark.truth.keys() >= {"rss", "heap", "pool"}
    ]
    return max(0, *beside) if beside else None


def _tell_flaws(session: Session[PreparedCampaign], recorded: RecordedTrace) -> None:
    if not recorded.from_start:
        session.observer.notice(
            "the recording began late: the guess leaves out earlier allocations"
        )
    if recorded.dropped:
        session.observer.notice(f"{recorded.dropped:,} events are missing in the trace")


def _replay_heap(
    session: Session[PreparedCampaign],
    variant: Variant,
    recorded: RecordedTrace,
    plan: plan_file.ReplayPlan,
) -> int:
    """Return the peak heap in bytes of one replay on the variant's malloc. Raises UsageError if
    there is none.
    """
    setting, where = session.setting, f"variant {variant.name!r}"
    in_server = setting.variants[variant.name].allocator
    if in_server.server_library is not None and in_server.name != "glibc":
        raise UsageError(f"{where}: its malloc is built into the server")
    malloc = prove_malloc(where, setting.experiment, setting.user, find_engine(), variant)
    prepared = PreparedReplayVariant(**vars(malloc), trace=recorded)
    result = run_replay.run_replay(
        plan,
        malloc.allocator,
        ReplaySettings(
            limits=ReplayLimits(memory=setting.experiment.limits.memory, seconds=_MOST_SECONDS)
        ),
        custody=session.custody,
        scratch=plan.path.parent,
        environment=prepared.environment,
        engine=malloc.build.executable,
    )
    if result.figures is None:
        raise UsageError(f"{where}: {result.fault.text if result.fault else 'no figures'}")
    return result.figures.peak_heap
