"""A profile, whatever it is of: values by call stack."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Frame(NamedTuple):
    """A function on a stack. ``function``: readable, or ``module+0x…`` where no symbol covers the
    address; ``named``: one does. ``module``: the file's base name, ``[kernel]`` for the kernel's;
    ``file``, ``line``: of the source, where it is known.
    """

    function: str
    module: str = ""
    named: bool = True
    file: str = ""
    line: int = 0


class Value(NamedTuple):
    """What a number of a sample is: ``key`` (live, waited, …), ``unit`` (bytes, objects, seconds,
    count), ``title``. An estimate ``live`` may come with ``live.variance``, which is the variance
    of each sample's number (see ``table.VARIANCE``).
    """

    key: str
    unit: str
    title: str


@dataclass(frozen=True)
class Sample:
    """``stack``: the thread's start first, the innermost frame last. ``values``: one for each of
    the profile's, scaled to the whole already (no count of samples). ``truncated``: the outermost
    frames are missing. ``labels``: thread, user, kind, … .
    """

    stack: tuple[Frame, ...]
    values: tuple[float, ...]
    truncated: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """``title`` says of what; ``facts``: period, losses, sampling interval, … for the reader;
    ``taken_at``: Unix time; ``seconds`` that it covers, 0 for a state.
    """

    title: str
    values: tuple[Value, ...]
    samples: list[Sample]
    taken_at: float = 0.0
    seconds: float = 0.0
    facts: Mapping[str, str] = field(default_factory=dict)

    def column(self, key: str) -> int:
        """The index of a value in every sample's ``values``; KeyError if the profile has none of
        that name.
        """
        for i, value in enumerate(self.values):
            if value.key == key:
                return i
        raise KeyError(key)

    def total(self, key: str) -> float:
        """The sum over all samples."""
        i = self.column(key)
        return sum(sample.values[i] for sample in self.samples)
