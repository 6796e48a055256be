"""Collapsed stacks: a line for each, ``outermost;…;innermost NUMBER``, as FlameGraph's
stackcollapse scripts write, and its flamegraph.pl, inferno and speedscope read.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.profile import call_tree
from dballoc.profile.model import Profile

# The format has whole numbers, so seconds become microseconds.
_SCALE = {"seconds": 1e6}

# A stack has at most so many frames, and all different stacks of a file together.
MOST_FRAMES_OF_STACK = 2_000
_MOST_FRAMES = 10_000_000
# Beyond it sums of samples could become infinite; that of our profile files too.
_LARGEST = 1e30

_NUMBER = re.compile(r"(\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,2})?)%?")
_SECOND_NUMBER = re.compile(r".* \d+(?:\.\d+)?", re.DOTALL)

# Functions, the outermost first.
Functions = tuple[str, ...]


def encode_collapsed(profile: Profile, value: str) -> bytes:
    """Encode one value by call stack, sorted; seconds as microseconds. What rounds to 0 is left
    out. Raises KeyError if the profile has no such value.
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


def parse_collapsed(text: str, origin: str) -> dict[Functions, float]:
    """Return the sum of each stack, whose functions are as the file has them. The numbers may have
    fractions or a percent sign. UsageError, ``FILE:LINE: …``, for a line that is no stack, for a
    difference of two profiles, and if there are no stacks.
    """
    sums = StackSums(origin)
    doubled = lines = last = 0
    for last, line in iterate_lines(text):
        if not (line := line.strip()):
            continue
        stack, _, number = line.rpartition(" ")
        if not stack or not (match := _NUMBER.fullmatch(number)):
            raise UsageError(
                f"{origin}:{last}: {readers.shown(line)} is not a collapsed stack like "
                "main;parse;malloc 12"
            )
        lines, doubled = lines + 1, doubled + bool(_SECOND_NUMBER.fullmatch(stack))
        sums.add(tuple(name.strip() for name in stack.split(";")), float(match[1]), last)
    if lines and doubled == lines:
        raise UsageError(
            f"{origin}:{last}: every line has two numbers: the difference of two profiles; import "
            "each profile by itself"
        )
    return dict(sums.finish())


class StackSums:
    """The sums of stacks while a file is read, within bounds."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._sums: dict[Functions, float] = {}
        self._frames = 0

    def add(self, stack: Functions, number: float, line: int) -> None:
        """Add to a stack's sum. Raises UsageError if the stack, or all together, are too large."""
        if stack not in self._sums:
            self._frames += len(stack)
            if len(stack) > MOST_FRAMES_OF_STACK or self._frames > _MOST_FRAMES:
                of = "a stack" if len(stack) > MOST_FRAMES_OF_STACK else "stacks"
                most = MOST_FRAMES_OF_STACK if of == "a stack" else _MOST_FRAMES
                raise UsageError(f"{self._origin}:{line}: {of} of more than {most:,} frames")
            self._sums[stack] = 0.0
        self._sums[stack] += number
        if not math.isfinite(number) or self._sums[stack] > _LARGEST:
            raise UsageError(f"{self._origin}:{line}: a number that is too large")

    def finish(self) -> Mapping[Functions, float]:
        """Return the sums above 0. Raises UsageError if there are none."""
        sums = {stack: number for stack, number in self._sums.items() if number > 0}
        if not sums:
            raise UsageError(f"{self._origin}:1: no stacks in it")
        return sums


def iterate_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, without a copy of the text, which may be large."""
    start, number = 0, 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        yield number, text[start:end]
        start = end + 1
