"""What a server is told when it settles, and that it gets its settings back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dballoc import catalogue
from dballoc.analysis.campaign_tables import load_campaign
from dballoc.analysis.decisions.preference import LEAST_MEMORY
from dballoc.analysis.tables.baseline_comparison import compare_with_baseline
from dballoc.campaign.trials.settling import SettlingFailed, begin_settling, end_settling
from dballoc.report.sections.method import describe_method

MYSQL = {
    "innodb_max_dirty_pages_pct": "90.000000",
    "innodb_max_dirty_pages_pct_lwm": "80.000000",
    "innodb_idle_flush_pct": "1",
}
TABLES = ["sbtest1", "sbtest2"]


class Server:
    """Knows some variables; refuses statements that begin with ``refused``."""

    def __init__(self, variables: dict[str, str], refused: str = "never") -> None:
        self.variables = dict(variables)
        self.refused = refused
        self.statements: list[str] = []

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        name = sql.removeprefix("SELECT @@GLOBAL.")
        if name not in self.variables:
            raise pymysql.OperationalError(1193, f"Unknown system variable '{name}'")
        return [(self.variables[name],)]

    def scan(self, sql: str) -> None:
        if sql.startswith(self.refused):
            raise pymysql.OperationalError(2013, "Lost connection")
        self.statements.append(sql)
        if sql.startswith("SET GLOBAL "):
            name, _, value = sql.removeprefix("SET GLOBAL ").partition(" = ")
            self.variables[name] = value


def test_innodb_writes_its_dirty_pages_and_gets_its_settings_back() -> None:
    server = Server(MYSQL)
    before = begin_settling(server, "innodb", TABLES)
    assert server.variables == {
        "innodb_max_dirty_pages_pct": "1",
        "innodb_max_dirty_pages_pct_lwm": "1",
        "innodb_idle_flush_pct": "100",
    }
    assert server.statements[-2:] == ["ANALYZE TABLE sbtest1", "ANALYZE TABLE sbtest2"]
    server.statements.clear()
    end_settling(server, before)
    assert server.variables == MYSQL
    # A low-water mark above the mark would be lowered to it, so the mark comes first.
    assert [s.split()[2] for s in server.statements] == [
        "innodb_idle_flush_pct",
        "innodb_max_dirty_pages_pct",
        "innodb_max_dirty_pages_pct_lwm",
    ]


def test_a_server_goes_without_what_it_does_not_have() -> None:
    mariadb = {name: value for name, value in MYSQL.items() if "idle" not in name}
    server = Server(mariadb)
    end_settling(server, begin_settling(server, "innodb", []))
    assert server.variables == mariadb

    rocks = Server({"rocksdb_force_flush_memtable_now": "0"})
    assert begin_settling(rocks, "rocksdb", TABLES) == []
    assert rocks.statements == [
        "ANALYZE TABLE sbtest1",
        "ANALYZE TABLE sbtest2",
        "SET GLOBAL rocksdb_force_flush_memtable_now = 1",
    ]


def test_another_engine_only_has_the_time() -> None:
    server = Server(MYSQL)
    assert begin_settling(server, "aria", TABLES) == []
    assert server.statements == []


@pytest.mark.parametrize("refused", ["SET GLOBAL innodb_max", "ANALYZE TABLE sbtest2"])
def test_an_error_names_its_statement(refused: str) -> None:
    with pytest.raises(SettlingFailed) as caught:
        begin_settling(Server(MYSQL, refused), "innodb", TABLES)
    assert caught.value.statement.startswith(refused)
    assert isinstance(caught.value.__cause__, pymysql.Error)


def test_an_error_of_reading_a_variable_is_one_too() -> None:
    class Dead(Server):
        def rows(self, sql: str) -> list[tuple[Any, ...]]:
            raise pymysql.OperationalError(2006, "Server has gone away")

    with pytest.raises(SettlingFailed, match="SELECT @@GLOBAL"):
        begin_settling(Dead(MYSQL), "innodb", TABLES)


def test_the_report_says_how_long_it_took(make: Callable[..., Path]) -> None:
    before = {"oltp_read_only": ["settle"]}
    times = {"warmup": "1s", "settle": "2s", "level": "3s", "idle": "1s"}
    for settles, words in (
        ({"before": before}, "warm-up 1s, settling 2s, level 3s, idle 1s"),
        ({}, "warm-up 1s, level 3s, idle 1s"),
    ):
        campaign = load_campaign(make(f"results-{len(settles)}", blocks=2, time=times, **settles))
        procedures = compare_with_baseline(campaign).procedures
        text = " ".join(describe_method(campaign, procedures, LEAST_MEMORY))
        assert f"Steps: {words}" in text


def test_the_catalogue_has_no_other_keys() -> None:
    for engine, entry in catalogue.settling().items():
        assert engine in ("innodb", "rocksdb")
        assert set(entry) <= {"table", "set", "switch"}
        assert all(len(pair) == 2 for pair in entry.get("set", []))
