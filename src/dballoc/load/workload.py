"""What a client can be told to do: a workload of the catalogue, or one of the experiment's own."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from dballoc.catalogue import look_up, workloads
from dballoc.errors import UsageError
from dballoc.experiment import model
from dballoc.load import sqlfile
from dballoc.load.sqlfile import SqlError, Statement


def lua() -> Path:
    """The directory of our own scripts."""
    return Path(str(files("dballoc.load") / "lua"))


@dataclass(frozen=True)
class Workload:
    """``script``: the module that sysbench loads, or the path of one. ``file``: the user's own file, ``content`` its bytes'
    hash; ``statements`` of a SQL file.
    """

    name: str
    script: str
    options: Mapping[str, str] = field(default_factory=dict)
    prepared: int = 0
    writes: bool = False
    file: Path | None = None
    content: str = ""
    statements: tuple[Statement, ...] = ()


def of_catalogue(name: str) -> Workload:
    """The catalogue's workload. UsageError if there is none of that name."""
    row: dict[str, Any] = look_up(workloads(), name, "workload")
    return Workload(name, row["script"], row.get("options", {}), row["prepared"], row.get("writes", False))


def settle(experiment: model.Experiment) -> dict[str, Workload]:
    """Every workload that an experiment runs, its files read and checked. UsageError, ``FILE:LINE: …`` where it has one."""
    for name in experiment.workload:
        if name in workloads():
            raise UsageError(f"workload.{name}: dballoc has a workload of that name; choose another")
    return {n: own(n, experiment.workload[n]) if n in experiment.workload else of_catalogue(n) for n in experiment.workloads}


def own(name: str, table: model.Workload) -> Workload:
    """A workload of the user's. UsageError for a file that cannot be read, or for what is wrong in it."""
    path = Path(table.script or table.sql or "").absolute()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"workload {name!r}: {shown(path)}: {error.strerror}") from None
    digest = hashlib.sha256(content).hexdigest()
    if table.script is not None:
        return Workload(name, os.fspath(path), table.options, table.prepared, table.writes, path, digest)
    try:
        statements = sqlfile.parse(content.decode())
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(f"{shown(path)}:{line}: not UTF-8") from None
    except SqlError as error:
        raise UsageError(f"{shown(path)}:{error.line}: {error}") from None
    writes = table.writes or not all(s.reads for s in statements)
    return Workload(name, "dballoc_sql", table.options, table.prepared, writes, path, digest, statements)


def shown(path: Path) -> str:
    """A path as its user would write it: relative if it lies below here."""
    here = Path.cwd()
    return os.fspath(path.relative_to(here) if path.is_relative_to(here) else path)
