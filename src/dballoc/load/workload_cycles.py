"""Expand the catalogue's cycles among an experiment's workloads: one name stands for a whole
published sequence. Pure.
"""

from typing import Any

from dballoc.catalogue import cycles

Table = dict[str, Any]


def expand(table: Table) -> Table:
    """Return an experiment's table with every cycle replaced by its workloads, by its warm-ups and
    by what runs before single workloads, unless the table has its own.
    """
    names = table.get("workloads")
    if not isinstance(names, list) or not any(isinstance(n, str) and n in cycles() for n in names):
        return table
    workloads: list[Any] = []
    warm: list[str] = []
    before: Table = {}
    for name in names:
        row = cycles().get(name) if isinstance(name, str) else None
        workloads += row["workloads"] if row else [name]
        warm += row.get("warm", []) if row else []
        before |= row.get("before", {}) if row else {}
    return {"warm": warm, "before": before, **table, "workloads": workloads}
