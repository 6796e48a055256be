"""The server's side of a client on another host: it asks for loads, and reads what they were."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pymysql
from pydantic import BaseModel, ConfigDict, Field

from dballoc.campaign.elsewhere.client import network_link, password_seal
from dballoc.campaign.elsewhere.client.load_messages import (
    ClientFigures,
    ClientReady,
    FromClient,
    IpAddress,
    LoadFinished,
    LoadRequested,
    LoadStopped,
    ToClient,
    parse_from_client,
)
from dballoc.campaign.elsewhere.client.pipe_lines import PipeLines
from dballoc.experiment.trial_steps import Step
from dballoc.ground import readers
from dballoc.ground.errors import Failure
from dballoc.ground.files.output_directory import write_own
from dballoc.host.guardian.guardian_client import Exit
from dballoc.load import client
from dballoc.load.client_output import Follower, IntervalReport, Total
from dballoc.servers.private.admin_connection import Admin
from dballoc.servers.private.certificate_files import read_client_files
from dballoc.servers.private.command_line import Address
from dballoc.store.rows import ClientStepRow

# Shares from which something is the limit: of the CPU time that the client could have used; of all
# CPU time of its host; of the periods of its CPU quota in which that was used up; of the link's
# speed in one direction.
CLIENT_CPU = 0.85
HOST_CPU = 0.95
THROTTLED = 0.05
LINK = 0.90

# The account with which loads come from another host.
ACCOUNT = "dballoc_load"
# ER_CANNOT_USER: the data have it from the server that was on them before.
_IS_THERE = 1396
# Seconds in which the client host must be ready, and in which a load must end that was stopped.
_READY = 120.0
_STOPPED = 60.0


class ClientHostFailed(Failure):
    """The client host of a block does not do what it should; the server's is not to blame."""


class ClientPlace(BaseModel):
    """Where the clients of a block are. ``host``: the client host's name; ``address``: from which
    its loads come; ``listen``: the server host's own address; ``shares_kernel``: whether both
    hosts have one kernel.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    host: str = Field(max_length=10_000)
    address: IpAddress
    listen: IpAddress
    shares_kernel: bool


@dataclass
class RemoteLoads:
    """The loads of one block; a :class:`dballoc.campaign.trial.client_host.ClientHost`.
    ``send`` hands a message to the client host, whose lines come in ``lines``; ``cpu_seconds``:
    what the clients used so far.
    """

    place: ClientPlace
    send: Callable[[ToClient], None]
    lines: PipeLines
    cpu_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._password = password_seal.make_password()
        self._sealed = ""
        self._number = 0
        self._link: int | None = None

    @property
    def listen(self) -> str:
        """The address on which the block's servers listen."""
        return self.place.listen

    def wait_until_ready(self) -> str:
        """Wait until the client host is ready, and return the version of its sysbench. Raises
        ClientHostFailed if it is not in time.
        """
        message = self.read(_READY)
        if not isinstance(message, ClientReady):
            raise ClientHostFailed(
                f"the client host {self.place.host} did not begin within {_READY:.0f} s"
            )
        try:
            self._sealed = password_seal.seal(self._password, message.key)
        except readers.Unfit as error:
            raise ClientHostFailed(str(error)) from None
        self._link = network_link.read_speed(network_link.find_interface(self.listen))
        return message.sysbench

    def read(self, timeout: float) -> FromClient | None:
        """Return the next message of the client host; None if none comes in so many seconds. Raises
        ClientHostFailed for anything else, Failure if the driver is gone.
        """
        line = self.lines.read(timeout)
        if line is None:
            return None
        try:
            return parse_from_client(line)
        except readers.Unfit as error:
            raise ClientHostFailed(f"the client host {self.place.host}: {error}") from None

    def open_account(self, admin: Admin, database: str) -> None:
        """Make an account that may come from the client host alone, and has the load's database
        alone. Raises pymysql.Error as it comes.
        """
        account = f"'{ACCOUNT}'@'{self.place.address}'"
        create = f"CREATE USER {account} IDENTIFIED BY '{self._password}'"
        try:
            admin.rows(create)
        except pymysql.Error as error:
            if error.args[0] != _IS_THERE:
                raise
            admin.rows(f"DROP USER {account}")
            admin.rows(create)
        admin.rows(f"GRANT ALL ON `{database}`.* TO {account}")

    def start_client(self, step: Step, engine: str, address: Address, raw: Path) -> "RemoteClient":
        """Ask for the load of a step; it begins a moment later."""
        assert step.workload and step.threads and address.port
        self._number += 1
        self.send(
            LoadRequested(
                number=self._number,
                workload=step.workload,
                threads=step.threads,
                seconds=step.seconds,
                engine=engine,  # type: ignore[arg-type]
                port=address.port,
                password=self._sealed,
                certificates=read_client_files(address.certificates),
            )
        )
        return RemoteClient(self, self._number, step, raw)

    def explain_limit(self, finished: LoadFinished, step: Step) -> str | None:
        """Return why a level did not measure the server; None if it did."""
        if step.kind != "level" or finished.figures is None:
            return None
        limit = find_client_limit(
            finished.figures,
            step.threads or 1,
            self.place.shares_kernel,
            self.find_link_speed(finished.figures),
        )
        return f"{limit} (client host {self.place.host})" if limit else None

    def find_link_speed(self, figures: ClientFigures) -> int | None:
        """Return the speed of the slower of both hosts' interfaces, bits a second; None if neither
        tells it.
        """
        return min((link for link in (figures.link, self._link) if link), default=None)


