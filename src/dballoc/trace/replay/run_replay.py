"""Replay a plan once against one malloc."""

import functools
import json
import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from dballoc.allocators import proof_of_use, server_environment
from dballoc.allocators.find_library import Allocator
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.remove_tree import remove_tree
from dballoc.host.guardian.guardian_client import Custody, Exit
from dballoc.host.resources import cgroup
from dballoc.host.unprivileged.run_unprivileged import (
    Unanswered,
    make_environment,
    run_unprivileged,
)
from dballoc.host.unprivileged.server_user import server_user
from dballoc.trace.replay.plan_file import ReplayPlan
from dballoc.trace.replay.replay_result import (
    OPERATIONS,
    OperationFigures,
    ReplayCurve,
    ReplayFault,
    ReplayFigures,
    ReplayMoment,
    ReplayResult,
    ThreadFigures,
    WaitFigures,
)
from dballoc.trace.replay.replay_settings import ReplayLimits, ReplaySettings

# Samples above this share of them are cut to it for the time in malloc: in one of ten thousand, the
# thread lost its CPU in between, and that is the other threads' time.
_CUT = 0.999


def _parse_fault(text: str) -> ReplayFault | None:
    """Parse what the engine says of a replay that it ended itself, as it came to no end; None if it
    says nothing of that kind.
    """
    try:
        fault = json.loads(text)["fault"]
        return ReplayFault(kind="hang", text=readers.printable(fault["text"]))
    except (ValueError, KeyError, TypeError):
        return None


def _find_failed_allocations(figures: ReplayFigures) -> ReplayFault | None:
    """Return the fault of a malloc that has returned no memory; None if it always has."""
    if not figures.failed:
        return None
    return ReplayFault(
        kind="no memory",
        text=f"{figures.failed} allocations returned no memory, the first of "
        f"{figures.failed_size} bytes",
    )


def parse_figures(text: str, engine_memory: int, marks: tuple[str, ...]) -> ReplayFigures:
    """Parse the engine's document. ``engine_memory``: anonymous bytes of the engine itself, taken
    off every heap; ``marks``: their names. Raises Failure if it is not one.
    """
    try:
        document = json.loads(text)
        return _make_figures(document, engine_memory, marks)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Failure(f"the replay's engine printed no figures: {error!r:.200}") from None


def _make_figures(
    document: dict[str, Any], engine_memory: int, marks: tuple[str, ...]
) -> ReplayFigures:
    operations = tuple(_make_operation(row) for row in document["operations"])
    curve = document["curve"]
    peak, end, idle = document["peak"], document["end"], document.get("idle")
    # The sampler may have missed the moment, and left pages out: what was read at marks and at the
    # end is exact.
    highest = max(peak[2], end[2], *(anonymous for _, anonymous, _ in document["marks"]))
    return ReplayFigures(
        events=sum(operation.calls for operation in operations),
        seconds=document["nanoseconds"] / 1e9,
        cpu=document["cpu"] / 1e9,
        malloc_seconds=_sum_malloc_time(operations),
        minor_faults=document["minor_faults"],
        major_faults=document["major_faults"],
        engine_memory=engine_memory,
        peak_heap=_take_off(highest, engine_memory),
        peak_live=document["live_peak"],
        end_heap=_take_off(end[2], engine_memory),
        end_live=end[3],
        idle_heap=_take_off(idle[2], engine_memory) if idle else None,
        failed=document["failed"],
        failed_size=document["failed_size"],
        lateness=document["lateness"] / 1e9,
        clock=document["clock"],
        handover_waits=_make_waits(document["waits"][0]),
        window_waits=_make_waits(document["waits"][1]),
        operations=tuple(operation for operation in operations if operation.calls),
        moments=tuple(
            ReplayMoment(name=name, time=time, heap=_take_off(anonymous, engine_memory), live=live)
            for name, (time, anonymous, live) in zip(marks, document["marks"], strict=True)
        ),
        curve=ReplayCurve(
            time=tuple(point[0] for point in curve),
            seconds=tuple(point[1] / 1e9 for point in curve),
            heap=tuple(_take_off(point[2], engine_memory) for point in curve),
            live=tuple(point[3] for point in curve),
        ),
        live_curve=tuple((time, live) for time, live in document["live_curve"]),
        threads=tuple(
            ThreadFigures(live=row[0], calls=tuple(row[1:])) for row in document["threads"]
        ),
    )


