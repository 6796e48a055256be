"""Look up what can be fetched, and from where, in the catalogue's sources.toml."""

import difflib
from dataclasses import dataclass
from typing import Any, Literal

from dballoc import catalogue
from dballoc.fetch import name_and_version
from dballoc.ground.errors import UsageError

Kind = Literal["server", "allocator"]


@dataclass(frozen=True)
class FetchSource:
    """One server or allocator that can be fetched: its catalogue name, the version as users name
    it, and its row in sources.toml.
    """

    name: str
    version: str
    row: dict[str, Any]

    @property
    def reference(self) -> str:
        """``NAME@VERSION``."""
        return name_and_version.join_reference(self.name, self.version)

    @property
    def kind(self) -> Kind:
        """Server or allocator; glibc is an allocator."""
        return look_up_kind(self.name)

    @property
    def client(self) -> str:
        """The client that fetches it."""
        return str(self.row["from"])

    @property
    def download(self) -> int:
        """Approximate bytes to download."""
        return int(self.row["megabytes"][0] * 10**6)

    @property
    def room(self) -> int:
        """Approximate bytes on disk once it is installed."""
        return int(self.row["megabytes"][1] * 10**6)


class NotFetched(UsageError):
    """Something is not in the store, but can be fetched as ``reference``."""

    def __init__(self, wanted: str, words: str) -> None:
        self.reference = find_source(words).reference
        super().__init__(f"{wanted} is not here; fetch it: dballoc fetch {self.reference}")


def look_up_kind(name: str) -> Kind:
    """Return whether a catalogue name is a server or an allocator. Raises UsageError if it is
    neither.
    """
    if name in catalogue.servers():
        return "server"
    if name in catalogue.allocators():
        return "allocator"
    names = [*catalogue.servers(), *catalogue.allocators()]
    near = difflib.get_close_matches(name, names, 1)
    raise UsageError(
        f"no server or allocator {name!r}; "
        + (f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}")
    )


def list_sources(name: str) -> list[FetchSource]:
    """List the sources of a catalogue name, the preferred first; none if it cannot be fetched."""
    return [
        FetchSource(name, version, row)
        for version, row in catalogue.sources().get(name, {}).items()
    ]


def list_all_sources() -> list[FetchSource]:
    """List everything that can be fetched."""
    return [source for name in catalogue.sources() for source in list_sources(name)]


def find_source(words: str) -> FetchSource:
    """Find the source of ``NAME`` (the preferred version) or ``NAME@VERSION``. UsageError that
    lists the versions there are.
    """
    name, version = name_and_version.split_reference(words)
    look_up_kind(name)
    sources = list_sources(name)
    if not sources:
        raise UsageError(
            f"{name!r} cannot be fetched: dballoc knows no source of it; "
            f"{suggest_alternative(name)}"
        )
    if version is None:
        return sources[0]
    fitting = [s for s in sources if s.version == version] or [
        s for s in sources if name_and_version.is_version_of(version, s.version)
    ]
    # A moving source has 11.8.6 today where 11.8 is requested.
    fitting = fitting or [
        s
        for s in sources
        if s.row.get("moves") and name_and_version.is_version_of(s.version, version)
    ]
    if not fitting:
        versions = ", ".join(s.version for s in sources)
        raise UsageError(
            f"{words!r}: no source has that version; there are {versions}; "
            f"{suggest_alternative(name)}"
        )
    return max(fitting, key=lambda s: name_and_version.parse_version_numbers(s.version))


def suggest_alternative(name: str) -> str:
    """Say how else to use a server or allocator that no source has."""
    if look_up_kind(name) == "server":
        return (
            "give the vendor's archive with --from and --sha256, or its directory as server.basedir"
        )
    return (
        "give an archive of its sources with --from and --sha256, or its library by path: "
        "preload = [PATH] in a variant"
    )
