"""A published comparison, made small, on a real MariaDB; and its report with the post's figures
beside ours.
"""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from harness import Cli, rows

from dballoc.profile.formats.profile_file import load_profile
from dballoc.profile.model import Profile


@pytest.fixture(scope="module")
def measured(run_cli: Cli, fresh_directory) -> Path:
    """MDEV-38369 at a hundredth, of it one workload at one level."""
    out = fresh_directory() / "mdev"
    asked = ("--workloads", "oltp_read_only", "--threads", "3", "--level", "2s", "--blocks", "1")
    asked += ("--profile", "none", "--repeat-noisy", "0")
    done = run_cli("bench", "--experiment", "mdev-38369", "--scale", "0.01", *asked, "--out", out)
    assert done.status == 0, done.text
    answer = " ".join(done.stdout.split())
    assert "Scaled to 0.01 of mdev-38369: rows, caches, " in answer
    assert "rows of a table: the post: 100,000; here: 1,000 (scaled)" in answer
    assert "tables are filled: the post: in each start, before its levels" in answer
    assert "profiled at: the post: oltp_read_only, 512 clients; here: nothing" in answer
    assert "the post: thread_pool_mode=windows; here: not set" in answer
    # It is sysbench there and here, so it is no difference.
    assert "driver: the post" not in answer
    return out


def test_what_ran_is_the_small_one(measured: Path) -> None:
    # A busy machine repeats the block.
    levels = rows(
        measured,
        "SELECT variant, role, step.workload, threads, outcome FROM trial JOIN step USING (trial) "
        "WHERE kind = 'level' AND attempt = 0",
    )
    assert len(levels) == 4
    assert {r["outcome"] for r in levels} == {"ok"}
    assert {r["variant"] for r in levels} == {"nt-heap", "segment-heap", "nt-heap-small-blocks"}
    assert {(r["workload"], r["threads"]) for r in levels} == {("oltp_read_only", 3)}
    [workloads] = rows(measured, "SELECT value FROM campaign WHERE key = 'workloads'")
    assert json.loads(workloads["value"])["oltp_read_only"]["driver"] == "sysbench"
    [pool] = rows(measured, "SELECT DISTINCT pool_bytes FROM variant")
    assert pool["pool_bytes"] == 102 << 20


def test_its_options_reach_the_server(measured: Path) -> None:
    [limits] = rows(measured, "SELECT command FROM variant WHERE name = 'nt-heap-small-blocks'")
    for option in (
        "--max-connections=10000",
        "--max-prepared-stmt-count=1000000",
        "--thread-handling=pool-of-threads",
        "--query-alloc-block-size=8192",
        "--query-prealloc-size=8192",
    ):
        assert option in limits["command"]
    assert "sort-buffer-size" not in limits["command"]
    [variables] = measured.glob("trials/b001-p*-A1-oltp_read_only/variables.tsv")
    text = variables.read_text(encoding="utf-8")
    assert "max_connections\t10000\n" in text
    assert "thread_handling\tpool-of-threads\n" in text


def test_the_report_has_the_posts_figures_beside_ours(measured: Path, run_cli: Cli) -> None:
    done = run_cli("report", measured, "--published")
    assert done.status == 0, done.text
    text = (measured / "report.md").read_text(encoding="utf-8").replace("\\", "")
    assert text.index("## Published beside measured") < text.index("## Verdicts")
    assert "nt-heap: the post: NT heap; here: glibc" in text[: text.index("## ")]
    # Three clients stand for eight: ours is there, and so is the post's figure.
    [line] = [
        x for x in text.splitlines() if x.startswith("| 8 (ours: 3 clients) | open | 4,478 |")
    ]
    cells = [c.strip() for c in line.strip("|").split("|")]
    assert cells[4] == "4,718"
    assert float(cells[3].replace(",", "")) > 10
    page = (measured / "report.html").read_text(encoding="utf-8")
    assert "<h2>Published beside measured</h2>" in page
    with (measured / "csv" / "published.csv").open(newline="", encoding="utf-8") as f:
        figures = {(r["table"], r["row"], r["column"]): r for r in csv.DictReader(f)}
    assert float(figures["oltp_read_only", "8", "nt-heap"]["ours"]) > 10
    assert figures["oltp_read_only", "1024", "nt-heap"]["ours"] == ""
    assert figures["oltp_read_only", "1024", "nt-heap"]["published"] == "523.21"
    assert "Whether the post's collapse is seen here was not measured" in text
    assert "Whether the post's collapse is seen here was not measured" in done.stdout
    assert "there is no contention profile with call stacks of nt-heap" in text
    [frame] = [x for x in text.splitlines() if x.startswith("| ntdll.dll!RtlFreeHeap |")]
    assert "| 17.09 % |" in frame


