"""What a campaign's data are made of: sysbench's tables, what the user's scripts make, or the
user's own data.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from dballoc.errors import UsageError
from dballoc.experiment.model import Experiment
from dballoc.load import sysbench_command
from dballoc.load.sysbench_command import Sysbench
from dballoc.load.workload import Workload, shown
from dballoc.servers import client_programs, user_datadir
from dballoc.servers.build import Build
from dballoc.servers.private.data_template import Fill
from dballoc.servers.private.private_server import tail

_CLIENTS = ("mariadb", "mysql")
_CLIENT_ERROR = re.compile(
    r"^ERROR (?:\d+ )?(?:\([0-9A-Z]+\) )?at line (\d+):? (?:in file: '[^']*': )?(.*)$", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """``tables``: sysbench's own; ``makers``: scripts with a ``prepare`` of their own; else
    ``directory`` or ``sql`` files.

    ``identity`` changes when any of the user's files does, or a script of ours that makes data;
    empty with sysbench's tables alone. ``size``: bytes, about.
    """

    tables: bool
    makers: tuple[Workload, ...] = ()
    directory: Path | None = None
    sql: tuple[Path, ...] = ()
    identity: str = ""
    size: int | None = None


def settle(experiment: Experiment, bench: Sysbench) -> Contents:
    """Look at all that data are made of. UsageError in one line for what cannot be used."""
    data = experiment.data
    works = [
        bench.workload(name) for name in dict.fromkeys([*experiment.workloads, *experiment.warm])
    ]
    makers = tuple(w for w in works if sysbench_command.makes_data(bench, w))
    if data.directory is not None:
        directory = Path(data.directory).absolute()
        user_datadir.check(directory, "data.directory")
        return Contents(
            tables=False,
            directory=directory,
            identity=(found := user_datadir.identity(directory))[0],
            size=found[1],
        )
    if data.sql:
        files = tuple(Path(p).absolute() for p in data.sql)
        return Contents(
            tables=False,
            sql=files,
            identity=_hash([_stamp(p) for p in files]),
            size=sum(map(_size, files)),
        )
    if not makers:
        return Contents(tables=True)
    parts = [[w.name, w.content, dict(w.options)] for w in makers]
    return Contents(
        tables=len(makers) < len(works),
        makers=makers,
        identity=_hash([parts, len(makers) < len(works)]),
    )


def _hash(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _stamp(path: Path) -> list[object]:
    try:
        with path.open("rb"):
            status = path.stat()
    except OSError as error:
        raise UsageError(f"data.sql {shown(path)}: {error.strerror}") from None
    if path.is_dir():
        raise UsageError(
            f"data.sql {shown(path)}: a directory; give SQL files, or data.directory for a data "
            "directory"
        )
    return [path.name, status.st_size, status.st_mtime_ns]


def _size(path: Path) -> int:
    """Rows with their indexes take about twice their text."""
    return path.stat().st_size * (12 if path.suffix == ".gz" else 2)


def reader(build: Build) -> Path:
    """The command-line client that reads SQL files. UsageError if there is none.

    It alone reads what mysqldump and people write (DELIMITER, SOURCE, versioned comments), and does
    not hold it in memory.
    """
    return client_programs.find(build, _CLIENTS, "data.sql is read by the client mariadb or mysql")


def feed(path: Path, program: Path, config: Path, database: str) -> Fill:
    """The client that reads one SQL file into the server that an option file leads it to. The file
    is opened for it.
    """
    argv = [
        os.fspath(program),
        f"--defaults-file={config}",
        "--default-character-set=utf8mb4",
        "--batch",
        database,
    ]
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}

    def refused(log: Path) -> UsageError | None:
        said = tail(log, 400, 65_536)
        if broken := re.search(r"^gzip: .*?: (.*)$", said, re.MULTILINE):
            return UsageError(f"{shown(path)}: {broken[1]}")
        if found := list(_CLIENT_ERROR.finditer(said)):
            return UsageError(f"{shown(path)}:{found[-1][1]}: {found[-1][2]}")
        return None

    who = f"{shown(path)} cannot be read in"
    if path.suffix == ".gz":
        piped = ["bash", "-c", 'set -o pipefail; gzip -dc | "$@"', "bash", *argv]
        return Fill(argv=piped, env=env, stdin=path, failure=who, refused=refused)
    return Fill(argv=argv, env=env, stdin=path, failure=who, refused=refused)
