"""The programs that recordings and replays are compared with: each makes the calls that it says,
and comes to its end.
"""

import subprocess
from pathlib import Path

import pytest
from programs import compiled


@pytest.mark.parametrize(
    ("name", "arguments", "calls"),
    [
        ("larson", (4, 100, 3, 1000), 4 * (100 + 3 * 1000)),
        ("xmalloc", (4, 50), 2 * 50 * 121),
        ("mstress", (4, 3, 2000), 4 * 3 * 2000),
    ],
)
def test_it_makes_its_calls(
    name: str, arguments: tuple[int, ...], calls: int, tmp_path: Path
) -> None:
    program = compiled(name, tmp_path)
    done = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) == calls
