"""``dballoc record``: record the allocations of a program that runs under the recorder."""

import os
import shlex
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.shared import flags
from dballoc.cli.shared.safe_output import Console, print_json, safe
from dballoc.cli.shared.server_flags import Pid, Service, Socket
from dballoc.cli.shared.size_and_duration_flags import duration, size
from dballoc.ground.errors import Failure, UsageError
from dballoc.instruments.ways_in.preload_socket import RECORDER
from dballoc.profile.amounts import format_amount
from dballoc.trace.recording.recorder_client import Recorder, RecorderStatus

# How often to look how far it is, seconds.
_PERIOD = 1.0
# Why a recording ended whose program could not be asked any more.
_GONE = "gone"
_ENDINGS = {
    "asked": "ended as asked",
    "limit": "ended at its limit",
    "disk": "ended early: the disk took no more",
    "exit": "ended with the program",
    _GONE: "the program has ended, and this is from when it was last asked; dballoc trace verify "
    "says what is in the file",
}

_OutDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The process whose recorder listens there.")
]
_For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="End after TIME. [default: at Ctrl-C]"),
]
_Limit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="End when the file has SIZE bytes. [default: what exec was given]",
        show_default=False,
    ),
]
_Stop = Annotated[
    bool, typer.Option("--stop", help="End the recording that goes on, and begin none.")
]


def record(
    pid: Pid = None,
    socket: Socket = None,
    service: Service = None,
    out_dir: _OutDir = None,
    time_: _For = None,
    limit: _Limit = None,
    stop: _Stop = False,
    as_json: flags.AsJson = False,
) -> None:
    """Record every allocation of a program that was started with exec --probe trace --idle.

    The file is made by the program itself, in the directory that exec was given. What was alive
    before is not in it, so a recording from the program's start says more on memory.
    """
    if stop and (time_ is not None or limit is not None):
        raise UsageError("--stop goes with neither --for nor --limit")
    seconds = duration(time_, "--for") if time_ is not None else None
    from dballoc.explain import find_server  # here: what talks to servers takes a while to load

    server = find_server.ServerFlags(pid, socket, service)
    recorder = Recorder(find_server.find_preload(RECORDER, out_dir, server))
    if stop:
        recorder.stop()
        status = recorder.status()
    else:
        if limit is not None:
            most = size(limit, "--limit")
            RECORDER.check_size(most)
            recorder.set_limit(most)
        status = _record_for(recorder, seconds)
    _print_result(status, as_json)


def _record_for(recorder: Recorder, seconds: float | None) -> RecorderStatus:
    """Record until the time is over, the user has had enough, or it has ended by itself, and return
    how that went. Ctrl-C before it has begun goes on.
    """
    last: RecorderStatus | None = None
    try:
        try:
            recorder.start()
            end = time.monotonic() + seconds if seconds is not None else float("inf")
            while (last := recorder.status()).is_recording:
                if (remaining := end - time.monotonic()) <= 0:
                    break
                time.sleep(min(remaining, _PERIOD))
        except KeyboardInterrupt:
            last = recorder.status()
            if not (last.is_recording or last.ended_by):
                raise
        if last.is_recording:
            _stop(recorder)
        return recorder.status()
    except Failure:
        if last is None or not recorder.place.has_gone():
            raise
        return replace(last, is_recording=False, ended_by=_GONE)


def _stop(recorder: Recorder) -> None:
    """End the recording, unless it has ended by itself meanwhile."""
    try:
        recorder.stop()
    except Failure:
        if not recorder.status().ended_by:
            raise


def format_next_command(file: str) -> str:
    """Return the command that compiles a recording, to be pasted: its process chose the name.
    Pure.
    """
    trace = os.path.basename(file).removesuffix(".recording") + ".trace"
    words = ["dballoc", "trace", "compile", safe(file), "-o", safe(trace)]
    return shlex.join(words)


def _print_result(status: RecorderStatus, as_json: bool) -> None:
    if as_json:
        print_json(asdict(status))
    else:
        console = Console()
        lost = f"{status.dropped:,} lost" if status.dropped else "none lost"
        console.print(
            f"{safe(status.file)}: {status.events:,} events in {status.seconds:,.1f} s, {lost}, "
            f"{format_amount(status.bytes, 'bytes')}; {_ENDINGS.get(status.ended_by, 'it goes on')}"
        )
        console.print(f"next: {format_next_command(status.file)}")
    if status.ended_by == "disk":
        raise Failure(f"{status.file}: the disk took no more; what is in it can be used")
