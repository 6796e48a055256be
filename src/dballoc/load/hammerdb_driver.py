"""Drive HammerDB, as a process of its own: run hammerdbcli, read every second how much the server
has done, end it in time.

HammerDB counts its transactions from the server's Com_commit and Com_rollback, and so does this
module; but HammerDB does it by the minute and into files of its own. Reports and totals go to the
file that sysbench's would go to (:mod:`dballoc.load.client_output`), without latencies, because
HammerDB has none by the second. HammerDB's output stays on our standard output, with its NOPM: new
orders per minute.
"""

import configparser
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import pymysql
from pymysql.cursors import DictCursor

from dballoc.host.exit_status import end_process
from dballoc.load import hammerdb_command
from dballoc.load.hammerdb_command import DATABASE, HammerDBTask

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
# Seconds until all its clients must be at work, and until it must have ended after a signal.
_TO_BEGIN = 45.0
_TO_END = 2.0
_POLL = 0.1
_INTERVAL = 1.0

_COUNTERS = (
    "Com_commit",
    "Com_rollback",
    "Com_select",
    "Com_insert",
    "Com_update",
    "Com_delete",
    "Queries",
)
_STATUS = f"SHOW GLOBAL STATUS WHERE Variable_name IN {_COUNTERS}"
_ORDERS = f"SELECT SUM(d_next_o_id) AS n FROM {DATABASE}.district"


class _Failed(Exception):
    """There is no result; the text says why, in one line."""


class _ServerConnection:
    """Our own connection to the server, without a database, so that it is not taken for a
    client.
    """

    def __init__(self, account: Mapping[str, str]) -> None:
        port = int(account.get("port", 0))
        self._connection = pymysql.connect(
            host=account.get("host", "localhost"),
            port=port,
            unix_socket=account.get("socket"),
            user=account["user"],
            password=account["password"],
            autocommit=True,
            connect_timeout=10,
            read_timeout=60,
            ssl_disabled="socket" in account,
        )

    def close(self) -> None:
        """Close the connection without an error, because the server may be gone."""
        try:
            self._connection.close()
        except pymysql.Error:
            pass

    @property
    def mariadb(self) -> bool:
        return "MariaDB" in self.rows("SELECT VERSION() AS v")[0]["v"]

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return all rows of a query, by column."""
        with self._connection.cursor(DictCursor) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def number(self, sql: str) -> int:
        """Return the number that a query selects as n."""
        return int(self.rows(sql)[0]["n"])

    def counters(self) -> dict[str, int]:
        """Return the server's counters since its start."""
        return {row["Variable_name"]: int(row["Value"]) for row in self.rows(_STATUS)}

    def clients(self) -> int:
        """Return how many sessions are connected to HammerDB's database."""
        return sum(row["db"] == DATABASE for row in self.rows("SHOW PROCESSLIST"))


class _RunningHammerDB:
    """hammerdbcli running a script, in its own directory, with all its files in ``work``."""

    def __init__(self, task: HammerDBTask, text: str, work: Path) -> None:
        path = work / "dballoc.tcl"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        self._printed = work / "printed.txt"
        executable = Path(task.executable)
        with self._printed.open("wb") as out:
            # In our process group, so that whoever ends us ends it too; the kernel does so if only
            # we are killed.
            env = {**os.environ, "TMP": str(work), "TMPDIR": str(work)}
            self._process = subprocess.Popen(
                [str(executable), "auto", str(path)],
                cwd=executable.parent,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )

    @property
    def text(self) -> str:
        """Everything that it has printed."""
        return self._printed.read_text(errors="replace")

    def ended(self) -> bool:
        """Whether it has ended. _Failed if one of its clients has failed."""
        if message := hammerdb_command.failure(self.text):
            raise _Failed(message)
        return self._process.poll() is not None

    def wait_for_end(self) -> int:
        """Wait until it has ended, and return its status. _Failed as :meth:`ended`."""
        while not self.ended():
            time.sleep(_POLL)
        return self._process.returncode

    def stop(self) -> None:
        """End it, because it does not end by itself."""
        self._process.terminate()
        end_process(self._process, _TO_END)


def _die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _prepare(task: HammerDBTask, server: _ServerConnection, program: _RunningHammerDB) -> None:
    status = program.wait_for_end()
    try:
        made = server.number(f"SELECT COUNT(*) AS n FROM {DATABASE}.warehouse")
    except pymysql.Error:
        made = 0
    if made != task.warehouses:
        raise _Failed(
            f"HammerDB made {made} of {task.warehouses} warehouses (exit status {status}): "
            f"{hammerdb_command.last_word(program.text)}"
        )


