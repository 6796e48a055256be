"""What a server reads from its option files, asked of the server itself: ``--print-defaults``."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dballoc.errors import UsageError
from dballoc.servers.build import Build

# Values may hold anything; only an option begins with two dashes after a space.
_NEXT = re.compile(r" (?=--[A-Za-z])")

_ERROR = re.compile(r".*\[error\]|error|could not|unknown")
_STAMP = re.compile(r"^(.*\[ERROR\] )?(\[MY-\d+\] \[\w+\] )?(\S*(mariadbd|mysqld): )?(error: )?", re.IGNORECASE)


class Unreadable(Exception):
    """The server's complaint about its option files."""


def of_file(build: Build, path: Path) -> list[str]:
    """The server's arguments from an option file, what it includes too. UsageError in one line for a bad one."""
    shown = os.fspath(path)
    path = path.expanduser().absolute()
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise UsageError(f"--defaults-file {shown}: {error.strerror}") from None
    try:
        return printed([os.fspath(build.executable)], [f"--defaults-file={path}"], {})
    except Unreadable as error:
        raise UsageError(f"--defaults-file {shown}: {build.title} cannot read it: {error}") from None


def printed(command: Sequence[str], switches: Sequence[str], environ: Mapping[str, str], **how: Any) -> list[str]:
    """The arguments that ``command`` (a server, maybe behind a prefix) prints for its option files.

    ``switches``: --defaults-file and its kin; ``how``: for :func:`subprocess.run`. Unreadable in the server's words.
    """
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), **environ}
    try:
        done = subprocess.run(
            [*command, *switches, "--print-defaults"], capture_output=True, text=True, errors="replace", env=env,
            timeout=60, check=False, **how,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unreadable(str(error)) from None
    if done.returncode != 0:
        raise Unreadable(complaint(done.stderr or done.stdout))
    head, _, rest = done.stdout.partition("following arguments:\n")
    return [word.rstrip() for word in _NEXT.split(" " + rest.strip("\n")) if word.strip()] if rest and head else []


def complaint(text: str) -> str:
    """The line that says most: the first with an error in it, without its time stamp."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line.lower())]
    return _STAMP.sub("", (errors or lines or ["it says nothing"])[0]).rstrip(".")
