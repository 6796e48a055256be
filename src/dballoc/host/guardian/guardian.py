"""The guardian: a small process that owns everything that must not outlive dballoc.

It is the parent of every server and client, the only one that changes host state, and the owner of
scratch directories. It holds one end of a socket. When the other end closes, for whatever reason
(``kill -9`` of dballoc included), it restores what was changed, kills its children, removes the
scratch directories, and ends.

Being the parent, it can never signal a process that it did not start: a child's PID stays taken
until it is reaped. It has one thread, so PDEATHSIG, which follows the spawning *thread*, is safe
here: should the guardian itself be killed, the kernel kills its children, and dballoc
(:mod:`dballoc.host.guardian.guardian_client`) restores the host state.

Each child is the subreaper of its own descendants, and the guardian that of its children: a process
that becomes the guardian's child was left by a child that has ended, and is killed, whatever
session it made for itself.

Run as ``python -I -S guardian.py SOCKET_FD [HOST]``; standard library only, so that it starts in
milliseconds. Messages are JSON, one per SOCK_SEQPACKET datagram, or, when one is larger, a datagram
that carries a memory file with it. Requests carry an ``id`` and are answered with it; exits are
reported without a request. ``HOST`` says which settings may be changed, and the descriptor of the
directory for their journal; without it none may. It may also hold a lease: a descriptor from which
a stamp must come every so many seconds. When none does, or when its other end closes, the guardian
ends as if its own socket had closed: dballoc lives, but who asked for the trials is out of reach. A
stamp says when that was heard: it may have waited in the pipe for longer than the lease.
"""

import contextlib
import ctypes
import errno
import functools
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable

if (
    __name__ == "__main__"
):  # a bare interpreter knows the standard library alone, and that comes first
    sys.path.append(__file__.rsplit("/dballoc/host/guardian/", 1)[0])

from dballoc.ground.files.remove_tree import remove_tree
from dballoc.host.guardian import reaping
from dballoc.host.settings import settings_journal
from dballoc.host.settings.writable_settings import HostSetting

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PR_SET_NO_NEW_PRIVS = 38
PR_SET_THP_DISABLE = 41
CAP_SYS_RESOURCE = 24  # <linux/capability.h>
# The largest datagram, well below net.core.wmem_default; a larger request goes through a memory
# file.
MESSAGE_LIMIT = 1 << 16
REQUEST_LIMIT = 1 << 26
# What comes from a lease: the CLOCK_MONOTONIC at which this host heard of who asked for its trials.
STAMP = struct.Struct("d")
# Bytes of stamps that are read at once, and how often until others have their turn: all that a pipe
# holds, which the kernel limits to 1 MiB for an ordinary user.
LEASE_PIECE, LEASE_PIECES = 1 << 16, 16
# Seconds to wait until killed processes are gone: at a child's end, and at the guardian's own.
CHILD_PATIENCE = 5.0
END_PATIENCE = 10.0

libc = ctypes.CDLL(None, use_errno=True)


class RunningLease:
    """The right to go on, for ``seconds`` after each stamp from ``descriptor``."""

    def __init__(self, descriptor: int, seconds: float) -> None:
        self.descriptor = descriptor
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)

    def find_seconds_left(self) -> float:
        """Return the seconds until it runs out; 0 when it has."""
        return max(0.0, self.deadline - time.monotonic())

    def renew(self) -> bool:
        """Read all that has come, as the newest stamp alone counts; False if the other end has
        closed.
        """
        newest = b""
        for _ in range(LEASE_PIECES):
            try:
                stamps = os.read(self.descriptor, LEASE_PIECE)
            except BlockingIOError:
                break
            if not stamps:
                return False
            newest = stamps[-STAMP.size :]
        if newest:
            (heard,) = STAMP.unpack(newest)
            self.deadline = min(heard, time.monotonic()) + self.seconds
        return True


