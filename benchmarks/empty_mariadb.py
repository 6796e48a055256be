"""A MariaDB on an empty data directory, for the benchmarks that look at one."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Seconds to start.
PATIENCE = 60.0


def find_mariadbd() -> str | None:
    """Return the path of mariadbd; None where this machine has none."""
    return shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def run_empty_mariadb(mariadbd: str, place: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Run a server in ``place`` that lets everybody in by its socket; yields its PID and socket.
    SystemExit with its log if it does not start.
    """
    (place / "data").mkdir(parents=True)
    words = [mariadbd, "--no-defaults", f"--datadir={place}/data", f"--socket={place}/s"]
    words += [f"--pid-file={place}/p", "--skip-networking", "--skip-grant-tables"]
    words += ["--user=root"] if os.geteuid() == 0 else []
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(
            [*words, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not (place / "s").exists():
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit((place / "log").read_text(errors="replace"))
            time.sleep(0.05)
        yield server.pid, str(place / "s")
    finally:
        server.kill()
        server.wait()
