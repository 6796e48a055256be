"""How large a trace may be, and whether this machine has the memory to read it."""

import psutil

from dballoc.ground.numbers import with_unit

MOST_EVENTS = 100_000_000
MOST_THREADS = 65_536
# Bytes of memory that reading takes, and compiling too, at most.
_BYTES_OF_EVENT = 150


def explain_too_large(events: int, threads: int) -> str | None:
    """Return why a trace of so many events and threads cannot be read on this machine, or None if
    it can.
    """
    if threads > MOST_THREADS:
        return f"it has {threads:,} threads; a trace has at most {MOST_THREADS:,}"
    if events > MOST_EVENTS:
        return f"it has {events:,} events; a trace has at most {MOST_EVENTS:,}"
    return explain_lack_of_memory(events, psutil.virtual_memory().available)


def explain_file_too_large(size: int) -> str | None:
    """Return why this machine has no memory for so many bytes of a file, or None if it has."""
    available = psutil.virtual_memory().available
    if size <= available:
        return None
    return f"its {with_unit(size)} must be in memory, of which {with_unit(available)} are available"


def explain_lack_of_memory(events: int, available: int) -> str | None:
    """Return why so many ``available`` bytes do not suffice, or None if they do. Pure."""
    needed = events * _BYTES_OF_EVENT
    if needed <= available:
        return None
    return (
        f"its {events:,} events take up to {with_unit(needed)} of memory to read, and "
        f"{with_unit(available)} are available"
    )
