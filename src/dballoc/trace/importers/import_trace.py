"""Turn a file of another tool into a trace."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

from dballoc.ground import readers
from dballoc.ground.readers import Unfit, shown
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.importers.android import read_android
from dballoc.trace.importers.call_rows import LONGEST_LINE, MOST_BYTES, STEP, Call, CallRows
from dballoc.trace.importers.glibc_trace import RECORD, is_glibc_trace, read_glibc_trace
from dballoc.trace.model import EventKind, Recording, Trace

ImportFormat = Literal["glibc", "android"]

_MTRACE_LINE = re.compile(
    rb"(?:@ .* )?(?:(=) (?:Start|End)"
    rb"|([-+<>!]) (0x[0-9a-f]{1,16}|\(nil\))(?: (0x[0-9a-f]{1,16}|0))?)\s*"
)
_MTRACE_NOTES = (
    "times, of which mtrace writes none: its calls are put 1 µs apart",
    "threads, which mtrace does not tell apart: all calls are one thread's",
    "calloc and alignment, which mtrace writes as plain allocations",
)


def import_trace(path: Path, form: ImportFormat) -> Trace:
    """Return the trace of a file. It counts as recorded from the start unless it frees blocks that
    it did not allocate. UsageError if it is not of this format.
    """
    with readers.naming(path):
        recording, timed = _read_recording(path, form)
    trace = compile_recording(recording)
    compiled = replace(trace.compiled, timed=timed)
    facts = replace(trace.facts, from_start=not compiled.unknown_frees)
    return replace(trace, facts=facts, compiled=compiled)


def _read_recording(path: Path, form: ImportFormat) -> tuple[Recording, bool]:
    if form == "android":
        return read_android(path)
    with readers.open_file(path) as file:
        try:
            beginning = file.read(RECORD.itemsize)
        except OSError as error:
            raise Unfit(f"cannot be read: {readers.reason(error)}") from None
    return (read_glibc_trace(path) if is_glibc_trace(beginning) else _read_mtrace(path)), False


def _read_mtrace(path: Path) -> Recording:
    """Read the text that glibc's ``mtrace()`` writes to the file of ``MALLOC_TRACE``, packed by
    gzip if its name ends in .gz. Unfit, with the line, for anything else.

    A line is ``@ CALLER SIGN POINTER [SIZE]``, with the caller where it is known, numbers in
    hexadecimal (glibc's manual, "Allocation Debugging", does not draw it; its mtrace script reads
    it so). ``+`` is an allocation, ``-`` a free, ``<`` and ``>`` on two lines what realloc was
    given and returned, ``!`` a realloc that failed, ``= Start`` and ``= End`` the ends. There are
    neither threads nor times.
    """
    rows = CallRows()
    pending = 0
    for number, line in enumerate(readers.lines(path, LONGEST_LINE, MOST_BYTES), 1):
        match = _MTRACE_LINE.fullmatch(line)
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
    return rows.build_recording("imported from glibc's mtrace", _MTRACE_NOTES)
