"""Count instructions, cycles and other perf events of a running server, in all its threads.

Every thread that runs when counting begins gets a group of events of its own; threads that it
starts later inherit them (``inherit`` of perf_event_open(2)). So a reading costs one system call
for each of the first threads, however many clients connect afterwards.
"""

import contextlib
import errno
import math
import resource
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dballoc.host.process.handle import Process
from dballoc.instruments import perf_events
from dballoc.instruments.perf_events import CannotCount, Event, GroupReading
from dballoc.instruments.process_sampler import ProcessGone

# Where other counters shared the CPU's, a count is scaled up by the time that it was running. Below
# this share of the time it is refused: what ran meanwhile may have been something else.
LEAST_RUNNING = 0.9
# The most descriptors that one server's events may take, and those left free for everything else.
MOST_DESCRIPTORS = 8192
_FREE_DESCRIPTORS = 256
# How often the list of threads may change while their events are opened.
_TRIES = 20
# Work for the trial count, in rounds of a loop.
_TRIAL_ROUNDS = 20_000


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Counts of a whole server since counting began, in its events' order, at the moment ``clock``
    (CLOCK_MONOTONIC). ``enabled`` and ``running``: seconds of all its threads together that they
    could have counted, and did.
    """

    clock: float
    counts: tuple[float, ...]
    enabled: float
    running: float


@dataclass(frozen=True, kw_only=True)
class Count:
    """How often one event happened. ``count`` is None where it was counted for less than 90 % of
    the time; ``running``: that share, 0 to 1.
    """

    event: str
    count: int | None
    running: float


@dataclass(frozen=True, kw_only=True)
class Countable:
    """The events that this host counts, of those asked for. ``refusal``: why it does not count the
    others, or none at all; empty if it counts all.
    """

    events: tuple[Event, ...] = ()
    refusal: str = ""


def find_countable(names: Sequence[str]) -> Countable:
    """Find out which of these events the host lets us count, by counting them in this thread: all,
    or those of user mode alone, or none.
    """
    refusal = ""
    for kernel in (True, False):
        events = perf_events.list_events(names, kernel)
        if not events:
            break
        try:
            _try_events(events)
        except CannotCount as error:
            refusal = refusal or str(error)
        else:
            of_kernel = f"not the kernel's part: {refusal}" if refusal else ""
            return Countable(events=events, refusal=of_kernel)
    return Countable(refusal=refusal)


def _try_events(events: Sequence[Event]) -> None:
    """Count for a moment in this thread. Raises CannotCount if that is refused, or if the CPU's
    counters stand still.
    """
    try:
        descriptors = perf_events.open_group(0, events)
    except OSError as error:
        raise CannotCount(
            perf_events.explain_error(error, perf_events.read_paranoid_level())
        ) from None
    try:
        math.fsum(range(_TRIAL_ROUNDS))
        reading = perf_events.read_group(descriptors[0], len(events))
    finally:
        perf_events.close_all(descriptors)
    in_user_mode = [
        count
        for event, count in zip(events, reading.counts, strict=True)
        if event.hardware and event.name.endswith(":u")
    ]
    if not reading.running or 0 in in_user_mode:
        raise CannotCount(
            "the counters can be opened and stand still: the hypervisor does not really count, or "
            "others hold the CPU's counters; look for other profilers and the NMI watchdog "
            "(sysctl kernel.nmi_watchdog=0)"
        )


class ServerCounters:
    """The open events of one server. :meth:`close` it."""

    def __init__(self, events: Sequence[Event], groups: list[list[int]]) -> None:
        """``groups``: descriptors of the events of each thread, the leader's first."""
        self._events = events
        self._groups = groups

    @classmethod
    def open(cls, process: Process, events: Sequence[Event]) -> Self:
        """Begin to count in all threads of a process. CannotCount, ProcessGone.

        A thread that is new after the events were opened may have inherited them or not, which
        nothing tells. So all are closed and opened again until no thread has come meanwhile.
        """
        for _ in range(_TRIES):
            threads = _list_threads(process)
            make_room_for_descriptors(len(threads) * len(events))
            counters = cls(events, _open_groups(threads, events))
            try:
                if _list_threads(process) <= threads:
                    return counters
            except ProcessGone:
                counters.close()
                raise
            counters.close()
        raise CannotCount(
            f"the server has started threads again and again in {_TRIES} tries to count in all of "
            "them"
        )

    def close(self) -> None:
        """Stop counting."""
        for descriptors in self._groups:
            perf_events.close_all(descriptors)
        self._groups = []

    def read(self) -> Reading:
        """Read all counts. Threads that have ended since are in them."""
        clock = time.monotonic()
        size = len(self._events)
        groups = [perf_events.read_group(descriptors[0], size) for descriptors in self._groups]
        return add_groups(clock, size, groups)


