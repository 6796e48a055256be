"""Record a running process's switches and wake-ups with the system's perf, for a bounded number of call stacks.

Every switch is recorded (some 50 bytes), with its time and whether the thread was preempted. A call stack costs 16 KiB of the
thread's stack, copied by the kernel: 160 MB a second under 64 clients. So stacks are recorded in short windows only, spread
evenly over the time; their length follows from how often the threads switch.
"""

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dballoc.errors import Failure
from dballoc.host.custody import Child, Custody
from dballoc.profile.urgent import RECORDING, prefix
from dballoc.profile.waits import SWITCHES, WAKEUP, WAKING

# Bytes of a stack that the kernel copies: at half of that one in two of MariaDB's is cut off.
_DUMP = 16384
# One window every so many seconds, of at least so many.
_PITCH, _SHORTEST = 0.5, 0.002
# Bytes of memory for what perf has not written yet, all CPUs together, and for one of them.
_BUFFERS, _BUFFER = 64 << 20, (1 << 20, 16 << 20)
# What perf may write in all; what it needs on top of it to unwind.
_LARGEST = 1 << 30
# perf opens an event for each thread, CPU and kind before it answers for the first time.
_PATIENCE = 60.0
_TRACING = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
# CAP_SYS_ADMIN, CAP_PERFMON (capability.h).
_CAPABILITIES = 1 << 21 | 1 << 38
_FIELDS = "comm,pid,tid,time,event,ip,sym,dso,trace"


class Unavailable(Exception):
    """perf cannot be used here; why, in a few words."""


@dataclass(frozen=True)
class Recording:
    """``windows``: how many, ``open``: seconds that they lasted together; ``seconds``: of all; ``full``: the file's bound was
    reached before the time was over; ``wakeups``: whether those were recorded.
    """

    file: Path
    windows: int
    open: float
    seconds: float
    full: bool
    wakeups: bool


