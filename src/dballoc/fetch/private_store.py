"""The private store: what was fetched, each in a directory ``NAME@VERSION`` with a manifest that
says where it came from.

A directory without a manifest was never finished, and counts for nothing.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc.fetch import name_and_version
from dballoc.host import directories

MANIFEST = "manifest.json"
# Raise it when what is in a directory changes.
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Something that was fetched. ``asked``: the version as the catalogue has it; ``version``: what
    it exactly is.
    """

    name: str
    asked: str
    version: str
    place: Path
    manifest: dict[str, Any]

    @property
    def reference(self) -> str:
        """``NAME@VERSION``, as an experiment names it."""
        return name_and_version.join(self.name, self.asked)

    @property
    def root(self) -> Path:
        """Where it was unpacked or built; a server's basedir."""
        return self.place / "root"

    @property
    def libraries(self) -> tuple[Path, ...]:
        """An allocator's files to preload, in this order."""
        return tuple(self.place / path for path in self.manifest.get("libraries", []))

    @property
    def loader(self) -> Path | None:
        """Of a glibc, and of a server with one of its own: its program interpreter."""
        path = self.manifest.get("loader")
        return self.place / path if path else None

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return int(self.manifest["bytes"])


def kept(name: str | None = None) -> list[Kept]:
    """All that is here, or all of one catalogue name; the newest first."""
    entries = [
        k
        for path in directories.store().glob(f"{name or '*'}@*/{MANIFEST}")
        if (k := _read_manifest(path))
    ]
    return sorted(entries, key=lambda k: (k.name, [-n for n in name_and_version.order(k.version)]))


def find(name: str, version: str | None) -> Kept | None:
    """The newest that fits, or None. ``version`` None: any."""
    entries = kept(name)
    if version is None:
        return next(iter(entries), None)
    exact = (k for k in entries if version in (k.asked, k.version))
    return next(exact, None) or next(
        (k for k in entries if name_and_version.fits(version, k.version)), None
    )


def owner(path: Path) -> Kept | None:
    """What of the store a file belongs to, if to anything."""
    try:
        inside = path.resolve().relative_to(directories.store().resolve())
    except ValueError:
        return None
    return (
        _read_manifest(directories.store() / inside.parts[0] / MANIFEST) if inside.parts else None
    )


def _read_manifest(path: Path) -> Kept | None:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if manifest.get("format") != FORMAT:
        return None
    return Kept(
        name=manifest["name"],
        asked=manifest["asked"],
        version=manifest["version"],
        place=path.parent,
        manifest=manifest,
    )
