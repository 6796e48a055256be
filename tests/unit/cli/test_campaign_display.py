"""How many trials a campaign's display says there are."""

import io
import re

from rich.console import Console

from dballoc.campaign.observer import Plan
from dballoc.cli.shared.campaign_display import PlainDisplay
from dballoc.experiment.schedule import Slot
from dballoc.store.results import TrialRecord
from dballoc.store.rows import MeasuredTrial


def show_block(display: PlainDisplay, attempt: int, *, is_repeated: bool) -> None:
    """A block of three trials."""
    display.block_started("solo", 1, attempt, 1, 60.0)
    for position in range(3):
        slot = Slot(block=1, attempt=attempt, position=position, variant="glibc", role="V")
        display.trial_finished(slot, [TrialRecord(trial=MeasuredTrial(started=0.0))])
    display.block_finished("solo", 1, "steal" if is_repeated else None, is_repeated)


def count_trials(*attempts: int, finished: int) -> list[str]:
    """The counts on the lines of these attempts at a block of three, after ``finished`` trials."""
    out = io.StringIO()
    with PlainDisplay(Console(file=out, width=200)) as display:
        display.plan(
            Plan(
                name="x", blocks={"solo": 1}, trials_per_block={"solo": 3}, trials=3,
                finished_trials=finished, seconds=60.0, percentile=95,
            )
        )  # fmt: skip
        for attempt in attempts:
            show_block(display, attempt, is_repeated=attempt != attempts[-1])
    return re.findall(r"\[(.*?)\]", out.getvalue())


def test_a_block_that_was_cut_is_counted_once() -> None:
    """Two trials of it are finished; all three run again."""
    assert count_trials(1, finished=2) == ["3/5", "4/5", "5/5"]


def test_a_block_that_is_repeated_is_counted_again() -> None:
    assert count_trials(0, 1, finished=0) == ["1/3", "2/3", "3/3", "4/6", "5/6", "6/6"]
