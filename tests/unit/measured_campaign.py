"""Campaigns that measure example figures, without servers and without the analysis."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import example_results

from dballoc.campaign.interruptible_session import Session
from dballoc.campaign.looks import NoLooks
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation.prepared import Prepared
from dballoc.campaign.run_blocks import CampaignKind, RunEnding, run_campaign
from dballoc.campaign.ways.way import BlockEstimate, Blocks, DurationEstimate
from dballoc.experiment import schedule
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment, Variant
from dballoc.experiment.schedule import Slot
from dballoc.store.facts import Facts
from dballoc.store.results import Results, TrialRecord
from dballoc.store.rows import VariantRow


class FakeVariant:
    """A variant as if it were prepared, with nothing that was fetched."""

    build = SimpleNamespace(executable=Path("/usr/sbin/mariadbd"))
    allocator = SimpleNamespace(libraries=(), loader=None)

    def __init__(self, variant: Variant) -> None:
        self.variant = variant

    def make_row(self) -> VariantRow:
        return example_results.variant(self.variant.name)


@dataclass(frozen=True, kw_only=True)
class FakeSetting(Prepared):
    """A campaign as if it were prepared, without servers."""

    user: Any = field(default_factory=lambda: SimpleNamespace(name="nobody"))
    sysbench: Any = field(default_factory=lambda: SimpleNamespace(version="1.0"))
    duet: None = None
    no_duet: None = None
    turns: None = None
    no_turns: None = None


def make_setting(experiment: Experiment) -> FakeSetting:
    return FakeSetting(
        experiment=experiment, variants={v.name: FakeVariant(v) for v in experiment.variant}
    )


@dataclass
class ExampleBlocks(Blocks[Any, Slot]):
    """Solo blocks, told of each trial that ``took`` place."""

    experiment: Experiment
    results: Results
    took: Callable[[], None] = lambda: None
    planned_seconds: float = 100.0

    def list_trials(self, number: int, attempt: int) -> Sequence[Slot]:
        return schedule.order_block(self.experiment, number, attempt)

    def measure(self, slot: Slot, _: Path) -> Sequence[TrialRecord]:
        return [example_results.record(self.experiment, slot)]

    def run_trial(self, slot: Slot) -> float:
        self.results.add_trial(slot, *self.measure(slot, Path()))
        self.took()
        return 0.0


def estimate(setting: FakeSetting, trial_seconds: float = 60.0) -> DurationEstimate:
    trials = len(schedule.order_block(setting.experiment, 1))
    seconds = trials * trial_seconds
    blocks = setting.experiment.blocks or 5
    return DurationEstimate(
        ways={
            Design.SOLO: BlockEstimate(
                blocks=blocks, trials=trials, seconds=seconds, on_purpose=seconds
            )
        }
    )


def make_facts(setting: FakeSetting, planned: dict[str, int]) -> Facts:
    return example_results.facts(setting.experiment, planned[Design.SOLO], [Design.SOLO])


def make_kind(took: Callable[[], None] = lambda: None) -> CampaignKind:
    def prepare(session: Session, results: Results, *_: Any) -> dict[str, Any]:
        return {Design.SOLO: ExampleBlocks(session.setting.experiment, results, took)}

    return CampaignKind(name=None, estimate=estimate, make_facts=make_facts, prepare_blocks=prepare)


def run(out: Path) -> RunEnding:
    """Measure seven blocks of three trials."""
    chosen = Experiment.model_validate(
        {
            "baseline": "glibc",
            "workloads": ["oltp_read_only"],
            "threads": [1],
            "design": "solo",
            "blocks": 7,
            "noise": {"repeats": 0},
            "variant": [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
        }
    )
    kind = replace(make_kind(), measured_only=True)
    return run_campaign(make_setting(chosen), out, Observer(), looks=NoLooks(), kind=kind)
