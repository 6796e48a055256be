"""What a running server waits for: by perf with call stacks, or where that cannot be by /proc
without.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dballoc.catalogue import waits as catalogue
from dballoc.errors import Failure, UsageError
from dballoc.host import directories, target_files
from dballoc.host.guardian.guardian_client import Custody
from dballoc.profile import flamegraph
from dballoc.profile.contention import perf_record, perf_script, thread_states, waits
from dballoc.profile.contention.perf_frames import PerfFrames
from dballoc.profile.contention.thread_priority import READING, RECORDING, urgent
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.contention.wait_split import own_waits
from dballoc.profile.formats import profile_file
from dballoc.profile.model import Profile

Method = Literal["auto", "perf", "proc"]

# Call stacks of switches that are recorded at most, about, and a third as many of wake-ups: 32 KiB
# each until they are read, and some milliseconds of CPU each to read them.
STACKS = 3_000
# What a recording may take on disk: perf's own bound and copies of the files that it unwinds by;
# its text is never written.
_ROOM = 4 << 30


@dataclass(frozen=True)
class Contention:
    """``method``: in one line, which it was and why; ``wakeups``: None where they were not
    recorded.
    """

    method: str
    switches: Profile
    wakeups: Profile | None


def _nothing() -> None:
    pass


def look(
    pid: int,
    seconds: float,
    custody: Custody,
    *,
    method: Method = "auto",
    stacks: int = STACKS,
    title: str = "",
    facts: Mapping[str, str] | None = None,
    alive: Callable[[], None] = _nothing,
    watched: Callable[[], None] = _nothing,
) -> Contention:
    """Watch a process for so many seconds. ``alive`` is called now and then, and may raise;
    ``watched`` when nothing is left but to read what was recorded.

    UsageError if there is no such process; Failure if it cannot be watched, or ``method`` is perf
    and that cannot be.
    """
    if not Path(f"/proc/{pid}").exists():
        raise UsageError(f"process {pid}: there is no such process")
    title = title or f"process {pid}"
    known = dict(facts or {})
    if method == "proc":
        return _by_proc(pid, seconds, "it was asked for", title, known, alive, watched)
    try:
        return _by_perf(pid, seconds, stacks, custody, title, known, alive, watched)
    except perf_record.Unavailable as error:
        if method == "perf":
            raise Failure(f"{error}; --method proc does without") from None
        return _by_proc(pid, seconds, str(error), title, known, alive, watched)


def _by_perf(
    pid: int, seconds: float, stacks: int, custody: Custody, title: str, facts: Mapping[str, str],
    alive: Callable[[], None], watched: Callable[[], None],
) -> Contention:  # fmt: skip
    scratch = directories.make_scratch(custody.scratch)
    try:
        if (room := directories.free_bytes(scratch)) < _ROOM:
            raise perf_record.Unavailable(
                f"perf's recording may take {_ROOM >> 30} GiB and the cache's disk has "
                f"{room / 2**30:.1f} left"
            )
        taken = time.time()
        with urgent(RECORDING):
            recording = perf_record.record(pid, seconds, stacks, custody, scratch, alive)
            perf_record.copy_mapped_files(pid, scratch)
        watched()
        began = time.monotonic()
        with urgent(READING):
            found, frames = waits.Waits(), PerfFrames(target_files.root_of(pid))
            for file in recording.files:
                with perf_record.script(file) as lines:
                    waits.gather(
                        perf_script.parse(lines, frames.resolve), pid, found, recording.since
                    )
            suspended = sum(perf_record.throttled(file) for file in recording.files)
        size = sum(file.stat().st_size for file in recording.files)
        reading = time.monotonic() - began
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if not found.waits + found.preemptions:
        raise Failure(
            f"process {pid}: no thread of it was switched in {seconds:g} s: it is idle, or in "
            "another PID namespace"
        )
    every = "each" if recording.period == 1 else f"one in {recording.period} of each thread's"
    line = f"perf: the times of all switches, the call stacks of {every}"
    if not recording.newcomers:
        line += "; threads that came meanwhile are not in it"
    rules = Rules(catalogue())
    known = {
        **facts,
        "method": line,
        "a stack for every": str(recording.period),
        "recording, bytes": str(size),
        "times throttled": str(suspended),
        "reading it, seconds": f"{reading:.1f}",
        **(
            {"stopped early": "the recording reached its largest size, or the process ended"}
            if recording.full
            else {}
        ),
    }
    switched = waits.switches(found, rules, f"{title}: waits", taken, recording.seconds, known)
    woken = (
        waits.wakeups(found, rules, f"{title}: wake-ups", taken, recording.seconds, known)
        if len(recording.files) > 1
        else None
    )
    return Contention(line, switched, woken)


def _by_proc(
    pid: int,
    seconds: float,
    why: str,
    title: str,
    facts: Mapping[str, str],
    alive: Callable[[], None],
    watched: Callable[[], None],
) -> Contention:
    taken = time.time()
    before, malloc = thread_states.mutexes(pid)
    with urgent(RECORDING):
        found = thread_states.watch(pid, seconds, alive)
    watched()
    # Arenas are made while threads come; one that is gone by now was still one.
    arenas = before | thread_states.mutexes(pid)[0]
    line = f"/proc: the threads' system calls {found.sweeps} times, no call stacks, because {why}"
    if malloc != "glibc":
        line += f"; under {malloc} its locks cannot be told from others"
    elif not arenas:
        line += "; glibc's arenas were not found, so their locks cannot be told from others"
    rules = Rules(catalogue())
    known = {**facts, "method": line, "malloc": malloc}
    return Contention(
        line, thread_states.profile(found, arenas, rules, f"{title}: waits", taken, known), None
    )


def counted(profile: Profile) -> str:
    """The value that its shares are of: waits, or the time waited where those were not counted."""
    return waits.WAITS.key if waits.WAITS in profile.values else waits.WAITED.key


def keep(
    found: Contention, directory: Path, stem: str = "contention", pages: bool = True
) -> list[Path]:
    """Write the profiles, and with ``pages`` a flame graph of each; the files' paths. OSError as
    usual.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for suffix, profile in (("", found.switches), ("-wakeups", found.wakeups)):
        if profile is None or not profile.samples:
            continue
        path = directory / f"{stem}{suffix}.profile.json.gz"
        profile_file.save(profile, path)
        files.append(path)
        if not pages:
            continue
        page = directory / f"{stem}{suffix}.html"
        value = profile.values[0].key
        views = [(profile.title, profile)]
        own = own_waits(profile)
        if 0 < len(own.samples) < len(profile.samples):
            views = [("without those for the client", own), ("all", profile)]
        page.write_text(flamegraph.page(views, value, profile.title), encoding="utf-8")
        files.append(page)
    return files


def name_of(pid: int) -> str:
    """A title for a process: its executable's name and PID."""
    try:
        return f"{Path(os.readlink(f'/proc/{pid}/exe')).name} {pid}"
    except OSError:
        return f"process {pid}"
