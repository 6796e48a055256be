"""Run a client, sysbench or HammerDB, and read its reports as they come."""

import shlex
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dballoc.experiment.model import Data, Load
from dballoc.host.guardian.guardian_client import Child, Custody, Exit
from dballoc.host.unprivileged.private_file import write_private
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load import client_output, hammerdb_command, sql_workload, sysbench_command
from dballoc.load.client_output import Follower, IntervalReport
from dballoc.load.sysbench_command import Beside
from dballoc.load.transaction_counter import COUNTER, TransactionCounter
from dballoc.load.workload import Workload
from dballoc.servers.private.admin_connection import USER
from dballoc.servers.private.certificate_files import AUTHORITY
from dballoc.servers.private.command_line import Address

_OPTION_FILE = "client.cnf"
# The environment variable that tells a client where its reports go.
INTERVALS = "DBALLOC_INTERVALS"


@dataclass(frozen=True, kw_only=True)
class ClientJob:
    """One client's job. ``seconds`` 0: until its workload ends by itself; ``program``: the program
    that its workload runs.
    """

    workload: str
    threads: int
    seconds: float
    data: Data
    engine: str
    load: Load
    program: Path | None = None


@dataclass(frozen=True)
class Places:
    """``connection``: see :func:`connection_file`; the client's certificates, if there are any, are
    beside it; ``work``: a directory in which the client may make files.
    """

    connection: Path
    work: Path


@dataclass(frozen=True)
class Result:
    """The totals of a run that ended well. ``histogram``: (milliseconds, count) per bucket."""

    total: client_output.Total
    histogram: list[tuple[float, int]]


class ClientFailed(Exception):
    """The client failed, or wrote no totals."""


class RunningClient(Protocol):
    """A client that runs, here or on another host. ``reports_live``: whether its reports come while
    it runs, or all at its end; ``own_connections``: those to the server that are dballoc's and no
    part of the load.
    """

    program: str
    reports_live: bool
    own_connections: int

    def reports(self) -> Iterator[IntervalReport]:
        """Return the reports since the last call."""

    def wait(self, timeout: float) -> Exit | None:
        """Return how it ended, or None if it has not within ``timeout`` seconds."""

    def kill(self) -> None:
        """Kill it at once."""

    def result(self, ended: Exit) -> Result:
        """Return the totals of a run that has ended and whose reports were read.
        Raises ClientFailed, with the client's message, if there are none.
        """


class Client:
    """One run of ``program``. ``printed`` and the intervals' file are raw files that are kept."""

    reports_live = True

    def __init__(self, program: str, child: Child, printed: Path, follower: Follower) -> None:
        self.program = program
        # Our driver of HammerDB reads the counters of the server.
        self.own_connections = 1 if program == "hammerdb" else 0
        self._child = child
        self._printed = printed
        self._follower = follower

    def reports(self) -> Iterator[IntervalReport]:
        """Return the reports since the last call."""
        return self._follower.new()

    @property
    def pid(self) -> int:
        """The PID of the client; hammerdbcli is a child of it."""
        return self._child.pid

    def wait(self, timeout: float) -> Exit | None:
        """Return how it ended, or None if it has not within ``timeout`` seconds."""
        return self._child.wait(timeout)

    def kill(self) -> None:
        """Kill it at once."""
        self._child.stop(signal.SIGKILL, 0)

    def result(self, ended: Exit) -> Result:
        """Return the totals of a run that has ended and whose reports were read. ClientFailed, with
        the client's message, if there are none.
        """
        text = self._printed.read_text(errors="replace")
        return make_result(self.program, text, self._follower.total, ended)


def make_result(
    program: str, printed: str, total: client_output.Total | None, ended: Exit
) -> Result:
    """Return the totals of a run of ``program``. ClientFailed, with what it ``printed``, if it
    failed or there are none. Pure.
    """
    if ended.status != 0:
        raise ClientFailed(f"{program} failed ({ended.words}): {client_output.reason(printed)}")
    if total is None:
        raise ClientFailed(f"{program} wrote no totals: {client_output.reason(printed)}")
    return Result(total, client_output.parse_histogram(printed))


