"""HammerDB's TPROC-C: where it is installed, its scripts, the command that drives it. The driving
is :mod:`.hammerdb_run`'s.

Commands, settings and words are those of HammerDB 4 and 5 (its documentation, chapters 8 and 9, and
``config/*.xml``).
"""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import dballoc
from dballoc.errors import UsageError
from dballoc.load.workload import Workload

# The schema's database; HammerDB makes it itself, beside the experiment's own.
DATABASE = "tpcc"
# The workload's option that says who drives it, and what it may say; the first is the default.
OPTION = "driver"
DRIVERS = ("installed", "hammerdb", "sysbench")
# Options that HammerDB can be told too. It knows no others of our Lua's.
_OPTIONS = ("warehouses",)
_PLACES = ("/opt", "/usr/local")
# Minutes that its timed driver would go on by itself: it counts in minutes, and we end it by the
# second.
_FOREVER = 100_000


@dataclass(frozen=True)
class HammerDB:
    """``executable``: hammerdbcli, which runs in its own directory only; ``content``: its hash."""

    executable: Path
    version: str
    content: str

    @property
    def does(self) -> str:
        """What a workload is that it drives. A version may not be known."""
        name = f"HammerDB {self.version}".strip()
        return (
            f"{name}'s TPROC-C, with its schema and procedures; transactions are commits and "
            "rollbacks"
        )


def find() -> HammerDB | None:
    """The machine's: on the PATH, else the highest version below /opt or /usr/local; None without
    one.
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
    content = candidates[0].read_bytes()
    name = candidates[0].parent.name
    version = re.search(r'hdb_version\s+"?v?(\d[\w.]*)', content.decode("latin-1")) or re.search(
        r"-(\d[\w.]*)$", name
    )
    return HammerDB(
        candidates[0], version[1] if version else "", hashlib.sha256(content).hexdigest()
    )


def _numbers(name: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", name)]


def settle(work: Workload) -> Workload:
    """Who drives a workload that HammerDB could drive: HammerDB where it is installed and knows all
    the options, else our Lua. UsageError for one that is asked for and cannot.
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
    unknown = [name for name in options if name not in _OPTIONS]
    if driver == "sysbench" or (driver == DRIVERS[0] and unknown):
        return hammerdb_work
    if unknown:
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
class Task:
    """What :mod:`.hammerdb_run` is told. ``account``: an option file with the server's address and
    our account; ``seconds`` and ``prepared`` for a run; ``work``: where HammerDB may make files.
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


def prepare(work: Workload, threads: int, engine: str, account: Path, place: Path) -> Task:
    """The making of its data."""
    warehouses = int(work.options["warehouses"])
    return Task(
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
) -> Task:
    """A run. ``prepared``: whether it calls its procedures as prepared statements."""
    task = prepare(work, threads, engine, account, place)
    return replace(task, verb="run", seconds=max(1, seconds), prepared=prepared)


def command(task: Task) -> list[str]:
    """The program that drives HammerDB. It has no password in it."""
    return [sys.executable, "-m", "dballoc.load.hammerdb_driver", json.dumps(asdict(task))]


def environment(place: Path) -> dict[str, str]:
    """Its environment: nothing of the server's variant. HammerDB finds the server's client library
    by LD_LIBRARY_PATH.
    """
    return {
        **{
            name: os.environ[name]
            for name in ("PATH", "LANG", "LD_LIBRARY_PATH")
            if name in os.environ
        },
        "HOME": str(place),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(dballoc.__file__).parent.parent), *filter(None, sys.path)]
        ),
    }


def needed_files(work: Workload) -> list[Path]:
    """What whoever runs HammerDB must be able to read."""
    return (
        [Path(work.script), Path(sys.executable), Path(__file__)]
        if work.driver == "hammerdb"
        else []
    )


def script(task: Task, mariadb: bool, account: Mapping[str, str]) -> str:
    """The Tcl that hammerdbcli reads. ``account``: of the option file. It has the password in it:
    keep it to ourselves.
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
        # draws a home warehouse and keeps it, so that starts differ by which clients meet; with all
        # warehouses they are dealt out evenly.
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


# Up to 4.2 neither command waits for its virtual users, and what ends the script ends them.
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
    """A word of Tcl that stands for itself."""
    return re.sub(r"([^\w./-])", r"\\\1", str(value))


def failure(printed: str) -> str | None:
    """What one of its virtual users failed of, in HammerDB's words; None if none has."""
    if "FINISHED FAILED" not in printed:
        return None
    lines = [line.strip() for line in printed.splitlines()]
    errors = [line for line in lines if line.startswith("Error in Virtual User")]
    return (errors or [line for line in lines if "FINISHED FAILED" in line])[0]


def last_word(printed: str) -> str:
    """Its last line, or that there is none."""
    lines: Sequence[str] = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