class Guardian:
    """The guardian's state: children, host settings, scratch directories, cgroups."""

    def __init__(
        self,
        sock: socket.socket,
        directory: int | None = None,
        settings: dict | None = None,
        lease: RunningLease | None = None,
    ) -> None:
        """``directory``: a descriptor of the journal's directory; ``settings``: those that may be
        changed.
        """
        self.lease = lease
        self.sock = sock
        self.directory = directory
        self.settings = settings or {}
        self.adopts = False
        # By numbers of our own: once a child is reaped, the kernel may give its PID to another (by
        # default after 32,768 others).
        self.children: dict[int, subprocess.Popen[bytes]] = {}
        self.spawned = 0
        self.scratch: list[str] = []
        self.cgroups: list[str] = []

    def serve(self) -> None:
        """Answer requests until the other end closes, or the lease runs out."""
        reaping.become_subreaper()
        self.adopts = True
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self.sock.shutdown(socket.SHUT_RDWR))
        while True:
            watched: list = [self.sock, wake_r]
            patience = None
            if self.lease:
                watched.append(self.lease.descriptor)
                patience = self.lease.find_seconds_left()
            readable, _, _ = select.select(watched, [], [], patience)
            if self.lease and not self.check_lease(self.lease.descriptor in readable):
                return
            if wake_r in readable:
                os.read(wake_r, 4096)
                self.reap()
            if self.sock in readable:
                message = self.receive()
                if not message:
                    return
                self.answer(message)

    def check_lease(self, is_readable: bool) -> bool:
        """Whether the lease still holds, after reading what has come."""
        assert self.lease
        if is_readable and not self.lease.renew():
            return False
        if not self.lease.find_seconds_left():
            complain(f"no word for {self.lease.seconds:g} s from who asked for these trials: ended")
            return False
        return True

    def receive(self) -> bytes:
        """Receive the next request; empty if the other end has closed."""
        message, files, flags, _ = socket.recv_fds(
            self.sock, MESSAGE_LIMIT, 1, socket.MSG_CMSG_CLOEXEC
        )
        if flags & socket.MSG_TRUNC:
            return b"null"
        for file in files:
            with os.fdopen(file, "rb") as large:
                message = large.read(REQUEST_LIMIT + 1)
        return message if len(message) <= REQUEST_LIMIT else b"null"

    def answer(self, message: bytes) -> None:
        """Do what a message requests. An exception becomes the answer's ``error``: no request ends
        the guardian.
        """
        number = None
        try:
            request = json.loads(message)
            number = request["id"]
            reply = getattr(self, "do_" + request["do"])(**request["with"]) or {}
        except (
            OSError,
            subprocess.SubprocessError,
            ValueError,
            settings_journal.BadJournal,
        ) as error:
            reply = {"error": shorten(str(error))}
        except Exception as error:
            reply = {"error": shorten(f"not a request: {type(error).__name__}: {error}")}
        self.send({"id": number, **reply})

    def send(self, message: dict) -> None:
        """Send to dballoc; if it has ended, :meth:`serve` notices that next."""
        try:
            self.sock.send(json.dumps(message).encode())
        except OSError:
            pass

    def reap(self) -> None:
        """Report the children that have ended, each with its resource usage, once their own
        descendants are gone.
        """
        exits = []
        for number, child in list(self.children.items()):
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                del self.children[number]
                child.returncode = os.waitstatus_to_exitcode(status)
                exits.append(
                    {
                        "exit": number,
                        "status": child.returncode,
                        "user": usage.ru_utime,
                        "system": usage.ru_stime,
                        "voluntary": usage.ru_nvcsw,
                        "involuntary": usage.ru_nivcsw,
                    }
                )
        if exits:
            self.end_adopted(CHILD_PATIENCE)
        elif self.adopts:
            reaping.reap_children(self.adopted())
        for report in exits:
            self.send(report)

    def adopted(self) -> Callable[[int], bool]:
        """Return a predicate: whether a child with that PID was not started by us, but left by one
        that has ended.
        """
        started = {child.pid for child in self.children.values()}
        return lambda pid: pid not in started

    def end_adopted(self, patience: float) -> None:
        """Kill the processes that ended children have left behind."""
        if self.adopts and (survivors := reaping.end_children(self.adopted(), patience)):
            report_unkillable(survivors)

    def do_spawn(
        self,
        argv,
        env,
        stdout,
        stderr=None,
        stdin=None,
        cwd="/",
        uid=None,
        gid=None,
        cpus=None,
        nofile=None,
        cgroup=None,
        thp_disable=False,
        oom_score_adj=None,
        handed=None,
        shared=None,
    ) -> dict:
        """Start a child in a session of its own. Its standard streams are paths, appended to.
        ``handed``: environment variable -> path; the variable becomes the number of a descriptor
        by which the child may append to that file. ``shared``: the same, to read and write it.
        """
        check_words(argv, env)
        check_open_files(nofile)
        prepare = functools.partial(
            prepare_child,
            guardian=os.getpid(),
            uid=uid,
            gid=gid,
            cpus=cpus,
            nofile=nofile,
            cgroup=cgroup,
            thp_disable=thp_disable,
            oom_score_adj=oom_score_adj,
        )
        with contextlib.ExitStack() as files:
            source = files.enter_context(open(stdin or os.devnull, "rb"))
            out, err = (
                files.enter_context(open_to_append(path)) for path in (stdout, stderr or stdout)
            )
            opened = {name: open_to_append(path) for name, path in (handed or {}).items()}
            opened |= {name: open_shared(path) for name, path in (shared or {}).items()}
            descriptors = {name: files.enter_context(f).fileno() for name, f in opened.items()}
            child = subprocess.Popen(
                argv,
                env=env | {name: str(number) for name, number in descriptors.items()},
                stdin=source,
                stdout=out,
                stderr=err,
                cwd=cwd,
                start_new_session=True,
                restore_signals=True,
                preexec_fn=prepare,
                pass_fds=list(descriptors.values()),
            )
        self.spawned += 1
        self.children[self.spawned] = child
        return {"pid": child.pid, "child": self.spawned}

    def do_signal(self, child: int, number: int) -> None:
        """Signal a child and its process group, unless it has ended already."""
        if child in self.children:
            os.killpg(self.children[child].pid, number)

    def do_set(self, name: str, value: str) -> None:
        """Write a host setting, once the journal has its old value."""
        if self.directory is None:
            raise OSError("the machine's lock is not held")
        settings_journal.change_setting(self.directory, self.settings, name, value)

    def do_restore(self) -> None:
        """Restore every changed host setting."""
        if self.directory is not None:
            settings_journal.put_back(self.directory, self.settings)

    def do_scratch(self, path: str) -> None:
        """Note a directory, to be removed at the end if it is still there."""
        self.scratch.append(path)

    def do_forget(self, path: str) -> None:
        """Leave a directory that was noted to another guardian."""
        if path in self.scratch:
            self.scratch.remove(path)

    def do_cgroup(self, path: str) -> None:
        """Note a cgroup, to be removed at the end if it is still there."""
        self.cgroups.append(path)

    def end(self) -> None:
        """Restore settings, kill children, wait for them, remove directories. An error in one step
        must not prevent the next.
        """
        if self.adopts:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            # First, as a child can be stuck in the kernel forever.
            self.do_restore()
        except (OSError, settings_journal.BadJournal) as error:
            complain(str(error))
        self.end_children()
        # dballoc waits for this message, and for the removal below longer than for the rest.
        self.send({"ended": True})
        remove_all(self.scratch, self.cgroups)

    def end_children(self) -> None:
        """Kill all children, with their descendants."""
        deadline = time.monotonic() + END_PATIENCE
        for child in self.children.values():
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except OSError:
                pass
        pids = [child.pid for child in self.children.values()]
        while (
            pids := [pid for pid in pids if not reaping.reap_if_ended(pid)]
        ) and time.monotonic() < deadline:
            time.sleep(0.002)
        if pids:
            report_unkillable(pids)
        self.end_adopted(max(0.0, deadline - time.monotonic()))


