"""Parse an allocator's own statistics, as the loadable function (native/udf) returns them: one file
per allocator. Pure.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dballoc import readers
from dballoc.explain.sources.allocator_statistics import (
    glibc,
    gperftools,
    jemalloc,
    mimalloc,
    scudo,
    tbbmalloc,
)
from dballoc.process_memory.heaps.allocator_statistics import AllocatorStatistics

# The names are native/udf's.
_PARSERS: dict[str, Callable[[Mapping[str, Any]], AllocatorStatistics]] = {
    "glibc": glibc.parse_statistics,
    "google-tcmalloc": gperftools.parse_google_statistics,
    "gperftools": gperftools.parse_statistics,
    "jemalloc": jemalloc.parse_statistics,
    "mimalloc": mimalloc.parse_statistics,
    "scudo": scudo.parse_statistics,
    "tbbmalloc": tbbmalloc.parse_statistics,
}
_FORMAT = 1
# A note tells the age of statistics that are older than this, seconds.
_FRESH = 1.0
# Characters; native/udf has room for 64 KiB.
_LONGEST = 4_000_000
_LARGEST = 2**60


class Unreadable(Exception):
    """The loadable function's answer cannot be parsed; the reason in a few words."""


def parse_statistics(text: str) -> AllocatorStatistics:
    """Return the statistics in an answer of the loadable function. Unreadable if it cannot be
    parsed or holds sizes that cannot be.
    """
    answer = _parse_json(text)
    name = answer.get("allocator")
    if not isinstance(name, str) or name not in _PARSERS:
        raise Unreadable(
            "the loadable function does not know the malloc in "
            f"{_shorten(answer.get('malloc', 'use'))}"
        )
    if not all(type(number) is int and abs(number) < _LARGEST for number in _list_numbers(answer)):
        raise Unreadable(
            f"the loadable function's figures of {name} cannot be read: not all are whole numbers"
        )
    try:
        account = _PARSERS[name](answer)
        age, took = float(answer.get("age_ms", 0)) / 1e3, float(answer.get("took_us", 0)) / 1e6
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unreadable(
            f"the loadable function's figures of {name} cannot be read: {ascii(error)[:200]}"
        ) from None
    if not all(
        type(size) is int and size < _LARGEST
        for holding in account.holdings
        for size in (holding.bytes, account.returned)
    ):
        raise Unreadable(f"the loadable function's figures of {name} cannot be sizes of memory")
    if answer.get("cut"):
        account.notes.append(
            "the loadable function's answer was too long, and left some arenas out"
        )
    if age > _FRESH:
        account.notes.append(
            f"the statistics of {name} are {age:.0f} s old: reading them takes {took:.2f} s, and "
            "may take at most a fiftieth of the time"
        )
    return replace(account, age=age, took=took if age == 0 else 0.0)


def _list_numbers(answer: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what must be a number: the values whose names have a dot, and all that is in lists. A
    text in place of one could, multiplied by a number, become gigabytes of text.
    """
    yield from (value for name, value in answer.items() if "." in name)
    for part in answer.values():
        if isinstance(part, list):
            for item in part:
                yield from item.values() if isinstance(item, dict) else [item]


def parse_trim_answer(text: str) -> str | None:
    """Return the name of what the function for --trim called to give memory back; None if this
    malloc has nothing to call.
    """
    name = _parse_json(text).get("called")
    return None if name is None else _shorten(name)


def _shorten(value: object) -> str:
    """Return a server's text in one line of at most 200 characters."""
    return " ".join(str(value).split())[:200]


def _parse_json(text: str) -> dict[str, Any]:
    if len(text) > _LONGEST:
        raise Unreadable("the loadable function's answer is longer than it can be")
    try:
        answer = readers.document(text)
    except readers.Unfit as error:
        raise Unreadable(f"the loadable function's answer cannot be read: {error}") from None
    if not isinstance(answer, dict) or answer.get("format") != _FORMAT:
        raise Unreadable("the loadable function is another version's: install it again")
    return answer
