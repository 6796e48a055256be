"""``dballoc explain`` on a server in a container: namespaces of its own, another root, files that
are nowhere else.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from containers import Inside, make_image, run_container
from harness import A_USER, Cli

from dballoc.allocators import find_library
from dballoc.errors import UsageError

USER = A_USER


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here servers outlive a test on purpose; the module's own fixture ends them."""


@pytest.fixture(scope="module")
def image(home: Path, needs_root: None) -> Iterator[Path]:
    root = make_image(home)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def container(home: Path, image: Path) -> Iterator[Inside]:
    yield from run_container(home, image, "pivot", str(USER))


def test_a_container_is_explained_from_the_host(run_cli: Cli, container: Inside) -> None:
    done = run_cli("explain", "--pid", str(container.pid), "--json")
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["executable"] == "/srv/mariadbd"
    assert not Path(found["executable"]).exists(), "the host must not have it"
    assert found["tiers"] == ["outside", "SQL"]
    assert found["malloc"] == f"glibc malloc {find_library.find_allocator('glibc').version}"
    assert sum(line["resident"] for line in found["lines"]) + found["rest"] == found["rss"]
    assert abs(found["rest"]) <= 0.01 * found["rss"]
    assert (
        f"it has namespaces of its own: it is process 1 there, its user 0 is {USER} here"
        in found["notes"]
    )
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


def test_another_malloc_in_a_chroot(
    run_cli: Cli, home: Path, image: Path, container: Inside
) -> None:
    """The kernel gives a chroot's paths as the host sees them."""
    try:
        library = find_library.find_allocator("jemalloc").libraries[0]
    except UsageError as error:
        pytest.skip(str(error))
    other = Path(
        shutil.copytree(
            image,
            image.with_name("chroot"),
            ignore=lambda d, n: n if Path(d).name in ("data", "run") else [],
        )
    )
    for directory in ("data", "run", "tmp"):
        os.chown(other / directory, 0, 0)
    shutil.copy(library, other / "inside/lib/libjemalloc.so.2")
    for needed in re.findall(
        r"=> (/\S+)",
        subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout,
    ):
        shutil.copy(needed, other / "inside/lib")
    for server in run_container(home, other, "chroot", "-", "/inside/lib/libjemalloc.so.2"):
        done = run_cli("explain", "--pid", str(server.pid), "--json")
        assert done.status == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["malloc"] == f"jemalloc {find_library.find_allocator('jemalloc').version}"
        assert found["tiers"] == ["outside", "SQL"]
        assert abs(found["rest"]) <= 0.01 * found["rss"]
    shutil.rmtree(other)
