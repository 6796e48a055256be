"""Split a raw recording into its chunks. native/trace/chunk.h draws their layout.

The file is the recorded process's own and may hold anything: every length is compared with the file
and with a bound, and nothing behind the first chunk that is not whole is used.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

MAGIC = 0x52544244
VERSION = 3
NO_THREAD = 2**32 - 1
_HEADER = struct.Struct("=IHHIIQIIIIQQQ")
HEADER_BYTES = _HEADER.size
# The largest payload: a buffer, or the touched pages of a block. Bytes.
_LARGEST_PAYLOAD = 64 << 10
# What a buffer holds: 16 KiB less its head (native/trace/buffers.h). Bytes.
BUFFER_ROOM = (16 << 10) - 56
# Each takes some 500 bytes of memory. A recording that compiles has some 100,000.
_MOST_CHUNKS = 1 << 21


class ChunkKind(IntEnum):
    """What a chunk holds."""

    HEAD = 1
    CLOCK = 2
    THREAD = 3
    EVENTS = 4
    TOUCHES = 5
    MARK = 6
    END = 7


class Torn(Exception):
    """From here on the file is not whole; the text says what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A whole chunk. ``start`` and ``length``: where its payload is in
    the file, bytes. ``buffer``: the number of the buffer of its ``thread`` that it is a piece of,
    from ``offset`` on, with so many ``events``; ``dropped``: events that the thread has lost so
    far; ``first``: the buffer's first stamp; ``written``: the stamp when this was written.
    """

    kind: ChunkKind
    start: int
    length: int
    thread: int
    buffer: int
    offset: int
    events: int
    dropped: int
    first: int
    written: int


def iterate_chunks(data: memoryview) -> Iterator[Chunk]:
    """Yield the chunks of a recording. Torn at the first that is not whole, or follows the end."""
    at, number, kind = 0, 0, None
    while at < len(data):
        if kind is ChunkKind.END:
            raise Torn("something follows its end")
        if number >= _MOST_CHUNKS:
            raise Torn(f"it has more than {_MOST_CHUNKS:,} chunks")
        chunk = _parse_chunk(data, at, number)
        kind = chunk.kind
        if (number == 0) != (kind is ChunkKind.HEAD):
            raise Torn("its chunks are out of order")
        yield chunk
        at = chunk.start + chunk.length
        number += 1


def _parse_chunk(data: memoryview, at: int, number: int) -> Chunk:
    if len(data) - at < HEADER_BYTES:
        raise Torn("a chunk's header is cut short")
    fields = _HEADER.unpack_from(data, at)
    magic, version, kind, length, checksum, position = fields[:6]
    thread, buffer, offset, events, dropped, first, written = fields[6:]
    if magic != MAGIC:
        raise Torn("there is no chunk where one should begin")
    if version != VERSION:
        raise Torn(
            f"it is of version {version}, and this dballoc reads {VERSION}; use the dballoc that "
            "made it"
        )
    if kind not in list(ChunkKind) or length > _LARGEST_PAYLOAD or position != number:
        raise Torn("a chunk's header is damaged")
    start = at + HEADER_BYTES
    if length > len(data) - start:
        raise Torn("a chunk is cut short")
    if compute_checksum(data[start : start + length]) != checksum:
        raise Torn("a chunk's checksum is wrong")
    return Chunk(
        kind=ChunkKind(kind),
        start=start,
        length=length,
        thread=thread,
        buffer=buffer,
        offset=offset,
        events=events,
        dropped=dropped,
        first=first,
        written=written,
    )


def compute_checksum(payload: bytes | memoryview) -> int:
    """Compute a payload's checksum: over its 32-bit words, the sum of all sums of the first words,
    modulo 2^64, folded to 32 bits (after Fletcher 1982; native/trace/chunk.c).
    """
    aligned = len(payload) // 4 * 4
    words = np.frombuffer(payload[:aligned], "=u4").astype(np.uint64)
    if rest := bytes(payload[aligned:]):
        last = np.frombuffer(rest.ljust(4, b"\0"), "=u4").astype(np.uint64)
        words = np.concatenate([words, last])
    weights = np.arange(len(words), 0, -1, dtype=np.uint64)
    sums = int((words * weights).sum(dtype=np.uint64))
    return (sums ^ sums >> 32) & 0xFFFFFFFF
