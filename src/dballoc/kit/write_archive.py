"""Write a kit's archive: the same tree gives the same bytes, and tar and gzip, which every host
has, unpack it into one new directory.
"""

import gzip
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dballoc.ground.errors import UsageError

TOP = "dballoc-kit"
# Higher ones take four times as long for half a percent.
_LEVEL = 6


def write_archive(tree: Path, file: BinaryIO, seconds: int) -> dict[str, int]:
    """Write the tree as a directory :data:`TOP`, and return about how many compressed bytes each
    part takes: each name at the tree's top, but those of the store two by two. ``seconds``: the
    time of all files. Raises UsageError for a link that leads out of the tree, and for what is
    neither a link, a file nor a directory.
    """
    sizes: dict[str, int] = {}
    with (
        gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _iterate_files(tree):
            before = file.tell()
            member = _make_member(path, tree, seconds)
            if member.isreg():
                with path.open("rb") as content:
                    archive.addfile(member, content)
            else:
                archive.addfile(member)
            parts = path.relative_to(tree).parts
            part = "/".join(parts[: 2 if parts[:1] == ("store",) else 1])
            sizes[part] = sizes.get(part, 0) + file.tell() - before
    return sizes


def _iterate_files(tree: Path) -> Iterator[Path]:
    """Yield the tree and all that is in it, each directory before what is in it, in the same order
    everywhere.
    """
    yield tree
    yield from sorted(tree.rglob("*"), key=lambda path: path.relative_to(tree).parts)


def _make_member(path: Path, tree: Path, seconds: int) -> tarfile.TarInfo:
    status = path.lstat()
    member = tarfile.TarInfo(os.path.join(TOP, *path.relative_to(tree).parts))
    member.mtime = seconds
    member.mode = 0o755 if stat.S_ISDIR(status.st_mode) or status.st_mode & 0o100 else 0o644
    if stat.S_ISREG(status.st_mode):
        member.size = status.st_size
    elif stat.S_ISDIR(status.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
        end = Path(os.path.normpath(path.parent / member.linkname))
        if os.path.isabs(member.linkname) or not end.is_relative_to(tree):
            raise UsageError(f"{path}: a link that leads out of the kit: {member.linkname}")
    else:
        raise UsageError(f"{path}: neither a file nor a directory, so a kit cannot have it")
    return member