def prepare_child(*, guardian, uid, gid, cpus, nofile, cgroup, thp_disable, oom_score_adj) -> None:
    """Give a child its cgroups, CPUs, limits and user, between fork and exec. ``guardian``: the PID
    that must still be its parent.
    """
    if cgroup:
        for procs in cgroup:
            with open(procs, "w") as f:
                f.write("0")
    if cpus:
        os.sched_setaffinity(0, cpus)
    if nofile:
        resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Of threads it may have as many as we may give without a right that root has alone.
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    if oom_score_adj is not None:
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write(str(oom_score_adj))
    if uid is not None:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # What its descendants leave behind becomes our child when it has ended, and not before.
    reaping.become_subreaper()
    # After setuid: a change of credentials clears PDEATHSIG (prctl(2)).
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != guardian:
        os._exit(127)
    if thp_disable and libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_THP_DISABLE)")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def check_open_files(nofile) -> None:
    """Raises OSError if this process may not have so many open files: an error between fork and
    exec would reach dballoc without its text.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if nofile and nofile > hard and hard != resource.RLIM_INFINITY and not may_raise_limits():
        raise OSError(
            f"it needs {nofile} open files, but the hard limit is {hard}; raise it (ulimit -Hn, "
            "limits.conf)"
        )


def may_raise_limits() -> bool:
    """Whether this process may raise its hard limits. Root in a container often may not."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1)
    return False


