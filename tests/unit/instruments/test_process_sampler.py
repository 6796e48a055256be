"""The sampler, on a child that does known amounts of everything that it counts."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from dballoc.host.process.handle import Process
from dballoc.instruments import process_sampler
from dballoc.instruments.process_sampler import ProcessGone, ProcessSample, ProcessSampler

# Does what a line on its standard input says, then answers "done".
WORKER = """
import mmap, resource, sys, threading, time
kept, stop, threads = [], threading.Event(), []
for line in sys.stdin:
    what, amount = line.split()
    amount = int(amount)
    if what == "touch":
        area = mmap.mmap(-1, amount << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        area.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(0, amount << 20, 4096):
            area[page] = 1
        kept.append(area)
    elif what == "release":
        area = kept.clear()
    elif what == "reserve":
        kept.append(mmap.mmap(-1, amount << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    elif what == "burn":
        end = time.process_time() + amount / 1000
        while time.process_time() < end:
            pass
    elif what == "switch":
        # By the kernel's own count: a sleep that a preemption comes before is no switch of its own will.
        end = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw + amount
        while resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw < end:
            time.sleep(0.0001)
    elif what == "threads":
        threads = [threading.Thread(target=stop.wait) for _ in range(amount)]
        [t.start() for t in threads]
    elif what == "join":
        stop.set()
        [t.join() for t in threads]
    print("done", flush=True)
"""

MIB = 1 << 20
Do = Callable[[str, int], ProcessSample]


@pytest.fixture
def worker() -> Iterator[tuple[ProcessSampler, Do]]:
    """The sampler of a fresh worker, and ``do(what, amount)``, which gives a sample after it is
    done.
    """
    with subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def do(what: str, amount: int) -> ProcessSample:
            child.stdin.write(f"{what} {amount}\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
            return sampler.sample(every_thread=True)

        sampler = ProcessSampler(Process.open(child.pid))
        do("burn", 0)
        yield sampler, do
        sampler.close()
        child.communicate(timeout=10)


def test_memory_that_is_touched(worker: tuple[ProcessSampler, Do]) -> None:
    sampler, do = worker
    before, after = sampler.sample(), do("touch", 64)
    assert after.rss - before.rss == pytest.approx(64 * MIB, abs=2 * MIB)
    assert after.minor_faults - before.minor_faults == pytest.approx(64 * 256, rel=0.05)
    assert after.vsz - before.vsz == pytest.approx(64 * MIB, abs=2 * MIB)
    assert after.accessible - before.accessible == pytest.approx(64 * MIB, abs=2 * MIB)


def test_memory_that_is_not_touched(worker: tuple[ProcessSampler, Do]) -> None:
    sampler, do = worker
    before, after = sampler.sample(), do("reserve", 512)
    assert after.rss - before.rss < 2 * MIB
    assert after.vsz - before.vsz == pytest.approx(512 * MIB, abs=2 * MIB)


def test_the_peak_is_reset_for_each_level(worker: tuple[ProcessSampler, Do]) -> None:
    sampler, do = worker
    high = do("touch", 64).rss
    low = do("release", 0)
    assert low.rss < high - 60 * MIB
    assert low.peak == pytest.approx(high, abs=2 * MIB)  # the kernel counts in batches per CPU
    assert sampler.reset_peak()
    assert sampler.sample().peak == pytest.approx(low.rss, abs=2 * MIB)
    assert do("touch", 32).peak < high - 20 * MIB


def test_cpu_time(worker: tuple[ProcessSampler, Do]) -> None:
    sampler, do = worker
    before, after = sampler.sample(), do("burn", 300)
    assert after.cpu - before.cpu == pytest.approx(0.3, abs=0.1)
    # The kernel's ticks are 10 ms.
    assert after.cpu_user + after.cpu_system - before.cpu_user - before.cpu_system == pytest.approx(
        0.3, abs=0.12
    )
    assert after.clock > before.clock


def test_voluntary_context_switches(worker: tuple[ProcessSampler, Do]) -> None:
    sampler, do = worker
    before, after = sampler.sample(every_thread=True), do("switch", 500)
    assert 500 <= after.voluntary - before.voluntary < 700


def test_the_switches_of_threads_that_end_are_kept(worker: tuple[ProcessSampler, Do]) -> None:
    sampler, do = worker
    alone = sampler.sample().threads
    with_them = do("threads", 20)
    assert with_them.threads == alone + 20
    # Joined is not yet gone from /proc.
    after, deadline = do("join", 0), time.monotonic() + 10
    while after.threads != alone and time.monotonic() < deadline:
        after = sampler.sample(every_thread=True)
    assert after.threads == alone
    assert after.voluntary >= with_them.voluntary >= 20


def test_with_many_threads_a_sample_in_passing_reads_a_share_and_the_next_ones_the_rest(
    worker: tuple[ProcessSampler, Do], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, do = worker
    do("threads", 200)
    read: list[str] = []
    really = sampler._switches_of
    monkeypatch.setattr(sampler, "_switches_of", lambda tid: (read.append(tid), really(tid))[1])
    for _ in range(12):
        before = len(read)
        sampler.sample()
        assert len(read) - before <= 21
    assert len(set(read)) == 201
    read.clear()
    sampler.sample(every_thread=True)
    assert len(set(read)) == 201
    do("join", 0)


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        (b"Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n", (12, 3)),
        # Linux 6.6 and later with shadow stacks.
        (b"\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t2\nx86_Thread_features:\t\nx86_Thread_features_locked:\t\n", (1, 2)),
        (b"", None),
    ],
)  # fmt: skip
def test_context_switches_wherever_they_stand(
    status: bytes, counts: tuple[int, int] | None
) -> None:
    assert process_sampler._parse_switches(status) == counts


def test_a_process_that_has_ended_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        sampler = ProcessSampler(Process.open(child.pid))
        sampler.sample()
        child.communicate(b"\n", timeout=10)
    with pytest.raises(ProcessGone):
        sampler.sample()
    assert not sampler.reset_peak()
    sampler.close()


def test_a_zombie_is_gone_too() -> None:
    """A server that has died stays a zombie until the guardian reaps it; it has no sizes
    any more.
    """
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        sampler = ProcessSampler(Process.open(child.pid))
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"\n")
        child.stdin.close()
        child.stdout.read()  # ends with the process; Popen has not waited for it yet
        deadline = time.monotonic() + 10
        gone = False
        while (
            not gone and time.monotonic() < deadline
        ):  # between closing its files and being dead it still is one
            try:
                sampler.sample()
            except ProcessGone:
                gone = True
        sampler.close()
    assert gone


def test_bytes_sent_to_storage_are_read_where_they_may_be() -> None:
    text = b"syscw: 0\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n"
    assert process_sampler.parse_written(text) == 8192
    assert process_sampler.parse_written(b"read_bytes: 1\n") is None
