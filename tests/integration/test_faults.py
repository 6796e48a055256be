"""A fault is a result: each way in which a server or a client can fail, with the words that are
kept for it.

Several at once in one campaign, which shows too that it goes on after each, and that the others are
not touched.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, rows, wait_until

from captured_run import run_captured

MISBEHAVE = Path(__file__).with_name("misbehave.c")
# mariadbd's own handler says so and then dies of the same signal, or aborts.
CRASH = r"SIG(SEGV|ABRT)"

# variant's changes -> kind of fault, its text, the server's exit status (None where it does not
# matter)
SERVER_FAULTS: dict[str, tuple[dict[str, Any], str, str, int | None]] = {
    "unknown-engine": (
        {"server": {"options": {"default_storage_engine": "no_such"}}},
        "start",
        r"the server ended at start \(exit status \d+\): .*Unknown/unsupported storage engine: no_such",
        None,
    ),
    "aborts": (
        {"env": {"DBT_FAULT": "abort"}},
        "start",
        r"the server ended at start \(SIGABRT\): .*",
        -6,
    ),
    "hangs": (
        {"env": {"DBT_FAULT": "hang"}},
        "hang",
        r"the server did not answer within 8 s of its start",
        None,
    ),
    "complains": (
        {"env": {"DBT_FAULT": "complain"}},
        "proof",
        r"ERROR: ld\.so: .* cannot be preloaded \(as a test\): ignored\.",
        None,
    ),
    # The handler writes a backtrace for a second or two, and the other threads go on serving
    # meanwhile: the level may end before the server does.
    "crashes": (
        {"env": {"DBT_FAULT": "segv"}},
        "died",
        rf"the server (died at level oltp_read_only 2|failed during its shutdown) \({CRASH}\): .* got signal 11 ;",
        None,
    ),
    "killed": (
        {"env": {"DBT_FAULT": "kill"}},
        "died",
        r"the server got a SIGKILL that dballoc did not send, perhaps from the OOM killer; see dmesg",
        -9,
    ),
    "bad-end": (
        {"env": {"DBT_FAULT": "bad end"}},
        "died",
        r"the server failed during its shutdown \(exit status 3\): .*",
        3,
    ),
    "no-end": (
        {"env": {"DBT_FAULT": "no end"}},
        "hang",
        r"the server does not stop within 3 s",
        -9,
    ),
}


@pytest.fixture(scope="module")
def misbehaving(fresh_directory) -> str:
    """The library, where the server's user can read it."""
    directory = fresh_directory()
    directory.chmod(0o755)
    library = directory / "libmisbehave.so"
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler, to make a server misbehave: apt-get install gcc libc6-dev")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-pthread", "-o", library, MISBEHAVE], check=True
    )
    return str(library)


def variant(name: str, library: str, changes: dict[str, Any]) -> dict[str, Any]:
    """glibc's malloc with the library before it."""
    return {"name": name, "allocator": "glibc", "preload": [library], **changes}


@pytest.fixture(scope="module")
def faulty(
    run_cli: Cli, tiny_experiment: Experiment, fresh_directory, misbehaving: str
) -> tuple[Path, str]:
    """A campaign in which every variant but the baseline fails; its directory and what it
    printed.
    """
    out = fresh_directory() / "r"
    variants = [
        {"name": "glibc"},
        *(variant(name, misbehaving, f[0]) for name, f in SERVER_FAULTS.items()),
    ]
    times = {"start": "8s", "stop": "3s", "idle": "0s"}
    done = run_cli(
        "bench", tiny_experiment(variant=variants, time=times, warmup_sql=[]), "--out", out
    )
    assert done.status == 0, done.text
    assert "Traceback" not in done.text
    return out, done.text


def trial(out: Path, name: str, role: str = "V") -> dict[str, Any]:
    """A trial's row."""
    [row] = rows(out, f"SELECT * FROM trial WHERE variant = '{name}' AND role = '{role}'")
    return row


@pytest.mark.parametrize("name", SERVER_FAULTS)
def test_a_server_that_fails(faulty: tuple[Path, str], name: str) -> None:
    out, printed = faulty
    _, kind, text, status = SERVER_FAULTS[name]
    row = trial(out, name)
    assert (row["outcome"], row["fault"]) == ("fault", kind), row["fault_text"]
    assert re.fullmatch(text, row["fault_text"]), row["fault_text"]
    assert status is None or row["exit_status"] == status
    assert f"{name}: FAULT: {row['fault_text']}" in printed


