"""Collapsed stacks: a line for each, ``outermost;…;innermost NUMBER``, as FlameGraph's
stackcollapse scripts write, and its flamegraph.pl, inferno and speedscope read.
"""

from collections import defaultdict

from dballoc.profile import call_tree
from dballoc.profile.model import Profile

# The format has whole numbers, so seconds become microseconds.
_SCALE = {"seconds": 1e6}


def encode_collapsed(profile: Profile, value: str) -> bytes:
    """Encode one value by call stack, sorted; seconds as microseconds. What rounds to 0 is left
    out. KeyError if the profile has no such value.
    """
    column = profile.column(value)
    scale = _SCALE.get(profile.values[column].unit, 1)
    sums: dict[str, float] = defaultdict(float)
    for sample in profile.samples:
        if sample.stack:
            sums[
                ";".join(_escape_name(frame.function) for frame in call_tree.list_frames(sample))
            ] += sample.values[column] * scale
    lines = [
        f"{stack} {round(number)}\n" for stack, number in sorted(sums.items()) if round(number) > 0
    ]
    return "".join(lines).encode("utf-8", "backslashreplace")


def _escape_name(name: str) -> str:
    """Return a name without the characters that separate names and lines."""
    return " ".join(name.replace(";", ":").split()) or "[unnamed]"
