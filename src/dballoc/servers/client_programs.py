"""Find a server's client programs: the build's own, else the machine's (in a kit the build's
alone).
"""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from dballoc.fetch import closed_store
from dballoc.ground.errors import UsageError
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged
from dballoc.servers.build import Build


def find(build: Build, names: Sequence[str], purpose: str) -> Path:
    """Return the first of ``names`` that exists, those of the build's family first. Raises
    UsageError that begins with ``purpose`` if none does.
    """
    if path := _find_first(build, names):
        return path
    raise UsageError(f"{purpose}, but neither is on this machine; apt-get install mariadb-client")


def find_backup(build: Build, purpose: str) -> Path:
    """The program that copies the files of a running server of this build. Raises UsageError,
    beginning with ``purpose``, if there is none, or if its series is not the server's: it would
    refuse the server's files in the middle.
    """
    backup = build.entry.backup
    path = _find_first(build, backup["names"])
    if path is None:
        raise UsageError(
            f"{purpose}: a backup of {build.title} needs {backup['names'][0]}; {backup['source']}"
        )
    try:
        answer = run_unprivileged([path, "--version"])
    except Unanswered as error:
        raise UsageError(f"{purpose}: {path} does not run: {error}") from None
    series = find_series(answer.stdout + answer.stderr)
    if series != (wanted := ".".join(build.version.split(".")[:2])):
        raise UsageError(
            f"{purpose}: {path} is of {series or 'an unknown series'}, and the server of {wanted}; "
            f"{backup['source']} of the server's series"
        )
    return path


def find_series(text: str) -> str | None:
    """The series of the server, like ``10.11``, that a backup program says it is based on."""
    match = re.search(r"based on (?:MariaDB|MySQL) server (\d+\.\d+)", text)
    return match[1] if match else None


def _find_first(build: Build, names: Sequence[str]) -> Path | None:
    places = [build.executable.parent, build.basedir / "bin", build.basedir / "usr/bin"]
    ordered = sorted(names, key=lambda n: not n.startswith(build.entry.lineage))
    for name in ordered:
        for place in places:
            if os.access(place / name, os.X_OK):
                return place / name
    for name in ordered if closed_store.open_closed_store() is None else ():
        if path := shutil.which(name):
            return Path(path)
    return None
