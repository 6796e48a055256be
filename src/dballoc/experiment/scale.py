"""An experiment made smaller: rows, memory, times, levels and CPUs shrink together. Pure.

One number decides: the share of the rows. Memory and RocksDB's files shrink with it, so that data ÷
cache stays; so do the times, down to the shortest that can be measured. The levels shrink by its
fourth root: that takes a comparison made on some fifty CPUs to what two CPUs can serve, and leaves
enough clients to show what they do to a malloc. CPUs shrink to those that are here.
"""

import math
import re
from collections.abc import Collection
from typing import Any

from dballoc.errors import UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.durations_and_sizes import format_duration, format_size, parse_size
from dballoc.experiment.fewer_cpus import in_words, on_fewer
from dballoc.experiment.model import Experiment

Table = dict[str, Any]

# The server options that follow the data.
CACHES = frozenset(
    {
        "innodb_buffer_pool_size",
        "innodb_log_file_size",
        "innodb_redo_log_capacity",
        "rocksdb_block_cache_size",
        "aria_pagecache_buffer_size",
        "key_buffer_size",
    }
)

# What follows RocksDB's cache, as it and MyRocks have it by default (options.h, rdb_sysvars): files
# and memtables, for where a file's index is larger than a shard of the cache, every read of a row
# unpacks it anew; and what each thread that builds an index sorts in.
FILES = "rocksdb_default_cf_options"
SIZES_OF_FILES = {
    "write_buffer_size": "64M",
    "target_file_size_base": "64M",
    "max_bytes_for_level_base": "256M",
}
SORTS = {"rocksdb_merge_buf_size": "64M", "rocksdb_merge_combine_read_size": "1G"}

LEVEL_POWER = 0.25
FEWEST_ROWS = 1000
LEAST_CACHE = 16 * 2**20
LEAST_LIMIT = 512 * 2**20
LEAST_FILE = 2**20

# Seconds. What is 0 stays 0.
SHORTEST = {"warmup": 1.0, "level": 3.0, "idle": 1.0}
SHORTEST_BUDGET = 60.0

SMALL = "small"


def parse(text: str, small: float | None, origin: str) -> float:
    """The share that ``--scale`` asks for. ``small``: what the experiment says of itself.
    UsageError in one line.
    """
    if text == SMALL:
        if small is None:
            raise UsageError(
                f"{origin}: it has no key small, which --scale small would take; give a number, "
                "like --scale 0.01"
            )
        return small
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise UsageError(f"--scale: {text!r} is neither small nor a number above 0 and up to 1")
    return share


def level(threads: int, factor: float) -> int:
    """The level that stands for one of ``threads`` clients."""
    return max(1, round(threads * factor**LEVEL_POWER))


def scaled(experiment: Experiment, factor: float, have: Collection[int], origin: str) -> Experiment:
    """The experiment at that share, on the CPUs ``have``. UsageError that begins with ``origin``
    where that cannot be.
    """
    return experiment_file.build(_shrink(experiment, factor, have, origin), origin)


def lay(table: Table, text: str, have: Collection[int], origin: str) -> Table:
    """The same on a file's table, so that flags can be laid over the result; ``text`` as
    ``--scale`` has it. UsageError.
    """
    experiment = experiment_file.build(table, origin)
    return _shrink(experiment, parse(text, experiment.small, origin), have, origin)


