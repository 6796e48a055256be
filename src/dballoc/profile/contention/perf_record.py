"""Record a running process's switches and wake-ups with the system's perf, and a bounded number of
call stacks.

Every switch is recorded (some 50 bytes), with its time and whether the thread was preempted. For a
call stack the kernel copies 32 KiB of the thread's stack, which would be 320 MB a second under 64
clients. So only every nth switch of a thread has its stack recorded, n depending on how often the
threads switch. Short windows with all stacks are no alternative: with hundreds of threads perf
takes longer to open and close a window than it may last.
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

from dballoc.ground.errors import Failure
from dballoc.host.exit_status import end_process
from dballoc.host.guardian.guardian_client import Child, Custody
from dballoc.host.process.handle import Process
from dballoc.host.unprivileged import give_up_rights
from dballoc.profile.contention.recording_limits import MAX_STACKS
from dballoc.profile.contention.thread_priority import RECORDING, make_nice_prefix
from dballoc.profile.contention.waits import SWITCHES, WAKEUP, WAKING

# Bytes of a stack that the kernel copies. With half of it one in a thousand of MariaDB 10.11's
# stacks is cut off, with this none, except once on a busy machine: one in six.
_STACK_BYTES = 32768
# For so many seconds the threads' switches are counted before the recording.
_COUNTING_SECONDS = 0.3
# Stacks of switches for each stack of a wake-up.
_SWITCHES_PER_WAKEUP = 3
# Bytes of perf's buffers: all of them, and the least and most for one.
_ALL_BUFFERS_BYTES, _BUFFER_BYTES = 64 << 20, (256 << 10, 16 << 20)
# perf opens a counter for each thread on each CPU. Beyond so many it is told to open one for each
# thread, which leaves out threads that start later.
_MAX_COUNTERS = 4096
# What perf may write in all, bytes.
_MAX_RECORDING_BYTES = 1 << 30
# Seconds to wait for perf's answers; it first opens an event for each thread, CPU and kind.
_PERF_TIMEOUT = 60.0
_REPORT_SECONDS = 300.0
_TRACEFS_ROOTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
# CAP_SYS_ADMIN, CAP_PERFMON (capability.h).
_CAPABILITIES = 1 << 21 | 1 << 38
# No names: for them perf would read the target's files.
_FIELDS = "pid,tid,time,event,ip,dso,trace"


class Unavailable(Exception):
    """perf cannot be used here; the text says why, in a few words."""


@dataclass(frozen=True, kw_only=True)
class RecordingRequest:
    """``seconds``: how long to record; ``stacks``: call stacks of switches at most, about, and
    fewer of wake-ups; ``check_alive`` is called every now and then, and may raise.
    """

    process: Process
    seconds: float
    custody: Custody
    stacks: int = MAX_STACKS
    check_alive: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class PerfRecording:
    """A recording. ``files``: of the switches, and of the wake-ups if those were recorded;
    ``period``: every so many switches of a thread the stack was recorded; ``since``: when it began,
    nanoseconds of CLOCK_MONOTONIC, to leave out earlier events; ``seconds`` that it lasted;
    ``full``: it ended before its time, as a file had reached its largest size or the process ended;
    ``newcomers``: whether it includes threads that started later.
    """

    files: tuple[Path, ...]
    period: int
    since: int
    seconds: float
    full: bool
    newcomers: bool


def record(request: RecordingRequest, scratch: Path) -> PerfRecording:
    """Record a process's switches, and its wake-ups where that is permitted, into files in
    ``scratch``.

    Raises Unavailable if perf is not installed or not permitted; Failure if it fails while
    recording.
    """
    perf = shutil.which("perf")
    if perf is None:
        raise Unavailable("perf is not installed (Debian: linux-perf)")
    if not _is_permitted():
        raise Unavailable(_explain_refusal())
    reason = Unavailable("")
    for traced in (True, False) if _may_trace() else (False,):
        try:
            return _record(perf, request, scratch, traced)
        except Unavailable as error:
            reason = error
    raise reason


def _record(perf: str, request: RecordingRequest, scratch: Path, traced: bool) -> PerfRecording:
    """Record switches, and with ``traced`` wake-ups too."""
    expected, threads = _estimate_switches(request)
    switch_period = compute_period(expected, request.stacks)
    wakeup_period = compute_period(expected, max(1, request.stacks // _SWITCHES_PER_WAKEUP))
    per_thread = threads * (os.cpu_count() or 1) > _MAX_COUNTERS
    options = _choose_buffer_options(threads, per_thread)
    commands = {
        f"switches-{int(traced)}": [perf, *_list_switch_events(switch_period, traced), *options]
    }
    if traced:
        commands["wakeups"] = [perf, *_list_wakeup_events(wakeup_period), *options]
    with ExitStack() as stack:
        # The first of them records the switches.
        recorders = [
            stack.enter_context(
                _PerfRecord(command, request.process, request.custody, scratch, name)
            )
            for name, command in commands.items()
        ]
        for recorder in recorders:
            recorder.begin()
        began = time.monotonic()
        while (seconds_left := began + request.seconds - time.monotonic()) > 0 and recorders[
            0
        ].runs:
            request.check_alive()
            time.sleep(min(seconds_left, 0.2))
        full = not all(recorder.runs for recorder in recorders)
        lasted = time.monotonic() - began
        for recorder in recorders:
            recorder.finish()
        return PerfRecording(
            files=tuple(recorder.file for recorder in recorders),
            period=switch_period,
            since=round(began * 1e9),
            seconds=lasted,
            full=full,
            newcomers=not per_thread,
        )


def _estimate_switches(request: RecordingRequest) -> tuple[float, int]:
    """Return how many switches the recording is likely to see, and how many threads there are."""
    before, began = count_switches(request.process)[0], time.monotonic()
    time.sleep(_COUNTING_SECONDS)
    after, threads = count_switches(request.process)
    # On a busy machine the count takes longer than it should.
    return (after - before) / (time.monotonic() - began) * request.seconds, threads


def _choose_buffer_options(threads: int, per_thread: bool) -> list[str]:
    """Return the options of perf record for counters of each thread, and for its buffers."""
    options = ["--per-thread"] if per_thread else []
    if os.geteuid() == 0:  # others may lock no more memory than perf takes by itself
        buffers = threads if per_thread else os.cpu_count() or 1
        options.append(f"--mmap-pages={compute_buffer_size(buffers)}B")
    return options


def _list_switch_events(period: int, traced: bool) -> list[str]:
    """Return the options of perf record for all switches, the stack of every ``period``-th, and
    with ``traced`` all wake-ups without stacks.
    """
    wakeups = [f"--event={WAKEUP}/call-graph=no/"] if traced else []
    return [
        "--event",
        f"{SWITCHES}/period={period}/",
        "--switch-events",
        f"--call-graph=dwarf,{_STACK_BYTES}",
        *wakeups,
    ]


def _list_wakeup_events(period: int) -> list[str]:
    """Return the options of perf record for the stack of every ``period``-th waking thread."""
    # A tracepoint that records its period is recorded every time, whatever the count
    # (perf_swevent_event).
    return [
        f"--event={WAKING}",
        f"--count={period}",
        "--no-period",
        f"--call-graph=dwarf,{_STACK_BYTES}",
    ]


def _may_trace() -> bool:
    """Whether we may read the scheduler's tracepoints. As root perf mounts tracefs if need be."""
    return os.geteuid() == 0 or any(
        os.access(f"{root}/events/sched/sched_waking/id", os.R_OK) for root in _TRACEFS_ROOTS
    )


