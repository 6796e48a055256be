"""How a template is filled, and what one template is made for."""

from dataclasses import replace
from pathlib import Path

import pytest

from dballoc.campaign.preparation.data_templates import count_fill_clients
from dballoc.load.workload import of_catalogue
from dballoc.servers.private import command_line

TABLES = of_catalogue("oltp_read_only")


@pytest.mark.parametrize(
    ("cpus", "tables", "clients"), [(1, 8, 1), (2, 8, 2), (16, 8, 8), (256, 8, 8), (256, 1000, 128)]
)
def test_tables_are_filled_at_once_by_as_many_clients_as_help(
    cpus: int, tables: int, clients: int
) -> None:
    """With 256 CPUs, 256 clients could be more than the server has connections for, 151."""
    assert count_fill_clients(TABLES, cpus, tables) == clients


def test_scripts_with_a_prepare_of_their_own_share_it_among_all_cpus() -> None:
    own = replace(TABLES, file=Path("/w/own.lua"))
    for work in (own, of_catalogue("tpcc")):
        assert [count_fill_clients(work, cpus, 8) for cpus in (1, 16, 256)] == [1, 16, 128]
    assert int(command_line.capacity(0, 0, 8)["max-connections"]) > 128
