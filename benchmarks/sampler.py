"""What dballoc's sampler costs, beside the usual loop of `ps aux | grep PID` at the same rate.

    python benchmarks/sampler.py                  a process with 2 GB and 100 threads, 20 samples a
    second python benchmarks/sampler.py --rate 1         at the rate of a campaign (takes minutes)
    python benchmarks/sampler.py --pid 4242       any process that runs already

Both are charged with all of their CPU time, the kernel's on their behalf included. The exit status
is 1 if a target is missed: at one sample a second at most 0.5 % of one core, and at least 20 times
less than the loop.
"""

import argparse
import contextlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from dballoc.host.process.handle import Process
from dballoc.instruments.process_sampler import ProcessSampler

MOST_OF_A_CORE = 0.005
LEAST_RATIO = 20

# Resident memory that is really touched, and threads that wake and sleep as a server's do.
TARGET = """
import mmap, sys, threading, time
size, count = int(sys.argv[1]) << 20, int(sys.argv[2])
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for start in range(0, size, 1 << 20):
    area[start : start + (1 << 20)] = b"x" * (1 << 20)
def wake():
    while True:
        time.sleep(0.25)
threading.stack_size(128 << 10)
for _ in range(count):
    threading.Thread(target=wake, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def target(megabytes: int, threads: int) -> Iterator[int]:
    """The PID of a process of that size."""
    argv = [sys.executable, "-I", "-c", TARGET, str(megabytes), str(threads)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def at_rate(what: Callable[[], object], rate: float, samples: int) -> None:
    """Call it that many times, that many a second."""
    began = time.monotonic()
    for number in range(samples):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        what()


def cpu(who: int) -> float:
    """CPU seconds so far, of this process or of its children that have ended."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def cost_of_the_sampler(process: Process, rate: float, samples: int) -> float:
    """CPU seconds a sample, waking up for it included."""
    sampler = ProcessSampler(process)
    sampler.sample()
    before = cpu(resource.RUSAGE_SELF)
    at_rate(sampler.sample, rate, samples)
    used = cpu(resource.RUSAGE_SELF) - before
    sampler.close()
    return used / samples


def cost_of_ps(pid: int, rate: float, samples: int) -> float:
    """CPU seconds a turn of the loop, in one shell that lives throughout; only what the shell and
    its children use.
    """
    before = cpu(resource.RUSAGE_CHILDREN)
    loop = f"while read turn; do ps aux | grep {pid} > /dev/null; echo; done"
    with subprocess.Popen(
        ["/bin/sh", "-c", loop], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as shell:
        requests, answers = shell.stdin, shell.stdout
        assert requests is not None
        assert answers is not None

        def turn() -> None:
            requests.write(b"\n")
            requests.flush()
            answers.readline()

        at_rate(turn, rate, samples)
        requests.close()
    return (cpu(resource.RUSAGE_CHILDREN) - before) / samples


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=20.0, help="samples a second")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=100)
    parser.add_argument("--pid", type=int, help="measure this process instead of one of our own")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        pid = given.pid or stack.enter_context(target(given.megabytes, given.threads))
        process = Process.open(pid)
        sampler = ProcessSampler(process)
        seen = sampler.sample()
        sampler.close()
        ours = cost_of_the_sampler(process, given.rate, given.samples)
        theirs = cost_of_ps(pid, given.rate, given.samples)
    # At one sample a second, CPU seconds a sample are the share of one core.
    ratio = theirs / ours
    print(f"target   process {pid}: {seen.rss / 2**20:,.0f} MiB resident, {seen.threads} threads")
    print(f"each     {given.samples} samples, {given.rate:g} a second")
    print(
        f"dballoc  {ours * 1e3:7.3f} ms of CPU a sample; at one a second {ours:.3%} of one core",
        end="  ",
    )
    print(
        f"(target: at most {MOST_OF_A_CORE:.1%}: {'met' if ours <= MOST_OF_A_CORE else 'MISSED'})"
    )
    print(
        f"ps|grep  {theirs * 1e3:7.3f} ms of CPU a sample; at one a second {theirs:.3%} of one core"
    )
    print(
        f"ratio    {ratio:7.1f}  (target: at least {LEAST_RATIO}: "
        f"{'met' if ratio >= LEAST_RATIO else 'MISSED'})"
    )
    return 0 if ours <= MOST_OF_A_CORE and ratio >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
