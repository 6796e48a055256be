"""``dballoc exec --probe heap`` and ``dballoc profile heap`` on a real server under load."""

import gzip
import json
import re
import sqlite3
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pymysql
import pytest
from harness import A_USER, Cli, Experiment
from probed_server import ProbedServer

from dballoc.allocators import find_library
from dballoc.ground.errors import UsageError
from dballoc.profile.formats.profile_file import load_profile

pytestmark = pytest.mark.alone

UID = A_USER
PROBE = Path(str(files("dballoc") / "_native" / "libdballoc_probe.so"))


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here a server outlives a test on purpose; the module's own fixture ends it."""


class Server(ProbedServer):
    """A MariaDB under the probe over jemalloc, which tells its own count of live bytes now and
    then.
    """

    def __init__(self, home: Path, run_cli: Cli) -> None:
        # Statistics after every 16 MiB of activity, the totals alone. It counts what lies in its
        # threads' caches as allocated.
        conf = "tcache:false,stats_interval:16777216,stats_interval_opts:mdablxeg"
        jemalloc = find_library.find_allocator("jemalloc").libraries[0]
        consumers = "--performance-schema-consumer-events-statements"
        super().__init__(
            home / "heap",
            run_cli,
            ["--probe", "heap", "--interval", "64K"],
            ["--performance-schema=ON", f"{consumers}-current=ON", f"{consumers}-history=ON"],
            {"LD_PRELOAD": str(jemalloc), "MALLOC_CONF": conf},
        )

    def jemallocs_word(self) -> int:
        """Its last count of allocated bytes."""
        return int(
            re.findall(r"^Allocated: (\d+)", self.log.read_text(errors="replace"), re.MULTILINE)[-1]
        )


@pytest.fixture(scope="module")
def server(home: Path, run_cli: Cli) -> Iterator[Server]:
    if not PROBE.exists():
        pytest.skip("the native parts are not built: make setup")
    try:
        find_library.find_allocator("jemalloc")
    except UsageError as error:
        pytest.skip(str(error))
    running = Server(home, run_cli)
    try:
        running.make_tables()
        yield running
    finally:
        running.kill()


def profiled(run_cli: Cli, *arguments: str | Path) -> dict[str, Any]:
    done = run_cli("profile", "heap", *arguments, "--json")
    assert done.status == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_loaded_server_names_its_functions(run_cli: Cli, server: Server, tmp_path: Path) -> None:
    load_ = server.sysbench("--threads=4", "--time=5", "oltp_read_write", "run")
    time.sleep(1)
    found = profiled(
        run_cli,
        "--pid",
        str(server.process.pid),
        "--out",
        tmp_path,
        "--period",
        "1s",
        "--count",
        "2",
    )
    assert load_.wait() == 0
    assert found["complete"] >= 0.99
    assert found["lost"] == 0
    most = sorted(found["rows"], key=lambda row: -row["allocated"])[:5]
    assert {"Filesort_buffer::alloc_sort_buffer", "handler::ha_write_tmp_row"} & {
        row["name"] for row in most
    }
    assert found["malloc"]["timed"] > 10
    assert 0 < found["malloc"]["share"] < 0.5
    # What is kept is a profile like any other.
    kept = load_profile(tmp_path / "heap-2.profile.json.gz")
    assert kept.total("live") == pytest.approx(found["live"]["bytes"], rel=1e-6)
    assert gzip.decompress((tmp_path / "peak.profile.json.gz").read_bytes())
    assert {Path(f).name for f in found["files"]} >= {"heap.html", "growth.html", "massif.out"}


def test_massifs_graph_and_trees(run_cli: Cli, server: Server, tmp_path: Path) -> None:
    done = run_cli(
        *("profile", "heap", "--pid", str(server.process.pid), "--massif"),
        *("--period", "200ms", "--count", "3", "--depth", "3", "--out", tmp_path),
    )
    assert done.status == 0, done.stderr
    assert re.search(r"^Number of snapshots: [34]$", done.stdout, re.MULTILINE)
    assert re.search(r"^->\d\d\.\d\d% \([\d,]+B\) 0x", done.stdout, re.MULTILINE)
    assert "(heap allocation functions) malloc/new/new[]" in done.stdout
    assert "From snapshot 0 to snapshot" in done.stdout
    files = sorted(tmp_path.glob("heap-*.profile.json.gz"))
    kept = run_cli("profile", "massif", *files, "--depth", "3", "--time-unit", "B")
    assert kept.status == 0, kept.stderr
    assert "time(B)" in kept.stdout


