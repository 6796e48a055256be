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
from harness import A_USER, Cli, Done

from dballoc.allocators import find_library
from dballoc.ground.errors import UsageError

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


@pytest.fixture(scope="module")
def chroot(home: Path, image: Path, container: Inside) -> Iterator[Inside]:
    """Another one, without a user namespace, and under jemalloc."""
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
    yield from run_container(home, other, "chroot", "-", "/inside/lib/libjemalloc.so.2")
    shutil.rmtree(other)


def test_another_malloc_in_a_chroot(run_cli: Cli, chroot: Inside) -> None:
    """The kernel gives a chroot's paths as the host sees them."""
    check_explained(run_cli("explain", "--pid", str(chroot.pid), "--json"))


def check_explained(done: Done) -> None:
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["malloc"] == f"jemalloc {find_library.find_allocator('jemalloc').version}"
    assert found["tiers"] == ["outside", "SQL"]
    assert abs(found["rest"]) <= 0.01 * found["rss"]


# Capabilities: as docs/how-to/in-a-pod.md gives a sidecar; as Docker and containerd give each
# container by default, and kubectl debug --profile=general one more.
SIDECAR = "sys_ptrace dac_read_search setuid setgid setpcap"
EPHEMERAL = (
    "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw "
    "sys_chroot mknod audit_write setfcap sys_ptrace"
)


@pytest.mark.parametrize("capabilities", [SIDECAR, EPHEMERAL], ids=["sidecar", "ephemeral"])
def test_a_container_beside_the_servers_sees_it(
    run_cli: Cli, chroot: Inside, capabilities: str
) -> None:
    """It shares the server's process namespace, and has a root of its own."""
    bounds = f"-all,{','.join(f'+{name}' for name in capabilities.split())}"
    beside = (
        *("nsenter", "--target", str(chroot.pid), "--pid", "unshare", "--mount", "sh", "-c"),
        'mount -t proc proc /proc && exec setpriv --no-new-privs --bounding-set "$0" "$@"',
        bounds,
    )
    check_explained(run_cli("explain", "--pid", "1", "--json", prefix=beside))
    done = run_cli("verify", "1", "--expect", "jemalloc", prefix=beside)
    assert done.status == 0, done.stderr
    assert "process 1) uses jemalloc" in done.stdout
