"""``dballoc exec --probe trace`` and ``dballoc record`` on a real server under load."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from harness import A_USER, Cli, wait_until
from probed_server import ProbedServer

from dballoc.trace.model import EventKind, Recording
from dballoc.trace.recording.read_recording import read_recording, verify_recording

UID = A_USER


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here a server outlives a test on purpose; the module's own fixture ends it."""


@pytest.fixture(scope="module")
def server(home: Path, run_cli: Cli) -> Iterator[ProbedServer]:
    running = ProbedServer(home / "record", run_cli, ["--probe", "trace", "--idle"])
    try:
        running.make_tables()
        yield running
    finally:
        running.kill()


def count_order_faults(recording: Recording) -> int:
    """Count blocks that are handed out while they are alive. At equal times frees come first."""
    times, addresses, allocations = [], [], []
    for thread in recording.threads:
        is_free = np.isin(thread.kind, [EventKind.FREE, EventKind.FREE_SIZED])
        has_old = thread.old != 0
        times += [np.where(is_free, thread.before, thread.after), thread.before[has_old]]
        addresses += [thread.address, thread.old[has_old]]
        allocations += [~is_free, np.zeros(np.count_nonzero(has_old), bool)]
    time, address, allocated = map(np.concatenate, (times, addresses, allocations))
    order = np.lexsort((allocated, time, address))
    address, allocated = address[order], allocated[order]
    is_twice = (address[1:] == address[:-1]) & allocated[1:] & allocated[:-1]
    return int(np.count_nonzero(is_twice))


def test_a_loaded_server_is_recorded_for_a_while(run_cli: Cli, server: ProbedServer) -> None:
    load = server.sysbench("--threads=8", "--time=0", "--events=0", "oltp_read_write", "run")
    try:
        done = run_cli("record", "--pid", str(server.process.pid), "--for", "2s", "--json")
    finally:
        load.terminate()
        load.wait()
    assert done.status == 0, done.stderr
    status = json.loads(done.stdout)
    assert status["ended_by"] == "asked"
    assert status["dropped"] == 0
    assert status["seconds"] >= 2
    path = Path(status["file"])
    assert path.parent == server.out
    assert path.stat().st_mode & 0o777 == 0o600
    recording = read_recording(path)
    assert not recording.facts.from_start
    assert recording.facts.program.endswith("mariadbd")
    assert sum(len(thread.kind) for thread in recording.threads) == status["events"] > 10_000
    assert len(recording.threads) > 8
    assert status["bytes"] / status["events"] < 8
    assert count_order_faults(recording) == 0
    # A transaction's large blocks are mostly not touched; of some it is known.
    assert recording.touches
    assert all(touch.size >= 8 << 10 for touch in recording.touches)


def test_what_ends_a_recording_early(run_cli: Cli, server: ProbedServer) -> None:
    """A limit that is reached, and Ctrl-C."""
    load = server.sysbench("--threads=4", "--time=0", "--events=0", "oltp_read_write", "run")
    try:
        limited = run_cli("record", "--out-dir", server.out, "--limit", "1M", "--json")
        assert limited.status == 0, limited.stderr
        assert json.loads(limited.stdout)["ended_by"] == "limit"
        command = [sys.executable, "-m", "dballoc", "record", "--out-dir", str(server.out)]
        process = subprocess.Popen(command, env=run_cli.env, stdout=subprocess.PIPE, text=True)
        files = len(list(server.out.glob("*.recording")))
        wait_until(lambda: len(list(server.out.glob("*.recording"))) > files)
        process.send_signal(signal.SIGINT)
        words, _ = process.communicate(timeout=60)
    finally:
        load.terminate()
        load.wait()
    assert process.returncode == 0
    assert "ended as asked" in words
    assert "dballoc trace compile" in words
    for path in server.out.glob("*.recording"):
        assert verify_recording(path).complaint == ""


def _sleeps_between_questions(pid: int) -> bool:
    """Whether the verb has asked how far it is, and sleeps until it asks again. While a child asks,
    the verb sleeps too, in short pieces, until that child has ended.
    """
    children = Path(f"/proc/{pid}/task/{pid}/children")
    is_alone = not children.read_text()
    is_asleep = "nanosleep" in Path(f"/proc/{pid}/wchan").read_text()
    return is_alone and is_asleep and not children.read_text()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_ends_meanwhile(
    run_cli: Cli, tmp_path: Path, ending: signal.Signals
) -> None:
    """What it wrote until then is there, and the verb says where."""
    words = ["--probe", "trace", "--idle", "--out", tmp_path / "o"]
    loop = "import time\nwhile True: bytearray(100_000); time.sleep(0.001)"
    program = run_cli.start("exec", *words, "--", sys.executable, "-c", loop)
    try:
        wait_until(lambda: bool(list((tmp_path / "o").glob("*.sock"))))
        process = run_cli.start("record", "--out-dir", tmp_path / "o", "--json")
        wait_until(lambda: bool(list((tmp_path / "o").glob("*.recording"))))
        wait_until(lambda: _sleeps_between_questions(process.pid))
        program.send_signal(ending)
        done = run_cli.end(process)
    finally:
        program.kill()
        program.wait()
    assert done.status == 0, done.text
    status = json.loads(done.stdout)
    assert status["ended_by"] == "gone"
    assert not status["is_recording"]
    assert verify_recording(Path(status["file"])).complaint == ""


def test_refusals(run_cli: Cli, server: ProbedServer, tmp_path: Path) -> None:
    nothing = run_cli("record", "--stop", "--out-dir", server.out)
    assert (nothing.status, "it is not recording" in nothing.stderr) == (1, True)
    for words, reason in (
        (["--out-dir", server.out, "--limit", "1K"], "must be from 1M to 1024T"),
        (["--out-dir", tmp_path], "no recorder listens there"),
        (["--pid", str(os.getpid())], "has no recorder; start the server under one"),
        (["--stop", "--for", "1s", "--out-dir", server.out], "--stop goes with neither"),
        (["--pid", "1", "--out-dir", server.out], "give --out-dir, or one of"),
    ):
        refused = run_cli("record", *words)
        assert refused.status == 2
        assert reason in refused.stderr
    for words, reason in (
        (["--probe", "trace", "--interval", "1M"], "--interval only goes with --probe heap"),
        (["--probe", "trace", "--at-exit"], "--at-exit only goes with --probe heap"),
        (["--probe", "heap", "--limit", "1G"], "--limit only goes with --probe trace"),
    ):
        refused = run_cli("exec", *words, "--out", tmp_path / "o", "--", "true")
        assert refused.status == 2
        assert reason in refused.stderr
