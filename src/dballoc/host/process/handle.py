"""A process as everything here takes it: opened once by its PID, and asked in one place whether it
is still the same one.

The kernel gives the PID of an ended process to another one. A PID and a start time belong to one
process alone; a pidfd says at once that it has ended (pidfd_open(2), Linux 5.3).
"""

import contextlib
import os
import select
import signal
import socket
import struct
import weakref
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from dballoc.ground import readers
from dballoc.ground.errors import Failure

PROC = Path("/proc")
# proc_pid_stat(5), counted from the state, which follows the name in brackets.
STATE, USER_TICKS, SYSTEM_TICKS, STARTED, VIRTUAL_SIZE = 0, 11, 12, 19, 20
# <linux/auxvec.h>
_AT_NULL, AT_PAGESZ, AT_SECURE = 0, 6, 23
_AUXILIARY = struct.Struct("=2Q")
_MOST_AUXILIARY = 1 << 14  # bytes; a kernel's has some 300
_TUNABLES, _PREFIX = "GLIBC_TUNABLES", "glibc."


def make_cpu_clock(pid: int) -> int:
    """Return the clock of a process's CPU time, in nanoseconds (clock_getcpuclockid(3))."""
    return (~pid << 3) | 2


# Open pidfds, which a forked child that looks at a process keeps.
open_pidfds: set[int] = set()


@dataclass(frozen=True)
class Process:
    """``started``: clock ticks since boot; ``home``: its directory below /proc; ``pidfd``: None
    where the kernel has none, and in a process that was given this as an answer.
    """

    pid: int
    started: int
    home: Path
    pidfd: int | None = field(default=None, compare=False, repr=False)

    @classmethod
    def open(cls, pid: int, proc: Path = PROC) -> Self:
        """Open a process; nothing of its memory is touched. Raises OSError if there is none, or
        /proc hides it.
        """
        pidfd = None
        if proc == PROC:
            with contextlib.suppress(OSError, AttributeError):
                pidfd = os.pidfd_open(pid)
        try:
            home = proc / str(pid)
            stat = split_stat(readers.text_of_process(home / "stat"))
            process = cls(pid, int(stat[STARTED]), home, pidfd)
        except BaseException:
            if pidfd is not None:
                os.close(pidfd)
            raise
        if pidfd is not None:
            open_pidfds.add(pidfd)
            weakref.finalize(process, _close, pidfd, os.getpid()).atexit = False
        return process

    @classmethod
    def at(cls, pid: int) -> Self:
        """Return whichever process has that PID when it is read: one that is looked at once, or is
        a child that was not waited for yet.
        """
        return cls(pid, 0, PROC / str(pid))

    @classmethod
    def own(cls) -> Self:
        """Open this process."""
        return cls.open(os.getpid())

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended: to no process that has its PID now. Raises OSError
        if that is forbidden.
        """
        with contextlib.suppress(ProcessLookupError):
            if self.pidfd is not None:
                signal.pidfd_send_signal(self.pidfd, number)
            elif not self.has_ended():
                os.kill(self.pid, number)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pidfd": None}

    def __str__(self) -> str:
        return f"process {self.pid}"

    @property
    def root(self) -> Path:
        """Its root directory, for :mod:`dballoc.host.process.open_in_process_root`."""
        return self.home / "root"

    def has_ended(self) -> bool:
        """Whether it has ended; another process may have its PID."""
        if self.pidfd is not None:
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            return bool(poll.poll(0))
        try:
            return int(self.read_stat()[STARTED]) != self.started
        except OSError:
            return True

    def has_no_memory(self) -> bool:
        """Whether it has no address space: a kernel thread, or one that is ending."""
        try:
            return self.read_stat()[VIRTUAL_SIZE] == "0"
        except OSError:
            return True

    def check_running(self) -> None:
        """Raises Failure if it has ended, or another process has its PID."""
        if self.has_ended():
            with contextlib.suppress(OSError):
                if int(self.read_stat()[STARTED]) != self.started:
                    raise Failure(f"{self} has ended, and another process has its PID")
            raise Failure(f"{self} has ended")

    def read(self, name: str, most: int = 8 * readers.MIB) -> bytes:
        """Return a file of its directory below /proc. Raises OSError as readers.of_process."""
        return readers.of_process(self.home / name, most)

    def read_text(self, name: str, most: int = 8 * readers.MIB) -> str:
        """Return it as text; bytes that are not UTF-8 become U+FFFD. Raises OSError."""
        return readers.text_of_process(self.home / name, most)

    def read_link(self, name: str) -> str:
        """Return where a link of its directory leads. Raises OSError."""
        return os.readlink(self.home / name)

    def read_name(self) -> str:
        """Return the name that the kernel has of it, empty if it has ended. Its command line is in
        its memory, which may not answer.
        """
        try:
            return self.read_text("comm").strip()
        except OSError:
            return ""

    def read_stat(self) -> list[str]:
        """Return the fields of /proc/PID/stat from its state on. Raises OSError if it has ended."""
        return split_stat(self.read_text("stat"))

    def read_status(self) -> dict[str, str]:
        """Return the lines of /proc/PID/status by name. Raises OSError if it has ended."""
        return parse_status(self.read_text("status"))

    def read_users(self) -> frozenset[int]:
        """Return its real, effective, saved and file system user, and the root of its user
        namespace, as whom it may have begun. Raises OSError if it has ended.
        """
        return parse_users(self.read_text("status"), self.read_text("uid_map"))

    def read_words(self) -> list[str]:
        """Return its command line. Raises OSError if it has ended or is not ours."""
        return [os.fsdecode(word) for word in self.read("cmdline").split(b"\0")[:-1]]

    def read_environment(self, errors: str = "surrogateescape") -> dict[str, str]:
        """Return its environment. Raises OSError if it has ended or is not ours."""
        return parse_environment(self.read("environ"), errors)

    def read_auxiliary(self) -> dict[int, int]:
        """Return its auxiliary vector (getauxval(3)). Raises OSError as above."""
        return parse_auxiliary(self.read("auxv", _MOST_AUXILIARY))

    def list_threads(self) -> list[int]:
        """List its threads. Raises OSError if it has ended."""
        return [int(name) for name in os.listdir(self.home / "task")]

    def strip_root(self, its: str) -> str:
        """Translate a path that the kernel gives of it to the one that it uses itself. Raises
        OSError if it has ended or is not ours.

        In a chroot the kernel gives paths as we see them, in a container as the process does.
        """
        root = self.read_link("root").rstrip("/")
        return its.removeprefix(root) if root and its.startswith(f"{root}/") else its


def _close(pidfd: int, opener: int) -> None:
    """Close a pidfd; a forked child leaves it to its opener, as it may have closed it already."""
    if os.getpid() == opener:
        open_pidfds.discard(pidfd)
        os.close(pidfd)


def read_peer(connection: socket.socket) -> tuple[int, int]:
    """Return process and user of the other end of a connected Unix socket, as they were when it
    began to listen (unix(7), SO_PEERCRED); process 0 if it is in another PID namespace. The PID may
    be another process's by now (SO_PEERPIDFD, which cannot be wrong, came with Linux 6.5).
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, user, _ = struct.unpack("iII", credentials)
    return pid, user


