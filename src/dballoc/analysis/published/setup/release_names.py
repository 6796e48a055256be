"""Whether the name and version of a server or allocator are those that a post states. Pure."""

import re

_REMARK = re.compile(r" ?\([^()]*\)")
_VERSION = re.compile(r"^(?P<name>.*?)\s+v?(?P<version>[0-9]+(?:[.-][0-9A-Za-z]+)*)$")


def is_same_release(stated: str, actual: str) -> bool:
    """Whether ``actual`` is what a post states: the same name, and a version that begins with the
    stated one (``MariaDB 10.11`` is any of its series). Remarks in brackets do not count.
    """
    stated_name, stated_version = _split_release(stated)
    name, version = _split_release(actual)
    return stated_name == name and version[: len(stated_version)] == stated_version


# An allocator that is in the server and not yet known, which may be any.
ANY_MALLOC = "a malloc"


def drop_remarks(text: str) -> str:
    """Return a text in small letters and without what is in brackets."""
    return _REMARK.sub("", " ".join(text.lower().split()))


def _split_release(text: str) -> tuple[str, list[str]]:
    """Return the name in small letters and the parts of the version."""
    text = drop_remarks(text)
    match = _VERSION.match(text)
    return (match["name"], re.split(r"[.-]", match["version"])) if match else (text, [])


def is_same_variant(stated: str, actual: str) -> bool:
    """Whether an allocator with its settings, ``NAME VERSION, SETTING=VALUE, …``, is what a post
    states. The order of the settings does not count.
    """
    first, second = (
        [part.strip() for part in drop_remarks(text).split(",")] for text in (stated, actual)
    )
    same = second[0] == ANY_MALLOC or is_same_release(first[0], second[0])
    return same and sorted(first[1:]) == sorted(second[1:])
