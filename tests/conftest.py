"""What all tests share."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

import dballoc
from dballoc.ground.files import caller_umask
from hostile_files import HostileFiles, serve_files

# No deadline: how long an example takes says more of the machine's other work than of the code.
hypothesis.settings.register_profile("dballoc", deadline=None)
hypothesis.settings.load_profile("dballoc")

# What whoever runs the tests has fetched is not to be found by them.
os.environ["DBALLOC_STORE"] = "/nowhere/dballoc"

# What a script starts in the background ignores Ctrl-C, what nohup starts ignores SIGHUP, and so
# would all that the tests start: programs inherit what is ignored, but no handler.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, lambda _number, _frame: None)


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """What a verb that runs in the tests' own process does to the umask ends with the test."""
    umask = os.umask(0o022)
    os.umask(umask)
    yield
    os.umask(umask)
    caller_umask._Caller.umask = None


CompileLibrary = Callable[..., Path]


@pytest.fixture(scope="session")
def package_path() -> Path:
    """The directory to put on PYTHONPATH, so that a child runs the same dballoc as the tests."""
    return Path(dballoc.__file__).resolve().parents[1]


@pytest.fixture
def hostile_files(tmp_path: Path) -> Iterator[HostileFiles]:
    """A file system whose files block, delay, grow, shrink or lie about their size."""
    with serve_files(tmp_path) as served:
        yield served


@pytest.fixture
def reserve_port() -> Iterator[Callable[[], int]]:
    """Reserve a port of 127.0.0.1 until the test ends: the kernel gives a port that is bound to
    nobody who asks for any, and lets a server have it by its number, with SO_REUSEADDR, as long as
    nobody listens.
    """
    holders: list[socket.socket] = []

    def reserve() -> int:
        holders.append(socket.socket())
        holders[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holders[-1].bind(("127.0.0.1", 0))
        port: int = holders[-1].getsockname()[1]
        return port

    yield reserve
    for holder in holders:
        holder.close()


@pytest.fixture
def c_library(tmp_path_factory: pytest.TempPathFactory) -> CompileLibrary:
    """``c_library(name, source)``: the shared library lib<name>.so, readable by everyone."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip(
            "needs a C compiler, to make libraries that misbehave: apt-get install gcc libc6-dev"
        )

    def compile_(name: str, source: str, directory: Path | None = None) -> Path:
        directory = directory or tmp_path_factory.mktemp("c")
        (directory / f"{name}.c").write_text(source)
        target = directory / f"lib{name}.so"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", target, directory / f"{name}.c"], check=True
        )
        return target

    return compile_
