"""What ``dballoc explain`` costs a server: its time, the longest read under the server's mmap lock,
what the clients lose.

    python benchmarks/explain_cost.py       two MariaDB with full pools of 2 GB, 12 minutes of load
    python benchmarks/explain_cost.py --pool 8G --minutes 0

The reads are timed one by one: each takes the lock once or more often, so that none holds it for
longer than it lasts. What one of smaps would take is printed beside it: it grows with what one
mapping has resident, so the figure for 100 GB is reasoned.

What clients lose is measured by a duet: two servers with their clients, each on a CPU of its own,
which they exchange every 15 seconds. In every minute one of them is looked at, once, by a process
on the same CPU; of two neighbouring minutes each has one. The logarithm of the ratio of their
transactions differs between those minutes by twice the loss: Student's interval of the pairs' mean.
The exit status is 1 if a target is missed: 300 ms for 2 GB, 20 ms in a read, an interval within ±1
%.
"""

import argparse
import fcntl
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pymysql
from empty_mariadb import find_mariadbd, run_empty_mariadb
from scipy import stats

from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.explain import explanation
from dballoc.host.process.handle import Process
from dballoc.host.resources import cpus
from dballoc.process import memory_reader, pagemap_scan, smaps

MOST_SECONDS, MOST_LOCKED, MOST_LOST = 0.3, 0.02, 0.01
LOOKS = 7
# Four slices are a minute; what follows a move is left out.
SLICES, SLICE, SETTLE = 4, 15.0, 2.0
PAGE_16K = 16384

# A process of its own, as dballoc is; it looks whenever it gets a PID.
LOOKER = """
import sys
from dballoc.explain import explanation
for line in sys.stdin:
    explanation.explain(int(line), None)
    print(flush=True)
"""


@contextmanager
def server(place: Path, pool: int) -> Iterator[tuple[int, str]]:
    """A MariaDB with a pool of so many bytes; its PID and socket."""
    if (mariadbd := find_mariadbd()) is None:
        sys.exit("no mariadbd on this machine: apt-get install mariadb-server-core")
    options = (
        "--skip-log-bin",
        f"--innodb-buffer-pool-size={pool}",
        "--innodb-log-file-size=1G",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        "--innodb-flush-method=O_DIRECT",
        "--performance-schema=ON",
    )
    with run_empty_mariadb(mariadbd, place, *options) as running:
        yield running


