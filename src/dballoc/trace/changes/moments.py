"""A moment of a trace as a user names it: a duration since its begin, or one of its marks."""

from dballoc.experiment.durations_and_sizes import parse_duration
from dballoc.ground.errors import UsageError
from dballoc.trace.changes.trace_parts import get_duration
from dballoc.trace.model import Trace

Moment = float | str
_MOST_SHOWN = 8


def parse_moment(text: object) -> Moment:
    """Return the seconds of a duration; what begins with no digit is the name of a mark. Raises
    ValueError for what is neither.
    """
    if isinstance(text, str) and text and not text.strip()[:1].isdigit():
        return text
    return parse_duration(text)


def find_moment(trace: Trace, moment: Moment, where: str) -> int:
    """Return a moment in ns since the trace began; of several marks of that name the first. Raises
    UsageError that begins with ``where`` if the trace has no such mark.
    """
    if not isinstance(moment, str):
        return round(moment * 1e9)
    if times := [mark.time for mark in trace.marks if mark.name == moment]:
        return min(times)
    names = list(dict.fromkeys(mark.name for mark in trace.marks))
    shown = ", ".join(names[:_MOST_SHOWN]) + (", …" if len(names) > _MOST_SHOWN else "")
    raise UsageError(f"{where}: no mark {moment!r}; {f'there are {shown}' if names else 'none'}")


def find_window(trace: Trace, text: str) -> tuple[float, float]:
    """Return the seconds of ``FROM..TO``, two moments; either may be missing. Raises UsageError for
    another form, or a stretch in which there is nothing.
    """
    first, dots, last = text.partition("..")
    length = get_duration(trace) / 1e9
    try:
        moments = parse_moment(first or "0s"), parse_moment(last) if last else length
    except ValueError as error:
        raise UsageError(f"--window: {error}") from None
    begin, end = (find_moment(trace, moment, "--window") / 1e9 for moment in moments)
    if not dots or not begin < end or begin >= length:
        raise UsageError(
            f"--window: {text!r} is no stretch of the trace, which is {length:,.6g} s long; write "
            "it like 10s..60s, or with marks"
        )
    return begin, end
