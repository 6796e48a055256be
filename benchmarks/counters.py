"""What counting a server's events costs: a reading, and each context switch of a counted thread.

    python benchmarks/counters.py                       50 threads at the start, 64 that come later
    python benchmarks/counters.py --events instructions,cycles     where the host counts them

A reading is charged with all CPU time of this process, the kernel's on its behalf included; what
it interrupts on other CPUs is not in it. A context switch is the target's own CPU time for passing
a byte between two of its threads, counted and not, in turns; the difference is what counting adds.
A virtual machine may pay more for hardware events: its kernel leaves to the hypervisor for each
counter that it sets.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from dballoc.host.process.handle import Process
from dballoc.instruments.server_counters import ServerCounters, find_countable

# Waits for lines: how many threads to start that stay, or how often to pass a byte between two
# threads, which it answers with its CPU seconds for that.
TARGET = """
import os, sys, threading, time
release = threading.Event()
threading.stack_size(128 << 10)
(read_a, write_a), (read_b, write_b) = os.pipe(), os.pipe()
def echo():
    while True:
        os.write(write_b, os.read(read_a, 1))
threading.Thread(target=echo, daemon=True).start()
for line in sys.stdin:
    word, number = line.split()
    began = time.process_time()
    for _ in range(int(number)):
        if word == "threads":
            threading.Thread(target=release.wait, daemon=True).start()
        else:
            os.write(write_a, b"x")
            os.read(read_b, 1)
    print(time.process_time() - began, flush=True)
"""
_READINGS = 500
_PASSES = 20_000
_ROUNDS = 7


def measure_reading(counters: ServerCounters) -> tuple[float, float]:
    """Return (microseconds of CPU, microseconds of time) of a reading, means."""
    cpu, clock = time.process_time(), time.monotonic()
    for _ in range(_READINGS):
        counters.read()
    cpu, clock = time.process_time() - cpu, time.monotonic() - clock
    return cpu / _READINGS * 1e6, clock / _READINGS * 1e6


def measure_switches(pid: int, ask: Callable[[str], float], events: tuple) -> tuple[float, float]:
    """Return microseconds of the target's CPU for one context switch, (not counted, counted):
    medians of rounds in turns. Passing a byte there and back takes two.
    """
    plain, counted = [], []
    for _ in range(_ROUNDS):
        plain.append(ask(f"pass {_PASSES}"))
        counters = ServerCounters.open(Process.open(pid), events)
        counted.append(ask(f"pass {_PASSES}"))
        counters.close()
    each = 1e6 / _PASSES / 2
    return statistics.median(plain) * each, statistics.median(counted) * each


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", default="task-clock,page-faults,context-switches")
    options.add_argument("--threads", type=int, default=50, help="when counting begins")
    options.add_argument("--later", type=int, default=64, help="started while it counts")
    arguments = options.parse_args()
    countable = find_countable(arguments.events.split(","))
    if not countable.events:
        sys.exit(f"not counted here: {countable.refusal}")
    argv = [sys.executable, "-I", "-c", TARGET]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as target:
        assert target.stdin
        assert target.stdout
        stdin, stdout = target.stdin, target.stdout

        def ask(line: str) -> float:
            stdin.write(line + "\n")
            return float(stdout.readline())

        ask(f"threads {arguments.threads}")
        began = time.monotonic()
        counters = ServerCounters.open(Process.open(target.pid), countable.events)
        opened = (time.monotonic() - began) * 1e3
        first = measure_reading(counters)
        ask(f"threads {arguments.later}")
        second = measure_reading(counters)
        counters.close()
        plain, counted = measure_switches(target.pid, ask, countable.events)
        target.kill()
    print(f"events: {', '.join(event.name for event in countable.events)}")
    print(f"opened in {arguments.threads + 2} threads: {opened:.1f} ms")
    print(f"a reading: {first[0]:.0f} us of CPU, {first[1]:.0f} us")
    print(f"  with {arguments.later} more threads: {second[0]:.0f} us of CPU, {second[1]:.0f} us")
    print(f"a context switch: {plain:.2f} us, counted {counted:.2f} us: {counted - plain:+.2f} us")


if __name__ == "__main__":
    main()
