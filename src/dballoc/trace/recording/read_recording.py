"""Read a raw recording, the file that native/trace writes, as a recording of the model."""

import itertools
import os
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.process import open_in_process_root
from dballoc.trace.model import (
    CALL_TYPES,
    NONE,
    Mark,
    Recording,
    RecordingFacts,
    ThreadCalls,
    TouchSample,
)
from dballoc.trace.recording import event_records, stamp_times
from dballoc.trace.recording.chunk_file import (
    BUFFER_ROOM,
    NO_THREAD,
    Chunk,
    ChunkKind,
    Torn,
    iterate_chunks,
)
from dballoc.trace.recording.event_records import EventRecords
from dballoc.trace.recording.thread_calls import RecordedCalls, gather_calls, gather_touches
from dballoc.trace.trace_size import explain_file_too_large, explain_too_large

# The largest file, bytes; arrays of its calls take about nine times as much memory.
MOST_BYTES = 4 << 30
_THREAD = struct.Struct("=IIIIQQ16s")
_CLOCK = struct.Struct("=QQQ")
_MOST_THREADS, _MOST_MARKS, _MOST_TOUCHES = 1 << 20, 1 << 16, 1 << 20
_SETTING = b"setting "
_ENDINGS = frozenset({"exit", "asked", "limit", "disk"})
_LARGEST_FIGURE = 2**62
# The note on a recording that is torn, or whose process was killed, begins so.
LOST_END = "what came after its last whole chunk"
NOT_SEEN = (
    "memory that the program takes by mmap or sbrk itself",
    "functions of an allocator's own, such as mallocx or mallctl",
    "frees after the program's destructors",
)


class RecordingTooLarge(Torn):
    """The recording holds more than can be made a trace; the text is a short reason."""


@dataclass(frozen=True, kw_only=True)
class RecordedThread:
    """What the recorder wrote of a thread. ``created_by``: NONE if not known; ``has_ended``: before
    the recording did; ``born``, ``died``: the stamps of its creation and its end, 0 if not known.
    """

    tid: int
    created_by: int
    has_ended: bool
    born: int
    died: int
    name: str


