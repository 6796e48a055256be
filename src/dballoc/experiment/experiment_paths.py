"""Make the paths in an experiment's table absolute, so that it means the same from everywhere, and
give workloads named by a path a table.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dballoc.experiment.experiment_file import LONGER
from dballoc.ground.errors import UsageError

Table = dict[str, Any]
_KINDS = {".lua": "script", ".sql": "sql"}


def anchor_paths(table: Table, base: Path, reserved: Collection[str] = ()) -> Table:
    """Return ``table``, and what a longer budget changes of it, with every relative path resolved
    against ``base``. Values of other types are left for the model to refuse.

    A workload that is the path of a .lua or .sql file gets a table of its own, named after the
    file; ``reserved`` are names that it must not have. Raises UsageError for any other path.
    """

    def anchor_path(value: Any) -> Any:
        return (
            os.path.normpath(base.absolute() / Path(value).expanduser())
            if isinstance(value, str) and value
            else value
        )

    def anchor_keys(holder: Any, *keys: str) -> Any:
        if not isinstance(holder, dict):
            return holder
        changed = {
            k: [anchor_path(p) for p in holder[k]]
            if isinstance(holder[k], list)
            else anchor_path(holder[k])
            for k in keys
            if k in holder
        }
        return {**holder, **changed}

    result = dict(table)
    if "server" in result:
        result["server"] = anchor_keys(result["server"], "basedir")
    if "data" in result:
        result["data"] = anchor_keys(result["data"], "directory", "sql")
    if isinstance(result.get("workload"), dict):
        result["workload"] = {
            name: anchor_keys(workload, "script", "sql")
            for name, workload in result["workload"].items()
        }
    if isinstance(result.get("variant"), list):
        variants = [anchor_keys(v, "preload") for v in result["variant"]]
        result["variant"] = [
            {**v, "server": anchor_keys(v["server"], "basedir")}
            if isinstance(v, dict) and "server" in v
            else v
            for v in variants
        ]
    if isinstance(result.get("workloads"), list) and any(map(_is_path, result["workloads"])):
        workloads = dict(result.get("workload", {}))
        result["workloads"] = [
            _name_workload(w, anchor_path(w), workloads, reserved) if _is_path(w) else w
            for w in result["workloads"]
        ]
        result["workload"] = workloads
    if isinstance(result.get(LONGER), dict):
        result[LONGER] = anchor_paths(result[LONGER], base, reserved)
    return result


def _is_path(name: Any) -> bool:
    return isinstance(name, str) and ("/" in name or name.endswith(tuple(_KINDS)))


def _name_workload(word: str, path: str, workloads: Table, reserved: Collection[str]) -> str:
    """Add ``path`` to ``workloads`` and return its name there."""
    file = Path(path)
    if file.suffix not in _KINDS:
        raise UsageError(f"workload {word!r} is neither a .lua nor a .sql file")
    entry = {_KINDS[file.suffix]: path}
    if word in workloads:
        return word  # a table of that very name, like [workload."my.sql"]
    for name in (file.stem, file.name):
        if name not in reserved and workloads.get(name, entry) == entry:
            workloads[name] = entry
            return name
    raise UsageError(
        f"workload {word!r}: another file is called {file.name!r} too; name one of them in a "
        "table [workload.NAME]"
    )
