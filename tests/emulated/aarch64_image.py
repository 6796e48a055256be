"""The file system of the emulated aarch64 machine: a server, dballoc, and what happens there."""

import shutil
import subprocess
import sys
from pathlib import Path

from machine_image import CHECKOUT, HERE, make_tree, pack_tree


def make_image(packages: Path, built: Path, scratch: Path) -> Path:
    """Make the image from Debian's ``packages`` for it, and a wheel for it or a directory with the
    native parts, which go with this checkout; its path.
    """
    tree = make_tree(packages, scratch / "tree", HERE / "aarch64_init.sh")
    [stdlib] = (tree / "usr/lib").glob("python3.*")
    install_dballoc(tree / "dballoc", built, stdlib.name.removeprefix("python"))
    make_data(tree / "data")
    compile_probed(tree / "probed")
    shutil.copy2(HERE / "aarch64_guest.py", tree / "guest.py")
    return pack_tree(tree, scratch / "image.cpio")


def install_dballoc(target: Path, built: Path, python: str) -> None:
    """Put dballoc there, and what a plain installation of it brings. ``python``: the version of the
    interpreter, like 3.11.
    """
    install = [
        sys.executable, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--target", target, "--only-binary=:all:", "--python-version", python,
        "--implementation", "cp", "--platform", "manylinux_2_28_aarch64",
        "--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_17_aarch64",
    ]  # fmt: skip
    lock = ["--require-hashes", "--requirement", CHECKOUT / "tools/locks/portable.txt"]
    subprocess.run([*install, *lock], check=True)
    if built.suffix == ".whl":
        subprocess.run([*install, "--no-deps", built], check=True)
        return
    shutil.copytree(
        CHECKOUT / "src/dballoc", target / "dballoc", ignore=shutil.ignore_patterns("__pycache__")
    )
    (target / "dballoc/_native").mkdir()
    for path in (*built.glob("*.so"), built / "dballoc_replay"):
        shutil.copy2(path, target / "dballoc/_native")


def compile_probed(target: Path) -> None:
    """Compile the program of the heap probe's tests, as tests/native/programs.py does."""
    subprocess.run(
        [
            "aarch64-linux-gnu-gcc", "-std=c17", "-D_GNU_SOURCE", "-O1", "-pthread", "-g",
            "-fno-omit-frame-pointer", "-fno-builtin-malloc",
            "-o", target, CHECKOUT / "tests/native/probed.c", "-l:libstdc++.so.6",
        ],
        check=True,
    )  # fmt: skip


def make_data(target: Path) -> None:
    """Make a data directory with this machine's server: its files are the same on aarch64."""
    subprocess.run(
        [
            "mariadb-install-db", "--no-defaults", f"--datadir={target}", "--user=root",
            "--auth-root-authentication-method=normal", "--skip-test-db",
            "--innodb-log-file-size=8M",
        ],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
