"""The halves of the CPUs for a duet: whole cores, one node, alike."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.ground.errors import UsageError
from dballoc.host.resources.cores import Core
from dballoc.host.resources.cpu_halves import split_cores


def machine(
    nodes: int = 1, cores: int = 4, threads: int = 1, kinds: tuple[int, ...] = (0,)
) -> list[Core]:
    """Cores of ``threads`` CPUs each, dealt to nodes in runs, to kinds in turns."""
    count = nodes * cores
    return [
        Core(
            cpus=frozenset(core + count * t for t in range(threads)),
            node=core // cores,
            speed=kinds[core % len(kinds)],
        )
        for core in range(count)
    ]


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (machine(cores=2), ({0}, {1})),
        (machine(cores=4), ({0, 1}, {2, 3})),
        (machine(cores=3), ({0}, {1})),  # one core is left out
        (machine(cores=2, threads=2), ({0, 2}, {1, 3})),  # siblings stay together
        (machine(nodes=2, cores=2), ({0}, {1})),  # one node
        (machine(cores=4, kinds=(1024, 512)), ({0, 1}, {2, 3})),  # a big and a little core in each
        (machine(cores=3, kinds=(1024, 512, 512)), ({1}, {2})),  # the big one has no partner
    ],
)
def test_halves(cores: list[Core], expected: tuple[set[int], set[int]]) -> None:
    assert split_cores(cores) == expected


@pytest.mark.parametrize(
    ("cores", "reason"),
    [
        (machine(cores=1), "a duet needs two cores, there is one (CPU 0); use --design solo"),
        (
            machine(cores=1, threads=2),
            "a duet needs two cores, there is one (CPU 0-1); use --design solo",
        ),
        (
            machine(cores=2, kinds=(1024, 512)),
            "a duet needs two halves of like cores; no two cores of CPUs 0-1 are alike; use",
        ),
    ],
)
def test_where_there_are_no_halves(cores: list[Core], reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        split_cores(cores)
    assert str(caught.value).startswith(reason)


@given(
    st.integers(1, 3),
    st.integers(2, 9),
    st.integers(1, 2),
    st.lists(st.integers(0, 2), min_size=1, max_size=4),
)
def test_halves_are_alike_and_apart(nodes: int, cores: int, threads: int, kinds: list[int]) -> None:
    every = machine(nodes, cores, threads, tuple(kinds))
    try:
        first, second = split_cores(every)
    except UsageError:
        assert all(n < 2 for n in Counter((c.node, c.speed) for c in every).values())
        return
    assert not first & second
    kinds_of = [Counter(c.speed for c in every if c.cpus <= half) for half in (first, second)]
    assert kinds_of[0] == kinds_of[1]
    assert all(c.cpus <= half or not c.cpus & half for c in every for half in (first, second))
    assert len({c.node for c in every if c.cpus & (first | second)}) == 1
