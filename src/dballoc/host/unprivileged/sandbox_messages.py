"""Messages between a sandbox and who asks it, both ways: the length in four bytes, big-endian, then
that much JSON.
"""

import json
import socket
import struct
import time
from typing import Any

MOST_REQUEST, MOST_ANSWER = 1 << 20, 16 << 20  # bytes
MOST_DESCRIPTORS = 16  # in one call
HEAD = struct.Struct(">I")


def receive_message(
    talk: socket.socket, most: int, deadline: float | None, head: bytes = b""
) -> Any:
    """Receive one, of at most so many bytes, before a time of the monotonic clock. ``head``: its
    first bytes, if they have come. Raises ConnectionError at the end, TimeoutError, and ValueError
    for anything else.
    """
    head += _receive_exactly(talk, HEAD.size - len(head), deadline)
    (length,) = HEAD.unpack(head)
    if length > most:
        raise ValueError("a message is too large")
    return json.loads(_receive_exactly(talk, length, deadline))


def send_message(talk: socket.socket, message: dict[str, Any]) -> None:
    """Send one. Raises OSError if the other end does not take it."""
    data = json.dumps(message).encode()
    talk.sendall(HEAD.pack(len(data)) + data)


def _receive_exactly(talk: socket.socket, count: int, deadline: float | None) -> bytes:
    pieces = []
    while count:
        if deadline is not None:
            talk.settimeout(max(0.001, deadline - time.monotonic()))
        piece = talk.recv(min(count, 1 << 16))
        if not piece:
            raise ConnectionError("it closed its socket")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
