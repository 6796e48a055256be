"""``explain --listen`` on a real server: with few rights, through the server's restart, until a
signal.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from harness import A_USER, Cli, Launch, Server, run_as, wait_until

NEEDED = {2, 19}  # CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here servers outlive a test on purpose; the module's own fixture ends them."""


@pytest.fixture(scope="module")
def server(server_with_accounts: Callable[..., Server]) -> Server:
    """With an account for the exporter's user, that may see everybody's sessions."""
    server = server_with_accounts("--performance-schema=ON", "--innodb-buffer-pool-size=32M")
    server.ask(
        "CREATE USER nobody@localhost IDENTIFIED VIA unix_socket",
        "GRANT PROCESS, SELECT ON *.* TO nobody@localhost",
        "CREATE USER 'very_private_name'@localhost",
        "SELECT 1",
    )
    return server


class Exporter:
    """A running ``dballoc explain --listen``."""

    def __init__(self, run_cli: Cli, port: int, *flags: str, prefix: tuple[str, ...] = ()) -> None:
        self.port = port
        self.process = run_cli.start(
            "explain", "--listen", f"127.0.0.1:{port}", *flags, prefix=prefix
        )
        wait_until(lambda: self.process.poll() is not None or self.answers())
        if self.process.poll() is not None:
            _, errors = self.process.communicate()
            raise AssertionError(errors)

    def answers(self) -> bool:
        try:
            return self.scrape() != {}
        except OSError:
            return False

    def read(self) -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics")
        with urllib.request.urlopen(request, timeout=60) as answer:
            text: str = answer.read().decode()
        return text

    def scrape(self) -> dict[str, float]:
        """Every sample by its name with labels."""
        return {
            name: float(value)
            for name, _, value in (
                line.rpartition(" ") for line in self.read().splitlines() if line[0] != "#"
            )
        }

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@pytest.fixture
def export(run_cli: Cli, reserve_port: Callable[[], int]) -> Iterator[Callable[..., Exporter]]:
    started: list[Exporter] = []

    def start(*flags: str, **how: Any) -> Exporter:
        started.append(Exporter(run_cli, reserve_port(), *flags, **how))
        return started[-1]

    yield start
    for exporter in started:
        if exporter.process.poll() is None:
            exporter.process.kill()
        exporter.process.communicate()


def read_status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def test_it_looks_with_two_capabilities_and_nobodys_rights(
    needs_root: None, export: Callable[..., Exporter], server: Server
) -> None:
    exporter = export("--socket", str(server.socket), "--every", "1s", "--cpu", "100")
    status = read_status(exporter.process.pid)
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        bits = int(status[kind], 16)
        assert {n for n in range(64) if bits >> n & 1} <= NEEDED, kind
    assert (int(status["CapInh"], 16), int(status["CapAmb"], 16)) == (0, 0)
    assert status["NoNewPrivs"] == "1"
    assert set(status["Uid"].split()) == {"65534"}
    assert status["Groups"].strip() == ""
    samples = exporter.scrape()
    rss = samples["dballoc_rss_bytes"]
    assert samples["dballoc_up"] == 1
    assert abs(samples["dballoc_rest_bytes"]) <= 0.01 * rss
    # With SQL, by the kernel's word on who connects: owners that only the server knows.
    text = exporter.read()
    assert 'known_from="outside,SQL"' in text
    assert any('owner="performance_schema itself"' in name for name in samples)
    assert "very_private_name" not in text
    code, errors = exporter.end()
    assert (code, "Traceback" in errors) == (0, False)
    assert "as nobody, with CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE" in errors


def test_it_looks_from_where_only_root_may_pass(
    needs_root: None,
    export: Callable[..., Exporter],
    server: Server,
    package_path: Path,
    fresh_directory: Callable[[], Path],
) -> None:
    """As the portable file unpacks itself: what it has become may start nothing from there."""
    place = fresh_directory()
    shutil.copytree(package_path / "dballoc", place / "dballoc")
    place.chmod(0o700)
    # Another interpreter than the tests', which would find the installed package again.
    start = f'shift; PYTHONPATH={place}:{package_path} exec {sys._base_executable} "$@"'
    prefix = ("sh", "-c", start, "sh")
    exporter = export("--pid", str(server.pid), "--no-sql", prefix=prefix)
    samples = exporter.scrape()
    code, errors = exporter.end()
    assert samples["dballoc_up"] == 1, errors
    assert (code, "as nobody" in errors) == (0, True)
    shutil.rmtree(place)


def test_looks_are_cached_and_no_page_of_another_name_reads_them(
    export: Callable[..., Exporter], server: Server
) -> None:
    exporter = export("--pid", str(server.pid), "--no-sql", "--every", "1h")
    first = exporter.scrape()
    later = [exporter.scrape() for _ in range(20)][-1]
    assert later["dballoc_looks_total"] == first["dballoc_looks_total"] == 1
    assert later["dballoc_taken_timestamp_seconds"] == first["dballoc_taken_timestamp_seconds"]
    assert later["dballoc_look_age_seconds"] >= first["dballoc_look_age_seconds"]
    assert later["dballoc_look_pause_seconds"] == 3600
    # A page whose name leads here by now (DNS rebinding).
    request = urllib.request.Request(
        f"http://127.0.0.1:{exporter.port}/metrics", headers={"Host": "rebound.example"}
    )
    with pytest.raises(urllib.error.HTTPError, match="421"):
        urllib.request.urlopen(request, timeout=60)