def _shrink(experiment: Experiment, factor: float, have: Collection[int], origin: str) -> Table:
    if experiment.scaled is not None:
        raise UsageError(
            f"{origin}: --scale: it is scaled already, to {experiment.scaled.factor:g}"
        )
    if experiment.data.own:
        raise UsageError(
            f"{origin}: --scale: the data are your own; only sysbench's tables can be made smaller"
        )
    table = experiment.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    table.pop(SMALL, None)
    table["scaled"] = _was(experiment, factor, have)
    table["threads"] = sorted({level(n, factor) for n in experiment.threads})
    table["data"] = table.get("data", {}) | {
        "rows": max(FEWEST_ROWS, round(experiment.data.rows * factor))
    }
    table["time"] = table.get("time", {}) | {
        key: format_duration(max(least, getattr(experiment.time, key) * factor))
        for key, least in SHORTEST.items()
        if getattr(experiment.time, key)
    }
    if experiment.budget is not None:
        table["budget"] = format_duration(max(SHORTEST_BUDGET, experiment.budget * factor))
    _lay_defaults(experiment, table)
    for holder in (table, *table["variant"]):
        if options := holder.get("server", {}).get("options"):
            holder["server"] = holder["server"] | {"options": _smaller(options, factor)}
    if limit := experiment.limits.memory:
        table["limits"] = {"memory": _share(limit, factor, LEAST_LIMIT)}
    return on_fewer(table, have)


def _was(experiment: Experiment, factor: float, have: Collection[int]) -> Table:
    """What it was, for the report."""
    was: Table = {
        "factor": factor, "rows": experiment.data.rows, "threads": experiment.threads,
        "level": format_duration(experiment.time.level),
    }  # fmt: skip
    if sizes := [size for size in map(_size, _all_caches(experiment)) if size]:
        was["memory"] = format_size(max(sizes))
    if words := in_words(experiment, have):
        was["cpus"] = words
    return was


def _all_caches(experiment: Experiment) -> list[str]:
    every = [experiment.server.options, *(v.server.options for v in experiment.variant)]
    return [value for options in every for name, value in options.items() if _plain(name) in CACHES]


def _lay_defaults(experiment: Experiment, table: Table) -> None:
    """Into the options of RocksDB's servers whose cache is said: of all variants, else of some;
    other engines know no such.
    """
    common = experiment.server
    if common.engine == "rocksdb" and _has_cache(common.options):
        table["server"]["options"] = _with_defaults(common.options)
        return
    for variant, own in zip(table["variant"], experiment.variant, strict=True):
        if (own.server.engine or common.engine) == "rocksdb" and _has_cache(own.server.options):
            variant["server"]["options"] = _with_defaults(own.server.options)


def _has_cache(options: dict[str, str]) -> bool:
    return any(_plain(name) == "rocksdb_block_cache_size" for name in options)


def _with_defaults(options: dict[str, str]) -> dict[str, str]:
    """With what follows RocksDB's cache, where the options do not say it."""
    there = {_plain(name): name for name in options}
    given = options.get(there.get(FILES, ""), "")
    missing = [
        f"{key}={size}" for key, size in SIZES_OF_FILES.items() if not re.search(_item(key), given)
    ]
    files = ";".join(filter(None, [given, *missing]))
    return (
        options
        | {there.get(FILES, FILES): files}
        | {name: size for name, size in SORTS.items() if name not in there}
    )


def _smaller(options: dict[str, str], factor: float) -> dict[str, str]:
    return {name: _value(_plain(name), value, factor) for name, value in options.items()}


def _value(name: str, value: str, factor: float) -> str:
    if name == FILES:
        every = _item("|".join(SIZES_OF_FILES))
        return re.sub(
            every, lambda item: item[1] + _smaller_size(item[2], factor, LEAST_FILE), value
        )
    if name in CACHES:
        return _smaller_size(value, factor, LEAST_CACHE)
    return _smaller_size(value, factor, LEAST_FILE) if name in SORTS else value


def _item(key: str) -> str:
    """One of RocksDB's options in a list of them, not in one that is an option's value."""
    return rf"((?:^|;)\s*(?:{key})=)([^;]*)"


def _smaller_size(value: str, factor: float, least: int) -> str:
    """What is no size stays."""
    size = _size(value)
    return _share(size, factor, least) if size else value


def _share(size: int, factor: float, least: int) -> str:
    """In whole MiB."""
    return format_size(max(least, round(size * factor / 2**20) * 2**20))


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").removeprefix("loose_")


def _size(text: str) -> int | None:
    """Bytes; None for what is no size, which the server will say."""
    try:
        return int(text) if text.isdigit() else parse_size(text)
    except ValueError:
        return None
