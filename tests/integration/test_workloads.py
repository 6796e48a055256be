"""Every workload of the catalogue on a real MariaDB: the statements of an event, as the server saw
them; TPC-C's consistency.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import Cli, Experiment, rows

from captured_run import run_captured
from dballoc import catalogue
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import data_templates, prepare
from dballoc.campaign.trial.settling import begin_settling, end_settling
from dballoc.experiment import experiment_file, model
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.load import client, sysbench_command
from dballoc.load.workload import Workload, of_catalogue
from dballoc.servers.private import command_line as server_options
from dballoc.servers.private import private_server
from dballoc.servers.private.admin_connection import Admin

ROWS, TABLES, EVENTS = 400, 2, 3
NUMBER = r"\d+"
T = r"sbtest[12]"
C, PAD = r"'(?:\d{11}-){9}\d{11}'", r"'(?:\d{11}-){4}\d{11}'"


def listed(count: int) -> str:
    return rf"\({NUMBER}(?:, {NUMBER}){{{count - 1}}}\)"


POINT = f"SELECT c FROM {T} WHERE id ?= ?{NUMBER}"
BETWEEN = f"FROM {T} WHERE id BETWEEN {NUMBER} AND {NUMBER}"
RANGES = {
    "simple": f"SELECT c {BETWEEN}",
    "sum": rf"SELECT SUM\(k\) {BETWEEN}",
    "order": f"SELECT c {BETWEEN} ORDER BY c",
    "distinct": f"SELECT DISTINCT c {BETWEEN} ORDER BY c",
}
UPDATES = [
    f"UPDATE {T} SET k ?= ?k ?\\+ ?1 WHERE id ?= ?{NUMBER}",
    f"UPDATE {T} SET c ?= ?{C} WHERE id ?= ?{NUMBER}",
]
DELETE = f"DELETE FROM {T} WHERE id ?= ?{NUMBER}"
INSERT = rf"INSERT INTO {T} \(id, k, c, pad\) VALUES \({NUMBER}, {NUMBER}, {C}, {PAD}\)"


def trx(*statements: str) -> list[str]:
    return ["BEGIN", *statements, "COMMIT"]


def reads(*ranges: str, points: int = 10) -> list[str]:
    return [*[POINT] * points, *(RANGES[r] for r in ranges or RANGES)]


def of(columns: str, by: str, what: str) -> list[str]:
    return [f"SELECT {columns} FROM {T} WHERE {by} {what}"]


SPAN = f"BETWEEN {NUMBER} AND {NUMBER}"
# The statements of one event: their number is the published Q/ev.
PUBLISHED: dict[str, list[str]] = {
    "update-inlist_range=100": [f"UPDATE {T} SET c = {C} WHERE id IN {listed(10)}"],
    "update-index_range=100": UPDATES[:1],
    "update-nonindex_range=100": UPDATES[1:],
    "update-one_range=100": [f"UPDATE {T} SET c = {C} WHERE id = 1"],
    "update-zipf_range=100": UPDATES[1:],
    "write-only_range=10000": trx(*UPDATES, DELETE, INSERT),
    "read-write_range=10": trx(*reads(), *UPDATES, DELETE, INSERT),
    "read-write_range=100": trx(*reads(), *UPDATES, DELETE, INSERT),
    "scan_range=100": [rf"SELECT \* FROM {T} WHERE LENGTH\(c\) < 0"],
    "read-only_range=10": trx(*reads()),
    "read-only_range=100": trx(*reads()),
    "read-only_range=10000": trx(*reads()),
    **{f"read-only-{r}_range=1000": trx(*reads(r)) for r in RANGES},
    "read-only-count_range=1000": [rf"SELECT COUNT\(c\) {BETWEEN}"],
    "point-query_range=100": [POINT],
    **{f"random-points_range={n}": of("c", "id", f"IN {listed(n)}") for n in (10, 100, 1000)},
    "hot-points_range=100": of(
        "c", "id", rf"IN \({', '.join(str(ROWS // 2 + i) for i in range(1, 101))}\)"
    ),
    **{
        f"points-covered-{x}_range=100": of(c, c, f"IN {listed(100)}")
        for x, c in (("pk", "id"), ("si", "k"))
    },
    **{
        f"points-notcovered-{x}_range=100": of(f"{c}, c", c, f"IN {listed(100)}")
        for x, c in (("pk", "id"), ("si", "k"))
    },
    **{f"range-covered-{x}_range=100": of(c, c, SPAN) for x, c in (("pk", "id"), ("si", "k"))},
    **{
        f"range-notcovered-{x}_range=100": of(f"{c}, c", c, SPAN)
        for x, c in (("pk", "id"), ("si", "k"))
    },
    "delete_range=100": [DELETE],
    "insert_range=100": [INSERT],
}
OWN_SET = f"SET SESSION tmp_table_size = {NUMBER}"
GROUP = rf"SELECT pad, COUNT\(\*\), MAX\(k\) {BETWEEN} GROUP BY pad ORDER BY NULL"
OTHERS: dict[str, list[str]] = {
    "percona-2012_read-only": trx(*reads()),
    "percona-2012_point-select": [POINT],
    "chinaunix-2013_read-only": trx(*reads(points=12)),
    "chinaunix-2013_read-write": trx(*reads(points=12), *UPDATES, DELETE, INSERT),
    "connection-churn": [POINT],
    "big-sorts": [f"SELECT id, k, c, pad {BETWEEN} ORDER BY pad, c"],
    "temporary-tables": [
        OWN_SET,
        GROUP,
        OWN_SET,
        GROUP,
        f"CREATE TEMPORARY TABLE dballoc_own ENGINE = MEMORY AS SELECT id, k, pad {BETWEEN}",
        "DROP TEMPORARY TABLE dballoc_own",
    ],
}


@dataclass(kw_only=True)
class Served:
    """A server with small tables, and sysbench for it."""

    admin: Admin
    config: Path
    bench: sysbench_command.Sysbench
    experiment: model.Experiment
    directory: Path

    def run(self, work: Workload, verb: str, threads: int, **more: str) -> str:
        data, load = self.experiment.data, self.experiment.load
        options = sysbench_command.run_options(work, threads, 0, data, "innodb", load) | more
        env = sysbench_command.environment(self.bench, work, self.directory / "intervals.jsonl")
        done = run_captured(
            sysbench_command.command(self.bench, self.config, verb, options),
            env=env,
            errors="replace",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def seen(self) -> list[str]:
        """What clients have asked since the last call, but for ourselves."""
        self.admin.rows("SET GLOBAL general_log = OFF")
        sql = (
            "SELECT argument FROM mysql.general_log WHERE command_type IN ('Query', 'Execute') AND thread_id <> CONNECTION_ID() "
            "ORDER BY event_time"
        )
        found = [
            text.decode() if isinstance(text, bytes) else str(text)
            for (text,) in self.admin.rows(sql)
        ]
        self.admin.rows("TRUNCATE mysql.general_log")
        self.admin.rows("SET GLOBAL general_log = ON")
        return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all workloads."""
    # Not below the session's home: what runs there is not to outlive a test.
    base = Path(tempfile.mkdtemp(prefix="dbw-", dir="/tmp"))
    base.chmod(0o755)
    before = os.environ.get("DBALLOC_CACHE")
    os.environ["DBALLOC_CACHE"] = str(base / "cache")
    table = {
        "baseline": "glibc", "workloads": ["oltp_read_only"], "threads": [4], "design": "solo",
        "server": {"options": {"innodb_buffer_pool_size": "32M", "log_output": "TABLE"}},
        "data": {"tables": TABLES, "rows": ROWS}, "variant": [{"name": "glibc"}],
    }  # fmt: skip
    experiment = experiment_file.build_experiment(table, "test")
    directory = tmp_path_factory.mktemp("served")
    try:
        with Custody() as custody:
            setting = prepare.prepare_campaign(experiment)
            made = data_templates.prepare_data_templates(
                setting, custody, Observer(), directory / "template.log"
            )
            prepared = setting.variants["glibc"]
            scratch, run = (
                directories.make_scratch(custody.scratch),
                directories.make_run_directory(custody.scratch),
            )
            scratch.chmod(0o711)
            setting.user.share(run)
            template = made[prepared.recipe.key]
            template.copy(custody, scratch / "data", directory / "copy.log", setting.user)
            address = server_options.Address(run / "mysqld.sock")
            argv = server_options.command(
                prepared.build, scratch / "data", address, prepared.options
            )
            launch = private_server.ServerLaunch(
                argv=argv,
                env=prepared.env,
                address=address,
                log=directory / "server.log",
                password=template.password,
                user=setting.user,
            )
            running = private_server.start(custody, launch, 60, "sbtest")
            config = client.connection_file(directory, address, template.password, setting.user)
            yield Served(
                admin=running.admin,
                config=config,
                bench=setting.sysbench,
                experiment=experiment,
                directory=directory,
            )
            private_server.stop(running, 60)
    finally:
        if before is None:
            del os.environ["DBALLOC_CACHE"]
        else:
            os.environ["DBALLOC_CACHE"] = before
        shutil.rmtree(base)


