"""A socket to a server that may be hostile: limits of bytes and of time for one connection."""

import errno
import socket
import time
from typing import Any

_MOST_BYTES = 16 << 20


class BoundedSocket(socket.socket):
    """A socket with a limit on bytes and time. OSError beyond either."""

    most_bytes = _MOST_BYTES
    deadline = float("inf")

    def recv_into(self, *arguments: Any, **named: Any) -> int:
        """Receive as a socket does; a file made of the socket reads through this."""
        self._shorten_timeout()
        count = super().recv_into(*arguments, **named)
        self.most_bytes -= count
        if self.most_bytes < 0:
            raise OSError(errno.EMSGSIZE, f"it answers with more than {_MOST_BYTES >> 20} MiB")
        return count

    def sendall(self, *arguments: Any) -> None:
        """Send as a socket does; a server that asks and does not read what it is sent fills the
        socket's buffer.
        """
        self._shorten_timeout()
        super().sendall(*arguments)

    def _shorten_timeout(self) -> None:
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError(errno.ETIMEDOUT, "it takes too long to answer")
        timeout = self.gettimeout()
        if timeout is None or timeout > remaining:
            self.settimeout(remaining)
