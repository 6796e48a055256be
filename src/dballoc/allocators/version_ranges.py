"""Ranges of versions as the catalogue writes them, ``FROM-TO``, each end included and either left
out. Pure.
"""

import re
from collections.abc import Iterable

_RANGE = re.compile(r"([\d.]*)-([\d.]*)")


def parse_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, ``6.19.3-arch1`` as (6, 19, 3); none if it
    begins with something else.
    """
    start = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(n) for n in start[0].split(".")) if start else ()


def is_in_any(version: str, ranges: Iterable[str]) -> bool:
    """Whether a version is in one of the ranges; an unknown version is taken to be."""
    numbers = parse_numbers(version)
    return not numbers or any(_is_within(numbers, text) for text in ranges)


def _is_within(numbers: tuple[int, ...], text: str) -> bool:
    ends = _RANGE.fullmatch(text)
    assert ends, text
    low, high = parse_numbers(ends[1]), parse_numbers(ends[2])
    # 2.0.9 is within "-2.0".
    return (not low or numbers >= low) and (not high or numbers[: len(high)] <= high)