def test_the_published_set_is_what_is_tested() -> None:
    assert {*PUBLISHED, "load"} == set(catalogue.cycles()["microbenchmarks"]["workloads"])


def test_a_server_gets_its_settings_back_after_settling(served: Served) -> None:
    names = ("innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm")

    def read() -> list[float]:
        return [float(served.admin.rows(f"SELECT @@GLOBAL.{name}")[0][0]) for name in names]

    first = read()
    settling = begin_settling(served.admin, "innodb", ["sbtest1", "sbtest2"])
    assert sorted(name for name, _ in settling.before) == sorted(names)
    # MariaDB has no third one.
    assert settling.otherwise == {"innodb_idle_flush_pct": ""}
    assert read() == [1, 1]
    end_settling(served.admin, settling)
    assert read() == first


# Without these none of the set is left out.
ALL = {**PUBLISHED, **OTHERS}


@pytest.mark.parametrize("name", ALL)
def test_an_event(served: Served, name: str) -> None:
    served.seen()
    served.run(
        of_catalogue(name),
        "run",
        1,
        events=str(EVENTS),
    )
    found = [
        text
        for text in served.seen()
        if not re.match(r"SET (autocommit|SESSION sort_buffer_size)", text)
    ]
    assert len(found) == EVENTS * len(ALL[name]), found[:40]
    for text, pattern in zip(found, ALL[name] * EVENTS, strict=True):
        assert re.fullmatch(pattern, text), (pattern, text)


