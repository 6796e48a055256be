"""Ask the recorder in a process of ours, over the socket in its directory."""

import socket
from collections.abc import Mapping
from pathlib import Path

from dballoc.errors import Failure

# Seconds to wait for a part of an answer, and bytes of the largest one.
_PATIENCE = 30.0
_MOST = 64 << 10


def send_mark(directory: Path, pid: int, name: str, truth: Mapping[str, int]) -> None:
    """Put a mark into the recording of process ``pid``, with figures in bytes that were measured
    from outside. Failure if the recorder refuses or does not answer.
    """
    word = "-".join(name.split())
    _ask(directory, pid, " ".join(["mark", word, *(f"{k}={v}" for k, v in truth.items())]))


def read_status(directory: Path, pid: int) -> dict[str, str]:
    """Return the recorder's figures by name. Failure as for :func:`send_mark`."""
    lines = (line.partition(" ") for line in _ask(directory, pid, "status").splitlines()[1:])
    return {name: value for name, _, value in lines}


def _ask(directory: Path, pid: int, line: str) -> str:
    """Return the answer to a request."""
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(_PATIENCE)
            peer.connect(str(directory / f"{pid}.sock"))
            peer.sendall(line.encode() + b"\n")
            while (piece := peer.recv(_MOST)) and len(answer) < _MOST:
                answer += piece
    except OSError as error:
        raise Failure(f"the recorder in process {pid} does not answer: {error}") from None
    text = answer.decode(errors="replace")
    if not text.startswith("ok"):
        raise Failure(f"the recorder in process {pid}: {text.strip().removeprefix('error ')}")
    return text