class RemoteClient:
    """One load; a :class:`dballoc.campaign.trial.client_host.DistantClient`."""

    program = "sysbench"
    reports_live = False
    # For the server's clock.
    own_connections = 1

    def __init__(self, loads: RemoteLoads, number: int, step: Step, raw: Path) -> None:
        self._loads = loads
        self._number = number
        self._step = step
        self._printed = raw / f"{self.program}-{step.file_name}.txt"
        self._follower = Follower(raw / f"intervals-{step.file_name}.jsonl")
        self._finished: LoadFinished | None = None
        self._ahead = 0.0

    def wait(self, timeout: float) -> Exit | None:
        """Return how it ended, or None if it has not within ``timeout`` seconds."""
        if self._finished is None:
            message = self._loads.read(timeout)
            # An answer of another number is of a load that was stopped.
            if not isinstance(message, LoadFinished) or message.number != self._number:
                return None
            self._keep(message)
        assert self._finished
        return Exit(
            status=self._finished.status,
            user=self._finished.user,
            system=self._finished.system,
            voluntary=0,
            involuntary=0,
        )

    def _keep(self, finished: LoadFinished) -> None:
        self._finished = finished
        self._loads.cpu_seconds += finished.user + finished.system
        write_own(self._printed, finished.printed)
        write_own(self._follower.path, finished.reports)
        # What the client host's clock must be added to, to be this host's.
        self._ahead = (finished.ahead or 0.0) - (time.time() - time.monotonic())

    def reports(self) -> Iterator[IntervalReport]:
        """Return all reports, in this host's time, once it has ended."""
        for report in self._follower.new():
            yield replace(report, clock=report.clock + self._ahead)

    def kill(self) -> None:
        """End it at once, and wait until it has ended. Raises ClientHostFailed if it does not."""
        self._loads.send(LoadStopped(number=self._number))
        deadline = time.monotonic() + _STOPPED
        while self.wait(1.0) is None:
            if time.monotonic() > deadline:
                host = self._loads.place.host
                raise ClientHostFailed(f"the client host {host} does not end its load")

    def make_row(self) -> ClientStepRow | None:
        """Return the row of table ``client_step``; None of a load that could not begin."""
        if self._finished is None or self._finished.figures is None:
            return None
        figures = self._finished.figures
        return ClientStepRow(
            step=self._step.number,
            host=self._loads.place.host,
            **figures.model_dump(exclude={"link"}),
            link=self._loads.find_link_speed(figures),
        )

    def result(self, ended: Exit) -> client.Result:
        """Return its totals. Raises ClientFailed if there are none, or if they are not the
        server's.
        """
        assert self._finished
        result = client.make_result(
            self.program, self._finished.printed, self._follower.total, ended
        )
        if limit := self._loads.explain_limit(self._finished, self._step):
            raise client.ClientFailed(limit)
        return replace(result, total=_move(result.total, self._ahead))


def _move(total: Total, ahead: float) -> Total:
    return replace(total, clock=total.clock + ahead)


# -- the client's limit ----------------------------------------------------------------------------


def find_client_limit(
    figures: ClientFigures, threads: int, shares_kernel: bool, link: int | None
) -> str | None:
    """Return in words why a load's figures are the client's; None if they are the server's.
    ``threads``: of the client, each using one CPU at most; ``shares_kernel``: server and client
    have the same CPUs, whose use tells nothing then; ``link``: speed of the slower of both hosts'
    interfaces, bits a second, None if it is not known.
    """
    if not figures.seconds:
        return None
    if figures.throttled >= THROTTLED:
        return (
            f"the client is the limit: its CPU quota stopped it in {figures.throttled:.0%} of the "
            "quota's periods; raise that quota or remove it (a pod's CPU limit, docker --cpus, "
            "systemd's CPUQuota)"
        )
    usable = min(threads, figures.cpus)
    own_share = figures.cpu / (figures.seconds * usable)
    if own_share >= CLIENT_CPU:
        return (
            f"the client is the limit: it used {own_share:.0%} of the {usable} CPUs that it could "
            "use; take a client host with more or faster CPUs"
            + (", or more clients" if threads < figures.cpus else "")
        )
    if not shares_kernel and figures.busy >= HOST_CPU:
        return (
            f"the client host is the limit: its CPUs were {figures.busy:.0%} busy; take one with "
            "more CPUs that runs nothing else"
        )
    bits = 8 * max(figures.received, figures.sent) / figures.seconds
    if link and bits >= LINK * link:
        return (
            f"the network is the limit: {bits / 1e6:,.0f} Mbit/s over a link of "
            f"{link / 1e6:,.0f}; take a faster one, or a workload with less data"
        )
    return None
