"""Read a trace's file. Nothing in it is believed: every count is compared with the bytes at hand
before memory is taken for it, and every reference of an event is checked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import zstandard
from numpy.typing import NDArray
from pydantic import ValidationError

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.trace.model import NONE, Objects, ThreadEvents, Trace
from dballoc.trace.trace_file import layout
from dballoc.trace.trace_file.check_trace import InvalidTrace, check_trace
from dballoc.trace.trace_file.layout import BlockHead, BlockKind, Header
from dballoc.trace.trace_file.thread_columns import (
    COLUMNS,
    InvalidColumns,
    ThreadParts,
    ThreadShape,
    count_column,
    find_bases,
    restore_thread,
)
from dballoc.trace.trace_file.varints import InvalidVarints, decode_varints
from dballoc.trace.trace_size import MOST_EVENTS, MOST_THREADS, explain_too_large

Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class TraceLimits:
    """What a trace may hold at most, where this machine has the memory for it.

    ``unpacked``: bytes of all its blocks; ``runs``: of pages in its touch patterns.
    """

    events: int = MOST_EVENTS
    threads: int = MOST_THREADS
    unpacked: int = 4 * 2**30
    runs: int = 4_000_000


class DamagedTrace(Exception):
    """The file is not a trace, or not a whole one; the text is a short reason."""


class TraceTooLarge(DamagedTrace):
    """The file is a trace, and there is not enough memory to read it."""


class NoTrace(DamagedTrace):
    """The file is something else."""


LIMITS = TraceLimits()
_RECORDING = b"DBTR"


def read_trace(path: Path, limits: TraceLimits = LIMITS) -> Trace:
    """Read a trace. UsageError, in one line, if the file is missing, damaged, cut short, something
    else, or holds more than the limits let it.
    """
    try:
        with readers.naming(path), readers.open_file(path) as file:
            return parse_trace(file, limits)
    except (NoTrace, TraceTooLarge) as error:
        raise UsageError(f"{path}: {error}") from None
    except DamagedTrace as error:
        raise UsageError(
            f"{path}: {error}; dballoc trace verify says how far it is whole"
        ) from None


def parse_trace(file: BinaryIO, limits: TraceLimits) -> Trace:
    """Read a trace from an open file. Raises DamagedTrace if it is not one."""
    blocks = read_blocks(file, limits)
    first = next(blocks, None)
    if first is None:
        raise DamagedTrace("it is empty")
    head, content = first
    header = parse_header(head, content, limits)
    events = sum(thread.events for thread in header.threads)
    if reason := explain_too_large(events, len(header.threads)):
        raise TraceTooLarge(
            f"{reason}; close other programs, or read it where there is more memory"
        )
    reading = _PartialTrace(header=header, limits=limits)
    for head, content in blocks:
        reading.take_block(head, content)
    return reading.build_trace()


def read_blocks(file: BinaryIO, limits: TraceLimits) -> Iterator[tuple[BlockHead, bytes]]:
    """Yield the blocks of a trace, unpacked, up to the one that ends it. DamagedTrace at the first
    place that is damaged.
    """
    beginning = file.read(len(layout.MAGIC))
    if beginning.startswith(_RECORDING):
        raise NoTrace("a raw recording; dballoc trace compile makes a trace of it")
    if beginning != layout.MAGIC:
        raise NoTrace("not a trace of dballoc, or of a version that this one does not know")
    decompressor = zstandard.ZstdDecompressor(max_window_size=2**27)
    unpacked = 0
    while True:
        written = file.read(layout.HEAD_BYTES)
        if len(written) < layout.HEAD_BYTES:
            raise DamagedTrace("it is cut short")
        head = layout.unpack_head(written)
        unpacked += head.unpacked
        if unpacked > limits.unpacked:
            raise DamagedTrace(f"it unpacks to more than {limits.unpacked // 2**20:,} MiB")
        # zstd needs no more than this for what it cannot make smaller.
        if head.unpacked > _most_unpacked(head) or head.packed > head.unpacked + 1024:
            raise DamagedTrace("a block of it claims a size that it cannot have")
        packed = file.read(head.packed)
        if len(packed) < head.packed:
            raise DamagedTrace("it is cut short")
        if not layout.is_checksum_right(written, packed):
            raise DamagedTrace("a block of it is damaged: its checksum is wrong")
        content = _unpack(decompressor, packed, head.unpacked)
        if head.kind == BlockKind.END:
            if file.read(1):
                raise DamagedTrace("something follows its end")
            return
        yield head, content


def _most_unpacked(head: BlockHead) -> int:
    match head.kind:
        case BlockKind.HEADER:
            return layout.MOST_HEADER_BYTES
        case BlockKind.PATTERNS:
            return layout.MOST_PATTERN_BYTES
        case BlockKind.EVENTS if head.items <= layout.MOST_ITEMS:
            return 4 * len(COLUMNS) + head.items * layout.MOST_ITEM_BYTES
    return 0


def _unpack(decompressor: zstandard.ZstdDecompressor, packed: bytes, size: int) -> bytes:
    try:
        # A frame's own claim decides how much memory is taken for it.
        if zstandard.frame_content_size(packed) != size:
            raise DamagedTrace("a block of it unpacks to another size than it claims")
        content = decompressor.decompress(packed, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamagedTrace(f"a block of it cannot be unpacked: {readers.reason(error)}") from None
    if len(content) != size:
        raise DamagedTrace("a block of it unpacks to another size than it claims")
    return content


def parse_header(head: BlockHead, content: bytes, limits: TraceLimits) -> Header:
    """Return what a trace's first block says. DamagedTrace if that is not a trace's, or more than
    the limits let it.
    """
    if head.kind != BlockKind.HEADER:
        raise DamagedTrace("not a trace of dballoc: it does not begin with its header")
    try:
        text = readers.decoded(content)
        header = Header.model_validate_json(text)
        # Halves of characters can be neither printed nor stored.
        text.encode()
    except (readers.Unfit, UnicodeError) as error:
        raise DamagedTrace(f"its header is {readers.reason(error)}") from None
    except ValidationError as error:
        raise DamagedTrace(f"its header: {readers.first_complaint(error)}") from None
    if len(header.threads) > limits.threads:
        raise DamagedTrace(f"it has more than {limits.threads:,} threads")
    if sum(thread.events for thread in header.threads) > limits.events:
        raise DamagedTrace(f"it has more than {limits.events:,} events")
    if any(thread.allocations > thread.events for thread in header.threads):
        raise DamagedTrace("its header: a thread with more allocations than events")
    return header


@dataclass(frozen=True, kw_only=True)
class _TraceCondition:
    """``complaint``: what is wrong, empty if nothing is. Up to there the file has ``blocks`` whole
    blocks in ``bytes`` bytes, with ``events`` of the ``declared`` events.
    """

    complaint: str
    blocks: int
    bytes: int
    events: int
    declared: int


def verify_trace(path: Path, limits: TraceLimits = LIMITS) -> _TraceCondition:
    """Check every block, and then that the events make a trace. UsageError if the file cannot be
    read.
    """
    blocks, events, declared, complaint = 0, 0, 0, ""
    size = len(layout.MAGIC)
    with readers.naming(path), readers.open_file(path) as file:
        try:
            for head, content in read_blocks(file, limits):
                if blocks == 0:
                    header = parse_header(head, content, limits)
                    declared = sum(thread.events for thread in header.threads)
                blocks += 1
                events += head.items if head.kind == BlockKind.EVENTS else 0
                size += layout.HEAD_BYTES + head.packed
            size = file.tell()
            file.seek(0)
            parse_trace(file, limits)
        except DamagedTrace as error:
            complaint = str(error)
    return _TraceCondition(
        complaint=complaint,
        blocks=blocks,
        bytes=size if blocks else 0,
        events=events,
        declared=declared,
    )


@dataclass(kw_only=True)
class _ThreadBlocks:
    """The blocks of a thread so far: ``op`` and the columns, a piece for each block."""

    op: list[NDArray[np.uint8]] = field(default_factory=list)
    columns: dict[str, list[NDArray[np.uint64]]] = field(
        default_factory=lambda: {name: [] for name in COLUMNS}
    )


@dataclass(kw_only=True)
class _PartialTrace:
    """What was read so far; :meth:`take_block` for each block, then :meth:`build_trace`."""

    header: Header
    limits: TraceLimits
    patterns: list[Runs] = field(default_factory=list)
    runs: int = 0
    threads: list[ThreadEvents] = field(default_factory=list)
    objects: list[ThreadParts] = field(default_factory=list)
    pieces: _ThreadBlocks = field(default_factory=_ThreadBlocks)
    bases: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.bases = find_bases([thread.allocations for thread in self.header.threads])

    def take_block(self, head: BlockHead, content: bytes) -> None:
        """Take the next block. DamagedTrace if it does not fit to those before it."""
        if head.kind == BlockKind.PATTERNS:
            self._take_patterns(head.items, content)
        elif head.kind == BlockKind.EVENTS:
            self._take_events(head, content)
        else:
            raise DamagedTrace("a block of it is of no known kind")

    def _take_patterns(self, items: int, content: bytes) -> None:
        # Every varint has one byte below 0x80.
        octets = np.frombuffer(content, np.uint8)
        try:
            numbers = decode_varints(content, int(np.count_nonzero(octets < 0x80))).tolist()
        except InvalidVarints as error:
            raise DamagedTrace(f"its touch patterns: {error}") from None
        self.runs += len(numbers)
        if self.runs > 2 * self.limits.runs or len(self.patterns) + items > self.header.patterns:
            raise DamagedTrace("it has more touch patterns than it declares, or than can be read")
        place = 0
        for _ in range(items):
            count = numbers[place] if place < len(numbers) else len(numbers)
            runs = numbers[place + 1 : place + 1 + 2 * count]
            if len(runs) != 2 * count:
                raise DamagedTrace("its touch patterns are cut short")
            self.patterns.append(_restore_runs(runs))
            place += 1 + 2 * count
        if place != len(numbers):
            raise DamagedTrace("its touch patterns are more than they claim")

    def _take_events(self, head: BlockHead, content: bytes) -> None:
        if len(self.patterns) != self.header.patterns:
            raise DamagedTrace("it has fewer touch patterns than it declares")
        while len(self.threads) < min(head.thread, len(self.header.threads)):
            self._end_thread()
        if head.thread != len(self.threads) or head.thread >= len(self.header.threads):
            raise DamagedTrace("its threads are not in their order")
        place = 4 * len(COLUMNS) + head.items
        if len(content) < place:
            raise DamagedTrace("a block of it has fewer events than it claims")
        lengths = np.frombuffer(content, "<u4", len(COLUMNS))
        if int(lengths.sum(dtype=np.int64)) != len(content) - place:
            raise DamagedTrace("a block of it has columns of other lengths than it claims")
        op = np.frombuffer(content, np.uint8, head.items, 4 * len(COLUMNS))
        self.pieces.op.append(op)
        for name, length in zip(COLUMNS, lengths.tolist(), strict=True):
            try:
                column = decode_varints(
                    memoryview(content)[place : place + length], count_column(name, op)
                )
            except InvalidVarints as error:
                raise DamagedTrace(f"a block of it, column {name}: {error}") from None
            self.pieces.columns[name].append(column)
            place += length

    def _end_thread(self) -> None:
        index = len(self.threads)
        declared = self.header.threads[index]
        pieces, self.pieces = self.pieces, _ThreadBlocks()
        op = np.concatenate([np.zeros(0, np.uint8), *pieces.op])
        if len(op) != declared.events:
            raise DamagedTrace("a thread has another number of events than it declares")
        columns = {
            name: np.concatenate([np.zeros(0, np.uint64), *parts])
            for name, parts in pieces.columns.items()
        }
        shape = ThreadShape(
            index=index,
            bases=self.bases,
            resolution=self.header.compiled.resolution,
            patterns=len(self.patterns),
        )
        try:
            parts = restore_thread(op, columns, shape)
        except InvalidColumns as error:
            raise DamagedTrace(f"its events are not a trace's: {error}") from None
        self.objects.append(parts)
        self.threads.append(
            ThreadEvents(
                number=declared.number,
                name=declared.name,
                created_by=declared.created_by,
                created=declared.created,
                ended=declared.ended,
                kind=parts.kind,
                time=parts.time,
                completed=parts.completed,
                object=parts.object,
                freed=parts.freed,
            )
        )

    def build_trace(self) -> Trace:
        """Return the trace. DamagedTrace if its events make none."""
        while len(self.threads) < len(self.header.threads):
            self._end_thread()
        if len(self.patterns) != self.header.patterns:
            raise DamagedTrace("it has fewer touch patterns than it declares")
        threads = tuple(self.threads)
        objects = _join_objects(self.objects, threads, self.bases)
        try:
            check_trace(threads, objects)
        except InvalidTrace as error:
            raise DamagedTrace(f"its events are not a trace's: {error}") from None
        header = self.header
        return Trace(
            facts=header.facts,
            threads=threads,
            objects=objects,
            touch_patterns=tuple(self.patterns),
            marks=tuple(header.marks),
            compiled=header.compiled,
        )


def _restore_runs(numbers: list[int]) -> Runs:
    end = 0
    runs = []
    for gap, count in zip(numbers[::2], numbers[1::2], strict=True):
        runs.append((end + gap, count))
        end += gap + count
        if end >= 2**52 or count == 0:
            raise DamagedTrace("its touch patterns: a run of pages that cannot be")
    return tuple(runs)


def _join_objects(
    parts: list[ThreadParts], threads: tuple[ThreadEvents, ...], bases: NDArray[np.int64]
) -> Objects:
    freed_by = np.full(int(bases[-1]), NONE, np.int32)
    for index, thread in enumerate(threads):
        freed_by[thread.freed[thread.freed != NONE]] = index
    return Objects(
        size=np.concatenate([np.zeros(0, np.uint64), *(part.size for part in parts)]),
        alignment=np.concatenate([np.zeros(0, np.uint32), *(part.alignment for part in parts)]),
        allocated_by=np.repeat(np.arange(len(parts), dtype=np.int32), np.diff(bases)),
        freed_by=freed_by,
        touch=np.concatenate([np.zeros(0, np.int32), *(part.touch for part in parts)]),
    )
