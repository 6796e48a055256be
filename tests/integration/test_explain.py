"""``dballoc explain`` on a real server: every page on a line, the server's own labels on the heap,
refusals of one line.
"""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pymysql
import pytest
from harness import A_USER, Cli, StartServer

from dballoc.evidence.sql import server_memory
from dballoc.explain.ledger.ledger import Ledger, build_ledger
from dballoc.host.process.handle import Process
from dballoc.host.process.read_rights import describe_readers, read_ptrace_scope
from dballoc.process import innodb_buffer_pool, smaps, snapshot
from dballoc.process.mapping_kind import MappingKind


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here servers outlive a test on purpose; the module's own fixture ends them."""


@pytest.fixture(scope="module")
def stock(stock_server: StartServer) -> tuple[int, Path]:
    """With a table that fills some of the pool, and performance_schema."""
    pid, path = stock_server(
        "--innodb-buffer-pool-size=64M",
        "--performance-schema=ON",
        "--performance-schema-instrument=memory/%=ON",
    )
    with (
        pymysql.connect(unix_socket=str(path), autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE DATABASE t")
        cursor.execute("CREATE TABLE t.a (id INT PRIMARY KEY, c CHAR(200)) ENGINE=InnoDB")
        cursor.execute("INSERT INTO t.a SELECT seq, REPEAT('x', 200) FROM t.seq_1_to_50000")
    return pid, path


def explained(run_cli: Cli, *arguments: str) -> dict[str, Any]:
    done = run_cli("explain", *arguments, "--json")
    assert done.status == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def resident(ledger: dict[str, Any], owner: str) -> int:
    return sum(line["resident"] for line in ledger["lines"] if line["owner"] == owner)


def test_from_outside_every_page_is_on_a_line(run_cli: Cli, stock: tuple[int, Path]) -> None:
    found = explained(run_cli, "--pid", str(stock[0]), "--no-sql")
    assert found["tiers"] == ["outside"]
    assert sum(line["resident"] for line in found["lines"]) + found["rest"] == found["rss"]
    assert abs(found["rest"]) <= 0.01 * found["rss"]
    rss = int(Path(f"/proc/{stock[0]}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert found["rss"] == pytest.approx(rss, rel=0.02)
    # 50 000 rows of 200 bytes and more.
    assert resident(found, "buffer pool and log buffers") > 10 * 2**20
    assert resident(found, "binary and libraries") > 10 * 2**20


def test_with_sql_the_heap_has_owners(run_cli: Cli, stock: tuple[int, Path]) -> None:
    outside, found = (
        explained(run_cli, "--socket", str(stock[1]), *more) for more in (["--no-sql"], [])
    )
    assert found["pid"] == stock[0]
    assert found["tiers"] == ["outside", "SQL"]
    assert sum(line["resident"] for line in found["lines"]) + found["rest"] == found["rss"]
    with pymysql.connect(unix_socket=str(stock[1])) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW ENGINE PERFORMANCE_SCHEMA STATUS")
        schema = next(
            int(v) for _, name, v in cursor.fetchall() if name == "performance_schema.memory"
        )
    assert resident(found, "performance_schema itself") == pytest.approx(schema, rel=0.05)
    assert any(line["owner"].startswith("memory/innodb") for line in found["lines"])
    # 10.11 keeps half a MiB, 11.8 twelve and a half.
    assert resident(found, "character sets and what else is kept for good") > 200 * 2**10
    assert found["unowned"] < 0.3 * outside["unowned"]
    assert found["bounds"]["once"] > 64 * 2**20
    assert found["bounds"]["connections"] > 0


def test_a_person_reads_a_table(run_cli: Cli, stock: tuple[int, Path]) -> None:
    done = run_cli("explain", "--pid", str(stock[0]))
    assert done.status == 0, done.stderr
    assert "MiB resident" in done.stdout
    assert "rest: pages that no class claims" in done.stdout
    assert "by its settings RSS can still grow to" in done.stdout
    assert "what the configuration allows" not in done.stdout
    everything = run_cli("explain", "--pid", str(stock[0]), "--all", "--sources")
    assert "what the configuration allows" in everything.stdout
    assert "SHOW ENGINE PERFORMANCE_SCHEMA" in " ".join(everything.stdout.split())


def test_a_server_with_nothing_wrong_fits_a_screen(run_cli: Cli, stock: tuple[int, Path]) -> None:
    done = run_cli("explain", "--pid", str(stock[0]), env={"COLUMNS": "80"})
    lines = done.stdout.splitlines()
    assert not [line for line in lines if line.startswith("✗")]
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert re.search(r"read in \d+ ms, CPU \d+ ms$", lines[1])
    [notice] = [line for line in lines if line.startswith("! performance_schema itself has")]
    assert lines[lines.index(notice) + 1][0] in "!?✓ "
    assert "performance_schema=OFF" not in done.stdout
    everything = run_cli("explain", "--pid", str(stock[0]), "--all")
    assert "performance_schema=OFF" in everything.stdout


def test_sessions_are_named(run_cli: Cli, stock: tuple[int, Path]) -> None:
    with (
        pymysql.connect(unix_socket=str(stock[1]), user="greedy") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET @mine = REPEAT('x', 10 * 1024 * 1024)")
        found = explained(run_cli, "--pid", str(stock[0]))
    [sessions] = [line for line in found["lines"] if line["owner"] == "sessions"]
    assert sessions["size"] > 8 * 2**20
    parts = dict(sessions["parts"])
    [mine] = [size for who, size in parts.items() if who == "user greedy: 1 sessions"]
    assert mine > 8 * 2**20


def test_the_whole_procedure(run_cli: Cli, stock: tuple[int, Path]) -> None:
    found = explained(run_cli, "--pid", str(stock[0]), "--procedure")
    parts = {part["title"]: part for part in found["procedure"]}
    assert [title for title, part in parts.items() if part["missing"]] == []
    rows = {title: {row[0]: row[1:] for row in part["rows"]} for title, part in parts.items()}
    pool = rows["InnoDB: BUFFER POOL AND MEMORY"]
    with pymysql.connect(unix_socket=str(stock[1])) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_total'")
        assert pool["pool, pages"] == [
            int(cursor.fetchall()[0][1]),
            int(pool["pool, pages"][0]) * 16384,
        ]
    assert pool["database pages"][0] > 10 * 2**20 / 16384
    assert rows["variables"]["innodb_buffer_pool_size"] == [64 * 2**20]
    assert rows["process"]["VmRSS"][0] == pytest.approx(found["rss"], rel=0.05)
    # MariaDB reserves terabytes for a pool that grows.
    assert (
        rows["process"]["of VmSize reserved, and accessible to nobody"][0]
        < rows["process"]["VmSize"][0]
    )
    assert "memory/innodb/buf_buf_pool" in rows["performance_schema: memory global"]
    assert rows["sessions"]
    # As free(1) and pt-mysql-summary count them.
    host = rows["host memory, as pt-summary shows it"]
    assert host["Total"][0] > host["Used: physical (total less available)"][0] > found["rss"] // 2
    [(used, [rss])] = [(name, row) for name, row in host.items() if name.startswith("UsedRSS")]
    assert rss > found["rss"], used
    caches = rows["caches, as pt-mysql-summary shows them"]
    assert caches["InnoDB: Buffer Pool Size"] == [64 * 2**20]
    assert caches["InnoDB: Buffer Pool Fill, pages"][0].endswith("%)")
    assert rows["buffers of a session"]["sort_buffer_size"][0] > 2**10
    assert "MariaDB does not show" in parts["buffers of a session"]["note"]
    beyond = rows["InnoDB beyond its buffer pool (rule of thumb: 10 % of the pool)"]
    assert 0 < beyond["beyond the pool, in all"][0] < 64 * 2**20
    assert beyond["beyond the pool, in all"][1].endswith("%")


def test_what_an_account_allocated_and_freed(run_cli: Cli, stock: tuple[int, Path]) -> None:
    """The query of Percona's ebook: a join's buffer is gone when the join ends."""
    with (
        pymysql.connect(unix_socket=str(stock[1]), user="joiner") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET join_buffer_size = 262144")
        cursor.execute(
            "SELECT COUNT(*) FROM t.a x JOIN t.a y ON x.c = y.c WHERE x.id < 9 AND y.id < 9"
        )
        assert cursor.fetchall() == ((64,),)
        flags = ("--procedure", "--event", "memory/sql/JOIN%", "--account", "joiner")
        found = explained(run_cli, "--pid", str(stock[0]), *flags)
    title = "performance_schema: allocated and freed, by account"
    [part] = [part for part in found["procedure"] if part["title"] == title]
    assert part["missing"] is None
    [row] = [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]]
    assert (row["user"], row["event"]) == ("joiner", "memory/sql/JOIN_CACHE")
    assert row["COUNT_ALLOC"] == row["COUNT_FREE"] > 0
    assert row["SUM_NUMBER_OF_BYTES_ALLOC"] == row["SUM_NUMBER_OF_BYTES_FREE"] > 2**10
    assert row["CURRENT_NUMBER_OF_BYTES_USED"] == 0 < row["HIGH_NUMBER_OF_BYTES_USED"]


def test_vsz_and_cpu_are_those_of_proc(run_cli: Cli, stock: tuple[int, Path]) -> None:
    done = run_cli("explain", "--pid", str(stock[0]), "--no-sql", "--openmetrics")
    assert done.status == 0, done.stderr
    samples = dict(line.split(" ") for line in done.stdout.splitlines() if line.count(" ") == 1)
    size = int(Path(f"/proc/{stock[0]}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    assert int(samples["dballoc_vsz_bytes"]) == pytest.approx(size, rel=0.05)
    assert int(samples["dballoc_vsz_reserved_bytes"]) < int(samples["dballoc_vsz_bytes"])
    assert 0 < float(samples["dballoc_cpu_seconds_total"]) < 3600
    assert 0 < float(samples["dballoc_cpu_ratio"]) < 256


def test_the_procedure_for_a_person(run_cli: Cli, stock: tuple[int, Path]) -> None:
    done = run_cli("explain", "--pid", str(stock[0]), "--procedure", "--no-sql")
    assert done.status == 0, done.stderr
    assert "vm.overcommit_memory" in done.stdout
    assert "--no-sql: not asked" in done.stdout


def test_without_performance_schema_it_says_what_to_do(
    run_cli: Cli, stock_server: StartServer
) -> None:
    pid, _ = stock_server()
    found = explained(run_cli, "--pid", str(pid), "--procedure")
    assert abs(found["rest"]) <= 0.01 * found["rss"]
    [note] = [note for note in found["notes"] if "performance_schema is off" in note]
    assert "for the next start: performance_schema = ON" in note
    missing = {part["title"]: part["missing"] for part in found["procedure"] if part["missing"]}
    assert len(missing) == 6
    assert all("performance_schema is off; for the next start" in why for why in missing.values())


def test_another_user_is_told_so(run_cli: Cli, stock: tuple[int, Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    done = run_cli(
        "explain",
        "--pid",
        str(stock[0]),
        prefix=("setpriv", f"--reuid={A_USER}", "--clear-groups", "--"),
    )
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"dballoc: process {stock[0]}: Permission denied; {describe_readers(read_ptrace_scope())}"
    )
    assert done.stderr.count("\n") == 1


def lines(made: Ledger) -> dict[str, int]:
    """Resident bytes by owner; log buffers may lie beside the pool, and nothing tells them apart
    then.
    """
    found: dict[str, int] = {}
    for line in made.lines:
        owner = (
            "pool"
            if line.owner in (server_memory.POOL, server_memory.LOGS, MappingKind.POOL)
            else line.owner
        )
        found[owner] = found.get(owner, 0) + line.resident
    return found


@pytest.mark.parametrize("malloc", ["glibc", "jemalloc"])
def test_a_server_too_large_for_smaps(
    stock_server: StartServer, monkeypatch: pytest.MonkeyPatch, malloc: str
) -> None:
    """The same lines without smaps' flags, the pool by its pages. What is too large is
    small here.
    """
    preload = {} if malloc == "glibc" else {"LD_PRELOAD": "libjemalloc.so.2"}
    # The log buffers are known by their size; an extent of jemalloc's is of 32 MiB now and then, as
    # two buffers of 16 MiB are, and never of so odd a size.
    pid, path = stock_server(
        "--innodb-buffer-pool-size=64M",
        f"--innodb-log-buffer-size={(16 << 20) + (68 << 10)}",
        **preload,
    )
    with (
        pymysql.connect(unix_socket=str(path), autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE DATABASE t")
        cursor.execute("CREATE TABLE t.a (id INT PRIMARY KEY, c CHAR(200)) ENGINE=InnoDB")
        cursor.execute("INSERT INTO t.a SELECT seq, REPEAT('x', 200) FROM t.seq_1_to_100000")
    with pymysql.connect(unix_socket=str(path)) as connection, connection.cursor() as cursor:
        said = server_memory.query_server_memory(cursor)

    def looks() -> tuple[snapshot.ProcessSnapshot, snapshot.ProcessSnapshot]:
        with monkeypatch.context() as patch:
            patch.setattr(smaps, "MOST_SMALL", 4 << 20)
            # More than the doublewrite buffer, whose copies of pages may lie next to anything.
            patch.setattr(innodb_buffer_pool, "_LEAST", 16 << 20)
            seen = snapshot.take_process_snapshot(Process.open(pid))
        return seen, snapshot.take_process_snapshot(Process.open(pid))

    if any(m.flags for m in looks()[0].mappings):
        pytest.skip("this kernel has no PAGEMAP_SCAN (Linux 6.7)")
    for _ in range(20):
        # The server goes on in the background, so that the two may see different things of it; not
        # always.
        found, usual = (lines(build_ledger(seen, said)) for seen in looks())
        if found == pytest.approx(usual, abs=256 << 10):
            break
        time.sleep(0.5)
    assert usual["pool"] > 20 << 20
    assert found == pytest.approx(usual, abs=256 << 10)


def test_another_malloc_has_what_nobody_else_claims(
    run_cli: Cli, stock_server: StartServer
) -> None:
    pid, _ = stock_server("--innodb-buffer-pool-size=16M", LD_PRELOAD="libjemalloc.so.2")
    found = explained(run_cli, "--pid", str(pid), "--no-sql")
    assert "jemalloc" in found["malloc"]
    assert resident(found, "allocator, and unnamed mappings") > 2**20
    assert abs(found["rest"]) <= 0.01 * found["rss"]


def test_a_server_is_not_changed_by_being_looked_at(run_cli: Cli, stock: tuple[int, Path]) -> None:
    """No zero page is mapped into it: pages that are not there are not read."""

    def pages() -> int:
        lines = Path(f"/proc/{stock[0]}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

    before = pages()
    for _ in range(3):
        explained(run_cli, "--pid", str(stock[0]), "--no-sql")
    assert pages() - before < 512


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--pid", "999999999"], "process 999999999: No such process"),
        (
            ["--socket", "/nowhere/s"],
            "--socket /nowhere/s: No such file or directory; is the server running?",
        ),
        (["--pid", "1", "--socket", "/s"], "give one of --pid, --socket and --service"),
        (["--pid", "2"], "it is a kernel thread"),
    ],
)
def test_what_cannot_be_explained_is_one_line(
    run_cli: Cli, arguments: list[str], says: str
) -> None:
    done = run_cli("explain", *arguments)
    assert done.status in (1, 2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
