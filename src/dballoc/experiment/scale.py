"""Make an experiment smaller: rows, memory, times, levels and CPUs shrink together. Pure.

One number decides: the share of the rows. Memory, logs and the sizes of RocksDB's files shrink with
it, so that data ÷ cache stays the same; so do the times, down to the shortest that can be measured.
The levels shrink by its fourth root: that takes a comparison made on some fifty CPUs to what two
CPUs can serve, and leaves enough clients to show what they do to a malloc. CPUs shrink to the
available ones.
"""

import copy
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dballoc.experiment import experiment_file, sweep
from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.experiment.durations_and_sizes import format_duration, format_size, parse_size
from dballoc.experiment.model import APART, Cpu, Experiment, FullScale, Time, Variant
from dballoc.ground.errors import UsageError

Table = dict[str, Any]

# Keys of a variant that change nothing of what runs.
_NAMES_OF_VARIANT = ("name", "stands_for", "not_settable")

# By engine: the option with the size of its cache.
ENGINE_CACHES = {"innodb": "innodb_buffer_pool_size", "rocksdb": "rocksdb_block_cache_size"}
# The server options that scale with the data: caches, and logs with the bytes below which each is
# not made smaller.
CACHES = frozenset({*ENGINE_CACHES.values(), "aria_pagecache_buffer_size", "key_buffer_size"})
LOGS = {
    "innodb_log_file_size": 16 * 2**20,
    "innodb_redo_log_capacity": 16 * 2**20,
    "innodb_log_buffer_size": 2 * 2**20,
    "max_binlog_size": 2**20,
    "max_binlog_cache_size": 2**20,
    "max_binlog_stmt_cache_size": 2**20,
}

# What scales with RocksDB's cache, with the defaults of RocksDB and MyRocks (options.h,
# rdb_sysvars): files and memtables, because every read of a row unpacks a file's index anew if it
# is larger than a shard of the cache; and the buffers in which index builds sort.
FILES = "rocksdb_default_cf_options"
SIZES_OF_FILES = {
    "write_buffer_size": "64M",
    "target_file_size_base": "64M",
    "max_bytes_for_level_base": "256M",
}
SORTS = {"rocksdb_merge_buf_size": "64M", "rocksdb_merge_combine_read_size": "1G"}

# The option of a load whose tables are not sysbench's that says how many rows they have (tpcc).
WAREHOUSES = "warehouses"

LEVEL_POWER = 0.25
FEWEST_ROWS = 1000
LEAST_CACHE = 16 * 2**20
# What a server has beside caches and data, which does not shrink with the rows.
OWN_MEMORY = 512 * 2**20
LEAST_TOLERANCE = 2**20
LEAST_FILE = 2**20

# Seconds below which a time is not shortened; 0 stays 0.
SHORTEST = {"warmup": 1.0, "settle": 1.0, "level": 3.0, "idle": 1.0}
SHORTEST_BUDGET = 60.0

SMALL = "small"


def parse_share(text: str, small: float | None, origin: str) -> float:
    """Return the share that ``--scale`` asks for. ``small``: the experiment's own value of that
    key. UsageError in one line.
    """
    if text == SMALL:
        if small is None:
            raise UsageError(
                f"{origin}: --scale small needs the key small, which is missing; give a number "
                "instead, like --scale 0.01"
            )
        return small
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise UsageError(f"--scale: {text!r} is neither small nor a number above 0 and up to 1")
    return share


def scale_level(threads: int, factor: float) -> int:
    """Return the level that stands for one of ``threads`` clients."""
    return max(1, round(threads * factor**LEVEL_POWER))


def scale_experiment(
    experiment: Experiment, factor: float, cpus: Collection[int], origin: str
) -> Experiment:
    """Return the experiment at that share, on the CPUs ``cpus``. Raises UsageError that begins with
    ``origin`` where that is not possible.
    """
    return experiment_file.build_experiment(_shrink(experiment, factor, cpus, origin), origin)


def scale_table(table: Table, text: str, cpus: Collection[int], origin: str) -> Table:
    """Scale a file's table, so that flags can be laid over the result. ``text``: the value of
    ``--scale``; ``cpus``: the available CPUs. Raises UsageError as for :func:`scale_experiment`.
    """
    experiment = experiment_file.build_experiment(table, origin)
    share = parse_share(text, experiment.small, origin)
    written = sweep.expand_cpus(table, origin)["variant"]
    return _shrink(experiment, share, cpus, origin, written)