def start(
    custody: Custody,
    user: ServerUser,
    bench: sysbench_command.Sysbench,
    job: ClientJob,
    places: Places,
    raw: Path,
    name: str,
    cpus: frozenset[int] | None,
    counter: TransactionCounter | None = None,
) -> Client:
    """Start a run as the server user. Raw files go to ``raw`` as ``*-name.*``: they belong to us,
    and the client may only append to them. ``counter``: where sysbench counts its transactions.
    """
    connection = places.connection
    work = bench.workload(job.workload)
    printed = raw / f"{work.driver}-{name}.txt"
    follower = Follower(raw / f"intervals-{name}.jsonl")
    if work.driver == "hammerdb":
        account, prepared = connection.parent / _OPTION_FILE, work.prepares(job.load)
        task = hammerdb_command.run(
            work,
            job.threads,
            job.seconds,
            engine=job.engine,
            prepared=prepared,
            account=account,
            place=places.work,
        )
        argv, env = hammerdb_command.command(task), hammerdb_command.environment(places.work)
    else:
        options = sysbench_command.run_options(
            work, job.threads, job.seconds, job.data, job.engine, job.load
        )
        argv = sysbench_command.command(bench, connection, "run", options)
        program = program_file(connection.parent, work, user)
        env = sysbench_command.environment(
            bench, work, follower.path, program, beside_command(job, work, places)
        )
    limits = {"cpus": sorted(cpus) if cpus else None, "nofile": max(1024, job.threads + 200)}
    child = custody.spawn(
        argv,
        env,
        printed,
        handed={INTERVALS: str(follower.path)},
        shared={COUNTER: counter.path} if counter else None,
        cwd=connection.parent,
        **limits,
        **user.as_spawn(),
    )
    return Client(work.driver, child, printed, follower)


def program_file(directory: Path, work: Workload, user: ServerUser) -> Path | None:
    """Return the compiled file of a SQL workload, which the client may read; None for a script."""
    if not work.statements:
        return None
    return write_private(
        directory / f"workload-{work.name}.lua", sql_workload.compile_lua(work.statements), user
    )


def beside_command(job: ClientJob, work: Workload, places: Places) -> Beside | None:
    """Return what a job's workload runs beside its clients: a dump of the load's database, or a
    backup of the whole server; None for a job without a program.
    """
    if job.program is None:
        return None
    if work.backup:
        # Streamed, so that it takes no disk but for the log that it copies meanwhile.
        backup = places.work / "backup"
        options = ["--backup", "--stream=xbstream", f"--target-dir={backup}"]
        options.append(f"--tmpdir={places.work}")
    else:
        # MySQL's mysqldump asks for statistics that no other server has; MariaDB's does not know
        # the option that turns that off.
        options = ["--single-transaction", "--quick", "--loose-column-statistics=0"]
        options.append(job.data.database)
    account = f"--defaults-file={places.connection.parent / _OPTION_FILE}"
    words = [str(job.program), account, *options]
    return Beside(shlex.join(words), places.work / "beside.log")


def option_file(directory: Path, address: Address, password: str, user: ServerUser) -> Path:
    """Return an option file with which the server's own client programs connect to it."""
    where = (
        {"socket": str(address.socket)}
        if address.port is None
        else {"host": "127.0.0.1", "port": str(address.port)}
    )
    if address.certificates:
        where["ssl-ca"] = str(address.certificates / AUTHORITY)
    lines = {"user": USER, "password": password, **where}
    return write_private(
        directory / _OPTION_FILE,
        "[client]\n" + "".join(f"{k}={v}\n" for k, v in lines.items()),
        user,
    )


def connection_file(directory: Path, address: Address, password: str, user: ServerUser) -> Path:
    """Return the configuration file with which sysbench connects to a server. An option file for
    the programs that sysbench runs is beside it.
    """
    option_file(directory, address, password, user)
    return sysbench_command.write_config(
        directory / "sysbench.cnf", sysbench_command.connection_options(address, password), user
    )
