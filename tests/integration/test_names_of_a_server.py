"""Names of a real server's addresses, beside those that perf finds for them."""

import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from harness import StartServer

from dballoc.host.process import maps as process_maps
from dballoc.host.process.handle import Process
from dballoc.profile.symbols import cpp_names
from dballoc.profile.symbols.symbols import Mapped, Symbols


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """The server ends with this module."""


@pytest.fixture(scope="module")
def busy_server(stock_server: StartServer) -> Iterator[int]:
    """A stock MariaDB that works at a query; its PID."""
    pid, socket = stock_server("--innodb-buffer-pool-size=32M")
    ended = threading.Event()

    def work() -> None:
        with (
            contextlib.suppress(pymysql.Error),
            pymysql.connect(unix_socket=str(socket)) as connection,
            connection.cursor() as cursor,
        ):
            while not ended.is_set():
                cursor.execute(
                    "SELECT COUNT(DISTINCT MD5(seq), CONCAT(seq, 'x')) FROM test.seq_1_to_20000"
                )

    with pymysql.connect(unix_socket=str(socket)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS test")
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield pid
    ended.set()
    thread.join(10)


def maps_of(pid: int) -> list[Mapped]:
    return [
        Mapped(m.start, m.end, m.offset, m.path) for m in process_maps.read_maps(Process.open(pid))
    ]


def record_samples(pid: int, data: Path) -> list[str]:
    """Two seconds of a process, as perf names its samples: ADDRESS SYMBOL (MODULE)."""
    record = f"perf record -q -e cpu-clock -F 499 -p {pid} -o {data} -- sleep 2".split()
    done = subprocess.run(record, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.skip(
            f"NAMES ARE NOT COMPARED WITH PERF'S: perf may not record here: {done.stderr.strip()[:200]}"
        )
    script = ["perf", "script", "-i", data, "-F", "ip,sym,dso", "--no-inline"]
    return subprocess.run(
        script, capture_output=True, text=True, timeout=60, check=True
    ).stdout.splitlines()


def test_names_are_those_that_perf_finds(busy_server: int, tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("NAMES ARE NOT COMPARED WITH PERF'S: no perf here; apt-get install linux-perf")
    # On a busy machine the server has little of the CPU.
    lines: list[str] = []
    deadline = time.monotonic() + 120
    while sum("/mariadbd)" in line for line in lines) < 200 and time.monotonic() < deadline:
        lines += record_samples(busy_server, tmp_path / "perf.data")
    found, maps = Symbols(Path(f"/proc/{busy_server}/root")), maps_of(busy_server)
    same = named = samples = 0
    for line in lines:
        address, _, rest = line.strip().partition(" ")
        name, _, module = rest.rpartition(" (")
        if not module.rstrip(")").endswith("/mariadbd"):
            continue
        frame = found.resolve(maps, int(address, 16))[-1]
        samples, named = samples + 1, named + frame.named
        same += (
            cpp_names.shorten_name(name) == cpp_names.shorten_name(frame.function)
            if frame.named
            else name == "[unknown]"
        )
    assert named > 50, lines[:20]
    # perf names the stubs that call other libraries (.plt) too, by what they call.
    assert same >= 0.95 * samples
