"""What a running server waits for: by perf with call stacks, or, where perf cannot be used, by
/proc without stacks.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from dballoc.catalogue import waits as catalogue
from dballoc.ground.errors import Failure
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.ground.files.remove_tree import remove_tree
from dballoc.host import directories
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.abandonable.look_limits import symbol_limits
from dballoc.host.process.handle import Process
from dballoc.host.unprivileged import give_up_rights
from dballoc.profile import flamegraph
from dballoc.profile.contention import (
    mapped_copies,
    perf_record,
    perf_script,
    thread_states,
    waits,
)
from dballoc.profile.contention.perf_record import RecordingRequest
from dballoc.profile.contention.recording_limits import PERF_DISK_BYTES
from dballoc.profile.contention.thread_priority import READING, RECORDING, raise_priority
from dballoc.profile.contention.wait_rules import KERNEL, Rules
from dballoc.profile.contention.waits_below_malloc import drop_client_waits
from dballoc.profile.formats import profile_file
from dballoc.profile.model import Frame, Profile
from dballoc.profile.symbols.symbols import Symbols

_KALLSYMS = Path("/proc/kallsyms")
# Types of symbols that are code (nm(1)).
_CODE = frozenset("tTwW")


@cache
def _load() -> tuple[list[int], list[str]]:
    """Read the addresses, in order, and their names; none if we may not see them."""
    symbols = []
    try:
        with _KALLSYMS.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                address, kind, name = line.split(maxsplit=3)[:3]
                if kind in _CODE:
                    symbols.append((int(address, 16), name))
    except (OSError, ValueError):
        return [], []
    if not symbols or not symbols[-1][0]:
        return [], []
    symbols.sort()
    return [address for address, _ in symbols], [name for _, name in symbols]


def _find_kernel_function(address: int) -> str | None:
    """Return the kernel's function at an address; None if that is not known."""
    addresses, names = _load()
    index = bisect_right(addresses, address) - 1
    return names[index] if index >= 0 else None


# The kernel has the upper half of the address space, on x86-64 and aarch64.
_KERNEL_START = 1 << 63


# An address, and the file that it is in.
Place = tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class _PlaceFrames:
    """The frames of places, in their order; ``left_out``: a line for each thing that did not
    answer.
    """

    frames: list[Frame]
    left_out: list[str]


class _UnnamedFrames:
    """Gives each place a frame without a name. ``places``: by frame, all so far."""

    def __init__(self) -> None:
        self.places: dict[Frame, Place] = {}

    def resolve(self, address: int, file: str) -> Frame:
        """Return the frame of a place."""
        frame = Frame(f"{file}+{address:#x}", file, named=False)
        self.places[frame] = address, file
        return frame


def name_places(process: Process, places: Sequence[Place], is_ours: bool) -> _PlaceFrames:
    """Look up the functions at places in the files of a process. ``is_ours``: it is a server of
    ours, whose files are read without a child that could be given up.
    """

    def look_up() -> _PlaceFrames:
        frames = PerfFrames(process.root)
        return _PlaceFrames(
            frames=[frames.resolve(*place) for place in places], left_out=touches.list_notes()
        )

    if is_ours:
        return look_up()
    try:
        return run_abandonable(look_up, f"the files of {process}", symbol_limits())
    except Failure as error:
        unnamed = _UnnamedFrames()
        return _PlaceFrames(
            frames=[unnamed.resolve(*place) for place in places], left_out=[str(error)]
        )


class PerfFrames:
    """Resolves addresses to frames. ``root``: the file system that the target sees."""

    def __init__(self, root: Path) -> None:
        self._symbols = Symbols(root)

    def resolve(self, address: int, file: str) -> Frame:
        """Return the function at an address. ``file``: as perf names it; an ``address`` in a file
        is an offset from its start.
        """
        if address >= _KERNEL_START:
            name = _find_kernel_function(address)
            return Frame(name or f"{KERNEL}+{address:#x}", KERNEL, named=name is not None)
        if file.startswith("/"):
            return self._symbols.resolve_offset(file, address)
        return Frame(f"{file}+{address:#x}", file, named=False)


