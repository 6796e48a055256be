"""Record a running process's switches and wake-ups with the system's perf, for a bounded number of
call stacks.

Every switch is recorded (some 50 bytes), with its time and whether the thread was preempted. A call
stack costs 32 KiB of the thread's stack, copied by the kernel: 320 MB a second under 64 clients. So
only that of every nth switch of a thread is recorded, and n follows from how often the threads
switch. Short windows with all stacks would do as well, but for a server of hundreds of threads perf
needs longer to open and to close one than it may last.
"""

import math
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from dballoc.errors import Failure
from dballoc.host import process_root, target_files
from dballoc.host.guardian.guardian_client import Child, Custody
from dballoc.host.unprivileged import sandbox
from dballoc.profile.contention.thread_priority import RECORDING, prefix
from dballoc.profile.contention.waits import SWITCHES, WAKEUP, WAKING

# Bytes of a stack that the kernel copies: at half of that one in a thousand of MariaDB 10.11's is
# cut off, none at this. Once, on a busy machine, it was one in six.
_DUMP = 32768
# Seconds over which the threads' switches are counted beforehand.
_LOOK = 0.3
# So many times fewer stacks of wake-ups than of switches.
_FEWER = 3
# Bytes of memory for what perf has not written yet: all buffers together, and one of them.
_BUFFERS, _BUFFER = 64 << 20, (256 << 10, 16 << 20)
# perf keeps a counter for each thread on each CPU; beyond so many, one for each thread, and none
# for threads that come later.
_COUNTERS = 4096
# What perf may write in all; what it needs on top of it to unwind.
_LARGEST = 1 << 30
# perf opens an event for each thread, CPU and kind before it answers for the first time.
_PATIENCE = 60.0
_TRACING = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
# CAP_SYS_ADMIN, CAP_PERFMON (capability.h).
_CAPABILITIES = 1 << 21 | 1 << 38
# No names: they are the target's own, and perf would read its files for them.
_FIELDS = "pid,tid,time,event,ip,dso,trace"
# Copies of the files that a target has mapped, for perf to unwind by: one, and all.
_LARGEST_COPY, _COPIES = 1 << 30, 1 << 30
_TREE = "files"
_MOST_MAPS = 64 << 20


