"""Measuring needs nothing of the analysis: with an empty seam for its looks, a campaign measures
every planned block where polars, scipy and Altair are missing.
"""

import sys
from pathlib import Path

import pytest

from captured_run import run_captured
from dballoc.ground.distributions import compute_chi_square_quantile, find_chi_square_quantile

pytestmark = pytest.mark.long

MEASURE = """
import sys
from pathlib import Path
sys.modules.update(dict.fromkeys(["polars", "scipy", "altair"]))
sys.path.insert(0, sys.argv[1])
import example_results
import measured_campaign
from dballoc.campaign.ways import fit, replay, servers
from dballoc.campaign.ways.usual_blocks import USUAL
from dballoc.questions.compare.duet_plan import BlockCosts, PlanRequest, plan_slices
plan = plan_slices(
    USUAL,
    BlockCosts(1.0, 5.0, 2, 1),
    PlanRequest(slice=None, pairs=None, blocks=None, time=600.0, discard=0.1),
    {number: 0.99 for number in range(1, 41)},
)
print(plan.blocks > 5, measured_campaign.run(Path(sys.argv[2])))
"""


def test_every_planned_block_is_measured_without_the_analysis(tmp_path: Path) -> None:
    done = run_captured(
        [sys.executable, "-c", MEASURE, str(Path(__file__).parents[1]), str(tmp_path / "r")],
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == "True RunEnding(why='planned', blocks={'solo': 7}, good_trials=21, decided=())\n"
    )


def test_chi_square_in_plain_python() -> None:
    for freedom in (1, 2, 5, 40, 999):
        for above in (0.05, 0.5, 0.9):
            expected = compute_chi_square_quantile(freedom, above)
            assert abs(find_chi_square_quantile(freedom, above) / expected - 1) < 1e-12
