"""Duet: the baseline and a variant run at once, each on half of the CPUs, in slices that a pilot
chooses.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dballoc.campaign.preparation.prepare_duet import PreparedDuet
from dballoc.campaign.trial import duet_trial
from dballoc.campaign.trial.duet_trial import Slices
from dballoc.campaign.ways import duet_pilot
from dballoc.campaign.ways.duet_plan import estimate_duet, plan_duet
from dballoc.campaign.ways.usual_blocks import (
    PILOT_PIECES,
    USUAL,
    choose_discard,
    estimate_duet_costs,
    estimate_pilot_seconds,
    needs_pilot,
    plan_pilot,
)
from dballoc.campaign.ways.way import ServerBlocks, ServerWay
from dballoc.experiment import schedule
from dballoc.experiment.designs import Design
from dballoc.experiment.schedule import Pairing
from dballoc.ground.errors import UsageError
from dballoc.questions.compare.duet_plan import BlockCosts, fit_pairs
from dballoc.questions.statistics.duet_estimates import compute_block_log
from dballoc.store.facts import DuetFacts
from dballoc.store.results import Results, Row, TrialRecord
from dballoc.store.rows import SliceRow


class DuetBlocks(ServerBlocks[Pairing]):
    """Runs the trials of duet blocks, once they have ``slices``. Raises UsageError where this
    machine runs no duet.
    """

    _has_pilot = False

    @property
    def _duet(self) -> PreparedDuet:
        if self._setting.duet is None:
            raise UsageError(f"no duet on this host: {self._setting.no_duet}")
        return self._setting.duet

    def list_trials(self, number: int, attempt: int) -> Sequence[Pairing]:
        """Return the pairings of a block in their order."""
        return [
            pairing
            for pairing in schedule.order_duets(self._setting.experiment, number, attempt)
            if pairing.variant in self._duet.thp
        ]

    def run_trial(self, pairing: Pairing) -> float:
        """Run and store one duet, and note what it takes beside its slices."""
        assert self.slices
        began = time.monotonic()
        cpu_seconds = super().run_trial(pairing)
        load = len(self._setting.experiment.workloads) * self.slices.total
        self._overheads.append(time.monotonic() - began - load)
        return cpu_seconds

    def measure(self, pairing: Pairing, directory: Path) -> Sequence[TrialRecord]:
        """Run one duet."""
        assert self.slices
        templates = [self._find_template(name) for name, _ in pairing.servers]
        context = self._session.trial_context
        return duet_trial.run_trial(context, self._duet, pairing, self.slices, templates, directory)

    def tell(self, pairing: Pairing, records: Sequence[TrialRecord]) -> None:
        """Tell the observer of a duet, with its ratio."""
        experiment = self._setting.experiment
        last = experiment.workloads[-1]
        baseline, partner = (
            duet_pilot.make_pieces(vars(s) for s in record.select(SliceRow) if s.workload == last)
            for record in records
        )
        log_ratio = compute_block_log(experiment.duet.estimate, baseline, partner)
        ratio = None if log_ratio is None else math.exp(log_ratio)
        self._session.observer.trial_finished(pairing, records, ratio)

    def check_block(self, results: Results, number: int) -> None:
        """Check after the first block, unless a pilot did, that the CPUs were busy. Raises
        Unsuitable.
        """
        if number == 1 and not self._has_pilot:
            duet_pilot.check_cpu_bound(results.slices(Design.DUET))

    def fit_block(self, seconds: float) -> float | None:
        """Choose how many pairs of slices the next block has, so that it takes ``seconds``: starts
        and stops take as long as they do, and the rest is spent on load. Returns the seconds that
        it will take; None where the experiment says how many pairs, or without end.
        """
        if self._setting.experiment.duet.pairs is not None or math.isinf(seconds):
            return None
        assert self.slices
        costs, length = self._measure_costs(), self.slices.seconds
        self.slices = replace(self.slices, pairs=fit_pairs(costs, length, seconds))
        self.planned_seconds = costs.block(length, self.slices.pairs)
        return self.planned_seconds

    def _measure_costs(self) -> BlockCosts:
        """Return what a block costs beside its slices, as measured; before that, as estimated."""
        costs, measured = estimate_duet_costs(self._setting), self._find_overhead()
        return costs if measured is None else replace(costs, overhead=measured)

    # -- the choice of slices ---------------------------------------------------------------------

    def settle(self, results: Results, *, runs_here: bool) -> None:
        """Take slices and pairs from the experiment; else from the pilot, which is run once, and
        recorded as facts; else, where blocks run on several hosts and a pilot would be one host's,
        those that the usual scatter asks for. Raises Unsuitable if the pilot finds that the duet
        cannot compare servers.
        """
        wishes = self._setting.experiment.duet
        if not needs_pilot(self._setting):
            assert wishes.slice and wishes.pairs
            self.slices = Slices(wishes.slice, wishes.pairs, choose_discard(self._setting, 0.0))
            return
        self._has_pilot = runs_here
        duet = results.facts().duet
        if duet.plan is None:
            duet = self._plan_by_pilot(duet, results) if runs_here else self._plan_as_usual(duet)
            results.change_facts(duet=duet)
        assert duet.plan
        self.planned_seconds = duet.plan.block_seconds
        self.slices = Slices(duet.plan.slice, duet.plan.pairs, duet.plan.discard)

    def _plan_by_pilot(self, duet: DuetFacts, results: Results) -> DuetFacts:
        """Run the pilot, and return the duet's facts with what follows from it; after a fault in
        it, with the usual scatter's plan. Raises Unsuitable.
        """
        rows = self._run_pilot(results)
        duet_pilot.check_cpu_bound(rows)
        try:
            duet = duet_pilot.evaluate_pilot(self._setting, rows, duet, self._measure_costs())
        except ValueError:
            self._session.observer.notice(
                "the duet's pilot had faults; slices and pairs are the default ones"
            )
            duet = self._plan_as_usual(duet)
        # The looks of a design that has blocks are declared.
        if duet.plan and not results.blocks(Design.DUET):
            planned = results.facts().planned_blocks | {Design.DUET: duet.plan.blocks}
            results.change_facts(planned_blocks=planned)
        return duet

    def _plan_as_usual(self, duet: DuetFacts) -> DuetFacts:
        return replace(duet, plan=plan_duet(self._setting, USUAL))

    def _run_pilot(self, results: Results) -> list[Row]:
        """Run those of the pilot's trials that are not in the database; returns all its slices."""
        seconds, pilot = estimate_pilot_seconds(self._setting), plan_pilot(self._setting)
        self._session.observer.notice(
            f"pilot of the duet: {pilot.starts} starts, about {seconds:.0f} s"
        )
        self.slices = Slices(pilot.seconds, pilot.slices // 2, pilot.discard, PILOT_PIECES)
        finished = results.finished("pilot")
        for pairing in schedule.order_pilot(self._setting.experiment, pilot.starts):
            if (pairing.block, pairing.attempt, pairing.position) not in finished:
                self.run_trial(pairing)
        return results.slices("pilot")


DUET = ServerWay(design=Design.DUET, estimate=estimate_duet, make_blocks=DuetBlocks)
