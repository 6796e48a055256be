"""``bench --record`` on a real server: its trace has the steps' marks with the server's memory, and
``replay`` takes it.
"""

from pathlib import Path

from harness import Cli, Experiment

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