def test_live_bytes_agree_with_jemallocs_own(run_cli: Cli, server: Server) -> None:
    assert server.sysbench("--threads=2", "--time=2", "oltp_read_write", "run").wait() == 0
    # One quiet connection, whose activity makes jemalloc speak with nothing else under way.
    with (
        pymysql.connect(unix_socket=str(server.socket), autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        for _ in range(600):
            cursor.execute("SELECT LENGTH(REPEAT('x', 100000))")
        live = profiled(run_cli, "--out-dir", server.out)["live"]
    word = server.jemallocs_word()
    assert live["error"] < 0.01 * word
    # 1 MiB: what came and went between its word and ours.
    assert abs(live["bytes"] - word) < 2 * live["error"] + 2**20
    assert abs(live["bytes"] - word) < 0.02 * word


def test_memory_has_users_connections_and_statements(run_cli: Cli, server: Server) -> None:
    with pymysql.connect(
        unix_socket=str(server.socket), user="tester", autocommit=True
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("SET @x = REPEAT('x', 12000000)")
        for by in ("user", "connection", "digest"):
            found = profiled(run_cli, "--pid", str(server.process.pid), "--by", by)
            names = {row["name"]: row["live"]["bytes"] for row in found["rows"]}
            if by == "digest":
                said = next(name for name in names if name.startswith("SET"))
            else:
                said = f"{connection.thread_id()} tester" if by == "connection" else "tester"
            assert names[said] > 11_000_000
            assert 0 < found["attributed"] <= 1
    done = run_cli("profile", "heap", "--pid", str(server.process.pid), "--by", "user")
    assert "attributed: " in done.stdout


def test_what_cannot_be_profiled_is_one_line(run_cli: Cli) -> None:
    done = run_cli("profile", "heap", "--out-dir", "/nowhere")
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("dballoc: /nowhere: no probe listens there")
    assert len(done.stderr.splitlines()) == 1


def test_a_program_under_the_probe_is_itself(run_cli: Cli, home: Path) -> None:
    done = run_cli(
        "exec",
        "--probe",
        "heap",
        "--out",
        home / "exec-p",
        "--",
        "sh",
        "-c",
        "echo $0 $1; exit 7",
        "a",
        "--probe",
    )
    assert (done.status, done.stdout) == (7, "a --probe\n")
    assert "ask it: dballoc profile heap --out-dir" in done.stderr
    refused = run_cli("exec", "--probe", "heap", "--out", home / "exec-q", "--", "/nowhere/mysqld")
    assert (refused.status, refused.stderr) == (
        2,
        "dballoc: /nowhere/mysqld: there is no such program\n",
    )
    assert not (home / "exec-q").exists()


@pytest.mark.slow
def test_a_campaign_with_heap_profiles(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    variants = [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}]
    experiment = tiny_experiment(
        profile="heap", threads=[1, 8], time={"level": "3s", "idle": "0s"}, variant=variants
    )
    done = run_cli("bench", experiment, "--out", out, "--report")
    assert done.status == 0, done.text
    files = sorted(
        p.parent.parent.name for p in (out / "trials").glob("*/heap/heap-*.profile.json.gz")
    )
    assert len(files) == 2, done.text
    assert not any("A2" in f for f in files)
    page, text = (out / "report.html").read_text(), (out / "report.md").read_text()
    assert 'id="heap"' in page
    assert "Who holds the heap" in text
    assert "What goes through malloc" in text
    # What was profiled is none of what was measured.
    with sqlite3.connect(out / "results.sqlite") as db:
        assert {row[0] for row in db.execute("SELECT DISTINCT kind FROM step")} <= {
            "sql",
            "warmup",
            "level",
        }
