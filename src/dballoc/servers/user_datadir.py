"""Check a data directory of the user's: that it is one, that no server runs on it, and what
identifies it. It is only read.
"""

import fcntl
import hashlib
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.files.foreign_file import open_foreign_file
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import run_abandonable

# The files that servers lock as long as they run.
_LOCKED = ("ibdata1", "aria_log_control", "mysql.ibd", "undo_001", "ib_logfile0")
# Servers nest their data a few levels deep; xtrabackup's checkpoint file has short lines.
_DEEPEST, _LONGEST = 16, 1 << 16
# Files that a copy does not need: binary and relay logs, sockets, files of a single start or host.
_LEFT = re.compile(
    r"(.*-bin|binlog|.*relay-bin.*)\.(\d{6,}|index|state)|.*\.(pid|sock|lock|err)|ibtmp\d+|#innodb_temp|auto\.cnf|mysqld-auto\.cnf"
)
_BACKUPS = ("xtrabackup_checkpoints", "mariadb_backup_checkpoints")
# Log lines that show that the server had to recover the data.
_RECOVERY = re.compile(
    r"(starting|performing) (a )?(crash|XA crash) recovery|was not shutdown normally|Aria engine: "
    r"starting recovery",
    re.IGNORECASE,
)


def check(path: Path, where: str) -> None:
    """Check that this is a complete and readable data directory that no server uses. Raises
    UsageError if not.
    """
    try:
        names = {entry.name for entry in os.scandir(path)}
    except OSError as error:
        raise UsageError(f"{where} {path}: {error.strerror}") from None
    if "mysql" not in names and "mysql.ibd" not in names:
        raise UsageError(f"{where} {path}: not a data directory: no system tables (mysql) in it")
    if (user := in_use(path)) is not None:
        raise UsageError(
            f"{where} {path}: a server{f' (process {user})' if user > 0 else ''} is running on it; "
            "stop it, or give a copy"
        )
    for name in _BACKUPS:
        if name in names and "prepared" not in _text(path / name):
            raise UsageError(
                f"{where} {path}: a backup that is not prepared; run mariadb-backup or xtrabackup "
                "--prepare first"
            )
    for entry in files(path):
        if entry.name.endswith(".isl"):
            raise UsageError(
                f"{where} {path}: {entry.name} leads to a table outside of it; only complete "
                "directories can be copied"
            )
        if not os.access(entry.path, os.R_OK):
            raise UsageError(
                f"{where} {path}: you may not read {os.path.relpath(entry.path, path)}; run as "
                "root or as its owner"
            )


def in_use(path: Path) -> int | None:
    """Return the PID of a process that holds a server's lock in the directory (0 or less: in
    another PID namespace), or None. It asks the kernel who would block a lock, and takes none.
    """
    for name in _LOCKED:
        try:
            with open_foreign_file(path / name) as f:
                lock = struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
                kind, _, _, _, pid = struct.unpack(
                    "hhqqi", fcntl.fcntl(f, fcntl.F_GETLK, lock)[: struct.calcsize("hhqqi")]
                )
        except OSError:
            continue
        if kind != fcntl.F_UNLCK and pid != os.getpid():
            return int(pid)
    # A process's current directory may never answer.
    return run_abandonable(lambda: _find_server_inside(path), "the servers' current directories")


def _find_server_inside(path: Path) -> int | None:
    """Return the PID of a server whose current directory is its data directory: without locks
    (external storage) that shows it.
    """
    status = path.stat()
    for home in Path("/proc").iterdir():
        try:
            if (
                home.name.isdigit()
                and readers.text_of_process(home / "comm").startswith(("mariadbd", "mysqld"))
                and os.path.samestat(_read_current_directory(home), status)
            ):
                return int(home.name)
        except OSError:
            continue
    return None


def _read_current_directory(home: Path) -> os.stat_result:
    """Read the status of a process's current directory. OSError, also if it did not answer."""
    link = os.fspath(home / "cwd")
    try:
        touches.begin_path(os.fspath(home / "root"), os.readlink(link))
        return os.stat(link)
    finally:
        touches.end_touch()


def files(path: Path, depth: int = 1) -> Iterator[os.DirEntry[str]]:
    """Yield all files that a copy needs, in a fixed order; links are followed. Raises UsageError
    for links that form a loop.
    """
    if depth > _DEEPEST:
        raise UsageError(
            f"{path}: not a data directory: it is more than {_DEEPEST} directories deep, or a link "
            "in it leads in a circle"
        )
    for entry in sorted(os.scandir(path), key=lambda e: e.name):
        if _LEFT.fullmatch(entry.name):
            continue
        if entry.is_dir():
            yield from files(Path(entry.path), depth + 1)
        elif entry.is_file():
            yield entry


def _text(path: Path) -> str:
    try:
        with open_foreign_file(path) as f:
            return f.read(_LONGEST).decode(errors="replace")
    except OSError:
        return ""


def parts(path: Path) -> list[Path]:
    """Return the entries of the top directory that a copy includes."""
    return [
        p
        for p in sorted(path.iterdir())
        if not _LEFT.fullmatch(p.name) and (p.is_dir() or p.is_file())
    ]


def identity(path: Path) -> tuple[str, int]:
    """Return a hash over every file's name, size and time, and the total bytes."""
    digest, size = hashlib.sha256(), 0
    for entry in files(path):
        status = entry.stat()
        size += status.st_size
        relative = os.path.relpath(entry.path, path)
        digest.update(f"{relative}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16], size


def recovered(log: str) -> bool:
    """Whether a server's log says that the directory was not shut down cleanly."""
    return _RECOVERY.search(log) is not None
