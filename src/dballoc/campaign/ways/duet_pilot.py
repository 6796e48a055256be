"""The duet's pilot: the baseline runs beside itself in a few short starts, and the scatter of their
slices decides how long and how many the duet's slices are.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.ways.duet_plan import plan_duet
from dballoc.campaign.ways.usual_blocks import choose_discard
from dballoc.campaign.ways.way import Unsuitable
from dballoc.questions.compare.duet_plan import (
    BlockCosts,
    Components,
    compute_interquartile_gain,
    estimate_components,
)
from dballoc.questions.statistics.duet_estimates import (
    Estimate,
    Piece,
    average_neighbours,
    compute_block_log,
)
from dballoc.store.facts import DuetFacts
from dballoc.store.results import Row

# A half of the CPUs that is idle for more than this share of the slices waits for a disk or locks.
MOST_IDLE = 0.3


def find_idle_workloads(rows: list[Row]) -> dict[str, float]:
    """Return the workloads in these slices that leave the CPUs idle, each with its idle share."""
    idle: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["idle"] is not None:
            idle[row["workload"]].append(row["idle"])
    shares = {workload: math.fsum(values) / len(values) for workload, values in idle.items()}
    return {workload: share for workload, share in shares.items() if share > MOST_IDLE}


def check_cpu_bound(rows: list[Row]) -> None:
    """Check that no workload leaves the CPUs idle: both servers of a duet would share its limit,
    disk or locks. Raises Unsuitable.
    """
    for workload, share in find_idle_workloads(rows).items():
        raise Unsuitable(
            f"{workload}: a duet needs busy CPUs, and these were idle {share:.0%} of the time: "
            "disk, fsync or locks are the limit, which both servers would share; use "
            "--design solo, or a larger buffer pool"
        )


def make_pieces(rows: Iterable[Row]) -> list[Piece]:
    """Return rows of table ``slice`` as pieces for the analysis."""
    return [Piece(r["slice"], r["half"], r["cpu"], r["events"]) for r in rows]


def evaluate_pilot(
    setting: PreparedCampaign, rows: list[Row], duet: DuetFacts, costs: BlockCosts | None = None
) -> DuetFacts:
    """Return the duet's facts with what the slices of the pilot's trials say, ``rows`` with
    ``position`` and ``role``. The true value of the ``scatter`` of the starts' log ratios, root
    mean square, is 0; the ``plan`` suits the workload that scatters most. ``costs``: as measured
    meanwhile, if they were. Raises ValueError if slices are missing.
    """
    scatter = {name: _compute_scatter(rows, name) for name in get_args(Estimate)}
    estimate = setting.experiment.duet.estimate
    components_by_workload: dict[str, Components] = {}
    for workload in setting.experiment.workloads:
        slices = [r for r in rows if r["workload"] == workload]
        raw = estimate_components(compute_log_ratios(slices), _sum_slice_seconds(slices) / 2)
        # The components are those of single slices, bursts of noise included; ``gain`` is the share
        # of them that the estimate leaves.
        gain = 1.0
        if estimate == "undisturbed" and scatter["paired"]:
            gain = min(1.0, scatter[estimate] / scatter["paired"])
        elif estimate == "middle":
            gain = compute_interquartile_gain(
                [
                    average_neighbours(make_pieces(baseline), make_pieces(partner))
                    for baseline, partner in _pair_starts(slices)
                ]
            )
        components_by_workload[workload] = replace(
            raw, slice=raw.slice * gain, piece=raw.piece * gain
        )
    worst = max(components_by_workload.values(), key=lambda c: c.block(1.0, 2))
    after_swap = compare_after_swap(rows)
    plan = plan_duet(setting, worst, costs, choose_discard(setting, after_swap))
    return replace(
        duet,
        scatter=scatter,
        components={**components_by_workload},
        after_swap=after_swap,
        plan=plan,
    )


def compare_after_swap(rows: list[Row]) -> float:
    """Return ln of what a transaction costs in the first piece of a slice ÷ in the others, as much
    as the noise permits to say: the median over all slices of all servers less two of its standard
    errors, 1.253·σ÷√n with σ from the quartiles (normal distribution). 0 with too few pieces.
    """
    slices: dict[tuple[str, int, str, int], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        slices[row["workload"], row["position"], row["role"], row["slice"]][row["piece"]] = row
    differences = []
    for pieces in slices.values():
        first = _compute_log_cost([row for piece, row in pieces.items() if piece == 0])
        others = [row for piece, row in pieces.items() if piece > 0]
        later = _compute_log_cost(others) if others else None
        if first is not None and later is not None:
            differences.append(first - later)
    if len(differences) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(differences, n=4)
    sigma = (high - low) / 1.349
    return middle - 2 * 1.253 * sigma / math.sqrt(len(differences))


def _compute_scatter(rows: list[Row], estimate: Estimate) -> float:
    """Return the root mean square of the log ratios of all starts and workloads."""
    values = [
        compute_block_log(estimate, make_pieces(baseline), make_pieces(partner))
        for baseline, partner in _pair_starts(rows)
    ]
    complete = [v for v in values if v is not None]
    if not complete:
        raise ValueError("no complete pair of slices")
    return math.sqrt(statistics.fmean(v * v for v in complete))


def _pair_starts(rows: list[Row]) -> list[tuple[list[Row], list[Row]]]:
    """Return, for every start and workload, the slices of the baseline and those of its partner."""
    parts: dict[tuple[int, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        parts[row["position"], row["workload"]][row["role"]].append(row)
    return [(sides["A1"], sides["A2"]) for sides in parts.values()]


def _sum_slice_seconds(rows: list[Row]) -> float:
    """Return the seconds that count of a slice."""
    first = [
        r["seconds"]
        for r in rows
        if (r["slice"], r["role"]) == (0, "A1") and r["position"] == rows[0]["position"]
    ]
    return math.fsum(first)


def compute_log_ratios(rows: list[Row]) -> list[list[list[float]]]:
    """Return the ln ratio by start, slice and half of the slice's time. A pair of swapped slices in
    which a server stood still for one of those halves is left out of every start, so that all
    starts have the same slices.
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
        costs = [
            (_compute_log_cost(partner), _compute_log_cost(baseline)) for baseline, partner in parts
        ]
        starts[position][number] = [x - y for x, y in costs if x is not None and y is not None]
        if len(starts[position][number]) < len(costs):
            stalled.add(number // 2)
    return [
        [logs for number, logs in start.items() if number // 2 not in stalled]
        for start in starts.values()
    ]


def _compute_log_cost(rows: list[Row]) -> float | None:
    """Return the ln of CPU seconds per transaction of one server in part of a slice; None if it did
    nothing there.
    """
    if not rows:
        raise ValueError("a part of a slice is empty")
    cpu, events = math.fsum(r["cpu"] for r in rows), math.fsum(r["events"] for r in rows)
    return math.log(cpu / events) if cpu > 0 and events > 0 else None
