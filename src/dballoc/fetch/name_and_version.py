"""Parse ``NAME`` and ``NAME@VERSION``, as experiments and the command line write them. Pure."""

import re
from collections.abc import Iterable

from dballoc.ground.errors import UsageError

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*")


def split_reference(reference: str) -> tuple[str, str | None]:
    """Split into name and version, None for no version. Raises UsageError for an invalid
    version.
    """
    name, at, version = reference.partition("@")
    if at and not _VERSION.fullmatch(version):
        raise UsageError(f"{reference!r}: {version!r} is not a version; write NAME@VERSION")
    return name, version if at else None


def join_reference(name: str, version: str) -> str:
    """Join to ``NAME@VERSION``."""
    return f"{name}@{version}"


def is_version_of(wanted: str, version: str) -> bool:
    """Whether a version is the wanted one, or of that release line: 5.5.34 is a 5.5."""
    return version == wanted or (version.startswith(wanted) and not version[len(wanted)].isalnum())


def parse_version_numbers(version: str) -> list[int]:
    """Parse a version's numbers, for sorting."""
    return [int(n) for n in re.findall(r"\d+", version)]


def choose_newest(versions: Iterable[str]) -> str | None:
    """Return the highest of some versions; None if there are none."""
    return max(versions, key=parse_version_numbers, default=None)
