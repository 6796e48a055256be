"""The ledger of a program under the heap probe: what is alive under any malloc, and which functions
have it.
"""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import MACHINE
from programs import probed, starting

from dballoc.explain import explanation
from dballoc.host.process.handle import Process
from dballoc.process.heaps.allocator_statistics import HELD, LIVE_ALL, LIVE_SMALL
from dballoc.profile.heap import probe_client
from dballoc.profile.heap.live_heap import ProbedHeapReader

pytestmark = pytest.mark.alone  # what it counts and times wants the CPUs

INTERVAL = 4096  # bytes, on average, from one sample to the next


def compute_standard_error(live: int) -> float:
    """Compute the standard error of an estimate of so many live bytes in blocks far smaller than
    the interval: a block of s bytes is sampled with p ≈ s ÷ interval and then counts s ÷ p, so the
    sum has the variance Σ s²(1 − p) ÷ p ≈ interval × Σ s (Horvitz and Thompson, 1952).
    """
    return math.sqrt(INTERVAL * live)


@pytest.mark.parametrize("allocator", ["glibc", "jemalloc", "tcmalloc"])
def test_what_is_alive_and_whose(
    native_library: Callable[[str], Path], tmp_path: Path, allocator: str
) -> None:
    preload = ":".join(map(str, [native_library("probe"), *MACHINE.find_libraries(allocator)]))
    program = probed(tmp_path)
    with starting() as start:
        running = start(
            program,
            "known",
            LD_PRELOAD=preload,
            **{probe_client.VARIABLE: f"{INTERVAL}:{tmp_path}"},
        )
        truth = {site: int(size) for _, site, size, _ in map(str.split, running.said)}
        asked = ProbedHeapReader(Process.open(running.pid))
        found = explanation.explain(
            Process.open(running.pid), None, sample=lambda _: asked.look()
        ).ledger
    assert found.tiers == ["outside", "probe"]
    assert sum(line.resident for line in found.lines) + found.rest == found.rss
    lines = {line.owner: line for line in found.lines}
    live = lines[LIVE_SMALL if allocator == "glibc" else LIVE_ALL]
    # Beside the forty sites there is what libc and the program have for themselves: some 1 %.
    total = sum(truth.values())
    assert live.size == pytest.approx(total, abs=6 * compute_standard_error(total) + total / 100)
    assert (lines[HELD].source == "glibc's books") == (allocator == "glibc")
    first = sorted(truth, key=lambda site: -truth[site])[:20]
    assert live.parts
    named = {part.partition(" ")[0]: size for part, size in live.parts}
    assert set(named) <= set(first)
    for site, size in named.items():
        # The largest estimates of forty are named, which are too high more often than too low.
        assert size == pytest.approx(truth[site], abs=6 * compute_standard_error(truth[site]))
    assert "heap probe" in live.note + live.source
