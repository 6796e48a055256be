"""The order of trials. A small language reads it: ``"A1 jemalloc A2 tuned"`` is one block, the
baseline by its role.
"""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot


def words(slots: list[Slot]) -> str:
    """A block in the small language; a level is written behind its variant, ``tuned@4``."""
    return " ".join(
        (slot.role if slot.role != "V" else slot.variant)
        + (f"@{slot.level}" if slot.level is not None else "")
        for slot in slots
    )


def members(slots: list[Slot]) -> Counter[str]:
    """What a block runs, whatever the order."""
    return Counter(words(slots).split())


def orders(experiment: Experiment, blocks: int) -> list[str]:
    """The first blocks, in words."""
    return [words(schedule.order_block(experiment, n)) for n in range(1, blocks + 1)]


def test_every_variant_once_and_the_baseline_twice(experiment) -> None:
    for order in orders(experiment(), 30):
        assert Counter(order.split()) == Counter("A1 A2 jemalloc tuned".split())


def test_fresh_levels_give_every_cell_a_start(experiment) -> None:
    slots = schedule.order_block(experiment(levels="fresh"), 1)
    assert members(slots) == Counter(
        "A1@1 A2@1 jemalloc@1 tuned@1 A1@4 A2@4 jemalloc@4 tuned@4".split()
    )


def test_a_fresh_sequence_gives_every_workload_a_start(experiment) -> None:
    both = experiment(sequence="fresh", levels="fresh", workloads=["load", "oltp_insert"])
    slots = schedule.order_block(both, 1)
    cells = {(s.role, s.variant, s.workload, s.level) for s in slots}
    roles = [("A1", "glibc"), ("A2", "glibc"), ("V", "jemalloc"), ("V", "tuned")]
    # The tables are loaded at the highest level only.
    assert cells == {
        (*r, *w) for r in roles for w in (("load", 4), ("oltp_insert", 1), ("oltp_insert", 4))
    }
    assert len(slots) == len(cells)
    assert len({s.label for s in slots}) == len(slots)


def test_the_order_is_the_seeds_forever(experiment) -> None:
    # Written out: a release that shuffles otherwise would resume an older campaign in another
    # order.
    assert orders(experiment(), 3) == [
        "A1 tuned jemalloc A2",
        "A1 tuned A2 jemalloc",
        "A1 jemalloc A2 tuned",
    ]


@given(
    seed=st.integers(),
    number=st.integers(min_value=1, max_value=10**6),
    attempt=st.integers(min_value=0, max_value=5),
)
def test_a_resume_finds_the_same_order(experiment, seed: int, number: int, attempt: int) -> None:
    assert schedule.order_block(experiment(seed=seed), number, attempt) == schedule.order_block(
        experiment(seed=seed), number, attempt
    )


@given(
    names=st.lists(
        st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), min_size=1, max_size=8, unique=True
    ),
    threads=st.lists(st.integers(min_value=1, max_value=999), min_size=1, max_size=4, unique=True),
    fresh=st.booleans(),
    seed=st.integers(),
)
def test_any_block_holds_every_cell_once(
    experiment, names: list[str], threads: list[int], fresh: bool, seed: int
) -> None:
    model = experiment(
        variant=[{"name": n} for n in names],
        baseline=names[0],
        threads=threads,
        levels="fresh" if fresh else "rising",
        seed=seed,
    )
    slots = schedule.order_block(model, 7, 1)
    levels: list[int | None] = [*threads] if fresh else [None]
    wanted = {(n, "V", level) for n in names[1:] for level in levels}
    wanted |= {(names[0], role, level) for role in ("A1", "A2") for level in levels}
    assert len(slots) == len(wanted)
    assert {(s.variant, s.role, s.level) for s in slots} == wanted
    assert [s.position for s in slots] == list(range(1, len(slots) + 1))
    assert {(s.block, s.attempt) for s in slots} == {(7, 1)}
    assert len({s.label for s in slots}) == len(slots), "two trials would share a directory"


def test_blocks_repeats_and_seeds_are_drawn_afresh(experiment) -> None:
    many = [{"name": "glibc"}] + [{"name": f"v{i}"} for i in range(10)]
    model, other = experiment(variant=many), experiment(variant=many, seed=2)
    drawn = [
        *orders(model, 20),
        *(words(schedule.order_block(model, n, 1)) for n in range(1, 21)),
        *orders(other, 20),
    ]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("who", ["A1", "A2", "jemalloc", "tuned"])
def test_nobody_has_a_favourite_position(experiment, who: str) -> None:
    # Under drift, a variant that always came first would look faster than it is. The seed is fixed:
    # this cannot flake.
    seen = Counter(order.split().index(who) for order in orders(experiment(), 800))
    assert stats.chisquare([seen[i] for i in range(4)]).pvalue > 0.001


@pytest.mark.parametrize(
    ("slot", "label"),
    [
        (Slot(block=1, attempt=0, position=2, variant="jemalloc", role="V"), "b001-p002-jemalloc"),
        (
            Slot(block=12, attempt=2, position=3, variant="glibc", role="A2"),
            "b012-again2-p003-glibc-A2",
        ),
        (
            Slot(block=1, attempt=0, position=1, variant="glibc", role="A1", level=64),
            "b001-p001-glibc-A1-64",
        ),
        (
            Slot(
                block=1,
                attempt=0,
                position=1,
                variant="glibc",
                role="V",
                level=64,
                workload="scan_range=100",
            ),
            "b001-p001-glibc-scan_range=100-64",
        ),
    ],
)
def test_labels(slot: Slot, label: str) -> None:
    assert slot.label == label


# -- turns -----------------------------------------------------------------------------------------------------------------------


def test_turns_go_round_every_variant_and_the_baseline_twice(experiment) -> None:
    [rotation] = schedule.order_rotations(experiment(), 1, in_pairs=False)
    assert rotation.servers[0] == ("glibc", "A1")
    assert sorted(rotation.servers[1:]) == [("glibc", "A2"), ("jemalloc", "V"), ("tuned", "V")]


def test_in_pairs_each_has_a_baseline_of_its_own(experiment) -> None:
    rotations = schedule.order_rotations(experiment(), 1, in_pairs=True)
    assert [len(r.servers) for r in rotations] == [2, 2, 2]
    assert {r.servers[0] for r in rotations} == {("glibc", "A1")}
    assert {r.servers[1] for r in rotations} == {("glibc", "A2"), ("jemalloc", "V"), ("tuned", "V")}
    assert len({r.label for r in rotations}) == 3


def test_every_round_has_every_server_in_an_order_of_its_own(experiment) -> None:
    [rotation] = schedule.order_rotations(experiment(), 1, in_pairs=False)
    orders = [tuple(rotation.order_round(number)) for number in range(200)]
    assert {tuple(sorted(order)) for order in orders} == {(0, 1, 2, 3)}
    followers = Counter(pair for order in orders for pair in itertools.pairwise(order))
    # None always follows the same one: 12 pairs share 600 places.
    assert len(followers) == 12
    assert max(followers.values()) < 80
    assert orders == [tuple(rotation.order_round(number)) for number in range(200)]
