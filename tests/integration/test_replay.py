"""``dballoc replay`` with the real engine and real mallocs: stored, resumed after a kill, refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from dataclasses import replace

from dballoc.campaign.replay.check_replay import expect_replay, find_difference, sum_live_bytes
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.replay.figures import measure_fidelity
from dballoc.store.results import Results
from dballoc.trace.model import NONE, EventKind, Mark, Trace
from dballoc.trace.replay.plan_file import write_plan
from dballoc.trace.trace_file.write_trace import write_trace
from example_traces import make_trace

DBALLOC = Path(sys.executable).with_name("dballoc")
MIB = 2**20


def traced() -> Trace:
    """A small trace with hand-overs, recorded on glibc, whose process was measured at its end."""
    trace = make_trace(4, 20_000, live=1000)
    facts = replace(trace.facts, allocator="/lib/x86_64-linux-gnu/libc.so.6", from_start=True)
    end = max(int(thread.completed[-1]) for thread in trace.threads if len(thread.completed))
    mark = Mark(time=end, name="end", truth={"rss": 90 * MIB, "heap": 30 * MIB})
    return replace(trace, facts=facts, marks=(mark,))


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "small.trace"
    write_trace(traced(), path)
    return path


def start(trace: Path, out: Path, *flags: str) -> "subprocess.Popen[str]":
    command = [DBALLOC, "replay", trace, "--allocators", "glibc,jemalloc", "--out", out,
               "--blocks", "1", "--idle", "50ms", *flags]  # fmt: skip
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def test_a_kill_loses_one_replay_at_most(trace_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = start(trace_file, out)
    deadline = time.monotonic() + 120
    while not (out / "results.sqlite").exists() or not trials(out):
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    finished = trials(out)
    assert finished
    second = start(trace_file, out)
    output = second.communicate(timeout=300)[0]
    assert second.returncode == 0, output
    assert "trials are finished already" in output
    assert "has the least peak heap" in output
    assert (out / "report.html").exists()
    campaign = load_campaign(out)
    assert set(campaign.good["variant"]) == {"glibc", "jemalloc"}
    assert (campaign.good["rss_peak"] > MIB).all()
    assert campaign.facts.replay
    fidelity = measure_fidelity(campaign, campaign.facts.replay)
    assert fidelity
    assert fidelity.variant == "glibc"
    assert fidelity.real_peak == 30 * MIB


def trials(out: Path) -> int:
    results = Results.open(out, read_only=True)
    try:
        return results.trials()
    finally:
        results.close()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--preload", "/etc/passwd"], "not a shared library"),
        (["--sweep", "jemalloc:no_such_setting=1,2"], "no_such_setting"),
    ],
)
def test_what_cannot_be_is_refused(
    trace_file: Path, tmp_path: Path, flags: list[str], complaint: str
) -> None:
    refused = start(trace_file, tmp_path / "out", *flags)
    output = refused.communicate(timeout=120)[0]
    assert refused.returncode == 2, output
    assert complaint in output
    assert output.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_damaged_trace_is_refused(trace_file: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.trace"
    torn.write_bytes(trace_file.read_bytes()[:-100])
    refused = start(torn, tmp_path / "out")
    output = refused.communicate(timeout=120)[0]
    assert refused.returncode == 2, output
    assert output.startswith(f"dballoc: {torn}: ")


def test_a_realloc_frees_when_its_new_block_is_there() -> None:
    """As the engine makes it: one that takes long is no difference."""
    trace = traced()
    thread = trace.threads[0]
    moves = (thread.kind == EventKind.REALLOC) & (thread.freed != NONE)
    slow = int(np.flatnonzero(moves & (thread.completed > thread.time + 1))[0])
    before, after = sum_live_bytes(trace, thread.completed[slow] + np.array([0, 1]))
    size = trace.objects.size.astype(int)
    assert after - before == size[thread.object[slow]] - size[thread.freed[slow]]


def test_another_threads_call_is_a_difference(tmp_path: Path) -> None:
    from example_replays import result

    figures = result("glibc").figures
    assert figures
    expected = expect_replay(traced(), write_plan(traced(), tmp_path / "plan"))
    assert "threads were replayed instead of" in (find_difference(figures, expected) or "")
