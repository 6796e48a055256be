"""What the report says of the CPUs of servers and of their clients, as they were found."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.questions.campaign.sections.machine_and_variants import (
    tabulate_environment,
    tabulate_variants,
)
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.published.setup.campaign_setup import read_campaign_setup

Make = Callable[..., Path]

APART = {"count": 2, "client": "apart"}


@pytest.mark.parametrize(
    ("cpu", "clients", "words", "own"),
    [
        (APART, "2-3", "2-3", 2),
        (APART, "0-1", "0-1 (beside the server: too few others)", 0),
        ({"count": 2}, "0-1", "0-1", None),
        (APART, None, None, None),
    ],
)
def test_the_report_tells_where_clients_were(
    make: Make, cpu: dict, clients: str | None, words: str | None, own: int | None
) -> None:
    value = "NULL" if clients is None else f"'{clients}'"
    path = make("ran", blocks=2, cpu=cpu, sql=(f"UPDATE trial SET client_cpus = {value}",))
    campaign = load_campaign(path)
    table = tabulate_variants(campaign)
    if words is None:
        assert table.columns[-1] == "CPUs of the server"
    else:
        assert [*table.columns][-2:] == ["CPUs of the server", "CPUs of its clients"]
        assert {row[-1] for row in table.rows} <= {words, "–"}
    assert read_campaign_setup(campaign).own_clients.get("glibc") == own


def test_nodes_are_told_where_there_are_several(make: Make) -> None:
    known = {"cpus": 4, "cores": 4, "numa_nodes": 2, "cpus_of_nodes": {"0": "0-1", "1": "2-3"}}
    update = f"UPDATE campaign SET value = '{json.dumps(known)}' WHERE key = 'environment'"
    rows = dict(tabulate_environment(load_campaign(make("nodes", sql=(update,)))).rows)
    assert rows["CPU"].endswith("4 CPUs, 4 cores, 2 NUMA nodes (node 0: 0-1; node 1: 2-3)")
