"""``dballoc replay``: a recorded trace of allocations on every malloc."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dballoc.analysis.decisions import preference
from dballoc.analysis.replay.replay_facts import RecordedTrace
from dballoc.campaign.replay.describe_trace import describe_trace
from dballoc.campaign.replay.hash_trace import hash_trace
from dballoc.campaign.replay.prepare_replay import PreparedReplay, prepare_replay
from dballoc.campaign.replay.read_trace_file import read_any_trace
from dballoc.campaign.results_directory import choose_results_directory
from dballoc.campaign.ways.replay import REPLAYS, estimate_replays
from dballoc.cli.shared import experiment_from_replay, flags, perform_campaign
from dballoc.cli.shared.campaign_display import minutes
from dballoc.cli.shared.safe_output import Console, say
from dballoc.errors import UsageError
from dballoc.experiment.model import TouchMode
from dballoc.numbers import with_unit
from dballoc.trace.changes.moments import find_window
from dballoc.trace.model import Trace

TraceFile = Annotated[
    Path,
    typer.Argument(metavar="TRACE", help="A trace, or a recording of dballoc exec --probe trace."),
]
Preloads = Annotated[
    list[Path] | None,
    typer.Option(
        "--preload",
        metavar="FILE",
        help="A malloc of your own to compare too, like ./libmine.so; may be given again.",
    ),
]
Mode = Annotated[
    Literal["fast", "timed"],
    typer.Option(
        help="fast: each event as soon as the recorded order allows. timed: at the recorded pace, "
        "times --speed; it alone shows what a malloc gives back with time."
    ),
]
Speed = Annotated[
    float | None,
    typer.Option(metavar="TIMES", help="With --mode timed: so many times as fast as recorded."),
]
Touch = Annotated[
    TouchMode,
    typer.Option(
        help="Which pages of each block are written: those that the recorded program touched, all, "
        "the first, or none."
    ),
]
Window = Annotated[
    str | None,
    typer.Option(
        metavar="FROM..TO",
        help="Judge the peak heap within a stretch of the trace alone, like 10s..60s, or of its "
        "marks; all of it is replayed.",
    ),
]
Idle = Annotated[
    str, typer.Option(metavar="TIME", help="Rest after the last event, before the idle heap.")
]
Glibc = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION", help="Replay every malloc on this C library, as dballoc fetch has it."
    ),
]
Thp = Annotated[
    str | None,
    typer.Option(
        metavar="MODE,…",
        help="Every malloc under each of these modes of transparent huge pages: always, madvise, "
        "never; default: the host's.",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The malloc that the others are relative to; default: glibc, if there."
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory limit of each replay (a cgroup), like 2G; default: what this machine has to "
        "spare.",
    ),
]
MaxTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="End a replay that takes longer, as a fault, like 30m; default: fifty times what is "
        "expected, a day at most.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Check everything, print replays, minutes and mallocs, stop."),
]


def replay(
    trace: TraceFile,
    allocators: flags.Allocators = None,
    preload: Preloads = None,
    sweep: flags.Sweeps = None,
    baseline: Baseline = None,
    glibc: Glibc = None,
    thp: Thp = None,
    mode: Mode = "fast",
    speed: Speed = None,
    touch: Touch = "recorded",
    window: Window = None,
    idle: Idle = "1s",
    memory: Memory = None,
    max_time: MaxTime = None,
    blocks: flags.Blocks = None,
    budget: flags.Budget = None,
    seed: flags.Seed = None,
    out: flags.Out = None,
    prefer: flags.Prefer = None,
    report: flags.Report = True,
    dry_run: DryRun = False,
) -> None:
    """Replay a recorded trace of allocations on every malloc, and compare heap and CPU.

    No server is needed. The same command resumes what was interrupted.
    """
    sha256 = hash_trace(trace)
    source = read_any_trace(trace)
    _check_pace(mode, source, trace)
    recorded = describe_trace(source)
    model = experiment_from_replay.build_replay_experiment(
        locals(), sha256, recorded.threads, find_window(source, window) if window else None
    )
    preferred = preference.parse_preference(prefer)
    setting = prepare_replay(model, trace.absolute(), recorded)
    preference.check_preference(
        preferred,
        [v.name for v in model.variant],
        model.workloads,
        bool(model.time.idle),
        setting.list_unjudged_idle(),
    )
    if dry_run:
        _print_plan(setting)
        return
    directory = out or choose_results_directory(Path("dballoc-results"), model, "replay")
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
        malloc = prepared.malloc
        title = " ".join(filter(None, [malloc.allocator.name, malloc.allocator.version]))
        values = {**prepared.variant.tunables, **prepared.variant.env}
        settings = "".join(f", {key}={value}" for key, value in values.items())
        say(f"variant: {name}: {title} ({malloc.env.get('LD_PRELOAD', 'no preload')}){settings}")


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
