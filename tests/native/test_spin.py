"""The preload that adds CPU: it adds what it says, and nothing when it is not asked to."""

import re
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import MACHINE

pytestmark = pytest.mark.alone  # what it counts and times wants the CPUs

# Blocks too large for Python's own allocator, each freed at once: what is timed is the calls, not
# the kernel's pages.
WORK = 'import time; one = b"x"\nfor i in range(300_000): one * 1000\nprint(time.process_time())'


def run(library: Path, rounds: int) -> tuple[float, float]:
    """(CPU seconds of the process, CPU seconds that the preload says it added)."""
    done = subprocess.run(
        [MACHINE.python, "-I", "-S", "-c", WORK],
        env={"LD_PRELOAD": str(library), "DBALLOC_SPIN": str(rounds)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    said = re.search(
        r"dballoc spin: (\d+) spins, ([\d.-]+) ns each, ([\d.-]+) s in all", done.stderr
    )
    assert said, done.stderr
    assert int(said[1]) > 250_000
    return float(done.stdout), float(said[3])


def test_it_adds_what_it_says(preload: Callable[[str], Path]) -> None:
    library = preload("spin")
    shares = []
    for _ in range(5):  # in pairs: the machine's speed changes
        without, (total, said) = run(library, 0)[0], run(library, 3000)
        assert said > 0.1
        shares.append((total - without) / said)
    assert statistics.median(shares) == pytest.approx(1, rel=0.25), shares


def test_a_spin_shorter_than_the_clock_s_reading_is_told(preload: Callable[[str], Path]) -> None:
    library = preload("spin")
    told = [statistics.median(run(library, rounds)[1] for _ in range(3)) for rounds in (100, 200)]
    assert 0 < told[0] < told[1]
