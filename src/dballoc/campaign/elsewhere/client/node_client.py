"""Run the loads of a block on this host, as a process of its own:
``python -m dballoc.campaign.elsewhere.client.node_client REQUEST_FD LINES_FD``.

A process as :mod:`dballoc.campaign.elsewhere.node_process` says. What is asked later comes as lines
(:mod:`dballoc.campaign.elsewhere.client.load_messages`).
"""

import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pymysql
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from dballoc.campaign.elsewhere.client import network_link, password_seal
from dballoc.campaign.elsewhere.client.client_readings import LoadReadings
from dballoc.campaign.elsewhere.client.load_messages import (
    MOST_PRINTED,
    MOST_REPORTS,
    ClientFigures,
    ClientReady,
    ClientRequest,
    LoadFinished,
    LoadRequested,
    LoadStopped,
    parse_to_client,
)
from dballoc.campaign.elsewhere.client.pipe_lines import PipeLines
from dballoc.campaign.elsewhere.client.remote_load import ACCOUNT
from dballoc.campaign.elsewhere.client.server_clock import ClockReading, ask_server_clock
from dballoc.campaign.elsewhere.message_stream import MessageStream
from dballoc.campaign.elsewhere.node_process import open_lease, run_process
from dballoc.experiment.model import Experiment
from dballoc.ground import readers
from dballoc.ground.files.remove_tree import remove_tree
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody, Exit
from dballoc.host.unprivileged.private_file import write_private
from dballoc.host.unprivileged.server_user import ServerUser, server_user
from dballoc.load import client, sysbench_command, workload
from dballoc.servers.private.command_line import Address

# Seconds between two looks at a load and at what is asked, and between two requests.
_POLL = 0.02
_IDLE = 5.0
_NAME = "load"


@dataclass(frozen=True, kw_only=True)
class ClientSetting:
    """What all loads of a block share. ``places``: for the client's files; ``raw``: for what it
    reports.
    """

    experiment: Experiment
    server: str
    bench: sysbench_command.Sysbench
    user: ServerUser
    key: RSAPrivateKey
    custody: Custody
    private: Path
    work: Path
    raw: Path


def serve_loads(request: ClientRequest, stream: MessageStream, lines: PipeLines) -> None:
    """Run loads until the other end closes. Raises UsageError or Failure if this host cannot."""
    lease = open_lease(request)
    user = server_user()
    if not request.shares_kernel:
        user.check_alone()
    with Custody(adopt=True, lease=lease) as custody:
        private = directories.make_run_directory(custody.scratch)
        work = directories.make_run_directory(custody.scratch)
        place = Path(tempfile.gettempdir())
        raw = directories.make_fresh_directory(place, "dballoc-client-", custody.scratch)
        scripts = directories.make_fresh_directory(place, "dballoc-own-", custody.scratch)
        user.share(work)
        user.show(scripts)
        user.show(private)
        experiment = request.build_experiment(scripts)
        setting = ClientSetting(
            experiment=experiment,
            server=request.server,
            bench=replace(sysbench_command.find(), workloads=workload.settle(experiment)),
            user=user,
            key=password_seal.make_private_key(),
            custody=custody,
            private=private,
            work=work,
            raw=raw,
        )
        key = password_seal.format_public_key(setting.key)
        stream.send(ClientReady(key=key, sysbench=setting.bench.version))
        while True:
            custody.check()
            line = lines.read(_IDLE)
            # A stop without a load is of one that has ended meanwhile.
            if line and isinstance(asked_load := parse_to_client(line), LoadRequested):
                stream.send(_run_load(setting, asked_load, lines))


def _run_load(setting: ClientSetting, load: LoadRequested, lines: PipeLines) -> LoadFinished:
    """Run one load, and return what it was; of one that cannot begin, why."""
    _check_load(setting.experiment, load)
    password = password_seal.unseal(load.password, setting.key)
    address = _make_address(setting, load)
    try:
        clock = ask_server_clock(address, ACCOUNT, password)
    except (pymysql.Error, OSError, RuntimeError) as error:
        text = f"the server at {setting.server}, port {load.port}, is not reached: {error}"
        return LoadFinished(number=load.number, status=1, printed=text[:MOST_PRINTED])
    for path in setting.raw.iterdir():
        remove_tree(path)
    interface = network_link.find_interface(network_link.find_source_address(setting.server))
    running = _start_client(setting, load, address, password)
    readings = LoadReadings(interface)
    ended = _wait_for_client(running, load, lines, readings)
    figures = readings.make_figures(ended, clock.round_trip)
    return _make_answer(setting, load, ended, clock, figures)


def _make_answer(
    setting: ClientSetting,
    load: LoadRequested,
    ended: Exit,
    clock: ClockReading,
    figures: ClientFigures,
) -> LoadFinished:
    return LoadFinished(
        number=load.number,
        status=ended.status,
        user=ended.user,
        system=ended.system,
        printed=_read_text(setting.raw / f"sysbench-{_NAME}.txt", MOST_PRINTED),
        reports=_read_text(setting.raw / f"intervals-{_NAME}.jsonl", MOST_REPORTS),
        ahead=clock.ahead,
        figures=figures,
    )


def _check_load(experiment: Experiment, load: LoadRequested) -> None:
    """Raise Unfit for a load that the experiment does not have: the driver may be wrong."""
    if load.workload not in experiment.loads or load.threads not in experiment.threads:
        raise readers.Unfit("it asked for a load that the experiment does not have")


def _make_address(setting: ClientSetting, load: LoadRequested) -> Address:
    """Return where the server of a load is, once the files of an encrypted one are written."""
    for name, text in load.certificates.items():
        write_private(setting.private / name, text, setting.user)
    certificates = setting.private if load.certificates else None
    return Address(setting.work / "none", load.port, setting.server, certificates)


def _start_client(
    setting: ClientSetting, load: LoadRequested, address: Address, password: str
) -> client.Client:
    connection = sysbench_command.write_config(
        setting.private / "sysbench.cnf",
        sysbench_command.connection_options(address, password, ACCOUNT),
        setting.user,
    )
    job = client.ClientJob(
        workload=load.workload,
        threads=load.threads,
        seconds=load.seconds,
        data=setting.experiment.data,
        engine=load.engine,
        load=setting.experiment.load,
    )
    return client.start(
        custody=setting.custody,
        user=setting.user,
        bench=setting.bench,
        job=job,
        places=client.Places(connection, setting.work),
        raw=setting.raw,
        name=_NAME,
        cpus=None,
    )


def _wait_for_client(
    running: client.Client, load: LoadRequested, lines: PipeLines, readings: LoadReadings
) -> Exit:
    """Wait until a load has ended, or is to end, with a reading at each of its reports. Raises
    Failure when nobody wants it any more.
    """
    while (ended := running.wait(_POLL)) is None:
        if list(running.reports()):
            readings.note_report(running.pid)
        line = lines.read(0)
        if line is None:
            continue
        message = parse_to_client(line)
        if not isinstance(message, LoadStopped) or message.number != load.number:
            raise readers.Unfit("it asked for a second load at the same time")
        running.kill()
    return ended


def _read_text(path: Path, most: int) -> str:
    """Return the end of a file of the client's; empty if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most).decode(errors="replace")
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(run_process(ClientRequest, serve_loads))
