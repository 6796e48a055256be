"""Find HammerDB, and write the commands and scripts for its TPROC-C, which
:mod:`dballoc.load.hammerdb_driver` runs.

Commands, settings and terms are those of HammerDB 4 and 5 (its documentation, chapters 8 and 9, and
``config/*.xml``).
"""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.load.workload import Workload

# The schema's database; HammerDB makes it itself, beside the experiment's own.
DATABASE = "tpcc"
# The workload's option that chooses the driver, and its values; the first is the default.
OPTION = "driver"
DRIVERS = ("installed", "hammerdb", "sysbench")
# The options of our Lua script that HammerDB supports too.
_OPTIONS = ("warehouses",)
_PLACES = ("/opt", "/usr/local")
# Minutes for which its timed driver would run by itself: it counts in minutes, and dballoc ends it
# to the second.
_FOREVER = 100_000


@dataclass(frozen=True)
class HammerDB:
    """``executable``: hammerdbcli, which runs in its own directory only; ``content``: its hash."""

    executable: Path
    version: str
    content: str

    @property
    def does(self) -> str:
        """Describe a workload that HammerDB drives. Its version may be unknown."""
        name = f"HammerDB {self.version}".strip()
        return (
            f"{name}'s TPROC-C, with its schema and procedures; transactions are commits and "
            "rollbacks"
        )


def find() -> HammerDB | None:
    """Find the machine's HammerDB: on the PATH, else the highest version below /opt or /usr/local;
    None if there is none.
    """
    named = shutil.which("hammerdbcli")
    below = [
        p
        for place in _PLACES
        for p in Path(place).glob("HammerDB-*/hammerdbcli")
        if os.access(p, os.X_OK)
    ]
    candidates = (
        [Path(named).resolve()]
        if named
        else sorted(below, key=lambda p: _numbers(p.parent.name), reverse=True)
    )
    if not candidates:
        return None
    with readers.naming(f"HammerDB, {candidates[0]}"):
        content = readers.content(candidates[0])
    name = candidates[0].parent.name
    version = re.search(r'hdb_version\s+"?v?(\d[\w.]*)', content.decode("latin-1")) or re.search(
        r"-(\d[\w.]*)$", name
    )
    return HammerDB(
        candidates[0], version[1] if version else "", hashlib.sha256(content).hexdigest()
    )


