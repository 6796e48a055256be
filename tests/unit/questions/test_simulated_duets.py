"""Simulated duets: what the halves of the CPUs, the host and the servers' luck do to a block's
value, and to verdicts.

Magnitudes: halves that differ by 3 % and wander by 0.2 % a slice, noise of 5 % that hits both
servers at once, 1.5 % a slice and server, 0.4 % from start to start: block values then scatter by 1
%, as on a shared machine of two cores.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate import (
    Floats,
    Halves,
    Host,
    Judged,
    Played,
    Scenario,
    block_logs,
    declare_even,
    experiment,
    intervals,
    judge_all,
    judge_logs,
    never_swapped,
    played,
    times,
    violations,
)

from dballoc.questions.statistics.duet_estimates import Estimate, Piece, compute_block_log

pytestmark = pytest.mark.long

# 4 000 campaigns: a standard error of 0.34 percentage points at 5 %.
VARIANTS, SEEDS, CAMPAIGNS = 3, 1000, 4000
NOTHING = np.zeros((VARIANTS, 1))
ONE_AND_THREE = np.array([[0.01], [-0.03], [0.0]])

HALVES = {
    "the usual": Halves(),
    "halves far apart": Halves(apart=0.15),
    "halves that wander": Halves(walk=0.01),
    "starts that scatter": Halves(start=0.02),
    "one pair of slices": Halves(pairs=1),
    "quiet": Halves(start=0.002, white=0.004, apart=0.01, walk=0.0005),
}
# Neighbours that slow a half down by 30 % for two seconds, a quarter of the time; 24 pairs of
# slices of 0.4 s.
NEIGHBOURS = Halves(start=0.003, busy=0.25, slow=0.3, spell=5, pairs=24)


@cache
def duets(variants: int, blocks: int, how: Callable[[object, int, int], Played] = played) -> Played:
    """Those of a thousand seeds; each meets several hosts."""
    return how(experiment(variants), SEEDS, blocks)


def judged(
    halves: Halves,
    effects: Floats,
    blocks: int = 40,
    how: object = played,
    confidence: float | None = None,
) -> Judged:
    chance, model = np.random.default_rng(4), experiment(len(effects))
    procedure = declare_even(blocks, len(model.variant) - 1)
    when = duets(len(effects), blocks, how)  # type: ignore[arg-type]
    values = np.concatenate([halves.values(chance, when)[:, 1:] for _ in range(CAMPAIGNS // SEEDS)])
    return judge_logs(values[:, None], effects, procedure, confidence)


@settings(max_examples=40)
@given(
    st.integers(0, 2**32), st.integers(1, 3),
    st.builds(
        Halves, start=st.floats(0, 0.05), white=st.floats(0.001, 0.05), common=st.floats(0, 0.5), apart=st.floats(-0.2, 0.2),
        busy=st.sampled_from([0.0, 0.3]), pairs=st.integers(1, 9),
    ),
    st.sampled_from(["paired", "middle"]),
)  # fmt: skip
def test_a_blocks_value_is_the_projects(
    seed: int, variants: int, halves: Halves, how: Estimate
) -> None:
    baseline, partner = halves.slices(
        np.random.default_rng(seed), played(experiment(variants), 1, 2, 2 * halves.pairs)
    )
    found = block_logs(baseline, partner, how)
    for at in np.ndindex(found.shape):
        # CPU seconds and transactions of a slice: how many there were must not matter.
        first, second = (
            [Piece(n, n % 2, float(np.exp(x)) * (n + 1), n + 1.0) for n, x in enumerate(side[at])]
            for side in (baseline, partner)
        )
        assert compute_block_log(how, first, second) == pytest.approx(found[at], abs=1e-12)


def test_what_hits_both_at_once_and_what_the_halves_differ_by_cancel() -> None:
    when = duets(VARIANTS, 10)
    wild = Halves(start=0, white=0, common=0.5, apart=0.3, walk=0).values(
        np.random.default_rng(1), when
    )
    assert np.abs(wild).max() < 1e-12


@pytest.mark.parametrize("blocks", [6, 10, 20])
@pytest.mark.parametrize("halves", HALVES.values(), ids=HALVES)
def test_coverage_of_a_fixed_number_of_blocks(halves: Halves, blocks: int) -> None:
    """Of plain 95 % intervals, of the A/A pair and a variant; 20 000 campaigns: a standard error of
    0.15 points.
    """
    chance, when = np.random.default_rng(blocks), duets(VARIANTS, blocks)
    values = np.concatenate([halves.values(chance, when)[:, :2] for _ in range(20)])
    _, low, high = intervals(values, 0.95)
    held = ((low <= 1) & (high >= 1)).mean(axis=0)
    assert (held >= 0.935).all()
    assert (held <= 0.965).all()


@cache
def beside_neighbours(estimate: Estimate, blocks: int) -> Floats:
    """(campaign, block) of one variant that does not differ."""
    chance, when = (
        np.random.default_rng(7),
        played(experiment(1), SEEDS, blocks, 2 * NEIGHBOURS.pairs),
    )
    return np.concatenate(
        [NEIGHBOURS.values(chance, when, estimate)[:, 1] for _ in range(CAMPAIGNS // SEEDS)]
    )


@pytest.mark.parametrize("blocks", [6, 10])
@pytest.mark.parametrize("estimate", ["paired", "middle"])
def test_coverage_beside_neighbours(estimate: Estimate, blocks: int) -> None:
    """Each estimate is as often wrong as it says; a standard error of 0.35 points."""
    _, low, high = intervals(beside_neighbours(estimate, blocks), 0.95)
    assert 0.935 <= ((low <= 1) & (high >= 1)).mean() <= 0.965


def test_the_middle_is_narrower_than_the_mean_beside_neighbours() -> None:
    assert beside_neighbours("middle", 6).std() < 0.8 * beside_neighbours("paired", 6).std()


def test_promises_under_the_stop_rule_beside_neighbours() -> None:
    """By the estimate that campaigns have by default."""
    values = beside_neighbours("middle", 20)[:, None, None]
    assert violations(judge_logs(values, np.zeros((1, 1)), declare_even(20, 1))) == []


@pytest.mark.parametrize("effects", [NOTHING, ONE_AND_THREE], ids=["no difference", "1 and 3 %"])
@pytest.mark.parametrize(
    "halves", [HALVES["the usual"], HALVES["quiet"]], ids=["the usual", "quiet"]
)
def test_promises_under_the_stop_rule(halves: Halves, effects: Floats) -> None:
    assert violations(judged(halves, effects)) == []


def test_one_per_cent_is_decided_and_the_stop_rule_at_work() -> None:
    found = judged(HALVES["quiet"], ONE_AND_THREE, 20)
    at = np.arange(CAMPAIGNS), found.last
    assert (found.low[at][:, 0, 0] > 1).mean() > 0.99
    assert (found.last == 0).mean() > 0.3


def test_promises_of_a_campaign_of_both_designs() -> None:
    """The family is that of both, each design has looks of its own and stops by itself."""
    model, chance = experiment(VARIANTS), np.random.default_rng(5)
    family = (len(model.variant) - 1) * 4
    solo_times, halves = times(model, SEEDS, 20), HALVES["the usual"]
    host = Scenario(Host(luck=0.02, trend=0.1, walk=0.005, steps=2))
    wrong = []
    for _ in range(CAMPAIGNS // SEEDS):
        solo = judge_all(
            host.values(chance, solo_times), np.zeros((VARIANTS, 3)), declare_even(20, family)
        )
        duet = judge_logs(
            halves.values(chance, duets(VARIANTS, 40))[:, None, 1:],
            NOTHING,
            declare_even(40, family),
        )
        missed = [
            (((j.low > 1) | (j.high < 1)) & j.looked[..., None, None]).any(axis=(1, 2, 3))
            for j in (solo, duet)
        ]
        wrong.append(missed[0] | missed[1])
    assert np.mean(wrong) <= 0.05


# -- and what breaks the promises ----------------------------------------------------------------------------------------


def test_halves_that_are_never_swapped_break_them() -> None:
    found = judged(HALVES["the usual"], NOTHING, 10, never_swapped)
    assert any("false differences" in v for v in violations(found))
    assert found.false_differences > 0.8
    # Where the halves wander less far than they are apart, that is. The whole difference is taken
    # for one of the servers.
    assert np.log(found.estimate[:, -1]).mean() == pytest.approx(0.03, abs=0.002)
    assert violations(judged(HALVES["the usual"], NOTHING, 10)) == []


def test_unadjusted_looks_break_them() -> None:
    found = judged(HALVES["the usual"], np.zeros((1, 1)), confidence=0.95)
    assert any("false differences" in v for v in violations(found))
    assert 0.07 < found.false_differences < 0.17


def test_slices_taken_for_replicates_break_them() -> None:
    """Slices of one start share its luck: as many intervals as there are pairs of slices are much
    too narrow.
    """
    halves, blocks = Halves(start=0.01, white=0.01), 6
    baseline, partner = halves.slices(np.random.default_rng(6), duets(1, blocks))
    each = partner[:, 1] - baseline[:, 1]
    pairs = ((each[..., 0::2] + each[..., 1::2]) / 2).reshape(SEEDS, -1)
    _, low, high = intervals(pairs, 0.95)
    assert ((low <= 1) & (high >= 1)).mean() < 0.85
