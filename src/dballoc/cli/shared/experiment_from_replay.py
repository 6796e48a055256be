"""Make the experiment of ``dballoc replay`` from its flags. Pure, but for this machine's CPU
count.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dballoc.cli.shared import experiment_from_flags
from dballoc.errors import UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.model import REPLAY, Experiment
from dballoc.host.resources import cpus

# Of a trace's file name, what a name of an experiment may have.
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+=@-")
_LONGEST = 64
_WHERE = "command line"


def build_replay_experiment(
    arguments: Mapping[str, Any],
    sha256: str,
    threads: int,
    window: tuple[float, float] | None = None,
) -> Experiment:
    """Return the experiment that the verb's ``arguments`` describe, of a trace with that hash and
    so many threads, judged within a ``window`` of it in seconds. UsageError, in one line, for what
    cannot be.
    """
    trace: Path = arguments["trace"]
    speed, mode = arguments["speed"], arguments["mode"]
    if speed is not None and mode != "timed":
        raise UsageError("--speed: only with --mode timed; fast replays have no pace")
    names = experiment_from_flags.words(arguments["allocators"]) or []
    variants: list[dict[str, Any]] = [
        {"name": name, "allocator": name} for name in names or _default_names(arguments["preload"])
    ]
    variants += [_make_own_variant(path) for path in arguments["preload"] or []]
    variants = _spread_modes(variants, experiment_from_flags.words(arguments["thp"]) or [])
    baseline = arguments["baseline"] or _choose_baseline(variants)
    settings = {k: arguments[k] for k in ("blocks", "budget", "seed") if arguments[k] is not None}
    table: dict[str, Any] = {
        "name": name_after(trace),
        "baseline": baseline,
        "workloads": [REPLAY],
        "threads": [max(1, threads)],
        "design": "solo",
        "counters": [],
        "time": {"idle": arguments["idle"]},
        "replay": {
            "trace": str(trace),
            "sha256": sha256,
            "mode": mode,
            "speed": 1.0 if speed is None else speed,
            "touch": arguments["touch"],
            **({} if window is None else {"window": window}),
            **({} if arguments["max_time"] is None else {"max_time": arguments["max_time"]}),
        },
        "variant": variants,
        **settings,
    }
    if arguments["glibc"] is not None:
        table["server"] = {"glibc": arguments["glibc"]}
    if arguments["memory"] is not None:
        table["limits"] = {"memory": arguments["memory"]}
    if sweeps := experiment_from_flags.sweeps(arguments["sweep"]):
        _refuse_server_settings(sweeps)
        table = experiment_from_flags.overlay(table, {"sweep": sweeps})
    cores = len(cpus.list_available_cpus())
    return experiment_file.build_experiment(table, _WHERE, cores)


def name_after(trace: Path) -> str:
    """Return a trace's file name as a name of an experiment."""
    stem = trace.name.removesuffix(".trace")
    name = "".join(letter if letter in _SAFE else "-" for letter in stem)[:_LONGEST]
    return name if name and name[0].isalnum() else f"trace-{name}"[:_LONGEST]


def _default_names(preloads: list[Path] | None) -> list[str]:
    """Return the allocators of a replay that names none: glibc, beside a malloc of the user's."""
    if preloads:
        return ["glibc"]
    raise UsageError("replay: on which mallocs? Give --allocators glibc,jemalloc,… or --preload")


def _make_own_variant(path: Path) -> dict[str, Any]:
    stem = path.name.partition(".so")[0].removeprefix("lib") or path.name
    return {"name": stem, "preload": [str(path.expanduser().absolute())]}


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
