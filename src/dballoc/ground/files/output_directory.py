"""The one writer of outputs: a directory of ours, opened once, in which everything is made,
replaced and removed by descriptor. It follows no link, whatever lies in the directory.

What is not checked: the directories above it. Who owns one of them can move the directory, and then
we go on writing into the one that was moved.
"""

import contextlib
import errno
import grp
import os
import pwd
import secrets
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from dballoc.ground.errors import UsageError
from dballoc.ground.files import caller_umask
from dballoc.ground.files.remove_tree import remove_in

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO in its place must not be waited for.
_IN_PLACE = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PARTIAL = ".dballoc-partial-"
_PRIVATE_FILE, _PRIVATE_DIRECTORY = 0o600, 0o700


@dataclass(frozen=True, kw_only=True)
class DirectoryStatus:
    """What decides whether we may write into a directory.

    owner: its user ID
    mode: its permissions, with the sticky bit
    has_acl: whether it has an access control list (its permissions of the group are then the most
        that the list gives)
    is_group_private: whether its group has no member but its owner
    """

    owner: int
    mode: int
    has_acl: bool
    is_group_private: bool


def find_fault(status: DirectoryStatus, caller: int, path: Path, option: str) -> str | None:
    """Return why ``caller`` must not write into the directory, with what to do, or None if nothing
    speaks against it. ``option``: with which another directory is given.
    """
    quoted = shlex.quote(os.fspath(path))
    if status.owner != caller:
        owner, writer = name_user(status.owner), name_user(caller)
        sudo = "" if caller == 0 else "sudo "
        return (
            f"belongs to {owner}, and {writer} writes results only into directories of "
            f"{writer}'s own: give another with {option}, or run: "
            f"{sudo}chown {writer}: {quoted}"
        )
    if status.mode & stat.S_IWOTH and status.mode & stat.S_ISVTX:
        return f"everybody may write in it: give {option} a new directory below it"
    if status.mode & stat.S_IWOTH or (
        status.mode & stat.S_IWGRP and not status.has_acl and not status.is_group_private
    ):
        return (
            f"other users may write in it: run: chmod go-w {quoted}, or give another with {option}"
        )
    if status.mode & stat.S_IWGRP and status.has_acl:
        return (
            "its access control list lets other users write in it: run: setfacl -b "
            f"{quoted}, or give another with {option}"
        )
    return None


