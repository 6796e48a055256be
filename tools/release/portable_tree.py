"""The tree that the portable file, the .deb and kits hold: an interpreter with the extra `measure`.

    bin/python3, bin/dballoc      the interpreter; a script that runs dballoc by it
    bin/patchelf                  relinks servers
    lib/python3.11/               the standard library without what dballoc never imports
    lib/python3.11/lib-dynload/   its compiled modules
    lib/python3.11/dballoc/ …     dballoc and what it depends on
    lib/*.so.*                    the libraries that those need beside the C library
    licences/                     of all that is compiled; Python's packages have theirs beside them
    parts.cdx.json                what is in here, with versions (CycloneDX)

Everything is compiled to bytecode whose names of files are relative to the tree and that is checked
against no source, and the sources are left out: it does not depend on where or when the tree is
built, and no start writes.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

VERSION = "python3.11"
# Of the standard library: tests, tools, and user interfaces.
_LEFT_OUT = frozenset(
    "config-3.11-x86_64-linux-gnu ctypes/test distutils ensurepip idlelib lib2to3 msilib "
    "pydoc_data test tkinter turtledemo turtle.py unittest/test venv __pycache__".split()
)
_MODULES_LEFT_OUT = re.compile(
    r"(_test|_xxtest|xxlimited|xxsubtype|_ctypes_test|ossaudiodev|nis\.|_tkinter|readline)"
)
# What Python's build leaves out without a word where it cannot compile it.
_MODULES_NEEDED = ("_bz2", "_ctypes", "_lzma", "_sqlite3", "_ssl", "zlib")
# What every Linux with glibc has.
_OF_THE_C_LIBRARY = re.compile(r"(ld-linux|lib(c|m|dl|rt|pthread|util|resolv|crypt)\.so)")
_LIBRARY_PLACES = ("build/ssl/lib", "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
_SCRIPT = """#!/bin/sh
DBALLOC_PORTABLE= exec "$(dirname "$(readlink -f "$0")")/python3" -I -B -m dballoc "$@"
"""


def copy_interpreter(root: Path, tree: Path) -> None:
    """Copy the interpreter and its standard library from the root that make-python filled."""
    [source] = root.glob("build/python3.11-*/")
    library = tree / "lib" / VERSION
    (tree / "bin").mkdir(parents=True)
    shutil.copy(source / "python", tree / "bin/python3")
    script = tree / "bin/dballoc"
    script.write_text(_SCRIPT)
    script.chmod(0o755)
    top = source / "Lib"

    def leave_out(directory: str, names: list[str]) -> Iterable[str]:
        places = {name: str((Path(directory) / name).relative_to(top)) for name in names}
        return {
            name for name, place in places.items() if place in _LEFT_OUT or name == "__pycache__"
        }

    shutil.copytree(top, library, ignore=leave_out)
    [built] = source.glob("build/lib.linux-*")
    modules = library / "lib-dynload"
    modules.mkdir()
    for path in sorted(built.glob("*.so")):
        if not _MODULES_LEFT_OUT.match(path.name) and "_failed" not in path.name:
            shutil.copy(path, modules)
    for name in _MODULES_NEEDED:
        if not list(modules.glob(f"{name}.*.so")):
            sys.exit(f"portable_tree: {built} has no {name}; remove {root} and build again")
    # What sysconfig reads at every start.
    for path in built.glob("_sysconfigdata*.py"):
        shutil.copy(path, library)
    copy_libraries(root, tree, [*sorted(modules.iterdir()), tree / "bin/python3"])


def copy_libraries(root: Path, tree: Path, programs: Iterable[Path]) -> None:
    """Copy the libraries of the root that these need, but for the C library's, and let all of them
    look there alone.
    """
    waiting = list(programs)
    while waiting:
        program = waiting.pop()
        for name in needed_libraries(program):
            target = tree / "lib" / name
            if _OF_THE_C_LIBRARY.match(name) or target.exists():
                continue
            places = [
                root / "build/ssl/lib",
                root / "usr/lib/x86_64-linux-gnu",
                root / "lib/x86_64-linux-gnu",
            ]
            shutil.copy(next(p / name for p in places if (p / name).exists()), target)
            target.chmod(0o755)
            waiting.append(target)
        inside = program.relative_to(tree)
        up = "/".join([".."] * (len(inside.parts) - 1))
        place = {"bin": "$ORIGIN/../lib"}.get(inside.parts[0], f"$ORIGIN/{up}/lib")
        subprocess.run(["strip", "--strip-unneeded", program], check=True)
        subprocess.run(["patchelf", "--set-rpath", place, program], check=True)


def needed_libraries(program: Path) -> list[str]:
    """Return the names in an ELF file's DT_NEEDED."""
    done = subprocess.run(
        ["patchelf", "--print-needed", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def compile_sources(tree: Path) -> None:
    """Compile every module beside its source, and remove the source."""
    library = tree / "lib" / VERSION
    command = [tree / "bin/python3", "-I", "-B", "-m", "compileall", "-q", "-b", "-s", tree]
    subprocess.run([*command, "--invalidation-mode", "unchecked-hash", library], check=True)
    for path in sorted(library.rglob("*.py")):
        if path.with_suffix(".pyc").exists():
            path.unlink()


def iterate_files(tree: Path) -> Iterator[Path]:
    """Yield all directories and files of a tree, each directory before what is in it, in the same
    order everywhere.
    """
    yield from sorted(tree.rglob("*"), key=lambda path: path.relative_to(tree).parts)
