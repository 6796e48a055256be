"""The files of a server's prefix and of an allocator, as they come out of packages, made to work
where they lie.
"""

import shutil
from fnmatch import fnmatchcase
from pathlib import Path

from dballoc import catalogue
from dballoc.errors import Failure
from dballoc.fetch.fetch_job import Job
from dballoc.host.elf import elf_exports

# What no server needs at run time.
_LEFT = (
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
    """The server of a tree, wherever its top directory lies in it; None if there is none."""
    names = dict.fromkeys(
        binary for entry in catalogue.servers().values() for binary in entry["binaries"]
    )
    for name in names:
        for path in sorted(root.rglob(name), key=lambda p: len(p.parts)):
            if elf_exports.is_elf(path) and path.parent.name in ("bin", "sbin", "libexec"):
                return path
    return None


def raise_top_directory(root: Path, program: Path) -> None:
    """Make the directory that a server's tree begins at (``bin`` or ``usr`` lies in it) the root
    itself.
    """
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
    for pattern in _LEFT:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def find_loader(root: Path) -> Path:
    """The program interpreter of the tree's C library. Failure if there is none."""
    for libc in sorted(root.rglob("libc.so.6")):
        for pattern in _LOADERS:
            if loaders := sorted(libc.parent.glob(pattern)):
                return loaders[0]
    raise Failure(f"{root}: no C library in it")


def find_library_directories(root: Path) -> list[Path]:
    """Where the tree has libraries that programs are linked against."""
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


def relink_programs(job: Job, interpreter: Path, search: list[Path]) -> None:
    """Have the servers and clients of the tree run on its own loader and libraries, at the place
    where it will lie. Other programs are removed: they would run on the machine's, for which they
    were not made.
    """

    def at_the_end(path: Path) -> Path:
        return job.final / path.relative_to(job.place)

    for directory in ("bin", "sbin", "usr/bin", "usr/sbin", "usr/libexec"):
        for path in sorted((job.root / directory).glob("*")):
            if not any(fnmatchcase(path.name, pattern) for pattern in _PROGRAMS):
                path.unlink() if path.is_symlink() or path.is_file() else None
            elif elf_exports.is_elf(path) and elf_exports.read_interpreter(path):
                job.progress(f"relinking {path.name}", None)
                elf_exports.relink(path, at_the_end(interpreter), [at_the_end(d) for d in search])


def copy_libraries(job: Job, tree: Path, beside: bool) -> list[str]:
    """Move an allocator's libraries out of a tree into ``lib`` of the job's place, and name those
    to preload.

    ``beside``: other libraries of the tree come along, and are found there. Failure if one is not
    there.
    """
    target = job.place / "lib"
    target.mkdir()
    libraries = []
    for sonames in catalogue.allocators()[job.source.name]["preload"]:
        path = next(
            (p for soname in sonames.split("|") for p in sorted(tree.rglob(soname)) if p.exists()),
            None,
        )
        if path is None:
            raise Failure(
                f"{job.source.reference}: no {sonames.replace('|', ' or ')} in what was fetched"
            )
        shutil.copy2(path.resolve(), target / path.name)
        libraries.append(f"lib/{path.name}")
    if beside:
        names = {Path(f).name for f in libraries}
        for path in tree.rglob("*.so*"):
            if path.is_file() and path.name not in names and not (target / path.name).exists():
                shutil.copy2(path.resolve(), target / path.name)
        for name in names:
            elf_exports.relink(target / name, None, ["$ORIGIN"])
    return libraries