def _is_permitted() -> bool:
    """Whether we may see switches, which happen inside the kernel. Without permission perf records
    none, and reports no error.
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


def _explain_refusal() -> str:
    level = _PARANOID.read_text().strip() if _PARANOID.exists() else "unknown"
    return (
        f"perf is not permitted: kernel.perf_event_paranoid is {level}; it takes root or "
        "CAP_PERFMON, or a level of 1 or less and the process's own user"
    )


def compute_buffer_size(number: int) -> int:
    """Return the bytes of each of ``number`` buffers: a power of two (perf-record(1),
    --mmap-pages). Pure.
    """
    least, most = _BUFFER_BYTES
    return max(least, min(most, 1 << (_ALL_BUFFERS_BYTES // max(1, number)).bit_length() - 1))


class _PerfRecord:
    """A perf record process, which records from :meth:`begin` to :meth:`finish`; its control pipe
    tells it when to begin.
    """

    def __init__(
        self, command: list[str], process: Process, custody: Custody, scratch: Path, name: str
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
                    *make_nice_prefix(RECORDING),
                    perf,
                    "record",
                    "--output",
                    str(self.file),
                    "--pid",
                    str(process.pid),
                    "--delay=-1",
                    "--no-buildid",
                    "--no-buildid-cache",
                    "--clockid=mono",
                    f"--control=fifo:{control},{answers}",
                    f"--max-size={_MAX_RECORDING_BYTES}B",
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
        """Wait until it is ready, and start recording. Raises Unavailable if it cannot; Failure if
        it does not answer.
        """
        os.write(self._control, b"enable\n")
        deadline = time.monotonic() + _PERF_TIMEOUT
        answer = b""
        while b"ack" not in answer:
            if select.select([self._answers], [], [], 0.02)[0]:
                answer += os.read(self._answers, 4096)
            elif not self.runs:
                raise Unavailable(self._explain_end())
            elif time.monotonic() > deadline:
                raise Failure(
                    f"perf record did not start within {_PERF_TIMEOUT:.0f} s: "
                    f"{_read_last_line(self._log)}"
                )

    def finish(self) -> None:
        """Stop recording, and wait until the file is written. Raises Failure if that went wrong."""
        ending = self._child.poll() or self._child.stop(signal.SIGINT, _PERF_TIMEOUT)
        # Its status tells our SIGINT; it is 0 at the file's largest size, or if the process ended.
        if ending.status not in (0, -signal.SIGINT, 128 + signal.SIGINT) or not self.file.exists():
            raise Failure(f"perf record ended with {ending.words}: {_read_last_line(self._log)}")

    def _explain_end(self) -> str:
        log = self._log.read_text(errors="replace")
        if "perf_event_paranoid" in log or "ermission" in log or "not permitted" in log:
            return _explain_refusal()
        return f"perf record cannot start: {_read_last_line(self._log)}"


def compute_period(expected: float, stacks: int) -> int:
    """Return every how many switches of a thread its stack is to be recorded, for at most
    ``stacks`` of the ``expected`` switches: 1 or a prime, so that the period does not fall into
    step with a server that repeats itself after some number of switches. Pure.
    """
    n = max(1, math.ceil(expected / stacks))
    while any(n % d == 0 for d in range(2, math.isqrt(n) + 1)):
        n += 1
    return n


def count_switches(process: Process) -> tuple[int, int]:
    """Return the context switches of all live threads, as the kernel counts them, and the number of
    these threads.
    """
    context_switches = threads = 0
    for task in (process.home / "task").glob("*/status"):
        try:
            lines = task.read_text().splitlines()[-2:]
        except OSError:
            continue  # it has just ended
        threads += 1
        context_switches += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return context_switches, threads


def _start_reader(words: list[str], file: Path, errors: BinaryIO) -> "subprocess.Popen[str]":
    """Start perf on a recording as the unprivileged user, for a target wrote what it reads. That
    user can enter the recording's directory from here alone, not by its path.
    """
    scratch = file.parent
    user = give_up_rights.choose_parser()
    user.show(scratch)
    user.let_read(file)
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
        preexec_fn=give_up_rights.limit_process,
        **give_up_rights.popen_as_unprivileged(),
    )


@contextmanager
def run_perf_script(file: Path, copies: Path) -> Iterator[Iterator[str]]:
    """Run perf script on a recording, for its lines with unwound stacks. ``copies``: the target's
    files, beside the recording. Raises Failure if it fails.
    """
    log = file.with_suffix(".script.log")
    words = [
        "script",
        "--no-inline",
        "--ns",
        "--show-switch-events",
        "--show-lost-events",
        "--symfs",
        copies.name,
        "--fields",
        _FIELDS,
    ]
    with log.open("wb") as errors:
        process = _start_reader(words, file, errors)
    assert process.stdout
    patience = 0.0
    try:
        yield _read_lines(process.stdout.fileno())
        patience = _PERF_TIMEOUT
    finally:
        process.stdout.close()
        status = end_process(process, patience)
    if status:
        raise Failure(f"perf script ended with status {status}: {_read_last_line(log)}")


def _read_lines(descriptor: int) -> Iterator[str]:
    """Yield the lines that perf script prints. Raises Failure if it prints nothing for too long:
    beside the copies, it looks at the target's own path of a file without a build-id, which may
    never answer.
    """
    rest, poll = b"", select.poll()
    poll.register(descriptor, select.POLLIN)
    while True:
        if not poll.poll(1000 * _PERF_TIMEOUT):
            raise Failure(
                f"perf script has printed nothing for {_PERF_TIMEOUT:g} s: a file that the process "
                "has mapped may not answer; --method proc works without perf"
            )
        if not (piece := os.read(descriptor, 1 << 16)):
            break
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode(errors="replace") + "\n" for line in lines)
    if rest:
        yield rest.decode(errors="replace")


def count_throttled(file: Path) -> int:
    """Return how often the kernel suspended a recording because of too many events, as perf
    counts.
    """
    with file.with_suffix(".report.log").open("wb") as errors:
        process = _start_reader(["report", "--stats"], file, errors)
    try:
        text, _ = process.communicate(timeout=_REPORT_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failure(f"perf report did not end within {_REPORT_SECONDS:.0f} s") from None
    finally:
        end_process(process, 0)
    return _parse_count(text, "THROTTLE events:")


def _parse_count(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.strip().startswith(name):
            return int(line.partition(":")[2].split()[0])
    return 0


def _read_last_line(log: Path) -> str:
    lines = (
        [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if log.exists()
        else []
    )
    return lines[-1] if lines else "it said nothing"
