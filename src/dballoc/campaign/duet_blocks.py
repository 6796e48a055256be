"""The duet's blocks: which pairings they have, how one is run and stored, and the pilot that
chooses the slices.
"""

import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from dballoc.analysis.statistics.duet_estimates import compute_block_log
from dballoc.analysis.statistics.variance_components import BlockCosts, fit_pairs
from dballoc.campaign import duet_pilot
from dballoc.campaign.duration_estimate import (
    PILOT_PIECES,
    USUAL,
    choose_discard,
    estimate_duet_costs,
    estimate_pilot_seconds,
    needs_pilot,
    plan_duet,
    plan_pilot,
)
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.session import Session
from dballoc.campaign.trials import duet_trial
from dballoc.campaign.trials.duet_trial import Slices
from dballoc.experiment import schedule
from dballoc.experiment.schedule import Pairing
from dballoc.servers.private.data_template import Template
from dballoc.store.results import Results, Row, TrialStore


class DuetBlocks:
    """Runs the trials of duet blocks, once :meth:`choose_slices` has returned. ``store``: where
    finished trials go; ``templates``: by their recipes' keys; ``planned_seconds``: what a block is
    expected to take.
    """

    def __init__(
        self,
        session: Session[PreparedCampaign],
        store: TrialStore,
        templates: dict[str, Template],
        planned_seconds: float,
    ) -> None:
        assert session.setting.duet
        self._session = session
        self._setting = session.setting
        self._experiment = session.setting.experiment
        self._duet = session.setting.duet
        self._store = store
        self._templates = templates
        self._slices = Slices(0, 0, 0)
        self._overheads: list[float] = []
        self.planned_seconds = planned_seconds
        self.has_pilot = needs_pilot(session.setting)

    def list_trials(self, number: int, attempt: int) -> Sequence[Pairing]:
        """Return the pairings of a block in their order."""
        return [
            pairing
            for pairing in schedule.order_duets(self._experiment, number, attempt)
            if pairing.variant in self._duet.thp
        ]

    def run_trial(self, pairing: Pairing) -> float:
        """Run and store one duet; returns the CPU seconds that its processes used."""
        return self._run_trial(pairing, self._slices)

    def fit_block(self, seconds: float) -> float | None:
        """Choose how many pairs of slices the next block has, so that it takes ``seconds``: what
        starts and stops take turns out as it does, and the time is spent on load. Returns the
        seconds that it will take; None where the experiment says how many pairs, or without end.
        """
        if self._experiment.duet.pairs is not None or math.isinf(seconds):
            return None
        costs = self._measure_costs()
        self._slices = replace(self._slices, pairs=fit_pairs(costs, self._slices.seconds, seconds))
        self.planned_seconds = costs.block(self._slices.seconds, self._slices.pairs)
        return self.planned_seconds

    def _measure_costs(self) -> BlockCosts:
        """Return what a block costs beside its slices: the median of the duets so far, without the
        first one, which alone copies the data; before there are two, as estimated.
        """
        costs = estimate_duet_costs(self._setting)
        measured = self._overheads[1:]
        return replace(costs, overhead=statistics.median(measured)) if measured else costs

    # -- the choice of slices ---------------------------------------------------------------------

    def use_slices(self, slices: Slices) -> None:
        """Run blocks with these slices, which were chosen without a pilot on this host."""
        self._slices = slices
        self.has_pilot = False

    def choose_slices(self, results: Results) -> None:
        """Keep slices that were chosen elsewhere. Else take slices and pairs from the experiment;
        else from the pilot, which is run once, and recorded as facts. NotCpuBound if the pilot
        finds that the duet cannot compare servers.
        """
        if self._slices.pairs:
            return
        duet = self._experiment.duet
        if not self.has_pilot:
            assert duet.slice and duet.pairs
            self._slices = Slices(duet.slice, duet.pairs, choose_discard(self._setting, 0.0))
            return
        fact = json.loads(results.facts()["duet"])
        if "plan" not in fact:
            rows = self._run_pilot(results)
            duet_pilot.check_cpu_bound(rows)
            fact |= self._evaluate_pilot(rows)
            results.set_fact("duet", json.dumps(fact))
            # The looks of a design that has blocks are declared.
            if not results.blocks("duet"):
                planned = json.loads(results.facts()["planned_blocks"])
                planned |= {"duet": fact["plan"]["blocks"]}
                results.set_fact("planned_blocks", json.dumps(planned))
        plan = fact["plan"]
        self.planned_seconds = plan["block_seconds"]
        self._slices = Slices(plan["slice"], plan["pairs"], plan["discard"])

    def _run_pilot(self, results: Results) -> list[Row]:
        """Run those of the pilot's trials that are not in the database; returns all its slices."""
        seconds, pilot = estimate_pilot_seconds(self._setting), plan_pilot(self._setting)
        self._session.observer.notice(
            f"pilot of the duet: {pilot.starts} starts, about {seconds:.0f} s"
        )
        slices = Slices(pilot.seconds, pilot.slices // 2, pilot.discard, PILOT_PIECES)
        finished = results.finished("pilot")
        for pairing in schedule.order_pilot(self._experiment, pilot.starts):
            if (pairing.block, pairing.attempt, pairing.position) not in finished:
                self._run_trial(pairing, slices)
        return results.slices("pilot")

    def _evaluate_pilot(self, rows: list[Row]) -> dict[str, Any]:
        """Return the pilot's findings as facts; after a fault in it, the usual scatter's plan."""
        try:
            findings = duet_pilot.evaluate_pilot(self._setting, rows, self._measure_costs())
        except ValueError:
            self._session.observer.notice(
                "the duet's pilot had faults; slices and pairs are the default ones"
            )
            return {"components": {}, "plan": asdict(plan_duet(self._setting, USUAL))}
        components = {name: asdict(value) for name, value in findings.components.items()}
        return {
            "components": components,
            "plan": asdict(findings.plan),
            "scatter": findings.scatter,
            "after_swap": findings.after_swap,
        }

    # -- one duet ---------------------------------------------------------------------------------

    def _run_trial(self, pairing: Pairing, slices: Slices) -> float:
        session, baseline = self._session, self._experiment.baseline
        began = time.monotonic()
        with session.run_trial(pairing.label) as trial:
            session.observer.duet_started(pairing)
            templates = self._find_template(baseline), self._find_template(pairing.variant)
            records = duet_trial.run_trial(
                session.trial_context, self._duet, pairing, slices, templates, trial.directory
            )
            self._store.add_duet(pairing, baseline, records)
            last = self._experiment.workloads[-1]
            sides = [
                duet_pilot.make_pieces(row for row in record.slices if row["workload"] == last)
                for record in records
            ]
            log_ratio = compute_block_log(self._experiment.duet.estimate, sides[0], sides[1])
            faults = [r.trial["fault_text"] for r in records if r.trial["fault_text"]]
            session.observer.duet_finished(
                pairing, faults, None if log_ratio is None or faults else math.exp(log_ratio)
            )
        load = len(self._experiment.workloads) * slices.total
        self._overheads.append(time.monotonic() - began - load)
        return trial.cpu_seconds

    def _find_template(self, variant: str) -> Template:
        return self._templates[self._setting.data_recipe(self._setting.variants[variant], None).key]
