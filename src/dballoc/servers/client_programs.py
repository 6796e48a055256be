"""Find a server's client programs: the build's own, else the machine's."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from dballoc.errors import UsageError
from dballoc.servers.build import Build


def find(build: Build, names: Sequence[str], purpose: str) -> Path:
    """Return the first of ``names`` that exists, those of the build's family first. UsageError that
    begins with ``purpose`` if none does.
    """
    places = [build.executable.parent, build.basedir / "bin", build.basedir / "usr/bin"]
    ordered = sorted(names, key=lambda n: not n.startswith(build.family))
    for name in ordered:
        for place in places:
            if os.access(place / name, os.X_OK):
                return place / name
    for name in ordered:
        if path := shutil.which(name):
            return Path(path)
    raise UsageError(f"{purpose}, but neither is on this machine; apt-get install mariadb-client")
