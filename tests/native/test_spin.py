"""The preload that adds CPU: it adds what it says, and nothing when it is not asked to."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

WORK = "import time; x = [str(i) * 600 for i in range(300_000)]; print(time.process_time())"


def run(library: Path, rounds: int) -> tuple[float, float]:
    """(CPU seconds of the process, CPU seconds that the preload says it added)."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", WORK], env={"LD_PRELOAD": str(library), "DBALLOC_SPIN": str(rounds)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    said = re.search(r"dballoc spin: (\d+) calls, ([\d.-]+) ns each, ([\d.-]+) s in all", done.stderr)
    assert said, done.stderr
    assert int(said[1]) > 250_000
    return float(done.stdout), float(said[3])


def test_it_adds_what_it_says(preload: Callable[[str], Path]) -> None:
    library = preload("spin")
    without = min(run(library, 0)[0] for _ in range(3))
    total, said = min(run(library, 3000) for _ in range(3))
    assert said > 0.1
    assert total - without == pytest.approx(said, rel=0.25)
