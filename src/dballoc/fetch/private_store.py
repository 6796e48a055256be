"""The private store of what was fetched: directories ``NAME@VERSION``, each with a manifest that
says where its files came from.

A directory without a manifest is of a fetch that did not finish, and is ignored.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc.fetch import name_and_version
from dballoc.ground import user_directories

MANIFEST = "manifest.json"
# Increase it when the layout of such a directory changes.
FORMAT = 1
# In ``from``: installed on the machine where a kit was made.
OF_MACHINE = "machine"


@dataclass(frozen=True, kw_only=True)
class FetchedEntry:
    """A server or allocator that was fetched. ``requested``: the version as the catalogue names it;
    ``version``: the exact one.
    """

    name: str
    requested: str
    version: str
    place: Path
    manifest: dict[str, Any]

    @property
    def reference(self) -> str:
        """``NAME@VERSION``, as an experiment names it."""
        return name_and_version.join_reference(self.name, self.requested)

    @property
    def root(self) -> Path:
        """The directory where it was unpacked or built; a server's basedir."""
        return self.place / "root"

    @property
    def libraries(self) -> tuple[Path, ...]:
        """The allocator's files to preload, in this order."""
        return tuple(self.place / path for path in self.manifest.get("libraries", []))

    @property
    def loader(self) -> Path | None:
        """The program interpreter of a glibc, or of a server with a glibc of its own; else None."""
        path = self.manifest.get("loader")
        return self.place / path if path else None

    @property
    def untried_build(self) -> str | None:
        """How it was built where no recipe of dballoc's own did that."""
        return self.manifest.get("untried_build")

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return int(self.manifest["bytes"])


def list_fetched(name: str | None = None) -> list[FetchedEntry]:
    """List all that was fetched, or all of one catalogue name; the newest first."""
    entries = [
        k
        for path in user_directories.locate_store().glob(f"{name or '*'}@*/{MANIFEST}")
        if (k := read_entry(path.parent))
    ]
    return sorted(
        entries,
        key=lambda k: (k.name, [-n for n in name_and_version.parse_version_numbers(k.version)]),
    )


def list_references() -> dict[tuple[str, str], str]:
    """List how experiments name what was fetched, by name and exact version. What a kit carries of
    the machine where it was made was not.
    """
    fetched = (entry for entry in list_fetched() if entry.manifest.get("from") != OF_MACHINE)
    return {(entry.name, entry.version): entry.reference for entry in fetched}


def find_fetched(name: str, version: str | None) -> FetchedEntry | None:
    """Find the newest that has this version, or is of that line; None if there is none. ``version``
    None: any.
    """
    entries = list_fetched(name)
    if version is None:
        return next(iter(entries), None)
    exact = (k for k in entries if version in (k.requested, k.version))
    return next(exact, None) or next(
        (k for k in entries if name_and_version.is_version_of(version, k.version)), None
    )


def find_requested(name: str, version: str) -> FetchedEntry | None:
    """Find what was fetched as ``NAME@VERSION``, by the version as the catalogue names it."""
    return next((k for k in list_fetched(name) if k.requested == version), None)


def find_owner(path: Path) -> FetchedEntry | None:
    """Find the entry of the store that a file belongs to, if any."""
    try:
        inside = path.resolve().relative_to(user_directories.locate_store().resolve())
    except ValueError:
        return None
    return read_entry(user_directories.locate_store() / inside.parts[0]) if inside.parts else None


def read_entry(place: Path) -> FetchedEntry | None:
    """Read the entry in a directory of the store; None if none was finished there."""
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if manifest.get("format") != FORMAT:
        return None
    return FetchedEntry(
        name=manifest["name"],
        requested=manifest["asked"],
        version=manifest["version"],
        place=place,
        manifest=manifest,
    )