def test_the_campaign_went_on_and_the_baseline_is_sound(faulty: tuple[Path, str]) -> None:
    out, _ = faulty
    found = rows(out, "SELECT variant, outcome FROM trial")
    assert len(found) == 2 + len(SERVER_FAULTS)
    assert [r["outcome"] for r in found if r["variant"] == "glibc"] == ["ok", "ok"]


def test_the_last_samples_and_the_logs_end_of_a_crash_are_kept(faulty: tuple[Path, str]) -> None:
    row = trial(faulty[0], "crashes")
    assert "got signal 11" in row["log_tail"]
    assert row["rss_start"] > 0
    assert row["rss_idle"] is None
    assert row["ended"] > row["started"]


# A client that fails at one trial, is killed at another, and works at the third, told by the
# trial's directory.
FAILING_SYSBENCH = """#!/bin/sh
case "$* $(readlink "/proc/self/fd/$DBALLOC_INTERVALS")" in
  *" run "*-A1/*) echo "FATAL: as a test" >&2; exit 1 ;;
  *" run "*-A2/*) {real} "$@" & sleep 1; kill -9 $!; kill -9 $$ ;;
  *) exec {real} "$@" ;;
esac
"""


def test_a_client_that_fails_or_is_killed(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    out.parent.chmod(0o755)  # clients run as the server user
    wrapper = out.parent / "bin" / "sysbench"
    wrapper.parent.mkdir()
    wrapper.write_text(FAILING_SYSBENCH.format(real=shutil.which("sysbench")))
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    done = run_cli("bench", tiny_experiment(time={"idle": "0s"}), "--out", out, env={"PATH": path})
    assert done.status == 0, done.text
    failed, killed, sound = (
        trial(out, "glibc", "A1"),
        trial(out, "glibc", "A2"),
        trial(out, "jemalloc"),
    )
    assert (failed["fault"], failed["fault_text"]) == (
        "client", "level oltp_read_only 2: sysbench failed (exit status 1): FATAL: as a test",
    )  # fmt: skip
    assert killed["fault"] == "client"
    assert re.match(r"level oltp_read_only 2: sysbench failed \(SIGKILL\): ", killed["fault_text"])
    assert sound["outcome"] == "ok"
    # The server did nothing wrong.
    assert failed["exit_status"] == killed["exit_status"] == 0


@pytest.mark.usefixtures("needs_root")
def test_a_server_that_eats_more_than_its_limit(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, misbehaving: str
) -> None:
    variants = [{"name": "glibc"}, variant("eats", misbehaving, {"env": {"DBT_FAULT": "eat"}})]
    # On a busy machine the first samples and the kill are seconds apart: the level must not end.
    file = tiny_experiment(
        variant=variants, limits={"memory": "400M"}, time={"level": "8s", "idle": "0s"}
    )
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    row = trial(out, "eats")
    assert (row["fault"], row["exit_status"]) == ("oom", -9), row["fault_text"]
    assert (
        row["fault_text"]
        == f"the kernel killed the server: over its memory limit of {400 << 20} bytes"
    )
    last = rows(
        out, f"SELECT max(rss) AS rss, max(step) AS step FROM sample WHERE trial = {row['trial']}"
    )
    ended = rows(out, f"SELECT max(step) AS step FROM step WHERE trial = {row['trial']}")
    assert last[0]["rss"] is not None, (
        "the last samples before the kill are what the user wants to see"
    )
    assert last[0]["step"] > ended[0]["step"], "those of the step that it did not survive too"
    assert row["rss_peak"] >= last[0]["rss"]
    baselines = [trial(out, "glibc", role) for role in ("A1", "A2")]
    assert [b["outcome"] for b in baselines] == ["ok", "ok"], [b["fault_text"] for b in baselines]


@pytest.mark.slow
@pytest.mark.usefixtures("needs_root")
def test_a_server_that_eats_more_than_its_limit_in_a_duet(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, misbehaving: str
) -> None:
    variants = [{"name": "glibc"}, variant("eats", misbehaving, {"env": {"DBT_FAULT": "eat"}})]
    file = tiny_experiment(
        variant=variants,
        limits={"memory": "400M"},
        design="duet",
        duet={"threads": 2, "slice": "1s", "pairs": 2},
    )
    done = run_cli("bench", file, "--out", out, "--report")
    assert done.status == 0, done.text
    row = trial(out, "eats")
    assert (row["fault"], row["exit_status"]) == ("oom", -9), row["fault_text"]
    assert row["rss_peak"] > 0
    assert "| eats | 1 of 1 | oom (1) |" in (out / "report.md").read_text()


@pytest.mark.usefixtures("needs_root")
def test_no_room_for_the_data(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, small_disk
) -> None:
    # The disk holds one template and one copy of it, until somebody fills it up.
    out.parent.chmod(0o755)  # the server's user passes through it
    first = out.parent / "cache"
    done = run_cli(
        "bench",
        tiny_experiment(variant=[{"name": "glibc"}]),
        "--out",
        out.with_name("first"),
        env={"DBALLOC_CACHE": str(first)},
    )
    assert done.status == 0, done.text
    cache = small_disk("420M") / "cache"
    cache.mkdir()
    subprocess.run(["cp", "-a", "-T", first / "templates", cache / "templates"], check=True)
    file = tiny_experiment(
        workloads=["oltp_insert"], variant=[{"name": "glibc"}], time={"level": "10s", "idle": "0s"}
    )
    process = run_cli.start("bench", file, "--out", out, env={"DBALLOC_CACHE": str(cache)})
    wait_until(
        lambda: list(out.glob("trials/*/intervals-*.jsonl")) or process.poll() is not None, 120
    )
    filler = cache / "filler"
    fill(filler)
    wait_until(
        lambda: len(rows(out, "SELECT * FROM trial")) == 1 or process.poll() is not None, 120
    )
    filler.unlink()
    done = run_cli.end(process)
    assert done.status == 0, done.text
    first, second = rows(out, "SELECT * FROM trial ORDER BY position")
    assert first["fault"] == "disk", first["fault_text"]
    assert first["fault_text"].startswith(f"no room for the server's data in {cache / 'scratch'}")
    # With room again, the next trial is sound.
    assert second["outcome"] == "ok", second["fault_text"]


def fill(path: Path) -> None:
    """Write until the disk is full."""
    done = run_captured(["dd", "if=/dev/zero", f"of={path}", "bs=64K"])
    assert "No space left on device" in done.stderr


@pytest.mark.usefixtures("needs_root")
def test_no_room_for_the_results(run_cli: Cli, tiny_experiment: Experiment, small_disk) -> None:
    disk = small_disk("24M")
    out = disk / "r"
    file = tiny_experiment(time={"idle": "0s"})
    process = run_cli.start("bench", file, "--out", out)
    store = out / "results.sqlite"
    wait_until(
        lambda: (store.exists() and rows(out, "SELECT * FROM trial")) or process.poll() is not None,
        120,
    )
    before = rows(out, "SELECT * FROM trial")
    fill(disk / "filler")
    done = run_cli.end(process)
    assert done.status == 1, done.text
    assert re.search(
        r"(No space left on device|database or disk is full).*run the same command to resume",
        done.stderr,
    ), done.text
    assert "Traceback" not in done.text
    # What was finished is whole; with room again the same command does the rest.
    assert rows(out, "SELECT * FROM trial")[: len(before)] == before
    (disk / "filler").unlink()
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    # The block that was cut is repeated whole, unless it was cut before its first trial was stored.
    trials = rows(out, "SELECT * FROM trial")
    assert {r["outcome"] for r in trials} == {"ok"}
    last = max(r["attempt"] for r in trials)
    assert sum(r["attempt"] == last for r in trials) == 3


@pytest.mark.usefixtures("needs_root")
def test_no_room_for_the_results_from_the_start(
    run_cli: Cli, tiny_experiment: Experiment, small_disk
) -> None:
    disk = small_disk("4M")
    done = run_cli("bench", tiny_experiment(), "--out", disk / "r")
    assert done.status == 1
    assert (
        done.stderr
        == f"dballoc: {disk / 'r'}: less than 16 MiB free; make room, or choose another --out\n"
    )
    assert list(disk.iterdir()) == []


def test_a_guardian_that_is_killed(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path
) -> None:
    process = run_cli.start("bench", tiny_experiment(), "--out", out)
    wait_until(lambda: list(out.glob("trials/*/intervals-*.jsonl")), 120)
    [guardian] = [
        int(p) for p in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if "guardian.py" in Path(f"/proc/{p}/cmdline").read_text()
    ]  # fmt: skip
    os.kill(guardian, 9)
    done = run_cli.end(process)
    assert done.status == 1, done.text
    said = "dballoc: dballoc's guardian process was killed; its servers ended with it. Run the same command to resume\n"
    assert done.stderr == said


def test_the_proof_of_a_fault_is_readable_json(faulty: tuple[Path, str]) -> None:
    for row in rows(faulty[0], "SELECT proof FROM trial WHERE proof IS NOT NULL"):
        assert json.loads(row["proof"])["bindings"]
