"""dballoc trace: what its verbs print and write, and how they refuse."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from example_recordings import simulate
from example_traces_of_recordings import assert_equal_traces, count_events

from dballoc.cli.trace_verbs import info, make_trace
from dballoc.ground.errors import Failure, UsageError
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.model import Trace
from dballoc.trace.trace_file.read_trace import TraceLimits, read_trace
from dballoc.trace.trace_file.write_trace import write_trace

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Path]:
    def make(seed: int = 1, name: str = "a.trace", **facts: object) -> Path:
        recording = simulate(seed, threads=4, calls=400, step=10**7).recording
        recording = replace(recording, facts=replace(recording.facts, **{"seconds": 2.5, **facts}))
        write_trace(compile_recording(recording), tmp_path / name)
        return tmp_path / name

    return make


def test_info_shows_what_is_in_it(
    trace: Callable[..., Path], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    path = trace(dropped=7, from_start=False, program="/x/\x1b[2Jd")
    info.info(path)
    text = capsys.readouterr().out
    events = count_events(read_trace(path))
    assert f"{events:,} events of 4 threads" in text
    assert "\x1b" not in text
    for phrase in (
        "alive over time",
        "7 dropped",
        "7 events are missing",
        "no absolute verdict on memory",
        "freed by another thread",
        "large blocks (8 KiB and more)",
        "times are rounded to 10 ns",
        "lifetimes: half of the blocks",
        "ended by: exit",
    ):
        assert phrase in text, phrase


def test_info_as_json_has_all_figures(trace: Callable[..., Path], capsys: Capture) -> None:
    path = trace()
    info.info(path, as_json=True)
    document = json.loads(capsys.readouterr().out)
    source = read_trace(path)
    assert document["events"] == count_events(source) == sum(document["kinds"].values())
    assert document["objects"] == len(source.objects.size)
    assert max(document["live"]["highest_bytes"]) == document["peak"]["bytes"]
    assert document["live"]["seconds"][-1] == pytest.approx(document["seconds"], rel=1e-6)
    assert [mark["name"] for mark in document["marks"]] == ["begin", "end"]
    assert document["marks"][1]["live_bytes"] == document["end"]["bytes"]
    assert document["frees"]["by_another_thread"] == sum(p["blocks"] for p in document["handovers"])
    assert len(document["threads"]) == 4


def test_info_of_a_trace_of_nothing(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.trace"
    write_trace(compile_recording(simulate(calls=0).recording), path)
    info.info(path)
    assert "0 events of 3 threads" in capsys.readouterr().out


def test_verify(trace: Callable[..., Path], capsys: Capture) -> None:
    path = trace()
    info.verify(path)
    assert "whole: 400 events" in capsys.readouterr().out.replace(",", "")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(Failure, match="it is cut short; whole are its first"):
        info.verify(path)


def test_info_draws_the_live_curve(
    trace: Callable[..., Path], tmp_path: Path, capsys: Capture
) -> None:
    info.info(trace(), chart=tmp_path / "charts")
    assert "<svg" in (tmp_path / "charts" / "trace-live.svg").read_text()
    assert (tmp_path / "charts" / "trace-live.png").read_bytes().startswith(b"\x89PNG")
    assert "events of" in capsys.readouterr().out
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match=r"--chart .*file: cannot be written"):
        info.info(trace(), chart=tmp_path / "file")


def test_the_charts_files_say_what_the_trace_lacks(
    trace: Callable[..., Path], tmp_path: Path
) -> None:
    info.info(trace(dropped=1234, from_start=False), chart=tmp_path / "charts")
    drawn = (tmp_path / "charts" / "trace-live.svg").read_text()
    assert "a.trace; the recording began late; 1,234 events are missing (" in drawn


def test_cut(trace: Callable[..., Path], tmp_path: Path, capsys: Capture) -> None:
    path, out = trace(), tmp_path / "b.trace"
    make_trace.cut(path, out, "500ms", "1s")
    assert "events of" in capsys.readouterr().out
    assert read_trace(out).facts.seconds == 0.5
    make_trace.cut(path, out, "begin", "end")
    marks = {mark.name: mark.time for mark in read_trace(path).marks}
    assert read_trace(out).facts.seconds == (marks["end"] - marks["begin"]) / 1e9
    make_trace.cut(path, out)
    source, whole = read_trace(path), read_trace(out)
    assert_equal_traces(replace(whole, compiled=source.compiled), source)
    for begin, end, complaint in (
        ("1s", "1s", "is not before the stretch's end"),
        ("2400ms", None, "the last event of .* is at 2.3"),
        ("1", None, "--from: '1' is not a duration"),
        ("1s", "later", "--to: no mark 'later'; there are begin, end"),
    ):
        with pytest.raises(UsageError, match=complaint):
            make_trace.cut(path, out, begin, end)


def test_anonymise(trace: Callable[..., Path], tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "b.trace"
    make_trace.anonymise(trace(program="/opt/secret"), out)
    text = capsys.readouterr().out
    assert "Removed: names of threads" in text
    assert "Left: each block's size" in text
    assert read_trace(out).facts.program == ""


def test_repeat_a_trace(trace: Callable[..., Path], tmp_path: Path) -> None:
    path, out = trace(), tmp_path / "b.trace"
    make_trace.repeat(path, out, times=3)
    result = read_trace(out)
    assert [mark.name for mark in result.marks] == ["a 1/3", "a 2/3", "a 3/3"]
    assert result.facts.seconds == 7.5
    with pytest.raises(UsageError, match="--times: how often is"):
        make_trace.repeat(path, out)


def test_repeat_a_day(
    trace: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace(1, "load.trace")
    trace(2, "dump.trace")
    day, out = tmp_path / "day.toml", tmp_path / "day.trace"
    day.write_text(
        '[[stretch]]\ntrace = "load.trace"\nfrom = "500ms"\nto = "1s"\ntimes = 2\nmark = "load"\n'
        '[[stretch]]\ntrace = "dump.trace"\n'
    )
    make_trace.repeat(day, out)
    result = read_trace(out)
    assert [(mark.time, mark.name) for mark in result.marks] == [
        (0, "load 1/2"),
        (500_000_000, "load 2/2"),
        (1_000_000_000, "dump"),
    ]
    make_trace.repeat(day, out, days=3)
    names = [mark.name for mark in read_trace(out).marks]
    assert names == [n for i in (1, 2, 3) for n in (f"day {i}/3", "load 1/2", "load 2/2", "dump")]
    with pytest.raises(UsageError, match=r"--days: .* is a trace, and no day"):
        make_trace.repeat(tmp_path / "load.trace", out, days=2)
    with pytest.raises(UsageError, match=r"--times: .*day\.toml says how often"):
        make_trace.repeat(day, out, times=2)
    day.write_text('[[stretch]]\ntrace = "load.trace"\nfrom = "1h"\n')
    with pytest.raises(UsageError, match=r"load\.trace: there is nothing from 3600 s"):
        make_trace.repeat(day, out)
    day.write_text('[[stretch]]\ntrace = "load.trace"\nfrom = "noon"\nto = "end"\n')
    with pytest.raises(UsageError, match=r"load\.trace: no mark 'noon'; there are begin, end"):
        make_trace.repeat(day, out)
    day.write_text('[[stretch]]\ntrace = "load.trace"\nfrom = "begin"\nto = "end"\n')
    make_trace.repeat(day, out)
    day.write_text('[[stretch]]\ntrace = "none.trace"\n')
    with pytest.raises(UsageError, match=r"none\.trace: cannot be read: No such file"):
        make_trace.repeat(day, out)
    day.write_text('[[stretch]]\ntrace = "load.trace"\ntimes = 1000\n')
    monkeypatch.setattr(make_trace, "LIMITS", TraceLimits(events=1000))
    with pytest.raises(UsageError, match=r"comes to 400,000 events; a trace has at most 1,000"):
        make_trace.repeat(day, out)


def test_import(tmp_path: Path, capsys: Capture) -> None:
    source, out = tmp_path / "a.txt", tmp_path / "b.trace"
    source.write_text("1: malloc 0x10 5\n1: free 0x10\n")
    make_trace.import_foreign(source, out, "android")
    text = capsys.readouterr().out
    assert "2 events of 1 thread in" in text
    assert "they say nothing but the order" in text
    assert isinstance(read_trace(out), Trace)
    source.write_text("1: malloc 0x10 4000000000000000000\n2: malloc 0x20 4000000000000000000\n")
    with pytest.raises(Failure, match="not written: its blocks are larger than any memory"):
        make_trace.import_foreign(source, out, "android")


def test_a_recording_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "1.recording"
    path.write_bytes(b"DBTR" + bytes(100))
    with pytest.raises(UsageError, match="a raw recording; dballoc trace compile makes"):
        info.info(path)
    with pytest.raises(Failure, match="whole are its first 0 chunks"):
        info.verify(path)
    with pytest.raises(Failure):
        make_trace.compile_(path, tmp_path / "a.trace")


def test_names_of_traces_end_in_trace(trace: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.trace"):
        make_trace.cut(trace(), tmp_path / "b.txt")
