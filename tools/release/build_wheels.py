#!/usr/bin/env python3
"""Build the sdist and a wheel for each machine: build_wheels.py DIRECTORY.

The native parts are compiled by this machine's gcc and its cross compiler, but against the C
library of an old system (make-sysroots), from the unpacked sdist, where there is no git. The tools
are in an environment of their own (build/release/tools). What is built does not depend on the time:
SOURCE_DATE_EPOCH, else the time of the last commit.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
TOOLS = CHECKOUT / "build/release/tools"
ROOT = CHECKOUT / "build/release/root"
# For every CPython from requires-python on, as nothing of ours is linked against Python.
MACHINES = {"x86_64": "manylinux_2_28_x86_64", "aarch64": "manylinux_2_28_aarch64"}
COMPILERS = {"x86_64": "gcc", "aarch64": "aarch64-linux-gnu-gcc"}
GLIBC = "2.28"


def build_time() -> str:
    """Return the seconds since 1970 that every file gets."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    words = ["git", "-C", CHECKOUT, "log", "-1", "--format=%ct"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def install_tools() -> Path:
    """Return the Python of an environment with what builds wheels, pinned."""
    python = TOOLS / "bin/python"
    lock = CHECKOUT / "tools/locks/release.txt"
    wanted = lock.read_bytes()
    stamp = TOOLS / hashlib.sha256(wanted).hexdigest()
    if not stamp.exists():
        subprocess.run([sys.executable, "-I", "-m", "venv", "--clear", TOOLS], check=True)
        words = [python, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        words += ["--only-binary", ":all:", "--require-hashes", "--requirement", lock]
        subprocess.run(words, check=True)
        stamp.touch()
    return python


def build_sdist(python: Path, directory: Path, environ: dict[str, str]) -> Path:
    """Build the sdist of the last commit."""
    code = "import mesonpy, sys; print(mesonpy.build_sdist(sys.argv[1]))"
    words = [python, "-I", "-c", code, directory]
    done = subprocess.run(words, cwd=CHECKOUT, env=environ, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"build_wheels: the sdist cannot be built\n{done.stdout}{done.stderr}")
    return directory / done.stdout.splitlines()[-1]


def write_cross_file(machine: str, place: Path) -> Path:
    """Write meson's description of the compiler for a machine with its old C library."""
    compiler = COMPILERS[machine]
    root = ROOT / "build" / f"sysroot-{machine}"
    libraries = f"{root}/usr/lib/{machine}-linux-gnu"
    words = [compiler, "-print-file-name=include"]
    own = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    # Debian's compilers look into places outside the sysroot first, and what is newer lies there.
    c = [compiler, f"--sysroot={root}", "-nostdinc"]
    for directory in (own, f"{root}/usr/include/{machine}-linux-gnu", f"{root}/usr/include"):
        c += ["-isystem", directory]
    c += [f"-B{libraries}", f"-L{libraries}", f"-L{root}/lib/{machine}-linux-gnu"]
    c += ["-include", str(HERE / "older-symbols.h"), "-fdebug-prefix-map=" + str(place) + "=."]
    binutils = compiler.removesuffix("gcc")
    file = place / "cross.ini"
    file.write_text(
        f"[binaries]\nc = {c}\nar = '{binutils}ar'\nstrip = '{binutils}strip'\n"
        f"[host_machine]\nsystem = 'linux'\ncpu_family = '{machine}'\ncpu = '{machine}'\n"
        "endian = 'little'\n[properties]\nneeds_exe_wrapper = true\n"
    )
    return file


def build_wheel(
    python: Path, sdist: Path, machine: str, directory: Path, environ: dict[str, str]
) -> Path:
    """Build the wheel for a machine from the sdist."""
    with tempfile.TemporaryDirectory(dir=CHECKOUT / "build/release") as scratch:
        place = Path(scratch)
        subprocess.run(["tar", "-xzf", sdist, "-C", place], check=True)
        [source] = (path for path in place.iterdir() if path.is_dir())
        cross = write_cross_file(machine, place)
        environ = {**environ, "_PYTHON_HOST_PLATFORM": f"linux-{machine}"}
        out = place / "out"
        out.mkdir()
        code = (
            "import mesonpy, sys; "
            "mesonpy.build_wheel(sys.argv[1], {'setup-args': ['--cross-file=' + sys.argv[2]]})"
        )
        done = subprocess.run(
            [python, "-I", "-c", code, out, cross],
            cwd=source, env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"build_wheels: {machine} cannot be built\n{done.stdout}{done.stderr}")
        [wheel] = out.iterdir()
        tags = ["--python-tag", "py3", "--abi-tag", "none", "--platform-tag", MACHINES[machine]]
        words = [python, "-I", "-m", "wheel", "tags", "--remove", *tags, wheel]
        subprocess.run(words, env=environ, check=True, stdout=subprocess.DEVNULL)
        [wheel] = out.iterdir()
        return Path(shutil.copy(wheel, directory))


def check_hardening(wheel: Path) -> None:
    """Look at the native parts in a wheel, as make lint does at those that are installed."""
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.startswith("dballoc/_native/")]
        paths = [archive.extract(name, scratch) for name in members]
        check = [sys.executable, "-I", CHECKOUT / "tools/check-hardening", *paths]
        subprocess.run(check, check=True)


def main(directory: Path) -> None:
    """Build all, and check what they hold."""
    directory.mkdir(parents=True, exist_ok=True)
    python = install_tools()
    environ = {
        "PATH": f"{TOOLS / 'bin'}:/usr/bin:/bin",
        "HOME": os.environ.get("HOME", "/"),
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": build_time(),
    }
    sdist = build_sdist(python, directory, environ)
    print(sdist)
    for machine in MACHINES:
        wheel = build_wheel(python, sdist, machine, directory, environ)
        subprocess.run([sys.executable, "-I", HERE / "check-symbols", GLIBC, wheel], check=True)
        check_hardening(wheel)
        print(wheel, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
