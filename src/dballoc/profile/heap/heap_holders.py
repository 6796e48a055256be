"""A heap profile's values by the function that memory, and time in malloc, is attributed to."""

from collections.abc import Sequence

from dballoc.catalogue import wrappers
from dballoc.profile.heap import heap_profile
from dballoc.profile.model import Profile


def sum_by_holder(profile: Profile, values: Sequence[str]) -> dict[str, list[float]]:
    """Return the sums of these values by
    :func:`dballoc.profile.heap.heap_profile.find_dominant_frame` function. KeyError if the profile
    lacks a value.
    """
    columns, patterns = [profile.column(key) for key in values], wrappers()
    sums: dict[str, list[float]] = {}
    for sample in profile.samples:
        holder_sums = sums.setdefault(
            heap_profile.format_function(heap_profile.find_dominant_frame(sample.stack, patterns)),
            [0.0] * len(columns),
        )
        for i, column in enumerate(columns):
            holder_sums[i] += sample.values[column]
    return sums
