"""What a client host is asked, and what it answers: one message a line, JSON. The driver hands them
on between the two hosts of a block, after checking them. No password is in them but encrypted.
"""

import ipaddress
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dballoc.campaign.elsewhere.message_limits import LONGEST_LINE
from dballoc.experiment import experiment_file
from dballoc.experiment.flag import Engine
from dballoc.experiment.model import MOST_CLIENTS, Experiment
from dballoc.ground import readers
from dballoc.load.workload_files import MOST_BYTES, write_workload_files

# The most characters of what a client prints, and of its reports: 300 a second for a day.
MOST_PRINTED = 4 * readers.MIB
MOST_REPORTS = 32 * readers.MIB

_Text = Annotated[str, Field(max_length=10_000)]
_CertificateName = Annotated[str, Field(pattern=r"^(cacert|client-cert|client-key)\.pem$")]
_Pem = Annotated[str, Field(max_length=10_000, pattern=r"^[ -~\n]+$")]
_Number = Annotated[int, Field(ge=1, le=10**9)]
_Seconds = Annotated[float, Field(ge=0, le=1e9)]
_Bytes = Annotated[int, Field(ge=0, le=2**62)]
# Bits a second.
_Link = Annotated[int, Field(ge=1, le=10**15)]
_Share = Annotated[float, Field(ge=0, le=1)]


def _check_address(text: str) -> str:
    return str(ipaddress.ip_address(text))


# The files of own workloads, base64, by workload.
WorkloadFiles = Annotated[
    dict[_Text, Annotated[str, Field(max_length=2 * MOST_BYTES)]], Field(max_length=100)
]


# It becomes a part of SQL and of a command line.
IpAddress = Annotated[str, Field(max_length=100), AfterValidator(_check_address)]


class HostMessage(BaseModel):
    """A message from one host to another."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class HostRequest(HostMessage):
    """What a process of a block is started with. ``dballoc``: the version that asks;
    ``experiment``: TOML; ``lease``: seconds after the last word of the driver in which the host
    ends everything; ``workload_files``: those of own workloads
    (:mod:`dballoc.load.workload_files`).
    """

    ASKER: ClassVar[str]

    dballoc: _Text
    experiment: Annotated[str, Field(max_length=4 * readers.MIB)]
    lease: Annotated[float, Field(gt=0, le=3600)]
    workload_files: WorkloadFiles = {}

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Parse a request. Raises Unfit if the bytes are not one."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise readers.Unfit(
                f"not a {cls.ASKER}'s request: {readers.first_complaint(error)}"
            ) from None

    def build_experiment(self, directory: Path) -> Experiment:
        """Write the files of own workloads into ``directory``, and return the experiment with them.
        Raises Unfit or UsageError.
        """
        table = experiment_file.parse_table(self.experiment, "the experiment")
        table = write_workload_files(table, self.workload_files, directory)
        return experiment_file.build_experiment(table, "the experiment")


class ClientRequest(HostRequest):
    """What a client host is started with. ``server``: the address of the only host that it may
    load; ``shares_kernel``: whether that host has the same kernel.
    """

    ASKER = "client"

    server: IpAddress
    shares_kernel: bool


class LoadRequested(HostMessage):
    """A load is to begin. ``seconds`` 0: until it ends by itself; ``port``: where the server
    listens; ``password``: of its account for loads, encrypted for this client host, base64;
    ``certificates``: the files for an encrypted connection, PEM, which open nothing without it.
    """

    kind: Literal["load"] = "load"
    number: _Number
    workload: _Text
    threads: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]
    seconds: _Seconds
    engine: Engine
    port: Annotated[int, Field(ge=1, le=65535)]
    password: Annotated[str, Field(max_length=2000)]
    certificates: dict[_CertificateName, _Pem] = {}


class LoadStopped(HostMessage):
    """A load is to end at once."""

    kind: Literal["stop load"] = "stop load"
    number: _Number


class ClientReady(HostMessage):
    """The client host can begin. ``key``: with which passwords are encrypted for it, PEM;
    ``sysbench``: the version of its own.
    """

    kind: Literal["client ready"] = "client ready"
    key: Annotated[str, Field(max_length=4000)]
    sysbench: _Text


class ClientFigures(HostMessage):
    """What the client host did during a load. ``seconds``: from its first report to its last
    (:mod:`dballoc.campaign.elsewhere.client.client_readings`); ``cpu``: CPU seconds of the client
    itself; ``cpus``: those that it may use, by its affinity and its cgroups' quota; ``busy``: the
    share of the host's CPU time that was used or stolen; ``throttled``: the share of the quota's
    periods in which that was used up; ``received``, ``sent``: bytes over the interface to the
    server; ``link``: its speed, bits a second, None where the system does not tell; ``round_trip``:
    seconds of the fastest of some cheap statements before the load.
    """

    seconds: _Seconds
    cpu: _Seconds
    cpus: Annotated[int, Field(ge=1, le=100_000)]
    busy: _Share
    throttled: _Share
    received: _Bytes
    sent: _Bytes
    link: _Link | None
    round_trip: _Seconds


class LoadFinished(HostMessage):
    """A load has ended. ``status``: of the client, negative for a signal; ``user``, ``system``: its
    CPU seconds; ``printed``, ``reports``: the texts that it wrote; ``ahead``: seconds by which the
    Unix time of the server's host is ahead of the CLOCK_MONOTONIC of the client's. The last two are
    None for a load that could not begin, and ``printed`` says why.
    """

    kind: Literal["load finished"] = "load finished"
    number: _Number
    status: Annotated[int, Field(ge=-255, le=255)]
    user: _Seconds = 0.0
    system: _Seconds = 0.0
    printed: Annotated[str, Field(max_length=MOST_PRINTED)]
    reports: Annotated[str, Field(max_length=MOST_REPORTS)] = ""
    ahead: Annotated[float, Field(ge=-1e12, le=1e12)] | None = None
    figures: ClientFigures | None = None


T = TypeVar("T")

ToClient = LoadRequested | LoadStopped
FromClient = ClientReady | LoadFinished

_TO_CLIENT: TypeAdapter[ToClient] = TypeAdapter(Annotated[ToClient, Field(discriminator="kind")])
_FROM_CLIENT: TypeAdapter[FromClient] = TypeAdapter(
    Annotated[FromClient, Field(discriminator="kind")]
)


def parse_to_client(line: bytes) -> ToClient:
    """Parse a line of the server's host for the client's. Raises Unfit if it is not one."""
    return parse_line(_TO_CLIENT, line)


def parse_from_client(line: bytes) -> FromClient:
    """Parse a line of the client's host for the server's. Raises Unfit if it is not one."""
    return parse_line(_FROM_CLIENT, line)


def parse_line(adapter: TypeAdapter[T], line: bytes) -> T:
    """Parse a line by the strict reader of JSON: bounded depth, no NaN. Raises Unfit if it is no
    message of the adapter's.
    """
    if len(line) > LONGEST_LINE:
        raise readers.Unfit("a message is too long")
    try:
        return adapter.validate_python(readers.document(line))
    except ValidationError as error:
        raise readers.Unfit(f"not a message: {readers.first_complaint(error)}") from None
