"""``dballoc trace anonymise``: a trace without names."""

from dballoc.cli.shared.safe_output import say
from dballoc.cli.trace_verbs.written_trace import OutFlag, TraceArgument, write_and_tell
from dballoc.trace.changes.anonymise_trace import LEFT, REMOVED, anonymise_trace
from dballoc.trace.trace_file.read_trace import read_trace


def anonymise(trace: TraceArgument, out: OutFlag) -> None:
    """Remove every name from a trace, to give it to others: of threads, marks and the program.

    A trace never holds what was in memory.
    """
    write_and_tell(anonymise_trace(read_trace(trace)), out)
    say(f"Removed: {REMOVED}")
    say(f"Left: {LEFT}")