class Unavailable(Exception):
    """perf cannot be used here; why, in a few words."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """``files``: of the switches, and of the wake-ups where those were recorded; ``period``: n;
    ``since``: when it began, nanoseconds of CLOCK_MONOTONIC: what comes before does not belong to
    it; ``seconds`` that it lasted; ``full``: a file's bound was reached before the time was over;
    ``newcomers``: whether threads that came later are in it.
    """

    files: tuple[Path, ...]
    period: int
    since: int
    seconds: float
    full: bool
    newcomers: bool


def record(
    pid: int,
    seconds: float,
    stacks: int,
    custody: Custody,
    scratch: Path,
    alive: Callable[[], None] = lambda: None,
) -> Recording:
    """Record for so many seconds; ``stacks`` at most, about, fewer of wake-ups. ``alive`` is called
    now and then, and may raise.

    Unavailable if perf is not here or not permitted; Failure if it breaks on the way.
    """
    perf = shutil.which("perf")
    if perf is None:
        raise Unavailable("perf is not installed (Debian: linux-perf)")
    if not _permitted():
        raise Unavailable(_not_permitted())
    reason = Unavailable("")
    for traced in (True, False) if _may_trace() else (False,):
        try:
            return _record(perf, pid, seconds, stacks, custody, scratch, alive, traced)
        except Unavailable as error:
            reason = error
    raise reason


def _record(
    perf: str,
    pid: int,
    seconds: float,
    stacks: int,
    custody: Custody,
    scratch: Path,
    alive: Callable[[], None],
    traced: bool,
) -> Recording:
    before, looked = switches(pid)[0], time.monotonic()
    time.sleep(_LOOK)
    now, threads = switches(pid)
    # On a busy machine the look takes longer than it should.
    expected = (now - before) / (time.monotonic() - looked) * seconds
    every, rarer = period(expected, stacks), period(expected, max(1, stacks // _FEWER))
    per_thread = threads * (os.cpu_count() or 1) > _COUNTERS
    options = ["--per-thread"] if per_thread else []
    if os.geteuid() == 0:  # others may lock no more memory than perf takes by itself
        options.append(f"--mmap-pages={buffer(threads if per_thread else os.cpu_count() or 1)}B")
    with_stack = [f"{SWITCHES}/period={every}/", "--switch-events", f"--call-graph=dwarf,{_DUMP}"]
    wakeups = [f"{WAKEUP}/call-graph=no/"] if traced else []
    with ExitStack() as stack:

        def start(name: str, *words: str) -> _Perf:
            return stack.enter_context(_Perf([perf, *words, *options], pid, custody, scratch, name))

        main = start(
            f"switches-{int(traced)}", "--event", *with_stack, *(f"--event={e}" for e in wakeups)
        )
        running = [main]
        if traced:
            # A tracepoint that records its period is recorded every time, whatever the count
            # (perf_swevent_event).
            running.append(
                start(
                    "wakeups",
                    f"--event={WAKING}",
                    f"--count={rarer}",
                    "--no-period",
                    f"--call-graph=dwarf,{_DUMP}",
                )
            )
        for one in running:
            one.begin()
        began = time.monotonic()
        while (left := began + seconds - time.monotonic()) > 0 and main.runs:
            alive()
            time.sleep(min(left, 0.2))
        full = not all(one.runs for one in running)
        lasted = time.monotonic() - began
        for one in running:
            one.finish()
        return Recording(
            files=tuple(one.file for one in running),
            period=every,
            since=round(began * 1e9),
            seconds=lasted,
            full=full,
            newcomers=not per_thread,
        )


def _may_trace() -> bool:
    """Whether the scheduler's tracepoints are ours to read. Root's perf mounts tracefs where it is
    not.
    """
    return os.geteuid() == 0 or any(
        os.access(f"{root}/events/sched/sched_waking/id", os.R_OK) for root in _TRACING
    )


def _permitted() -> bool:
    """Whether switches, which happen inside the kernel, may be ours to see; perf alone would see
    none, and not say so.
    """
    line = next(
        (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("CapEff:")),
        "CapEff: 0",
    )
    return (
        bool(int(line.split()[1], 16) & _CAPABILITIES)
        or not _PARANOID.exists()
        or int(_PARANOID.read_text()) < 2
    )


def _not_permitted() -> str:
    level = _PARANOID.read_text().strip() if _PARANOID.exists() else "unknown"
    return (
        f"perf is not permitted (kernel.perf_event_paranoid is {level}; it takes root, "
        "CAP_PERFMON, or 1 and the same user)"
    )


def buffer(number: int) -> int:
    """Bytes of each of so many: a power of two (perf-record(1), --mmap-pages). Pure."""
    least, most = _BUFFER
    return max(least, min(most, 1 << (_BUFFERS // max(1, number)).bit_length() - 1))


class _Perf:
    """A perf that records from :meth:`begin` to :meth:`finish`, told by its control pipe when to
    begin.
    """

    def __init__(
        self, command: list[str], pid: int, custody: Custody, scratch: Path, name: str
    ) -> None:
        self.file = scratch / f"{name}.data"
        self._log = scratch / f"{name}.log"
        control, answers = scratch / f"{name}.control", scratch / f"{name}.answers"
        for pipe in (control, answers):
            os.mkfifo(pipe, 0o600)
        self._control = os.open(control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._answers = os.open(answers, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        perf, *options = command
        try:
            self._child: Child = custody.spawn(
                [
                    *prefix(RECORDING),
                    perf,
                    "record",
                    "--output",
                    str(self.file),
                    "--pid",
                    str(pid),
                    "--delay=-1",
                    "--no-buildid",
                    "--no-buildid-cache",
                    "--clockid=mono",
                    f"--control=fifo:{control},{answers}",
                    f"--max-size={_LARGEST}B",
                    *options,
                ],
                dict(os.environ) | {"LC_ALL": "C"},
                self._log,
            )
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._child.poll() is None:
                self._child.stop(signal.SIGKILL, 0)
        finally:
            self._close()

    def _close(self) -> None:
        os.close(self._control)
        os.close(self._answers)

    @property
    def runs(self) -> bool:
        """Whether it still records."""
        return self._child.poll() is None

    def begin(self) -> None:
        """Wait until it is ready, and let it record. Unavailable if it cannot."""
        os.write(self._control, b"enable\n")
        deadline = time.monotonic() + _PATIENCE
        said = b""
        while b"ack" not in said:
            if select.select([self._answers], [], [], 0.02)[0]:
                said += os.read(self._answers, 4096)
            elif not self.runs:
                raise Unavailable(self._refusal())
            elif time.monotonic() > deadline:
                raise Failure(
                    f"perf record does not begin within {_PATIENCE:.0f} s: {_last_line(self._log)}"
                )

    def finish(self) -> None:
        """Let it write what it has. Failure if it went wrong."""
        done = self._child.poll() or self._child.stop(signal.SIGINT, _PATIENCE)
        # Ended by our SIGINT it says so by its status, ended by its bound or with the process it
        # says 0.
        if done.status not in (0, -signal.SIGINT, 128 + signal.SIGINT) or not self.file.exists():
            raise Failure(f"perf record ended with {done.words}: {_last_line(self._log)}")

    def _refusal(self) -> str:
        said = self._log.read_text(errors="replace")
        if "perf_event_paranoid" in said or "ermission" in said or "not permitted" in said:
            return _not_permitted()
        return f"perf record cannot start: {_last_line(self._log)}"


def period(expected: float, stacks: int) -> int:
    """Every how many switches of a thread a stack is recorded, of so many that are expected, for
    that many stacks at most: 1, or a prime, for what a server does comes round after so many
    switches, and must not come round with the stacks. Pure.
    """
    n = max(1, math.ceil(expected / stacks))
    while any(n % d == 0 for d in range(2, math.isqrt(n) + 1)):
        n += 1
    return n


def switches(pid: int) -> tuple[int, int]:
    """Context switches of all threads that live, as the kernel has counted them; and how many
    threads these are.
    """
    found = threads = 0
    for task in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            lines = task.read_text().splitlines()[-2:]
        except OSError:
            continue  # it has just ended
        threads += 1
        found += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return found, threads


def copy_mapped_files(pid: int, scratch: Path) -> None:
    """Copy the code that a process has mapped to a tree below ``scratch``, where :func:`script` has
    perf look for it.

    perf unwinds by what it reads there, without our rights, so that it must be able to read it.
    Files that cannot be had, or are too large, are left out: their frames end a stack.
    """
    tree = scratch / _TREE
    tree.mkdir(mode=0o755)
    root, left = target_files.root_of(pid), _COPIES
    with open(f"/proc/{pid}/maps", errors="surrogateescape") as maps:
        lines = maps.read(_MOST_MAPS).splitlines()
    parts = (line.split(maxsplit=5) for line in lines)
    for path in dict.fromkeys(
        part[5] for part in parts if len(part) == 6 and "x" in part[1] and part[5].startswith("/")
    ):
        try:
            fd = target_files.open_file(root, process_root.own(pid, path))
        except OSError:
            continue
        with open(fd, "rb") as file:
            size = os.fstat(fd).st_size
            if ".." in path.split("/") or size > min(left, _LARGEST_COPY):
                continue
            left -= size
            copy = tree / path.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            with copy.open("wb") as target:
                shutil.copyfileobj(file, target, 1 << 20)
            copy.chmod(0o444)


def _start_reader(words: list[str], file: Path, errors: BinaryIO) -> "subprocess.Popen[str]":
    """Start perf on a recording as the unprivileged user: what it reads was written by a target."""
    scratch = file.parent
    scratch.chmod(0o711)  # reached by its descriptor, not by its path
    file.chmod(0o444)
    return subprocess.Popen(
        [shutil.which("perf") or "perf", words[0], "--input", file.name, "--force", *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        errors="replace",
        cwd=scratch,
        env={
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LC_ALL": "C",
            "HOME": "/nonexistent",
        },
        preexec_fn=sandbox.limit_process,
        **sandbox.popen_as_unprivileged(),
    )


@contextmanager
def script(file: Path) -> Iterator[Iterator[str]]:
    """A recording as text, line by line, stacks unwound. Failure if it breaks."""
    log = file.with_suffix(".script.log")
    words = [
        "script",
        "--no-inline",
        "--ns",
        "--show-switch-events",
        "--show-lost-events",
        "--symfs",
        _TREE,
        "--fields",
        _FIELDS,
    ]
    with log.open("wb") as errors:
        process = _start_reader(words, file, errors)
    assert process.stdout
    try:
        yield iter(process.stdout)
    except BaseException:
        process.kill()
        raise
    finally:
        process.stdout.close()
        status = process.wait()
    if status:
        raise Failure(f"perf script ended with status {status}: {_last_line(log)}")


def throttled(file: Path) -> int:
    """How often the kernel suspended a recording for too many events, by perf's own count."""
    with (
        file.with_suffix(".report.log").open("wb") as errors,
        _start_reader(["report", "--stats"], file, errors) as process,
    ):
        text, _ = process.communicate()
    return _count(text, "THROTTLE events:")


def _count(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.strip().startswith(name):
            return int(line.partition(":")[2].split()[0])
    return 0


def _last_line(log: Path) -> str:
    lines = (
        [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if log.exists()
        else []
    )
    return lines[-1] if lines else "it said nothing"