class OutputDirectory:
    """A directory that belongs to us and that nobody else may write in, held by its descriptor.

    path: as the user named it, for messages, and for reading
    fd: its descriptor
    """

    def __init__(self, path: Path, fd: int, option: str) -> None:
        self.path = path
        self.fd = fd
        self._option = option

    @classmethod
    def open(cls, path: Path, option: str = "--out") -> Self:
        """Open a directory, made with its parents if it is missing. Raises UsageError if it is not
        ours alone; OSError. ``option``: with which the user gives another.
        """
        with naming(path):
            fd = _open_or_make(path)
        return cls._check(path, fd, option)

    @classmethod
    @contextlib.contextmanager
    def create(cls, path: Path) -> Iterator[Self]:
        """Give a new directory that gets its name when the block ends without an exception, and is
        removed otherwise. OSError, also if anything but an empty directory has the name.
        """
        above = path.absolute().parent
        name = _PARTIAL + secrets.token_hex(6)
        with naming(path):
            parent = _open_or_make_parent(above)
            try:
                fd = _make_directory(parent, name, _PRIVATE_DIRECTORY, above / name)
                with cls(above / name, fd, "--out") as directory:
                    yield directory
                    os.fchmod(fd, caller_umask.readable_directory_mode())
                os.rename(name, path.name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                remove_in(parent, name)
                raise
            finally:
                os.close(parent)

    @classmethod
    def _check(cls, path: Path, fd: int, option: str) -> Self:
        try:
            if fault := find_fault(_read_status(fd), os.geteuid(), path, option):
                raise UsageError(f"{path}: {fault}")
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd, option)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_subdirectory(self, name: str, private: bool = False) -> Self:
        """Open a directory in this one, made if it is missing. Raises UsageError if it is a link,
        or not ours alone; OSError.
        """
        path = self.path / name
        with self._naming(name):
            mode = _PRIVATE_DIRECTORY if private else caller_umask.readable_directory_mode()
            fd = _make_directory(self.fd, name, mode, path)
        return self._check(path, fd, self._option)

    def make_fresh_subdirectory(self, name: str) -> Self:
        """Make an empty directory in this one; what had the name is removed. OSError."""
        self.remove(name)
        return self.open_subdirectory(name)

    def write(self, name: str, content: str | bytes, private: bool = False) -> None:
        """Write a file completely or not at all; what had its name is replaced. OSError.
        ``private``: nobody but its owner may read it.
        """
        with self.create_file(name, private) as file:
            file.write(content.encode() if isinstance(content, str) else content)

    @contextlib.contextmanager
    def create_file(self, name: str, private: bool = False) -> Iterator[BinaryIO]:
        """Give a new file that gets its name, and replaces what had it, when the block ends without
        an exception. OSError. ``private``: nobody but its owner may read it.
        """
        with self._naming(name):
            mode = _PRIVATE_FILE if private else caller_umask.readable_mode()
            with replace_file(self.fd, name, mode) as file:
                yield file

    def append(self, name: str, private: bool = False) -> BinaryIO:
        """Open a file, made if it is missing, to write at its end. Raises UsageError if what has
        the name is not a regular file of our own; OSError.
        """
        return open(self._open_in_place(name, os.O_WRONLY | os.O_APPEND, private), "ab")

    def append_below(self, path: str, content: bytes) -> None:
        """Write at the end of a file whose name has directories before it; what is missing is made.
        Raises UsageError, OSError as :meth:`append` and :meth:`open_subdirectory`.
        """
        above, _, rest = path.partition("/")
        if rest:
            with self.open_subdirectory(above) as below:
                below.append_below(rest, content)
            return
        with self.append(path) as file:
            file.write(content)

    def open_lock(self, name: str) -> int:
        """Open a private file for reading and writing, made if it is missing. Raises UsageError if
        what has the name is not a regular file of our own; OSError.
        """
        return self._open_in_place(name, os.O_RDWR, private=True)

    def _open_in_place(self, name: str, access: int, private: bool) -> int:
        with self._naming(name):
            self.has_own_file(name)  # a link is told as one
            fd = os.open(name, access | _IN_PLACE, _PRIVATE_FILE, dir_fd=self.fd)
            try:
                status = os.fstat(fd)
                _check_own(self.path / name, status)
                if not private and not status.st_size:
                    os.fchmod(fd, caller_umask.readable_mode())
            except BaseException:
                os.close(fd)
                raise
        return fd

    def has_own_file(self, name: str) -> bool:
        """Return whether there is a regular file of our own of this name, with no other name.
        Raises UsageError if it is anything else; OSError.
        """
        with self._naming(name):
            try:
                status = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            except FileNotFoundError:
                return False
        _check_own(self.path / name, status)
        return True

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory in this one. OSError."""
        with self._naming(old):
            os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def remove(self, name: str) -> None:
        """Remove a file, a link or a directory with all that is in it, as far as possible. Raises
        OSError if it is still there.
        """
        with self._naming(name):
            remove_in(self.fd, name)

    def list_names(self) -> list[str]:
        """Return the names of what is in it, without files that were never finished."""
        return sorted(n for n in os.listdir(self.fd) if not n.startswith(_PARTIAL))

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        path = self.path / name
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise OSError(errno.EINVAL, "not the name of a file", os.fspath(path))
        with naming(path):
            yield


def remove_own(path: Path) -> None:
    """Remove a file, a link or a directory in a directory of ours, if it is there. Raises
    UsageError if the directory is not ours alone; OSError.
    """
    with OutputDirectory.open(path.parent) as directory:
        directory.remove(path.name)


def write_own(path: Path, content: str | bytes, private: bool = False) -> None:
    """Write a file into a directory of ours, completely or not at all. Raises UsageError if the
    directory is not ours alone; OSError.
    """
    with OutputDirectory.open(path.parent) as directory:
        directory.write(path.name, content, private)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an OSError name the path as the user knows it."""
    try:
        yield
    except OSError as error:
        # A name without a directory is one below a descriptor.
        is_named = isinstance(error.filename, str) and "/" in error.filename
        shown = error.filename if is_named else os.fspath(path)
        raise OSError(error.errno, error.strerror, shown) from None


