"""Take snapshots of a probe over time: on demand, by period, at a new peak."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dballoc.ground.errors import Failure
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import AbandonableWork
from dballoc.host.abandonable.look_limits import symbol_limits
from dballoc.profile.heap import heap_profile
from dballoc.profile.heap.probe_client import Probe, SavedSnapshot
from dballoc.profile.heap.probe_snapshot import SampledStack, Snapshot
from dballoc.profile.model import Frame, Profile
from dballoc.profile.symbols.symbols import Mapped, Symbols

# Seconds between readings of the estimate of live bytes, and the ratio by which a new peak must
# exceed the last one, which is massif's.
_POLL_SECONDS = 0.2
_PEAK_RATIO = 1.01


@dataclass(kw_only=True)
class SnapshotSeries:
    """A series of snapshots: the ``first`` and the ``last``, the functions of all ``stacks``, the
    ``profiles`` of all snapshots, and the profile at the ``peak`` of live bytes. ``ended``: why the
    series ended early, else empty.
    """

    first: Snapshot
    last: Snapshot
    stacks: heap_profile.Stacks
    profiles: list[Profile] = field(default_factory=list)
    peak: Profile | None = None
    ended: str = ""

    @property
    def profiles_with_peak(self) -> list[Profile]:
        """All of them, with that of the peak if it was taken besides, in the order of time."""
        with_peak = {id(p): p for p in (*self.profiles, self.peak) if p is not None}
        return sorted(with_peak.values(), key=lambda profile: profile.taken_at)


@dataclass(frozen=True)
class _Unresolved:
    """Stacks to look up, by number."""

    maps: list[Mapped]
    stacks: dict[int, SampledStack]


@dataclass(frozen=True)
class _Resolved:
    """The functions of each, and notes on what has no names."""

    stacks: dict[int, tuple[Frame, ...]]
    notes: list[str]


class ProbedProcess:
    """A process under a probe, for any number of snapshots, or one that has left its snapshot; each
    call stack is resolved once.
    """

    def __init__(self, probe: Probe | SavedSnapshot, name: str) -> None:
        self.probe = probe
        self.name = name
        self.notes: list[str] = []
        self._symbols = Symbols(probe.place.process.root if isinstance(probe, Probe) else Path("/"))
        self._functions: dict[int, tuple[Frame, ...]] = {}
        self._reader = AbandonableWork[_Unresolved, _Resolved](
            self._resolve_stacks, symbol_limits(), f"{name}: the files that it has mapped"
        )

    def take_snapshot(self, occasion: str = "") -> tuple[Snapshot, Profile]:
        """Take a snapshot, and make its profile. Raises Failure if the probe does not answer."""
        snapshot = self.probe.snapshot()
        return snapshot, self.profile(snapshot, occasion)

    def profile(self, snapshot: Snapshot, occasion: str = "") -> Profile:
        """Make the profile of a snapshot, while its process lives. ``occasion``: for the title."""
        self.resolve(snapshot)
        title = " ".join(
            filter(None, ["heap of", self.name, f"(process {self.probe.pid})", occasion])
        )
        return heap_profile.make_profile(snapshot, self._functions, title)

    def resolve(self, snapshot: Snapshot) -> None:
        """Look up the functions of stacks that no earlier snapshot had."""
        new_stacks = {
            number: stack
            for number, stack in snapshot.stacks.items()
            if number not in self._functions
        }
        if not new_stacks:
            return
        request = _Unresolved(heap_profile.parse_mappings(snapshot), new_stacks)
        if touches.is_child():
            resolved = self._resolve_stacks(request)
        else:
            resolved = self._reader.run(request)
        self._functions |= resolved.stacks
        self.notes = resolved.notes

    def _resolve_stacks(self, request: "_Unresolved") -> "_Resolved":
        """Look functions up in the files that the process has mapped, which may never answer."""
        stacks = heap_profile.resolve_stacks(
            request.stacks, lambda address: self._symbols.resolve(request.maps, address)
        )
        return _Resolved(stacks, [*self._symbols.notes])

    def stop_sampling(self) -> None:
        """Have the probe sample nothing from now on."""
        if isinstance(self.probe, Probe):
            self.probe.set_interval(0)

    @property
    def stacks(self) -> heap_profile.Stacks:
        """The functions of every stack resolved so far."""
        return self._functions


def take_series(
    process: ProbedProcess,
    period: float | None,
    count: int | None,
    at_peak: bool,
    report_snapshot: Callable[[Snapshot], None] = lambda _: None,
) -> SnapshotSeries:
    """Take snapshots: one now, and one every ``period`` seconds until there are ``count``, or
    Ctrl-C, or the process ends; with ``at_peak`` also whenever more is alive than ever before.
    ``report_snapshot`` is called with each. Raises Failure if not even the first can be taken.
    """
    snapshot, profile = process.take_snapshot()
    report_snapshot(snapshot)
    series = SnapshotSeries(
        first=snapshot, last=snapshot, stacks=process.stacks, profiles=[profile], peak=profile
    )
    try:
        for due in _schedule_snapshots(period, count):
            while (seconds_left := due - time.monotonic()) > 0:
                time.sleep(min(seconds_left, _POLL_SECONDS) if at_peak else seconds_left)
                if at_peak and process.probe.status().get(
                    "live", 0
                ) > _PEAK_RATIO * _get_peak_bytes(series):
                    _, series.peak = process.take_snapshot("at its peak")
            series.last, profile = process.take_snapshot()
            report_snapshot(series.last)
            series.profiles.append(profile)
            if profile.total(heap_profile.LIVE) > _get_peak_bytes(series):
                series.peak = profile
    except KeyboardInterrupt:
        series.ended = "interrupted"
    except Failure as error:
        series.ended = str(error)
    return series


def _schedule_snapshots(period: float | None, count: int | None) -> Iterator[float]:
    """Yield when the second snapshot and the following are due, seconds of time.monotonic()."""
    snapshots, start = 1, time.monotonic()
    while period is not None and (count is None or snapshots < count):
        yield start + snapshots * period
        snapshots += 1


def _get_peak_bytes(series: SnapshotSeries) -> float:
    return series.peak.total(heap_profile.LIVE) if series.peak else 0.0