def _shrink(
    experiment: Experiment,
    factor: float,
    cpus: Collection[int],
    origin: str,
    written: Sequence[Table] = (),
) -> Table:
    """Return the smaller experiment. ``written``: the variants as their file has them, for tunables
    over the number of CPUs.
    """
    if experiment.scaled is not None:
        raise UsageError(
            f"{origin}: --scale: the experiment is already scaled to {experiment.scaled.factor:g}"
        )
    if experiment.data.own:
        raise UsageError(
            f"{origin}: --scale: the data are your own; only sysbench's tables can be made smaller"
        )
    table = experiment.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    table.pop(SMALL, None)
    _add_rocksdb_defaults(experiment, table)
    full = copy.deepcopy(table)
    table["scaled"] = _describe_original(experiment, factor, cpus)
    table["threads"] = sorted({scale_level(n, factor) for n in experiment.threads})
    if experiment.profile_at and experiment.profile_at.threads:
        level = scale_level(experiment.profile_at.threads, factor)
        table["profile_at"] = table["profile_at"] | {"threads": level}
    table["data"] = table.get("data", {}) | {
        "rows": max(FEWEST_ROWS, round(experiment.data.rows * factor))
    }
    table["time"] = table.get("time", {}) | _shrink_times(experiment, factor)
    if experiment.budget is not None:
        table["budget"] = format_duration(max(SHORTEST_BUDGET, experiment.budget * factor))
    _shrink_warehouses(table, factor)
    for holder in (table, *table["variant"]):
        for key in ("options", "init_options"):
            if options := holder.get("server", {}).get(key):
                holder["server"] = holder["server"] | {key: _shrink_options(options, factor)}
    if limit := experiment.limits.memory:
        table["limits"] = {"memory": format_size(_shrink_bytes(limit, factor, 0) + OWN_MEMORY)}
    for key, least in (("start", LEAST_CACHE), ("tolerance", LEAST_TOLERANCE)):
        if size := getattr(experiment.fit, key):
            table["fit"][key] = _shrink_size(size, factor, least)
    fitted = _compute_tunables(fit_cpus(table, cpus), written, len(cpus), origin)
    kept = {variant["name"] for variant in fitted["variant"]}
    if left_out := [v.name for v in experiment.variant if v.name not in kept]:
        fitted["scaled"] = fitted["scaled"] | {"left_out": left_out}
    changed = [key for key in FullScale.model_fields if full.get(key) != fitted.get(key)]
    fitted["scaled"] = fitted["scaled"] | {"full": {key: full.get(key, {}) for key in changed}}
    return fitted


def _compute_tunables(fitted: Table, written: Sequence[Table], cores: int, origin: str) -> Table:
    """Return the table with the tunables over ``cores`` computed for the CPUs that it has now."""
    expressions = {
        variant.get("name"): {
            name: value
            for name, value in variant.get("tunables", {}).items()
            if sweep.is_over_cores(value)
        }
        for variant in written
    }
    variants = [
        variant | {"tunables": variant["tunables"] | over_cores}
        if (over_cores := expressions.get(variant["name"]))
        else variant
        for variant in fitted["variant"]
    ]
    return sweep.compute_tunables(fitted | {"variant": variants}, cores, origin)


def restore_full_scale(experiment: Experiment) -> Experiment:
    """Return an experiment as it was before it was made smaller, with the variants that were left
    out; of older results, as far as these say it.
    """
    was = experiment.scaled
    if was is None:
        return experiment
    full = {key: getattr(was.full, key) for key in FullScale.model_fields}
    return experiment.model_copy(
        update={
            "threads": was.threads,
            "data": experiment.data.model_copy(update={"rows": was.rows}),
            "time": experiment.time.model_copy(update={"level": was.level}),
            **{key: part for key, part in full.items() if part is not None},
        }
    )


def find_cache_size(experiment: Experiment, variant: Variant) -> int | None:
    """Return the bytes of a variant's cache as its options set it; None where none does, or for an
    engine whose cache is unknown.
    """
    common, override = experiment.server, variant.server
    option = ENGINE_CACHES.get(override.engine or common.engine)
    sizes = [
        _parse_bytes(value)
        for options in (override.options, common.options)
        for name, value in options.items()
        if _normalize_name(name) == option
    ]
    return next(iter(sizes), None)


