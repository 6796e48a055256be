"""Faults planted in a real MariaDB, one after the other, and what ``dballoc explain`` says
of each.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pymysql
import pytest
from harness import Cli, StartServer
from prometheus_client.openmetrics.parser import text_string_to_metric_families

MIB = 1 << 20
# A line of a watch that is not on a terminal.
LOOK = re.compile(r"(?m)^\d\d:\d\d:\d\d  RSS ")
Server = tuple[int, Path]


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here a server outlives a test on purpose; the module's own fixture ends it."""


@pytest.fixture(scope="module")
def server(stock_server: StartServer) -> Server:
    """With a key cache of 128 MiB, and a pool that is almost empty."""
    return stock_server(
        "--innodb-buffer-pool-size=256M",
        "--key-buffer-size=128M",
        "--aria-pagecache-buffer-size=8M",
        "--max-session-mem-used=1G",
        "--max-allowed-packet=64M",
        "--query-cache-size=0",
    )


def connect(server: Server) -> pymysql.Connection:
    return pymysql.connect(unix_socket=str(server[1]), autocommit=True)


def explained(run_cli: Cli, server: Server, *arguments: str) -> dict[str, Any]:
    done = run_cli("explain", "--pid", str(server[0]), *arguments, "--json")
    assert done.status == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def verdict(found: dict[str, Any], key: str) -> dict[str, Any]:
    assert key in {v["key"] for v in found["verdicts"]}, found["verdicts"]
    return next(v for v in found["verdicts"] if v["key"] == key)


def resident(found: dict[str, Any], owner: str) -> int:
    return sum(line["resident"] for line in found["lines"] if line["owner"] == owner)


def test_a_pool_that_fills(run_cli: Cli, server: Server) -> None:
    found = explained(run_cli, server)
    assert verdict(found, "pool")["headline"].startswith("Cache filling: the buffer pool is ")
    assert verdict(found, "growth")["level"] == "open"
    assert not {"leak", "sessions", "fragmentation"} & {v["key"] for v in found["verdicts"]}
    # What leads to the blocks of a key cache is there before it holds any.
    assert verdict(found, "cache")["level"] == "notice"
    assert found["answer"].endswith(".")


def test_a_session_that_keeps_what_it_made(run_cli: Cli, server: Server, tmp_path: Path) -> None:
    before = tmp_path / "before.json.gz"
    assert run_cli("explain", "--pid", str(server[0]), "--save", before).status == 0
    with connect(server) as connection, connection.cursor() as cursor:
        for i in range(96):
            cursor.execute(f"SET @v{i} = REPEAT('x', 1048576)")
        found = explained(run_cli, server, "--save", str(tmp_path / "after.json"))
    said = verdict(found, "sessions")
    assert said["level"] == "problem"
    assert "Per-connection bloat" in said["headline"]
    assert "renew its connections" in " ".join(said["remedies"])
    # The same by the difference of two looks.
    done = run_cli("explain", "--diff", before, tmp_path / "after.json", "--json")
    grown = json.loads(done.stdout)
    assert grown["changes"][0]["owner"] == "sessions"
    assert grown["changes"][0]["change"] > 90 * MIB
    assert re.search("most of it is sessions|: sessions grew by", grown["sentence"])
    assert sum(c["change"] for c in grown["changes"]) == grown["rss"]["change"]


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_session_leak_is_seen_over_time(run_cli: Cli, server: Server, tmp_path: Path) -> None:
    series = tmp_path / "series.jsonl"
    watching = run_cli.start(
        "explain",
        "--pid",
        str(server[0]),
        "--watch",
        "--every",
        "250ms",
        "--cpu",
        "100",
        "--for",
        "5m",
        "--save-series",
        series,
    )
    # As long as it takes: on a busy machine a snapshot takes seconds.
    with connect(server) as connection, connection.cursor() as cursor:
        i = 0
        while watching.poll() is None and count_lines(series) < 20:
            cursor.execute(f"SET @w{i} = REPEAT('x', 524288)")
            i += 1
            time.sleep(0.1)
    watching.send_signal(signal.SIGINT)
    done = run_cli.end(watching)
    assert done.status == 0, done.stderr
    assert "Session leak: sessions pile up" in done.stdout
    found = json.loads(run_cli("explain", "--from", series, "--json").stdout)
    assert verdict(found, "sessions")["headline"].startswith("Session leak")
    assert "leak" not in {v["key"] for v in found["verdicts"]}
    lines = series.read_text().splitlines()
    assert len(lines) == len(LOOK.findall(done.stdout)) >= 6
    # What ps and top show is in every line, and in every snapshot.
    assert re.search(r"; VSZ [\d.,]+ \wiB.*; CPU [\d.,]+ % now, [\d.,]+ % since", done.stdout)
    assert re.search(r"(?m)^CPU [\d.,]+ % of one between them$", done.stdout)
    assert all(json.loads(line)["usage"]["vsz"] > found["rss"] for line in lines)


def test_a_fragmented_heap(run_cli: Cli, server: Server) -> None:
    """Many small user variables of which all but a few at the end of the heap are given back."""
    keep, go = connect(server), connect(server)
    with keep.cursor() as last, go.cursor() as first:
        for i in range(3000):
            first.execute(f"SET @a{i} = REPEAT('x', 60000)")
            if i % 100 == 99:
                last.execute(f"SET @k{i} = REPEAT('y', 2000)")
    go.close()
    time.sleep(0.3)
    try:
        found = explained(run_cli, server)
    finally:
        keep.close()
    said = verdict(found, "fragmentation")
    assert said["level"] == "problem"
    # One arena has most of it: fewer arenas would hold no less.
    assert said["remedies"][0].startswith("dballoc explain --trim")
    assert "MALLOC_ARENA_MAX" not in " ".join(said["remedies"])
    assert not {"leak", "sessions"} & {v["key"] for v in found["verdicts"]}


