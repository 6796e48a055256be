"""A campaign that its budget ended: the same command gives it no more blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import example_results
import pytest
import simulated_hosts
from test_extended_procedure import declared

from dballoc.analysis.campaign_tables import load_campaign
from dballoc.campaign import run_blocks
from dballoc.campaign.observer import Observer
from dballoc.campaign.run_blocks import CampaignKind, list_designs_over_budget
from dballoc.campaign.session import Session
from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.store.results import Results


@dataclass
class Clock:
    """Seconds that only trials take."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class ExampleBlocks:
    """Solo blocks whose trials take longer than they say, as data and probes come on top."""

    experiment: Experiment
    results: Results
    clock: Clock
    planned_seconds: float = 100.0

    def list_trials(self, number: int, attempt: int) -> Sequence[Slot]:
        return schedule.order_block(self.experiment, number, attempt)

    def fit_block(self, _: float) -> float | None:
        return None

    def run_trial(self, slot: Slot) -> float:
        self.results.add_trial(slot, example_results.record(self.experiment, slot))
        self.clock.now += 25.0
        return 0.0


def test_the_same_command_gives_no_more_blocks(
    experiment: Callable[..., Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(run_blocks, "time", clock)
    chosen = experiment(design="solo", blocks=12, budget="560s", noise={"repeats": 0})
    hosts = simulated_hosts.SimulatedHosts(names=["a"])

    def prepare(session: Session, results: Results, *_: Any) -> dict[str, Any]:
        return {"solo": ExampleBlocks(session.setting.experiment, results, clock)}

    kind: CampaignKind = replace(
        simulated_hosts.make_kind(hosts),
        prepare_blocks=prepare,
        run_blocks=run_blocks.run_blocks_in_turn,
    )
    setting = simulated_hosts.make_setting(chosen)
    for _ in range(2):
        ending = run_blocks.run_campaign(setting, tmp_path / "r", Observer(), kind=kind)
        assert (ending.why, ending.blocks) == ("budget", {"solo": 5})
    assert load_campaign(tmp_path / "r").facts["budget_looks"] == '{"solo": [5]}'


def test_which_designs_the_budget_has_ended() -> None:
    def at(blocks: int, *looks: int) -> Any:
        return replace(declared(12, blocks), budget_looks=looks)

    assert list_designs_over_budget({"solo": at(5, 5), "duet": at(5)}) == ["solo"]
    # It was extended to its planned end; or an extension was cut, and only another one goes on.
    assert list_designs_over_budget({"solo": at(12, 5), "duet": at(7, 5)}) == ["duet"]
