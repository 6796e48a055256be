"""Turn a file of another tool into a trace."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from dballoc import readers
from dballoc.readers import Unfit
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.importers.android import read_android
from dballoc.trace.importers.glibc_mtrace import read_mtrace
from dballoc.trace.importers.glibc_trace import RECORD, is_glibc_trace, read_glibc_trace
from dballoc.trace.model import Recording, Trace

ImportFormat = Literal["glibc", "android"]


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
    return (read_glibc_trace(path) if is_glibc_trace(beginning) else read_mtrace(path)), False
