"""Turns: all servers are alive, and one at a time has the whole machine."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.trial import turns_trial
from dballoc.campaign.trial.turns_trial import Rounds
from dballoc.campaign.ways.budget import choose_blocks, compute_budget_share
from dballoc.campaign.ways.usual_blocks import (
    BLOCK_LOAD,
    LEAST_ROUNDS,
    PER_BLOCK,
    count_servers_in_turns,
    estimate_turns_costs,
)
from dballoc.campaign.ways.way import BlockEstimate, ServerBlocks, ServerWay
from dballoc.experiment import schedule
from dballoc.experiment.designs import Design
from dballoc.experiment.schedule import Rotation
from dballoc.ground.errors import UsageError
from dballoc.questions.compare.procedure import FIRST_LOOK
from dballoc.store.results import Results, TrialRecord


def estimate_turns(setting: PreparedCampaign) -> BlockEstimate:
    """Estimate the turns' blocks: the experiment's number of them; else as many as their share of
    the budget is best spent on; else those up to the first look.
    """
    experiment, servers = setting.experiment, count_servers_in_turns(setting)
    blocks, rounds = plan_rounds(setting)
    overhead, a_round = estimate_turns_costs(setting)
    warming = len(experiment.workloads) * servers * experiment.turns_warmup
    return BlockEstimate(
        blocks=blocks,
        trials=servers,
        seconds=overhead + rounds * a_round,
        on_purpose=rounds * a_round + warming,
    )


def plan_rounds(setting: PreparedCampaign) -> tuple[int, int]:
    """Return how many blocks are planned, and how many rounds each has."""
    experiment = setting.experiment
    share = compute_budget_share(setting, Design.TURNS)
    blocks, load = FIRST_LOOK, BLOCK_LOAD
    if share is not None:
        blocks, load = choose_blocks(setting, Design.TURNS, share)
    fitting = max(LEAST_ROUNDS, math.ceil(load / experiment.turns.length))
    return experiment.blocks or blocks, experiment.turns.rounds or fitting


class TurnsBlocks(ServerBlocks[Rotation]):
    """Runs the rotations of turns' blocks, once they have ``rounds``. Raises UsageError where this
    machine runs none.
    """

    def settle(self, results: Results, *, runs_here: bool) -> None:
        """Plan the rounds, and go on as the campaign began, in pairs or not."""
        _, number = plan_rounds(self._setting)
        self.rounds = Rounds(number, results.facts().turns.in_pairs)

    def list_trials(self, number: int, attempt: int) -> Sequence[Rotation]:
        """Return the rotations of a block in their order."""
        if self._setting.turns is None:
            raise UsageError(f"no turns on this host: {self._setting.no_turns}")
        assert self.rounds
        return schedule.order_rotations(
            self._setting.experiment, number, attempt, in_pairs=self.rounds.in_pairs
        )

    def measure(self, rotation: Rotation, directory: Path) -> Sequence[TrialRecord]:
        """Run one rotation, and note what it takes beside its rounds."""
        assert self.rounds
        began = time.monotonic()
        templates = {name: self._find_template(name) for name, _ in rotation.servers}
        records = turns_trial.run_trial(
            self._session.trial_context, rotation, self.rounds.number, templates, directory
        )
        _, a_round = estimate_turns_costs(self._setting)
        part = len(rotation.members) / count_servers_in_turns(self._setting)
        load = self.rounds.number * a_round * part
        # Where a server failed there may be less than was planned.
        self._overheads.append(max(0.0, time.monotonic() - began - load))
        return records

    def fit_block(self, seconds: float) -> float | None:
        """Choose how many rounds the next block has, so that it takes ``seconds``. Returns those
        that it will take; None where the experiment says how many, or without end.
        """
        if self._setting.experiment.turns.rounds is not None or math.isinf(seconds):
            return None
        assert self.rounds
        overhead, a_round = estimate_turns_costs(self._setting)
        if (measured := self._find_overhead()) is not None:
            overhead = PER_BLOCK + len(self.list_trials(1, 0)) * measured
        number = max(LEAST_ROUNDS, int((seconds - overhead) / a_round))
        self.rounds = replace(self.rounds, number=number)
        self.planned_seconds = overhead + number * a_round
        return self.planned_seconds


TURNS = ServerWay(design=Design.TURNS, estimate=estimate_turns, make_blocks=TurnsBlocks)