def _take_off(anonymous: int, engine_memory: int) -> int:
    return max(0, anonymous - engine_memory)


def _make_operation(row: list[Any]) -> OperationFigures:
    operation, largest, calls, sampled, nanoseconds, buckets = row
    return OperationFigures(
        operation=OPERATIONS[operation],
        largest=largest or None,
        calls=calls,
        sampled=sampled,
        nanoseconds=nanoseconds,
        buckets=tuple((upper, count) for upper, count in buckets),
    )


def _make_waits(row: list[int]) -> WaitFigures:
    count, nanoseconds, cpu = row
    return WaitFigures(count=count, seconds=nanoseconds / 1e9, cpu=cpu / 1e9)


def _sum_malloc_time(operations: tuple[OperationFigures, ...]) -> float:
    """Estimate the seconds in malloc's functions: of each operation and size class, its calls times
    the mean of its samples, of which the slowest are cut.
    """
    seconds = 0.0
    for operation in operations:
        if not operation.sampled:
            continue
        most = operation.quantile(_CUT) or 0
        cut = sum(min(upper, most) * count for upper, count in operation.buckets)
        seconds += min(operation.nanoseconds, cut) / operation.sampled * operation.calls / 1e9
    return seconds


# Of the engine's own figures, and of what a malloc prints.
_MOST_OUTPUT = 256 * readers.MIB
_MOST_PRINTED = 64 << 10
# Seconds beside those of the replay itself: to check the plan, to end, to be given CPU.
_PATIENCE = 120.0
_OOM_SCORE = 1000  # on a full host the kernel takes the replay first


@dataclass(frozen=True, kw_only=True)
class _EngineRun:
    """How the engine ended, and what it left."""

    exit: Exit | None
    oom_kills: int
    output: str
    printed: str


def run_replay(
    plan: ReplayPlan,
    allocator: Allocator,
    settings: ReplaySettings,
    *,
    custody: Custody,
    scratch: Path,
    environment: Mapping[str, str] | None = None,
    cpus: Collection[int] | None = None,
    engine: Path | None = None,
    thp_disable: bool = False,
) -> ReplayResult:
    """Replay ``plan`` once on that malloc, as the server user.

    ``scratch``: a directory of ours for the engine's output, which the caller removes.
    ``environment``: what the malloc and its settings need; None: the malloc without settings.
    ``cpus``: run on these alone. ``engine``: a copy of the engine that runs on another C library,
    where the malloc is that one's. What goes wrong with the malloc (it is not in use, it crashes,
    hangs, returns no memory, is killed at the limit) is the result's fault. Raises UsageError if
    the plan needs more than the limits, or there can be no cgroup; Failure if the engine cannot
    run.
    """
    engine = engine or find_engine()
    engine_memory = measure_own_memory(engine)
    if environment is None:
        environment = server_environment.build_environment({}, allocator, {}, {})
    env = make_environment(environment)
    try:
        bindings = _prove(engine, allocator, env)
    except proof_of_use.NotProved as error:
        not_proved = ReplayFault(kind="not proved", text=str(error))
        return ReplayResult(figures=None, fault=not_proved, bindings={}, printed="")
    spawn: dict[str, object] = {
        "stdin": plan.path,
        "cpus": sorted(cpus) if cpus else None,
        "thp_disable": thp_disable,
        "oom_score_adj": _OOM_SCORE,
        **server_user().as_spawn(),
    }
    command = [os.fspath(engine), *make_options(plan, settings)]
    run = _run_engine(command, env, settings.limits, custody, scratch, spawn)
    fault = _find_fault(run, settings.limits)
    figures = None
    if fault is None:
        figures = parse_figures(run.output, engine_memory, plan.marks)
        fault = _find_failed_allocations(figures)
    return ReplayResult(figures=figures, fault=fault, bindings=bindings, printed=run.printed)


def find_engine() -> Path:
    """Find the installed engine. Raises Failure if it is not there."""
    path = Path(str(files("dballoc") / "_native" / "dballoc_replay"))
    if not path.exists():
        raise Failure(f"the replay's engine is not installed: no {path}; run: make setup")
    return path


@functools.cache
def measure_own_memory(engine: Path) -> int:
    """Measure the anonymous bytes of an engine itself, which do not depend on plan and malloc.
    Raises Failure if it does not run.
    """
    try:
        answer = run_unprivileged([engine, "--own"])
        return int(json.loads(answer.stdout)["own"])
    except (Unanswered, ValueError, KeyError, TypeError) as error:
        raise Failure(f"the replay's engine does not run: {error}") from None


