"""Turn a recording's stamps into times, by the clock records in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dballoc.trace.recording.chunk_file import Torn

# The longest recording, ns: more than three years. Float64 holds all of its nanoseconds exactly up
# to 104 days, and then every other one.
_LONGEST = 10**17


@dataclass(frozen=True, kw_only=True)
class StampTimes:
    """Stamps at which the time is known, and those times in ns since the first of them."""

    first: int
    stamps: NDArray[np.float64]
    times: NDArray[np.float64]

    @classmethod
    def from_clocks(cls, clocks: Sequence[tuple[int, int]]) -> "StampTimes":
        """Take (stamp, CLOCK_MONOTONIC in ns) pairs; those that run backwards are left out. Raises
        Torn if fewer than two are left.
        """
        rising = list(clocks[:1])
        for stamp, time in clocks[1:]:
            if stamp > rising[-1][0] and time > rising[-1][1]:
                rising.append((stamp, time))
        if len(rising) < 2 or rising[-1][1] - rising[0][1] > _LONGEST:
            raise Torn("it does not say when its events were")
        first, began = rising[0]
        return cls(
            first=first,
            stamps=np.array([stamp - first for stamp, _ in rising], np.float64),
            times=np.array([time - began for _, time in rising], np.float64),
        )

    @property
    def seconds(self) -> float:
        """The time from the first to the last clock record."""
        return float(self.times[-1]) / 1e9

    def to_ns(self, stamps: ArrayLike) -> NDArray[np.int64]:
        """Return the times of stamps, ns since the recording began: between two clock records in
        proportion, after the last at the rate of the last two. Never before 0.
        """
        since = np.asarray(stamps, np.uint64).astype(np.float64) - float(self.first)
        between = np.interp(since, self.stamps, self.times)
        rate = (self.times[-1] - self.times[-2]) / (self.stamps[-1] - self.stamps[-2])
        beyond = np.maximum(since - self.stamps[-1], 0.0) * rate
        result: NDArray[np.int64] = np.minimum(between + beyond, _LONGEST).astype(np.int64)
        return result