def test_deleted_rows_come_back_with_their_number(served: Served) -> None:
    served.seen()
    served.run(of_catalogue("write-only_range=10000"), "run", 1, events="5")
    found = [
        (t, re.search(r"(sbtest\d) WHERE id = (\d+)|(sbtest\d) \(.*VALUES \((\d+),", t))
        for t in served.seen()
    ]
    places = [(t[0], *filter(None, m.groups())) for t, m in found if m and t[0] in "DI"]
    assert [p[1:] for p in places[::2]] == [p[1:] for p in places[1::2]]


def count_statements_when_closed(served: Served) -> dict[str, int]:
    """The server's counts of prepared statements once none is open.

    The server does not answer a close, so a client's end is no proof that it has been counted.
    """
    names = ("Com_stmt_execute", "Com_stmt_prepare", "Com_stmt_close", "Prepared_stmt_count")
    deadline = time.monotonic() + 60
    while True:
        status = served.admin.status()
        counts = {name: int(status[name]) for name in names}
        closed = counts["Com_stmt_prepare"] == counts["Com_stmt_close"]
        if (closed and not counts["Prepared_stmt_count"]) or time.monotonic() > deadline:
            return counts
        time.sleep(0.05)


def test_prepared_in_the_server_where_asked_for(served: Served) -> None:
    before = count_statements_when_closed(served)
    served.run(
        of_catalogue("read-write_range=100"), "run", 2, events="20", **{"db-ps-mode": "auto"}
    )
    after = count_statements_when_closed(served)
    used = {name: after[name] - count for name, count in before.items()}
    assert used["Com_stmt_execute"] >= 20 * 18
    assert used["Com_stmt_prepare"] == used["Com_stmt_close"] > 0
    assert after["Prepared_stmt_count"] == 0


