"""Check how far a trace's file is whole."""

from dataclasses import dataclass
from pathlib import Path

from dballoc import readers
from dballoc.errors import UsageError
from dballoc.trace.trace_file import layout
from dballoc.trace.trace_file.layout import BlockKind
from dballoc.trace.trace_file.read_trace import (
    LIMITS,
    DamagedTrace,
    TraceLimits,
    parse_header,
    parse_trace,
    read_blocks,
)


@dataclass(frozen=True, kw_only=True)
class TraceCondition:
    """``complaint``: what is wrong, empty if nothing is. Up to there the file has ``blocks`` whole
    blocks in ``bytes`` bytes, with ``events`` of the ``declared`` events.
    """

    complaint: str
    blocks: int
    bytes: int
    events: int
    declared: int


def verify_trace(path: Path, limits: TraceLimits = LIMITS) -> TraceCondition:
    """Check every block, and then that the events make a trace. UsageError if the file cannot be
    read.
    """
    blocks, events, declared, complaint = 0, 0, 0, ""
    size = len(layout.MAGIC)
    try:
        with readers.open_file(path) as file:
            try:
                for head, content in read_blocks(file, limits):
                    if blocks == 0:
                        header = parse_header(head, content, limits)
                        declared = sum(thread.events for thread in header.threads)
                    blocks += 1
                    events += head.items if head.kind == BlockKind.EVENTS else 0
                    size += layout.HEAD_BYTES + head.packed
                size = file.tell()
                file.seek(0)
                parse_trace(file, limits)
            except DamagedTrace as error:
                complaint = str(error)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {readers.reason(error)}") from None
    except readers.Unfit as error:
        raise UsageError(f"{path}: {error}") from None
    return TraceCondition(
        complaint=complaint,
        blocks=blocks,
        bytes=size if blocks else 0,
        events=events,
        declared=declared,
    )