@contextlib.contextmanager
def replace_file(directory: int, name: str, mode: int) -> Iterator[BinaryIO]:
    """Give a new file in a directory; it gets its name, and replaces what had it, when the block
    ends without an exception. OSError.
    """
    partial = _PARTIAL + secrets.token_hex(6)
    fd = os.open(partial, _NEW, _PRIVATE_FILE, dir_fd=directory)
    try:
        with open(fd, "w+b") as file:
            yield file
            file.flush()
            os.fchmod(fd, mode)
        os.rename(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial, dir_fd=directory)
        raise


def name_user(uid: int) -> str:
    """Return a user's name, or its number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _open_or_make(path: Path) -> int:
    try:
        return os.open(path, _DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        parent = _open_or_make_parent(path.absolute().parent)
    except NotADirectoryError:
        _refuse_link(path, path.is_symlink())
        raise
    try:
        return _make_directory(parent, path.name, caller_umask.readable_directory_mode(), path)
    finally:
        os.close(parent)


def _open_or_make_parent(path: Path) -> int:
    """Open a directory as the user names it: by links, and of whoever it belongs to."""
    try:
        return os.open(path, _DIRECTORY)
    except FileNotFoundError:
        return _open_or_make(path)


def _make_directory(parent: int, name: str, mode: int, path: Path) -> int:
    is_new = False
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, _PRIVATE_DIRECTORY, dir_fd=parent)
        is_new = True
    try:
        fd = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except NotADirectoryError:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        _refuse_link(path, stat.S_ISLNK(status.st_mode))
        raise
    if is_new and os.fstat(fd).st_uid == os.geteuid():
        os.fchmod(fd, mode)
    return fd


def _refuse_link(path: Path, is_link: bool) -> None:
    if is_link:
        raise UsageError(
            f"{path}: is a link, and nothing is written through links; give the directory that it "
            "leads to, or remove it"
        )


def _check_own(path: Path, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise UsageError(f"{path}: is a link, and nothing is written through links; remove it")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: not a regular file; remove it")
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"{path}: belongs to {name_user(status.st_uid)}, and dballoc writes into no file of "
            "another user; remove it"
        )
    if status.st_nlink != 1:
        raise UsageError(f"{path}: the file has a second name elsewhere (a hard link); remove it")


def _read_status(fd: int) -> DirectoryStatus:
    status = os.fstat(fd)
    mode = stat.S_IMODE(status.st_mode)
    is_group_writable = bool(mode & stat.S_IWGRP)
    return DirectoryStatus(
        owner=status.st_uid,
        mode=mode,
        has_acl=is_group_writable and _has_acl(fd),
        is_group_private=is_group_writable and _is_private(status.st_gid, status.st_uid),
    )


def _has_acl(fd: int) -> bool:
    try:
        return bool(os.getxattr(fd, "system.posix_acl_access"))
    except OSError:
        return False


def _is_private(gid: int, uid: int) -> bool:
    """Return whether a group has no member but a user. A group of another name than the user's may
    have members that are listed nowhere on this host (LDAP).
    """
    try:
        group, owner = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    return (
        group.gr_name == owner.pw_name
        and set(group.gr_mem) <= {owner.pw_name}
        and all(user.pw_uid == uid for user in pwd.getpwall() if user.pw_gid == gid)
    )
