"""A trace (``.trace``), and what is made of it: figures, a cut, a repetition, a file again.

The checksums and zstd would keep changed bytes from ever reaching the columns, so an input is the
blocks' contents, unpacked, and is packed anew.
"""

import io

import zstandard
from example_recordings import simulate

from dballoc.trace.changes.anonymise_trace import anonymise_trace
from dballoc.trace.changes.compose_traces import Stretch, compose_traces
from dballoc.trace.changes.cut_trace import cut_trace
from dballoc.trace.changes.trace_parts import get_duration
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.figures.trace_summary import summarise_trace
from dballoc.trace.model import Trace
from dballoc.trace.trace_file import layout
from dballoc.trace.trace_file.check_trace import check_trace
from dballoc.trace.trace_file.read_trace import (
    DamagedTrace,
    TraceLimits,
    parse_trace,
    read_blocks,
)
from dballoc.trace.trace_file.write_trace import pack_trace

OF = (
    "dballoc.trace.trace_file.read_trace",
    "dballoc.trace.trace_file.thread_columns",
    "dballoc.trace.trace_file.varints",
    "dballoc.trace.trace_file.check_trace",
    "dballoc.trace.changes.cut_trace",
    "dballoc.trace.changes.compose_traces",
)
PRIVILEGED = False

_LIMITS = TraceLimits(events=5000, threads=50, unpacked=2**22, runs=1000)
_FIELDS = 4


def _unpack(data: bytes) -> bytes:
    """Return blocks as kind, thread, items, length (four bytes each), content."""
    pieces = []
    for head, content in read_blocks(io.BytesIO(data), _LIMITS):
        fields = (head.kind, head.thread, head.items, len(content))
        pieces += [*(field.to_bytes(4, "little") for field in fields), content]
    return b"".join(pieces)


def _pack(data: bytes) -> bytes:
    pieces, place = [layout.MAGIC], 0
    compressor = zstandard.ZstdCompressor(level=1)
    while len(data) - place >= 4 * _FIELDS and len(pieces) < 50:
        kind, thread, items, length = (
            int.from_bytes(data[place + 4 * i : place + 4 * i + 4], "little")
            for i in range(_FIELDS)
        )
        place += 4 * _FIELDS
        content = data[place : place + length]
        place += length
        packed = compressor.compress(content)
        pieces.append(layout.pack_block(kind, thread, items, len(content), packed))  # type: ignore[arg-type]
    end = compressor.compress(b"")
    return b"".join([*pieces, layout.pack_block(layout.BlockKind.END, 0, 0, 0, end)])


def seeds() -> list[bytes]:
    traces = [
        compile_recording(simulate(seed, threads=seed, calls=80 * seed).recording)
        for seed in (1, 2, 4)
    ]
    packed = [b"".join(pack_trace(trace)) for trace in traces]
    return [*map(_unpack, packed), packed[0]]


def fuzz(data: bytes) -> None:
    for written in (data, _pack(data)):
        try:
            trace = parse_trace(io.BytesIO(written), _LIMITS)
        except DamagedTrace as error:
            assert "\n" not in str(error), error
            continue
        _use(trace)


def _use(trace: Trace) -> None:
    """Whatever was read can be used."""
    summarise_trace(trace)
    duration = get_duration(trace)
    cut = cut_trace(anonymise_trace(trace), duration // 3, duration)
    check_trace(cut.threads, cut.objects)
    if duration < 2**50:
        day = compose_traces([Stretch(name="a", trace=cut, times=2)], "free")
        check_trace(day.threads, day.objects)
        parse_trace(io.BytesIO(b"".join(pack_trace(day))), TraceLimits())
