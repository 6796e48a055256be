"""What a client host does during a load: its counters are read as the client's reports come, and so
they hold neither the client's start nor its end.
"""

import contextlib
from dataclasses import dataclass

import psutil

from dballoc.campaign.elsewhere.client import network_link
from dballoc.campaign.elsewhere.client.load_messages import ClientFigures
from dballoc.campaign.elsewhere.client.network_link import LinkBytes
from dballoc.host.guardian.guardian_client import Exit
from dballoc.host.process.handle import Process
from dballoc.host.resources import process_limits
from dballoc.host.resources.cgroup_tree import ControlGroups
from dballoc.host.resources.process_limits import QuotaPeriods
from dballoc.instruments.host_sampler import HostSample, take_host_sample


@dataclass(frozen=True, kw_only=True)
class ClientReading:
    """Counters at one moment. ``cpu``: CPU seconds of the client since its start; ``periods``: of
    the CPU quotas of its cgroups, which are those of this process.
    """

    cpu: float
    host: HostSample
    link: LinkBytes
    periods: tuple[QuotaPeriods, ...]


class LoadReadings:
    """The readings of one load; only the first and the last count."""

    def __init__(self, interface: str | None) -> None:
        self._interface = interface
        self._start = self._read(0.0)
        self._reports: list[ClientReading] = []

    def note_report(self, pid: int) -> None:
        """Read the counters, as a report of the client has come just now."""
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            times = psutil.Process(pid).cpu_times()
            self._reports = [*self._reports[:1], self._read(times.user + times.system)]

    def make_figures(self, ended: Exit, round_trip: float) -> ClientFigures:
        """Return the figures of a load that has ended just now."""
        end = self._read(ended.user + ended.system)
        first, last = choose_window(self._start, self._reports, end)
        return compute_figures(
            first,
            last,
            cpus=process_limits.read_limits(Process.own()).cpu_count,
            speed=network_link.read_speed(self._interface),
            round_trip=round_trip,
        )

    def _read(self, cpu: float) -> ClientReading:
        return ClientReading(
            cpu=cpu,
            host=take_host_sample(),
            link=network_link.read_bytes(self._interface),
            periods=process_limits.read_quota_periods(ControlGroups(Process.own())),
        )


def choose_window(
    start: ClientReading, reports: list[ClientReading], end: ClientReading
) -> tuple[ClientReading, ClientReading]:
    """Return the readings between which a load is judged: at its first report and its last. Where
    there is one report alone, the end is the other; where there is none, start and end. Pure.
    """
    return reports[0] if reports else start, reports[-1] if len(reports) > 1 else end


def compute_figures(
    first: ClientReading,
    last: ClientReading,
    *,
    cpus: int,
    speed: int | None,
    round_trip: float,
) -> ClientFigures:
    """Return what the client host did between two readings. Pure."""
    return ClientFigures(
        seconds=last.host.clock - first.host.clock,
        cpu=max(0.0, last.cpu - first.cpu),
        cpus=cpus,
        busy=_compute_busy_share(first.host, last.host),
        throttled=process_limits.compute_throttled_share(first.periods, last.periods),
        received=max(0, last.link.received - first.link.received),
        sent=max(0, last.link.sent - first.link.sent),
        link=speed,
        round_trip=round_trip,
    )


def _compute_busy_share(before: HostSample, after: HostSample) -> float:
    """Return the share of all CPU time between two samples that was used or stolen."""
    total = after.total - before.total
    used = after.busy + after.steal - before.busy - before.steal
    return min(1.0, max(0.0, used / total)) if total > 0 else 0.0
