"""Run one block on this host, as a process of its own:
``python -m dballoc.campaign.elsewhere.node_block REQUEST_FD LINES_FD``.

A process as :mod:`dballoc.campaign.elsewhere.node_process` says. The lines are those of the client
host, where the block has one (:mod:`dballoc.campaign.elsewhere.client.load_messages`); the messages
are those of :mod:`dballoc.campaign.elsewhere.block_messages`. Nothing of Ray is in this process, so
servers and the guardian are what they are in a local campaign.
"""

import base64
import os
import stat
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from dballoc.campaign.elsewhere.block_messages import (
    FILE_PIECE,
    MOST_FILE_BYTES,
    MOST_FILES,
    BlockFinished,
    FilePiece,
    Notice,
    TrialFinished,
    TrialStarted,
    is_file_name,
    make_record_rows,
)
from dballoc.campaign.elsewhere.block_request import (
    BlockRequest,
    describe_other_sysbench,
    find_difference,
    select_common_columns,
)
from dballoc.campaign.elsewhere.client.pipe_lines import PipeLines
from dballoc.campaign.elsewhere.client.remote_load import ClientHostFailed, RemoteLoads
from dballoc.campaign.elsewhere.fetch_like_driver import fetch_like_driver
from dballoc.campaign.elsewhere.message_stream import MessageStream
from dballoc.campaign.elsewhere.node_process import open_lease, run_process
from dballoc.campaign.interruptible_session import Session, run_in_session
from dballoc.campaign.noise_samples import BlockNoiseMeter
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import data_templates
from dballoc.campaign.preparation.prepare import PreparedCampaign, prepare_campaign
from dballoc.campaign.results_directory import TRIALS
from dballoc.campaign.trial.server_in_trial import Interrupted
from dballoc.campaign.ways.servers import WAYS
from dballoc.campaign.ways.way import Blocks
from dballoc.experiment.schedule import Slot
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.ownership import remove_directory
from dballoc.host.unprivileged.server_user import server_user
from dballoc.store.results import TrialRecord


class _SentTrials:
    """Where finished trials go here: they are sent to the driver, which stores them.
    ``trials``: the directory with a directory of raw files for each trial.
    """

    def __init__(self, stream: MessageStream, trials: Path) -> None:
        self._stream = stream
        self._trials = trials

    def add_trial(self, place: Slot, /, *records: TrialRecord) -> None:
        """Send a trial with its files."""
        send_files(self._stream, self._trials / place.label, place.position)
        rows = [make_record_rows(record) for record in records]
        otherwise = {k: v for record in records for k, v in record.settled_otherwise.items()}
        self._stream.send(
            TrialFinished(position=place.position, records=rows, settled_otherwise=otherwise)
        )
        remove_directory(self._trials / place.label)


class _SentNotices(Observer):
    """Sends notices; who watches a block from afar sees its trials, not its seconds."""

    def __init__(self, stream: MessageStream) -> None:
        self._stream = stream

    def notice(self, text: str) -> None:
        self._stream.send(Notice(text=text))


def send_files(stream: MessageStream, directory: Path, position: int) -> None:
    """Send the regular files below ``directory``, as far as the driver takes them; a notice says
    which were left out. No link is followed: a server may have made it.
    """
    bytes_left, files_left = MOST_FILE_BYTES, MOST_FILES
    for parent, _, names in os.walk(directory):
        for name in sorted(names):
            path = Path(parent) / name
            relative = str(path.relative_to(directory))
            size = _find_size(path)
            if size is None:
                continue
            if not is_file_name(relative):
                shown = readers.shown(relative)
                stream.send(Notice(text=f"{shown}: not sent to the driver, for its name"))
            elif size > bytes_left or not files_left:
                stream.send(Notice(text=f"{relative}: too large to be sent to the driver"))
            else:
                bytes_left, files_left = bytes_left - size, files_left - 1
                _send_file(stream, path, relative, position, size)


