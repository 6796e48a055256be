"""Lists of CPUs, in the kernel's notation and out of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.experiment.model import Cpu
from dballoc.ground.errors import UsageError
from dballoc.host.resources import cpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", {0}), ("0-3", {0, 1, 2, 3}), ("0-1,8", {0, 1, 8}), (" 2 , 5-5 ", {2, 5}), ("1,1", {1})],
)
def test_lists_are_read(text: str, expected: set[int]) -> None:
    assert parse_cpus(text) == expected


@pytest.mark.parametrize("text", ["", ",", "a", "3-1", "0-", "-1", "0;1", "0x1", "1-2-3"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match='write it like "0-3,8"'):
        parse_cpus(text)


@given(st.frozensets(st.integers(min_value=0, max_value=300), min_size=1))
def test_lists_survive_being_written(chosen: frozenset[int]) -> None:
    assert parse_cpus(format_cpus(chosen)) == chosen


@given(st.frozensets(st.integers(min_value=0, max_value=300), min_size=1))
def test_neighbours_are_written_as_one_range(chosen: frozenset[int]) -> None:
    starts = sum(1 for cpu in chosen if cpu - 1 not in chosen)
    assert len(format_cpus(chosen).split(",")) == starts


@pytest.fixture
def two_cores_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs 0-3, where 0 and 2 share a core, and 1 and 3."""
    monkeypatch.setattr(cpus, "list_available_cpus", lambda: frozenset({0, 1, 2, 3}))
    monkeypatch.setattr(cpus, "list_siblings", lambda cpu: frozenset({cpu % 2, cpu % 2 + 2}))


@pytest.mark.usefixtures("two_cores_of_two")
def test_a_count_takes_whole_cores() -> None:
    assert cpus.choose_cpus(Cpu(count=2)) == (frozenset({0, 2}), frozenset({0, 2}))


@pytest.mark.usefixtures("two_cores_of_two")
def test_sides_are_as_asked() -> None:
    assert cpus.choose_cpus(Cpu(server="0-1")) == (frozenset({0, 1}), None)
    assert cpus.choose_cpus(Cpu()) == (None, None)


@pytest.mark.usefixtures("two_cores_of_two")
@pytest.mark.parametrize(
    ("cpu", "message"),
    [
        (Cpu(count=5), "cpu.count: 5 CPUs requested, 4 available (0-3)"),
        (Cpu(client="2-5"), "cpu.client: CPU 4-5 is not here; there are 0-3"),
    ],
)
def test_cpus_that_are_not_here(cpu: Cpu, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        cpus.choose_cpus(cpu)
    assert str(caught.value) == message
