"""A profile of anything: values by call stack."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Frame(NamedTuple):
    """A function on a stack. ``function``: its demangled name, or ``module+0x…`` if no symbol
    covers the address; ``named``: whether one does; ``module``: the file's base name, ``[kernel]``
    for the kernel's; ``file``, ``line``: of the source, if they are known.
    """

    function: str
    module: str = ""
    named: bool = True
    file: str = ""
    line: int = 0


class Value(NamedTuple):
    """What a number of a sample is: ``key`` (live, waited, …), ``unit`` (bytes, objects, seconds,
    count), ``title``. An estimate ``live`` may come with ``live.variance``, the variance of each
    sample's number (see ``profile_tables.VARIANCE``).
    """

    key: str
    unit: str
    title: str


@dataclass(frozen=True)
class Sample:
    """A call stack and its numbers. ``stack``: the thread's start first, the innermost frame last;
    ``values``: a number for each of the profile's values, scaled up to the process, not a count of
    samples; ``truncated``: the outermost frames are missing; ``labels``: thread, user, kind, … .
    """

    stack: tuple[Frame, ...]
    values: tuple[float, ...]
    truncated: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A profile. ``title``: its subject; ``facts``: period, losses, sampling interval, … for the
    reader; ``taken_at``: Unix time; ``seconds`` that it covers, 0 for a moment.
    """

    title: str
    values: tuple[Value, ...]
    samples: list[Sample]
    taken_at: float = 0.0
    seconds: float = 0.0
    facts: Mapping[str, str] = field(default_factory=dict)

    def read_count(self, fact: str) -> int:
        """Return a fact that is a number; 0 if it is missing, or not one."""
        text = self.facts.get(fact, "")
        return int(text) if re.fullmatch("[0-9]{1,15}", text) else 0

    def column(self, key: str) -> int:
        """Return the index of a value in every sample's ``values``. Raises KeyError if the profile
        has no such value.
        """
        for i, value in enumerate(self.values):
            if value.key == key:
                return i
        raise KeyError(key)

    def total(self, key: str) -> float:
        """Return the sum of a value over all samples. Raises KeyError if the profile has no such
        value.
        """
        i = self.column(key)
        return sum(sample.values[i] for sample in self.samples)
