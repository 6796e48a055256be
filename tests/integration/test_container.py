"""``dballoc explain`` on a server in a container: namespaces of its own, another root, files that are nowhere else."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from harness import Cli, wait_until

from dballoc.allocators import find
from dballoc.errors import UsageError
from dballoc.servers import build as find_build

USER = 61580


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here servers outlive a test on purpose; the module's own fixture ends them."""


@dataclass(frozen=True)
class Inside:
    """A server as the host sees it: its process and its root."""

    pid: int
    root: Path


@pytest.fixture(scope="module")
def image(home: Path, needs_root: None) -> Iterator[Path]:
    """A root with a server, its libraries where nobody else has any, and an option file."""
    build = find_build.find("mariadb", None)
    root = Path(tempfile.mkdtemp(prefix="image-", dir=home))
    root.chmod(0o755)
    for directory in ("inside/lib", "srv", "etc", "proc", "dev", "lib64"):
        (root / directory).mkdir(parents=True)
    for directory in ("data", "tmp", "run"):
        (root / directory).mkdir()
        os.chown(root / directory, USER, USER)
    shutil.copy(build.executable, root / "srv/mariadbd")
    libraries = re.findall(
        r"=> (/\S+)", subprocess.run(["ldd", build.executable], capture_output=True, text=True, check=True).stdout
    )
    for library in libraries:
        shutil.copy(library, root / "inside/lib")
    shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64")
    shutil.copytree(f"{build.share}/english", root / "srv/english")
    (root / "etc/my.cnf").write_text(
        "[mysqld]\ndatadir=/data\nsocket=/run/s.sock\ntmpdir=/tmp\npid-file=/run/p\nlc-messages-dir=/srv\nskip-networking\n"
        "skip-grant-tables\ninnodb_buffer_pool_size=32M\ninnodb_log_file_size=4M\nperformance_schema=ON\nuser=root\n"
    )
    yield root
    shutil.rmtree(root)


def started(home: Path, image: Path, mode: str, user: str, preload: str = "") -> Iterator[Inside]:
    helper = home / f"container-{mode}"
    source = Path(__file__).parent / "container.c"
    subprocess.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-o", helper, source], check=True)
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
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(scope="module")
def container(home: Path, image: Path) -> Iterator[Inside]:
    yield from started(home, image, "pivot", str(USER))


def test_a_container_is_explained_from_the_host(run_cli: Cli, container: Inside) -> None:
    done = run_cli("explain", "--pid", str(container.pid), "--json")
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["executable"] == "/srv/mariadbd"
    assert not Path(found["executable"]).exists(), "the host must not have it"
    assert found["tiers"] == ["outside", "SQL"]
    assert found["malloc"] == f"glibc malloc {find.find('glibc').version}"
    assert sum(line["resident"] for line in found["lines"]) + found["rest"] == found["rss"]
    assert abs(found["rest"]) <= 0.01 * found["rss"]
    assert f"it has namespaces of its own: it is process 1 there, its user 0 is {USER} here" in found["notes"]
    assert found["bounds"]["once"] > 32 * 2**20


def test_its_socket_leads_to_it(run_cli: Cli, container: Inside) -> None:
    done = run_cli("explain", "--socket", str(container.root / "run/s.sock"), "--json")
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout)["pid"] == container.pid


def test_the_whole_procedure_from_the_host(run_cli: Cli, container: Inside) -> None:
    done = run_cli("explain", "--pid", str(container.pid), "--procedure", "--json")
    assert done.status == 0, done.stderr
    parts = {part["title"]: part for part in json.loads(done.stdout)["procedure"]}
    assert dict(parts["server"]["rows"])["datadir"] == "/data/"
    assert dict(parts["process"]["rows"])["VmRSS"] > 2**20


def test_another_malloc_in_a_chroot(run_cli: Cli, home: Path, image: Path, container: Inside) -> None:
    """The kernel gives a chroot's paths as the host sees them."""
    try:
        library = find.find("jemalloc").libraries[0]
    except UsageError as error:
        pytest.skip(str(error))
    other = Path(
        shutil.copytree(image, image.with_name("chroot"), ignore=lambda d, n: n if Path(d).name in ("data", "run") else [])
    )
    for directory in ("data", "run", "tmp"):
        os.chown(other / directory, 0, 0)
    shutil.copy(library, other / "inside/lib/libjemalloc.so.2")
    for needed in re.findall(r"=> (/\S+)", subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout):
        shutil.copy(needed, other / "inside/lib")
    for server in started(home, other, "chroot", "-", "/inside/lib/libjemalloc.so.2"):
        done = run_cli("explain", "--pid", str(server.pid), "--json")
        assert done.status == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["malloc"] == f"jemalloc {find.find('jemalloc').version}"
        assert found["tiers"] == ["outside", "SQL"]
        assert abs(found["rest"]) <= 0.01 * found["rss"]
    shutil.rmtree(other)
