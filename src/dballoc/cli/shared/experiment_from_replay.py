"""Make the experiment of ``dballoc replay`` from its flags. Pure, but for this machine's CPU
count.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dballoc.cli.shared import experiment_from_flags, own_malloc
from dballoc.cli.shared.field_flags import Changes, parse_words
from dballoc.cli.shared.flags import ExperimentSource
from dballoc.experiment import experiment_file
from dballoc.experiment.designs import Design
from dballoc.experiment.model import REPLAY, Experiment, TouchMode
from dballoc.ground.errors import UsageError
from dballoc.host.resources import cpus

_WHERE = "command line"


@dataclass(frozen=True, kw_only=True)
class ReplayFlags:
    """The trace, the mallocs it is replayed on, and how."""

    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE", help="A trace, or a recording of dballoc exec --probe trace."
        ),
    ]
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The malloc that the others are relative to; default: glibc, if there.",
        ),
    ] = None
    glibc: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Replay every malloc on this C library, as dballoc fetch has it.",
        ),
    ] = None
    thp: Annotated[
        str | None,
        typer.Option(
            metavar="MODE,…",
            help="Every malloc under each of these modes of transparent huge pages: always, "
            "madvise, never; default: the host's.",
        ),
    ] = None
    mode: Annotated[
        Literal["fast", "timed"],
        typer.Option(
            help="fast: each event as soon as the recorded order allows. timed: at the recorded "
            "pace, times --speed; it alone shows what a malloc gives back with time."
        ),
    ] = "fast"
    speed: Annotated[
        float | None,
        typer.Option(metavar="TIMES", help="With --mode timed: so many times as fast as recorded."),
    ] = None
    touch: Annotated[
        TouchMode,
        typer.Option(
            help="Which pages of each block are written: those that the recorded program touched, "
            "all, the first, or none."
        ),
    ] = "recorded"
    window: Annotated[
        str | None,
        typer.Option(
            metavar="FROM..TO",
            help="Judge the peak heap within a stretch of the trace alone, like 10s..60s, or of "
            "its marks; all of it is replayed.",
        ),
    ] = None
    idle: Annotated[
        str,
        typer.Option(metavar="TIME", help="Rest after the last event, before the idle heap."),
    ] = "1s"
    max_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End a replay that takes longer, as a fault, like 30m; default: fifty times what "
            "is expected, a day at most.",
        ),
    ] = None


def build_replay_experiment(
    flags: ReplayFlags,
    source: ExperimentSource,
    changes: Changes,
    sha256: str,
    threads: int,
    window: tuple[float, float] | None = None,
) -> Experiment:
    """Return the experiment that the verb's flags describe, of a trace with that hash and so many
    threads, judged within a ``window`` of it in seconds. Raises UsageError, in one line, for what
    cannot be.
    """
    if flags.speed is not None and flags.mode != "timed":
        raise UsageError("--speed: only with --mode timed; fast replays have no pace")
    names = parse_words(source.allocators or "") or _default_names(source.preload)
    variants = experiment_from_flags.make_variants([*names, *(source.preload or [])])
    variants = _spread_modes(variants, parse_words(flags.thp or ""))
    sweeps = experiment_from_flags.parse_sweeps(source.sweep) or []
    _refuse_server_settings(sweeps)
    table: dict[str, Any] = {
        "name": name_after(flags.trace),
        "baseline": flags.baseline or _choose_baseline(variants),
        "workloads": [REPLAY],
        "threads": [max(1, threads)],
        "design": Design.SOLO.value,
        "counters": [],
        "time": {"idle": flags.idle},
        "replay": {
            "trace": str(flags.trace),
            "sha256": sha256,
            "mode": flags.mode,
            "speed": 1.0 if flags.speed is None else flags.speed,
            "touch": flags.touch,
            **({} if window is None else {"window": window}),
            **({} if flags.max_time is None else {"max_time": flags.max_time}),
        },
        "variant": variants,
        **({} if flags.glibc is None else {"server": {"glibc": flags.glibc}}),
    }
    table = experiment_from_flags.overlay(table, {"sweep": sweeps, **changes})
    cores = len(cpus.list_available_cpus())
    return experiment_file.build_experiment(table, _WHERE, cores)


def name_after(trace: Path) -> str:
    """Return a trace's file name as a name of an experiment."""
    stem = trace.name.removesuffix(".trace")
    return own_malloc.fit_name(stem, "trace")


def _default_names(preloads: list[Path] | None) -> list[str]:
    """Return the allocators of a replay that names none: glibc, beside a malloc of the user's."""
    if preloads:
        return ["glibc"]
    raise UsageError("replay: on which mallocs? Give --allocators glibc,jemalloc,… or --preload")


def _spread_modes(variants: list[dict[str, Any]], modes: list[str]) -> list[dict[str, Any]]:
    """Return every variant under each of the modes of THP; with one mode under their own names."""
    if len(modes) == 1:
        return [variant | {"thp": modes[0]} for variant in variants]
    if len(set(modes)) < len(modes):
        raise UsageError("--thp: the same mode twice")
    return [
        variant | {"name": f"{variant['name']}-thp={mode}", "thp": mode}
        for mode in modes
        for variant in variants
    ] or variants


def _choose_baseline(variants: list[dict[str, Any]]) -> str:
    """Return the name of the first that is glibc without a version, else of the first."""
    plain = [v["name"] for v in variants if v.get("allocator") == "glibc"]
    return str([*plain, variants[0]["name"]][0])


def _refuse_server_settings(sweeps: list[experiment_from_flags.Sweep]) -> None:
    for _, name, _ in sweeps:
        if name.startswith("server."):
            raise UsageError(f"--sweep: {name}: a replay has no server; sweep a malloc's setting")
