"""What Ray runs on a host: it starts the block's own process, hands on what that says, and keeps
its lease alive as long as the driver is heard. It decides nothing, and imports little.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from dballoc.campaign.elsewhere.message_limits import LONGEST_LINE
from dballoc.host.exit_status import end_process
from dballoc.host.guardian.guardian import STAMP

_LOG_TAIL = 4000
# Seconds.
_EXAMINE = 120.0
_PATIENCE = 60.0
_SERVER_OOM_SCORE = "0"


class BlockProcess:
    """One process of a block, the writing end of its lease, and that of the lines to it.
    ``module``: :mod:`dballoc.campaign.elsewhere.node_block`, or
    :mod:`dballoc.campaign.elsewhere.client.node_client`.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._handing = threading.Lock()
        # Lines whose turn has not come, by number, and whose turn it is.
        self._early: dict[int, bytes] = {}
        self._turn = 0
        self._lines_reader, self._lines = os.pipe2(os.O_CLOEXEC)
        self._lease_reader, self._lease = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._lease, False)

    def renew(self) -> None:
        """Let the host go on for another while."""
        try:
            os.write(self._lease, STAMP.pack(time.monotonic()))
        except (BlockingIOError, BrokenPipeError):
            pass  # nobody has read yet, and it is far from running out; or all has ended

    def hand_line(self, number: int, line: bytes) -> None:
        """Hand a line to the process, waiting until it has taken all of it; lines are in the order
        of their numbers, from 0 on.
        """
        with self._handing:  # an actor's calls may overlap, and overtake each other
            self._early[number] = line
            while (next_line := self._early.pop(self._turn, None)) is not None:
                self._turn += 1
                self._write_line(next_line)

    def _write_line(self, line: bytes) -> None:
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._lines, view) :]
        except BrokenPipeError:
            pass  # it has ended; that is reported

    def run_block(self, request: bytes) -> Iterator[bytes]:
        """Run a block; yields the lines that its process says, and at the end one of our own if it
        ended without a last word.
        """
        self.renew()
        with tempfile.TemporaryFile() as log:
            reader, writer = os.pipe2(os.O_CLOEXEC)
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", self._module, str(reader), str(self._lines_reader)],
                stdin=self._lease_reader,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[reader, self._lines_reader],
                env=make_environment(dict(os.environ)),
                start_new_session=True,
                umask=0o077,
            )
            os.close(reader)
            os.close(self._lease_reader)
            os.close(self._lines_reader)
            _reset_oom_score(process.pid)
            threading.Thread(target=_write_request, args=(writer, request), daemon=True).start()
            assert process.stdout
            try:
                yield from _read_lines(process.stdout)
            finally:
                process.stdout.close()
            # The lease stays open: a renewal may be under way, and its number must stay its own.
            status = end_process(process, _PATIENCE)
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_TAIL))
            yield _make_ended(status, log.read(_LOG_TAIL))


def make_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of a block's process: the host's, without Ray's own settings, the path
    of its token among them. Pure.
    """
    return {name: value for name, value in environment.items() if not name.startswith("RAY_")}


def asks_token(environment: Mapping[str, str]) -> bool:
    """Whether the Ray that started a process with this environment asks for a token. Pure."""
    return environment.get("RAY_AUTH_MODE", "").lower() == "token"


def _write_request(descriptor: int, request: bytes) -> None:
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(request)
    except BrokenPipeError:
        pass  # the process has ended; its end is reported


def _read_lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE + 1):
        yield line


def _reset_oom_score(pid: int) -> None:
    """Undo that Ray makes its workers the kernel's first victims: the servers would inherit it."""
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(_SERVER_OOM_SCORE)
    except OSError:
        pass  # not permitted: then it stays as Ray has it


def _make_ended(status: int, log: bytes) -> bytes:
    text = log.decode("utf-8", errors="replace")
    return json.dumps({"kind": "ended", "status": status, "log": text}).encode() + b"\n"


def describe_host() -> bytes:
    """Return what a host is, as JSON: dballoc's version, its kernel's boot ID, the environment, and
    whether its Ray asks for a token.
    """
    # Here, because an actor that runs a block needs none of it.
    import dballoc
    from dballoc.host.machine_description import describe_machine

    return json.dumps(
        {
            "dballoc": dballoc.__version__,
            "kernel": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "environment": describe_machine(),
            "asks_token": asks_token(os.environ),
        }
    ).encode()


def examine_host(is_for_clients: bool) -> bytes:
    """Return what ``dballoc doctor`` says of a host, as JSON. ``is_for_clients``: of what a host
    needs that runs no servers.
    """
    role = ["--client-host"] if is_for_clients else []
    doctor = subprocess.run(
        [sys.executable, "-I", "-m", "dballoc", "doctor", "--json", *role],
        env=make_environment(dict(os.environ)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_EXAMINE,
        check=False,
    )
    if doctor.stdout:
        return doctor.stdout
    log = doctor.stderr[-_LOG_TAIL:].decode("utf-8", errors="replace").strip()
    words = f"it says nothing, and ended with status {doctor.returncode}: {log}"
    remedy = "run dballoc doctor there"
    return json.dumps(
        [{"name": "doctor", "state": "missing", "text": words, "remedy": remedy}]
    ).encode()


def tell_time() -> bytes:
    """Return the time on a host, as JSON."""
    return json.dumps({"time": time.time()}).encode()