def test_a_restarted_server_is_found_again_by_its_socket(
    needs_root: None,
    export: Callable[..., Exporter],
    server_with_accounts: Callable[..., Server],
    launch: Launch,
) -> None:
    server = server_with_accounts("--innodb-buffer-pool-size=16M")
    command = Path(f"/proc/{server.pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    flags = ("--no-sql", "--every", "200ms", "--cpu", "100")
    exporter = export("--socket", str(server.socket), *flags)
    fixed = export("--pid", str(server.pid), *flags)
    assert exporter.scrape()["dballoc_up"] == fixed.scrape()["dballoc_up"] == 1
    os.kill(server.pid, signal.SIGTERM)
    wait_until(lambda: exporter.scrape()["dballoc_up"] == 0)
    assert "dballoc_rss_bytes" not in exporter.scrape()

    def is_listening() -> bool:
        with socket.socket(socket.AF_UNIX) as attempt:
            return attempt.connect_ex(str(server.socket)) == 0

    again = launch(command, server.socket.parent, {}, ready=is_listening, **run_as(A_USER))
    wait_until(lambda: exporter.scrape()["dballoc_up"] == 1)
    assert f'pid="{again.pid}"' in exporter.read()
    assert fixed.scrape()["dballoc_up"] == 0
    for number in (signal.SIGINT, signal.SIGTERM):
        ended = exporter if number == signal.SIGINT else fixed
        began = time.monotonic()
        code, errors = ended.end(number)
        assert code == 0
        assert "nothing to look at: " in errors
        assert time.monotonic() - began < 30


def read_cpu_seconds(pid: int) -> float:
    """CPU of a process and of its descendants, in seconds."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


@pytest.mark.slow
def test_its_cpu_stays_within_its_share(export: Callable[..., Exporter], server: Server) -> None:
    """Of this process and its parsers, by the kernel's count; looks as often as they may be."""
    exporter = export("--pid", str(server.pid), "--no-sql", "--every", "10ms", "--cpu", "5")
    wait_until(lambda: exporter.scrape()["dballoc_looks_total"] >= 2)
    began, before = time.monotonic(), read_cpu_seconds(exporter.process.pid)
    looks = exporter.scrape()["dballoc_looks_total"]
    scrapes = 0
    while exporter.scrape()["dballoc_looks_total"] < looks + 10:
        scrapes += 1
        time.sleep(0.5)
        assert time.monotonic() < began + 300
    share = (read_cpu_seconds(exporter.process.pid) - before) / (time.monotonic() - began)
    # Answering a scrape is not part of a look: some milliseconds.
    assert share < 0.05 * 1.5 + 0.01, f"{share:.3f} of a CPU, with {scrapes} scrapes"


@pytest.mark.slow
def test_its_memory_stays_bounded(export: Callable[..., Exporter], server: Server) -> None:
    """As many looks as it can take, and connections that say nothing all the while."""
    exporter = export("--pid", str(server.pid), "--no-sql", "--every", "10ms", "--cpu", "100")

    def rss() -> int:
        return int(read_status(exporter.process.pid)["VmRSS"].split()[0])

    wait_until(lambda: exporter.scrape()["dballoc_looks_total"] >= 10)
    before = rss()
    silent = [socket.create_connection(("127.0.0.1", exporter.port)) for _ in range(4)]
    wait_until(lambda: exporter.scrape()["dballoc_looks_total"] >= 40)
    for connection in silent:
        connection.close()
    assert rss() - before < 30_000
    threads = int(read_status(exporter.process.pid)["Threads"])
    assert threads <= 8


def test_without_root_a_server_of_ours_is_served(
    needs_root: None, export: Callable[..., Exporter], server: Server
) -> None:
    """As the server's own user no right is needed but that the kernel lets one read one's own."""
    user = str(A_USER)
    prefix = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups")
    exporter = export("--pid", str(server.pid), "--no-sql", prefix=prefix)
    assert exporter.scrape()["dballoc_up"] == 1
    code, errors = exporter.end()
    assert code == 0
    assert re.search(rf"as user {user}, with no rights and no way to more", errors)


def test_a_unix_socket_is_served(
    export: Callable[..., Exporter],
    server: Server,
    run_cli: Cli,
    fresh_directory: Callable[[], Path],
) -> None:
    path = fresh_directory() / "metrics"
    process = run_cli.start("explain", "--listen", f"unix:{path}", "--pid", server.pid, "--no-sql")
    try:
        wait_until(lambda: path.exists() or process.poll() is not None)
        done = subprocess.run(
            ["curl", "--silent", "--unix-socket", path, "http://any/metrics"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "dballoc_up 1" in done.stdout
    finally:
        process.terminate()
        process.communicate(timeout=60)
