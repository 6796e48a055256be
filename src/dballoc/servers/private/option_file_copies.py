"""Copy an option file, with the files that it includes, for a server that may not read the
originals.

The files are read with the rights of whoever runs dballoc; the server, which alone knows how to
parse them, runs without rights.
"""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from dballoc.errors import UsageError
from dballoc.files.foreign_file import open_foreign_file
from dballoc.host.unprivileged.private_file import write_private
from dballoc.host.unprivileged.server_user import ServerUser

# The servers' own limit of nested files; the other limits are more than anybody uses.
_DEEPEST, _MOST_FILES, _LONGEST = 10, 200, 1 << 20
_INCLUDE, _INCLUDE_DIRECTORY = "!include", "!includedir"


@dataclass(frozen=True)
class Copies:
    """``directory``: our directory, which the server user may read; ``originals``: by the path of
    the copy; ``texts``: of all files, those that others include first.
    """

    directory: Path
    user: ServerUser
    originals: dict[Path, Path] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def add(self, path: Path) -> Path:
        """Copy an option file, and return the copy's path. UsageError in one line for a file that
        cannot be read, and for one that includes a file of another owner.
        """
        return self._add(path, None, 0)

    def as_written(self, text: str) -> str:
        """Return a message of the server's with the original file names."""
        for copy, original in self.originals.items():
            text = text.replace(os.fspath(copy), os.fspath(original))
        return text

    def _add(self, path: Path, includer: int | None, depth: int) -> Path:
        if depth > _DEEPEST or len(self.originals) >= _MOST_FILES:
            raise UsageError(
                f"{path}: option files include each other more than {_DEEPEST} deep, or are more "
                f"than {_MOST_FILES} in all"
            )
        text, owner = _read(path, includer)
        copy = self.directory / f"{len(self.originals)}.cnf"
        self.originals[copy] = path
        lines = [self._line(line, owner, depth) for line in text.split("\n")]
        self.texts.append(text)
        return write_private(copy, "\n".join(lines), self.user)

    def _line(self, line: str, owner: int, depth: int) -> str:
        word, _, argument = line.strip().partition(" ")
        place = Path(argument.strip())
        if word == _INCLUDE and place.exists():  # servers pass over one that is not there
            return f"{_INCLUDE} {self._add(place, owner, depth + 1)}"
        if word == _INCLUDE_DIRECTORY and place.is_dir():
            names = sorted(name for name in os.listdir(place) if name.endswith(".cnf"))
            return "\n".join(
                f"{_INCLUDE} {self._add(place / name, owner, depth + 1)}" for name in names
            )
        return line


def _read(path: Path, includer: int | None) -> tuple[str, int]:
    """Read a file's text and its owner. ``includer``: the owner of the file that includes it, who
    must be us or own this file too.
    """
    try:
        file = open_foreign_file(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    with file:
        status = os.fstat(file.fileno())
        if status.st_size > _LONGEST:
            raise UsageError(f"{path}: not an option file: larger than {_LONGEST >> 20} MiB")
        if includer not in (None, os.geteuid(), 0, status.st_uid):
            raise UsageError(
                f"{path}: belongs to user {status.st_uid}, but the option file that includes it "
                f"belongs to user {includer}; include files of the same owner, or remove the line"
            )
        if status.st_mode & stat.S_IWOTH:
            raise UsageError(f"{path}: world-writable, so servers ignore it; chmod o-w {path}")
        return file.read(_LONGEST).decode(errors="surrogateescape"), status.st_uid