def _begin(task: HammerDBTask, server: _ServerConnection, program: _RunningHammerDB) -> None:
    """Wait until all clients are connected and the first work is done."""
    deadline = time.monotonic() + _TO_BEGIN
    before = _transactions(server.counters())
    while (connected := server.clients()) < task.threads or _transactions(
        server.counters()
    ) == before:
        if program.ended():
            raise _Failed(
                f"HammerDB ended before its run: {hammerdb_command.last_word(program.text)}"
            )
        if time.monotonic() > deadline:
            message = hammerdb_command.last_word(program.text)
            doing = "and did nothing " if connected >= task.threads else ""
            raise _Failed(
                f"{connected} of HammerDB's {task.threads} clients were connected {doing}after "
                f"{_TO_BEGIN:.0f} s: {message}"
            )
        time.sleep(_POLL)


def _run(task: HammerDBTask, server: _ServerConnection, program: _RunningHammerDB) -> None:
    _begin(task, server, program)
    orders = server.number(_ORDERS)
    first = last = server.counters()
    began = before = time.monotonic()
    with open(int(os.environ["DBALLOC_INTERVALS"]), "a", encoding="utf-8") as out:
        while before - began < task.seconds - _POLL:
            until = min(before + _INTERVAL, began + task.seconds)
            while (remaining := until - time.monotonic()) > 0:
                if program.ended():
                    raise _Failed(
                        "HammerDB ended before its time: "
                        f"{hammerdb_command.last_word(program.text)}"
                    )
                time.sleep(min(_POLL, remaining))
            counters, now = server.counters(), time.monotonic()
            _write(
                out,
                "interval",
                clock=now,
                elapsed=now - began,
                threads=task.threads,
                before=last,
                after=counters,
                time_interval=now - before,
                latency_pct=None,
            )
            last, before = counters, now
        seconds = before - began
        _write(
            out,
            "total",
            clock=before,
            elapsed=seconds,
            threads=task.threads,
            before=first,
            after=last,
            latency_min=None,
            latency_avg=None,
            latency_max=None,
        )
    minutes = seconds / 60
    new, finished = server.number(_ORDERS) - orders, _transactions(last) - _transactions(first)
    print(f"dballoc: {new / minutes:.0f} NOPM and {finished / minutes:.0f} TPM in {seconds:.1f} s")


def _transactions(counters: Mapping[str, int]) -> int:
    return counters["Com_commit"] + counters["Com_rollback"]


def _write(
    out: TextIO,
    kind: str,
    *,
    clock: float,
    elapsed: float,
    threads: int,
    before: Mapping[str, int],
    after: Mapping[str, int],
    **more: float | None,
) -> None:
    """Write one line as sysbench's hook does (load/lua/dballoc.lua). Our own queries are not
    counted as load.
    """
    changes = {name: after[name] - before[name] for name in _COUNTERS}
    writes = changes["Com_insert"] + changes["Com_update"] + changes["Com_delete"]
    queries = max(changes["Queries"] - round(elapsed if kind == "total" else 1), 0)
    line = {
        "kind": kind,
        "clock": clock,
        "time_total": elapsed,
        "threads_running": threads,
        "events": changes["Com_commit"] + changes["Com_rollback"],
        "reads": changes["Com_select"],
        "writes": writes,
        "other": max(queries - changes["Com_select"] - writes, 0),
        "errors": 0,
        "reconnects": 0,
        **more,
    }
    print(json.dumps(line), file=out, flush=True)


def main(task: HammerDBTask) -> int:
    """Run the task. Return 0, or 1 after a line ``FATAL: …``."""
    option_file = configparser.ConfigParser(interpolation=None)
    option_file.read(task.account, encoding="utf-8")
    account = dict(option_file["client"])
    work = Path(tempfile.mkdtemp(prefix="hammerdb-", dir=task.work))
    server = program = None
    try:
        server = _ServerConnection(account)
        program = _RunningHammerDB(
            task, hammerdb_command.script(task, server.mariadb, account), work
        )
        (_run if task.verb == "run" else _prepare)(task, server, program)
    except (_Failed, pymysql.Error, OSError) as error:
        print(f"FATAL: {error}")
        return 1
    finally:
        if program:
            program.stop()
            sys.stdout.write(program.text)
        if server:
            server.close()
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(HammerDBTask(**json.loads(sys.argv[1]))))
