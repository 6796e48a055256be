"""Our Zipf's distribution in sysbench's own Lua, against the exact one. No server."""

import subprocess
from pathlib import Path

import pytest
from scipy import stats

from dballoc.load import sysbench_command
from dballoc.load.workload import lua, of_catalogue

SCRIPT = """
local zipfian = require("dballoc_zipfian")
sysbench.cmdline.options = { n = {"", 10}, exponent = {"", "0.8"}, draws = {"", 10} }
function event()
  local draw = zipfian.new(sysbench.opt.n, tonumber(sysbench.opt.exponent), sysbench.rand.uniform_double)
  local counts = {}
  for i = 1, sysbench.opt.draws do
    local k = draw()
    counts[k] = (counts[k] or 0) + 1
  end
  for k, count in pairs(counts) do
    print(string.format("drawn %d %d", k, count))
  end
end
"""


def drawn(directory: Path, n: int, exponent: float, draws: int) -> dict[int, int]:
    script = directory / "draw.lua"
    script.write_text(SCRIPT)
    bench = sysbench_command.find()
    argv = [
        bench.executable,
        script,
        f"--n={n}",
        f"--exponent={exponent}",
        f"--draws={draws}",
        "--events=1",
        "--rand-seed=7",
        "run",
    ]
    env = sysbench_command.environment(bench, of_catalogue("oltp_read_only"), Path("/dev/null")) | {
        "LUA_PATH": f"{lua()}/?.lua;;"
    }
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {
        int(k): int(count)
        for _, k, count in (
            line.split() for line in done.stdout.splitlines() if line.startswith("drawn")
        )
    }


@pytest.mark.parametrize(
    ("n", "exponent"), [(1, 0.8), (2, 0.8), (50, 0.8), (1000, 0.8), (50, 1.3), (50, 0.2)]
)
def test_the_counts_are_zipfs(tmp_path: Path, n: int, exponent: float) -> None:
    draws = 300_000
    counts = drawn(tmp_path, n, exponent, draws)
    assert set(counts) <= set(range(1, n + 1))
    assert sum(counts.values()) == draws
    weights = [k**-exponent for k in range(1, n + 1)]
    expected = [draws * w / sum(weights) for w in weights]
    if n > 1:
        # The seed is fixed: this cannot flake.
        assert stats.chisquare([counts.get(k, 0) for k in range(1, n + 1)], expected).pvalue > 0.001


def test_large_tables_need_no_large_table(tmp_path: Path) -> None:
    counts = drawn(tmp_path, 2**31 - 1, 0.8, 20_000)
    assert max(counts) > 10**8
    # Four of ten draws are of the first hundredth of the rows: (n / 100)^0.2 of n^0.2.
    assert sum(c for k, c in counts.items() if k < 2**31 / 100) / 20_000 == pytest.approx(
        0.01**0.2, abs=0.02
    )
