"""``dballoc replay``: a recorded trace of allocations on every malloc."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dballoc.campaign.replay.describe_trace import describe_trace
from dballoc.campaign.replay.hash_trace import hash_trace
from dballoc.campaign.replay.prepare_replay import PreparedReplay, prepare_replay
from dballoc.campaign.replay.read_trace_file import read_any_trace
from dballoc.campaign.results_directory import choose_results_directory
from dballoc.campaign.ways.replay import REPLAYS, estimate_replays
from dballoc.cli.shared import flags, perform_campaign
from dballoc.cli.shared.campaign_display import minutes
from dballoc.cli.shared.experiment_from_replay import ReplayFlags, build_replay_experiment
from dballoc.cli.shared.field_flags import Changes, takes_flags
from dballoc.cli.shared.safe_output import Console, say
from dballoc.experiment.flag import Flag
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import with_unit
from dballoc.questions.campaign.answer import conditions_and_preference
from dballoc.store.replay_facts import RecordedTrace
from dballoc.trace.changes.moments import find_window
from dballoc.trace.model import Trace


@takes_flags(
    [
        ("trace", "allocators", "preload", "sweep", "baseline", "glibc", "thp"),
        ("mode", "speed", "touch", "window", "idle", "limits.memory", "max_time"),
        ("blocks", "budget", "seed", "out", "prefer", "report", "dry_run"),
    ],
    memory=Flag(
        "--memory",
        "SIZE",
        "Memory limit of each replay (a cgroup), like 2G; default: what this machine has to spare.",
    ),
)
def replay(
    pace: ReplayFlags,
    source: flags.ExperimentSource,
    changes: Annotated[Changes, Experiment],
    out: flags.Out = None,
    prefer: flags.Prefer = None,
    report: flags.Report = True,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check everything, print replays, minutes and mallocs, stop."
        ),
    ] = False,
) -> None:
    """Replay a recorded trace of allocations on every malloc, and compare heap and CPU.

    No server is needed. The same command resumes what was interrupted.
    """
    trace, mode = pace.trace, pace.mode
    sha256 = hash_trace(trace)
    recording = read_any_trace(trace)
    _check_pace(mode, recording, trace)
    recorded = describe_trace(recording)
    model = build_replay_experiment(
        pace,
        source,
        changes,
        sha256,
        recorded.threads,
        find_window(recording, pace.window) if pace.window else None,
    )
    preferred = conditions_and_preference.parse_preference(prefer)
    setting = prepare_replay(model, trace.absolute(), recorded)
    conditions_and_preference.check_preference(
        preferred,
        [v.name for v in model.variant],
        model.workloads,
        bool(model.time.idle),
        setting.list_unjudged_idle(),
    )
    if dry_run:
        _print_plan(setting)
        return
    directory = choose_results_directory(out, model, "replay")
    perform_campaign.perform(
        setting,
        directory,
        Console(),
        preference=preferred,
        report=report,
        kind=REPLAYS,
    )


def _check_pace(mode: str, source: Trace, path: Path) -> None:
    if mode != "fast" and not source.compiled.timed:
        raise UsageError(
            f"--mode {mode}: {path} was imported without times, so that it has no pace; leave "
            "--mode out"
        )


def _print_plan(setting: PreparedReplay) -> None:
    plan, pace = estimate_replays(setting), setting.experiment.replay
    assert pace
    for label, text in _describe_trace(setting.trace).items():
        say(f"{label + ':':8} {text}")
    speed = f"timed, {pace.speed:g} times as fast" if pace.mode == "timed" else pace.mode
    say(f"replay:  {speed}; pages touched: {pace.touch}")
    [each] = plan.ways.values()
    say(f"replays: {plan.trials} ({each.blocks} blocks of {each.trials})")
    say(f"time:    about {minutes(plan.seconds)}")
    for name, prepared in setting.variants.items():
        libraries = prepared.env.get("LD_PRELOAD", "no preload")
        values = {**prepared.variant.tunables, **prepared.variant.env}
        settings = "".join(f", {key}={value}" for key, value in values.items())
        say(f"variant: {name}: {prepared.malloc_title} ({libraries}){settings}")


def _describe_trace(trace: RecordedTrace) -> dict[str, Any]:
    """Return what a plan says of a trace, by label."""
    kept = [
        f"{trace.events:,} events in {trace.threads:,} threads",
        f"{minutes(trace.seconds)} recorded",
        f"{with_unit(trace.peak_live)} live at most",
    ]
    return {
        "trace": f"{trace.program} under {trace.malloc}: {', '.join(kept)}",
        **({"beware": "; ".join(trace.flaws)} if trace.flaws else {}),
    }
