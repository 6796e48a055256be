"""Read what is to be replayed: a compiled trace, or a recording as its recorder wrote it."""

from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.model import Trace
from dballoc.trace.recording.read_recording import read_recording
from dballoc.trace.trace_file.check_trace import InvalidTrace, check_sizes
from dballoc.trace.trace_file.layout import MAGIC
from dballoc.trace.trace_file.read_trace import read_trace


def read_any_trace(path: Path) -> Trace:
    """Read a compiled trace, or compile a recording. UsageError, in one line, if it is neither."""
    with readers.naming(path), readers.open_file(path) as file:
        is_compiled = file.read(len(MAGIC)) == MAGIC
    if is_compiled:
        return read_trace(path)
    try:
        trace = compile_recording(read_recording(path))
        check_sizes(trace.objects)
    except (Failure, InvalidTrace) as error:
        raise UsageError(f"{path}: not a trace, and as a recording: {error}") from None
    return trace
