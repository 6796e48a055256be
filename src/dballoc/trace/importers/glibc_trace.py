"""Read the file of glibc's malloc tracing (the branch ``dj/malloc``, whose ``trace_run`` replays
it), as a 64-bit little-endian machine writes it.

Records of 64 bytes, in the order in which calls reserved them::

    int32   thread     the thread's id
    uint32  type       bits 0-7: 1 malloc, 2 calloc, 3 free, 4 realloc, 5 memalign, 6 valloc,
                       7 pvalloc, 8 posix_memalign, 255 the first record, 0 unused; bit 14:
                       realloc became malloc and free, which follow as records of their own
    uint64  ptr1       the block freed, or given to realloc; posix_memalign's error;
                       of the first record 0x1234
    uint64  ptr2       the block returned
    uint64  size       bytes asked for; of the first record 8, a pointer's bytes
    uint64  size2      the alignment, of memalign and posix_memalign
    uint64  size3, 2 × 8 bytes of padding

There are no times.
"""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dballoc.ground import readers
from dballoc.ground.readers import Unfit
from dballoc.trace.importers.call_rows import MOST_THREADS, STEP, make_recording, make_thread
from dballoc.trace.model import EventKind, Recording, ThreadCalls

RECORD = np.dtype(
    [
        ("thread", "<i4"),
        ("type", "<u4"),
        ("ptr1", "<u8"),
        ("ptr2", "<u8"),
        ("size", "<u8"),
        ("size2", "<u8"),
        ("rest", "V24"),
    ]
)
_MOST_RECORDS = 100_000_000
_FIRST, _FIRST_POINTER = 255, 0x1234
_FREE, _REALLOC, _MEMALIGN, _VALLOC, _PVALLOC, _POSIX = 3, 4, 5, 6, 7, 8
_BECAME_MALLOC = 1 << 14
_KINDS = np.array(  # by type
    [
        0,
        EventKind.MALLOC,
        EventKind.CALLOC,
        EventKind.FREE,
        EventKind.REALLOC,
        *[EventKind.ALIGNED] * 4,
    ],
    np.uint8,
)
_PAGE = 4096
NOTES = ("times, of which the file has none: its calls are put 1 µs apart",)


def is_glibc_trace(beginning: bytes) -> bool:
    """Whether a file begins with this format's first record."""
    if len(beginning) < RECORD.itemsize:
        return False
    first = np.frombuffer(beginning, RECORD, 1)[0]
    return int(first["type"]) & 0xFF == _FIRST and int(first["ptr1"]) == _FIRST_POINTER


def read_glibc_trace(path: Path) -> Recording:
    """Read a file. Raises Unfit for anything else, a torn last record excepted."""
    with readers.open_file(path) as file:
        count = os.fstat(file.fileno()).st_size // RECORD.itemsize
        if count > _MOST_RECORDS:
            raise Unfit(f"has more than {_MOST_RECORDS:,} records")
        try:
            records = np.fromfile(file, RECORD, count)
        except OSError as error:
            raise Unfit(f"cannot be read: {readers.reason(error)}") from None
    if not is_glibc_trace(records[:1].tobytes()):
        raise Unfit("does not begin with the first record of glibc's malloc tracing")
    if int(records[0]["size"]) != 8:
        raise Unfit("was written by a 32-bit program; only 64-bit ones can be read")
    return build_recording(records[1:])


def build_recording(records: NDArray) -> Recording:
    """Return the calls of these records. Raises Unfit for a type that is not known."""
    types = records["type"] & 0xFF
    if (types > _POSIX).any():
        place = int(np.flatnonzero(types > _POSIX)[0]) + 1
        raise Unfit(f"record {place} is of a type that is not known")
    used = (types != 0) & ~_find_calls_without_effect(records, types)
    used[_find_inner_records(records)] = False
    order = np.flatnonzero(used)
    records, types = records[order], types[order]
    threads: list[ThreadCalls] = []
    for tid in np.unique(records["thread"]).tolist():
        if len(threads) == MOST_THREADS:
            raise Unfit(f"has more than {MOST_THREADS:,} threads")
        chosen = np.flatnonzero(records["thread"] == tid)
        columns = _make_columns(records[chosen], types[chosen], order[chosen])
        threads.append(make_thread(len(threads), tid, columns))
    return make_recording(threads, "imported from glibc's malloc tracing", NOTES)


def _find_calls_without_effect(records: NDArray, types: NDArray) -> NDArray[np.bool_]:
    """Return which calls changed nothing: those that failed, and frees of no block. A realloc to
    nothing returned no block either, and did free.
    """
    failed = (records["ptr2"] == 0) & (types != _FREE)
    frees_by_realloc = (types == _REALLOC) & (records["size"] == 0) & (records["ptr1"] != 0)
    return (
        (failed & ~frees_by_realloc)
        | ((types == _POSIX) & (records["ptr1"] != 0))
        | ((types == _FREE) & (records["ptr1"] == 0))
    )


def _find_inner_records(records: NDArray) -> list[int]:
    """Return the places of mallocs and frees that a realloc before them stands for."""
    inner = []
    flagged = ((records["type"] & 0xFF) == _REALLOC) & (records["type"] & _BECAME_MALLOC != 0)
    for place in np.flatnonzero(flagged).tolist():
        outer = records[place]
        for following in range(place + 1, min(place + 9, len(records))):
            record = records[following]
            kind = int(record["type"]) & 0xFF
            same = record["thread"] == outer["thread"]
            if same and (
                (kind == 1 and record["ptr2"] == outer["ptr2"])
                or (kind == _FREE and record["ptr1"] == outer["ptr1"])
            ):
                inner.append(following)
    return inner


def _make_columns(records: NDArray, types: NDArray, order: NDArray) -> dict[str, NDArray]:
    alignment = np.where((types == _MEMALIGN) | (types == _POSIX), records["size2"], 0)
    alignment[(types == _VALLOC) | (types == _PVALLOC)] = _PAGE
    if (alignment >= 2**32).any() or (records["size"] >= 2**62).any():
        raise Unfit("has a size or an alignment that no call can have")
    clock = (order + 1) * STEP
    freeing = types == _FREE
    return {
        "kind": _KINDS[types],
        "before": clock,
        "after": clock,
        "address": np.where(freeing, records["ptr1"], records["ptr2"]),
        "old": np.where(types == _REALLOC, records["ptr1"], 0),
        "size": np.where(freeing, 0, records["size"]),
        "alignment": alignment,
        "site": np.zeros(len(types), np.uint32),
    }
