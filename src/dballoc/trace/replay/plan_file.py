"""The plan: a trace as the engine reads it, one file of fixed-width records."""

from dataclasses import dataclass
from pathlib import Path

from dballoc.trace.model import Trace


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """A plan on disk, and what of the trace it does not hold.

    ``marks``: their names, in the file's order. ``events``: calls of malloc's functions in it;
    ``left_out``: events of the trace that cannot be replayed (frees of blocks older than it).
    ``duration``: ns of the trace.
    """

    path: Path
    threads: int
    events: int
    left_out: int
    duration: int
    marks: tuple[str, ...]


def write_plan(trace: Trace, path: Path) -> ReplayPlan:
    """Write the plan of a trace to a new file. UsageError if the trace cannot be replayed."""
    raise NotImplementedError
