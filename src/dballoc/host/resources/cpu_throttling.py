"""How often the CPU quota of its cgroups stopped a process (cgroups v1 and v2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dballoc.host.process_handle import Process
from dballoc.host.resources import cgroup_tree
from dballoc.host.resources.cgroup_tree import ROOT


@dataclass(frozen=True)
class QuotaPeriods:
    """Periods of a cgroup's CPU quota since it was made, 100 ms each as a rule. ``throttled``:
    those in which the quota was used up, and its processes had to wait for the next.
    """

    counted: int
    throttled: int


def read_quota_periods(process: Process, root: Path = ROOT) -> tuple[QuotaPeriods, ...]:
    """Read the periods of a process's cgroup and of those above it, as far as they are visible;
    those of a group without a quota are 0. OSError if the process is gone.
    """
    groups = cgroup_tree.list_groups(process, "cpu", root)
    counts = [cgroup_tree.parse_flat_keyed(group.read("cpu.stat")) for group in groups]
    return tuple(
        QuotaPeriods(count.get("nr_periods", 0), count.get("nr_throttled", 0)) for count in counts
    )


def compute_throttled_share(before: Sequence[QuotaPeriods], after: Sequence[QuotaPeriods]) -> float:
    """Return the share of the periods between two readings in which a process was stopped, by
    whichever of its cgroups stopped it most. Pure.
    """
    shares = [
        (late.throttled - early.throttled) / (late.counted - early.counted)
        for early, late in zip(before, after, strict=False)
        if late.counted > early.counted
    ]
    return min(1.0, max(0.0, *shares)) if shares else 0.0
