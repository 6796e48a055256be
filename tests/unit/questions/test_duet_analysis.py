"""From slices to a block's value, and from a pilot to slices, pairs and blocks."""

import math
import random
from collections import Counter
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulate import declare_even

from dballoc.campaign.run_blocks import combine_endings, interleave_blocks
from dballoc.campaign.ways.duet_pilot import compare_after_swap, compute_log_ratios
from dballoc.experiment import schedule
from dballoc.experiment.model import SHORTEST_COUNTED
from dballoc.questions.compare.duet_plan import (
    LEAST_PAIRS,
    LENGTHS,
    MOST_PAIRS,
    BlockCosts,
    Components,
    PlanRequest,
    compute_interquartile_gain,
    estimate_components,
    fit_pairs,
    plan_slices,
)
from dballoc.questions.statistics.duet_estimates import Estimate, Piece, compute_block_log

SLOWDOWNS = st.floats(-0.5, 0.5)


def sides(
    effect: float,
    halves: tuple[float, float],
    common: list[float],
    own: list[float],
    start: int = 0,
) -> tuple[list[Piece], list[Piece]]:
    """Slices of three pieces of a baseline and a partner that costs ``effect`` more. Each half and
    each slice has a slowdown, and each piece of both servers one of its ``own`` (all ln).
    """
    found: tuple[list[Piece], list[Piece]] = ([], [])
    for n, hit in enumerate(common):
        for side in range(2):
            half = (start + n + side) % 2
            for piece in range(3):
                cost = 0.001 * math.exp(hit + halves[half] + effect * side + own[piece])
                found[side].append(Piece(n, half, cost * 700 * (piece + 1), 700.0 * (piece + 1)))
    return found


OWN = [0.0, 0.0, 0.0]
COMMON = st.lists(SLOWDOWNS, min_size=2, max_size=9)


@pytest.mark.parametrize("how", ["paired", "middle"])
@given(
    effect=SLOWDOWNS, halves=st.tuples(SLOWDOWNS, SLOWDOWNS), common=COMMON,
    own=st.lists(SLOWDOWNS, min_size=3, max_size=3), start=st.integers(0, 1),
)  # fmt: skip
def test_pairs_do_not_see_what_hits_both_nor_what_halves_differ_by(
    how: Estimate,
    effect: float,
    halves: tuple[float, float],
    common: list[float],
    own: list[float],
    start: int,
) -> None:
    found = compute_block_log(how, *sides(effect, halves, common, own, start))
    assert found is not None
    assert math.isclose(found, effect, abs_tol=1e-9)


@given(
    SLOWDOWNS,
    st.tuples(SLOWDOWNS, SLOWDOWNS),
    st.lists(SLOWDOWNS, min_size=3, max_size=3),
    st.integers(2, 9),
)
def test_undisturbed_does_not_see_what_halves_differ_by(
    effect: float, halves: tuple[float, float], own: list[float], slices: int
) -> None:
    found = compute_block_log("undisturbed", *sides(effect, halves, [0.0] * slices, own))
    assert found is not None
    # With an odd number of slices one side has more pieces on a half than the other.
    assert slices % 2 or math.isclose(found, effect, abs_tol=1e-9)


