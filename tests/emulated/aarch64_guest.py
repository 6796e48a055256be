"""What happens in the emulated machine: the heap probe in a storm of forks; then a MariaDB with a
little load, looked at from outside: under the heap probe on glibc's malloc, then on other mallocs.
Each result is one line of the console: ``result NAME JSON``.
"""

import faulthandler
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pymysql

from dballoc.cli import main as dballoc_main
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE, find_preload_in_directory
from dballoc.profile.heap import probe_client

SOCKET = "/tmp/mysqld.sock"
PROBE = "/dballoc/dballoc/_native/libdballoc_probe.so"
SHIM = "/dballoc/dballoc/_native/libdballoc_keep_thp.so"
LIBRARIES = Path("/usr/lib/aarch64-linux-gnu")
OTHERS = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.?",
}
ROWS, THREADS = 300, 4
# Seconds for a command of dballoc's or a program, which take up to a minute; then it says where it is.
LONGEST = 300
# Debian 12 has them there, and 13 here.
MESSAGES = next(filter(os.path.exists, ("/usr/share/mariadb", "/usr/share/mysql")))


def show(name: str, value: object) -> None:
    """Put a result on the console."""
    print(f"result {name} {json.dumps(value)}", flush=True)


def start_server(**variables: str) -> "subprocess.Popen[bytes]":
    """Start a tiny server with these environment variables; wait until it answers."""
    command = [
        "/usr/sbin/mariadbd", "--no-defaults", "--user=root", "--datadir=/data", f"--socket={SOCKET}",
        "--skip-networking", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
        "--performance-schema=ON", "--innodb-flush-method=fsync", "--skip-log-bin",
        "--innodb-use-native-aio=OFF", f"--lc-messages-dir={MESSAGES}", "--log-error=/tmp/error.log",
    ]  # fmt: skip
    server = subprocess.Popen(command, env={**os.environ, **variables})
    while not Path(SOCKET).exists():
        if server.poll() is not None:
            print(Path("/tmp/error.log").read_text(errors="replace"), flush=True)
            raise SystemExit("the server has ended")
        time.sleep(0.5)
    print(f"guest: the server answers, with {variables}", flush=True)
    return server


def load() -> None:
    """A little of it, by some clients at once."""
    clients = [threading.Thread(target=run_client, args=(number,)) for number in range(THREADS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    # A thread that ends holds a lock of OpenSSL's for a moment after that, and we fork.
    while len(os.listdir("/proc/self/task")) > 1:
        time.sleep(0.01)
    print("guest: loaded", flush=True)


def run_client(number: int) -> None:
    """A client: its own table, filled and read."""
    with pymysql.connect(unix_socket=SOCKET, user="root", read_timeout=300) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE DATABASE IF NOT EXISTS d")
        cursor.execute(
            f"CREATE OR REPLACE TABLE d.t{number} (id INT PRIMARY KEY, t VARCHAR(200), KEY (t))"
        )
        for row in range(0, ROWS, 20):
            rows = ",".join(f"({i}, REPEAT('{i % 10}', 150))" for i in range(row, row + 20))
            cursor.execute(f"INSERT INTO d.t{number} VALUES {rows}")
        connection.commit()
        for _ in range(5):
            cursor.execute(f"SELECT t, COUNT(*) FROM d.t{number} GROUP BY t ORDER BY t DESC")
            cursor.fetchall()


def run_dballoc(*words: str) -> str:
    """Run a command of dballoc's in a child that has its modules already: to import them takes a
    minute here. What it prints.
    """
    began = time.monotonic()
    output = Path("/tmp/output")
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        with output.open("w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
        sys.argv = ["dballoc", *words]
        dballoc_main.main()  # it ends the process
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seconds = time.monotonic() - began
    print(f"guest: dballoc {' '.join(words)}: exit {status}, {seconds:.0f} s", flush=True)
    if status:
        raise SystemExit(output.read_text(encoding="utf-8"))
    return output.read_text(encoding="utf-8")


def switch_thp_off(library: str) -> list[int]:
    """What prctl(PR_SET_THP_DISABLE) and then PR_GET_THP_DISABLE return under a preload."""
    code = "import ctypes; p = ctypes.CDLL(None).prctl; print(p(41, 1, 0, 0, 0), p(42, 0, 0, 0, 0))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        env={"LD_PRELOAD": library}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [int(word) for word in done.stdout.split()]


def run_probed(mode: str, request: str, malloc: str = "") -> list[object]:
    """How tests/native/probed.c ends under the probe, and what it prints: as test_probe.py runs it."""
    preload = [PROBE, *map(str, LIBRARIES.glob(OTHERS[malloc]))] if malloc else [PROBE]
    done = subprocess.run(
        ["/probed", mode],
        env={**os.environ, "LD_PRELOAD": ":".join(preload), "DBALLOC_PROBE": request},
        capture_output=True, text=True, check=False, timeout=LONGEST,
    )  # fmt: skip
    print(f"guest: probed {mode} {malloc}: exit {done.returncode}", flush=True)
    return [done.returncode, done.stdout, done.stderr]


def look_at_probed_server() -> None:
    """Everything that dballoc can do with a server on glibc's malloc under the heap probe."""
    Path("/tmp/probe").mkdir()
    server = start_server(LD_PRELOAD=PROBE, DBALLOC_PROBE="16384:/tmp/probe")
    load()
    pid = str(server.pid)
    show("explain", json.loads(run_dballoc("explain", "--pid", pid, "--json")))
    show("verify", run_dballoc("verify", pid))
    waits = ("profile", "contention", "--pid", pid, "--method", "proc", "--seconds", "2")
    show("waits", run_dballoc(*waits))
    show("heap", run_dballoc("profile", "heap", "--out-dir", "/tmp/probe"))
    snapshot = probe_client.Probe(
        find_preload_in_directory(Path("/tmp/probe"), HEAP_PROBE)
    ).snapshot()
    show("complete", snapshot.complete)
    show("samples", sum(stack.samples for stack in snapshot.stacks.values()))
    server.terminate()
    show("end", server.wait(timeout=300))


def look_at_server_on(name: str) -> None:
    """What the readers of another malloc's memory make of it."""
    server = start_server(LD_PRELOAD=str(next(LIBRARIES.glob(OTHERS[name]))))
    load()
    pid = str(server.pid)
    show(f"explain-{name}", json.loads(run_dballoc("explain", "--pid", pid, "--json")))
    show(f"verify-{name}", run_dballoc("verify", pid))
    server.terminate()
    server.wait(timeout=300)


def main() -> None:
    """Everything, in order."""
    show("page_size", os.sysconf("SC_PAGE_SIZE"))
    show("thp", {name: switch_thp_off(name) for name in ("", SHIM)})
    Path("/tmp/storm").mkdir()
    for name in ("", *OTHERS):
        # Forked children of a process with threads hang in tcmalloc, without the probe too.
        mode = "threads" if name == "tcmalloc" else "storm"
        show(f"storm-{name}", run_probed(mode, "1024:/tmp/storm", name))
    show("counters", run_probed("counters", ""))
    look_at_probed_server()
    for name in OTHERS:
        Path(SOCKET).unlink(missing_ok=True)
        look_at_server_on(name)


if __name__ == "__main__":
    main()
