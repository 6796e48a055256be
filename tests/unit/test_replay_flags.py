"""``dballoc replay``'s flags, the experiment that they make, and what identifies it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dballoc.campaign.preparation.prepare import prepare_campaign
from dballoc.campaign.replay.describe_trace import describe_trace
from dballoc.campaign.replay.hash_trace import hash_trace
from dballoc.campaign.replay.read_trace_file import read_any_trace
from dballoc.campaign.replay.replay_blocks import estimate_replay_seconds
from dballoc.cli.shared.experiment_from_replay import build_replay_experiment, name_after
from dballoc.errors import UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.trace.changes.moments import find_window
from dballoc.trace.model import (
    NONE,
    Mark,
    Objects,
    RecordingFacts,
    ThreadEvents,
    Trace,
)

FLAGS: dict[str, Any] = {
    "trace": Path("/data/oltp.trace"),
    "allocators": "glibc,jemalloc",
    "preload": None,
    "sweep": None,
    "baseline": None,
    "glibc": None,
    "thp": None,
    "mode": "fast",
    "speed": None,
    "touch": "recorded",
    "idle": "1s",
    "memory": None,
    "blocks": None,
    "budget": None,
    "seed": None,
}


def build(sha256: str = "ab" * 32, **flags: Any) -> Experiment:
    return build_replay_experiment(FLAGS | flags, sha256, 7)


def test_flags_make_an_experiment_without_a_server() -> None:
    model = build(blocks=3)
    assert model.name == "oltp"
    assert [v.name for v in model.variant] == ["glibc", "jemalloc"]
    assert model.baseline == "glibc"
    assert (model.design, model.workloads, model.threads) == ("solo", ["replay"], [7])
    assert model.blocks == 3
    assert model.replay
    assert model.replay.sha256 == "ab" * 32


def test_it_is_read_back_as_it_was_written() -> None:
    model = build(mode="timed", speed=10.0, memory="2G", sweep=["jemalloc:narenas=1,2"])
    text = experiment_file.format_experiment(model)
    again = experiment_file.build_experiment(experiment_file.parse_table(text, "x"), "x")
    assert experiment_file.compute_identity(again) == experiment_file.compute_identity(model)


def test_what_the_trace_holds_identifies_it_and_not_where_it_lies() -> None:
    identity = experiment_file.compute_identity
    assert identity(build()) == identity(build(trace=Path("/elsewhere/oltp.trace")))
    assert identity(build()) != identity(build(sha256="cd" * 32))
    assert identity(build()) != identity(build(touch="all"))


def test_a_malloc_of_ones_own_beside_glibc() -> None:
    model = build(allocators=None, preload=[Path("/opt/libmine.so.2")])
    assert [v.name for v in model.variant] == ["glibc", "mine"]
    assert model.find("mine").preload == ["/opt/libmine.so.2"]
    assert build(allocators="jemalloc").baseline == "jemalloc"
    assert build(baseline="jemalloc").baseline == "jemalloc"


def test_every_malloc_under_every_mode_of_thp() -> None:
    [glibc, jemalloc] = build(thp="always").variant
    assert (glibc.name, glibc.thp, jemalloc.name, jemalloc.thp) == (
        "glibc", "always", "jemalloc", "always",
    )  # fmt: skip
    model = build(allocators="jemalloc,glibc", thp="never,always")
    assert [v.name for v in model.variant] == [
        "jemalloc-thp=never", "glibc-thp=never", "jemalloc-thp=always", "glibc-thp=always",
    ]  # fmt: skip
    assert model.baseline == "glibc-thp=never"
    assert build(glibc="2.41").server.glibc == "2.41"


def test_a_stretch_of_the_trace() -> None:
    trace = make_trace([[(0, 0, NONE), (1_500_000_000, NONE, 0)]], [8])
    name = trace.marks[1].name
    assert find_window(trace, "500ms..1s") == (0.5, 1.0)
    assert find_window(trace, "..1s") == (0.0, 1.0)
    assert find_window(trace, f"{name}..") == (1.0, pytest.approx(1.5))
    assert find_window(trace, f"{trace.marks[0].name}..{name}") == (0.0, 1.0)
    for text, complaint in (
        ("1s", "'1s' is no stretch of the trace, which is 1.5 s long"),
        ("1s..500ms", "is no stretch"),
        ("2s..3s", "is no stretch"),
        ("x..1s", "--window: no mark 'x'; there are m0"),
        ("1..2", "--window: '1' is not a duration"),
    ):
        with pytest.raises(UsageError, match=complaint):
            find_window(trace, text)
    model = build_replay_experiment(FLAGS, "ab" * 32, 1, (0.5, 1.0))
    assert model.replay
    assert model.replay.window == (0.5, 1.0)
    identity = experiment_file.compute_identity
    assert identity(model) != identity(build_replay_experiment(FLAGS, "ab" * 32, 1))
    text = experiment_file.format_experiment(model)
    again = experiment_file.build_experiment(experiment_file.parse_table(text, "x"), "x")
    assert identity(again) == identity(model)


def test_settings_of_a_malloc_are_swept() -> None:
    names = [v.name for v in build(sweep=["jemalloc:narenas=1,2"]).variant]
    assert names[0] == "glibc"
    assert len(names) > 2


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"allocators": None}, "replay: on which mallocs"),
        ({"speed": 2.0}, "--speed: only with --mode timed"),
        ({"mode": "timed", "speed": -1.0}, "replay.speed"),
        ({"sweep": ["server.innodb_buffer_pool_size=1G,2G"]}, "a replay has no server"),
        ({"baseline": "tcmalloc"}, "baseline 'tcmalloc' is not a variant"),
        ({"idle": "soon"}, "time.idle"),
        ({"memory": "much"}, "limits.memory"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as error:
        build(**flags)
    assert "\n" not in str(error.value)


def test_a_replays_experiment_is_not_benchs() -> None:
    with pytest.raises(UsageError, match="run it with dballoc replay"):
        prepare_campaign(build())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("oltp.trace", "oltp"),
        ("1234.recording", "1234.recording"),
        ("läuft?.trace", "l-uft-"),
        (".trace", "trace-"),
        ("x" * 99, "x" * 64),
        ("-o.trace", "trace--o"),
    ],
)
def test_a_traces_name_becomes_the_experiments(name: str, expected: str) -> None:
    assert name_after(Path("/data") / name) == expected
    build(trace=Path("/data") / name)


def test_files_that_are_no_traces_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "x.trace"
    text.write_text("hello\n")
    for path in (text, tmp_path, tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(UsageError) as error:
            read_any_trace(path)
        assert str(error.value).startswith(str(path))
    with pytest.raises(UsageError):
        hash_trace(tmp_path)


def make_trace(calls: list[list[tuple[int, int, int]]], sizes: list[int], **facts: Any) -> Trace:
    """A trace of threads with (time, object, freed)."""
    threads = tuple(
        ThreadEvents(
            number=n,
            name="",
            created_by=NONE,
            kind=np.array([1 if o != NONE else 5 for _, o, _ in rows], np.uint8),
            time=np.array([t for t, _, _ in rows], np.int64),
            completed=np.array([t for t, _, _ in rows], np.int64),
            object=np.array([o for _, o, _ in rows], np.int64),
            freed=np.array([f for _, _, f in rows], np.int64),
        )
        for n, rows in enumerate(calls)
    )
    nothing = np.zeros(len(sizes), np.int32)
    described = {
        "from_start": True, "dropped": 0, "ended_by": "exit", "program": "p", "allocator": "glibc",
        "page_size": 4096, "seconds": 1.0,
    } | facts  # fmt: skip
    return Trace(
        facts=RecordingFacts(**described),
        threads=threads,
        objects=Objects(
            size=np.array(sizes, np.uint64),
            alignment=nothing.astype(np.uint32),
            allocated_by=nothing,
            freed_by=nothing,
            touch=nothing - 1,
        ),
        touch_patterns=(),
        marks=tuple(Mark(time=10**9 * i, name=f"m{i}\x1b[31m", truth={}) for i in range(2)),
    )


def test_the_peak_of_live_bytes() -> None:
    one = make_trace([[(1, 0, NONE), (5, 1, NONE)], [(3, NONE, 0), (5, NONE, 1)]], [100, 30])
    assert describe_trace(one).peak_live == 100
    # At 5 ns the one is freed before the other is there, whichever is larger.
    same = make_trace([[(1, 0, NONE), (5, 1, NONE)], [(5, NONE, 0)]], [100, 130])
    assert describe_trace(same).peak_live == 130
    both = make_trace([[(1, 0, NONE), (5, 1, NONE)], [(6, NONE, 0)]], [100, 30])
    assert describe_trace(both).peak_live == 130
    assert describe_trace(make_trace([], [])).peak_live == 0


def test_a_summary_shows_no_escape_sequences_and_no_endless_names() -> None:
    summary = describe_trace(make_trace([[(1, 0, NONE)]], [8], program="\x1b]0;" + "x" * 5000))
    assert summary.events == 1
    assert "\x1b" not in summary.program + "".join(m.name for m in summary.marks)
    assert len(summary.program) <= 100


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("/lib/x86_64-linux-gnu/libc.so.6", "glibc"),
        ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "jemalloc"),
        ("/opt/libmine.so", "libmine.so"),
        ("", ""),
    ],
)
def test_the_recorded_malloc_has_its_catalogue_name(library: str, name: str) -> None:
    assert describe_trace(make_trace([], [], allocator=library)).allocator == name


def test_a_timed_replay_takes_its_time() -> None:
    fast, timed = build(), build(mode="timed", speed=10.0)
    assert estimate_replay_seconds(fast, 1_000, 600.0) < 5
    assert 60 < estimate_replay_seconds(timed, 1_000, 600.0) < 65
