"""Turns: all servers are alive, and one at a time has the whole machine."""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dballoc.campaign.interruptible_session import Session
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.trial import turns_trial
from dballoc.campaign.trial.turns_trial import Rounds
from dballoc.campaign.ways.solo import (
    PER_BLOCK,
    PER_LOAD,
    compute_budget_share,
    estimate_copy_seconds,
    plan_blocks,
)
from dballoc.campaign.ways.way import BlockEstimate, ServerBlocks, ServerWay
from dballoc.experiment import schedule
from dballoc.experiment.designs import Design
from dballoc.experiment.schedule import Rotation
from dballoc.ground.errors import UsageError
from dballoc.servers.private.data_template import Template
from dballoc.store.results import Results, TrialRecord, TrialStore

# Seconds of its turns that a server has in a block, where the experiment does not say how many
# rounds: several blocks of some seconds beat few long ones, as a start has luck of its own.
BLOCK_LOAD = 3.0
# Fewer would leave chance to decide whose turn a burst of other work hits.
LEAST_ROUNDS = 6
# Seconds to start and stop a server beside others, and to connect its clients.
_PER_SERVER = 0.7


def estimate_turns(setting: PreparedCampaign) -> BlockEstimate:
    """Estimate the turns' blocks: the experiment's number of them; else as many as fit into their
    share of the budget, up to the last look; else those up to the first look.
    """
    assert setting.turns
    rounds = setting.experiment.turns.rounds or count_usual_rounds(setting)
    overhead, a_round = _estimate_costs(setting)
    seconds = overhead + rounds * a_round
    servers = _count_servers(setting)
    return BlockEstimate(
        blocks=plan_blocks(setting.experiment.blocks, compute_budget_share(setting), seconds),
        trials=servers,
        seconds=seconds,
        on_purpose=rounds * a_round
        + len(setting.experiment.workloads) * servers * setting.experiment.turns_warmup,
    )


def count_usual_rounds(setting: PreparedCampaign) -> int:
    """Return the rounds of a block in which each server has :data:`BLOCK_LOAD`."""
    return max(LEAST_ROUNDS, math.ceil(BLOCK_LOAD / setting.experiment.turns.length))


def _count_servers(setting: PreparedCampaign) -> int:
    """Return how many servers a block starts."""
    assert setting.turns
    variants = len(setting.experiment.variant)
    return 2 * variants if setting.turns.in_pairs else variants + 1


def _estimate_costs(setting: PreparedCampaign) -> tuple[float, float]:
    """Estimate the seconds of a block apart from its rounds, and of one round of all its
    workloads.
    """
    experiment, servers = setting.experiment, _count_servers(setting)
    workloads, length = len(experiment.workloads), experiment.turns.length
    warm = math.ceil(experiment.turns_warmup / length) * length
    overhead = _PER_SERVER + estimate_copy_seconds(setting) + workloads * (PER_LOAD + warm)
    return PER_BLOCK + servers * overhead, workloads * servers * length


class TurnsBlocks(ServerBlocks[Rotation]):
    """Runs the rotations of turns' blocks. Raises UsageError where this machine runs none."""

    rounds: Rounds

    def __init__(
        self,
        session: Session[PreparedCampaign],
        store: TrialStore,
        templates: Mapping[str, Template],
        planned_seconds: float,
    ) -> None:
        super().__init__(session, store, templates, planned_seconds)
        if session.setting.turns is None:
            raise UsageError(f"no turns on this host: {session.setting.no_turns}")
        number = session.setting.experiment.turns.rounds or count_usual_rounds(session.setting)
        self.rounds = Rounds(number, session.setting.turns.in_pairs)
        self._overheads: list[float] = []

    def settle(self, results: Results, *, runs_here: bool) -> None:
        """Go on as the campaign began, in pairs or not."""
        self.rounds = replace(self.rounds, in_pairs=results.facts().turns.in_pairs)

    def list_trials(self, number: int, attempt: int) -> Sequence[Rotation]:
        """Return the rotations of a block in their order."""
        return schedule.order_rotations(
            self._setting.experiment, number, attempt, in_pairs=self.rounds.in_pairs
        )

    def measure(self, rotation: Rotation, directory: Path) -> Sequence[TrialRecord]:
        """Run one rotation, and note what it takes beside its rounds."""
        began = time.monotonic()
        templates = {name: self._find_template(name) for name, _ in rotation.servers}
        records = turns_trial.run_trial(
            self._session.trial_context, rotation, self.rounds.number, templates, directory
        )
        experiment = self._setting.experiment
        load = len(rotation.members) * len(experiment.workloads) * experiment.turns.length
        self._overheads.append(time.monotonic() - began - self.rounds.number * load)
        return records

    def fit_block(self, seconds: float) -> float | None:
        """Choose how many rounds the next block has, so that it takes ``seconds``. Returns those
        that it will take; None where the experiment says how many, or without end.
        """
        if self._setting.experiment.turns.rounds is not None or math.isinf(seconds):
            return None
        overhead, a_round = _estimate_costs(self._setting)
        if len(self._overheads) > 1:  # the first one alone copies the data
            rotations = len(self.list_trials(1, 0))
            overhead = PER_BLOCK + rotations * statistics.median(self._overheads[1:])
        number = max(LEAST_ROUNDS, int((seconds - overhead) / a_round))
        self.rounds = replace(self.rounds, number=number)
        self.planned_seconds = overhead + number * a_round
        return self.planned_seconds


TURNS = ServerWay(design=Design.TURNS, estimate=estimate_turns, make_blocks=TurnsBlocks)