def make_options(plan: ReplayPlan, settings: ReplaySettings) -> list[str]:
    """Make the engine's options; the plan is its standard input. Pure."""
    limits = settings.limits
    # A thread that is N epochs ahead is less than N + 1 epochs ahead in time.
    ahead = 1
    if settings.window is not None:
        ahead = max(0, round(settings.window * 1e9 / plan.epoch_ns) - 1) if settings.window else -1
    values = {
        "speed": settings.speed or 0,
        "ahead": ahead,
        "touch": settings.touch,
        "idle": settings.idle,
        "sample-every": settings.sample_every,
        "threads": limits.threads,
        "alive": limits.threads_alive,
        "live-bytes": limits.live_bytes,
        "seconds": limits.seconds,
    }
    return [*(f"--{name}={value}" for name, value in values.items()), "-"]


def _prove(engine: Path, allocator: Allocator, env: Mapping[str, str]) -> dict[str, str]:
    """Prove that the engine's calls reach the allocator; return the providers. Raises NotProved if
    not.
    """
    bindings = proof_of_use.read_bindings([os.fspath(engine)], env)
    complaints = allocator.entry.get("complaints", [])
    proof_of_use.check_bindings(bindings, allocator.providers, complaints)
    return bindings.provider


def _run_engine(
    command: list[str],
    env: Mapping[str, str],
    limits: ReplayLimits,
    custody: Custody,
    scratch: Path,
    spawn: dict[str, object],
) -> _EngineRun:
    """Run the engine to its end, in a memory cgroup where there is a limit."""
    output, printed = scratch / "figures.json", scratch / "printed.txt"
    for path in (output, printed):
        remove_tree(path)
    group = _make_group(custody, limits)
    exit_ = None
    try:
        child = custody.spawn(
            command,
            env,
            output,
            stderr=printed,
            cgroup=[group.procs] if group else None,
            **spawn,
        )
        try:
            exit_ = child.wait(limits.seconds + _PATIENCE)
        finally:
            # It hangs, or Ctrl-C came.
            if exit_ is None:
                child.stop(signal.SIGKILL, 60)
        oom_kills = group.oom_kills() if group else 0
    finally:
        if group:
            group.remove()
    return _EngineRun(
        exit=exit_,
        oom_kills=oom_kills,
        output=_read_output(output),
        printed=_read_tail(printed),
    )


def _make_group(custody: Custody, limits: ReplayLimits) -> cgroup.MemoryCgroup | None:
    """Make the cgroup with the memory limit; None if there is no limit, or it can do without."""
    if limits.memory is None:
        return None
    try:
        return cgroup.create_memory_cgroup(custody, limits.memory)
    except UsageError:
        if limits.needs_cgroup:
            raise
        return None


def _read_output(path: Path) -> str:
    try:
        return readers.text(path, _MOST_OUTPUT, errors="replace")
    except readers.Unfit as error:
        raise Failure(f"the replay's figures in {path}: {error}") from None


def _read_tail(path: Path) -> str:
    """Read the end of what was printed."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MOST_PRINTED))
        return file.read(_MOST_PRINTED).decode(errors="replace")


def _find_fault(run: _EngineRun, limits: ReplayLimits) -> ReplayFault | None:
    """Find out why the engine did not come to its end; None if it did. Raises UsageError if it
    refused the plan; Failure if the machine did not give it what it needs.
    """
    last = (run.printed.strip().splitlines() or [""])[-1]
    line = readers.printable(last)[:300]
    if run.oom_kills:
        limit = (limits.memory or 0) >> 20
        whose = "" if limits.needs_cgroup else ", which is what this machine had to spare"
        return ReplayFault(kind="oom", text=f"killed at the memory limit of {limit} MiB{whose}")
    if run.exit is None:
        return ReplayFault(
            kind="hang", text=f"it did not end within {limits.seconds + _PATIENCE:.0f} seconds"
        )
    match run.exit.status:
        case 0:
            return None
        case 2:
            raise UsageError(line or "the replay's engine refused the plan")
        case 3:
            fault = _parse_fault(run.output)
            return fault or ReplayFault(kind="crash", text="ended by exit status 3")
        case 4:
            raise Failure(f"the replay's engine: {line}")
    words = f"ended by {run.exit.words}" + (f": {line}" if line else "")
    return ReplayFault(kind="crash", text=words)