def _list_threads(process: Process) -> set[int]:
    try:
        return set(process.list_threads())
    except OSError:
        raise ProcessGone from None


def _open_groups(threads: Iterable[int], events: Sequence[Event]) -> list[list[int]]:
    """Open the events in each thread; one that has ended meanwhile is left out. CannotCount."""
    groups: list[list[int]] = []
    with contextlib.ExitStack() as opened:
        for thread in threads:
            try:
                descriptors = perf_events.open_group(thread, events)
            except OSError as error:
                if error.errno == errno.ESRCH:
                    continue
                if error.errno == errno.EACCES:  # this user may count in processes of its own
                    raise CannotCount("this user may not trace the server; run as root") from None
                raise CannotCount(
                    perf_events.explain_error(error, perf_events.read_paranoid_level())
                ) from None
            opened.callback(perf_events.close_all, descriptors)
            groups.append(descriptors)
        opened.pop_all()  # what is open now is the caller's
    return groups


def make_room_for_descriptors(number: int) -> None:
    """Raise this process's soft limit of open files as far as so many descriptors more need. Raises
    CannotCount if they are too many.
    """
    if number > MOST_DESCRIPTORS:
        raise CannotCount(
            f"{number:,} descriptors would be needed for all of the server's threads, and dballoc "
            f"opens {MOST_DESCRIPTORS:,} at most; count fewer events"
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(list(Path("/proc/self/fd").iterdir())) + number + _FREE_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise CannotCount(
            f"{needed:,} open files would be needed, and the hard limit is {hard:,}; raise it: "
            f"ulimit -Hn {needed}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def add_groups(clock: float, size: int, groups: Sequence[GroupReading]) -> Reading:
    """Return the sums over all threads. ``size``: the number of events."""
    return Reading(
        clock=clock,
        counts=tuple(float(sum(group.counts[i] for group in groups)) for i in range(size)),
        enabled=math.fsum(group.enabled for group in groups),
        running=math.fsum(group.running for group in groups),
    )


def scale_counts(events: Sequence[str], before: Reading, after: Reading) -> list[Count]:
    """Return each event's count between two readings, scaled by time enabled ÷ time running as
    perf_event_open(2) has it.
    """
    enabled, running = after.enabled - before.enabled, after.running - before.running
    # A server that did not run at all had nothing to count, and was counted completely.
    share = min(1.0, running / enabled) if enabled > 0 else 1.0
    return [
        Count(
            event=event,
            count=round((last - first) / share) if share >= LEAST_RUNNING else None,
            running=share,
        )
        for event, first, last in zip(events, before.counts, after.counts, strict=True)
    ]


def interpolate_reading(readings: Sequence[Reading], clock: float) -> Reading:
    """Return the counts at the moment ``clock``: linear between the readings around it, the nearest
    reading's before the first and after the last.
    """
    following = next((i for i, r in enumerate(readings) if r.clock > clock), len(readings))
    if following in (0, len(readings)):
        return readings[min(following, len(readings) - 1)]
    a, b = readings[following - 1], readings[following]
    share = (clock - a.clock) / (b.clock - a.clock)
    return Reading(
        clock=clock,
        counts=tuple(x + share * (y - x) for x, y in zip(a.counts, b.counts, strict=True)),
        enabled=a.enabled + share * (b.enabled - a.enabled),
        running=a.running + share * (b.running - a.running),
    )
