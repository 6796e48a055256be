"""What an allocator says of itself, by the loadable function (native/udf): one file per allocator.
Pure.
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
from dballoc.process_memory.heaps.allocator_account import Account

# The names are native/udf's.
_READERS: dict[str, Callable[[Mapping[str, Any]], Account]] = {
    "glibc": glibc.read,
    "google-tcmalloc": gperftools.read_google,
    "gperftools": gperftools.read,
    "jemalloc": jemalloc.read,
    "mimalloc": mimalloc.read,
    "scudo": scudo.read,
    "tbbmalloc": tbbmalloc.read,
}
_FORMAT = 1
# Older figures than these are said to be so, seconds.
_FRESH = 1.0
# Characters; native/udf has room for 64 KiB.
_LONGEST = 4_000_000
_LARGEST = 2**60


class Unreadable(Exception):
    """The function's text is not what this version of dballoc knows; the reason in a few words."""


def read(text: str) -> Account:
    """The account that a text of the loadable function gives."""
    said = _parse(text)
    name = said.get("allocator")
    if not isinstance(name, str) or name not in _READERS:
        raise Unreadable(
            f"the loadable function does not know the malloc in {_word(said.get('malloc', 'use'))}"
        )
    if not all(type(number) is int and abs(number) < _LARGEST for number in _list_numbers(said)):
        raise Unreadable(
            f"the loadable function's figures of {name} cannot be read: not all are whole numbers"
        )
    try:
        found = _READERS[name](said)
        age, took = float(said.get("age_ms", 0)) / 1e3, float(said.get("took_us", 0)) / 1e6
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unreadable(
            f"the loadable function's figures of {name} cannot be read: {ascii(error)[:200]}"
        ) from None
    if not all(
        type(size) is int and size < _LARGEST
        for holding in found.holdings
        for size in (holding.bytes, found.returned)
    ):
        raise Unreadable(
            f"the loadable function's figures of {name} cannot be: they are no sizes of memory"
        )
    if said.get("cut"):
        found.notes.append("the loadable function's answer was too long, and left some arenas out")
    if age > _FRESH:
        found.notes.append(
            f"what {name} says of itself is {age:.0f} s old: it takes {took:.2f} s, and is asked "
            "for a"
            " fiftieth of the time at most"
        )
    return replace(found, age=age, took=took if age == 0 else 0.0)


def _list_numbers(said: Mapping[str, Any]) -> Iterator[Any]:
    """What must be numbers: the values of statistics' names, and all that is in lists. A text times
    a number is a long text.
    """
    yield from (value for name, value in said.items() if "." in name)
    for part in said.values():
        if isinstance(part, list):
            for item in part:
                yield from item.values() if isinstance(item, dict) else [item]


def called(text: str) -> str | None:
    """What was called to give memory back, by the other function's text; None if there is nothing
    to call.
    """
    found = _parse(text).get("called")
    return None if found is None else _word(found)


def _word(said: object) -> str:
    """In one line, and not long: it is a server's."""
    return " ".join(str(said).split())[:200]


def _parse(text: str) -> dict[str, Any]:
    if len(text) > _LONGEST:
        raise Unreadable("the loadable function's answer is longer than any of it")
    try:
        said = readers.document(text)
    except readers.Unfit as error:
        raise Unreadable(f"the loadable function's answer cannot be read: {error}") from None
    if not isinstance(said, dict) or said.get("format") != _FORMAT:
        raise Unreadable("the loadable function is another version's: install it again")
    return said
