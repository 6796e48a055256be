"""The file system of an emulated machine, in the form that a kernel unpacks into its memory (cpio)."""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
# Nothing of it is read there, and all of it would be in memory.
LEFT_OUT = ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var"]


def make_image(packages: Path, built: Path, scratch: Path) -> Path:
    """Make the image from Debian's ``packages`` for it, and a wheel for it or a directory with the
    native parts, which go with this checkout; its path.
    """
    tree = scratch / "tree"
    subprocess.run(["cp", "--archive", "--link", packages, tree], check=True)
    for name in LEFT_OUT:
        shutil.rmtree(tree / name, ignore_errors=True)
    for name in ("proc", "sys", "dev", "tmp", "run", "root", "etc"):
        (tree / name).mkdir(exist_ok=True)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
    (tree / "etc/group").write_text("root:x:0:\n", encoding="utf-8")
    [stdlib] = (tree / "usr/lib").glob("python3.*")
    install_dballoc(tree / "dballoc", built, stdlib.name.removeprefix("python"))
    make_data(tree / "data")
    compile_probed(tree / "probed")
    shutil.copy2(HERE / "guest.py", tree / "guest.py")
    shutil.copy2(HERE / "guest_init.sh", tree / "init")
    (tree / "init").chmod(0o755)
    return pack(tree, scratch / "image.cpio")


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


def pack(tree: Path, target: Path) -> Path:
    """Pack a tree into a cpio archive of the kind that kernels read; its path."""
    names = subprocess.run(["find", ".", "-print0"], cwd=tree, check=True, capture_output=True)
    with target.open("wb") as archive:
        subprocess.run(
            ["cpio", "--null", "--create", "--format=newc", "--quiet"],
            cwd=tree, input=names.stdout, stdout=archive, check=True,
        )  # fmt: skip
    return target