Method = Literal["auto", "perf", "proc"]


@dataclass(frozen=True)
class Contention:
    """What a process waited for. ``method``: in one line, how that was found and why in this way;
    ``wakeups``: None where they were not recorded.
    """

    method: str
    switches: Profile
    wakeups: Profile | None


@dataclass(frozen=True, kw_only=True)
class WatchRequest(RecordingRequest):
    """What to watch: ``title`` and ``facts`` are its profiles'. ``report_watched`` is called when
    the watching is over and only the recording remains to be read. ``is_ours``: the process is a
    server that we have started.
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    report_watched: Callable[[], None] = lambda: None
    is_ours: bool = False


def watch_waits(request: WatchRequest, method: Method = "auto") -> Contention:
    """Watch what a process's threads wait for. Raises Failure if it cannot be watched, or
    ``method`` is perf and perf cannot be used.
    """
    if method == "proc":
        return _watch_by_proc(request, reason="--method proc was given")
    try:
        return _watch_by_perf(request)
    except perf_record.Unavailable as error:
        if method == "perf":
            raise Failure(f"{error}; --method proc works without perf") from None
        return _watch_by_proc(request, reason=str(error))


def _watch_by_perf(request: WatchRequest) -> Contention:
    scratch = directories.make_scratch(request.custody.scratch)
    try:
        bytes_free = directories.free_bytes(scratch)
        if bytes_free < PERF_DISK_BYTES:
            raise perf_record.Unavailable(
                f"perf's recording may take {PERF_DISK_BYTES >> 30} GiB, but the cache's disk has "
                f"only {bytes_free / 2**30:.1f} GiB left (DBALLOC_CACHE names another place)"
            )
        taken_at = time.time()
        with raise_priority(RECORDING):
            recording = perf_record.record(request, scratch)
            copies = scratch / "files"
            left_out = mapped_copies.copy_mapped_files(
                request.process, copies, give_up_rights.choose_parser(), request.is_ours
            )
        request.report_watched()
        began = time.monotonic()
        with raise_priority(READING):
            recorded, unnamed = _read_waits(recording, request, copies)
            left_out += unnamed
            throttled = sum(perf_record.count_throttled(file) for file in recording.files)
        recording_facts = {
            "a stack for every": str(recording.period),
            "recording, bytes": str(sum(file.stat().st_size for file in recording.files)),
            "times throttled": str(throttled),
            "reading it, seconds": f"{time.monotonic() - began:.1f}",
        }
        if left_out:
            recording_facts["files left out"] = "; ".join(left_out)
        if recording.full:
            recording_facts["stopped early"] = (
                "the recording reached its largest size, or the process ended"
            )
    finally:
        remove_tree(scratch)
    if not recorded.waits + recorded.preemptions:
        raise Failure(
            f"{request.process}: none of its threads was switched in {request.seconds:g} s: it "
            "is idle, or in another PID namespace"
        )
    return _make_contention(request, recording, recorded, recording_facts, taken_at)


def _read_waits(
    recording: perf_record.PerfRecording, request: WatchRequest, copies: Path
) -> tuple[waits.Waits, list[str]]:
    """Read all files of a recording, with copies of the target's. Return the waits, and a line for
    each thing that did not answer. Raises Failure if perf cannot read it.
    """
    recorded, unnamed = waits.Waits(), _UnnamedFrames()
    for file in recording.files:
        with perf_record.run_perf_script(file, copies) as lines:
            events = perf_script.parse_events(lines, unnamed.resolve)
            waits.gather_waits(events, request.process, recorded, recording.since)
    named = name_places(request.process, [*unnamed.places.values()], request.is_ours)
    frames = dict(zip(unnamed.places, named.frames, strict=True))
    return waits.replace_frames(recorded, frames), named.left_out


def _make_contention(
    request: WatchRequest,
    recording: perf_record.PerfRecording,
    recorded: waits.Waits,
    recording_facts: Mapping[str, str],
    taken_at: float,
) -> Contention:
    """Make the profiles of a recording that has been read."""
    recorded_stacks = (
        "each" if recording.period == 1 else f"one in {recording.period} of each thread's"
    )
    method = f"perf: the times of all switches, the call stacks of {recorded_stacks}"
    if not recording.newcomers:
        method += "; threads that started meanwhile are not in it"
    rules = Rules(catalogue())
    facts = {**request.facts, "method": method, **recording_facts}
    switch_profile = waits.make_switch_profile(
        recorded, rules, f"{request.title}: waits", taken_at, recording.seconds, facts
    )
    wakeup_profile = None
    if len(recording.files) > 1:
        wakeup_profile = waits.make_wakeup_profile(
            recorded, rules, f"{request.title}: wake-ups", taken_at, recording.seconds, facts
        )
    return Contention(method, switch_profile, wakeup_profile)


def _watch_by_proc(request: WatchRequest, reason: str) -> Contention:
    """Watch without perf. ``reason``: why, for the reader."""
    taken_at = time.time()
    arenas_before, malloc = _find_arena_mutexes(request.process, request.is_ours)
    with raise_priority(RECORDING):
        states = thread_states.sample_states(request.process, request.seconds, request.check_alive)
    request.report_watched()
    # Arenas are made as threads come; an arena that is gone by now was one all the same.
    arenas = arenas_before | _find_arena_mutexes(request.process, request.is_ours)[0]
    method = (
        f"/proc: the threads' system calls {states.sweeps} times, no call stacks, because {reason}"
    )
    if malloc != "glibc":
        method += f"; the locks of {malloc} cannot be told from others"
    elif not arenas:
        method += "; glibc's arenas were not found, so their locks cannot be told from others"
    facts = {**request.facts, "method": method, "malloc": malloc}
    profile = thread_states.make_profile(
        states, arenas, Rules(catalogue()), f"{request.title}: waits", taken_at, facts
    )
    return Contention(method, profile, None)


def _find_arena_mutexes(process: Process, is_ours: bool) -> tuple[set[int], str]:
    """Find them as :mod:`thread_states` does; in a child that can be given up, unless it is a
    server of ours.
    """
    if is_ours:
        return thread_states.find_arena_mutexes(process)
    return run_abandonable(lambda: thread_states.find_arena_mutexes(process), process)


def choose_value(profile: Profile) -> str:
    """Return the key of the value that shares refer to: waits, or the time waited where waits were
    not counted.
    """
    return waits.WAITS.key if waits.WAITS in profile.values else waits.WAITED.key


def save_profiles(
    result: Contention, directory: Path, stem: str = "contention", pages: bool = True
) -> list[Path]:
    """Write the profiles, and with ``pages`` a flame graph of each. Return the files' paths. Raises
    UsageError if the directory is not ours alone; OSError if one cannot be written.
    """
    files = {}
    for suffix, profile in (("", result.switches), ("-wakeups", result.wakeups)):
        if profile is None or not profile.samples:
            continue
        files[f"{stem}{suffix}.profile.json.gz"] = profile_file.pack_profile(profile)
        if not pages:
            continue
        value = profile.values[0].key
        views = [(profile.title, profile)]
        without_client = drop_client_waits(profile)
        if 0 < len(without_client.samples) < len(profile.samples):
            views = [("without those for the client", without_client), ("all", profile)]
        page = flamegraph.render_page(views, value, profile.title)
        files[f"{stem}{suffix}.html"] = page.encode()
    with OutputDirectory.open(directory) as outputs:
        for name, content in files.items():
            outputs.write(name, content)
    return [directory / name for name in files]


def name_process(process: Process) -> str:
    """Return a title for a process: its executable's name and PID."""
    try:
        return f"{Path(process.read_link('exe')).name} {process.pid}"
    except OSError:
        return f"{process}"