@given(st.integers(0, 2**32))
def test_undisturbed_does_not_see_bursts_on_most_of_the_time(seed: int) -> None:
    rng = random.Random(seed)
    baseline, partner = sides(0.02, (0.0, 0.1), [0.0] * 20, OWN)
    for pieces in (baseline, partner):
        for half in (0, 1):
            mine = [i for i, p in enumerate(pieces) if p.half == half]
            for i in rng.sample(mine, k=len(mine) * 7 // 10):
                pieces[i] = pieces[i]._replace(cpu=pieces[i].cpu * rng.uniform(1, 3))
    found = compute_block_log("undisturbed", baseline, partner)
    assert found is not None
    assert math.isclose(found, 0.02, abs_tol=1e-9)


def test_middle_does_not_see_where_a_disturbance_begins_and_ends() -> None:
    baseline, partner = sides(0.02, (0.0, 0.1), [0.0] * 24, OWN)
    # One half is twice as slow from the second slice of a pair to the first of another one: both
    # servers meet it alike.
    slow = [p._replace(cpu=2 * p.cpu) if p.half == 1 and 5 <= p.slice < 15 else p for p in partner]
    same = [p._replace(cpu=2 * p.cpu) if p.half == 1 and 5 <= p.slice < 15 else p for p in baseline]
    found = compute_block_log("middle", same, slow)
    assert found is not None
    assert math.isclose(found, 0.02, abs_tol=1e-9)


PIECES = st.lists(
    st.builds(Piece, st.integers(0, 5), st.integers(0, 1), st.floats(0.001, 1), st.floats(1, 1000)),
    max_size=30,
)


@pytest.mark.parametrize("how", get_args(Estimate))
@given(first=PIECES, second=PIECES, effect=SLOWDOWNS)
def test_neither_server_is_favoured_and_an_effect_is_found_as_it_is(
    how: Estimate, first: list[Piece], second: list[Piece], effect: float
) -> None:
    found, turned = compute_block_log(how, first, second), compute_block_log(how, second, first)
    if found is None:
        assert turned is None
        return
    assert turned is not None
    assert math.isclose(found, -turned, abs_tol=1e-9)
    dearer = compute_block_log(
        how, first, [p._replace(cpu=p.cpu * math.exp(effect)) for p in second]
    )
    assert dearer is not None
    assert math.isclose(dearer, found + effect, abs_tol=1e-9)


def test_what_is_not_enough_for_a_value() -> None:
    whole = Piece(0, 0, 1.0, 1.0), Piece(1, 1, 1.0, 1.0)
    for how in get_args(Estimate):
        assert compute_block_log(how, whole, whole) == 0
        assert compute_block_log(how, [], []) is None
        assert compute_block_log(how, whole, whole[:1]) is None
        assert (
            compute_block_log(how, whole, [whole[0], Piece(1, 1, 1.0, 0.0)]) is None
        )  # nothing was done in it


def pilot(
    rng: random.Random,
    start: float,
    slice_: float,
    piece: float,
    starts: int,
    slices: int,
    pieces: int,
) -> list:
    """ln ratios of a pilot with known components, on halves that differ by 10 %."""
    found = []
    for _ in range(starts):
        luck = rng.gauss(0, start)
        found.append([])
        for n in range(slices):
            here = luck + rng.gauss(0, slice_) + (0.1 if n % 2 else -0.1)
            found[-1].append([here + rng.gauss(0, piece) for _ in range(pieces)])
    return found


def test_the_components_are_found() -> None:
    found = estimate_components(
        pilot(random.Random(1), 0.02, 0.01, 0.03, starts=400, slices=8, pieces=6), 0.5
    )
    assert math.isclose(found.start, 0.02, rel_tol=0.1)
    assert math.isclose(found.slice, 0.01, rel_tol=0.15)
    assert math.isclose(found.piece, 0.03, rel_tol=0.03)
    assert math.isclose(found.halves, 0.1, rel_tol=0.1)


@given(st.integers(2, 4), st.sampled_from([4, 6]), st.integers(2, 4), st.integers(0, 2**32))
def test_a_small_pilot_gives_finite_components(
    starts: int, slices: int, pieces: int, seed: int
) -> None:
    found = estimate_components(
        pilot(random.Random(seed), 0.004, 0.01, 0.02, starts, slices, pieces), 0.5
    )
    assert all(0 <= value < 1 for value in (found.start, found.slice, found.piece))
    assert found.start > 0


@pytest.mark.parametrize(
    "starts",
    [
        [],
        [[[0.1, 0.2]] * 4],
        [[[0.1, 0.2]] * 3] * 2,
        [[[0.1]] * 4] * 2,
        [[[0.1, 0.2]] * 4, [[0.1, 0.2]] * 5],
    ],
)
def test_a_pilot_that_is_not_whole_is_refused(starts: list) -> None:
    with pytest.raises(ValueError, match="a pilot has two starts or more"):
        estimate_components(starts, 0.5)


def pilot_rows(stalled: set[tuple[int, int, int]]) -> list[dict]:
    """Two starts of six slices in four readings; at ``stalled`` (start, slice, reading) the partner
    did nothing.
    """
    return [
        {
            "position": start,
            "slice": n,
            "role": role,
            "cpu": 0.01 if works else 0.0,
            "events": 10.0 if works else 0.0,
        }
        for start in range(2)
        for n in range(6)
        for reading in range(4)
        for role in ("A1", "A2")
        for works in [role == "A1" or (start, n, reading) not in stalled]
    ]


def test_a_server_that_stood_still_costs_the_pilot_a_pair_of_slices() -> None:
    assert [len(start) for start in compute_log_ratios(pilot_rows(set()))] == [6, 6]
    assert [len(start) for start in compute_log_ratios(pilot_rows({(0, 3, 0)}))] == [
        6,
        6,
    ]  # for a moment: half of it worked
    found = compute_log_ratios(pilot_rows({(0, 3, 0), (0, 3, 1)}))
    assert [len(start) for start in found] == [4, 4]
    assert all(len(parts) == 2 for start in found for parts in start)
    with pytest.raises(ValueError, match="a pilot has"):
        estimate_components(
            compute_log_ratios(pilot_rows({(0, 0, 0), (0, 0, 1), (1, 5, 2), (1, 5, 3)})), 0.5
        )


def test_what_the_interquartile_mean_leaves_of_the_scatter() -> None:
    rng = random.Random(4)
    calm = [[rng.gauss(start, 0.01) for _ in range(2_000)] for start in (0, 0.5)]
    # Of a normal distribution's 0.838 is the efficiency of this mean (Tukey and McLaughlin's
    # table): √(1 ÷ 0.838).
    assert math.isclose(compute_interquartile_gain(calm), 1.09, rel_tol=0.02)
    bursts = [
        [value * (20 if i % 10 == 0 else 1) for i, value in enumerate(values)]
        for values in calm[:1]
    ]
    assert compute_interquartile_gain(bursts) < 0.3
    assert compute_interquartile_gain([[0.1, 0.1], []]) == 1.0
    assert compute_interquartile_gain([]) == 1.0


LEVELS = {n: declare_even(n, 4).confidence for n in range(1, 41)}
USUAL = Components(start=0.005, slice=0.02, piece=0.02, halves=0.1, seconds=0.25)
COSTS = BlockCosts(0.5, 3.0, 5, 1)


def wishes(**chosen: float | None) -> PlanRequest:
    nothing = {"slice": None, "pairs": None, "blocks": None, "time": None, "discard": 0.5}
    return PlanRequest(**(nothing | chosen))  # type: ignore[arg-type]


def plan(start: float, slice: float, piece: float, halves: float = 0.1) -> Any:
    """The plan of a host that scatters so."""
    scatter = Components(start=start, slice=slice, piece=piece, halves=halves, seconds=0.5)
    return plan_slices(scatter, COSTS, wishes(), LEVELS)


def test_what_is_asked_for_is_done() -> None:
    found = plan_slices(USUAL, COSTS, wishes(slice=2.5, pairs=7, blocks=9, time=60.0), LEVELS)
    assert (found.slice, found.pairs, found.blocks) == (2.5, 7, 9)


@given(st.floats(200, 20000))
def test_the_plan_fits_its_time_if_anything_does(time: float) -> None:
    found = plan_slices(USUAL, COSTS, wishes(time=time), LEVELS)
    assert found.slice in LENGTHS
    assert LEAST_PAIRS <= found.pairs <= MOST_PAIRS
    assert 6 <= found.blocks <= 40
    shortest = min(n for n in LENGTHS if n - 0.5 >= SHORTEST_COUNTED)
    least = COSTS.block(shortest, LEAST_PAIRS) * 6
    assert found.blocks * found.block_seconds <= max(time, least) + 1e-6


@given(
    st.floats(1, 10_000), st.sampled_from(LENGTHS), st.integers(1, 9), st.integers(1, 5),
    st.floats(0.5, 20),
)  # fmt: skip
def test_pairs_fill_the_time_of_a_block_and_no_more(
    seconds: float, length: float, pairings: int, workloads: int, overhead: float
) -> None:
    costs = BlockCosts(0.5, overhead, pairings, workloads)
    pairs = fit_pairs(costs, length, seconds)
    assert LEAST_PAIRS <= pairs <= MOST_PAIRS
    assert pairs == LEAST_PAIRS or costs.block(length, pairs) <= seconds + 1e-6
    assert pairs == MOST_PAIRS or costs.block(length, pairs + 1) > seconds - 1e-6


@pytest.mark.parametrize(("dearer", "pieces"), [(0.0, 4), (0.05, 4), (0.05, 1)])
def test_what_a_transaction_costs_after_the_swap(dearer: float, pieces: int) -> None:
    rows = [
        {
            "workload": "w",
            "position": 1,
            "role": role,
            "slice": n,
            "piece": piece,
            "cpu": 0.1 * math.exp(dearer if piece == 0 else 0.0) * (9 if n == 5 else 1),
            "events": 100.0,
        }
        for role in ("A1", "A2")
        for n in range(12)
        for piece in range(pieces)
    ]
    assert compare_after_swap(rows) == pytest.approx(dearer if pieces > 1 else 0.0)


def test_noise_alone_is_not_taken_for_what_a_swap_costs() -> None:
    rng = random.Random(7)
    shown = 0
    for _ in range(100):
        rows = [
            {
                "workload": "w",
                "position": 1,
                "role": role,
                "slice": n,
                "piece": piece,
                "cpu": 0.1 * math.exp(rng.gauss(0, 0.2)),
                "events": 100.0,
            }
            for role in ("A1", "A2")
            for n in range(24)
            for piece in range(4)
        ]
        shown += compare_after_swap(rows) > 0.02
    assert shown <= 5


def test_more_time_gives_narrower_intervals() -> None:
    halves = [
        plan_slices(USUAL, COSTS, wishes(time=t), LEVELS).half_width for t in (300.0, 900.0, 3600.0)
    ]
    assert halves == sorted(halves, reverse=True)


def test_where_starts_scatter_pairs_are_few_and_where_slices_do_they_are_many() -> None:
    lucky = plan(start=0.02, slice=0.001, piece=0.002)
    shaky = plan(start=0.001, slice=0.03, piece=0.02)
    assert lucky.pairs < shaky.pairs
    assert lucky.blocks == shaky.blocks == 6


def test_noise_within_slices_makes_them_long_and_noise_between_them_makes_them_short() -> None:
    long = plan(start=0.002, slice=0.0, piece=0.05, halves=0)
    short = plan(start=0.002, slice=0.05, piece=0.001, halves=0)
    assert long.slice > short.slice


def test_designs_go_side_by_side() -> None:
    assert interleave_blocks({"solo": 2, "duet": 4}) == [
        ("duet", 1),
        ("solo", 1),
        ("duet", 2),
        ("duet", 3),
        ("solo", 2),
        ("duet", 4),
    ]
    assert interleave_blocks({"solo": 2}) == [("solo", 1), ("solo", 2)]


@pytest.mark.parametrize(
    ("endings", "why"),
    [
        ({}, "planned"),
        ({"solo": "decided"}, "planned"),
        ({"solo": "decided", "duet": "decided"}, "decided"),
        ({"solo": "decided", "duet": "budget"}, "budget"),
        ({"duet": "planned"}, "planned"),
    ],
)
def test_why_it_ended(endings: dict[str, str], why: str) -> None:
    assert combine_endings(endings, ["solo", "duet"]) == why


def test_duets_of_a_block(experiment) -> None:
    for number in range(1, 30):
        found = schedule.order_duets(experiment(), number)
        assert Counter((p.variant, p.role) for p in found) == Counter(
            [("glibc", "A2"), ("jemalloc", "V"), ("tuned", "V")]
        )
        assert [p.position for p in found] == [1, 2, 3]
    assert (
        len(
            {
                p.label
                for n in (1, 2)
                for a in (0, 1)
                for p in schedule.order_duets(experiment(), n, a)
            }
        )
        == 12
    )


def test_the_order_of_duets_is_the_seeds_forever(experiment) -> None:
    # Written out, as for solo: a release that drew otherwise would resume an older campaign in
    # another order.
    found = [
        " ".join(f"{p.variant}{p.half}{p.first}" for p in schedule.order_duets(experiment(), n))
        for n in (1, 2)
    ]
    assert found == ["glibc10 tuned10 jemalloc00", "glibc10 tuned01 jemalloc11"]


def test_each_half_comes_first_about_as_often(experiment) -> None:
    halves = Counter(p.half for n in range(1, 200) for p in schedule.order_duets(experiment(), n))
    assert 0.4 < halves[0] / halves.total() < 0.6