def drop_cache_size(options: Mapping[str, str]) -> dict[str, str]:
    """Return server options without the sizes of engines' caches."""
    return {
        name: value
        for name, value in options.items()
        if _normalize_name(name) not in ENGINE_CACHES.values()
    }


def _shrink_times(experiment: Experiment, factor: float) -> Table:
    """Return the shorter times. Settling keeps its default where nothing says that the server
    settles.
    """
    times = {key: getattr(experiment.time, key) for key in SHORTEST}
    if not experiment.settles and times["settle"] == Time().settle:
        del times["settle"]
    return {
        key: format_duration(max(SHORTEST[key], seconds * factor))
        for key, seconds in times.items()
        if seconds
    }


def _shrink_warehouses(table: Table, factor: float) -> None:
    """Shrink the warehouses that the load's options, or a workload's, ask for: one at least."""
    for holder in (table.get("load", {}), *table.get("workload", {}).values()):
        value = holder.get("options", {}).get(WAREHOUSES, "")
        if re.fullmatch("[0-9]{1,9}", value):
            fewer = str(max(1, round(int(value) * factor)))
            holder["options"] = holder["options"] | {WAREHOUSES: fewer}


def _describe_original(experiment: Experiment, factor: float, cpus: Collection[int]) -> Table:
    """Return what the experiment was, for the report."""
    was: Table = {
        "factor": factor, "rows": experiment.data.rows, "threads": experiment.threads,
        "level": format_duration(experiment.time.level),
    }  # fmt: skip
    if sizes := [size for size in map(_parse_bytes, _list_caches(experiment)) if size]:
        was["memory"] = format_size(max(sizes))
    if words := describe_missing_cpus(experiment, cpus):
        was["cpus"] = words
    return was


def _list_caches(experiment: Experiment) -> list[str]:
    every = [experiment.server.options, *(v.server.options for v in experiment.variant)]
    return [
        value
        for options in every
        for name, value in options.items()
        if _normalize_name(name) in CACHES
    ]


def _add_rocksdb_defaults(experiment: Experiment, table: Table) -> None:
    """Write RocksDB's default file and sort sizes into the options of its servers whose cache is
    set: the common options, or else those of single variants. Other engines have no such options.
    """
    common = experiment.server
    if common.engine == "rocksdb" and _has_cache(common.options):
        table["server"]["options"] = _complete_rocksdb_options(common.options)
        return
    for entry, variant in zip(table["variant"], experiment.variant, strict=True):
        if (variant.server.engine or common.engine) == "rocksdb" and _has_cache(
            variant.server.options
        ):
            entry["server"]["options"] = _complete_rocksdb_options(variant.server.options)


def _has_cache(options: dict[str, str]) -> bool:
    return any(_normalize_name(name) == "rocksdb_block_cache_size" for name in options)


def _complete_rocksdb_options(options: dict[str, str]) -> dict[str, str]:
    """Return the options with RocksDB's default file and sort sizes where they set none."""
    spellings = {_normalize_name(name): name for name in options}
    file_options = options.get(spellings.get(FILES, ""), "")
    missing = [
        f"{key}={size}"
        for key, size in SIZES_OF_FILES.items()
        if not re.search(_build_item_pattern(key), file_options)
    ]
    files = ";".join(filter(None, [file_options, *missing]))
    return (
        options
        | {spellings.get(FILES, FILES): files}
        | {name: size for name, size in SORTS.items() if name not in spellings}
    )


def _shrink_options(options: dict[str, str], factor: float) -> dict[str, str]:
    return {
        name: _shrink_value(_normalize_name(name), value, factor) for name, value in options.items()
    }


def _shrink_value(name: str, value: str, factor: float) -> str:
    if name == FILES:
        every = _build_item_pattern("|".join(SIZES_OF_FILES))
        return re.sub(
            every, lambda item: item[1] + _shrink_size_text(item[2], factor, LEAST_FILE), value
        )
    if name in CACHES:
        return _shrink_size_text(value, factor, LEAST_CACHE)
    if name in LOGS:
        return _shrink_size_text(value, factor, LOGS[name])
    return _shrink_size_text(value, factor, LEAST_FILE) if name in SORTS else value


