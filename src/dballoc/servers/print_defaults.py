"""Ask a server itself what it reads from its option files: ``--print-defaults``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dballoc.errors import UsageError
from dballoc.host import directories
from dballoc.host.unprivileged.ownership import remove_directory
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged
from dballoc.host.unprivileged.server_user import server_user
from dballoc.readers import shown
from dballoc.servers.build import Build
from dballoc.servers.private.command_line import is_name
from dballoc.servers.private.option_file_copies import Copies
from dballoc.servers.running.credentials import parse

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
    """Read an option file and the files that it includes. UsageError in one line for a bad file.
    The server, running as the server user, reads a copy, because root may name files that nobody
    else can read.
    """
    user = server_user()
    directory = directories.make_run_directory(lambda _: None)
    user.show(directory)
    copies = Copies(directory, user)
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
