"""The machine that the native parts are tested on: this one; or, with DBALLOC_TEST_MACHINE=aarch64,
one that qemu-user emulates, with programs of the cross compiler and Debian's arm64 libraries
(``make test-aarch64``).

A program for aarch64 is ``NAME.aarch64``; ``NAME`` is a static launcher (run_under_qemu.c) that runs it
under qemu, with the same process ID, arguments and environment. So a test starts, preloads into and
ends either in the same way.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import pytest

from dballoc.allocators import find_library
from dballoc.catalogue import allocators
from dballoc.ground.errors import UsageError

VARIABLE = "DBALLOC_TEST_MACHINE"
HERE = Path(__file__).parent
# Static: a dynamic one would itself take what is preloaded into programs.
QEMU = "/usr/bin/qemu-aarch64-static"
# What `make test-aarch64` has made.
BUILT = HERE.parents[1] / "build" / "aarch64"


class Machine:
    """This machine."""

    name = "host"
    architecture = os.uname().machine
    root = Path("/")

    def compile(self, compiler: str, target: Path, *words: object) -> None:
        """Compile a program or, with ``-shared``, a library."""
        done = subprocess.run(
            [compiler, "-o", target, *map(str, words)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def native_library(self, subject: str) -> Path:
        """A library that the package installs."""
        path = self._native / f"libdballoc_{subject}.so"
        assert path.exists(), (
            f"{path} is not there: the tests run on the installed package (make setup)"
        )
        return path

    @property
    def engine(self) -> Path:
        """The engine of ``dballoc replay``."""
        return self._native / "dballoc_replay"

    @property
    def _native(self) -> Path:
        return Path(str(files("dballoc") / "_native"))

    def find_libraries(self, allocator: str) -> tuple[Path, ...]:
        """The files to preload for an allocator; none for glibc. Skips where it is not there."""
        try:
            return find_library.find_allocator(allocator).libraries
        except UsageError as error:
            pytest.skip(str(error))

    def find_program(self, path: str) -> Path:
        """A program of the system's."""
        return Path(path)

    @property
    def python(self) -> Path:
        """An interpreter, of its standard library alone."""
        return Path(sys.executable)


@dataclass(frozen=True, kw_only=True)
class Emulated(Machine):
    """aarch64 under qemu-user. ``root``: Debian's arm64 packages; ``native``: where what the package
    installs was built; ``programs``: where launchers of the system's programs are.
    """

    root: Path
    native: Path
    programs: Path
    name = architecture = "aarch64"

    @property
    def _native(self) -> Path:
        return self.native

    @cached_property
    def launcher(self) -> Path:
        """The program that starts the one beside it."""
        self.programs.mkdir(exist_ok=True)
        target = self.programs / f"launcher.{os.getpid()}"  # other workers make theirs
        flags = ["-std=c17", "-D_GNU_SOURCE", "-O1", "-static", "-Wall", "-Wextra", "-Werror"]
        named = [f'-DQEMU="{QEMU}"', f'-DROOT="{self.root}"']
        Machine.compile(self, "cc", target, *flags, *named, HERE / "run_under_qemu.c")
        return target

    def _launch(self, target: Path) -> Path:
        """Put a launcher at that path, of the program ``TARGET.aarch64``."""
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.copy2(self.launcher, partial)
        partial.replace(target)
        return target

    def compile(self, compiler: str, target: Path, *words: object) -> None:
        """As of :class:`Machine`, by the cross compiler of the same name."""
        cross = {"cc": "gcc", "c++": "g++", "g++": "g++"}[compiler]
        program = target if "-shared" in words else target.with_name(target.name + ".aarch64")
        super().compile(f"aarch64-linux-gnu-{cross}", program, *words)
        if program != target:
            self._launch(target)

    @cached_property
    def engine(self) -> Path:
        """As of :class:`Machine`, behind a launcher."""
        return self._launch_copy(self.native / "dballoc_replay")

    def find_libraries(self, allocator: str) -> tuple[Path, ...]:
        """As of :class:`Machine`, of Debian's arm64 packages."""
        entry = allocators()[allocator.partition("@")[0]]
        if "@" in allocator:
            pytest.skip(f"{allocator}: no arm64 package has just that version")
        return tuple(self._find_library(sonames) for sonames in entry.get("preload", []))

    def _find_library(self, sonames: str) -> Path:
        for soname in sonames.split("|"):
            for path in (self.root / "usr/lib").rglob(soname):
                return path
        pytest.skip(f"no arm64 package with {sonames} is in {self.root}")

    def find_program(self, path: str) -> Path:
        """As of :class:`Machine`, behind a launcher."""
        return self._launch_copy(self.root / "usr" / path.removeprefix("/usr").lstrip("/"))

    @property
    def python(self) -> Path:
        """As of :class:`Machine`."""
        return self.find_program("/usr/bin/python3")

    def _launch_copy(self, program: Path) -> Path:
        target = self.programs / program.name
        link = target.with_name(target.name + ".aarch64")
        if not target.exists():
            partial = link.with_name(f"{link.name}.{os.getpid()}")
            partial.symlink_to(program)
            partial.replace(link)
            self._launch(target)
        return target


def choose_machine() -> Machine:
    """The machine that the environment names."""
    name = os.environ.get(VARIABLE, "host")
    if name == "host":
        return Machine()
    assert name == "aarch64", f"{VARIABLE}={name}: there are host and aarch64"
    return Emulated(
        root=BUILT / "root",
        native=BUILT / "meson" / "native",
        programs=BUILT / "programs",
    )


MACHINE = choose_machine()
