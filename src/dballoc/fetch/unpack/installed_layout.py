"""Make the files of a server's prefix or of an allocator, as they come out of packages, work in
their new place.
"""

import shutil
from fnmatch import fnmatchcase
from pathlib import Path

from dballoc import catalogue
from dballoc.fetch.fetch_job import FetchJob
from dballoc.ground.errors import Failure
from dballoc.host.elf import patch_elf

# What no server needs at run time.
_UNNEEDED = (
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/perl*",
    "usr/lib/*/perl*",
    "usr/share/zoneinfo",
    "usr/share/bash-completion",
    "usr/lib/*/gconv",
    "usr/lib/systemd",
    "usr/lib/locale",
    "usr/lib/python*",
    "var",
    "etc",
)
_PROGRAMS = ("mariadb*", "mysql*")
_LOADERS = ("ld-linux-*.so.*", "ld-linux.so.*", "ld64.so.*")


def find_server_program(root: Path) -> Path | None:
    """Find the server's executable in a tree, at any depth; None if there is none."""
    names = dict.fromkeys(
        binary for entry in catalogue.servers().values() for binary in entry["binaries"]
    )
    for name in names:
        for path in sorted(root.rglob(name), key=lambda p: len(p.parts)):
            if patch_elf.is_elf(path) and path.parent.name in ("bin", "sbin", "libexec"):
                return path
    return None


def raise_top_directory(root: Path, program: Path) -> None:
    """Make the top directory of a server's tree (with ``bin`` or ``usr``) the root itself."""
    top = program.parent.parent
    top = top.parent if top.name == "usr" else top
    if top == root:
        return
    aside = root.with_name("top")
    top.rename(aside)
    shutil.rmtree(root)
    aside.rename(root)


def remove_unneeded_files(root: Path) -> None:
    """Remove what no server needs at run time."""
    for pattern in _UNNEEDED:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def find_loader(root: Path) -> Path:
    """Find the program interpreter of the tree's C library. Raises Failure if there is none."""
    for libc in sorted(root.rglob("libc.so.6")):
        for pattern in _LOADERS:
            if loaders := sorted(libc.parent.glob(pattern)):
                return loaders[0]
    raise Failure(f"{root}: no C library in it")


def find_library_directories(root: Path) -> list[Path]:
    """Find the directories with libraries that programs of the tree are linked against."""
    candidates = [
        *root.glob("usr/lib/*-linux-gnu"),
        *root.glob("lib/*-linux-gnu"),
        root / "usr/lib",
        root / "lib",
    ]
    private = [d for p in candidates for d in p.glob("*/private")]
    return [
        d
        for d in [*candidates, *private]
        if d.is_dir() and not d.is_symlink() and any(d.glob("*.so*"))
    ]


def relink_programs(job: FetchJob, interpreter: Path, search: list[Path]) -> None:
    """Make the servers and clients of the tree use its own loader and libraries, at its final
    place. Other programs are removed: they would use the machine's libraries, for which they were
    not built.
    """

    def at_the_end(path: Path) -> Path:
        return job.final / path.relative_to(job.place)

    for directory in ("bin", "sbin", "usr/bin", "usr/sbin", "usr/libexec"):
        for path in sorted((job.root / directory).glob("*")):
            if not any(fnmatchcase(path.name, pattern) for pattern in _PROGRAMS):
                path.unlink() if path.is_symlink() or path.is_file() else None
            elif patch_elf.is_elf(path) and patch_elf.read_interpreter(path):
                job.progress(f"relinking {path.name}", None)
                patch_elf.relink(path, at_the_end(interpreter), [at_the_end(d) for d in search])


def find_missing_library(job: FetchJob, tree: Path) -> str | None:
    """Return the first of an allocator's libraries that a tree does not have, in words."""
    sonames = catalogue.allocators()[job.source.name]["preload"]
    missing = (each for each in sonames if _find_library(tree, each) is None)
    return next((each.replace("|", " or ") for each in missing), None)


def _find_library(tree: Path, sonames: str) -> Path | None:
    """Find the first of some sonames (``A|B``) that a tree has a file of."""
    files = (p for soname in sonames.split("|") for p in sorted(tree.rglob(soname)))
    return next((path for path in files if path.exists()), None)


def copy_libraries(job: FetchJob, tree: Path, beside: bool) -> list[str]:
    """Copy an allocator's libraries out of a tree into ``lib`` of the job's place, and return the
    paths of those to preload. Raises Failure if one is missing.

    ``beside``: the tree's other libraries are copied too, and are looked for there.
    """
    target = job.place / "lib"
    target.mkdir()
    libraries = []
    for sonames in catalogue.allocators()[job.source.name]["preload"]:
        if (path := _find_library(tree, sonames)) is None:
            lacking = sonames.replace("|", " or ")
            raise Failure(f"{job.source.reference}: no {lacking} in the download or its build")
        shutil.copy2(path.resolve(), target / path.name)
        libraries.append(f"lib/{path.name}")
    if beside:
        names = {Path(f).name for f in libraries}
        for path in tree.rglob("*.so*"):
            if path.is_file() and path.name not in names and not (target / path.name).exists():
                shutil.copy2(path.resolve(), target / path.name)
        for name in names:
            patch_elf.relink(target / name, None, ["$ORIGIN"])
    return libraries
