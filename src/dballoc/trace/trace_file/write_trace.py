"""Write a trace's file: see ``layout.py``."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import zstandard

from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_file import create_file
from dballoc.ground.readers import reason
from dballoc.trace.model import NONE, ThreadEvents, Trace
from dballoc.trace.trace_file import layout
from dballoc.trace.trace_file.layout import BlockKind
from dballoc.trace.trace_file.thread_columns import (
    COLUMNS,
    count_column,
    find_bases,
    make_columns,
)
from dballoc.trace.trace_file.varints import encode_varints

# Of zstd's levels: higher ones make the file a few per cent smaller and take several times as long.
_LEVEL = 9


def write_trace(trace: Trace, path: Path) -> int:
    """Write a trace and return the file's bytes; an existing file is replaced completely or not at
    all. Times are rounded down to the trace's resolution. UsageError if it cannot be written.
    """
    size = 0
    try:
        with create_file(path) as file:
            for block in pack_trace(trace):
                size += file.write(block)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {reason(error)}") from None
    return size


def pack_trace(trace: Trace) -> Iterator[bytes]:
    """Yield the pieces of the file that holds a trace."""
    trace = number_by_thread(trace)
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False)
    yield layout.MAGIC
    text = json.dumps(_make_header(trace), ensure_ascii=True, allow_nan=False, default=int)
    header = text.encode()
    yield _pack(compressor, BlockKind.HEADER, header)
    yield from _pack_patterns(compressor, trace)
    bases = find_bases([_count_allocations(thread) for thread in trace.threads])
    for index, thread in enumerate(trace.threads):
        op, columns = make_columns(thread, trace.objects, bases, index, trace.compiled.resolution)
        starts = dict.fromkeys(COLUMNS, 0)
        for first in range(0, len(op), layout.MOST_ITEMS):
            piece = op[first : first + layout.MOST_ITEMS]
            parts = [piece.tobytes()]
            for name in COLUMNS:
                end = starts[name] + count_column(name, piece)
                parts.append(encode_varints(columns[name][starts[name] : end]))
                starts[name] = end
            content = np.array([len(part) for part in parts[1:]], "<u4").tobytes() + b"".join(parts)
            yield _pack(compressor, BlockKind.EVENTS, content, index, len(piece))
    yield _pack(compressor, BlockKind.END, b"")


def _pack(
    compressor: zstandard.ZstdCompressor,
    kind: BlockKind,
    content: bytes,
    thread: int = 0,
    items: int = 0,
) -> bytes:
    return layout.pack_block(kind, thread, items, len(content), compressor.compress(content))


def _count_allocations(thread: ThreadEvents) -> int:
    return int(np.count_nonzero(thread.object != NONE))


def number_by_thread(trace: Trace) -> Trace:
    """Return the trace with its objects numbered thread by thread, in the order of allocation."""
    in_order = [thread.object[thread.object != NONE] for thread in trace.threads]
    old = np.concatenate(in_order) if in_order else np.zeros(0, np.int64)
    if (old == np.arange(len(old))).all() and len(old) == len(trace.objects.size):
        return trace
    new = np.full(len(trace.objects.size) + 1, NONE, np.int64)  # the last: of NONE
    new[old] = np.arange(len(old))
    threads = tuple(
        replace(thread, object=new[thread.object], freed=new[thread.freed])
        for thread in trace.threads
    )
    return replace(trace, threads=threads, objects=trace.objects.select(old))


def _make_header(trace: Trace) -> dict[str, object]:
    return {
        "format": layout.MAGIC.decode().strip(),
        "facts": asdict(trace.facts),
        "compiled": asdict(trace.compiled),
        "threads": [
            {
                "number": thread.number,
                "name": thread.name,
                "created_by": thread.created_by,
                "created": thread.created,
                "ended": thread.ended,
                "events": len(thread.kind),
                "allocations": _count_allocations(thread),
            }
            for thread in trace.threads
        ],
        "marks": [asdict(mark) for mark in trace.marks],
        "patterns": len(trace.touch_patterns),
    }


def _pack_patterns(compressor: zstandard.ZstdCompressor, trace: Trace) -> Iterator[bytes]:
    """Yield blocks of runs: of each pattern how many, then of each the gap to the one before and
    its length.
    """
    numbers: list[int] = []
    items = 0
    for pattern in trace.touch_patterns:
        numbers.append(len(pattern))
        end = 0
        for first, count in pattern:
            numbers += (first - end, count)
            end = first + count
        items += 1
        if items == layout.MOST_ITEMS or len(numbers) > layout.MOST_PATTERN_BYTES // 32:
            yield _pack_numbers(compressor, numbers, items)
            numbers, items = [], 0
    if items:
        yield _pack_numbers(compressor, numbers, items)


def _pack_numbers(compressor: zstandard.ZstdCompressor, numbers: list[int], items: int) -> bytes:
    content = encode_varints(np.array(numbers, np.uint64))
    return _pack(compressor, BlockKind.PATTERNS, content, 0, items)
