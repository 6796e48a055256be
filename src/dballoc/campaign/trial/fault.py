"""Faults: why a trial ended early, from the server's log, exit status, cgroup and disk."""

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
    """A trial ended early. ``kind`` is one of the fault kinds of the results database."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, kw_only=True)
class FaultExaminer:
    """Finds out why one server failed, from its log, cgroup and disk. ``complaints``: what its
    allocator prints when it rejects a setting; ``memory_limit`` is in bytes.
    """

    log: Path
    scratch: Path
    complaints: list[str]
    cgroup: MemoryCgroup | None
    memory_limit: int | None

    def explain_failed_start(self, reason: str, ended: Exit | None) -> Fault:
        """Return why a server did not answer after its start; ``ended``: None if it still runs."""
        if complaint := self.find_complaint():
            return Fault("proof", f"{reason}: {complaint}")
        if ended is None:
            return Fault("hang", reason)
        return self._find_outside_cause(ended) or Fault(
            "start", f"{reason}: {self.find_last_log_line()}"
        )

    def explain_death(self, when: str, ended: Exit | None) -> Fault:
        """Return why a server that had answered ended."""
        words = ended.words if ended else "it is gone"
        return self._find_outside_cause(ended) or Fault(
            "died", f"the server died {when} ({words}): {self.find_last_log_line()}"
        )

    def find_oom_kill(self) -> Fault | None:
        """Return the fault if the kernel killed the server at its cgroup's memory limit."""
        if self.cgroup and self.cgroup.oom_kills():
            return Fault(
                "oom",
                f"the kernel killed the server: over its memory limit of {self.memory_limit} bytes",
            )
        return None

    def find_full_disk(self) -> Fault | None:
        """Return the fault if the disk with the server's data is full."""
        log_line = next(
            (
                line
                for line in private_server.tail(self.log).splitlines()
                if any(w in line for w in _DISK_WORDS)
            ),
            None,
        )
        if log_line or directories.free_bytes(self.scratch) < 2**20:
            return Fault(
                "disk",
                f"no room for the server's data in {self.scratch.parent}"
                + (f": {log_line}" if log_line else ""),
            )
        return None

    def find_complaint(self) -> str | None:
        """Return the log line in which the loader or allocator rejects a library or a setting."""
        return proof_of_use.find_complaint(private_server.tail(self.log, 1000), self.complaints)

    def find_last_log_line(self) -> str:
        """Return the line of the server's log that says most about its end."""
        return private_server.last_word(self.log)

    def _find_outside_cause(self, ended: Exit | None) -> Fault | None:
        return self.find_oom_kill() or explain_sigkill(ended) or self.find_full_disk()


def explain_sigkill(ended: Exit | None) -> Fault | None:
    """Return the fault if the server was killed by a SIGKILL that is not ours."""
    if ended and ended.status == -signal.SIGKILL:
        return Fault(
            "died",
            "the server got a SIGKILL that dballoc did not send, perhaps from the OOM killer; see "
            "dmesg",
        )
    return None