def test_temporary_tables_are_in_memory_and_on_disk(served: Served) -> None:
    before = served.admin.status()
    served.run(of_catalogue("temporary-tables"), "run", 1, events="10")
    after = served.admin.status()
    made, on_disk = (
        int(after[k]) - int(before[k]) for k in ("Created_tmp_tables", "Created_tmp_disk_tables")
    )
    assert on_disk >= 10
    assert made - on_disk >= 10


def test_connections_come_and_go(served: Served) -> None:
    before = int(served.admin.status()["Connections"])
    served.run(of_catalogue("connection-churn"), "run", 2, events="50")
    assert 50 <= int(served.admin.status()["Connections"]) - before <= 55


CHECKS = {
    "1: W_YTD = sum(D_YTD)": "SELECT COUNT(*) FROM warehouse WHERE w_ytd <> (SELECT SUM(d_ytd) FROM district WHERE d_w_id = w_id)",
    "2: the next order's number": "SELECT COUNT(*) FROM district WHERE d_next_o_id - 1 <> (SELECT MAX(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)"
    " OR d_next_o_id - 1 < (SELECT MAX(no_o_id) FROM new_orders WHERE no_w_id = d_w_id AND no_d_id = d_id)",
    "3: new orders without a gap": "SELECT COUNT(*) FROM (SELECT MAX(no_o_id) - MIN(no_o_id) + 1 - COUNT(*) AS gap FROM new_orders GROUP BY no_w_id, no_d_id) t "
    "WHERE gap <> 0",
    "4: as many lines as the orders say": "SELECT COUNT(*) FROM orders WHERE o_ol_cnt <> (SELECT COUNT(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id "
    "AND ol_o_id = o_id)",
    "5: what is not new has a carrier": "SELECT COUNT(*) FROM orders LEFT JOIN new_orders ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id "
    "WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    "7: a line is delivered with its order": "SELECT COUNT(*) FROM order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id "
    "WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    "8: W_YTD = sum(H_AMOUNT)": "SELECT COUNT(*) FROM warehouse WHERE w_ytd <> (SELECT SUM(h_amount) FROM history WHERE h_w_id = w_id)",
    "9: D_YTD = sum(H_AMOUNT)": "SELECT COUNT(*) FROM district WHERE d_ytd <> (SELECT SUM(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id)",
    "10: a balance is what was delivered less what was paid": "SELECT COUNT(*) FROM customer WHERE c_balance <> (SELECT COALESCE(SUM(ol_amount), 0) FROM orders, order_line WHERE "
    "o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id "
    "AND ol_delivery_d IS NOT NULL) - (SELECT SUM(h_amount) FROM history WHERE h_c_w_id = c_w_id AND h_c_d_id = c_d_id "
    "AND h_c_id = c_id)",
}


@pytest.fixture(scope="module")
def orders(served: Served) -> Workload:
    """Small data of the TPC-C-like mix, made by several clients at once."""
    work = Workload(
        name="tpcc",
        script="dballoc_tpcc",
        options={"warehouses": "3", "items": "100", "customers": "30"},
        brings=True,
    )
    served.run(work, "prepare", 2)
    return work


