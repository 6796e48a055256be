"""Look up workloads: the catalogue's, and the experiment's own."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from dballoc.catalogue import cycles, look_up, workloads
from dballoc.experiment import model
from dballoc.fetch import closed_store
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.load import sql_workload
from dballoc.load.sql_workload import SqlError, SqlStatement

# Bytes of a script or of SQL of the user's own.
LARGEST_FILE = 64 * readers.MIB


def lua() -> Path:
    """Return the directory of our own scripts."""
    return Path(str(files("dballoc.load") / "lua"))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """``script``: the module that sysbench loads, or the path of one. ``file``: the user's own
    file; ``content``: the hash of what makes its data, the user's file or our scripts;
    ``statements`` of a SQL file; ``driver``: sysbench or hammerdb, whose ``script`` is hammerdbcli.
    The rest as in catalogue/workloads.toml.
    """

    name: str
    script: str
    options: Mapping[str, str] = field(default_factory=dict)
    prepared: int = 0
    writes: bool = False
    file: Path | None = None
    content: str = ""
    statements: tuple[SqlStatement, ...] = ()
    title: str = ""
    group: str = ""
    text: bool = False
    brings: bool = False
    ends: bool = False
    reads_whole_tables: bool = False
    program: tuple[str, ...] = ()
    hammerdb: bool = False
    replica: bool = False
    backup: bool = False
    driver: str = "sysbench"

    def prepares(self, load: model.Load) -> bool:
        """Whether its statements are prepared in the server, instead of sent as text."""
        prepared = load.prepared_statements
        return not self.text if prepared is None else prepared in (True, "auto")


def of_catalogue(name: str) -> Workload:
    """Return the catalogue's workload. Raises UsageError if it has none of that name."""
    row: dict[str, Any] = look_up(workloads(), name, "workload")
    content = _scripts() if row.get("brings") else ""
    same = ("group", "writes", "text", "brings", "ends", "hammerdb", "replica", "backup")
    more = {key: row[key] for key in same if key in row}
    return Workload(
        name=name,
        script=row["script"],
        options=row.get("options", {}),
        prepared=row["prepared"],
        content=content,
        title=row["title"],
        program=tuple(row.get("program", ())),
        reads_whole_tables=row.get("whole", False),
        **more,
    )


def _scripts() -> str:
    """Return a hash of our own scripts: the data that they make are made again when the scripts
    change.
    """
    return hashlib.sha256(
        b"".join(path.read_bytes() for path in sorted(lua().glob("*.lua")))
    ).hexdigest()


def settle(experiment: model.Experiment) -> dict[str, Workload]:
    """Load every workload that an experiment runs; its files are read and checked. UsageError,
    ``FILE:LINE: …`` where there is a line.
    """
    for name in experiment.workload:
        if name in workloads() or name in cycles():
            raise UsageError(
                f"workload.{name}: dballoc has a workload of that name; choose another"
            )
    _check_profiled(experiment)
    works = {n: _settle(n, experiment) for n in experiment.loads}
    _check_replicas(list(works.values()))
    return works


def _check_profiled(experiment: model.Experiment) -> None:
    """Raise Raise UsageError for a profile of a workload that does not run, or ends by itself."""
    workload = experiment.profile_at.workload if experiment.profile_at else None
    timed = [name for name in experiment.workloads if name != model.LOAD]
    if workload is not None and workload not in timed:
        raise UsageError(
            f"profile_at.workload: {workload!r} is not among the workloads that can be profiled: "
            f"{', '.join(timed) or 'none'}"
        )


def _check_replicas(works: list[Workload]) -> None:
    """Raise Raise UsageError for a replica's workload beside others, and for one that gives a
    replica nothing to apply.
    """
    replicas = [w for w in works if w.replica]
    others = [w for w in works if not w.replica]
    if replicas and others:
        raise UsageError(
            f"workloads: {replicas[0].name} measures a replica, which only its primary may write "
            f"to, and {others[0].name} does not; run them as two campaigns"
        )
    for work in replicas:
        if not work.writes or work.program or work.backup:
            why = "writes nothing" if not work.writes else "runs a program beside its clients"
            raise UsageError(
                f"workload {work.name!r}: replica: it {why}, so there is nothing to measure on a "
                "replica; use a workload that writes, or say writes = true"
            )


def _settle(name: str, experiment: model.Experiment) -> Workload:
    entry = (
        own(name, experiment.workload[name]) if name in experiment.workload else of_catalogue(name)
    )
    if entry.ends and (clients := experiment.data.load_clients) is not None:
        return replace(entry, options={**entry.options, "clients": str(clients)})
    if not entry.brings:
        return entry
    # These options determine the size of its data, so prepare must get the same as a run.
    return replace(entry, options={**_bare(entry.options), **_bare(experiment.load.options)})


def _bare(options: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in options.items()}


def own(name: str, table: model.UserWorkload) -> Workload:
    """Load a workload of the user's. UsageError for a file that cannot be read or has a mistake,
    and for an unknown ``use``.
    """
    if table.use is not None:
        base = of_catalogue(table.use)
        if base.ends:
            raise UsageError(
                f"workload {name!r}: {table.use} cannot have another name or options of its own; "
                "list it in workloads"
            )
        options = {**_bare(base.options), **_bare(table.options)}
        return replace(
            base,
            name=name,
            options=options,
            prepared=table.prepared or base.prepared,
            replica=table.replica or base.replica,
        )
    named = Path(table.script or table.sql or "").absolute()
    closed = closed_store.open_closed_store()
    path = closed.find_file(named) if closed else named
    with readers.naming(f"workload {name!r}: {shown(path)}"):
        content = readers.content(path, LARGEST_FILE)
    digest = hashlib.sha256(content).hexdigest()
    if table.script is not None:
        return Workload(
            name=name,
            script=os.fspath(path),
            options=table.options,
            prepared=table.prepared,
            writes=table.writes,
            replica=table.replica,
            file=path,
            content=digest,
        )
    try:
        statements = sql_workload.parse(content.decode())
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(f"{shown(path)}:{line}: not UTF-8") from None
    except SqlError as error:
        raise UsageError(f"{shown(path)}:{error.line}: {error}") from None
    writes = table.writes or not all(s.reads for s in statements)
    return Workload(
        name=name,
        script="dballoc_sql",
        options=table.options,
        prepared=table.prepared,
        writes=writes,
        replica=table.replica,
        file=path,
        content=digest,
        statements=statements,
    )


def shown(path: Path) -> str:
    """Return a path as its user would write it: relative if it is below the current directory."""
    directory = Path.cwd()
    return os.fspath(path.relative_to(directory) if path.is_relative_to(directory) else path)
