"""What happens in the emulated machine: a MariaDB under the heap probe with a little load, looked at
from outside. Each result is one line of the console: ``result NAME JSON``.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pymysql

from dballoc.cli import main as dballoc_main
from dballoc.profile.heap import probe_client

SOCKET = "/tmp/mysqld.sock"
PROBE = "/dballoc/dballoc/_native/libdballoc_probe.so"
SHIM = "/dballoc/dballoc/_native/libdballoc_keep_thp.so"
ROWS, THREADS = 300, 4
# Debian 12 has them there, and 13 here.
MESSAGES = next(filter(os.path.exists, ("/usr/share/mariadb", "/usr/share/mysql")))


def show(name: str, value: object) -> None:
    """Put a result on the console."""
    print(f"result {name} {json.dumps(value)}", flush=True)


def start_server() -> "subprocess.Popen[bytes]":
    """Start a tiny server under the heap probe; wait until it answers."""
    command = [
        "/usr/sbin/mariadbd", "--no-defaults", "--user=root", "--datadir=/data", f"--socket={SOCKET}",
        "--skip-networking", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
        "--performance-schema=ON", "--innodb-flush-method=fsync", "--skip-log-bin",
        "--innodb-use-native-aio=OFF", f"--lc-messages-dir={MESSAGES}", "--log-error=/tmp/error.log",
    ]  # fmt: skip
    variables = {**os.environ, "LD_PRELOAD": PROBE, "DBALLOC_PROBE": "16384:/tmp/probe"}
    server = subprocess.Popen(command, env=variables)
    while not Path(SOCKET).exists():
        if server.poll() is not None:
            print(Path("/tmp/error.log").read_text(errors="replace"), flush=True)
            raise SystemExit("the server has ended")
        time.sleep(0.5)
    return server


def load(number: int) -> None:
    """A client: its own table, filled and read."""
    with pymysql.connect(unix_socket=SOCKET, user="root", read_timeout=300) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE DATABASE IF NOT EXISTS d")
        cursor.execute(f"CREATE TABLE d.t{number} (id INT PRIMARY KEY, t VARCHAR(200), KEY (t))")
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
        with output.open("w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
        sys.argv = ["dballoc", *words]
        dballoc_main.main()  # it ends the process
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seconds = time.monotonic() - began
    print(f"guest: dballoc {' '.join(words)}: exit {status}, {seconds:.0f} s", flush=True)
    return output.read_text(encoding="utf-8")


def switch_thp_off(library: str) -> list[int]:
    """What prctl(PR_SET_THP_DISABLE) and then PR_GET_THP_DISABLE return under a preload."""
    code = "import ctypes; p = ctypes.CDLL(None).prctl; print(p(41, 1, 0, 0, 0), p(42, 0, 0, 0, 0))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        env={"LD_PRELOAD": library}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [int(word) for word in done.stdout.split()]


def main() -> None:
    """Everything, in order."""
    show("page_size", os.sysconf("SC_PAGE_SIZE"))
    Path("/tmp/probe").mkdir()
    server = start_server()
    print("guest: the server answers", flush=True)
    clients = [threading.Thread(target=load, args=(number,)) for number in range(THREADS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    print("guest: loaded", flush=True)
    pid = str(server.pid)
    show("explain", json.loads(run_dballoc("explain", "--pid", pid, "--json")))
    show("verify", run_dballoc("verify", pid))
    waits = ("profile", "contention", "--pid", pid, "--method", "proc", "--seconds", "2")
    show("waits", run_dballoc(*waits))
    snapshot = probe_client.find_probe_in_directory(Path("/tmp/probe")).snapshot()
    show("complete", snapshot.complete)
    show("samples", sum(stack.samples for stack in snapshot.stacks.values()))
    show("thp", {name: switch_thp_off(name) for name in ("", SHIM)})
    server.terminate()
    show("end", server.wait(timeout=300))


if __name__ == "__main__":
    main()
