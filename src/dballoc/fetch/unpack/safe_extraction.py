"""The tree that an archive becomes on disk: directories, regular files and links that stay inside
it, and nothing else.

:class:`Tree` writes one from members that anybody may have made; :func:`secure_tree` checks a
finished one, whoever has made it.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

# More than any server's or library's archive has, its tests included.
MEMBERS = 100_000
SIZE = 16 * 2**30
# All paths and targets of links, which are held in memory.
_TEXT = 32 * 2**20
# What an archive may expand to, as a multiple of its own size; up to the floor always.
RATIO = 200
FLOOR = 64 * 2**20

_NAME, _PATH, _DEPTH, _LINKS = 255, 4096, 100, 40
_CHUNK = 2**18
_LAST_TIME = 2**33


class UnsafeArchive(Exception):
    """A member or a tree is refused; the text says why in a few words."""


def most_bytes(packed: int) -> int:
    """Return how many bytes an archive of that size may expand to."""
    return min(SIZE, max(FLOOR, RATIO * packed))


@dataclass(kw_only=True)
class Tree:
    """A directory that is filled from an archive. Links are made last, so that no member is written
    through one of them.

    ``most``: bytes of all files together; ``rooted``: absolute links are relative to the tree, as
    in packages. What the directory has from other archives stays; no link in it leads outside.
    """

    root: Path
    most: int
    rooted: bool = False
    size: int = 0
    members: int = 0
    text: int = 0
    _files: set[tuple[str, ...]] = field(default_factory=set)
    _links: dict[tuple[str, ...], str] = field(default_factory=dict)

    def add_directory(self, parts: tuple[str, ...]) -> None:
        """Make a directory, with its parents."""
        self._count(parts)
        self._make_parent((*parts, ""))

    def add_file(
        self,
        parts: tuple[str, ...],
        content: IO[bytes],
        size: int,
        mode: int,
        time: float | None = None,
    ) -> None:
        """Write a regular file of that declared size. Of its mode only whether it is executable is
        kept.
        """
        self._count(parts, size)
        self._links.pop(parts, None)
        path = self._free_path(parts)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        remaining = size
        with os.fdopen(os.open(path, flags, 0o755 if mode & 0o111 else 0o644), "wb") as out:
            while remaining and (chunk := content.read(min(remaining, _CHUNK))):
                out.write(chunk)
                remaining -= len(chunk)
        if remaining:
            raise UnsafeArchive(f"{'/'.join(parts)} is truncated")
        self._files.add(parts)
        if time is not None and 0 <= time < _LAST_TIME:  # builds compare the times of their files
            os.utime(path, (time, time))

    def add_link(self, parts: tuple[str, ...], target: str) -> None:
        """Note a symbolic link, to be made when all files are there."""
        self._count(parts, text=len(target))
        if not target or "\0" in target or len(os.fsencode(target)) >= _PATH:
            raise UnsafeArchive(f"{'/'.join(parts)} is a link without a valid target")
        self._links[parts] = target

    def add_hard_link(self, parts: tuple[str, ...], other: tuple[str, ...]) -> None:
        """Make a hard link, only to a file of the same archive."""
        self._count(parts)
        if other not in self._files:
            raise UnsafeArchive(
                f"{'/'.join(parts)} is a hard link to no earlier file of the archive"
            )
        if parts != other:
            path = self._free_path(parts)
            os.link(self._make_parent(other) / other[-1], path, follow_symlinks=False)
            self._files.add(parts)

    def finish(self) -> None:
        """Make the links, except those that lead out of the tree, which no server needs."""
        for parts, target in self._links.items():
            path = self._free_path(parts)
            if target.startswith("/") and self.rooted:
                path.symlink_to(
                    "../" * len(path.parent.relative_to(self.root).parts)
                    + (target.lstrip("/") or ".")
                )
            elif not target.startswith("/"):
                path.symlink_to(target)
        remove_links_out(self.root)

    def _count(self, parts: tuple[str, ...], size: int = 0, text: int = 0) -> None:
        self.members += 1
        self.size += size
        self.text += sum(map(len, parts)) + text
        if self.members > MEMBERS or self.text > _TEXT:
            raise UnsafeArchive(
                f"it has more than {MEMBERS:,} members, or paths of more than {_TEXT >> 20} MiB"
            )
        if size < 0 or self.size > self.most:
            raise UnsafeArchive(f"it would expand to more than {self.most / 10**6:,.0f} MB")

    def _free_path(self, parts: tuple[str, ...]) -> Path:
        """Return the path for a member. An earlier member of that name is removed, as tar does."""
        if not parts:
            raise UnsafeArchive("it has a member without a name")
        path = self._make_parent(parts) / parts[-1]
        if os.path.lexists(path):
            if path.is_dir() and not path.is_symlink():
                raise UnsafeArchive(f"{'/'.join(parts)} is there twice, once as a directory")
            path.unlink()
            self._files.discard(parts)
        return path

    def _make_parent(self, parts: tuple[str, ...]) -> Path:
        """Return the directory of a member, made if it is not there."""
        above = parts[:-1]
        if (inside := resolve_in_tree(self.root, above)) is None:
            raise UnsafeArchive(f"{'/'.join(parts)} lies behind a link that leads out")
        path = self.root
        for part in inside:
            path = path / part
            try:
                path.mkdir(mode=0o755)
            except FileExistsError:
                if not path.is_dir() or path.is_symlink():
                    raise UnsafeArchive(
                        f"{'/'.join(parts)} lies below something that is not a directory"
                    ) from None
        return path


def split_member_path(name: str, strip: int = 0) -> tuple[str, ...]:
    """Split a member's path into its parts without the first ``strip``; none for the top itself.
    Raises UnsafeArchive if it leads out of the archive, or is not a usual file name.
    """
    if not name.isprintable():
        raise UnsafeArchive(f"it has a member called {name[:80]!a}")
    if name.startswith("/"):
        raise UnsafeArchive(f"{name[:80]} is an absolute path")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise UnsafeArchive(f"{name[:80]} leads out of the archive")
    if (
        len(os.fsencode(name)) >= _PATH
        or len(parts) > _DEPTH
        or any(len(os.fsencode(part)) > _NAME for part in parts)
    ):
        raise UnsafeArchive(f"a path is too long: {name[:80]}…")
    return parts[strip:]


def resolve_in_tree(root: Path, parts: tuple[str, ...]) -> list[str] | None:
    """Resolve the links of a path below ``root``; None if it leads out."""
    reached: list[str] = []
    todo = list(reversed(parts))
    links = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not reached:
                return None
            reached.pop()
            continue
        try:
            target = os.readlink(os.path.join(root, *reached, part))
        except OSError:  # no link, or not there
            reached.append(part)
            continue
        links += 1
        if links > _LINKS or target.startswith("/"):
            return None
        todo += reversed(target.split("/"))
    return reached


def remove_links_out(root: Path) -> None:
    """Remove the links that lead out of a tree, also through one another."""
    for _ in range(_LINKS):
        out = [
            path
            for path, status in walk_tree(root)
            if stat.S_ISLNK(status.st_mode) and _leads_out(root, path)
        ]
        for path in out:
            path.unlink()
        if not out:
            return


def _leads_out(root: Path, path: Path) -> bool:
    return resolve_in_tree(root, path.relative_to(root).parts) is None


def walk_tree(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """List everything below a directory; links are not followed."""
    todo = [root]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                path = Path(entry.path)
                if stat.S_ISDIR(status.st_mode):
                    todo.append(path)
                yield path, status


def check_tree(root: Path) -> None:
    """Check that all below ``root`` is a directory, a regular file with all its hard links there,
    or a link that stays inside. Raises UnsafeArchive otherwise.
    """
    names: Counter[tuple[int, int]] = Counter()
    links: dict[tuple[int, int], tuple[Path, int]] = {}
    for path, status in walk_tree(root):
        shown = ascii(os.fspath(path.relative_to(root)))[1:-1]
        if stat.S_ISLNK(status.st_mode):
            if _leads_out(root, path):
                raise UnsafeArchive(f"{shown} is a link that leads out")
        elif stat.S_ISREG(status.st_mode):
            key = (status.st_dev, status.st_ino)
            names[key] += 1
            links[key] = (path, status.st_nlink)
        elif not stat.S_ISDIR(status.st_mode):
            raise UnsafeArchive(f"{shown} is neither file nor directory nor link")
    for key, (path, number) in links.items():
        if number > names[key]:
            raise UnsafeArchive(
                f"{ascii(os.fspath(path.relative_to(root)))[1:-1]} is a hard link to a file "
                "elsewhere"
            )


def secure_tree(root: Path) -> int:
    """Check a tree, and make all of it ours, readable for everybody and writable for us alone,
    without set-user-ID and the like. Return its bytes on disk. Raises as :func:`check_tree`.
    """
    check_tree(root)
    size = 0
    for path, status in [(root, os.lstat(root)), *walk_tree(root)]:
        size += status.st_blocks * 512
        if stat.S_ISLNK(status.st_mode):
            continue
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if (os.fstat(handle).st_uid, os.fstat(handle).st_gid) != (
                os.geteuid(),
                os.getegid(),
            ) and os.geteuid() == 0:
                os.fchown(handle, 0, 0)
            os.fchmod(
                handle, 0o755 if stat.S_ISDIR(status.st_mode) or status.st_mode & 0o100 else 0o644
            )
        finally:
            os.close(handle)
    return size
