"""Lines of the ledger for mapped files: a large one by its name, with what it is for and whether
the kernel can take its pages back. Pure; what files are: mapped_files.toml.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from posixpath import basename
from typing import Any

from dballoc import readers
from dballoc.explain.attribution.ledger_line import Line
from dballoc.numbers import with_unit
from dballoc.process_memory.mapping_kind import Kind
from dballoc.process_memory.smaps import Mapping as MemoryMapping

# A file with fewer resident bytes is one of the rest; a process may map any number of files.
_LARGE, _MOST_FILES = 4 << 20, 10
# Before a file's name: it may be that of any other owner.
_FILE, _DELETED = "mapped file", " (deleted)"
# File systems whose files are memory themselves.
_IN_MEMORY = ("/dev/shm/", "/run/")  # noqa: S108


def make_file_lines(
    mappings: Sequence[MemoryMapping], catalogue: Mapping[str, Mapping[str, Any]]
) -> list[Line]:
    """Return a line for each large mapped file, and one for all others. ``catalogue``:
    :func:`dballoc.catalogue.mapped_files`.
    """
    by_path: dict[str, list[MemoryMapping]] = {}
    for mapping in mappings:
        by_path.setdefault(mapping.path, []).append(mapping)
    ranked = sorted(by_path.items(), key=lambda item: -sum(m.rss for m in item[1]))
    large = [(p, ms) for p, ms in ranked[:_MOST_FILES] if sum(m.rss for m in ms) >= _LARGE]
    named = {path for path, _ in large}
    others = [m for m in mappings if m.path not in named]
    return [
        *(_make_line(_name_file(path), path, each, catalogue) for path, each in large),
        Line(
            group="files",
            owner=Kind.FILE,
            resident=sum(m.rss for m in others),
            size=sum(m.size for m in others),
            source="mapped",
            confidence="exact",
        ),
    ]


def _make_line(
    owner: str,
    path: str,
    mappings: Sequence[MemoryMapping],
    catalogue: Mapping[str, Mapping[str, Any]],
) -> Line:
    return Line(
        group="files",
        owner=owner,
        resident=sum(m.rss for m in mappings),
        size=sum(m.size for m in mappings),
        source=f"{_FILE} {readers.one_line(path)}",
        confidence="exact",
        note="; ".join(filter(None, [describe_file(path, catalogue), describe_reclaim(mappings)])),
    )


def _name_file(path: str) -> str:
    return f"{_FILE} {readers.one_line(basename(path.removesuffix(_DELETED)))}"


def describe_file(path: str, catalogue: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what a file is for and which setting bounds it; empty where that is not known."""
    name = basename(path.removesuffix(_DELETED))
    for pattern, entry in catalogue.items():
        if fnmatchcase(name, pattern):
            return f"{entry['of']}: {entry['setting']}"
    return ""


def describe_reclaim(mappings: Sequence[MemoryMapping]) -> str:
    """Return whether the kernel can take the resident pages of a file's mappings back."""
    if mappings[0].path.startswith(_IN_MEMORY):
        return "a file in memory: the kernel can only swap it out"
    if any("lo" in (m.flags or ()) for m in mappings):
        return "locked in memory: the kernel cannot take it back"
    resident = sum(m.rss for m in mappings)
    if any(m.flags is None for m in mappings):
        writable = any(m.permissions[1] == "w" and m.permissions[3] == "p" for m in mappings)
        return (
            "how much of it are private copies is not known without smaps"
            if writable
            else "file-backed: the kernel can take it back, after writing what has changed"
        )
    copies = min(resident, sum(m.anonymous for m in mappings))
    dirty = min(resident, sum(m.dirty for m in mappings)) - copies
    parts = [
        (resident - copies - max(0, dirty), "taken back at once"),
        (dirty, "written to the file first"),
        (copies, "private copies that can only be swapped out"),
    ]
    sizes = [f"{with_unit(size)} {words}" for size, words in parts if size > 0]
    return f"file-backed, by the kernel: {', '.join(sizes)}"
