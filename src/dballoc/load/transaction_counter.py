"""Count a client's transactions as they end, in memory that it shares with dballoc.

A server that all its clients keep busy answers a question of ours only when its turn comes, so it
is not asked: each thread of sysbench adds to a counter of its own
(:file:`lua/dballoc.lua`, ``DBALLOC_COUNTER``). A counter is a little-endian 64-bit integer at the
begin of 64 bytes, a cache line, so that threads do not wait for each other's.
"""

import fcntl
import os
from array import array

# The environment variable that has the number of the descriptor of the counters' memory.
COUNTER = "DBALLOC_COUNTER"
_LINE = 64


class TransactionCounter:
    """The counters of a client with so many ``threads``."""

    def __init__(self, threads: int) -> None:
        self._size = threads * _LINE
        self._descriptor = os.memfd_create(
            "dballoc-transactions", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        )
        os.ftruncate(self._descriptor, self._size)
        # The client may write into it, and do nothing else with it.
        fcntl.fcntl(
            self._descriptor,
            fcntl.F_ADD_SEALS,
            fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL,
        )

    @property
    def path(self) -> str:
        """The path by which the guardian opens it for the client."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def read_total(self) -> int:
        """Return how many transactions have ended."""
        counters = array("q", os.pread(self._descriptor, self._size, 0))
        return sum(counters[:: _LINE // counters.itemsize])

    def close(self) -> None:
        """Forget it; the client keeps its own."""
        os.close(self._descriptor)
