"""Read the text that glibc's ``mtrace()`` writes to the file of ``MALLOC_TRACE``.

A line is ``@ CALLER SIGN POINTER [SIZE]``, with the caller where it is known, numbers in
hexadecimal (glibc's manual, "Allocation Debugging", does not draw it; its mtrace script reads it
so). ``+`` is an allocation, ``-`` a free, ``<`` and ``>`` on two lines what realloc was given and
returned, ``!`` a realloc that failed, ``= Start`` and ``= End`` the ends. There are neither threads
nor times.
"""

import re
from pathlib import Path

from dballoc import readers
from dballoc.readers import Unfit, shown
from dballoc.trace.importers.call_rows import LONGEST_LINE, MOST_BYTES, STEP, Call, CallRows
from dballoc.trace.model import EventKind, Recording

_LINE = re.compile(
    rb"(?:@ .* )?(?:(=) (?:Start|End)"
    rb"|([-+<>!]) (0x[0-9a-f]{1,16}|\(nil\))(?: (0x[0-9a-f]{1,16}|0))?)\s*"
)
NOTES = (
    "times, of which mtrace writes none: its calls are put 1 µs apart",
    "threads, which mtrace does not tell apart: all calls are one thread's",
    "calloc and alignment, which mtrace writes as plain allocations",
)


def read_mtrace(path: Path) -> Recording:
    """Read a file, packed by gzip if its name ends in .gz. Unfit, with the line, for anything
    else.
    """
    rows = CallRows()
    pending = 0
    for number, line in enumerate(readers.lines(path, LONGEST_LINE, MOST_BYTES), 1):
        match = _LINE.fullmatch(line)
        if not match:
            text = shown(line[:80].decode(errors="replace").strip())
            raise Unfit(f"line {number}: not a line of mtrace: {text}")
        _, sign, pointer, size_word = match.groups()
        if sign in (None, b"!"):
            continue
        address = 0 if pointer == b"(nil)" else int(pointer, 16)
        size = int(size_word or b"0", 16)
        if size >= 2**62:
            raise Unfit(f"line {number}: a size that no call can have")
        if sign == b"<":
            pending = address
            continue
        kind, old = EventKind.MALLOC, 0
        if sign == b"-":
            kind = EventKind.FREE
        elif sign == b">" and pending:
            kind, old = EventKind.REALLOC, pending
        pending = 0
        if address:
            clock = number * STEP
            rows.add_call(
                0,
                Call(kind=kind, before=clock, after=clock, address=address, old=old, size=size),
            )
    return rows.build_recording("imported from glibc's mtrace", NOTES)