def _numbers(name: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", name)]


def is_left_to_sysbench(work: Workload) -> bool:
    """Whether our Lua script runs a workload even where HammerDB is installed."""
    driver = work.options.get(OPTION, DRIVERS[0])
    is_asked = driver == "sysbench" or (driver == DRIVERS[0] and _list_unknown(work.options))
    return not work.hammerdb or bool(is_asked)


def _list_unknown(options: Iterable[str]) -> list[str]:
    """Return those of a workload's options that HammerDB does not have."""
    return [name for name in options if name not in (OPTION, *_OPTIONS)]


def settle(work: Workload) -> Workload:
    """Choose the driver of a workload that HammerDB could drive: HammerDB if it is installed and
    supports all the options, else our Lua script. UsageError if the requested one cannot.
    """
    if not work.hammerdb:
        return work
    options = dict(work.options)
    driver = options.pop(OPTION, DRIVERS[0])
    hammerdb_work = replace(work, options=options)
    if driver not in DRIVERS:
        raise UsageError(
            f"workload {work.name!r}: {OPTION} = {driver!r}; it is {', '.join(DRIVERS[:-1])} or "
            f"{DRIVERS[-1]}"
        )
    if is_left_to_sysbench(work):
        return hammerdb_work
    if unknown := _list_unknown(options):
        raise UsageError(
            f"workload {work.name!r}: HammerDB has no option {unknown[0]!r}; leave it out, or "
            f"{OPTION} = 'sysbench'"
        )
    if not options["warehouses"].isdecimal() or int(options["warehouses"]) < 1:
        raise UsageError(
            f"workload {work.name!r}: warehouses = {options['warehouses']!r}; give a whole number, "
            "1 at least"
        )
    if (installation := find()) is None:
        if driver == DRIVERS[0]:
            return hammerdb_work
        raise UsageError(
            f"workload {work.name!r}: HammerDB is not on this machine; install it (hammerdbcli on "
            "the PATH, "
            f"or below {' or '.join(_PLACES)}), or {OPTION} = 'sysbench'"
        )
    executable = str(installation.executable)
    return replace(
        work,
        options=options,
        driver="hammerdb",
        title=installation.does,
        script=executable,
        content=installation.content,
        text=True,
    )


@dataclass(frozen=True, kw_only=True)
class HammerDBTask:
    """The task of :mod:`dballoc.load.hammerdb_driver`. ``account``: an option file with the
    server's address and our account; ``seconds`` and ``prepared`` are for a run;
    ``work``: where HammerDB may make files.
    """

    verb: str
    executable: str
    account: str
    engine: str
    threads: int
    warehouses: int
    prepared: bool = False
    seconds: float = 0
    work: str = ""


def prepare(work: Workload, threads: int, engine: str, account: Path, place: Path) -> HammerDBTask:
    """Return the task that makes its data."""
    warehouses = int(work.options["warehouses"])
    return HammerDBTask(
        verb="prepare",
        executable=work.script,
        account=str(account),
        engine=engine,
        threads=threads,
        warehouses=warehouses,
        work=str(place),
    )


def run(
    work: Workload,
    threads: int,
    seconds: float,
    *,
    engine: str,
    prepared: bool,
    account: Path,
    place: Path,
) -> HammerDBTask:
    """Return the task of a run. ``prepared``: whether it calls its procedures as prepared
    statements.
    """
    task = prepare(work, threads, engine, account, place)
    return replace(task, verb="run", seconds=max(1, seconds), prepared=prepared)


def command(task: HammerDBTask) -> list[str]:
    """Return the command that drives HammerDB. It contains no password."""
    return [sys.executable, "-I", "-m", "dballoc.load.hammerdb_driver", json.dumps(asdict(task))]


def environment(place: Path) -> dict[str, str]:
    """Return its environment, without anything of the server's variant. HammerDB finds the server's
    client library by LD_LIBRARY_PATH.
    """
    return {
        **{
            name: os.environ[name]
            for name in ("PATH", "LANG", "LD_LIBRARY_PATH")
            if name in os.environ
        },
        "HOME": str(place),
    }


def needed_files(work: Workload) -> list[Path]:
    """Return the files that the user who runs HammerDB must be able to read."""
    return (
        [Path(work.script), Path(sys.executable), Path(__file__)]
        if work.driver == "hammerdb"
        else []
    )


def script(task: HammerDBTask, mariadb: bool, account: Mapping[str, str]) -> str:
    """Return the Tcl script for hammerdbcli. ``account``: from the option file. The script contains
    the password, so only we may read it.
    """
    name = "maria" if mariadb else "mysql"
    socket = account.get("socket")
    connection = {
        "host": "localhost" if socket else account["host"],
        "port": account.get("port", "3306"),
        "socket": socket or "null",  # its word for TCP
    }
    tpcc: dict[str, object] = {
        "user": account["user"],
        "pass": account["password"],
        "dbase": DATABASE,
        "storage_engine": task.engine,
        "count_ware": task.warehouses,
        "num_vu": min(task.threads, task.warehouses),
        "partition": "false",
    }
    if task.verb == "run":
        # The timed driver is the one that does not print every transaction. By default a client
        # draws a home warehouse and keeps it, so starts would differ by which clients meet; with
        # all warehouses the clients are distributed evenly.
        tpcc |= {
            "driver": "timed",
            "rampup": 0,
            "duration": _FOREVER,
            "allwarehouse": "true",
            "timeprofile": "false",
        }
        tpcc["prepared"] = str(task.prepared).lower()
    lines = [f"dbset db {name}", "dbset bm TPC-C"]
    lines += [f"diset connection {name}_{key} {_word(value)}" for key, value in connection.items()]
    lines += [f"diset tpcc {name}_{key} {_word(value)}" for key, value in tpcc.items()]
    return "\n".join([*lines, *(_RUN if task.verb == "run" else _BUILD), ""]).replace(
        "@THREADS@", str(task.threads)
    )


# Up to 4.2 neither command waits for its virtual users, and the end of the script ends them.
_BUILD = ("buildschema", "if {[llength [info commands waittocomplete]]} { waittocomplete }", "exit")
_RUN = (
    "loadscript",
    "vuset vu @THREADS@",
    "vuset delay 20",
    "vucreate",
    "vurun",
    "vwait dballoc_ends_it",
)


def _word(value: object) -> str:
    """Quote a word for Tcl, so that it stands for itself."""
    return re.sub(r"([^\w./-])", r"\\\1", str(value))


def failure(printed: str) -> str | None:
    """Return the error of one of its virtual users, in HammerDB's words; None if none failed."""
    if "FINISHED FAILED" not in printed:
        return None
    lines = [line.strip() for line in printed.splitlines()]
    errors = [line for line in lines if line.startswith("Error in Virtual User")]
    return (errors or [line for line in lines if "FINISHED FAILED" in line])[0]


def last_word(printed: str) -> str:
    """Return its last line, or say that there is none."""
    lines: Sequence[str] = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
