"""What doctor --ray says of hosts that differ."""

from dataclasses import replace
from typing import Any

from dballoc.campaign.elsewhere.compare_hosts import (
    list_differences,
    list_shared_kernels,
    list_wrong_clocks,
)
from dballoc.campaign.elsewhere.place_blocks import Host
from dballoc.store.facts import Environment

USUAL = Environment(kernel="6.12", cpus=8, memory=2**35, thp="madvise")


def make_host(name: str, kernel_id: str | None = None, **changes: Any) -> Host:
    environment = replace(USUAL, host=name, **changes)
    return Host(name=name, kernel=kernel_id or name, environment=environment)


def test_what_differs_is_named_with_what_the_others_have() -> None:
    hosts = [make_host("a"), make_host("b", thp="always", cpus=4), make_host("c")]
    assert list_differences(hosts) == [
        "cpus: b: 4; the others: 8",
        "thp: b: always; the others: madvise",
    ]


def test_hosts_of_one_kind_are_alike() -> None:
    nearly = make_host("b", memory=2**35 + 2**20)
    assert list_differences([make_host("a"), nearly]) == []
    assert list_differences([]) == []


def test_what_is_not_known_differs() -> None:
    hosts = [make_host("a"), make_host("b"), make_host("c", thp=None)]
    assert list_differences(hosts) == ["thp: c: none; the others: madvise"]


def test_a_shared_kernel_is_said() -> None:
    hosts = [make_host("a", "one"), make_host("b", "two"), make_host("c", "one")]
    assert list_shared_kernels(hosts) == ["a, c share a kernel: their blocks run in turn"]


def test_clocks() -> None:
    said = list_wrong_clocks({"a": 0.3, "b": 61.0, "c": -7.2})
    assert [sentence.split(";")[0] for sentence in said] == [
        "b: its clock is 61 s ahead of the driver's",
        "c: its clock is 7 s behind the driver's",
    ]