def test_tpcc_is_consistent_before_and_after(served: Served, orders: Workload) -> None:
    def inconsistent() -> list[str]:
        return [name for name, sql in CHECKS.items() if served.admin.rows(sql)[0][0] != 0]

    def count(table: str) -> int:
        return int(served.admin.rows(f"SELECT COUNT(*) FROM {table}")[0][0])

    sizes = {
        "item": 100,
        "warehouse": 3,
        "district": 30,
        "customer": 900,
        "history": 900,
        "orders": 900,
        "new_orders": 270,
        "stock": 300,
    }
    assert {table: count(table) for table in sizes} == sizes
    assert inconsistent() == []
    served.run(orders, "run", 4, events="3000")
    assert inconsistent() == []
    # 45 % new orders, of which 1 % are given up; 43 % payments.
    assert count("orders") - 900 == pytest.approx(3000 * 0.45 * 0.99, rel=0.12)
    assert count("history") - 900 == pytest.approx(3000 * 0.43, rel=0.12)
    delivered = count("orders") - count("new_orders") - 630
    assert delivered == pytest.approx(3000 * 0.04 * 10, rel=0.4)
    assert int(served.admin.rows("SELECT SUM(s_order_cnt) FROM stock")[0][0]) == count(
        "order_line"
    ) - int(served.admin.rows("SELECT SUM(o_ol_cnt) FROM orders WHERE o_id <= 30")[0][0])


GLIBC = [{"name": "glibc"}]


@pytest.mark.parametrize(
    ("sequence", "clients"),
    [("cycle", {"load_clients": 1}), pytest.param("fresh", {}, marks=pytest.mark.slow)],
)
def test_the_load_is_measured(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, sequence: str, clients: dict[str, int]
) -> None:
    file_ = tiny_experiment(
        workloads=["load", "update-one_range=100"],
        warm=["point-query_range=100"],
        sequence=sequence,
        threads=[3],
        load={"options": {}},  # as fast as it goes: a load lasts until all rows are there
        time={"warmup": "1s"},
        variant=GLIBC,
        data={"tables": 2, "rows": 20_000, **clients},
    )
    done = run_cli("bench", file_, "--out", out)
    assert done.status == 0, done.text
    found = rows(
        out,
        "SELECT s.*, t.workload AS alone FROM step s JOIN trial t USING (trial) ORDER BY trial, step",
    )
    loads = [r for r in found if r["workload"] == "load"]
    assert [(r["events"], r["threads"], r["kind"]) for r in loads] == [(40_000, 3, "level")] * 2
    assert all(
        r["events"] / r["seconds"] <= r["tps"] <= 4 * r["events"] / r["seconds"] for r in loads
    )
    updates = [r for r in found if r["workload"] == "update-one_range=100"]
    assert [r["kind"] for r in updates] == ["level"] * 2
    assert all(r["qps"] == pytest.approx(r["tps"], rel=0.01) for r in updates)
    assert {r["alone"] for r in found} == (
        {None} if sequence == "cycle" else {"load", "update-one_range=100"}
    )
    assert len(rows(out, "SELECT * FROM trial WHERE outcome = 'ok'")) == (
        2 if sequence == "cycle" else 4
    )
    assert [r["kind"] for r in found if r["workload"] == "point-query_range=100"] == ["warmup"] * 2


