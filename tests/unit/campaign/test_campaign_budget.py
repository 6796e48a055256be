"""A campaign that its budget ended: the same command gives it no more blocks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import measured_campaign
import pytest
from example_procedures import declared

from dballoc.campaign import run_blocks
from dballoc.campaign.interim_looks import InterimLooks
from dballoc.campaign.looks import Looks, NoLooks
from dballoc.campaign.observer import Observer
from dballoc.campaign.run_blocks import list_designs_over_budget
from dballoc.experiment.model import Experiment
from dballoc.questions.compare.campaign_tables import load_campaign

pytestmark = pytest.mark.long


@dataclass
class Clock:
    """Seconds that only trials take."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("looks", [InterimLooks(), NoLooks()])
def test_the_same_command_gives_no_more_blocks(
    experiment: Callable[..., Experiment],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: Looks,
) -> None:
    clock = Clock()
    monkeypatch.setattr(run_blocks, "time", clock)
    chosen = experiment(design="solo", blocks=12, budget="560s", noise={"repeats": 0})

    def pass_time() -> None:
        """Longer than planned, as data and probes come on top."""
        clock.now += 25.0

    kind = replace(
        measured_campaign.make_kind(pass_time),
        estimate=partial(measured_campaign.estimate, trial_seconds=25.0),
    )
    setting = measured_campaign.make_setting(chosen)
    for _ in range(2):
        ending = run_blocks.run_campaign(
            setting, tmp_path / "r", Observer(), looks=looks, kind=kind
        )
        assert (ending.why, ending.blocks) == ("budget", {"solo": 5})
    assert load_campaign(tmp_path / "r").facts.budget_looks == {"solo": (5,)}


def test_which_designs_the_budget_has_ended() -> None:
    def at(blocks: int, *looks: int) -> Any:
        return replace(declared(12, blocks), budget_looks=looks)

    assert list_designs_over_budget({"solo": at(5, 5), "duet": at(5)}) == ["solo"]
    # It was extended to its planned end; or an extension was cut, and only another one goes on.
    assert list_designs_over_budget({"solo": at(12, 5), "duet": at(7, 5)}) == ["duet"]
