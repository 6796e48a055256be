"""Moving a running process to other CPUs, its threads and what it has started."""

import os
import subprocess
import sys
import time

import psutil

from dballoc.host.resources import cpus

PROGRAM = """
import subprocess, sys, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
child = subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60"])
print("ready", flush=True)
child.wait()
"""


def test_every_thread_of_it_and_of_its_descendants_moves() -> None:
    one = {min(os.sched_getaffinity(0))}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout
        process.stdout.readline()
        of = psutil.Process(process.pid)
        deadline = time.monotonic() + 10
        while len(descendants := of.children(recursive=True)) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        threads = [t.id for p in (of, *descendants) for t in p.threads()]
        assert len(threads) >= 5  # two of its own, the shell, two that sleep
        cpus.move_threads(process.pid, one)
        assert [os.sched_getaffinity(t) for t in threads] == [one] * len(threads)
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def test_one_that_has_ended_is_left_alone() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    cpus.move_threads(process.pid, os.sched_getaffinity(0))
