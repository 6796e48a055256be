"""Decode the records of events in buffers. native/trace/events.h draws their layout.

Where a record begins is known only from the one before it. So the buffers are walked side by side:
one step takes one record of each, and a recording of any length takes as many steps as one buffer
has records.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import EventKind

# Kinds that are no calls of their own; the rest of them are EventKind's.
REALLOC_FROM, ALIGNMENT, SITE, TOUCHED, RUN = 7, 8, 9, 10, 11
_FIRST_WITHOUT_TIME = ALIGNMENT
HEAD_BYTES = 2
# Bytes that are read with a number, beyond it.
_SLACK = 24
# Masks of the numbers of 0 to 7 bytes.
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(8)], dtype=np.uint64)


@dataclass(frozen=True, kw_only=True)
class EventRecords:
    """Records, one element each, in the order of their buffers and within them. ``buffer``: index
    of its buffer. ``stamp``: of a call. ``number``: of a call its block's address; of TOUCHED and
    RUN what they have in its place. ``flag``: of what is no call the lowest three bits of its time.
    ``damaged``: indexes of the buffers whose rest was left out, because it holds no records.
    """

    kind: NDArray[np.uint8]
    buffer: NDArray[np.int64]
    stamp: NDArray[np.uint64]
    number: NDArray[np.uint64]
    size: NDArray[np.uint64]
    flag: NDArray[np.uint8]
    damaged: NDArray[np.int64]


def decode_records(
    data: NDArray[np.uint8], starts: NDArray[np.int64], first_stamps: NDArray[np.uint64]
) -> EventRecords:
    """Decode buffers that lie one after the other in ``data``, each from its start to the next."""
    ends = np.append(starts[1:], len(data)).astype(np.int64)
    padded = np.concatenate([data, np.zeros(_SLACK, np.uint8)])
    positions, damaged = _find_records(padded, starts, ends)
    head = padded[positions].astype(np.uint16) | padded[positions + 1].astype(np.uint16) << 8
    kind = (head & 15).astype(np.uint8)
    # Every eight bytes of the data as a number.
    numbers = np.ndarray((len(padded) - 7,), "<u8", padded.data, strides=(1,))
    at = positions + HEAD_BYTES
    values = []
    for shift in (4, 7, 10):
        length = (head >> shift & 7).astype(np.int64)
        values.append(numbers[at] & _MASKS[length])
        at += length
    time, number, size = values
    is_call = kind < _FIRST_WITHOUT_TIME
    low = head >> 13
    time = np.where(is_call, time << 3 | low.astype(np.uint64), 0).astype(np.uint64)
    change = np.where(is_call, number >> 1 ^ (0 - (number & 1)), 0).astype(np.uint64)
    counts = np.diff(np.searchsorted(positions, np.append(starts, len(data))))
    buffer = np.repeat(np.arange(len(starts)), counts)
    stamp = _sum_by_buffer(time, buffer) + first_stamps[buffer]
    place = _sum_by_buffer(change, buffer)
    return EventRecords(
        kind=kind,
        buffer=buffer,
        stamp=stamp,
        number=np.where(is_call, place << 3, number),
        size=size,
        flag=np.where(is_call, 0, low).astype(np.uint8),
        damaged=damaged,
    )


def _find_records(
    padded: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the records begin, and the buffers that hold something else at some place."""
    begins = np.zeros(len(padded), bool)
    is_damaged = np.zeros(len(starts), bool)
    at, end, buffer = starts.copy(), ends, np.arange(len(starts))
    while len(at := at[unfinished := at < end]):
        end, buffer = end[unfinished], buffer[unfinished]
        head = padded[at].astype(np.int64) | padded[at + 1].astype(np.int64) << 8
        length = HEAD_BYTES + (head >> 4 & 7) + (head >> 7 & 7) + (head >> 10 & 7)
        kind = head & 15
        good = (kind >= EventKind.MALLOC) & (kind <= RUN) & (at + length <= end)
        is_damaged[buffer[~good]] = True
        at, end, length, buffer = at[good], end[good], length[good], buffer[good]
        begins[at] = True
        at = at + length
    return np.flatnonzero(begins), np.flatnonzero(is_damaged)


def _sum_by_buffer(values: NDArray[np.uint64], buffer: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the running sums within each buffer, modulo 2^64."""
    sums = np.cumsum(values, dtype=np.uint64)
    if not len(sums):
        return sums
    first = np.flatnonzero(np.append(True, buffer[1:] != buffer[:-1]))
    counts = np.diff(np.append(first, len(sums)))
    result: NDArray[np.uint64] = sums - np.repeat(sums[first] - values[first], counts)
    return result
