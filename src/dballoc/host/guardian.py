"""The guardian: a small process that owns everything which must not outlive dballoc.

It is the parent of every server and client, the only one that changes host state, and the owner of scratch
directories. It holds one end of a socket. When the other end closes, for whatever reason (``kill -9`` of dballoc
included), it kills its children, restores what was changed, removes the scratch directories, and ends.

Being the parent, it can never signal a process that it did not start: a child's PID stays taken until it is reaped.
It has one thread, so PDEATHSIG, which follows the spawning *thread*, is safe here: should the guardian itself be
killed, the kernel kills its children, and dballoc (:mod:`dballoc.host.custody`) restores the host state.

Run as ``python -I -S guardian.py SOCKET_FD``; standard library only, so that it starts in milliseconds. Messages are
JSON, one per SOCK_SEQPACKET datagram; requests carry an ``id`` and are answered with it; exits come unasked.
"""

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PR_SET_THP_DISABLE = 41
MESSAGE_LIMIT = 1 << 20

libc = ctypes.CDLL(None, use_errno=True)


class Guardian:
    """The state behind the socket: children, host settings as they were, scratch directories."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        # By a number of our own: the kernel gives a PID that was reaped to another child, after 32,768 others by default.
        self.children: dict[int, subprocess.Popen[bytes]] = {}
        self.spawned = 0
        self.before: dict[str, str] = {}
        self.scratch: list[str] = []
        self.cgroups: list[str] = []

    def serve(self) -> None:
        """Answer until the other end closes."""
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self.sock.shutdown(socket.SHUT_RDWR))
        while True:
            watched: list = [self.sock, wake_r]
            readable, _, _ = select.select(watched, [], [])
            if wake_r in readable:
                os.read(wake_r, 4096)
                self.reap()
            if self.sock in readable:
                message = self.sock.recv(MESSAGE_LIMIT)
                if not message:
                    return
                self.answer(json.loads(message))

    def answer(self, request: dict) -> None:
        """Do what is asked; an OSError becomes the answer's ``error``."""
        try:
            reply = getattr(self, "do_" + request["do"])(**request["with"])
        except (OSError, subprocess.SubprocessError) as error:
            reply = {"error": str(error)}
        self.send({"id": request["id"], **(reply or {})})

    def send(self, message: dict) -> None:
        """To dballoc; if it is gone, :meth:`serve` will see that next."""
        try:
            self.sock.send(json.dumps(message).encode())
        except OSError:
            pass

    def reap(self) -> None:
        """Report the children that have ended, each with its resource usage."""
        for number, child in list(self.children.items()):
            done, status, usage = os.wait4(child.pid, os.WNOHANG)
            if done:
                del self.children[number]
                child.returncode = os.waitstatus_to_exitcode(status)
                self.send(
                    {
                        "exit": number,
                        "status": os.waitstatus_to_exitcode(status),
                        "user": usage.ru_utime,
                        "system": usage.ru_stime,
                        "voluntary": usage.ru_nvcsw,
                        "involuntary": usage.ru_nivcsw,
                    }
                )

    def do_spawn(self, argv, env, stdout, stderr=None, stdin=None, cwd="/", uid=None, gid=None, cpus=None,
                 nofile=None, cgroup=None, thp_disable=False, oom_score_adj=None) -> dict:  # fmt: skip
        """Start a child in a session of its own; paths for its standard streams, appended to."""
        me = os.getpid()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if nofile and nofile > hard and hard != resource.RLIM_INFINITY and os.geteuid() != 0:
            # What goes wrong between fork and exec has no words of its own.
            raise OSError(f"it needs {nofile} open files, the hard limit is {hard}; raise it (ulimit -Hn, limits.conf)")

        def in_child() -> None:
            if cgroup:
                for procs in cgroup:
                    with open(procs, "w") as f:
                        f.write("0")
            if cpus:
                os.sched_setaffinity(0, cpus)
            if nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if oom_score_adj is not None:
                with open("/proc/self/oom_score_adj", "w") as f:
                    f.write(str(oom_score_adj))
            if uid is not None:
                os.setgroups([])
                os.setgid(gid)
                os.setuid(uid)
            # After setuid: a change of credentials clears PDEATHSIG (prctl(2)).
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != me:
                os._exit(127)
            if thp_disable and libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl(PR_SET_THP_DISABLE)")
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)

        with (
            open(stdin or os.devnull, "rb") as source,
            open(stdout, "ab") as out,
            open(stderr or stdout, "ab") as err,
        ):
            child = subprocess.Popen(
                argv, env=env, stdin=source, stdout=out, stderr=err, cwd=cwd, start_new_session=True,
                restore_signals=True, preexec_fn=in_child,
            )  # fmt: skip
        self.spawned += 1
        self.children[self.spawned] = child
        return {"pid": child.pid, "child": self.spawned}

    def do_signal(self, child: int, number: int) -> None:
        """Signal a child and its process group; one that has ended already is left alone."""
        if child in self.children:
            os.killpg(self.children[child].pid, number)

    def do_set(self, path: str, value: str) -> dict:
        """Write a host setting, remembering what it was the first time."""
        before = read_setting(path)
        self.before.setdefault(path, before)
        write_setting(path, value)
        return {"before": self.before[path]}

    def do_restore(self) -> None:
        """Put every changed host setting back."""
        while self.before:
            path, value = self.before.popitem()
            write_setting(path, value)

    def do_scratch(self, path: str) -> None:
        """Remove this directory at the end, if it is still there."""
        self.scratch.append(path)

    def do_cgroup(self, path: str) -> None:
        """Remove this cgroup at the end, if it is still there."""
        self.cgroups.append(path)

    def end(self) -> None:
        """Kill, wait, restore, remove. Nothing here may stop the rest."""
        for child in self.children.values():
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except OSError:
                pass
        for child in self.children.values():
            try:
                os.waitpid(child.pid, 0)
            except OSError:
                pass
        for path, value in self.before.items():
            try:
                write_setting(path, value)
            except OSError as error:
                print(f"dballoc: could not restore {path} to {value}: {error}", file=sys.stderr)
        for path in self.scratch:
            shutil.rmtree(path, ignore_errors=True)
        for path in self.cgroups:
            for _ in range(50):
                try:
                    os.rmdir(path)
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)
                else:
                    break


def read_setting(path: str) -> str:
    """The value of a /sys file; of ``always [madvise] never`` the chosen one."""
    with open(path) as f:
        text = f.read().strip()
    start, end = text.find("["), text.find("]")
    return text[start + 1 : end] if 0 <= start < end else text


def write_setting(path: str, value: str) -> None:
    """Write a /sys file."""
    with open(path, "w") as f:
        f.write(value)


def main() -> None:
    """Serve, and clean up however that ends."""
    guardian = Guardian(socket.socket(fileno=int(sys.argv[1])))
    try:
        guardian.serve()
    finally:
        guardian.end()


if __name__ == "__main__":
    main()
