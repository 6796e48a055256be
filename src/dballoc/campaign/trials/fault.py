"""Faults: why a trial ended before its time, read from what the server left behind."""

import signal
from dataclasses import dataclass
from pathlib import Path

from dballoc.allocators import proof_of_use
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Exit
from dballoc.host.resources.cgroup import MemoryCgroup
from dballoc.servers.private import private_server

_DISK_WORDS = (
    "No space left on device",
    "errno: 28",
    "Errcode: 28",
    "error 28",
    "OS error 28",
    "disk is full",
    "is full",
)


class Fault(Exception):
    """A trial that ended before its time. ``kind`` is one of the store's fault kinds."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, kw_only=True)
class Examiner:
    """Looks at the log, the cgroup and the disk of one server. ``complaints``: what its allocator
    prints when unhappy.
    """

    log: Path
    scratch: Path
    complaints: list[str]
    cgroup: MemoryCgroup | None
    memory_limit: int | None

    def failed_start(self, reason: str, ended: Exit | None) -> Fault:
        """Why a server did not come to answer; ``ended`` is None when it hung."""
        if said := self.complaint():
            return Fault("proof", f"{reason}: {said}")
        if ended is None:
            return Fault("hang", reason)
        return self._known(ended) or Fault("start", f"{reason}: {self.last_word()}")

    def death(self, when: str, ended: Exit | None) -> Fault:
        """Why a server that had answered ended."""
        words = ended.words if ended else "it is gone"
        return self._known(ended) or Fault(
            "died", f"the server died {when} ({words}): {self.last_word()}"
        )

    def oom(self) -> Fault | None:
        """If the kernel killed it for its memory limit."""
        if self.cgroup and self.cgroup.oom_kills():
            return Fault(
                "oom",
                f"the kernel killed the server: over its memory limit of {self.memory_limit} bytes",
            )
        return None

    def disk(self) -> Fault | None:
        """If its data found no room."""
        said = next(
            (
                line
                for line in private_server.tail(self.log).splitlines()
                if any(w in line for w in _DISK_WORDS)
            ),
            None,
        )
        if said or directories.free_bytes(self.scratch) < 2**20:
            return Fault(
                "disk",
                f"no room for the server's data in {self.scratch.parent}"
                + (f": {said}" if said else ""),
            )
        return None

    def complaint(self) -> str | None:
        """The line in which loader or allocator says that it did not take what it was given."""
        return proof_of_use.complaint(private_server.tail(self.log, 1000), self.complaints)

    def last_word(self) -> str:
        """The line of the log that says most."""
        return private_server.last_word(self.log)

    def _known(self, ended: Exit | None) -> Fault | None:
        return self.oom() or killed(ended) or self.disk()


def killed(ended: Exit | None) -> Fault | None:
    """If somebody else killed it."""
    if ended and ended.status == -signal.SIGKILL:
        return Fault(
            "died",
            "the server got a SIGKILL that dballoc did not send; perhaps the OOM killer's: see "
            "dmesg",
        )
    return None
