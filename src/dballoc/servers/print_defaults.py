"""Ask a server itself what it reads from its option files: ``--print-defaults``."""

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from dballoc.ground.errors import UsageError
from dballoc.ground.files.foreign_file import open_foreign_file
from dballoc.ground.readers import shown
from dballoc.host import directories
from dballoc.host.unprivileged.ownership import remove_directory
from dballoc.host.unprivileged.private_file import write_private
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged
from dballoc.host.unprivileged.server_user import ServerUser, server_user
from dballoc.servers.build import Build
from dballoc.servers.private.reserved_options import is_name
from dballoc.servers.running.credentials import parse

# The servers' own limit of nested files; the other limits exceed any real use.
_DEEPEST, _MOST_FILES, _LONGEST = 10, 200, 1 << 20
_INCLUDE, _INCLUDE_DIRECTORY = "!include", "!includedir"


@dataclass(frozen=True)
class OptionFileCopies:
    """``directory``: our directory, which the server user may read; ``originals``: by the path of
    the copy; ``texts``: of all files, those that others include first.
    """

    directory: Path
    user: ServerUser
    originals: dict[Path, Path] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def add(self, path: Path) -> Path:
        """Copy an option file, and return the copy's path. Raises UsageError for a file that cannot
        be read, and for one that includes a file of another owner.
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


# Values may hold anything; only an option begins with a space and two dashes. A line of an option
# file that begins with no letter is printed as an option, too.
_NEXT = re.compile(r" (?=--\S)")

_ERROR = re.compile(r".*\[error\]|error|could not|unknown")
_STAMP = re.compile(
    r"^(.*\[ERROR\] )?(\[MY-\d+\] \[\w+\] )?(\S*(mariadbd|mysqld): )?(error: )?", re.IGNORECASE
)


# The groups of mysqld_safe, which starts servers with another malloc or THP mode, and its settings
# for these.
_WRAPPER_GROUPS = ("mysqld_safe", "safe_mysqld", "mariadb_safe", "mariadbd-safe", "mariadb-safe")
_WRAPPER_SETTINGS = ("malloc-lib", "thp-setting")


@dataclass(frozen=True)
class OptionFile:
    """``arguments``: what a server reads from an option file and those that it includes;
    ``wrapper``: mysqld_safe's settings there for malloc and THP, by name.
    """

    arguments: list[str]
    wrapper: dict[str, str]


def read_option_file(build: Build, path: Path) -> OptionFile:
    """Read an option file and the files that it includes. Raises UsageError for a bad file. The
    server, running as the server user, reads a copy, because root may name files that nobody else
    can read.
    """
    user = server_user()
    directory = directories.make_run_directory(lambda _: None)
    user.show(directory)
    copies = OptionFileCopies(directory, user)
    try:
        copy = copies.add(path.expanduser().absolute())
        answer = run_unprivileged([build.executable, f"--defaults-file={copy}", "--print-defaults"])
        if answer.status != 0:
            message = copies.as_written(complaint(answer.stderr or answer.stdout))
            raise UsageError(f"{build.title} cannot read it: {message}")
        options = parse_printed(answer.stdout)
        for option in options:
            if not is_name(option.partition("=")[0]):
                raise UsageError(f"{build.title} refuses it: unknown option {shown(option)}")
        return OptionFile(options, list_wrapper_settings(copies.texts))
    except (UsageError, Unanswered) as error:
        text = str(error).removeprefix(f"{path.expanduser().absolute()}: ")
        raise UsageError(f"--defaults-file {path}: {text}") from None
    finally:
        remove_directory(directory)


def list_wrapper_settings(texts: Iterable[str]) -> dict[str, str]:
    """Return the settings of mysqld_safe for malloc and THP in the texts of option files. Pure."""
    return {
        name: value
        for text in texts
        for group, name, value in parse(text)
        if group in _WRAPPER_GROUPS and name in _WRAPPER_SETTINGS and value
    }


def parse_printed(text: str) -> list[str]:
    """Parse the arguments that a server prints of its option files. Pure."""
    head, _, rest = text.partition("following arguments:\n")
    return (
        [word.rstrip() for word in _NEXT.split(" " + rest.strip("\n")) if word.strip()]
        if rest and head
        else []
    )


def complaint(text: str) -> str:
    """Return the most telling line: the first with an error in it, without its time stamp."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line.lower())]
    return _STAMP.sub("", (errors or lines or ["it says nothing"])[0]).rstrip(".")
