"""How many blocks a campaign plans, and what they will take. Pure but for the template's size on disk."""

from dataclasses import dataclass

from dballoc.campaign.prepare import Setting
from dballoc.experiment import schedule
from dballoc.experiment.steps import cycle, idle_or_load_seconds

# Seconds beside the planned ones, as measured on two cores: copy, start, stop; and for each run of the client.
_PER_TRIAL = 0.8
_PER_LOAD = 0.25
_PER_BLOCK = 0.5
_PER_GIB_COPIED = 2.0

DEFAULT_BLOCKS = 6
MOST_BLOCKS = 40


@dataclass(frozen=True)
class Estimate:
    """Seconds; ``measured_share``: of the time, what is measuring, warming up or idling on purpose."""

    blocks: int
    trials_per_block: int
    block_seconds: float
    measured_share: float

    @property
    def trials(self) -> int:
        """Of the whole campaign, without repeats."""
        return self.blocks * self.trials_per_block

    @property
    def seconds(self) -> float:
        """Of the whole campaign, without repeats."""
        return self.blocks * self.block_seconds


def estimate(setting: Setting) -> Estimate:
    """``blocks`` as asked; else as many as the budget holds, 40 at most; else 6."""
    experiment = setting.experiment
    slots = schedule.block(experiment, 1)
    copied = setting.disk_needed / 2**30 * _PER_GIB_COPIED
    on_purpose = seconds = 0.0
    for slot in slots:
        steps = cycle(experiment, slot)
        planned = idle_or_load_seconds(steps)
        loads = sum(1 for s in steps if s.kind in ("warmup", "level"))
        on_purpose += planned
        seconds += planned + _PER_TRIAL + copied + loads * _PER_LOAD
    seconds += _PER_BLOCK
    blocks = experiment.blocks
    if blocks is None:
        held = int(experiment.budget // seconds) if experiment.budget else DEFAULT_BLOCKS
        blocks = max(1, min(held, MOST_BLOCKS))
    return Estimate(blocks, len(slots), seconds, on_purpose / seconds)
