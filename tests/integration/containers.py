"""Servers in containers of the tests' own: namespaces and a root of their own, files that are
nowhere else (container.c).
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from harness import A_USER, wait_until

from dballoc.servers import build as find_build


@dataclass(frozen=True)
class Inside:
    """A server as the host sees it: its process and its root."""

    pid: int
    root: Path


def make_image(home: Path) -> Path:
    """Make a root with a server, its libraries where nobody else has any, and an option file."""
    build = find_build.find("mariadb", None)
    root = Path(tempfile.mkdtemp(prefix="image-", dir=home))
    root.chmod(0o755)
    for directory in ("inside/lib", "srv", "etc", "proc", "dev", "lib64"):
        (root / directory).mkdir(parents=True)
    for directory in ("data", "tmp", "run"):
        (root / directory).mkdir()
        os.chown(root / directory, A_USER, A_USER)
    shutil.copy(build.executable, root / "srv/mariadbd")
    listing = subprocess.run(
        ["ldd", build.executable], capture_output=True, text=True, check=True
    ).stdout
    for library in re.findall(r"=> (/\S+)", listing):
        shutil.copy(library, root / "inside/lib")
    shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64")
    shutil.copytree(f"{build.share}/english", root / "srv/english")
    (root / "etc/my.cnf").write_text(
        "[mysqld]\ndatadir=/data\nsocket=/run/s.sock\ntmpdir=/tmp\npid-file=/run/p\nlc-messages-dir=/srv\nskip-networking\n"
        "skip-grant-tables\ninnodb_buffer_pool_size=32M\ninnodb_log_file_size=4M\nperformance_schema=ON\nuser=root\n"
    )
    return root


def run_container(
    home: Path, image: Path, mode: str, user: str, preload: str = ""
) -> Iterator[Inside]:
    """Run the image's server in a container until the generator is closed. ``mode``: pivot or
    chroot.
    """
    helper = home / f"container-{mode}"
    source = Path(__file__).parent / "container.c"
    subprocess.run(
        ["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-o", helper, source], check=True
    )
    environ = {"LD_LIBRARY_PATH": "/inside/lib", **({"LD_PRELOAD": preload} if preload else {})}
    words = [str(helper), mode, str(image), user, "/srv/mariadbd", "--defaults-file=/etc/my.cnf"]
    with (image / f"log-{mode}").open("wb") as log:
        process = subprocess.Popen(words, env=environ, stdout=log, stderr=log)
    try:
        wait_until(lambda: (image / "run/s.sock").exists() or process.poll() is not None)
        assert process.poll() is None, (image / f"log-{mode}").read_text()
        [server] = psutil.Process(process.pid).children()
        yield Inside(server.pid, image)
    finally:
        # One that has changed its user does not die with its parent (PR_SET_PDEATHSIG, prctl(2)).
        children = psutil.Process(process.pid).children(recursive=True)
        for child in children:
            child.kill()
        process.kill()
        process.wait()
        psutil.wait_procs(children, 10)
        for path in [*(image / "data").iterdir(), *(image / "run").iterdir()]:
            path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)
