"""What can be fetched and where from: the catalogue's sources.toml, looked up."""

import difflib
from dataclasses import dataclass
from typing import Any, Literal

from dballoc import catalogue
from dballoc.errors import UsageError
from dballoc.fetch import name_and_version

Kind = Literal["server", "allocator"]


@dataclass(frozen=True)
class Source:
    """One server or allocator that can be fetched: its catalogue name, the version as it is asked
    for, its row.
    """

    name: str
    version: str
    row: dict[str, Any]

    @property
    def reference(self) -> str:
        """``NAME@VERSION``."""
        return name_and_version.join(self.name, self.version)

    @property
    def kind(self) -> Kind:
        """What it is; glibc is an allocator."""
        return look_up_kind(self.name)

    @property
    def client(self) -> str:
        """Which client brings it."""
        return str(self.row["from"])

    @property
    def download(self) -> int:
        """Bytes to download, about."""
        return int(self.row["megabytes"][0] * 10**6)

    @property
    def room(self) -> int:
        """Bytes of disk that it takes in the end, about."""
        return int(self.row["megabytes"][1] * 10**6)


class NotHere(UsageError):
    """Something that can be fetched, by ``reference``, and has not been."""

    def __init__(self, wanted: str, words: str) -> None:
        self.reference = find(words).reference
        super().__init__(f"{wanted} is not here; fetch it: dballoc fetch {self.reference}")


def look_up_kind(name: str) -> Kind:
    """What a catalogue name is. UsageError if it is none."""
    if name in catalogue.servers():
        return "server"
    if name in catalogue.allocators():
        return "allocator"
    names = [*catalogue.servers(), *catalogue.allocators()]
    near = difflib.get_close_matches(name, names, 1)
    raise UsageError(
        f"no server or allocator {name!r}; "
        + (f"did you mean {near[0]!r}?" if near else f"there are {names}")
    )


def of(name: str) -> list[Source]:
    """The sources of a catalogue name, the preferred first; none if nothing can be fetched."""
    return [
        Source(name, version, row) for version, row in catalogue.sources().get(name, {}).items()
    ]


def every() -> list[Source]:
    """Everything that can be fetched."""
    return [source for name in catalogue.sources() for source in of(name)]


def find(words: str) -> Source:
    """The source of ``NAME`` (the preferred version) or ``NAME@VERSION``. UsageError that says what
    there is.
    """
    name, version = name_and_version.split(words)
    look_up_kind(name)
    sources = of(name)
    if not sources:
        raise UsageError(f"{name!r} is in no source that dballoc knows; {otherwise(name)}")
    if version is None:
        return sources[0]
    fitting = [s for s in sources if s.version == version] or [
        s for s in sources if name_and_version.fits(version, s.version)
    ]
    # A moving source gives 11.8.6 today where 11.8 is asked of it.
    fitting = fitting or [
        s for s in sources if s.row.get("moves") and name_and_version.fits(s.version, version)
    ]
    if not fitting:
        versions = ", ".join(s.version for s in sources)
        raise UsageError(
            f"{words!r}: no source has that version; there are {versions}; {otherwise(name)}"
        )
    return max(fitting, key=lambda s: name_and_version.order(s.version))


def otherwise(name: str) -> str:
    """What else brings one that no source has."""
    if look_up_kind(name) == "server":
        return (
            "give the vendor's archive with --from and --sha256, or its directory as server.basedir"
        )
    return "give its library by path: preload = [PATH] in a variant"