def test_a_key_cache_that_was_filled_and_forgotten(run_cli: Cli, server: Server) -> None:
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE k")
        cursor.execute(
            "CREATE TABLE k.t (a CHAR(250) NOT NULL, KEY (a)) ENGINE=MyISAM CHARSET=latin1"
        )
        cursor.execute(
            "INSERT INTO k.t SELECT CONCAT(MD5(seq), MD5(-seq), REPEAT(MD5(seq * 7), 5)) FROM k.seq_1_to_450000"
        )
        cursor.execute("CREATE TABLE k.i (a INT) ENGINE=MyISAM")
        cursor.execute("LOAD INDEX INTO CACHE k.t")
        found = explained(run_cli, server)
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Key_blocks_%'")
        blocks = dict(cursor.fetchall())
    assert resident(found, "key cache (MyISAM)") == pytest.approx(
        1024 * int(blocks["Key_blocks_used"]), rel=0.05
    ), found["lines"]
    said = verdict(found, "cache")
    assert "key cache (MyISAM)" in said["headline"], blocks
    assert "key_buffer_size=128 MiB" in " ".join(said["evidence"])


def test_a_key_cache_with_a_name_is_not_taken_for_the_default_one(
    run_cli: Cli, server: Server
) -> None:
    """It has the default one's size, so that its mapping has, too."""
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE h")
        cursor.execute(
            "CREATE TABLE h.t (a CHAR(250) NOT NULL, KEY (a)) ENGINE=MyISAM CHARSET=latin1"
        )
        cursor.execute("SET GLOBAL hot.key_buffer_size = 134217728")
        cursor.execute("CACHE INDEX h.t IN hot")
        cursor.execute(
            "INSERT INTO h.t SELECT CONCAT(MD5(seq), MD5(-seq), REPEAT(MD5(seq * 7), 5)) FROM h.seq_1_to_150000"
        )
        cursor.execute("LOAD INDEX INTO CACHE h.t")
        cursor.execute(
            "SELECT KEY_CACHE_NAME, USED_BLOCKS * BLOCK_SIZE FROM information_schema.KEY_CACHES"
        )
        used = {name: int(size) for name, size in cursor.fetchall()}
        found = explained(run_cli, server)
        cursor.execute("SET GLOBAL hot.key_buffer_size = 0")
        cursor.execute("DROP DATABASE h")
    assert used["hot"] > 20 * MIB
    assert resident(found, "key cache hot (MyISAM)") == pytest.approx(used["hot"], rel=0.05)
    [said] = [v for v in found["verdicts"] if v["headline"].startswith("Key cache hot (MyISAM)")]
    assert "SET GLOBAL NAME.key_buffer_size = 0" in said["remedies"][0]


def test_a_scraper_reads_it(run_cli: Cli, server: Server) -> None:
    done = run_cli("explain", "--pid", str(server[0]), "--openmetrics")
    families = {f.name: f for f in text_string_to_metric_families(done.stdout)}
    memory = sum(s.value for s in families["dballoc_memory_bytes"].samples)
    assert (
        memory + families["dballoc_rest_bytes"].samples[0].value
        == families["dballoc_rss_bytes"].samples[0].value
    )
    assert {s.labels["bound"] for s in families["dballoc_bound_bytes"].samples} >= {"once", "worst"}


def test_q_ends_a_watch_on_a_terminal(run_cli: Cli, server: Server) -> None:
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "dballoc",
            "explain",
            "--pid",
            str(server[0]),
            "--watch",
            "--every",
            "1s",
        ],
        env={**run_cli.env, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
        cwd=run_cli.home,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    run_cli.running.append(watching)  # type: ignore[arg-type]  # to be killed if this test fails
    os.close(theirs)
    said = b""

    def read(seconds: float) -> bytes:
        ready, _, _ = select.select([ours], [], [], seconds)
        try:
            return os.read(ours, 65536) if ready else b""
        except OSError:
            return b""

    until = time.monotonic() + 30
    while b"q ends" not in said and time.monotonic() < until:
        said += read(1)
    os.write(ours, b"q")
    while watching.poll() is None and time.monotonic() < until:
        said += read(0.2)
    said += read(0.2)
    os.close(ours)
    assert watching.wait(timeout=10) == 0, said.decode(errors="replace")
    assert b"since the start, MiB" in said
    assert "nobody claims" in " ".join(said.decode(errors="replace").split())


def test_a_server_that_ends_meanwhile_is_one_line_after_the_summary(
    run_cli: Cli, home: Path
) -> None:
    """On a process that is no server, for which there is no start to wait."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        watching = run_cli.start(
            "explain",
            "--pid",
            str(process.pid),
            "--no-sql",
            "--watch",
            "--every",
            "200ms",
            "--cpu",
            "100",
        )
        assert watching.stdout
        assert "RSS" in watching.stdout.readline()
    finally:
        process.kill()
        process.wait()
    done = run_cli.end(watching)
    assert done.status == 1
    assert done.stderr.splitlines() == [f"dballoc: process {process.pid} has ended"]
    assert "nobody claims" in done.stdout