def check_words(argv, env) -> None:
    """Raises ValueError if an argument or a variable has a NUL, which no program can be given."""
    for number, word in enumerate(argv):
        if "\0" in word:
            raise ValueError(f"its argument {number} has a NUL character in it")
    for name, value in env.items():
        if "\0" in name or "\0" in value:
            raise ValueError(
                f"its environment variable {name.replace(chr(0), '?')} has a NUL character in it"
            )


def shorten(text: str) -> str:
    """Return an error as one line of limited length."""
    return " ".join(text.split())[:500]


def complain(text: str) -> None:
    """Print a complaint, as far as standard error is open."""
    try:
        print(f"dballoc: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def report_unkillable(pids) -> None:
    """Complain of processes that SIGKILL did not end in time."""
    complain(
        f"process {' '.join(map(str, pids))} does not die even of SIGKILL; it is stuck in the "
        "kernel"
    )


def remove_all(scratch: list[str], cgroups: list[str]) -> None:
    """Remove those of the directories and cgroups that exist."""
    for path in scratch:
        remove_tree(path)
    for path in cgroups:
        for _ in range(50):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.02)
            else:
                break


def open_shared(path: str):
    """Open memory that dballoc shares with a child, by its path below /proc."""
    return open(path, "r+b", buffering=0)


def open_to_append(path: str):
    """Open a file of our own, in a directory of our own, to append to; no link is followed. Raises
    OSError if either is another user's.
    """
    if path == os.devnull:
        return open(path, "ab")
    above, name = os.path.split(path)
    directory = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(directory)
        if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
            raise PermissionError(errno.EPERM, "its directory is not ours alone", path)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        number = os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=directory)
    finally:
        os.close(directory)
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink != 1:
        os.close(number)
        raise PermissionError(errno.EPERM, "not a file of our own", path)
    os.set_blocking(number, True)
    return os.fdopen(number, "ab")


def main() -> None:
    """Serve, and clean up however it ends."""
    host = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    settings = {
        name: HostSetting(path, tuple(values))
        for name, (path, values) in host.get("settings", {}).items()
    }
    lease = RunningLease(**host["lease"]) if host.get("lease") else None
    sock = socket.socket(fileno=int(sys.argv[1]))
    guardian = Guardian(sock, host.get("directory"), settings, lease)
    try:
        guardian.serve()
    finally:
        guardian.end()


if __name__ == "__main__":
    main()