def _find_size(path: Path) -> int | None:
    """Return the bytes of a regular file; None if it is something else."""
    status = path.lstat()
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _send_file(stream: MessageStream, path: Path, name: str, position: int, size: int) -> None:
    """Send the first ``size`` bytes of a file, which may grow meanwhile."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        while piece := file.read(min(size, FILE_PIECE)):
            size -= len(piece)
            data = base64.b64encode(piece).decode()
            stream.send(FilePiece(position=position, name=name, data=data))


def run_block(request: BlockRequest, stream: MessageStream, lines: PipeLines) -> None:
    """Run the block that is asked for. Raises UsageError or Failure if this host cannot."""
    lease = open_lease(request)
    fetch_like_driver(request.fetched, lambda text: stream.send(Notice(text=text)), lease)
    # A kill, or a loss of contact, may come before the session, whose guardian takes over.
    with Custody(lease=lease) as custody:
        place = Path(tempfile.gettempdir())
        scripts = directories.make_fresh_directory(place, "dballoc-own-", custody.scratch)
        out = directories.make_fresh_directory(place, "dballoc-block-", custody.scratch)
        server_user().show(scripts)
        setting = prepare_campaign(request.build_experiment(scripts))
        _check_prepared(setting, request)
        loads = RemoteLoads(request.client, stream.send, lines) if request.client else None

        def run_trials(session: Session[PreparedCampaign]) -> None:
            # Servers write into them: they go when these have ended, and so by their guardian. Two
            # of them with one lease would take its stamps from each other.
            for directory in (scripts, out):
                session.custody.take_over(directory, custody)
            custody.close()
            _run_trials(session, request, stream, loads)

        custody.check()
        run_in_session(setting, out, _SentNotices(stream), run_trials, lease=lease)


def _check_prepared(setting: PreparedCampaign, request: BlockRequest) -> None:
    """Raise UsageError unless what is prepared here is what the driver has."""
    rows = {
        name: select_common_columns(variant.make_row())
        for name, variant in setting.variants.items()
    }
    if difference := find_difference(request.variants, rows):
        raise UsageError(f"{difference}; hosts of a campaign must have the same")
    if other := describe_other_sysbench(setting.sysbench.version, request.sysbench):
        raise UsageError(other)


def _run_trials(
    session: Session[PreparedCampaign],
    request: BlockRequest,
    stream: MessageStream,
    loads: RemoteLoads | None,
) -> None:
    """Make the data, run the block's trials, and send its row."""
    out, setting = session.directory.path, session.setting
    templates = data_templates.prepare_data_templates(
        setting, session.custody, session.observer, out / "template.log"
    )
    if loads:
        _wait_for_client_host(loads, request.sysbench)
        session = replace(session, client_host=loads)
    sent = _SentTrials(stream, out / TRIALS)
    blocks: Blocks[Any, Any] = WAYS[request.design].make_blocks(session, sent, templates, 0.0)
    blocks.slices, blocks.rounds = request.slices, request.rounds
    if request.design.is_paired and not (request.slices or request.rounds):
        raise UsageError(f"no {request.design} on this host: no slices or rounds are chosen")
    meter = BlockNoiseMeter()
    for trial in blocks.list_trials(request.block, request.attempt):
        stream.send(TrialStarted(position=trial.position))
        meter.cpu_seconds += blocks.run_trial(trial)
    if loads and loads.place.shares_kernel:
        meter.cpu_seconds += loads.cpu_seconds
    row = meter.make_row(setting.experiment.noise, request.earlier_probes)
    stream.send(BlockFinished(row=vars(row)))


def _wait_for_client_host(loads: RemoteLoads, sysbench: str) -> None:
    """Wait until the client host is ready. Raises ClientHostFailed if it is not in time, or has
    another sysbench than the driver.
    """
    if other := describe_other_sysbench(loads.wait_until_ready(), sysbench):
        raise ClientHostFailed(f"the client host {loads.place.host}: {other}")


def main() -> int:
    """Run the block. Returns the exit status."""
    try:
        return run_process(BlockRequest, run_block)
    except Interrupted:
        return 130


if __name__ == "__main__":
    sys.exit(main())
