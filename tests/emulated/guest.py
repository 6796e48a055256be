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

SOCKET = "/tmp/mysqld.sock"
PROBE = "/dballoc/dballoc/_native/libdballoc_probe.so"
TABLES, ROWS, THREADS = 4, 300, 4


def show(name: str, value: object) -> None:
    """Put a result on the console."""
    print(f"result {name} {json.dumps(value)}", flush=True)


def start_server() -> "subprocess.Popen[bytes]":
    """Start a tiny server under the heap probe; wait until it answers."""
    command = [
        "/usr/sbin/mariadbd", "--no-defaults", "--user=root", "--datadir=/data", f"--socket={SOCKET}",
        "--skip-networking", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
        "--performance-schema=ON", "--innodb-flush-method=fsync", "--skip-log-bin",
        "--innodb-use-native-aio=OFF", "--lc-messages-dir=/usr/share/mysql", "--log-error=/tmp/error.log",
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
    """Run a command of dballoc's; what it prints."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "dballoc", *words], capture_output=True, text=True, check=False
    )
    print(f"guest: dballoc {' '.join(words)}: {time.monotonic() - began:.0f} s", flush=True)
    if done.returncode:
        print(f"guest: exit {done.returncode}: {done.stderr}", flush=True)
    return done.stdout


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
    show("explain", json.loads(run_dballoc("explain", str(server.pid), "--json") or "null"))
    show("verify", run_dballoc("verify", str(server.pid)))
    from dballoc.profile.heap import probe_client

    snapshot = probe_client.find_probe_in_directory(Path("/tmp/probe")).snapshot()
    show("complete", snapshot.complete)
    show("samples", sum(stack.samples for stack in snapshot.stacks.values()))
    server.terminate()
    show("end", server.wait(timeout=300))


if __name__ == "__main__":
    main()