def test_dumps_beside_transactions(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    if not (shutil.which("mariadb-dump") or shutil.which("mysqldump")):
        pytest.skip("needs mariadb-dump or mysqldump: apt-get install mariadb-client")
    file_ = tiny_experiment(
        workloads=["dump-churn"], threads=[1, 3], variant=GLIBC, time={"idle": "0s"}
    )
    done = run_cli("bench", file_, "--out", out)
    assert done.status == 0, done.text
    alone, beside = (
        rows(out, f"SELECT * FROM step WHERE kind = 'level' AND threads = {threads}")
        for threads in (1, 3)
    )
    assert all(r["events"] > 2 and r["queries"] == 0 for r in alone), "dumps, and nothing else"
    assert all(r["queries"] > 16 * r["events"] * 0.5 for r in beside)
    status = (next((out / "trials").iterdir()) / "status-02-after.tsv").read_text()
    before = (next((out / "trials").iterdir()) / "status-02-before.tsv").read_text()
    shown = [
        int(re.search(r"^Com_show_create_table\t(\d+)$", text, re.MULTILINE)[1])
        for text in (before, status)
    ]  # type: ignore[index]
    assert shown[1] > shown[0]


def test_dumps_and_stages_beside_writes(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    if not (shutil.which("mariadb-dump") or shutil.which("mysqldump")):
        pytest.skip("needs mariadb-dump or mysqldump: apt-get install mariadb-client")
    file_ = tiny_experiment(
        workloads=["dump-beside-writes", "backup-stages"],
        threads=[3],
        variant=GLIBC,
        time={"idle": "0s"},
    )
    done = run_cli("bench", file_, "--out", out)
    assert done.status == 0, done.text
    raw = out / "trials" / rows(out, "SELECT directory FROM trial WHERE trial = 1")[0]["directory"]

    def count(step: int, when: str, name: str) -> int:
        text = (raw / f"status-{step:02}-{when}.tsv").read_text()
        return int(re.search(rf"^{name}\t(\d+)$", text, re.MULTILINE)[1])  # type: ignore[index]

    def rise(step: int, name: str) -> int:
        return count(step, "after", name) - count(step, "before", name)

    dumps, stages = (
        s["step"] for s in rows(out, "SELECT * FROM step WHERE kind = 'level' AND trial = 1")
    )
    assert rise(dumps, "Com_show_create_table") > 0
    assert rise(dumps, "Com_update") > 10
    assert rise(stages, "Com_backup") >= 5
    assert rise(stages, "Com_update") > 10


@pytest.mark.slow
def test_a_backup_beside_writes(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    if not shutil.which("mariadb-backup"):
        pytest.skip("needs mariadb-backup: apt-get install mariadb-backup")
    file_ = tiny_experiment(
        workloads=["backup-beside-writes"],
        threads=[1, 3],
        variant=GLIBC,
        time={"idle": "0s", "level": "6s"},
    )
    done = run_cli("bench", file_, "--out", out)
    assert done.status == 0, done.text
    alone, beside = (
        rows(out, f"SELECT * FROM step WHERE kind = 'level' AND threads = {threads}")
        for threads in (1, 3)
    )
    assert all(r["events"] >= 1 and r["queries"] == 0 for r in alone), "whole backups alone"
    assert all(r["queries"] > 100 for r in beside)


def test_tpcc_in_a_campaign(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    own = {"small": {"use": "tpcc", "options": {"items": "50", "customers": "10"}}}
    file_ = tiny_experiment(workloads=["small"], workload=own, variant=GLIBC, time={"idle": "0s"})
    done = run_cli("bench", file_, "--out", out)
    assert done.status == 0, done.text
    levels = rows(out, "SELECT * FROM step WHERE kind = 'level'")
    assert len(levels) == 2
    assert all(r["events"] > 5 for r in levels)
    assert sum(r["queries"] for r in levels) > 15 * sum(r["events"] for r in levels)
    # There are no tables of sysbench's, and nothing scanned them.
    assert rows(out, "SELECT * FROM step WHERE kind = 'sql'") == []
    wrong = tiny_experiment(
        workloads=["small"],
        workload={"small": {"use": "tpcc", "options": {"warehouse": "1"}}},
        variant=GLIBC,
    )
    done = run_cli("bench", wrong, "--out", out.parent / "r2")
    assert done.status == 2, done.text
    assert done.stderr.startswith("dballoc: workload 'small': "), done.stderr
    assert done.stderr.count("\n") == 1