@dataclass(kw_only=True)
class _Contents:
    """The chunks of a file by kind. ``torn``: why what follows them was left out, empty if nothing
    does.
    """

    head: dict[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    end: dict[str, str] = field(default_factory=dict)
    clocks: list[tuple[int, int]] = field(default_factory=list)
    threads: dict[int, RecordedThread] = field(default_factory=dict)
    marks: list[tuple[int, str]] = field(default_factory=list)
    pieces: list[Chunk] = field(default_factory=list)
    touches: list[Chunk] = field(default_factory=list)
    chunks: int = 0
    bytes: int = 0
    torn: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordingCondition:
    """How far a recording is whole: its first ``chunks`` chunks, ``bytes`` bytes, with so many
    ``events``. ``complaint``: what is wrong behind them, empty if nothing is; ``ended_by``: as
    in RecordingFacts.
    """

    chunks: int
    bytes: int
    events: int
    dropped: int
    ended_by: str
    complaint: str


def read_recording(path: Path, most_bytes: int = MOST_BYTES) -> Recording:
    """Read a recording up to its last whole chunk. UsageError if the file cannot be read, is no
    recording or larger than ``most_bytes``; Failure if it holds too little to be used, or more
    than a trace can or this machine has memory for.
    """
    data = _read_bytes(path, most_bytes)
    try:
        return parse_recording(data)
    except RecordingTooLarge as error:
        raise Failure(
            f"{path}: {error}; record for less time, or with a lower --limit: 512M hold some 80 "
            "million events"
        ) from None
    except Torn as error:
        raise Failure(f"{path}: {error}") from None


def verify_recording(path: Path, most_bytes: int = MOST_BYTES) -> RecordingCondition:
    """Check how far a recording is whole. UsageError as :func:`read_recording`; Failure if there is
    no memory for its bytes.
    """
    contents = _sort_chunks(_read_bytes(path, most_bytes))
    return RecordingCondition(
        chunks=contents.chunks,
        bytes=contents.bytes,
        events=sum(piece.events for piece in contents.pieces),
        dropped=_count_dropped(contents),
        ended_by=_name_ending(contents),
        complaint=contents.torn,
    )


def is_recording(path: Path) -> bool:
    """Whether a file begins as a raw recording does. UsageError if it cannot be read."""
    return bytes(_read_bytes(path, MOST_BYTES, first=4)) == b"DBTR"


def parse_recording(data: memoryview) -> Recording:
    """Parse a recording's bytes. Raises Torn if they hold no recording or too little of
    one, RecordingTooLarge if they hold too much.
    """
    contents = _sort_chunks(data)
    # What the chunks claim is known before anything is decoded.
    _check_size(_claim_events(contents.pieces), len({piece.thread for piece in contents.pieces}))
    if not contents.head:
        raise Torn(contents.torn or "it is empty")
    times = stamp_times.StampTimes.from_clocks(contents.clocks)
    threads, touches, lost = _decode_threads(data, contents, times)
    touches += _decode_touches(data, contents.touches)
    return Recording(
        facts=_make_facts(contents, times, lost),
        threads=threads,
        touches=tuple(touches[:_MOST_TOUCHES]),
        marks=tuple(_parse_mark(times.to_ns([stamp])[0], line) for stamp, line in contents.marks),
    )


def _check_size(events: int, threads: int = 0) -> None:
    if reason := explain_too_large(events, threads):
        raise RecordingTooLarge(reason)


def _read_bytes(path: Path, most: int, first: int | None = None) -> memoryview:
    """Read a file's bytes, or the first few. UsageError if they cannot be read or are more than
    ``most``; Failure if there is no memory for them. Not mapped: the process that writes the file
    may cut it off meanwhile, which would end ours.
    """
    with readers.naming(path):
        descriptor = open_in_process_root.open_file(Path("/"), os.fspath(path.absolute()))
        with open(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            if size > most:
                raise UsageError(f"{path}: is larger than {most:,} bytes; record with --limit")
            count = min(first, size) if first is not None else size
            if reason := explain_file_too_large(count):
                raise Failure(f"{path}: {reason}")
            return memoryview(file.read(count))


def _sort_chunks(data: memoryview) -> _Contents:
    contents = _Contents()
    try:
        for chunk in iterate_chunks(data):
            _add_chunk(contents, chunk, data)
            contents.chunks += 1
            contents.bytes = chunk.start + chunk.length
    except Torn as error:
        contents.torn = str(error)
    return contents


def _add_chunk(contents: _Contents, chunk: Chunk, data: memoryview) -> None:
    payload = data[chunk.start : chunk.start + chunk.length]
    match chunk.kind:
        case ChunkKind.HEAD:
            contents.head = _parse_lines(payload)
            contents.settings = _parse_settings(payload)
        case ChunkKind.END:
            contents.end = _parse_lines(payload)
        case ChunkKind.CLOCK if chunk.length == _CLOCK.size:
            contents.clocks.append(_CLOCK.unpack(payload)[:2])
        case ChunkKind.THREAD if chunk.length == _THREAD.size:
            _add_thread(contents.threads, _THREAD.unpack(payload))
        case ChunkKind.EVENTS if chunk.offset + chunk.length <= BUFFER_ROOM:
            contents.pieces.append(chunk)
        case ChunkKind.TOUCHES:
            contents.touches.append(chunk)
        case ChunkKind.MARK if len(contents.marks) < _MOST_MARKS:
            contents.marks.append((chunk.written, _decode_text(payload)))
        case _:
            raise Torn(f"a chunk of kind {chunk.kind.name} is damaged")


def _add_thread(threads: dict[int, RecordedThread], fields: tuple[Any, ...]) -> None:
    number, tid, creator, ended, born, died, name = fields
    if len(threads) >= _MOST_THREADS:
        raise Torn("it has too many threads")
    threads[number] = RecordedThread(
        tid=tid,
        created_by=NONE if creator == NO_THREAD else creator,
        has_ended=ended != 0,
        born=born,
        died=died,
        name=_decode_text(name.partition(b"\0")[0]),
    )


def _decode_text(payload: memoryview | bytes) -> str:
    """Decode text of the recorded process, without what a terminal would obey."""
    text = bytes(payload).decode(errors="replace")
    return readers.one_line(text)


def _parse_lines(payload: memoryview) -> dict[str, str]:
    pairs = (line.partition(b" ") for line in bytes(payload).split(b"\n"))
    return {_decode_text(name): _decode_text(value) for name, _, value in pairs if name}


def _parse_settings(payload: memoryview) -> tuple[str, ...]:
    lines = bytes(payload).split(b"\n")
    return tuple(_decode_text(x[len(_SETTING) :]) for x in lines if x.startswith(_SETTING))


def _parse_version(text: str) -> str:
    """Return the numbers in what a malloc says of its version, as "gperftools 2.10" or
    "5.3.0-0-g54eaed1"; empty if there are none.
    """
    version = re.search(r"\d{1,9}(?:\.\d{1,9}){1,3}", text[:200])
    return version.group() if version else ""


def _parse_mark(time: int, line: str) -> Mark:
    name, *figures = line.split(" ")
    truth = {}
    for figure in figures:
        key, _, value = figure.partition("=")
        if key and value.isascii() and value.isdigit() and len(value) < 20:
            truth[key] = int(value)
    return Mark(time=time, name=name, truth=truth)


def _count_bytes(pieces: Sequence[Chunk]) -> int:
    """Return where the next piece of a buffer begins in it."""
    return pieces[-1].offset + pieces[-1].length if pieces else 0


def _join_pieces(pieces: Iterable[Chunk]) -> list[list[Chunk]]:
    """Return the pieces of each buffer in their order, up to the first that is missing."""
    buffers: dict[tuple[int, int], list[Chunk]] = {}
    for piece in pieces:
        joined = buffers.setdefault((piece.thread, piece.buffer), [])
        if piece.length and piece.offset == _count_bytes(joined):
            joined.append(piece)
    return [buffers[key] for key in sorted(buffers) if buffers[key]]


def _decode_buffers(data: memoryview, buffers: Sequence[Sequence[Chunk]]) -> EventRecords:
    lengths = [sum(piece.length for piece in pieces) for pieces in buffers]
    parts = [data[p.start : p.start + p.length] for pieces in buffers for p in pieces]
    starts = np.cumsum([0, *lengths[:-1]]) if lengths else np.zeros(0, np.int64)
    joined = np.frombuffer(b"".join(parts), np.uint8)
    firsts = np.array([pieces[0].first for pieces in buffers], np.uint64)
    return event_records.decode_records(joined, starts, firsts)


def _claim_events(pieces: Iterable[Chunk]) -> int:
    """Return how many events pieces claim to have; each takes two bytes at least."""
    return sum(min(piece.events, piece.length // event_records.HEAD_BYTES) for piece in pieces)


def _count_lost_events(
    buffers: Sequence[Sequence[Chunk]], records: EventRecords, calls: RecordedCalls
) -> int:
    """Return how many events are missing in the buffers that are damaged: what their pieces claim
    less what could be read of them, and one event at least, because something is missing.
    """
    read = np.bincount(calls.buffer, minlength=len(buffers))
    return sum(
        max(_claim_events(buffers[index]) - int(read[index]), 1)
        for index in records.damaged.tolist()
    )


# Buffers that are decoded at once, 16 KiB each at most: their arrays fit into a CPU's cache.
_BATCH = 1 << 10


def _decode_threads(
    data: memoryview, contents: _Contents, times: stamp_times.StampTimes
) -> tuple[tuple[ThreadCalls, ...], list[TouchSample], int]:
    buffers = _join_pieces(contents.pieces)
    parts: dict[int, list[RecordedCalls]] = {}
    touches: list[TouchSample] = []
    # Of pieces that are missing.
    lost = _claim_events(contents.pieces) - sum(map(_claim_events, buffers))
    decoded = 0
    for at in range(0, len(buffers), _BATCH):
        batch = buffers[at : at + _BATCH]
        records = _decode_buffers(data, batch)
        calls = gather_calls(records, times)
        lost += _count_lost_events(batch, records, calls)
        touches += gather_touches(records, _MOST_TOUCHES - len(touches))
        # Chunks may hold more than they claim.
        decoded += len(calls.kind)
        _check_size(decoded)
        owner = np.array([pieces[0].thread for pieces in batch], np.int64)[calls.buffer]
        bounds = np.flatnonzero(np.diff(owner, prepend=-1, append=-1)).tolist()
        for start, stop in itertools.pairwise(bounds):
            parts.setdefault(int(owner[start]), []).append(calls.select(slice(start, stop)))
    threads = tuple(
        _make_thread(number, contents.threads.get(number), parts[number], times)
        for number in sorted(parts)
    )
    return threads, touches, lost


def _make_thread(
    number: int,
    thread: RecordedThread | None,
    parts: Sequence[RecordedCalls],
    times: stamp_times.StampTimes,
) -> ThreadCalls:
    def join(name: str) -> NDArray:
        return np.concatenate([getattr(part, name) for part in parts])

    first, last = int(parts[0].before[0]), int(parts[-1].after[-1])
    return ThreadCalls(
        number=number,
        tid=thread.tid if thread else 0,
        name=thread.name if thread else "",
        created_by=thread.created_by if thread else NONE,
        created=_find_creation(thread, first, times) if thread else NONE,
        ended=_find_end(thread, last, times) if thread else NONE,
        **{name: join(name) for name in CALL_TYPES},
    )


def _find_creation(thread: RecordedThread, first: int, times: stamp_times.StampTimes) -> int:
    """Return when a thread was created, ns: not after its ``first`` call. Of one whose creator is
    not known it is not.
    """
    if thread.created_by == NONE or not thread.born:
        return NONE
    return min(first, int(times.to_ns([thread.born])[0]))


def _find_end(thread: RecordedThread, last: int, times: stamp_times.StampTimes) -> int:
    """Return when a thread ended, ns; its ``last`` call is after the stamp if its end made it."""
    if not thread.has_ended:
        return NONE
    return max(last, int(times.to_ns([thread.died])[0])) if thread.died else last


def _decode_touches(data: memoryview, chunks: Sequence[Chunk]) -> list[TouchSample]:
    records = _decode_buffers(data, [[chunk] for chunk in chunks if chunk.length])
    return gather_touches(records, _MOST_TOUCHES)


def _name_ending(contents: _Contents) -> str:
    ending = contents.end.get("ended_by", "")
    return ending if ending in _ENDINGS else "unknown"


def _parse_figure(text: str | None, default: int) -> int:
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 20):
        return default
    return min(int(text), _LARGEST_FIGURE)


def _count_dropped(contents: _Contents) -> int:
    by_thread: dict[int, int] = {}
    for piece in contents.pieces:
        by_thread[piece.thread] = max(by_thread.get(piece.thread, 0), piece.dropped)
    least = min(sum(by_thread.values()), _LARGEST_FIGURE)
    return max(least, _parse_figure(contents.end.get("dropped"), 0))


def _make_facts(contents: _Contents, times: stamp_times.StampTimes, lost: int) -> RecordingFacts:
    head = contents.head
    from_start = head.get("from_start") == "1"
    notes = list(NOT_SEEN)
    if not from_start:
        notes.append("the blocks that were alive when it began")
    if contents.torn or not contents.end:
        notes.append(f"{LOST_END} ({contents.torn or 'it has no end'})")
    return RecordingFacts(
        from_start=from_start,
        dropped=_count_dropped(contents) + lost,
        ended_by=_name_ending(contents),
        program=head.get("program", ""),
        allocator=head.get("allocator", ""),
        page_size=_check_page_size(_parse_figure(head.get("page_size"), 4096)),
        seconds=times.seconds,
        not_seen=tuple(notes),
        allocator_version=_parse_version(head.get("allocator_version", "")),
        settings=contents.settings if head.get("has_settings") == "1" else None,
    )


def _check_page_size(size: int) -> int:
    if not 4096 <= size <= 1 << 20 or size & (size - 1):
        raise Torn(f"its pages have {size} bytes, which no machine's have")
    return size
