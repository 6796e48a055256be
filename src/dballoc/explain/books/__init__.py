"""What an allocator says of itself, by the loadable function (native/udf): one file per allocator. Pure."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from dballoc.explain.books import glibc, gperftools, jemalloc, mimalloc, scudo, tbbmalloc
from dballoc.explain.books.account import Account

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


class Unreadable(Exception):
    """The function's text is not what this version of dballoc knows; the reason in a few words."""


def read(text: str) -> Account:
    """The account that a text of the loadable function gives."""
    said = _parse(text)
    name = said.get("allocator")
    if not isinstance(name, str) or name not in _READERS:
        raise Unreadable(f"the loadable function does not know the malloc in {said.get('malloc', 'use')}")
    try:
        found = _READERS[name](said)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"the loadable function's figures of {name} cannot be read: {error!r}") from None
    if said.get("cut"):
        found.notes.append("the loadable function's answer was too long, and left some arenas out")
    return found


def called(text: str) -> str | None:
    """What was called to give memory back, by the other function's text; None if there is nothing to call."""
    found = _parse(text).get("called")
    return None if found is None else str(found)


def _parse(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError:
        raise Unreadable("the loadable function's answer is no JSON") from None
    if not isinstance(said, dict) or said.get("format") != _FORMAT:
        raise Unreadable("the loadable function is another version's: install it again")
    return said
