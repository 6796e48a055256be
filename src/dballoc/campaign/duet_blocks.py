"""The duet's blocks: which pairings they have, how one is run and stored, and the pilot that
chooses the slices.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dballoc.analysis.statistics.duet_slices import compute_block_log
from dballoc.campaign import duet_pilot
from dballoc.campaign.duration_estimate import (
    PILOT_STARTS,
    USUAL,
    choose_pilot_slices,
    estimate_pilot_seconds,
    needs_pilot,
    plan_duet,
)
from dballoc.campaign.session import Session
from dballoc.campaign.trials import duet_trial
from dballoc.campaign.trials.duet_trial import Slices
from dballoc.experiment import schedule
from dballoc.experiment.schedule import Pairing
from dballoc.servers.private.data_template import Template
from dballoc.store.results import Results, Row


class DuetBlocks:
    """Runs the trials of duet blocks, once :meth:`choose_slices` has returned. ``templates``: by
    their recipes' keys; ``planned_seconds``: what a block is expected to take.
    """

    def __init__(
        self,
        session: Session,
        results: Results,
        templates: dict[str, Template],
        planned_seconds: float,
    ) -> None:
        assert session.setting.duet
        self._session = session
        self._setting = session.setting
        self._experiment = session.setting.experiment
        self._duet = session.setting.duet
        self._results = results
        self._templates = templates
        self._slices = Slices(0, 0, 0)
        self.planned_seconds = planned_seconds

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

    # -- the choice of slices ---------------------------------------------------------------------

    def choose_slices(self) -> None:
        """Take slices and pairs from the experiment; else from the pilot, which is run once, and
        recorded as facts. NotCpuBound if the pilot finds that the duet cannot compare servers.
        """
        duet = self._experiment.duet
        if not needs_pilot(self._setting):
            assert duet.slice and duet.pairs
            self._slices = Slices(duet.slice, duet.pairs, duet.discard)
            return
        fact = json.loads(self._results.facts()["duet"])
        if "plan" not in fact:
            rows = self._run_pilot()
            duet_pilot.check_cpu_bound(rows)
            fact |= self._evaluate_pilot(rows)
            self._results.set_fact("duet", json.dumps(fact))
            planned = json.loads(self._results.facts()["planned_blocks"])
            self._results.set_fact(
                "planned_blocks", json.dumps(planned | {"duet": fact["plan"]["blocks"]})
            )
        plan = fact["plan"]
        self.planned_seconds = plan["block_seconds"]
        self._slices = Slices(plan["slice"], plan["pairs"], duet.discard)

    def _run_pilot(self) -> list[Row]:
        """Run those of the pilot's trials that are not in the database; returns all its slices."""
        seconds = estimate_pilot_seconds(self._setting)
        self._session.observer.notice(
            f"pilot of the duet: {PILOT_STARTS} starts, about {seconds:.0f} s"
        )
        length, number = choose_pilot_slices(self._setting)
        slices = Slices(length, number // 2, self._experiment.duet.discard)
        finished = self._results.finished("pilot")
        for pairing in schedule.order_pilot(self._experiment, PILOT_STARTS):
            if (pairing.block, pairing.attempt, pairing.position) not in finished:
                self._run_trial(pairing, slices)
        return self._results.slices("pilot")

    def _evaluate_pilot(self, rows: list[Row]) -> dict[str, Any]:
        """Return the pilot's findings as facts; after a fault in it, the usual scatter's plan."""
        try:
            findings = duet_pilot.evaluate_pilot(self._setting, rows)
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
        }

    # -- one duet ---------------------------------------------------------------------------------

    def _run_trial(self, pairing: Pairing, slices: Slices) -> float:
        session, baseline = self._session, self._experiment.baseline
        with session.run_trial(pairing.label) as trial:
            session.observer.duet_started(pairing)
            templates = self._find_template(baseline), self._find_template(pairing.variant)
            records = duet_trial.run_trial(
                session.trial_context, self._duet, pairing, slices, templates, trial.directory
            )
            self._results.add_duet(pairing, baseline, records)
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
        return trial.cpu_seconds

    def _find_template(self, variant: str) -> Template:
        return self._templates[self._setting.data_recipe(self._setting.variants[variant], None).key]
