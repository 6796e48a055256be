"""The noise guard: how busy the machine was with other work while a block ran.

Pressure stall information (PSI) does not help: our own load saturates it.
"""

import hashlib
import time
from dataclasses import dataclass

from dballoc.experiment.model import Noise
from dballoc.instruments.host_sampler import HostSample

_PROBE_BYTES = bytes(1 << 20)
_PROBE_ROUNDS = 40
_PROBE_TRIES = 3


@dataclass(frozen=True)
class BlockNoise:
    """Noise during one block. ``steal`` and ``others``: shares of all CPU time, 0 to 1;
    ``probe_before`` and ``probe_after``: seconds that the fixed probe took.
    """

    steal: float
    others: float
    probe_before: float
    probe_after: float


def time_fixed_probe() -> float:
    """Return the seconds that a fixed piece of work takes on this machine now: single-threaded,
    the best of three runs.
    """
    best = float("inf")
    for _ in range(_PROBE_TRIES):
        began = time.perf_counter()
        for _ in range(_PROBE_ROUNDS):
            hashlib.blake2b(_PROBE_BYTES).digest()
        best = min(best, time.perf_counter() - began)
    return best


def compute_block_noise(
    before: HostSample, after: HostSample, load_cpu: float, probes: tuple[float, float]
) -> BlockNoise:
    """Return the noise between two readings. ``load_cpu``: CPU seconds that our servers and
    clients used between them; ``probes``: seconds of the probe before and after.
    """
    total = max(after.total - before.total, 1e-9)
    campaign_cpu = load_cpu + after.own_cpu - before.own_cpu
    return BlockNoise(
        (after.steal - before.steal) / total,
        max(0.0, after.busy - before.busy - campaign_cpu) / total,
        probes[0],
        probes[1],
    )


def describe_disturbance(noise: BlockNoise, limits: Noise, usual_probe: float) -> str | None:
    """Return why a block counts as disturbed, or None. ``usual_probe``: median seconds of the
    campaign's probes so far.
    """
    if noise.steal > limits.steal:
        return f"steal {noise.steal:.1%} > {limits.steal:.1%}"
    if noise.others > limits.others:
        return f"other processes used {noise.others:.1%} of the CPUs > {limits.others:.1%}"
    worst = max(noise.probe_before, noise.probe_after) / usual_probe
    if worst > limits.probe:
        return f"the fixed probe ran {worst:.2f} times slower than usual > {limits.probe:.2f}"
    return None
