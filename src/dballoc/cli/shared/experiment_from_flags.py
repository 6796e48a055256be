"""Make the experiment from a verb's file and flags. Reads what these name, and this machine's CPU
count.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dballoc.campaign.replay.hash_trace import hash_trace
from dballoc.catalogue import cycles, experiments, look_up, workloads
from dballoc.errors import UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment import scale as scaling
from dballoc.experiment.experiment_paths import anchor_paths
from dballoc.experiment.model import Experiment
from dballoc.host.resources import cpus
from dballoc.load.post_like import fill_post
from dballoc.load.workload_cycles import expand
from dballoc.servers.private.command_line import check_secrets

Table = dict[str, Any]

# A variant's name, the setting's, its values.
Sweep = tuple[str | None, str, list[str]]

# The word of --profile for no profile.
NO_PROFILE = "none"

_SWEEP = re.compile(r"(?:(?P<variant>[^:]+):)?(?P<name>[A-Za-z_][\w.-]*)=(?P<values>.+)")


def changes_of(arguments: Mapping[str, Any]) -> Table:
    """Return the experiment's keys that a verb's ``arguments`` change; None where a flag was not
    given.
    """
    return {
        key: convert(arguments[name]) for name, (key, convert) in _KEYS.items() if name in arguments
    }


def experiment(
    origin: Path | None,
    named: str | None,
    flags: dict[str, Any],
    layers: Sequence[Callable[[Table], Table]] = (),
) -> Experiment:
    """Return the experiment of the file (or the shipped one, or the demo) with ``flags`` overriding
    it; a flag that is None was not given. ``layers`` override the file and are overridden by the
    flags, except that variants which a flag asks for are added before the layers. UsageError in one
    line that begins with the file's name or "command line".
    """
    if origin is not None and named is not None:
        raise UsageError("give an experiment file or --experiment NAME, not both")
    if origin is not None:
        table, where = experiment_file.read_table(origin), str(origin)
    else:
        name = named or "demo"
        where = f"experiment {name}"
        table = experiment_file.parse_table(look_up(experiments(), name, "experiment"), where)
    table = fill_post(table, where)
    changes = {k: v for k, v in flags.items() if v is not None}
    if changes and origin is None and named is None:
        where = "command line"
    below = {k: changes.pop(k) for k in ("allocators",) if k in changes}
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


def read_experiment(
    arguments: Mapping[str, Any], more: Table | None = None, default: str | None = None
) -> Experiment:
    """Return the experiment that a verb's ``arguments`` describe, with ``--scale``, ``--like`` and
    ``--defaults-file`` where the verb has them. ``more``: changes beside those of
    :func:`changes_of`; ``default``: the shipped experiment where none is named, instead of the
    demo. UsageError as of :func:`experiment`.
    """
    file: Path | None = arguments["experiment"]
    named = arguments["named"] or (None if file else default)
    changes = changes_of(arguments) | (more or {})
    layers: list[Callable[[Table], Table]] = []
    if (scale := arguments["scale"]) is not None:
        origin = str(file or f"experiment {named or 'demo'}")
        available = cpus.list_available_cpus()
        layers.append(partial(scaling.scale_table, text=scale, cpus=available, origin=origin))
    like, defaults_file = arguments.get("like"), arguments.get("defaults_file")
    if like is not None or defaults_file is not None:
        # Here, because it reads running servers.
        from dballoc.cli.shared import server_options_sources

        layers += server_options_sources.layers(
            like, arguments["login_path"], defaults_file, changes
        )
    return experiment(file, named, changes, layers)


def make_record_changes(record: bool, limit: str | None) -> Table:
    """Return the experiment's key that ``--record`` and ``--limit`` change. UsageError for a limit
    of nothing.
    """
    if limit is not None and not record:
        raise UsageError("--limit: of what? It goes with --record")
    return {"record": {} if limit is None else {"limit": limit}} if record else {}


def overlay(table: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Return ``table`` with the flags in it. Dotted names are keys of sections; ``allocators``
    replaces the variants.
    """
    result = {k: dict(v) if isinstance(v, dict) else v for k, v in table.items()}
    flags = dict(flags)
    if (names := flags.pop("allocators", None)) is not None:
        result["variant"] = [{"name": n, "allocator": n} for n in names]
        result["baseline"] = "glibc" if "glibc" in names else names[0]
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
    # CPUs are given as sets or as a number; the flag's form replaces the file's.
    if "cpu" in result and not {"cpu.server", "cpu.client"}.isdisjoint(flags):
        result["cpu"].pop("count", None)
    if "cpu" in result and "cpu.count" in flags:
        result["cpu"] = {}
    for name, value in flags.items():
        *sections, key = name.split(".")
        place = result
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = {**place.get(key, {}), **value} if isinstance(value, dict) else value
    return result


