"""Measuring needs nothing of the analysis: with an empty seam for its looks, a campaign measures
every planned block where polars, numpy, scipy, zstandard, symbolic and what draws are missing.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import measured_campaign
import pytest

from captured_run import run_captured
from dballoc.campaign.interim_looks import InterimLooks
from dballoc.campaign.looks import Looks, NoLooks
from dballoc.campaign.observer import Observer
from dballoc.campaign.run_blocks import CampaignKind, run_campaign
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.questions.compare.campaign_tables import load_campaign

pytestmark = pytest.mark.long

MISSING = ["polars", "numpy", "scipy", "altair", "vl_convert", "symbolic", "cffi", "zstandard"]

MEASURE = """
import sys
from pathlib import Path
sys.modules.update(dict.fromkeys({missing!r}))
sys.path.insert(0, sys.argv[1])
import example_results
import measured_campaign
from dballoc.cli.bench_parts import bench_campaign
from dballoc.campaign.ways.usual_blocks import USUAL
from dballoc.questions.compare.duet_plan import BlockCosts, PlanRequest, plan_slices
plan = plan_slices(
    USUAL,
    BlockCosts(1.0, 5.0, 2, 1),
    PlanRequest(slice=None, pairs=None, blocks=None, time=600.0, discard=0.1),
    {{number: 0.99 for number in range(1, 41)}},
)
print(plan.blocks > 5, measured_campaign.run(Path(sys.argv[2])))
"""


def test_every_planned_block_is_measured_without_the_analysis(tmp_path: Path) -> None:
    program = MEASURE.format(missing=MISSING)
    done = run_captured(
        [sys.executable, "-c", program, str(Path(__file__).parents[1]), str(tmp_path / "r")],
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == "True RunEnding(why='planned', blocks={'solo': 7}, good_trials=21, decided=())\n"
    )


def test_what_was_measured_only_goes_on_so_and_nothing_else_does(
    experiment: Callable[..., Experiment], tmp_path: Path
) -> None:
    setting = measured_campaign.make_setting(experiment(design="solo", blocks=1))
    judged = measured_campaign.make_kind()
    kinds: dict[str, tuple[Looks, CampaignKind]] = {
        "judged": (InterimLooks(), judged),
        "measured": (NoLooks(), replace(judged, measured_only=True)),
    }
    for name, (looks, kind) in kinds.items():
        run_campaign(setting, tmp_path / name, Observer(), looks=looks, kind=kind)
        is_measured = name == "measured"
        assert load_campaign(tmp_path / name).facts.measured_only is is_measured
    for name, hint in (("judged", "leave out"), ("measured", "add")):
        [(looks, kind)] = [each for other, each in kinds.items() if other != name]
        with pytest.raises(UsageError, match=f"to go on, {hint} --measure-only$"):
            run_campaign(setting, tmp_path / name, Observer(), looks=looks, kind=kind)
