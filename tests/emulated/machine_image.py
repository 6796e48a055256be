"""The file system of an emulated machine, in the form that a kernel unpacks into its memory (cpio),
made of Debian's packages.
"""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
# Nothing of it is read there, and all of it would be in memory.
LEFT_OUT = ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var"]


def get_packages(architecture: str, purpose: str, directory: Path, *suite: str) -> Path:
    """Debian's packages for a purpose of tools/debian-root, unpacked into ``directory``; left as
    they are where they are there already. Returns the directory.
    """
    command = [CHECKOUT / "tools/debian-root", architecture, purpose, directory, *suite]
    subprocess.run([sys.executable, *command], check=True)
    return directory


def make_tree(packages: Path, tree: Path, init: Path) -> Path:
    """Make the tree of a machine from ``packages``, which it shares files with. ``init``: the
    script that is its first process. Returns the tree.
    """
    subprocess.run(["cp", "--archive", "--link", packages, tree], check=True)
    for name in LEFT_OUT:
        shutil.rmtree(tree / name, ignore_errors=True)
    for name in ("proc", "sys", "dev", "tmp", "run", "root", "etc"):
        (tree / name).mkdir(exist_ok=True)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
    (tree / "etc/group").write_text("root:x:0:\n", encoding="utf-8")
    shutil.copy2(init, tree / "init")
    (tree / "init").chmod(0o755)
    return tree


def pack_tree(tree: Path, target: Path) -> Path:
    """Pack a tree into a cpio archive of the kind that kernels read; its path."""
    names = subprocess.run(["find", ".", "-print0"], cwd=tree, check=True, capture_output=True)
    with target.open("wb") as archive:
        subprocess.run(
            ["cpio", "--null", "--create", "--format=newc", "--quiet"],
            cwd=tree, input=names.stdout, stdout=archive, check=True,
        )  # fmt: skip
    return target
