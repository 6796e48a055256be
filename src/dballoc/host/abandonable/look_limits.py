"""How long, and with how much memory and CPU time, a child may look at a target."""

import math
import os
from dataclasses import dataclass

from dballoc.ground.errors import UsageError

# Seconds that a look may take. For tests, and for a server that needs longer.
VARIABLE = "DBALLOC_LOOK_SECONDS"
_SECONDS = 15.0
# Of a look's time: what one touch may take, a look for a scraper, looking up symbols, and reading
# a server that an experiment is made after.
_TOUCH, _SCRAPE, _SYMBOLS, _LIKENESS = 2 / 15, 4.5 / 15, 20, 4
_LONG_CPU_SECONDS = 300
_CPU_SECONDS = 12  # above what a snapshot stops at by itself (read_limits.SECONDS)
_MEMORY = 512 << 20  # bytes of address space, beside what the process has when it is forked


@dataclass(frozen=True, kw_only=True)
class LookLimits:
    """``seconds``: for a look in all; ``patience``: seconds for one touch; ``cpu``: seconds of CPU
    for a look; ``memory``: bytes that it may map.
    """

    seconds: float
    patience: float
    cpu: int = _CPU_SECONDS
    memory: int = _MEMORY


def look_limits() -> LookLimits:
    """Return the limits of a look for somebody who waits. Raises UsageError if the environment has
    a wrong number.
    """
    seconds = _read_seconds()
    return LookLimits(seconds=seconds, patience=seconds * _TOUCH)


def scrape_limits() -> LookLimits:
    """Return the limits of a look for a scraper. Raises UsageError as above."""
    seconds = _read_seconds()
    return LookLimits(seconds=seconds * _SCRAPE, patience=seconds * _TOUCH / 2)


def symbol_limits() -> LookLimits:
    """Return the limits of looking functions up in files, which may first be downloaded
    (debuginfod). Raises UsageError as above.
    """
    seconds = _read_seconds()
    return LookLimits(seconds=seconds * _SYMBOLS, patience=seconds * _TOUCH, cpu=_LONG_CPU_SECONDS)


def unanswered_seconds() -> float:
    """Return how long a verb that reads files of others waits for a file system. Raises UsageError
    as above.
    """
    return _read_seconds() * _LIKENESS


def likeness_limits() -> LookLimits:
    """Return the limits of reading a server that an experiment is made after. Raises UsageError as
    above.
    """
    seconds = _read_seconds()
    return LookLimits(seconds=seconds * _LIKENESS, patience=seconds * _TOUCH, cpu=_LONG_CPU_SECONDS)


def _read_seconds() -> float:
    text = os.environ.get(VARIABLE, "")
    try:
        seconds = float(text) if text else _SECONDS
    except ValueError:
        seconds = math.nan
    if not 0.1 <= seconds <= 86_400:
        raise UsageError(f"{VARIABLE}={text!a:.40}: give seconds from 0.1 to 86400")
    return seconds
