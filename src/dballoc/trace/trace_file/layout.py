"""The layout of a trace's file, drawn in docs/trace-format.md: a magic number, then blocks, each
with a fixed head, packed by zstd, with a checksum.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from dballoc.trace.model import STRICT, CompileFacts, Count, Mark, RecordingFacts, Text

MAGIC = b"dballoc trace 1\n"
SUFFIX = ".trace"

# Of a block: kind, thread (index), items, bytes unpacked, bytes packed, CRC-32 of the fields before
# it and of the packed bytes.
_HEAD = struct.Struct("<IIIIII")
HEAD_BYTES = _HEAD.size

# Events of one block, and bytes that one of them takes at most: its op and eight varints.
MOST_ITEMS = 65536
MOST_ITEM_BYTES = 1 + 8 * 10
MOST_PATTERN_BYTES = 2**22
MOST_HEADER_BYTES = 2**26


class BlockKind(IntEnum):
    """What a block holds: the file's facts; runs of pages; events of one thread; nothing."""

    HEADER = 1
    PATTERNS = 2
    EVENTS = 3
    END = 4


@dataclass(frozen=True, kw_only=True)
class BlockHead:
    """The fields of a block's head; ``items`` are events or patterns."""

    kind: int
    thread: int
    items: int
    unpacked: int
    packed: int
    checksum: int


def pack_block(kind: BlockKind, thread: int, items: int, unpacked: int, packed: bytes) -> bytes:
    """Return a block with its head."""
    fields = _HEAD.pack(kind, thread, items, unpacked, len(packed), 0)[:-4]
    checksum = zlib.crc32(packed, zlib.crc32(fields))
    return fields + checksum.to_bytes(4, "little") + packed


def unpack_head(head: bytes) -> BlockHead:
    """Return the fields of HEAD_BYTES bytes."""
    kind, thread, items, unpacked, packed, checksum = _HEAD.unpack(head)
    return BlockHead(
        kind=kind, thread=thread, items=items, unpacked=unpacked, packed=packed, checksum=checksum
    )


def is_checksum_right(head: bytes, packed: bytes) -> bool:
    """Whether a block is as it was written."""
    return zlib.crc32(packed, zlib.crc32(head[:-4])) == int.from_bytes(head[-4:], "little")


class ThreadRecord(BaseModel):
    """A thread, and how many events and allocations its blocks hold together."""

    model_config = STRICT
    number: Annotated[int, Field(ge=0, lt=2**32)]
    name: Text
    created_by: Annotated[int, Field(ge=-1, lt=2**32)]
    created: Annotated[int, Field(ge=-1, lt=2**62)] = -1
    ended: Annotated[int, Field(ge=-1, lt=2**62)]
    events: Count
    allocations: Count


class Header(BaseModel):
    """The first block."""

    model_config = STRICT
    format: Literal["dballoc trace 1"]
    facts: RecordingFacts
    compiled: CompileFacts
    threads: list[ThreadRecord]
    marks: Annotated[list[Mark], Field(max_length=100_000)]
    patterns: Count
