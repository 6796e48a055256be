"""Copy the database of somebody else's results directory. SQLite opens a file by its path, waits
for a FIFO and follows links, so it is given only files that nobody else can change.
"""

import fcntl
import time
from io import BufferedReader
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.files.output_directory import OutputDirectory

# Bytes that a reader of a database locks: sqlite3's os.h, SHARED_FIRST and SHARED_SIZE.
_SHARED_FIRST, _SHARED_SIZE = 0x4000_0000 + 2, 510
# Seconds to wait for a writer to end its transaction.
_PATIENCE, _POLL = 5.0, 0.02
_CHUNK = 1 << 20


def copy_database(path: Path, target: Path, most: int) -> None:
    """Copy a database of at most ``most`` bytes into the directory ``target``, with its journal if
    there is one: opening the copy undoes what an unfinished transaction wrote. No link is followed.
    Raises Unfit if it cannot be read or stays locked; OSError if there is no room.
    """
    journal = path.with_name(f"{path.name}-journal")
    with readers.open_file(path, path.parent) as file:
        _wait_for_writer(file.fileno())
        _copy_file(file, target / path.name, most)
        if readers.regular(journal):
            with readers.open_file(journal, path.parent) as written:
                _copy_file(written, target / journal.name, most)


def _copy_file(file: BufferedReader, target: Path, most: int) -> None:
    """Copy what is open. Closing another descriptor of the file would give up its lock."""
    size = 0
    with (
        OutputDirectory.open(target.parent) as directory,
        directory.create_file(target.name, private=True) as copy,
    ):
        while piece := file.read(_CHUNK):
            size += len(piece)
            if size > most:
                raise readers.Unfit(f"larger than {most >> 20:,} MiB, more than any campaign's")
            copy.write(piece)


def _wait_for_writer(fd: int) -> None:
    """Lock the database as SQLite's readers do: until the descriptor is closed nobody commits."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise readers.Unfit(f"locked by another process: {readers.reason(error)}") from None
        time.sleep(_POLL)