def fill(socket: str, pool: int) -> None:
    """Pages to the pool's size and a little more: two rows fill one."""
    with (
        pymysql.connect(unix_socket=socket, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE DATABASE sbtest")
        cursor.execute(
            "CREATE TABLE sbtest.filler (id INT PRIMARY KEY, c VARCHAR(8100) CHARSET latin1) "
            "ENGINE=InnoDB"
        )
        rows, step = int(2.06 * pool) // PAGE_16K, 10_000
        for at in range(0, rows, step):
            cursor.execute(
                "INSERT INTO sbtest.filler SELECT seq, REPEAT('x', 8100) FROM "
                f"sbtest.seq_{at + 1}_to_{at + step}"
            )


@contextmanager
def timed_reads() -> Iterator[list[tuple[float, str]]]:
    """Every read of the server's /proc files, with its seconds, as long as this lasts."""
    found: list[tuple[float, str]] = []
    read, pread, ioctl = smaps.read_smaps, os.pread, fcntl.ioctl

    def timed(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                found.append((time.perf_counter() - began, what))

        return wrapped

    smaps.read_smaps = timed("smaps", read)
    memory_reader.os.pread = timed("pagemap or mem", pread)  # type: ignore[attr-defined]
    pagemap_scan.fcntl.ioctl = timed("PAGEMAP_SCAN", ioctl)  # type: ignore[attr-defined]
    try:
        yield found
    finally:
        smaps.read_smaps, memory_reader.os.pread, pagemap_scan.fcntl.ioctl = read, pread, ioctl  # type: ignore[attr-defined]


def read_by_smaps(pid: int) -> float:
    """The longest of its reads, in seconds: all of a mapping is walked in one."""
    longest = 0.0
    with open(f"/proc/{pid}/smaps", "rb", buffering=0) as text:
        more = True
        while more:
            began = time.perf_counter()
            more = bool(text.read(1 << 16))
            longest = max(longest, time.perf_counter() - began)
    return longest


def looked_at(pid: int) -> bool:
    """Print what a look costs; whether it is within the targets."""
    process = Process.open(pid)
    # What is imported and cached by the first one is not the server's.
    explanation.explain(process, None)
    wall, cpu = [], []
    for _ in range(LOOKS):
        began, spent = time.perf_counter(), time.process_time()
        found = explanation.explain(process, None)
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - spent)
    with timed_reads() as reads:
        explanation.explain(process, None)
    longest = {
        what: max(s for s, w in reads if w == what) for what in sorted({w for _, w in reads})
    }
    rss = found.ledger.rss
    largest = max(m.rss for m in smaps.read_mappings(process))
    median = sorted(wall)[LOOKS // 2]
    print(
        f"RSS {rss / 2**30:.2f} GiB, its largest mapping {largest / 2**30:.2f} GiB; from outside, "
        f"{LOOKS} looks"
    )
    print(
        f"a look: median {median * 1e3:.0f} ms, most {max(wall) * 1e3:.0f} ms; CPU "
        f"{sorted(cpu)[LOOKS // 2] * 1e3:.0f} ms"
    )
    for what, seconds in longest.items():
        mine = [s for s, w in reads if w == what]
        print(
            f"longest read by {what}: {seconds * 1e3:.1f} ms, of {len(mine)} reads, "
            f"{sum(mine) * 1e3:.0f} ms together"
        )
    worst = max(longest.values())
    scanned = sum(s for s, w in reads if w in ("smaps", "PAGEMAP_SCAN")) / (largest / 2**30)
    whole = read_by_smaps(pid)
    print(
        f"smaps walks a mapping's page table in one go: its longest read takes {whole * 1e3:.1f} "
        "ms, so that a pool of 100 GB "
        "in one mapping (4 KiB pages) would hold the lock for "
        f"{whole / (largest / 2**30) * 93.1 * 1e3:.0f} ms; a look at "
        f"that takes about {median + scanned * 93.1:.1f} s, and no read longer than these; in huge "
        "pages a 512th of that"
    )
    return median <= MOST_SECONDS and worst <= MOST_LOCKED


class Side:
    """A server with its clients, and the transactions of each of their seconds."""

    def __init__(self, pid: int, socket: str, seconds: float) -> None:
        common = [
            "sysbench",
            "oltp_read_only",
            f"--mysql-socket={socket}",
            "--mysql-user=root",
            "--tables=1",
            "--table-size=20000",
        ]
        subprocess.run([*common, "prepare"], check=True, stdout=subprocess.DEVNULL)
        self.pid = pid
        self.tps: list[tuple[float, float]] = []
        self.clients = subprocess.Popen(
            [
                *common,
                "--threads=4",
                f"--time={seconds:.0f}",
                "--report-interval=1",
                "--db-ps-mode=disable",
                "run",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.clients.stdout
        for line in self.clients.stdout:
            if match := re.match(r"\[ \d+s \].* tps: ([\d.]+)", line):
                self.tps.append((time.monotonic(), float(match[1])))

    def move(self, cpu: int) -> None:
        """Server and clients."""
        for pid in (self.pid, self.clients.pid):
            cpus.move_threads(pid, {cpu})

    def mean(self, slices: list[tuple[float, float]]) -> float:
        """Transactions a second of the seconds that lie in these slices."""
        mine = [tps for at, tps in self.tps if any(a <= at - 1 and at <= b for a, b in slices)]
        return sum(mine) / len(mine)


@contextmanager
def loaded(pid: int, socket: str, seconds: float) -> Iterator[Side]:
    """Its clients end with this."""
    side = Side(pid, socket, seconds)
    try:
        yield side
    finally:
        side.clients.kill()
        side.clients.wait()


def lost(sides: tuple[Side, Side], minutes: int) -> bool:
    """Print what clients lose by one look a minute; whether that is within the target."""
    draw = random.Random(1)
    first, second = sorted(os.sched_getaffinity(0))[:2]
    ratios: list[float] = []
    with subprocess.Popen(
        [sys.executable, "-I", "-c", LOOKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as looker:
        assert looker.stdin
        assert looker.stdout
        for minute in range(-1, minutes):
            # A, B, B, A: a drift hits both alike. The minute before the first warms up.
            looked = sides[minute % 4 in (1, 2)]
            its_slice, its_second = draw.randrange(SLICES), draw.uniform(SETTLE, SLICE - 1)
            slices = []
            for i in range(SLICES):
                cpus = (first, second) if i % 2 == 0 else (second, first)
                for side, cpu in zip(sides, cpus, strict=True):
                    side.move(cpu)
                began = time.monotonic()
                if i == its_slice:
                    time.sleep(its_second)
                    os.sched_setaffinity(looker.pid, {cpus[sides.index(looked)]})
                    looker.stdin.write(f"{looked.pid}\n")
                    looker.stdin.flush()
                    looker.stdout.readline()
                time.sleep(max(0.0, began + SLICE - time.monotonic()))
                slices.append((began + SETTLE, began + SLICE))
            time.sleep(0.5)  # the last second's line
            if minute >= 0:
                ratio = math.log(sides[0].mean(slices) / sides[1].mean(slices))
                ratios.append(ratio if looked is sides[0] else -ratio)
        looker.stdin.close()
    # Each pair has a minute of both: what the servers differ by cancels.
    pairs = [(a + b) / 2 for a, b in zip(ratios[::2], ratios[1::2], strict=False)]
    mean = sum(pairs) / len(pairs)
    reach = float(stats.t.ppf(0.975, len(pairs) - 1)) * float(stats.sem(pairs))
    low, high = math.exp(mean - reach), math.exp(mean + reach)
    print(
        "oltp_read_only, 4 threads a side, one look a minute: tps with ÷ without "
        f"{math.exp(mean):.4f} "
        f"[{low:.4f}, {high:.4f}], {len(pairs)} pairs of minutes"
    )
    return max(1 - low, high - 1) <= MOST_LOST


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pool", default="2G", help="size of the buffer pool that is filled")
    parser.add_argument(
        "--minutes", type=int, default=12, help="of load, an even number of at least 4; 0: none"
    )
    given = parser.parse_args()
    if given.minutes and (given.minutes % 2 or given.minutes < 4):
        parser.error(f"--minutes {given.minutes}: give an even number of at least 4, or 0")
    if given.minutes and len(os.sched_getaffinity(0)) < 2:
        parser.error("a duet takes two CPUs; --minutes 0 leaves it out")
    with ExitStack() as stack:
        place = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="dballoc-cost-", dir="/tmp"))
        )
        pool = parse_size(given.pool)
        servers = []
        for name in ("a", "b") if given.minutes else ("a",):
            (place / name).mkdir()
            servers.append(stack.enter_context(server(place / name, pool)))
            fill(servers[-1][1], pool)
        good = looked_at(servers[0][0])
        if given.minutes:
            seconds = (given.minutes + 2) * (SLICE * SLICES + 1)
            one, other = (
                stack.enter_context(loaded(pid, socket, seconds)) for pid, socket in servers
            )
            good = lost((one, other), given.minutes) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
