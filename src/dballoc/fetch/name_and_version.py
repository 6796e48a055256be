"""``NAME`` and ``NAME@VERSION``, as experiments and the command line write them. Pure."""

import re
from collections.abc import Iterable

from dballoc.errors import UsageError

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*")


def split(reference: str) -> tuple[str, str | None]:
    """Name and version, None for no version. UsageError for what is no version."""
    name, at, version = reference.partition("@")
    if at and not _VERSION.fullmatch(version):
        raise UsageError(f"{reference!r}: {version!r} is not a version; write NAME@VERSION")
    return name, version if at else None


def join(name: str, version: str) -> str:
    """``NAME@VERSION``."""
    return f"{name}@{version}"


def fits(wanted: str, version: str) -> bool:
    """Whether a version is the one asked for, or one of that line: 5.5.34 is a 5.5."""
    return version == wanted or (version.startswith(wanted) and not version[len(wanted)].isalnum())


def order(version: str) -> list[int]:
    """For sorting versions."""
    return [int(n) for n in re.findall(r"\d+", version)]


def newest(versions: Iterable[str]) -> str | None:
    """The highest of some versions; None of none."""
    return max(versions, key=order, default=None)
