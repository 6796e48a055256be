"""A moment of a trace as a user names it: a duration since its begin, or one of its marks."""

from dballoc.errors import UsageError
from dballoc.experiment.durations_and_sizes import parse_duration
from dballoc.trace.model import Trace

Moment = float | str
_MOST_SHOWN = 8


def parse_moment(text: object) -> Moment:
    """Return the seconds of a duration; what begins with no digit is the name of a mark. ValueError
    for what is neither.
    """
    if isinstance(text, str) and text and not text.strip()[:1].isdigit():
        return text
    return parse_duration(text)


def find_moment(trace: Trace, moment: Moment, where: str) -> int:
    """Return a moment in ns since the trace began; of several marks of that name the first.
    UsageError that begins with ``where`` if the trace has no such mark.
    """
    if not isinstance(moment, str):
        return round(moment * 1e9)
    if times := [mark.time for mark in trace.marks if mark.name == moment]:
        return min(times)
    names = list(dict.fromkeys(mark.name for mark in trace.marks))
    shown = ", ".join(names[:_MOST_SHOWN]) + (", …" if len(names) > _MOST_SHOWN else "")
    raise UsageError(f"{where}: no mark {moment!r}; {f'there are {shown}' if names else 'none'}")
