"""Lists of CPUs, in the kernel's notation and out of it."""

from pathlib import Path

import pytest
from example_cpu_trees import list_cpus, make_cores, write_tree
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.experiment.model import Cpu
from dballoc.ground.errors import UsageError
from dballoc.host.resources import choose_cpus, cores
from dballoc.host.resources.choose_cpus import SideCpus


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
def two_cores_of_two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CPUs 0-3, where 0 and 2 share a core, and 1 and 3."""
    of = make_cores(cores=2, threads=2)
    monkeypatch.setattr(cores, "SYSTEM", write_tree(tmp_path, of))
    monkeypatch.setattr(choose_cpus, "list_available_cpus", lambda: list_cpus(of))


@pytest.mark.usefixtures("two_cores_of_two")
def test_a_count_takes_whole_cores() -> None:
    sides = choose_cpus.choose_cpus(Cpu(count=2))
    assert sides == SideCpus(server=frozenset({0, 2}), clients=frozenset({0, 2}))


@pytest.mark.usefixtures("two_cores_of_two")
def test_sides_are_as_asked() -> None:
    assert choose_cpus.choose_cpus(Cpu(server="0-1")) == SideCpus(server=frozenset({0, 1}))
    assert choose_cpus.choose_cpus(Cpu()) == SideCpus()


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
        choose_cpus.choose_cpus(cpu)
    assert str(caught.value) == message


def test_a_list_is_read_in_bounded_time_and_memory() -> None:
    """Whatever numbers it has: each is counted once."""
    overlapping = ",".join(["0-99999"] * 6000)
    assert len(parse_cpus(overlapping)) == 100_000
    with pytest.raises(ValueError, match="is not a list of CPUs") as caught:
        parse_cpus("0-99999," * 1_000_000)
    assert len(str(caught.value)) < 200


def test_clients_apart_are_asked_for_by_a_word() -> None:
    assert Cpu(count=4, client="apart").clients_apart
    assert Cpu(server="0-3", client="apart").client_set is None
    assert Cpu(client="4-7").client_set == "4-7"
    for wrong in ({"server": "apart"}, {"client": "beside"}, {"count": 4, "client": "5"}):
        with pytest.raises(ValidationError):
            Cpu.model_validate(wrong)