def record(
    pid: int, seconds: float, stacks: int, custody: Custody, scratch: Path, alive: Callable[[], None] = lambda: None
) -> Recording:
    """Record for so many seconds; ``stacks`` at most, about. ``alive`` is called now and then, and may raise.

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
            with _Perf(perf, pid, custody, scratch, traced) as running:
                return running.record(seconds, stacks, alive)
        except Unavailable as error:
            reason = error
    raise reason


def _may_trace() -> bool:
    """Whether the scheduler's tracepoints are ours to read. Root's perf mounts tracefs where it is not."""
    return os.geteuid() == 0 or any(os.access(f"{root}/events/sched/sched_waking/id", os.R_OK) for root in _TRACING)


def _permitted() -> bool:
    """Whether switches, which happen inside the kernel, may be ours to see; perf alone would see none, and not say so."""
    line = next((x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("CapEff:")), "CapEff: 0")
    return bool(int(line.split()[1], 16) & _CAPABILITIES) or not _PARANOID.exists() or int(_PARANOID.read_text()) < 2


def _not_permitted() -> str:
    level = _PARANOID.read_text().strip() if _PARANOID.exists() else "unknown"
    return f"perf is not permitted (kernel.perf_event_paranoid is {level}; it takes root, CAP_PERFMON, or 1 and the same user)"


def buffer(cpus: int) -> int:
    """Bytes for each CPU: a power of two (perf-record(1), --mmap-pages). Pure."""
    least, most = _BUFFER
    return int(max(least, min(most, 1 << (_BUFFERS // max(1, cpus)).bit_length() - 1)))


class _Perf:
    """A perf that records, told by its control pipes when to record stacks."""

    def __init__(self, perf: str, pid: int, custody: Custody, scratch: Path, traced: bool) -> None:
        self._traced = traced
        self._pid = pid
        self._file = scratch / f"perf-{int(traced)}.data"
        self._log = scratch / f"perf-{int(traced)}.log"
        control, answers = scratch / f"control-{int(traced)}", scratch / f"answers-{int(traced)}"
        for pipe in (control, answers):
            os.mkfifo(pipe, 0o600)
        self._control = os.open(control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._answers = os.open(answers, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._with_stack = [SWITCHES, *([WAKING] if traced else [])]
        events = [*self._with_stack, *([f"{WAKEUP}/call-graph=no/"] if traced else [])]
        try:
            self._child: Child = custody.spawn(
                [
                    *prefix(RECORDING), perf, "record", "--output", str(self._file), "--pid", str(pid), "--delay=-1",
                    f"--control=fifo:{control},{answers}", "--switch-events",
                    f"--call-graph=dwarf,{_DUMP}", f"--max-size={_LARGEST}B", *(f"--event={e}" for e in events),
                    # Others may lock no more memory than perf takes by itself.
                    *([f"--mmap-pages={buffer(os.cpu_count() or 1)}B"] if os.geteuid() == 0 else []),
                ],
                dict(os.environ) | {"LC_ALL": "C"}, self._log,
            )  # fmt: skip
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

    def record(self, seconds: float, stacks: int, alive: Callable[[], None]) -> Recording:
        if not self._ask("enable", _PATIENCE):
            raise Unavailable(self._refusal())
        began = time.monotonic()
        opened = time.monotonic()
        full = not self._all("disable")
        open_ = time.monotonic() - opened
        windows = 0
        plan = max(1, round(seconds / _PITCH))
        before, since = switches(self._pid), time.monotonic()
        while not full and windows < plan:
            alive()
            left = began + windows * _PITCH + _PITCH / 2 - time.monotonic()
            if left > 0:
                time.sleep(left)
            rate = (switches(self._pid) - before) / max(1e-3, time.monotonic() - since)
            length = window(stacks / plan, rate)
            opened = time.monotonic()
            full = not self._all("enable")
            if not full:
                time.sleep(max(0.0, length - (time.monotonic() - opened)))
                full = not self._all("disable")
            open_ += time.monotonic() - opened
            windows += 1
        if not full:
            time.sleep(max(0.0, began + seconds - time.monotonic()))
        lasted = time.monotonic() - began
        self._finish()
        return Recording(self._file, windows, open_, lasted, full, self._traced)

    def _finish(self) -> None:
        done = self._child.poll() or self._child.stop(signal.SIGINT, _PATIENCE)
        # Ended by our SIGINT it says so by its status, ended by its bound or with the process it says 0.
        if done.status not in (0, -signal.SIGINT, 128 + signal.SIGINT) or not self._file.exists():
            raise Failure(f"perf record ended with {done.words}: {_last_line(self._log)}")

    def _all(self, what: str) -> bool:
        """Whether perf did it; False if it has ended."""
        return all(self._ask(f"{what} {event}", _PATIENCE) for event in self._with_stack)

    def _ask(self, what: str, patience: float) -> bool:
        try:
            os.write(self._control, f"{what}\n".encode())
        except OSError as error:
            raise Failure(f"perf record does not listen any more: {error.strerror}") from None
        deadline = time.monotonic() + patience
        said = b""
        while b"ack" not in said:
            if select.select([self._answers], [], [], 0.02)[0]:
                said += os.read(self._answers, 4096)
            elif self._child.poll():
                return False
            elif time.monotonic() > deadline:
                raise Failure(f"perf record does not answer within {patience:.0f} s: {_last_line(self._log)}")
        return True

    def _refusal(self) -> str:
        said = self._log.read_text(errors="replace")
        if "perf_event_paranoid" in said or "ermission" in said or "not permitted" in said:
            return _not_permitted()
        return f"perf record cannot start: {_last_line(self._log)}"


def window(stacks: float, rate: float) -> float:
    """Seconds that a window lasts in which so many stacks are wanted, at so many switches a second: each may come with a
    wake-up. Pure.
    """
    return min(_PITCH * 0.8, max(_SHORTEST, stacks / 2 / rate if rate > 0 else _PITCH))


def switches(pid: int) -> int:
    """Context switches of all threads that live, as the kernel has counted them."""
    found = 0
    for task in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            lines = task.read_text().splitlines()[-2:]
        except OSError:
            continue  # it has just ended
        found += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return found


@contextmanager
def script(recording: Recording) -> Iterator[Iterator[str]]:
    """The recording as text, line by line, stacks unwound. Failure if it breaks."""
    perf = shutil.which("perf") or "perf"
    log = recording.file.with_suffix(".script.log")
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [
                perf, "script", "--input", str(recording.file), "--force", "--no-inline", "--ns",
                "--show-switch-events", "--show-lost-events", "--fields", _FIELDS,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=dict(os.environ) | {"LC_ALL": "C"},
            text=True, errors="replace",
        )  # fmt: skip
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


def throttled(recording: Recording) -> tuple[int, int]:
    """How often the kernel suspended recording (too many events), and how often perf could not keep up, by perf's own count."""
    done = subprocess.run(
        [shutil.which("perf") or "perf", "report", "--input", str(recording.file), "--force", "--stats"],
        capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return _count(done.stdout, "THROTTLE events:"), _count(done.stdout, "LOST events:")


def _count(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.strip().startswith(name):
            return int(line.partition(":")[2].split()[0])
    return 0


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return lines[-1] if lines else "it said nothing"
