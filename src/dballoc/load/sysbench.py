"""Drive sysbench: its command, its configuration file, its environment."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dballoc.catalogue import look_up, workloads
from dballoc.errors import UsageError
from dballoc.experiment.model import Data, Load
from dballoc.servers.options import Address
from dballoc.servers.sql import DATABASE, USER

_SHARE = ("/usr/share/sysbench", "/usr/local/share/sysbench")


@dataclass(frozen=True)
class Sysbench:
    """The executable, its version, and where its scripts lie."""

    executable: Path
    version: str
    share: Path


@cache
def find() -> Sysbench:
    """The machine's sysbench, 1.0 or later. UsageError if there is none."""
    executable = shutil.which("sysbench")
    if executable is None:
        raise UsageError("sysbench is not on this machine; install it: apt-get install sysbench")
    done = subprocess.run([executable, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"sysbench (\d+\.\d+\S*)", done.stdout)
    if done.returncode != 0 or not found:
        last = (done.stderr or done.stdout).strip().splitlines()
        raise UsageError(f"{executable} does not run: {last[-1] if last else f'exit status {done.returncode}'}")
    if found[1].startswith("0."):
        raise UsageError(f"{executable} is sysbench {found[1]}; dballoc needs 1.0 or later")
    near = Path(executable).resolve().parent.parent / "share/sysbench"
    for share in (near, *map(Path, _SHARE)):
        if (share / "oltp_common.lua").exists():
            return Sysbench(Path(executable), found[1], share)
    raise UsageError(f"{executable} has no scripts: no oltp_common.lua in {near}")


def workload(name: str) -> dict[str, Any]:
    """The workload's catalogue row. UsageError if there is none of that name."""
    row: dict[str, Any] = look_up(workloads(), name, "workload")
    return row


def statements(name: str, threads: int, tables: int, load: Load) -> int:
    """Prepared statements that ``threads`` clients hold at once."""
    return threads * tables * workload(name)["prepared"] if load.prepared_statements else 0


def tables_options(data: Data, engine: str) -> dict[str, str]:
    """Options that prepare and run must agree on."""
    return {"tables": str(data.tables), "table-size": str(data.rows), "mysql-storage-engine": engine}


def run_options(name: str, threads: int, seconds: float, data: Data, engine: str, load: Load) -> dict[str, str]:
    """The options of a run. What sysbench leaves to a default of its version is said outright."""
    row = workload(name)
    options = {
        **tables_options(data, engine),
        "threads": str(threads),
        "time": f"{max(1, round(seconds))}",
        "events": "0",
        "report-interval": "1",
        "percentile": str(load.percentile),
        "histogram": "on",
        "rand-type": load.random,
        "db-ps-mode": "auto" if load.prepared_statements else "disable",
        **{k.replace("_", "-"): v for k, v in {**row.get("options", {}), **load.options}.items()},
    }
    return options


def connection_options(address: Address, password: str) -> dict[str, str]:
    """How sysbench reaches the server: the socket, or TCP where the experiment says so."""
    where = {"mysql-socket": str(address.socket)} if address.port is None else {
        "mysql-host": "127.0.0.1", "mysql-port": str(address.port)}  # fmt: skip
    return {**where, "mysql-user": USER, "mysql-password": password, "mysql-db": DATABASE, "db-driver": "mysql"}


def write_config(path: Path, options: dict[str, str]) -> Path:
    """A configuration file that only we can read: a password is never an argument."""
    path.touch(mode=0o600)
    path.write_text("".join(f"{k}={v}\n" for k, v in options.items()), encoding="utf-8")
    return path


def command(sysbench: Sysbench, config: Path, verb: str, options: dict[str, str]) -> list[str]:
    """``verb`` is run or prepare. A script's own options work on the command line only, not in the file."""
    given = [f"--{k}={v}" for k, v in options.items()]
    return [str(sysbench.executable), f"--config-file={config}", str(_lua() / "dballoc.lua"), *given, verb]


def environment(sysbench: Sysbench, name: str, intervals: Path) -> dict[str, str]:
    """The client's environment: nothing of the server's variant."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LUA_PATH": f"{_lua()}/?.lua;{sysbench.share}/?.lua;;",
        "DBALLOC_SCRIPT": workload(name)["script"],
        "DBALLOC_INTERVALS": str(intervals),
    }


def _lua() -> Path:
    return Path(str(files("dballoc.load") / "lua"))
