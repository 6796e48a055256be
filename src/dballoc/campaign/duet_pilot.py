"""The duet's pilot: the baseline beside itself in a few short starts, and what follows from it. Its
slices are stored.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import get_args

from dballoc.analysis.statistics.duet_slices import Estimate, Piece, block_log, neighbours
from dballoc.analysis.statistics.variance_components import (
    Components,
    Plan,
    components,
    interquartile_gain,
)
from dballoc.campaign.duration_estimate import duet_plan
from dballoc.campaign.preparation.prepare import Setting
from dballoc.errors import UsageError
from dballoc.store.results import Row

# A half that is idle for more than this share of the slices waits for something: a disk, or locks.
MOST_IDLE = 0.3


def disk_bound(rows: list[Row]) -> dict[str, float]:
    """Of the workloads in a pilot's slices those that leave the CPUs idle, each with its idle
    share.
    """
    idle: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        idle[row["workload"]].append(row["idle"])
    shares = {workload: math.fsum(values) / len(values) for workload, values in idle.items()}
    return {workload: share for workload, share in shares.items() if share > MOST_IDLE}


def check(rows: list[Row]) -> None:
    """UsageError if a workload is bound by something else than the CPUs, which a duet would measure
    for both at once.
    """
    for workload, share in disk_bound(rows).items():
        raise UsageError(
            f"{workload}: a duet needs busy CPUs, and these were idle {share:.0%} of the time: "
            "disk, fsync or locks are the "
            "limit, which both servers would share; use --design solo, or a larger buffer pool"
        )


def pieces(rows: Iterable[Row]) -> list[Piece]:
    """Rows of table ``slice`` as the analysis wants them."""
    return [Piece(r["slice"], r["half"], r["cpu"], r["events"]) for r in rows]


@dataclass(frozen=True)
class Findings:
    """``scatter`` by estimate: root mean square of what starts showed, whose truth is 0;
    ``components`` of the experiment's estimate by workload; the ``plan`` that suits the most
    scattered one.
    """

    scatter: dict[str, float]
    components: dict[str, Components]
    plan: Plan


def evaluate(setting: Setting, rows: list[Row]) -> Findings:
    """``rows``: the slices of the pilot's trials with their ``position`` and ``role``. ValueError
    when they are not whole.
    """
    scatter = {how: _scatter(rows, how) for how in get_args(Estimate)}
    how = setting.experiment.duet.estimate
    found = {}
    for workload in setting.experiment.workloads:
        mine = [r for r in rows if r["workload"] == workload]
        whole = components(log_ratios(mine), _seconds(mine) / 2)
        # The components are those of single slices, bursts included; so much of them is left by the
        # estimate.
        gain = 1.0
        if how == "undisturbed" and scatter["paired"]:
            gain = min(1.0, scatter[how] / scatter["paired"])
        elif how == "middle":
            gain = interquartile_gain([neighbours(pieces(a), pieces(b)) for a, b in _starts(mine)])
        found[workload] = replace(whole, slice=whole.slice * gain, piece=whole.piece * gain)
    worst = max(found.values(), key=lambda c: c.block(1.0, 2))
    return Findings(scatter, found, duet_plan(setting, worst))


def _scatter(rows: list[Row], how: Estimate) -> float:
    """Of the starts, for every workload."""
    values = [
        block_log(how, pieces(baseline), pieces(partner)) for baseline, partner in _starts(rows)
    ]
    whole = [v for v in values if v is not None]
    if not whole:
        raise ValueError("no whole pair of slices")
    return math.sqrt(statistics.fmean(v * v for v in whole))


def _starts(rows: list[Row]) -> list[tuple[list[Row], list[Row]]]:
    """Of every start and workload the slices of the baseline, and of what ran beside it."""
    parts: dict[tuple[int, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        parts[row["position"], row["workload"]][row["role"]].append(row)
    return [(sides["A1"], sides["A2"]) for sides in parts.values()]


def _seconds(rows: list[Row]) -> float:
    """Counted seconds of a slice."""
    first = [
        r["seconds"]
        for r in rows
        if (r["slice"], r["role"]) == (0, "A1") and r["position"] == rows[0]["position"]
    ]
    return math.fsum(first)


def log_ratios(rows: list[Row]) -> list[list[list[float]]]:
    """The ln ratio by start, slice and half of the slice's time. A pair of swapped slices in which
    a server stood still for one of those halves is left out, of every start, so that all stay
    alike.
    """
    by_place: dict[tuple[int, int], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_place[row["position"], row["slice"]][row["role"]].append(row)
    starts: dict[int, dict[int, list[float]]] = defaultdict(dict)
    stalled = set()
    for (position, number), sides in sorted(by_place.items()):
        middle = len(sides["A1"]) // 2
        parts = (
            (sides["A1"][part], sides["A2"][part])
            for part in (slice(0, middle), slice(middle, None))
        )
        costs = [(_cost(partner), _cost(baseline)) for baseline, partner in parts]
        starts[position][number] = [x - y for x, y in costs if x is not None and y is not None]
        if len(starts[position][number]) < len(costs):
            stalled.add(number // 2)
    return [
        [logs for number, logs in start.items() if number // 2 not in stalled]
        for start in starts.values()
    ]


def _cost(rows: list[Row]) -> float | None:
    """The ln of CPU per transaction of one server in part of a slice; None if nothing was done in
    it.
    """
    if not rows:
        raise ValueError("a part of a slice is empty")
    cpu, events = math.fsum(r["cpu"] for r in rows), math.fsum(r["events"] for r in rows)
    return math.log(cpu / events) if cpu > 0 and events > 0 else None
