#!/usr/bin/env python3
"""Build the sdist and a wheel for each machine: build_wheels.py DIRECTORY.

The native parts are compiled by zig, which brings the symbols of old C libraries for every machine,
from the unpacked sdist, where there is no git. The tools are in an environment of their own
(build/release/tools); what is built does not depend on the compiler of this machine, nor on the
time: SOURCE_DATE_EPOCH, else the time of the last commit.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
TOOLS = CHECKOUT / "build/release/tools"
# Wheels for every CPython from requires-python on: nothing of ours is linked against Python.
MACHINES = {"x86_64": "manylinux_2_17_x86_64", "aarch64": "manylinux_2_17_aarch64"}
GLIBC = "2.17"


def build_time() -> str:
    """Return the seconds since 1970 that every file gets."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    words = ["git", "-C", CHECKOUT, "log", "-1", "--format=%ct"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def install_tools() -> Path:
    """Return the Python of an environment with zig and what builds wheels, pinned."""
    python = TOOLS / "bin/python"
    wanted = (HERE / "requirements.txt").read_bytes()
    stamp = TOOLS / hashlib.sha256(wanted).hexdigest()
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", TOOLS], check=True)
        words = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--requirement"]
        subprocess.run([python, *words, HERE / "requirements.txt"], check=True)
        stamp.touch()
    return python


def build_sdist(python: Path, directory: Path, environ: dict[str, str]) -> Path:
    """Build the sdist of the last commit."""
    code = "import mesonpy, sys; print(mesonpy.build_sdist(sys.argv[1]))"
    words = [python, "-c", code, directory]
    done = subprocess.run(words, cwd=CHECKOUT, env=environ, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"build_wheels: the sdist cannot be built\n{done.stdout}{done.stderr}")
    return directory / done.stdout.splitlines()[-1]


def write_cross_file(python: Path, machine: str, place: Path) -> Path:
    """Write meson's description of zig as the compiler for a machine, and beside it the library
    that stands for libgcc_s.so.1: zig would link an unwinder of its own into what asks for it.
    """
    zig = [str(python), "-m", "ziglang"]
    target = ["-target", f"{machine}-linux-gnu.{GLIBC}"]
    stub = place / "libgcc_s.so.1"
    words = [*zig, "cc", *target, "-shared", "-nostdlib", "-Wl,-soname,libgcc_s.so.1"]
    words += [f"-Wl,--version-script={HERE / 'libgcc_s.map'}", "-o", str(stub)]
    subprocess.run([*words, str(HERE / "libgcc_s.c")], check=True)
    file = place / "zig.ini"
    file.write_text(
        f"[binaries]\nc = {[*zig, 'cc', *target]}\nar = {[*zig, 'ar']}\nstrip = 'true'\n"
        f"[built-in options]\nc_link_args = ['{stub}']\nb_pie = false\n"
        f"[host_machine]\nsystem = 'linux'\ncpu_family = '{machine}'\ncpu = '{machine}'\n"
        "endian = 'little'\n"
        "[properties]\nneeds_exe_wrapper = true\n"
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
        cross = write_cross_file(python, machine, place)
        environ = {**environ, "_PYTHON_HOST_PLATFORM": f"linux-{machine}"}
        out = place / "out"
        out.mkdir()
        code = (
            "import mesonpy, sys; "
            "mesonpy.build_wheel(sys.argv[1], {'setup-args': ['--cross-file=' + sys.argv[2]]})"
        )
        done = subprocess.run(
            [python, "-c", code, out, cross],
            cwd=source, env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"build_wheels: {machine} cannot be built\n{done.stdout}{done.stderr}")
        [wheel] = out.iterdir()
        tags = ["--python-tag", "py3", "--abi-tag", "none", "--platform-tag", MACHINES[machine]]
        words = [python, "-m", "wheel", "tags", "--remove", *tags, wheel]
        subprocess.run(words, env=environ, check=True, stdout=subprocess.DEVNULL)
        [wheel] = out.iterdir()
        return Path(shutil.copy(wheel, directory))


def main(directory: Path) -> None:
    """Build all, and check what they hold."""
    directory.mkdir(parents=True, exist_ok=True)
    python = install_tools()
    environ = {
        "PATH": f"{TOOLS / 'bin'}:/usr/bin:/bin",
        "HOME": os.environ.get("HOME", "/"),
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": build_time(),
        # One place for all builds: what zig compiled of the C library is taken from there.
        "ZIG_GLOBAL_CACHE_DIR": str(TOOLS / "zig-cache"),
    }
    sdist = build_sdist(python, directory, environ)
    print(sdist)
    for machine in MACHINES:
        print(build_wheel(python, sdist, machine, directory, environ), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