def split_stat(text: str) -> list[str]:
    """Split a text of /proc/PID/stat. Raises ProcessLookupError if it is not one. Pure."""
    fields = text.rpartition(")")[2].split()
    if len(fields) <= VIRTUAL_SIZE or not fields[STARTED].isdecimal():
        raise ProcessLookupError(3, "it has ended")
    return fields


def parse_status(text: str) -> dict[str, str]:
    """Parse a text of /proc/PID/status: its lines by name. Pure."""
    lines = (line.partition(":") for line in readers.rows(text))
    return {name: value.strip() for name, _, value in lines}


def parse_users(status: str, uid_map: str) -> frozenset[int]:
    """Parse the texts of /proc/PID/status and uid_map (user_namespaces(7)). Raises
    ProcessLookupError if they are no process's. Pure.
    """
    try:
        users = {int(word) for word in parse_status(status)["Uid"].split()}
        ranges = [tuple(map(int, line.split())) for line in readers.rows(uid_map) if line]
        return frozenset(users | {outside for inside, outside, _ in ranges if inside == 0})
    except (LookupError, ValueError) as error:
        raise ProcessLookupError(3, "it has ended") from error


def parse_auxiliary(auxv: bytes) -> dict[int, int]:
    """Parse an auxiliary vector of 64 bits, up to its end. Pure."""
    entries = _AUXILIARY.iter_unpack(auxv[: len(auxv) // _AUXILIARY.size * _AUXILIARY.size])
    return dict(takewhile(lambda entry: entry[0] != _AT_NULL, entries))


def parse_environment(raw: bytes, errors: str = "surrogateescape") -> dict[str, str]:
    """Return the variables in the bytes of /proc/PID/environ; ``errors``: as in bytes.decode. Pure.

    glibc up to 2.36 ends each item of GLIBC_TUNABLES with a NUL where the colon was, in place
    (parse_tunables in elf/dl-tunables.c), so that all but the first look like variables of their
    own. They are joined again.
    """
    variables: dict[str, str] = {}
    previous = ""
    for item in raw.split(b"\0"):
        name, equals, value = item.decode(errors=errors).partition("=")
        if not equals:
            continue
        if previous == _TUNABLES and name.startswith(_PREFIX):
            variables[_TUNABLES] += f":{name}={value}"
            continue
        variables[name] = value
        previous = name
    return variables
