"""What cells of the tables may hold, by the declared type of their column, and by its name where
that says more. Pure.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

from dballoc import readers
from dballoc.store.campaign_facts import LATEST

# Below trials/: a plain name, or a few.
_DIRECTORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]*")
# Bytes and counts; so far from 2^63 that a table of them can be added up.
_LARGEST = 2**53
# Whoever divides by the smallest, or takes the logarithm of the largest, still has a number.
_MOST, _LEAST = 1e15, 1e-15
_TIMES = frozenset({"started", "ended"})
_HALVES = (0, 1)


def check(values: Iterable[Any], kind: str, column: str) -> None:
    """Unfit, which begins with the column's name, for a value that is none of its ``kind``
    (INTEGER, REAL, TEXT).
    """
    for value in values:
        if value is None:
            continue  # SQLite has looked at NOT NULL
        match kind:
            case "TEXT":
                if not isinstance(value, str):
                    raise _wrong(column, value)
            case _:
                if not isinstance(value, int | float) or not _fits(value, kind):
                    raise _wrong(column, value)
                if column in _TIMES and not 0 <= value <= LATEST:
                    raise _wrong(column, value)
                if column == "half" and value not in _HALVES:
                    raise _wrong(column, value)
        if column == "directory" and not _DIRECTORY.fullmatch(value):
            raise _wrong(column, value)


def _fits(value: float, kind: str) -> bool:
    if not math.isfinite(value):
        return False
    size = abs(value)
    return size <= _LARGEST if kind == "INTEGER" else size == 0 or _LEAST <= size <= _MOST


def _wrong(column: str, value: Any) -> readers.Unfit:
    return readers.Unfit(f"{column}: {readers.shown(str(value))} cannot be")
