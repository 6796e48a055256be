"""A running server's build is taken only if it is root's, or ours, and the very same; its libraries
alike.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dballoc.allocators import find_library, library_version
from dballoc.campaign.preparation import like_running_server
from dballoc.ground.errors import UsageError
from dballoc.host.elf import elf_parser
from dballoc.host.process.handle import Process
from dballoc.servers.running import running_server, same_build
from dballoc.servers.running.running_server import RunningServer

pytestmark = pytest.mark.unprivileged

STRANGER = 65533


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[[], RunningServer]]:
    """A process that runs a copy of a small program which is called as a server is."""
    program = Path(shutil.copy("/bin/sleep", tmp_path / "mariadbd"))
    started = subprocess.Popen([program, "1000"])
    while os.readlink(f"/proc/{started.pid}/exe") != str(program):  # until it has executed it
        pass
    yield lambda: running_server.look(Process.open(started.pid))
    started.kill()
    started.wait()


def test_a_build_of_somebody_elses_is_not_run(
    running: Callable[[], RunningServer], tmp_path: Path
) -> None:
    server = running()
    tmp_path.chmod(0o777)
    with pytest.raises(
        UsageError, match=rf"users other than root can change {tmp_path}, so .* is not run"
    ):
        same_build.find_same_build(server)
    tmp_path.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(tmp_path / "mariadbd", STRANGER, STRANGER)
        with pytest.raises(
            UsageError, match=r"users other than root can change .*mariadbd, so .* is not run"
        ):
            same_build.find_same_build(server)


def test_another_build_at_that_place_is_not_run(
    running: Callable[[], RunningServer], tmp_path: Path
) -> None:
    server = running()
    (tmp_path / "mariadbd").unlink()
    with pytest.raises(UsageError, match="no longer exists; give the build to run with --basedir"):
        same_build.find_same_build(server)
    shutil.copy("/bin/cat", tmp_path / "mariadbd")
    with pytest.raises(UsageError, match="is not the build that runs"):
        same_build.find_same_build(server)


def test_the_same_build_that_is_no_server_is_not_run(running: Callable[[], RunningServer]) -> None:
    with pytest.raises(UsageError, match="is not a server that dballoc can start"):
        same_build.find_same_build(running())


def test_one_of_a_container_is_not_run(running: Callable[[], RunningServer]) -> None:
    with pytest.raises(UsageError, match="runs in a container or chroot"):
        same_build.find_same_build(replace(running(), elsewhere=True))


def test_a_library_of_somebody_elses_is_not_preloaded(
    running: Callable[[], RunningServer], tmp_path: Path
) -> None:
    process = running().process
    library = tmp_path / "libmine.so"
    library.write_bytes(b"x")
    like_running_server._check_library(process, str(library))
    library.chmod(0o666)
    with pytest.raises(
        UsageError, match=r"users other than root can change .*libmine\.so, so .* is not loaded"
    ):
        like_running_server._check_library(process, str(library))
    with pytest.raises(UsageError, match="No such file"):
        like_running_server._check_library(process, str(tmp_path / "libnone.so"))


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc", "mimalloc", "tbbmalloc"])
def test_a_version_is_read_from_bytes(name: str) -> None:
    try:
        here = find_library.find_allocator(name)
    except UsageError as error:
        pytest.skip(str(error))
    assert here.version[0].isdigit(), here
    assert here.version != library_version.UNKNOWN


def test_a_number_is_read_from_code_that_returns_it_alone(
    c_library: Callable[[str, str], Path],
) -> None:
    library = c_library(
        "n", "int mi_version(void) { return 20309; } int more(int n) { return n + 1; }"
    )
    with library.open("rb") as file:
        assert elf_parser.read_returned_number(file.fileno(), "mi_version") == 20309
        assert elf_parser.read_returned_number(file.fileno(), "more") is None
        assert elf_parser.read_returned_number(file.fileno(), "none") is None
    assert library_version._format_mimalloc_version(20309) == "2.3.9"
    assert library_version._format_mimalloc_version(209) == "2.0.9"


@pytest.mark.parametrize(
    ("machine", "code", "number"),
    [
        (62, "b8554f0000 c3", 20309),
        (62, "f30f1efa b8554f0000 c3", 20309),  # behind endbr64
        (62, "8d4701 c3", None),  # n + 1
        (183, "a0ea8952 c0035fd6", 20309),  # mov w0, #20309
        (183, "5f2403d5 a0ea8952 c0035fd6", 20309),  # behind bti c
        (183, "20008052 2000a072 c0035fd6", 1 << 16 | 1),  # movz, movk lsl 16
        (183, "2000a072 c0035fd6", None),  # movk alone keeps what was there
        (183, "00040011 c0035fd6", None),  # n + 1
        (183, "a1ea8952 c0035fd6", None),  # into w1
        (183, "a0ea8952", None),  # and goes on
        (183, "", None),
        (243, "a0ea8952 c0035fd6", None),
    ],
)
def test_a_number_is_read_from_the_code_of_each_machine(
    machine: int, code: str, number: int | None
) -> None:
    assert elf_parser.parse_returned_number(bytes.fromhex(code), machine) == number
