"""What a server is told when it settles, and that it gets its settings back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dballoc import catalogue
from dballoc.campaign.trial import settling as settling_module
from dballoc.campaign.trial.settling import Settling, SettlingFailed, begin_settling, end_settling
from dballoc.questions.campaign.answer.conditions_and_preference import LEAST_MEMORY
from dballoc.questions.campaign.sections.shared_sections import describe_method
from dballoc.questions.compare.baseline_comparison import compare_with_baseline
from dballoc.questions.compare.campaign_tables import load_campaign

MYSQL = {
    "innodb_max_dirty_pages_pct": "90.000000",
    "innodb_max_dirty_pages_pct_lwm": "80.000000",
    "innodb_idle_flush_pct": "1",
}
TABLES = ["sbtest1", "sbtest2"]
FLUSH, COMPACT = "rocksdb_force_flush_memtable_now", "rocksdb_compact_lzero_now"
MARIADBS = "rocksdb_force_flush_memtable_and_lzero_now"


class Server:
    """Knows some variables; fails at statements that begin with ``refused``, with an error of this
    number, for so many ``times``.
    """

    def __init__(
        self,
        variables: dict[str, str],
        refused: str = "never",
        number: int = 2013,
        times: int = 1_000,
    ) -> None:
        self.variables = dict(variables)
        self.refused, self.number, self.times = refused, number, times
        self.statements: list[str] = []

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        name = sql.removeprefix("SELECT @@GLOBAL.")
        if name not in self.variables:
            raise pymysql.OperationalError(1193, f"Unknown system variable '{name}'")
        return [(self.variables[name],)]

    def scan(self, sql: str) -> None:
        if sql.startswith(self.refused) and self.times:
            self.times -= 1
            raise pymysql.OperationalError(self.number, "Lost connection")
        self.statements.append(sql)
        if sql.startswith("SET GLOBAL "):
            name, _, value = sql.removeprefix("SET GLOBAL ").partition(" = ")
            self.variables[name] = value


def test_innodb_writes_its_dirty_pages_and_gets_its_settings_back() -> None:
    server = Server(MYSQL)
    settling = begin_settling(server, "innodb", TABLES)
    assert settling.otherwise == {}
    assert server.variables == {
        "innodb_max_dirty_pages_pct": "1",
        "innodb_max_dirty_pages_pct_lwm": "1",
        "innodb_idle_flush_pct": "100",
    }
    assert server.statements[-2:] == ["ANALYZE TABLE sbtest1", "ANALYZE TABLE sbtest2"]
    server.statements.clear()
    end_settling(server, settling)
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
    settling = begin_settling(server, "innodb", [])
    assert settling.otherwise == {"innodb_idle_flush_pct": ""}
    end_settling(server, settling)
    assert server.variables == mariadb

    rocks = Server({FLUSH: "0"})
    assert begin_settling(rocks, "rocksdb", TABLES) == Settling(otherwise={COMPACT: ""})
    assert rocks.statements == [
        "ANALYZE TABLE sbtest1",
        "ANALYZE TABLE sbtest2",
        f"SET GLOBAL {FLUSH} = 1",
    ]


def test_a_server_may_have_a_substitute() -> None:
    mariadb = Server({FLUSH: "0", MARIADBS: "0"})
    settling = begin_settling(mariadb, "rocksdb", [])
    assert settling == Settling(otherwise={COMPACT: MARIADBS})
    assert mariadb.statements == [f"SET GLOBAL {FLUSH} = 1", f"SET GLOBAL {MARIADBS} = 1"]
    both = Server({FLUSH: "0", MARIADBS: "0", COMPACT: "0"})
    assert begin_settling(both, "rocksdb", []) == Settling(otherwise={})
    assert both.statements == [f"SET GLOBAL {FLUSH} = 1", f"SET GLOBAL {COMPACT} = 1"]


def test_what_is_refused_while_rocksdb_compacts_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settling_module, "_BETWEEN_TRIES", 0.0)
    known, switch = {FLUSH: "0", MARIADBS: "0"}, f"SET GLOBAL {MARIADBS}"
    server = Server(known, switch, number=1231, times=3)
    begin_settling(server, "rocksdb", [])
    assert server.statements[-1] == f"{switch} = 1"

    lost = Server(known, switch, number=2013, times=1)
    with pytest.raises(SettlingFailed, match=MARIADBS):
        begin_settling(lost, "rocksdb", [])
    monkeypatch.setattr(settling_module, "_PATIENCE", 0.0)
    with pytest.raises(SettlingFailed, match=MARIADBS):
        begin_settling(Server(known, switch, number=1231), "rocksdb", [])


def test_another_engine_only_has_the_time() -> None:
    server = Server(MYSQL)
    assert begin_settling(server, "aria", TABLES) == Settling(otherwise={})
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
        assert set(entry) <= {"table", "set", "switch", "lacking"}
        switches = [s if isinstance(s, str) else s[0] for s in entry.get("switch", [])]
        variables = {*switches, *(name for name, _ in entry.get("set", []))}
        assert set(entry.get("lacking", {})) <= variables
        assert all(len(pair) == 2 for pair in entry.get("set", []))
