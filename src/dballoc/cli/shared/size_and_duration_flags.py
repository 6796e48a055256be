"""Parse sizes and durations that are flags."""

from dballoc.experiment.durations_and_sizes import parse_duration, parse_size
from dballoc.ground.errors import UsageError


def size(text: str, flag: str) -> int:
    """Return the bytes of ``512K``. UsageError that names the flag."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def duration(text: str, flag: str) -> float:
    """Return the seconds of ``10s``. UsageError that names the flag."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
