"""The plan's layout, as native/replay/plan_layout.h draws it: the engine reads what this writes."""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"dbreplay"
VERSION = 1
SIZE_BITS = 40
LARGEST_SIZE = (1 << SIZE_BITS) - 1
LARGEST_ALIGNMENT = 1 << 30
MOST_EPOCHS = 1 << 26
# A record counts ns from its epoch's beginning in 24 bits: 16.7 ms.
LONGEST_EPOCH = 1 << (64 - SIZE_BITS)
# Moments at which the engine tells the live bytes, at most (native/replay/curve.h).
CURVE_POINTS = 2000

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u8"),
        ("bytes", "<u8"),
        ("threads", "<u8"),
        ("records", "<u8"),
        ("shared", "<u8"),
        ("epochs", "<u8"),
        ("epoch_ns", "<u8"),
        ("patterns", "<u8"),
        ("runs", "<u8"),
        ("marks", "<u8"),
        ("page_size", "<u8"),
        ("reserved", "<u8", (4,)),
    ]
)
THREAD = np.dtype([("first", "<u8"), ("records", "<u8"), ("slots", "<u8"), ("flags", "<u8")])
RECORD = np.dtype([("what", "<u8"), ("amount", "<u8")])
PATTERN = np.dtype([("first", "<u8"), ("runs", "<u8")])
RUN = np.dtype([("first", "<u8"), ("pages", "<u8")])
MARK = np.dtype([("time", "<u8")])

THREAD_ROOT, THREAD_STAYS = 1, 2


class RecordKind(IntEnum):
    """What a record says; the first six are those of model.EventKind."""

    MALLOC = 1
    CALLOC = 2
    ALIGNED = 3
    REALLOC = 4
    FREE = 5
    FREE_SIZED = 6
    FROM = 7
    TOUCH = 8
    TICK = 9
    CREATE = 10
    END = 11


def pack_what(
    number: NDArray[Any] | int,
    kind: NDArray[Any] | int,
    *,
    shared: NDArray[Any] | bool = False,
    pattern: NDArray[Any] | bool = False,
    alignment: NDArray[Any] | int = 0,
) -> NDArray[np.uint64]:
    """Pack a record's first word. ``alignment``: the power of two."""
    return (
        np.asarray(number).astype(np.uint64)
        | np.asarray(kind).astype(np.uint64) << np.uint64(32)
        | np.asarray(shared).astype(np.uint64) << np.uint64(36)
        | np.asarray(pattern).astype(np.uint64) << np.uint64(37)
        | np.asarray(alignment).astype(np.uint64) << np.uint64(40)
    )


def pack_amount(size: NDArray[Any] | int, offset: NDArray[Any] | int) -> NDArray[np.uint64]:
    """Pack a record's second word: bytes, and ns since its epoch began."""
    return np.asarray(size).astype(np.uint64) | np.asarray(offset).astype(np.uint64) << np.uint64(
        SIZE_BITS
    )
