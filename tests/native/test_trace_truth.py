"""Programs that know what they have allocated, against the traces of their recordings."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from programs import compiled

from dballoc.trace.changes.cut_trace import cut_trace
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.figures.live_curve import compute_live_curve
from dballoc.trace.figures.trace_summary import compute_handovers
from dballoc.trace.model import NONE, Objects, Trace
from dballoc.trace.recording.read_recording import read_recording
from dballoc.trace.trace_file.check_trace import check_trace
from dballoc.trace.trace_file.read_trace import read_trace
from dballoc.trace.trace_file.write_trace import write_trace


def keep_objects(trace: Trace, kept: np.ndarray) -> Trace:
    """The trace with the sizes of other objects as 0, so that they count for nothing."""
    sizes = np.where(kept, trace.objects.size, 0).astype(np.uint64)
    columns = {**vars(trace.objects), "size": sizes}
    return Trace(**{**vars(trace), "objects": Objects(**columns)})


@pytest.fixture
def handed(tmp_path: Path, native_library: Callable[[str], Path]) -> tuple[tuple[int, ...], Trace]:
    """What the program printed, and its trace, exact in time and once through its file."""
    output = subprocess.run(
        [compiled("handed", tmp_path)],
        env={
            **os.environ,
            "LD_PRELOAD": str(native_library("trace")),
            "DBALLOC_TRACE": f"start:{2**30}:{tmp_path}",
        },
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    (recording,) = tmp_path.glob("*.recording")
    trace = compile_recording(read_recording(recording), resolution=1)
    write_trace(trace, tmp_path / "handed.trace")
    return tuple(map(int, output.split())), read_trace(tmp_path / "handed.trace")


def test_what_is_alive_is_right_to_the_byte(handed: tuple[tuple[int, ...], Trace]) -> None:
    (allocations, foreign, left, peak), trace = handed
    assert trace.facts.dropped == 0
    facts = trace.compiled
    assert (facts.unknown_frees, facts.double_frees, facts.missed_frees) == (0, 0, 0)
    kept = trace.objects.size % 1000 == 7
    assert np.count_nonzero(kept) == allocations
    blocks = keep_objects(trace, kept)
    curve = compute_live_curve(blocks)
    assert curve.bytes[-1] == left
    assert curve.peak_bytes == peak
    objects = trace.objects
    by_another = (objects.freed_by != NONE) & (objects.freed_by != objects.allocated_by)
    assert np.count_nonzero(by_another & kept) == foreign
    assert compute_handovers(trace).foreign >= foreign


def test_a_cut_of_a_real_trace_has_the_same_alive(
    handed: tuple[tuple[int, ...], Trace],
) -> None:
    _, trace = handed
    whole = compute_live_curve(trace)
    middle = int(whole.time[len(whole.time) // 2])
    cut = cut_trace(trace, middle, int(whole.time[-1]) + 1)
    check_trace(cut.threads, cut.objects)
    part = compute_live_curve(cut)
    assert part.bytes[-1] == whole.bytes[-1]
    assert part.peak_bytes == whole.peak_bytes


def test_from_the_command_line(tmp_path: Path) -> None:
    def run(*words: object) -> str:
        command = [sys.executable, "-m", "dballoc", *map(str, words)]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=120
        ).stdout

    program = compiled("handed", tmp_path)
    output = run("exec", "--probe", "trace", "--out", tmp_path / "out", "--", program)
    allocations = int(output.split()[0])
    (recording,) = (tmp_path / "out").glob("*.recording")
    assert "whole" in run("trace", "verify", recording)
    trace = tmp_path / "handed.trace"
    assert "bytes an event" in run("trace", "compile", recording, "-o", trace)
    document = json.loads(run("trace", "info", trace, "--json"))
    assert document["objects"] > allocations
    assert document["peak"]["bytes"] > 300_000_014
    assert document["dropped"] == document["frees"]["missed"] == 0
    assert len(document["threads"]) >= 9
    assert "whole" in run("trace", "verify", trace)
