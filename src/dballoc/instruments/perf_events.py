"""Open and read groups of perf events of one thread, by perf_event_open(2).

Counting alone: no samples, no ring buffer. Layouts are those of <linux/perf_event.h>.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from dballoc.experiment.model import CounterName

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
# Up to this level an ordinary user may count the kernel's work in processes of their own
# (perf_event_open(2)).
PARANOID_FOR_KERNEL = 1

# struct perf_event_attr up to sig_data (PERF_ATTR_SIZE_VER7, Linux 5.13). An older kernel takes a
# longer struct than its own if the rest is zero, as it is here.
_ATTR = struct.Struct("=IIQQQQQIIQQQQIiQIHHIIQ")
ATTR_SIZE = 128
# Bits of its flags.
INHERIT, EXCLUDE_USER, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 1, 1 << 4, 1 << 5, 1 << 6
# read_format: PERF_FORMAT_TOTAL_TIME_ENABLED, _TOTAL_TIME_RUNNING, _GROUP.
_READ_FORMAT = 1 << 0 | 1 << 1 | 1 << 3
_CLOSE_ON_EXEC = 1 << 3  # PERF_FLAG_FD_CLOEXEC

# The number of the system call, by machine (asm/unistd.h).
_SYSTEM_CALLS = {
    "x86_64": 298,
    "aarch64": 241,
    "riscv64": 241,
    "loongarch64": 241,
    "ppc64le": 319,
    "s390x": 331,
}

# By name: type (PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE) and config (perf_hw_id, perf_sw_ids).
_HARDWARE, _SOFTWARE = 0, 1
_EVENTS: dict[str, tuple[int, int]] = {
    "instructions": (_HARDWARE, 1),
    "cycles": (_HARDWARE, 0),
    "task-clock": (_SOFTWARE, 1),
    "page-faults": (_SOFTWARE, 2),
    "context-switches": (_SOFTWARE, 3),
}
assert set(_EVENTS) == set(get_args(CounterName))


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event, named as perf names it: "instructions:u" in user mode, "instructions:k" in the
    kernel. ``exclude``: the flags that leave a mode out.
    """

    name: str
    type: int
    config: int
    exclude: int

    @property
    def hardware(self) -> bool:
        """Whether the CPU counts it, and not the kernel."""
        return self.type == _HARDWARE


@dataclass(frozen=True, kw_only=True)
class GroupReading:
    """The counts of a group since it was opened, in its events' order. ``enabled`` and ``running``:
    seconds that it could have counted, and did: less where groups shared the CPU's counters.
    """

    counts: tuple[int, ...]
    enabled: float
    running: float


class CannotCount(Exception):
    """Why events cannot be counted, in one line; after a semicolon, what to do about it."""


def list_events(names: Iterable[str], kernel: bool = True) -> tuple[Event, ...]:
    """Return the events to open for these names of an experiment. What the CPU counts is counted
    apart for user mode and the kernel; without ``kernel``, for user mode alone, and nothing else.
    """
    events = []
    for name in names:
        kind, config = _EVENTS[name]
        modes = {"": 0}
        if kind == _HARDWARE:
            # As perf's modifiers :u and :k.
            modes = {":u": EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR}
            if kernel:
                modes[":k"] = EXCLUDE_USER | EXCLUDE_HYPERVISOR
        elif not kernel:
            continue
        events += [
            Event(name=name + mode, type=kind, config=config, exclude=exclude)
            for mode, exclude in modes.items()
        ]
    return tuple(events)


def pack_attributes(event: Event) -> bytes:
    """Return the event's struct perf_event_attr: counted at once, in threads started later too."""
    # type, size, config, sample_period, sample_type, read_format, the flags; 15 more.
    fields = [event.type, ATTR_SIZE, event.config, 0, 0, _READ_FORMAT, INHERIT | event.exclude]
    return _ATTR.pack(*fields, *[0] * 15)


def open_group(thread: int, events: Sequence[Event]) -> list[int]:
    """Open a group of events of one thread and all that it starts from now on; returns their
    descriptors, the leader's first. Raises OSError as perf_event_open(2).
    """
    number = _SYSTEM_CALLS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    libc = ctypes.CDLL(None, use_errno=True)
    descriptors: list[int] = []
    for event in events:
        attributes = ctypes.create_string_buffer(pack_attributes(event), ATTR_SIZE)
        leader = descriptors[0] if descriptors else -1
        words = [number, thread, -1, leader, _CLOSE_ON_EXEC]
        number_, thread_, cpu, group, flags = map(ctypes.c_long, words)
        descriptor = libc.syscall(number_, attributes, thread_, cpu, group, flags)
        if descriptor < 0:
            code = ctypes.get_errno()
            close_all(descriptors)
            raise OSError(code, os.strerror(code))
        descriptors.append(descriptor)
    return descriptors


def close_all(descriptors: Iterable[int]) -> None:
    """Close these descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


def read_group(leader: int, size: int) -> GroupReading:
    """Read the ``size`` counts of a group by its leader's descriptor: one system call, which asks
    the CPUs on which a thread of it runs at the moment.
    """
    return parse_group(os.read(leader, 8 * (3 + size)))


def parse_group(answer: bytes) -> GroupReading:
    """Return what read(2) gives for PERF_FORMAT_GROUP with both times, in nanoseconds."""
    number, enabled, running, *counts = struct.unpack(f"={len(answer) // 8}Q", answer)
    return GroupReading(counts=tuple(counts[:number]), enabled=enabled / 1e9, running=running / 1e9)


def read_paranoid_level() -> int | None:
    """Read kernel.perf_event_paranoid; None in a kernel or container without it."""
    try:
        return int(PARANOID.read_text())
    except (OSError, ValueError):
        return None


def explain_error(error: OSError, paranoid: int | None) -> str:
    """Return why perf_event_open failed, and after a semicolon what to do. ``paranoid``:
    kernel.perf_event_paranoid.
    """
    match error.errno:
        case errno.EACCES:
            return (
                f"refused by kernel.perf_event_paranoid = {paranoid}; run as root, or "
                f"sysctl kernel.perf_event_paranoid={PARANOID_FOR_KERNEL}"
            )
        case errno.EPERM:
            return (
                "perf_event_open is forbidden here, by a container's system call filter or kernel "
                "lockdown; run outside the container, or give it CAP_PERFMON"
            )
        case errno.ENOENT | errno.ENODEV | errno.EOPNOTSUPP | errno.ENXIO:
            return (
                "this CPU, or the hypervisor above it, offers no such counters; use a machine "
                "without virtualisation, or have the hypervisor pass its PMU on"
            )
        case errno.ENOSYS:
            return "this kernel has no perf_event_open; use one with CONFIG_PERF_EVENTS"
        case errno.EINVAL | errno.EBUSY:
            return "the CPU has too few free counters to count them at once; count fewer"
        case errno.EMFILE | errno.ENFILE:
            return "too many open files; raise the hard limit: ulimit -Hn"
        case _:
            return f"perf_event_open: {error.strerror}"
