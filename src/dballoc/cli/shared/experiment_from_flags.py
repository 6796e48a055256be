"""Make the experiment from a verb's file and flags. Reads what these name, and this machine's CPU
count.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dballoc.campaign import results_directory
from dballoc.campaign.replay.hash_trace import hash_trace
from dballoc.catalogue import cycles, experiments, look_up, workloads
from dballoc.cli.shared import own_malloc
from dballoc.cli.shared.field_flags import Changes, parse_words
from dballoc.cli.shared.flags import ExperimentSource
from dballoc.cli.shared.safe_output import say
from dballoc.experiment import experiment_file
from dballoc.experiment import scale as scaling
from dballoc.experiment.durations_and_sizes import LONGEST_DURATION
from dballoc.experiment.experiment_paths import anchor_paths
from dballoc.experiment.model import APART, Experiment
from dballoc.fetch import private_store, stand_ins
from dballoc.ground.errors import UsageError
from dballoc.host.resources import cpus
from dballoc.load.post_like import fill_post
from dballoc.load.workload_cycles import expand
from dballoc.servers.private.reserved_options import check_secrets

Table = dict[str, Any]

# A variant's name, the setting's, its values.
Sweep = tuple[str | None, str, list[str]]

# Flags that add or replace variants; like the CPUs, they come before --scale.
_VARIANTS = ("allocators", "preload")

# The word of --profile for no profile.
NO_PROFILE = "none"

_SWEEP = re.compile(r"(?:(?P<variant>[^:]+):)?(?P<name>[A-Za-z_][\w.-]*)=(?P<values>.+)")


def experiment(
    origin: Path | None,
    named: str | None,
    flags: dict[str, Any],
    layers: Sequence[Callable[[Table], Table]] = (),
) -> Experiment:
    """Return the experiment of the file (or the shipped one, or the demo) with ``flags`` overriding
    it; a flag that is None was not given. ``layers`` override the file and are overridden by the
    flags, except that the variants and CPUs which flags ask for come before the layers. Raises
    UsageError that begins with the file's name or "command line".
    """
    if origin is not None and named is not None:
        raise UsageError("give an experiment file or --experiment NAME, not both")
    if origin is not None:
        table, where = experiment_file.read_table(origin), str(origin)
    else:
        name = named or "demo"
        where = f"experiment {name}"
        table = experiment_file.parse_table(look_up(experiments(), name, "experiment"), where)
    changes = {k: v for k, v in flags.items() if v is not None}
    table = _lay_longer(fill_post(table, where), changes, where)
    if changes and origin is None and named is None:
        where = "command line"
    below = {k: changes.pop(k) for k in [*changes] if k in _VARIANTS or k.startswith("cpu.")}
    workload_names = {**workloads(), **cycles()}
    table = overlay(
        anchor_paths(table, origin.parent if origin else Path.cwd(), workload_names), below
    )
    for layer in layers:
        table = layer(table)
    model = experiment_file.build_experiment(
        expand(anchor_paths(overlay(table, changes), Path.cwd(), workload_names)),
        where,
        len(cpus.list_available_cpus()),
    )
    for server in (model.server, *(model.server_of(variant) for variant in model.variant)):
        check_secrets({**server.options, **server.init_options}, where)
    return model


def _lay_longer(table: Table, changes: Table, origin: str) -> Table:
    """Return the table with what the budget of the flags, else the file's, makes of it. A number of
    blocks without a budget is no long campaign. What a longer budget would make of it is checked
    whatever the budget is.
    """
    if experiment_file.LONGER in table:
        forever = experiment_file.lay_longer(table, LONGEST_DURATION, origin)
        experiment_file.build_experiment(forever, origin, len(cpus.list_available_cpus()))
    if "blocks" in changes and "budget" not in changes:
        return experiment_file.lay_longer(table, None, origin)
    return experiment_file.lay_longer(table, changes.get("budget", table.get("budget")), origin)


def read_experiment(
    source: ExperimentSource,
    flags: Changes,
    default: str | None = None,
    out: Path | None = None,
) -> Experiment:
    """Return the experiment of a verb's ``source`` with its ``flags``. ``default``: the shipped
    experiment where none is named, instead of the demo; ``out``: the results directory, which may
    have been begun. Says which stand-ins give way to what was fetched. Raises UsageError as
    :func:`experiment`.
    """
    file = source.experiment
    named = source.named or (None if file else default)
    variants = {
        "allocators": None if source.allocators is None else parse_words(source.allocators),
        "preload": source.preload,
        "sweep": parse_sweeps(source.sweep),
    }
    layers: list[Callable[[Table], Table]] = []
    if (scale := source.scale) is not None:
        origin = str(file or f"experiment {named or 'demo'}")
        available = cpus.list_available_cpus()
        layers.append(partial(scaling.scale_table, text=scale, cpus=available, origin=origin))
    if source.like is not None or source.defaults_file is not None:
        # Here, because it reads running servers.
        from dballoc.cli.shared import server_options_sources

        layers += server_options_sources.layers(source, flags)
    written = experiment(file, named, variants | flags, layers)
    is_begun = out is not None and (out / results_directory.EXPERIMENT).is_file()
    begun = results_directory.load_experiment(out) if out and is_begun else None
    used = stand_ins.use_originals(written, private_store.list_references(), begun)
    for sentence in stand_ins.describe_originals(written, used):
        say(sentence, error=True)
    return used


def name_trace(path: Path) -> Table:
    """Return a trace as an experiment names it: its file, and the hash of what it holds. Raises
    UsageError if it cannot be read.
    """
    return {"trace": str(path.absolute()), "sha256": hash_trace(path)}


def make_record_changes(record: bool, limit: str | None) -> Table:
    """Return the experiment's key that ``--record`` and ``--limit`` change. Raises UsageError for a
    limit without a recording.
    """
    if limit is not None and not record:
        raise UsageError("--limit: only goes with --record")
    return {"record": {} if limit is None else {"limit": limit}} if record else {}


def overlay(table: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Return ``table`` with the flags in it. Dotted names are keys of sections; ``allocators``
    replaces the variants, ``preload`` adds variants of the user's libraries.
    """
    result = {k: dict(v) if isinstance(v, dict) else v for k, v in table.items()}
    flags = dict(flags)
    if (names := flags.pop("allocators", None)) is not None:
        if not names:
            raise UsageError("--allocators: name at least one, like glibc,jemalloc")
        result["variant"] = make_variants(names)
        result["baseline"] = "glibc" if "glibc" in names else result["variant"][0]["name"]
    for path in dict.fromkeys(flags.pop("preload", ())):
        variants: list[Any] = list(result.get("variant", []))
        baseline = str(result.get("baseline"))
        result["variant"] = variants + own_malloc.make_variants(path, variants, baseline)
    for target, name, values in flags.pop("sweep", ()):
        result["variant"] = _with_sweep(result, target or result.get("baseline"), name, values)
    if "budget" in flags and "blocks" not in flags:
        result.pop("blocks", None)  # the time asked for decides, not the file's number
    if "blocks" in flags and "budget" not in flags:
        result.pop("budget", None)
    if "workloads" in flags:
        # The file's warm-ups are for its workloads.
        result.pop("warm", None)
        result.pop("before", None)
    _drop_profile_place(result, flags)
    if flags.get("profile") == NO_PROFILE:
        flags.pop("profile")
        result.pop("profile", None)
        result.pop("profile_at", None)
    if any(map(_another_script, flags.get("workloads", []))):
        # Options for the file's scripts do not apply to other scripts.
        result.get("load", {}).pop("options", None)
    if "data" in result:
        for flag, replaced in (("data.directory", "sql"), ("data.sql", "directory")):
            if flag in flags:
                result["data"].pop(replaced, None)
    _choose_form_of_cpus(result, flags)
    for name, value in flags.items():
        *sections, key = name.split(".")
        place = result
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = {**place.get(key, {}), **value} if isinstance(value, dict) else value
    return result


