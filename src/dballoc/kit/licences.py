"""Find the licences of what a kit carries: of Debian's packages, and of archives that brought their
own.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from dballoc.fetch import private_store

# Seconds for dpkg-query, of some hundred files.
_PATIENCE = 60
_NAMES = ("LICENSE*", "COPYING*", "LICENCE*", "README")


def find_licences(origins: Iterable[Path]) -> tuple[dict[str, Path], list[str]]:
    """Find the licence file of each package that these files come from, by the package's name; and
    what none is known of: files, and entries of the store.
    """
    licences: dict[str, Path] = {}
    unknown: dict[str, None] = {}
    of_machine: list[Path] = []
    for path in dict.fromkeys(origins):
        entry = private_store.find_owner(path)
        if entry is None:
            of_machine.append(path)
            continue
        texts = {d.name: d / "copyright" for d in entry.root.glob("usr/share/doc/*")}
        texts |= {f"{entry.reference}-{p.name}": p for n in _NAMES for p in entry.root.glob(n)}
        licences |= {name: text for name, text in texts.items() if text.is_file()}
        if not any(text.is_file() for text in texts.values()):
            unknown[entry.reference] = None
    packages = _find_packages(of_machine)
    for path in of_machine:
        package = packages.get(path) or packages.get(path.resolve())
        text = Path(f"/usr/share/doc/{package}/copyright")
        if package and text.is_file():
            licences[package] = text
        else:
            unknown[os.fspath(path)] = None
    return licences, list(unknown)


def _find_packages(paths: Iterable[Path]) -> dict[Path, str]:
    """Find the Debian packages of installed files. Packages made before /lib and /usr/lib were
    joined have them under the one name, later ones under the other.
    """
    wanted = {os.fspath(each): path for path in paths for each in list_names(path)}
    if not wanted or shutil.which("dpkg-query") is None:
        return {}
    try:
        process = subprocess.run(
            ["dpkg-query", "--search", *wanted],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    owners = parse_owners(process.stdout)
    return {path: owners[name] for name, path in wanted.items() if name in owners}


def list_names(path: Path) -> list[Path]:
    """List the names under which a package may have a file: its own and the resolved, each with and
    without ``/usr``.
    """
    names: dict[Path, None] = {}
    for each in (path, path.resolve()):
        parts = each.parts
        is_below = parts[:2] == ("/", "usr")
        other = Path("/", *parts[2:]) if is_below else Path("/usr", *parts[1:])
        names |= {each: None, other: None}
    return list(names)


def parse_owners(text: str) -> dict[str, str]:
    """Parse ``dpkg-query --search`` (``PACKAGE[:ARCHITECTURE][, …]: PATH`` a line): the first
    package of each path. Pure.
    """
    owners = {}
    for line in text.splitlines():
        packages, colon, path = line.partition(": ")
        if colon and path.startswith("/") and not line.startswith("diversion "):
            owners[path] = packages.partition(",")[0].partition(":")[0]
    return owners