def _build_item_pattern(key: str) -> str:
    """Return the pattern of one of RocksDB's options in a list of them, but not inside an option's
    value.
    """
    return rf"((?:^|;)\s*(?:{key})=)([^;]*)"


def _shrink_size_text(value: str, factor: float, least: int) -> str:
    """Return the smaller size as text; a text that is not a size stays."""
    size = _parse_bytes(value)
    return _shrink_size(size, factor, least) if size else value


def _shrink_size(size: int, factor: float, least: int) -> str:
    """Return the smaller size as text, in whole MiB."""
    return format_size(_shrink_bytes(size, factor, least))


def _shrink_bytes(size: int, factor: float, least: int) -> int:
    return max(least, round(size * factor / 2**20) * 2**20)


def _normalize_name(name: str) -> str:
    return name.lower().replace("-", "_").removeprefix("loose_")


def _parse_bytes(text: str) -> int | None:
    """Return the bytes; None for what is not a size, which the server will refuse."""
    try:
        return int(text) if text.isdigit() else parse_size(text)
    except ValueError:
        return None


# -- the CPUs
# --------------------------------------------------------------------------------------


def fit_cpus(table: Table, available: Collection[int]) -> Table:
    """Return an experiment's table with CPUs taken from ``available`` where it asks for others.

    The sets of server and client keep their proportion; with one CPU they share it. Numbers of CPUs
    shrink so that the highest becomes all of them. Of variants that differ only in their number of
    CPUs and become identical, the first stays.
    """
    most = max((cpu["count"] for cpu in _list_cpus(table) if "count" in cpu), default=0)
    result = table | {"variant": [dict(v) for v in table["variant"]]}
    for holder in (result, *result["variant"]):
        if "cpu" in holder:
            holder["cpu"] = _shrink_cpus(holder["cpu"], most, sorted(available))
    return _drop_identical_variants(result) if most > len(available) else result


def describe_missing_cpus(experiment: Experiment, available: Collection[int]) -> str | None:
    """Return how an experiment asks for CPUs that are not available, ``server 0-7, client 8-15`` or
    ``4, 8, 16, 32``; None if all are.
    """
    every = [experiment.cpu, *(v.cpu for v in experiment.variant if v.cpu)]
    counts = sorted({cpu.count for cpu in every if cpu.count})
    if counts and counts[-1] > len(available):
        return ", ".join(map(str, counts))
    beyond = next((cpu for cpu in every if _collect_cpu_numbers(cpu) - set(available)), None)
    if beyond is None:
        return None
    sides = {"server": beyond.server, "client": beyond.client_set}
    return ", ".join(f"{side} {cpus}" for side, cpus in sides.items() if cpus)


def _list_cpus(table: Table) -> list[Table]:
    return [holder["cpu"] for holder in (table, *table["variant"]) if "cpu" in holder]


def _shrink_cpus(cpu: Table, most: int, available: list[int]) -> Table:
    if "count" in cpu:
        return (
            cpu | {"count": max(1, int(cpu["count"] * len(available) / most))}
            if most > len(available)
            else cpu
        )
    if not _collect_cpu_numbers(Cpu(**cpu)) - set(available):
        return cpu
    if len(cpu) < 2 or len(available) < 2 or APART in cpu.values():
        everything = format_cpus(set(available))
        return {side: everything if text != APART else text for side, text in cpu.items()}
    server, client = (len(parse_cpus(cpu[side])) for side in ("server", "client"))
    share = min(len(available) - 1, max(1, round(len(available) * server / (server + client))))
    return {
        "server": format_cpus(set(available[:share])),
        "client": format_cpus(set(available[share:])),
    }


def _collect_cpu_numbers(cpu: Cpu) -> set[int]:
    return {n for text in (cpu.server, cpu.client_set) if text for n in parse_cpus(text)}


def _drop_identical_variants(table: Table) -> Table:
    kept: dict[str, Table] = {}
    stays = {}
    for variant in table["variant"]:
        definition = json.dumps(
            {k: v for k, v in variant.items() if k not in _NAMES_OF_VARIANT}, sort_keys=True
        )
        stays[variant["name"]] = kept.setdefault(definition, variant)["name"]
    return table | {"variant": list(kept.values()), "baseline": stays[table["baseline"]]}
