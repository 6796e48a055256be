"""The duet's pilot: the baseline beside itself in a few short starts, and what follows from it. Its slices are stored."""

import math
from collections import defaultdict

from dballoc.analysis.components import Components, Plan, components
from dballoc.campaign.duet import PIECE
from dballoc.campaign.estimate import duet_plan
from dballoc.campaign.prepare import Setting
from dballoc.errors import UsageError
from dballoc.store.results import Row

# A half that is idle for more than this share of the slices waits for something: a disk, or locks.
MOST_IDLE = 0.3


def disk_bound(rows: list[Row]) -> dict[str, float]:
    """Of the workloads in a pilot's slices those that leave the CPUs idle, each with its idle share."""
    idle: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        idle[row["workload"]].append(row["idle"])
    shares = {workload: math.fsum(values) / len(values) for workload, values in idle.items()}
    return {workload: share for workload, share in shares.items() if share > MOST_IDLE}


def check(rows: list[Row]) -> None:
    """UsageError if a workload is bound by something else than the CPUs, which a duet would measure for both at once."""
    for workload, share in disk_bound(rows).items():
        raise UsageError(
            f"{workload}: a duet needs busy CPUs, and these were idle {share:.0%} of the time: disk, fsync or locks are the "
            "limit, which both servers would share; use --design solo, or a larger buffer pool"
        )


def evaluate(setting: Setting, rows: list[Row]) -> tuple[dict[str, Components], Plan]:
    """The components of scatter by workload, and the slices, pairs and blocks that suit the most scattered one. ``rows``:
    the slices of the pilot's trials with their ``position`` and ``role``. ValueError when they are not whole.
    """
    found = {w: components(_logs([r for r in rows if r["workload"] == w]), PIECE) for w in setting.experiment.workloads}
    worst = max(found.values(), key=lambda c: c.block(1.0, 2))
    return found, duet_plan(setting, worst)


def _logs(rows: list[Row]) -> list[list[list[float]]]:
    """Ln ratio by start, slice and piece."""
    values: dict[tuple[int, int, int], dict[str, float]] = defaultdict(dict)
    for row in rows:
        values[row["position"], row["slice"], row["piece"]][row["role"]] = math.log(row["cpu"] / row["events"])
    starts: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (position, number, _), sides in sorted(values.items()):
        starts[position][number].append(sides["A2"] - sides["A1"])
    return [list(slices.values()) for slices in starts.values()]
