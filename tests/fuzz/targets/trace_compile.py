"""A raw recording, compiled, written as a trace, and read back."""

import io

from example_raw_recordings import make_example

from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.figures.trace_summary import summarise_trace
from dballoc.trace.recording import read_recording
from dballoc.trace.recording.chunk_file import Torn
from dballoc.trace.trace_file.check_trace import InvalidTrace, check_sizes
from dballoc.trace.trace_file.read_trace import LIMITS, parse_trace
from dballoc.trace.trace_file.write_trace import pack_trace
from targets.raw_recording import with_checksums

OF = (
    "dballoc.trace.compilation.compile_recording",
    "dballoc.trace.compilation.draw_touches",
    "dballoc.trace.compilation.compile_recording",
    "dballoc.trace.compilation.match_blocks",
    "dballoc.trace.trace_file.write_trace",
)
PRIVILEGED = False


def seeds() -> list[bytes]:
    return [make_example()]


def fuzz(data: bytes) -> None:
    try:
        recording = read_recording.parse_recording(memoryview(with_checksums(data)))
    except Torn:
        return
    trace = compile_recording(recording)
    try:
        check_sizes(trace.objects)
    except InvalidTrace:
        return
    read = parse_trace(io.BytesIO(b"".join(pack_trace(trace))), LIMITS)
    assert read.compiled == trace.compiled
    assert read.facts == trace.facts
    summarise_trace(read)