def _choose_form_of_cpus(table: Table, flags: Table) -> None:
    """Drop how the file gives CPUs, as sets or as numbers, where the flags give them otherwise; and
    write the flag's numbers into the table, each of which every variant has.
    """
    cpu = table.get("cpu")
    kept = cpu if isinstance(cpu, dict) else {}
    if (counts := flags.pop("cpu.count", None)) is not None:
        table["cpus"] = counts if isinstance(counts, list) else [counts]
        table["cpu"] = {k: v for k, v in kept.items() if (k, v) == ("client", APART)}
    elif "cpu.server" in flags or flags.get("cpu.client", APART) != APART:
        table.pop("cpus", None)
        kept.pop("count", None)


def make_variants(words: Sequence[str | Path]) -> list[Table]:
    """Return a variant for each allocator's name and each path of a library."""
    variants: list[Table] = []
    for word in words:
        if isinstance(word, Path) or own_malloc.is_path(word):
            variants += own_malloc.make_variants(Path(word), variants)
        else:
            variants.append({"name": word, "allocator": word})
    return variants


def _drop_profile_place(table: Table, flags: Table) -> None:
    """Drop the file's workload or level of a profile where the flags' workloads or levels do not
    have it: the default applies then.
    """
    if not isinstance(place := table.get("profile_at"), dict):
        return
    for key, flag in (("workload", "workloads"), ("threads", "threads")):
        if key in place and flag in flags and place[key] not in flags[flag]:
            del place[key]
    if not place:
        del table["profile_at"]


def _with_sweep(table: Table, target: Any, name: str, values: list[str]) -> list[Any]:
    variants = table.get("variant", [])
    names = [v.get("name") for v in variants if isinstance(v, dict)]
    if target not in names:
        raise UsageError(
            f"--sweep {name}: there is no variant {target!r}; "
            f"there are {', '.join(map(str, names))}"
        )
    return [
        {**v, "sweep": {**v.get("sweep", {}), name: values}} if v.get("name") == target else v
        for v in variants
    ]


def parse_sweeps(texts: list[str] | None) -> list[Sweep] | None:
    """Parse ``["jemalloc:narenas=1,cores"]``. Raises UsageError for another form."""
    sweeps: list[Sweep] = []
    for text in texts or []:
        match = _SWEEP.fullmatch(text)
        if not match or not (values := parse_words(match["values"])):
            raise UsageError(
                f"--sweep: {text!r} is not of the form [VARIANT:]NAME=VALUE,VALUE,…, like "
                "MALLOC_ARENA_MAX=1,cores"
            )
        sweeps.append((match["variant"], match["name"], values))
    return sweeps or None


def _another_script(workload: str) -> bool:
    """Whether a workload's script is not one of sysbench's own, for which shipped experiments give
    options.
    """
    script = workloads().get(workload, {"script": "oltp_"})["script"]
    return (
        "/" in workload
        or workload.endswith(".lua")
        or workload in cycles()
        or not script.startswith("oltp_")
    )