def _drop_profile_place(table: Table, flags: Table) -> None:
    """Drop the file's workload or level of a profile where the flags' workloads or levels do not
    have it: then it is what it would be by default.
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


def sweeps(texts: list[str] | None) -> list[Sweep] | None:
    """Parse ``["jemalloc:narenas=1,cores"]``. UsageError for another form."""
    sweeps: list[Sweep] = []
    for text in texts or []:
        match = _SWEEP.fullmatch(text)
        if not match or not (values := words(match["values"])):
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


def words(text: str | None) -> list[str] | None:
    """Split ``a,b`` into a list; None stays None."""
    return None if text is None else [w.strip() for w in text.split(",") if w.strip()]


def numbers(text: str | None, flag: str) -> list[int] | None:
    """Parse ``1,16,64`` into numbers. UsageError with the flag's name for anything else."""
    if text is None:
        return None
    try:
        return [int(w) for w in words(text) or []]
    except ValueError:
        raise UsageError(
            f"{flag}: {text!r} is not a list of numbers; write it like 1,16,64"
        ) from None


def profile_place(text: str | None) -> Table | None:
    """Parse ``WORKLOAD:CLIENTS``, of which either may be missing. UsageError for another form."""
    if text is None:
        return None
    workload, colon, clients = text.rpartition(":") if ":" in text else (text, "", "")
    if (colon and not re.fullmatch("[0-9]{1,9}", clients)) or not text:
        raise UsageError(
            f"--profile-at: {text!r} is not of the form [WORKLOAD][:CLIENTS], like "
            "oltp_read_only:512, oltp_read_only or :512"
        )
    return {
        **({"workload": workload} if workload else {}),
        **({"threads": int(clients)} if clients else {}),
    }


def pairs(texts: list[str] | None, flag: str) -> dict[str, str] | None:
    """Parse ``["a=1"]`` into a mapping. UsageError for an item without ``=``."""
    if not texts:
        return None
    for text in texts:
        if "=" not in text:
            raise UsageError(
                f"{flag}: {text!r} has no '='; write it like {flag} innodb_buffer_pool_size=1G"
            )
    return {k.strip(): v.strip() for k, _, v in (t.partition("=") for t in texts)}


def _as_it_is(value: Any) -> Any:
    return value


def _path(value: Path | None) -> str | None:
    return str(value) if value else None


def _trace_file(value: Path | None) -> Table | None:
    return {"trace": str(value.absolute()), "sha256": hash_trace(value)} if value else None


def _no_counters(value: bool | None) -> list[str] | None:
    return [] if value else None


def _paths(values: Sequence[Path] | None) -> list[str] | None:
    return [str(path) for path in values] if values else None


# For each flag, by its name in the verbs: the experiment's key, and the function that converts its
# value.
_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "allocators": ("allocators", words),
    "sweep": ("sweep", sweeps),
    "server": ("server.use", _as_it_is),
    "basedir": ("server.basedir", _path),
    "engine": ("server.engine", _as_it_is),
    "option": ("server.options", partial(pairs, flag="--option")),
    "connect": ("server.connect", _as_it_is),
    "workloads": ("workloads", words),
    "threads": ("threads", partial(numbers, flag="--threads")),
    "levels": ("levels", _as_it_is),
    "sequence": ("sequence", _as_it_is),
    "design": ("design", _as_it_is),
    "load_option": ("load.options", partial(pairs, flag="--load-option")),
    "prepared": ("load.prepared_statements", _as_it_is),
    "tables": ("data.tables", _as_it_is),
    "rows": ("data.rows", _as_it_is),
    "data_directory": ("data.directory", _path),
    "data_sql": ("data.sql", _paths),
    "database": ("data.database", _as_it_is),
    "warmup": ("time.warmup", _as_it_is),
    "level": ("time.level", _as_it_is),
    "time": ("time.level", _as_it_is),  # fit's word for it
    "idle": ("time.idle", _as_it_is),
    "cpus": ("cpu.count", _as_it_is),
    "server_cpus": ("cpu.server", _as_it_is),
    "client_cpus": ("cpu.client", _as_it_is),
    "memory": ("limits.memory", _as_it_is),
    "profile": ("profile", _as_it_is),
    "profile_at": ("profile_at", profile_place),
    "no_counters": ("counters", _no_counters),
    "start": ("fit.start", _as_it_is),
    "from_": ("fit.guess", _trace_file),
    "tolerance": ("fit.tolerance", _as_it_is),
    "repeats": ("fit.repeats", _as_it_is),
    "aim": ("tune.aim", _as_it_is),
    "trace": ("tune.trace", _trace_file),
    "replay": ("tune.replay", _as_it_is),
    "leave": ("tune.leave", words),
    "presets": ("tune.presets", _as_it_is),
    "thp": ("tune.thp", _as_it_is),
    "blocks": ("blocks", _as_it_is),
    "repeat_noisy": ("noise.repeats", _as_it_is),
    "budget": ("budget", _as_it_is),
    "seed": ("seed", _as_it_is),
}
