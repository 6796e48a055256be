"""The noise guard: what else the machine did while a block ran. Reads /proc/stat; decides purely.

Not pressure (PSI): our own load saturates it.
"""

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from dballoc.experiment.model import Noise

_PROBE_BYTES = bytes(1 << 20)
_PROBE_ROUNDS = 40
_PROBE_TRIES = 3


@dataclass(frozen=True)
class Reading:
    """CPU seconds of the whole host since boot."""

    total: float
    busy: float
    steal: float


@dataclass(frozen=True)
class BlockNoise:
    """Over one block. ``steal`` and ``others``: shares of all CPU time; ``probe``: seconds of the
    fixed probe.
    """

    steal: float
    others: float
    probe_before: float
    probe_after: float


def read() -> Reading:
    """The host's CPU times now (proc_stat(5))."""
    return parse(Path("/proc/stat").read_text(), os.sysconf("SC_CLK_TCK"))


def parse(stat: str, tick: int) -> Reading:
    """The first line of /proc/stat. guest is part of user already."""
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(x) / tick for x in stat.split("\n", 1)[0].split()[1:9]
    )
    busy = user + nice + system + irq + softirq
    return Reading(busy + idle + iowait + steal, busy, steal)


def probe() -> float:
    """Seconds that a fixed piece of work takes on this machine now: the best of three,
    single-threaded.
    """
    best = float("inf")
    for _ in range(_PROBE_TRIES):
        began = time.perf_counter()
        for _ in range(_PROBE_ROUNDS):
            hashlib.blake2b(_PROBE_BYTES).digest()
        best = min(best, time.perf_counter() - began)
    return best


def between(
    before: Reading, after: Reading, ours: float, probes: tuple[float, float]
) -> BlockNoise:
    """``ours``: CPU seconds of our servers, clients and ourselves between the readings."""
    total = max(after.total - before.total, 1e-9)
    return BlockNoise(
        (after.steal - before.steal) / total,
        max(0.0, after.busy - before.busy - ours) / total,
        probes[0],
        probes[1],
    )


def disturbance(noise: BlockNoise, limits: Noise, usual_probe: float) -> str | None:
    """Why a block counts as disturbed, or None. ``usual_probe``: the median of the campaign's
    probes so far.
    """
    if noise.steal > limits.steal:
        return f"steal {noise.steal:.1%} > {limits.steal:.1%}"
    if noise.others > limits.others:
        return f"other processes used {noise.others:.1%} of the CPUs > {limits.others:.1%}"
    worst = max(noise.probe_before, noise.probe_after) / usual_probe
    if worst > limits.probe:
        return f"the fixed probe ran {worst:.2f} times slower than usual > {limits.probe:.2f}"
    return None
