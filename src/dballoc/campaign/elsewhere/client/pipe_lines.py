"""Lines from a pipe, as they come: what a process of a block is told while it works."""

import os
import select
import time

from dballoc.campaign.elsewhere.message_limits import LONGEST_LINE
from dballoc.ground.errors import Failure


class PipeLines:
    """Reads whole lines from a descriptor, and waits for them no longer than it is told."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._text = bytearray()
        # Bytes of the text that have no line break, so that none is looked at twice.
        self._searched = 0

    def read(self, timeout: float) -> bytes | None:
        """Return the next line, waiting up to ``timeout`` seconds for it; None if there is none
        yet. Raises Failure when the other end has closed, or sends a line that is too long.
        """
        deadline = time.monotonic() + timeout
        while (line := self._take_line()) is None:
            remaining = max(0.0, deadline - time.monotonic())
            if not select.select([self._descriptor], [], [], remaining)[0]:
                return None
            piece = os.read(self._descriptor, 1 << 20)
            if not piece:
                raise Failure("who asked for this block is gone")
            self._text += piece
            if len(self._text) > LONGEST_LINE + (1 << 20):
                raise Failure("a line to this host is too long")
        return line

    def _take_line(self) -> bytes | None:
        end = self._text.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._text)
            return None
        line = bytes(self._text[: end + 1])
        del self._text[: end + 1]
        self._searched = 0
        return line
