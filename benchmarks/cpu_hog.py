"""Keep the CPUs busy in bursts, as other work on a machine does: a noisy hour on order.

    python benchmarks/cpu_hog.py [--seed 1] [--share 0.5] [--seconds 600]

One process a CPU computes in bursts of 0.3 s on average (exponentially distributed, drawn from the
seed), and sleeps between them, so that it is busy for that share of the time. It ends after its
seconds, at Ctrl-C, and with the process that started it.
"""

import argparse
import contextlib
import ctypes
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator

BURST = 0.3  # seconds
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def burn(cpu: int, seed: int, share: float, ends: float) -> None:
    """Compute in bursts on that CPU until the monotonic clock says ``ends``."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.sched_setaffinity(0, {cpu})
    draw = random.Random(seed * 1000 + cpu)
    while (now := time.monotonic()) < ends:
        until = min(ends, now + draw.expovariate(1 / BURST))
        while time.monotonic() < until:
            pass
        time.sleep(draw.expovariate(share / (1 - share) / BURST))


@contextlib.contextmanager
def noisy_machine(seed: int, share: float = 0.5, seconds: float = 3600) -> Iterator[None]:
    """Keep all CPUs busy for that share of the time while in the ``with`` block."""
    ends = time.monotonic() + seconds
    burning = [
        multiprocessing.Process(target=burn, args=(cpu, seed, share, ends), daemon=True)
        for cpu in sorted(os.sched_getaffinity(0))
    ]
    for process in burning:
        process.start()
    try:
        yield
    finally:
        for process in burning:
            process.terminate()
            process.join()


def main() -> None:
    """Burn until the end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=600)
    asked = parser.parse_args()
    if not 0 < asked.share < 1:
        parser.error("--share: give a share of the time between 0 and 1, such as 0.5")
    with (
        contextlib.suppress(KeyboardInterrupt),
        noisy_machine(asked.seed, asked.share, asked.seconds),
    ):
        time.sleep(asked.seconds)


if __name__ == "__main__":
    main()
