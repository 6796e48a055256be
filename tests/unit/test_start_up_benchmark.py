"""benchmarks/start_up.py: the process that it explains ends with it."""

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "start_up.py"


def test_a_command_that_fails_ends_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "dballoc").mkdir()
    (tmp_path / "dballoc" / "__init__.py").write_text("raise SystemExit('no such package')\n")
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--rounds", "1", "--beside", tmp_path, "verify"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "start_up: dballoc verify --help: no such package\n",
    )
