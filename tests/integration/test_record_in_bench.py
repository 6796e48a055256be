"""``bench --record`` on a real server: its trace has the steps' marks with the server's memory, and
``replay`` takes it.
"""

import re
from pathlib import Path

import numpy as np
from harness import Cli, Experiment

from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.trace.figures.live_curve import compute_live_curve, sample_curve
from dballoc.trace.trace_file.read_trace import read_trace


def test_the_baselines_trace_is_replayed(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    file = tiny_experiment(
        name="small",
        record={"limit": "1G"},
        workloads=["oltp_point_select"],
        time={"warmup": "1s", "level": "2s", "idle": "1s"},
        variant=[{"name": "glibc"}],
        design="solo",
        blocks=1,
        warmup_sql=[],
    )
    done = run_cli("bench", file, "--out", out, "--no-report")
    assert done.status == 0, done.text
    assert "its allocations are in" in done.text
    trace = read_trace(out / "small-glibc.trace")
    assert trace.facts.from_start
    assert trace.facts.dropped == 0
    names = [mark.name for mark in trace.marks]
    assert names[0] == "after-the-start"
    assert any(name.startswith("after-level-oltp_point_select") for name in names)
    # What the server does when it is shut down is not in it.
    assert trace.facts.ended_by == "asked"
    assert 0 < trace.marks[-1].truth["heap_peak"] < trace.marks[-1].truth["rss_peak"] * 2
    for mark in trace.marks:
        assert 0 < mark.truth["heap"] < mark.truth["rss"], mark
    # glibc counts its blocks as it rounded them, and some that it has for itself.
    alive = sample_curve(compute_live_curve(trace), np.array([m.time for m in trace.marks]))
    for mark, live in zip(trace.marks, alive.tolist(), strict=True):
        assert live < mark.truth["malloc_live"] < 1.3 * live + (1 << 20), mark
    assert trace.facts.settings is not None
    assert trace.facts.allocator_version
    # The measured trials are not touched by it.
    again = run_cli("bench", file, "--out", out, "--no-report")
    assert again.status == 0, again.text
    replayed = run_cli(
        "replay", out / "small-glibc.trace", "--allocators", "glibc", "--blocks", "1", "--idle",
        "50ms", "--out", out / "replayed",
    )  # fmt: skip
    assert replayed.status == 0, replayed.text
    assert "glibc has the least peak heap" in replayed.text
    assert "the real one" in " ".join(replayed.text.split())


def test_a_shipped_experiment_ends_in_a_verdict_by_its_trace(run_cli: Cli, out: Path) -> None:
    """The two commands of the how-to, with one block: the report begins with the malloc of the
    least peak heap, and how far the replay was from the server.
    """
    done = run_cli(
        "bench", "--experiment", "quick", "--record", "--out", out, "--design", "solo",
        "--blocks", "1", "--repeat-noisy", "0",
    )  # fmt: skip
    assert done.status == 0, done.text
    replayed = run_cli(
        "replay", out / "quick-glibc.trace", "--allocators", "glibc,jemalloc,mimalloc,tcmalloc",
        "--blocks", "1", "--out", out / "replayed",
    )  # fmt: skip
    assert replayed.status == 0, replayed.text
    report = (out / "replayed" / "report.md").read_text(encoding="utf-8")
    answer = next(line for line in report.splitlines() if "least peak heap" in line)
    first = re.match(
        r"\W*(glibc|jemalloc|mimalloc|tcmalloc) has the least peak heap, .*; replayed on glibc, on "
        r"which it was recorded, the peak is ([\d.]+)\s?% (above|below) the real one\.\*\*",
        answer,
    )
    assert first, answer
    # A busy machine moves the real server; what is wrong by more than this is no replay of it.
    assert float(first[2]) < 50
    campaign = load_campaign(out / "replayed")
    assert set(campaign.good["variant"]) == {"glibc", "jemalloc", "mimalloc", "tcmalloc"}
