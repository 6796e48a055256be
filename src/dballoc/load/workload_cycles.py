"""Expand the catalogue's cycles among an experiment's workloads: one name stands for a whole
published sequence. Pure.
"""

from typing import Any, TypeGuard

from dballoc.catalogue import cycles

Table = dict[str, Any]


def expand(table: Table) -> Table:
    """Return an experiment's table with every cycle replaced by its workloads, and by its warm-ups
    unless the table has its own. What its post states is written out in the same way.
    """
    post = table.get("post")
    if isinstance(post, dict) and _has_cycle(post.get("workloads")):
        table = {**table, "post": {**post, "workloads": _expand_names(post["workloads"])}}
    names = table.get("workloads")
    if not _has_cycle(names):
        return table
    warm = [w for name in names for w in _look_up(name).get("warm", [])]
    return {"warm": warm, **table, "workloads": _expand_names(names)}


def _has_cycle(names: object) -> TypeGuard[list[Any]]:
    return isinstance(names, list) and any(map(_look_up, names))


def _expand_names(names: list[Any]) -> list[Any]:
    return [w for name in names for w in _look_up(name).get("workloads", [name])]


def _look_up(name: object) -> dict[str, Any]:
    """Return the cycle of that name; nothing for any other workload, or what is no name."""
    return cycles().get(name, {}) if isinstance(name, str) else {}
