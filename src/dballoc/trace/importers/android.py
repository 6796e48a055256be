"""Read the text of Android's ``record_allocs``, which its ``memory_replay`` plays.

A line is ``TID: CALL POINTER …``, as bionic's malloc_debug documents it (libc/malloc_debug
/README.md): ``malloc P SIZE``, ``calloc P COUNT SIZE``, ``realloc NEW OLD SIZE``, ``memalign P
ALIGNMENT SIZE``, ``free P``, ``thread_done 0x0``. Newer ones end in two times in ns, of the call's
begin and end (of ``thread_done`` in one).
"""

import re
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.readers import Unfit, shown
from dballoc.trace.importers.call_rows import LONGEST_LINE, MOST_BYTES, STEP, Call, CallRows
from dballoc.trace.model import EventKind, Recording

_LINE = re.compile(rb"\s*([0-9]{1,9}): ([a-z_]{1,20}) (\S{1,32})((?: \S{1,32}){0,5})\s*")
# ns: beyond any clock, but what a recording holds.
LATEST = 2**61
_DONE = re.compile(rb"\s*([0-9]{1,9}): thread_done \S{1,32}(?: ([0-9]{1,19}))?\s*")
_ADDRESS = re.compile(rb"(?:0x)?[0-9a-f]{1,16}")
# Numbers after the pointer.
_ARGUMENTS = {b"malloc": 1, b"calloc": 2, b"realloc": 2, b"memalign": 2, b"free": 0}
_KINDS = {
    b"malloc": EventKind.MALLOC,
    b"calloc": EventKind.CALLOC,
    b"realloc": EventKind.REALLOC,
    b"memalign": EventKind.ALIGNED,
    b"free": EventKind.FREE,
}


def read_android(path: Path) -> tuple[Recording, bool]:
    """Read a file, packed by gzip if its name ends in .gz; and whether it has times. Unfit, with
    the line, for anything else.
    """
    rows = CallRows()
    timed: bool | None = None
    for number, line in enumerate(readers.lines(path, LONGEST_LINE, MOST_BYTES), 1):
        if not line.strip():
            continue
        try:
            end = _DONE.fullmatch(line)
            parsed = None if end else parse_line(line, number)
        except ValueError as error:
            raise Unfit(
                f"line {number}: {error}: {shown(line[:80].decode(errors='replace').strip())}"
            ) from None
        if end:
            time = min(int(end[2]), LATEST) if end[2] else None
            rows.end_thread(int(end[1]), time if timed else number * STEP)
        if parsed is None:
            continue
        tid, call, has_times = parsed
        if timed not in (None, has_times):
            raise Unfit(f"line {number}: only some lines have times")
        timed = has_times
        rows.add_call(tid, call)
    notes = () if timed else ("times, of which the file has none: its calls are put 1 µs apart",)
    recording = rows.build_recording("imported from Android's record_allocs", notes)
    return recording, bool(timed)


def parse_line(line: bytes, number: int) -> tuple[int, Call, bool] | None:
    """Return the thread's id, the call, and whether the line has times; without them the call is at
    its line's ``number`` of steps. None for a line that is no call, or one that failed, whose size
    may be any. Raises ValueError for another line.
    """
    match = _LINE.fullmatch(line)
    if not match:
        raise ValueError("not a line of record_allocs")
    tid, name, pointer, rest = match.groups()
    if name not in _KINDS:
        raise ValueError("a call that is not known")
    words = rest.split()
    count = _ARGUMENTS[name]
    if len(words) not in (count, count + 2):
        raise ValueError("too few or too many numbers")
    address = _parse_address(pointer)
    if address == 0 and not (name == b"realloc" and not words[1].strip(b"0")):
        return None
    before, after = (
        [_parse_number(word) for word in words[count:]]
        if len(words) > count
        else [number * STEP] * 2
    )
    call = _make_call(name, address, words[:count], (before, after))
    if after < before:
        raise ValueError("a call that ends before it begins")
    return None if address == 0 and not call.old else (int(tid), call, len(words) > count)


def _make_call(name: bytes, address: int, words: list[bytes], times: tuple[int, int]) -> Call:
    old = size = alignment = 0
    match name:
        case b"malloc":
            size = _parse_number(words[0])
        case b"calloc":
            size = _parse_number(words[0]) * _parse_number(words[1])
        case b"realloc":
            old, size = _parse_address(words[0]), _parse_number(words[1])
        case b"memalign":
            alignment, size = _parse_number(words[0]), _parse_number(words[1])
    if size >= 2**62 or alignment >= 2**32:
        raise ValueError("a number that no call can have")
    # As model.ThreadCalls has it: a free has its first stamp, an allocation its last one.
    before, after = times
    if name == b"free":
        after = before
    elif name != b"realloc":
        before = after
    return Call(
        kind=_KINDS[name],
        before=before,
        after=after,
        address=address,
        old=old,
        size=size,
        alignment=alignment,
    )


def _parse_address(word: bytes) -> int:
    if not _ADDRESS.fullmatch(word):
        raise ValueError("not an address")
    return int(word, 16)


def _parse_number(word: bytes) -> int:
    if not word.isdigit() or len(word) > 19:
        raise ValueError("not a number")
    value = int(word)
    if value >= 2**62:
        raise ValueError("a number that no call can have")
    return value