WATCHED = """
name = "watched"
baseline = "nt-heap"
published = "mdev-38369"
workloads = ["oltp_read_only"]
threads = [16]
sequence = "fresh"
warmup_sql = []
design = "solo"
blocks = 1
profile = "contention"
profile_at = { workload = "oltp_read_only", threads = 16 }
[server]
use = "mariadb"
options = { innodb_buffer_pool_size = "32M" }
[data]
tables = 1
rows = 1000
[load.options]
rate = 300
[time]
warmup = "0s"
level = "2s"
idle = "0s"
[noise]
repeats = 0
[[variant]]
name = "nt-heap"
tunables = { arena_max = "1" }
"""


def test_the_posts_frames_stand_beside_the_measured_ones(run_cli: Cli, out: Path) -> None:
    file = out.parent / "watched.toml"
    file.write_text(WATCHED)
    done = run_cli("bench", file, "--no-report", "--out", out)
    assert done.status == 0, done.text
    profiles = [
        load_profile(file)
        for file in sorted(out.glob("trials/*-A1-oltp_read_only/contention-*.profile.json.gz"))
    ]
    facts = profiles[0].facts
    assert facts["clients"] == "16"
    done = run_cli("report", out, "--published")
    assert done.status == 0, done.text
    assert "oltp_read_only, 512 clients (ours: 16)" in " ".join(done.stdout.split())
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Inclusive frames of the context switches" in page
    if not facts["method"].startswith("perf"):
        pytest.skip(f"needs perf and its permission: {facts['method']}")
    with (out / "csv" / "published-frames.csv").open(newline="", encoding="utf-8") as f:
        [ours] = [
            float(r["ours"] or 0)
            for r in csv.DictReader(f)
            if (r["frame"], r["variant"]) == ("my_malloc", "nt-heap")
        ]
    # Whether any thread met another inside malloc is chance.
    assert ours == pytest.approx(compute_share(profiles, "my_malloc"))


def compute_share(profiles: Iterable[Profile], function: str) -> float:
    """The share of the stacks with a function: of the waits, preemptions and wake-ups."""
    counts = [
        (
            function in [frame.function for frame in sample.stack],
            sum(
                value
                for value, kind in zip(sample.values, profile.values, strict=True)
                if kind.unit == "count"
            ),
        )
        for profile in profiles
        for sample in profile.samples
    ]
    return sum(n for with_it, n in counts if with_it) / sum(n for _, n in counts)


REFUSED = [
    (
        ("--experiment", "mdev-38369", "--server-cpus", "900"),
        "cpu.server: CPU 900 is not here; there are",
    ),
    (
        ("--experiment", "quick", "--option", "innodb_buffer_pool_size=4000G"),
        "available; lower the buffer pool or the threads; or give --scale small",
    ),
    (
        ("--experiment", "quick", "--rows", "4000000000"),
        "or set DBALLOC_CACHE; or give --scale small",
    ),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_does_not_fit_is_one_line_with_a_way_out(
    run_cli: Cli, out: Path, asked: tuple[str, ...], message: str
) -> None:
    done = run_cli("bench", *asked, "--design", "solo", "--out", out)
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
    assert not out.exists()


def test_a_build_that_is_in_no_registry_is_refused_with_its_recipe(run_cli: Cli, out: Path) -> None:
    done = run_cli(
        "bench", "--experiment", "myrocks-jemalloc-builds", "--scale", "small", "--out", out
    )
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert (
        "variant 'jemalloc-build': its server cannot be fetched: build MariaDB or MySQL with MyRocks from source"
        in done.stderr
    )
    assert "then set the variant's server.basedir" in done.stderr
