"""What a campaign's data consist of: sysbench's tables, tables that the user's scripts make, or the
user's own data.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.ground.files.foreign_file import open_foreign_file
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
class DataContents:
    """What data consist of: sysbench's ``tables``, and those of ``makers``, scripts with a
    ``prepare`` of their own; or the user's data ``directory``; or ``sql`` files.

    ``identity`` changes when any of the user's files does, or a script of ours that makes data;
    it is empty with sysbench's tables alone. ``size``: about how many bytes.
    """

    tables: bool
    makers: tuple[Workload, ...] = ()
    directory: Path | None = None
    sql: tuple[Path, ...] = ()
    identity: str = ""
    size: int | None = None


def inspect_data(experiment: Experiment, sysbench: Sysbench) -> DataContents:
    """Find out what the experiment's data consist of. Raises UsageError for what cannot be used."""
    data = experiment.data
    works = [sysbench.workload(name) for name in experiment.loads]
    makers = tuple(w for w in works if sysbench_command.makes_data(sysbench, w))
    if data.directory is not None:
        directory = Path(data.directory).absolute()
        user_datadir.check(directory, "data.directory")
        identity, size = user_datadir.identity(directory)
        return DataContents(
            tables=False,
            directory=directory,
            identity=identity,
            size=size,
        )
    if data.sql:
        files = tuple(Path(p).absolute() for p in data.sql)
        return DataContents(
            tables=False,
            sql=files,
            identity=_hash([_stamp_file(p) for p in files]),
            size=sum(map(_estimate_table_bytes, files)),
        )
    if not makers:
        return DataContents(tables=True)
    parts = [[w.name, w.content, dict(w.options)] for w in makers]
    return DataContents(
        tables=len(makers) < len(works),
        makers=makers,
        identity=_hash([parts, len(makers) < len(works)]),
    )


def _hash(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _stamp_file(path: Path) -> list[object]:
    try:
        if path.is_dir():
            raise UsageError(
                f"data.sql {shown(path)}: a directory; give SQL files, or data.directory for a "
                "data directory"
            )
        with open_foreign_file(path) as file:
            status = os.fstat(file.fileno())
    except OSError as error:
        raise UsageError(f"data.sql {shown(path)}: {error.strerror}") from None
    return [path.name, status.st_size, status.st_mtime_ns]


def _estimate_table_bytes(path: Path) -> int:
    """Return about how many bytes the tables of an SQL file take: rows with their indexes take
    twice their text.
    """
    return path.stat().st_size * (12 if path.suffix == ".gz" else 2)


def find_sql_client(build: Build) -> Path:
    """Find the command-line client that reads SQL files. Raises UsageError if there is none.

    No library reads all that mysqldump and people write (DELIMITER, SOURCE, versioned comments)
    without holding it in memory.
    """
    return client_programs.find(build, _CLIENTS, "data.sql is read by the client mariadb or mysql")


def make_sql_fill(path: Path, program: Path, config: Path, database: str) -> Fill:
    """Return how the client reads one SQL file into the server that the option file ``config``
    names. The file is opened for it, as the client's user may not be able to.
    """
    argv = [
        os.fspath(program),
        f"--defaults-file={config}",
        "--default-character-set=utf8mb4",
        "--batch",
        database,
    ]
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}

    def find_sql_error(log: Path) -> UsageError | None:
        output = tail(log, 400, 65_536)
        if broken := re.search(r"^gzip: .*?: (.*)$", output, re.MULTILINE):
            return UsageError(f"{shown(path)}: {broken[1]}")
        if errors := list(_CLIENT_ERROR.finditer(output)):
            return UsageError(f"{shown(path)}:{errors[-1][1]}: {errors[-1][2]}")
        return None

    failure = f"{shown(path)} cannot be read in"
    if path.suffix == ".gz":
        piped = ["bash", "-c", 'set -o pipefail; gzip -dc | "$@"', "bash", *argv]
        return Fill(argv=piped, env=env, stdin=path, failure=failure, refused=find_sql_error)
    return Fill(argv=argv, env=env, stdin=path, failure=failure, refused=find_sql_error)
