"""Read what is to be replayed: a compiled trace, or a recording as its recorder wrote it."""

from pathlib import Path

from dballoc.errors import UsageError
from dballoc.trace.model import Trace


def read_any_trace(path: Path) -> Trace:
    """Read a compiled trace, or a recording's directory. UsageError if it is neither."""
    raise UsageError(f"{path}: not a trace")
