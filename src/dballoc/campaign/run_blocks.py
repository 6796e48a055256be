"""Run a campaign: blocks in the seed's order, resumed where it stopped, within its budget."""

import json
import math
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dballoc.analysis import campaign_tables
from dballoc.analysis.decisions import verdict
from dballoc.analysis.decisions.sequential_test import declare, family_size
from dballoc.analysis.statistics.duet_slices import block_log
from dballoc.analysis.tables import baseline_comparison
from dballoc.campaign import duet_pilot
from dballoc.campaign.duration_estimate import (
    PILOT_STARTS,
    USUAL,
    Estimate,
    duet_plan,
    estimate,
    needs_pilot,
    pilot_slices,
)
from dballoc.campaign.observer import Observer, Plan
from dballoc.campaign.preparation import data_templates, rehearsal, user_files
from dballoc.campaign.preparation.prepare import Setting
from dballoc.campaign.results_directory import Directory
from dballoc.campaign.session import Stop, known_facts, within
from dballoc.campaign.trials import duet_trial, solo_trial
from dballoc.campaign.trials.duet_trial import Slices
from dballoc.campaign.trials.server_in_trial import Context, Interrupted
from dballoc.errors import Failure, UsageError
from dballoc.experiment import schedule
from dballoc.experiment.cpu_list import format_cpus
from dballoc.experiment.schedule import Pairing, Slot
from dballoc.experiment.trial_steps import is_profiled
from dballoc.host.guardian.guardian_client import Custody
from dballoc.measure import noise_guard
from dballoc.servers.private.data_template import Template
from dballoc.store.results import KIND, Results, Row

# A repeat must not cost a planned block in the end, should the machine become slower.
_MARGIN = 1.1

# Finished attempts at blocks, by design and (block, attempt).
Done = dict[str, dict[tuple[int, int], Row]]


@dataclass(frozen=True)
class Ending:
    """Why a campaign ended: ``planned`` (all blocks), ``decided``, ``budget``, ``interrupted``; its
    blocks by design.
    """

    why: str
    blocks: dict[str, int]
    good_trials: int


def run(setting: Setting, out: Path, observer: Observer) -> Ending:
    """Run or resume the campaign in ``out``. UsageError or Failure in one line; what was finished
    is kept.
    """

    def work(directory: Directory, custody: Custody, stop: Stop) -> Ending:
        if setting.no_duet:
            observer.notice(f"no duet, so solo alone: {setting.no_duet}")
        for name, why in (setting.duet.left_out if setting.duet else {}).items():
            observer.notice(f"{name} is not in the duet: {why}")
        return _Campaign(setting, directory, custody, observer, stop).run()

    return within(setting, out, observer, work)


def has_trials(directory: Path) -> bool:
    """Whether there is anything to report."""
    results = Results.open(directory, read_only=True)
    try:
        return bool(results.directories())
    finally:
        results.close()


class _Campaign:
    def __init__(
        self,
        setting: Setting,
        directory: Directory,
        custody: Custody,
        observer: Observer,
        stop: Stop,
    ) -> None:
        self.setting = setting
        self.experiment = setting.experiment
        self.directory = directory
        self.custody = custody
        self.observer = observer
        self.stop = stop
        self.context = Context(setting, custody, observer, lambda: stop.asked)
        self.estimate: Estimate = estimate(setting)
        self.results = self._open()
        self.designs = self.results.checked_facts()["designs"].split()
        # As if the campaign had run in one piece until now: the budget is for all of its runs
        # together.
        self.began = time.monotonic() - self._spent()
        self.block_seconds: dict[str, list[float]] = {design: [] for design in self.designs}
        self.endings: dict[str, str] = {}
        self.made: dict[str, Template] = {}
        self.slices = Slices(0, 0, 0)

    def run(self) -> Ending:
        try:
            try:
                self._blocks()
                why = overall(self.endings)
            except Interrupted:
                why = "interrupted"
            self.results.set_fact("ending", why)
            blocks = {
                design: len({r["block"] for r in self.results.blocks(design)})
                for design in self.designs
            }
            return Ending(why, blocks, self.results.good_trials())
        finally:
            self.results.close()

    def _open(self) -> Results:
        if (self.directory.path / "results.sqlite").exists():
            results = Results.open(self.directory.path)
            if KIND in results.facts():
                results.close()
                raise UsageError(
                    f"{self.directory.path}: results of dballoc fit; choose a new --out"
                )
            directories = results.directories()
            self.observer.notice(f"resuming: {results.trials()} trials are there already")
            self.directory.forget_unfinished(directories)
            return results
        known = known_facts(self.setting) | {
            "planned_blocks": json.dumps(self.estimate.blocks),
            "designs": " ".join(self.setting.designs),
            "duet": json.dumps(self._duet_facts()),
            "workloads": json.dumps(self._workload_facts()),
        }
        rows: list[dict[str, Any]] = [p.make_row() for p in self.setting.variants.values()]
        return Results.create(self.directory.path, known, rows)

    def _duet_facts(self) -> dict[str, Any]:
        """What the report says of how duets are played; the pilot adds to it."""
        if self.setting.duet is None:
            return {"none": self.setting.no_duet} if self.setting.no_duet else {}
        playing = self.setting.duet
        return {
            "halves": [format_cpus(h) for h in playing.halves],
            "threads": playing.threads,
            "left_out": playing.left_out,
            "estimate": self.experiment.duet.estimate,
        }

    def _workload_facts(self) -> dict[str, Any]:
        """What each workload was, for the report: its options as far as they are its own or the
        experiment's.
        """
        load = self.experiment.load
        found = {}
        for name in dict.fromkeys([*self.experiment.workloads, *self.experiment.warm]):
            work = self.setting.sysbench.workload(name)
            found[name] = {
                "title": work.title,
                "group": work.group,
                "script": work.file.name if work.file else Path(work.script).name,
                "options": {**work.options, **load.options},
                "prepared_statements": work.prepares(load),
                "whole": work.whole,
            }
        return found

    def _spent(self) -> float:
        """Seconds that the campaign has taken so far, in all its runs."""
        return self.results.spent()

    def _planned(self) -> dict[str, int]:
        planned: dict[str, int] = json.loads(self.results.facts()["planned_blocks"])
        return {design: planned[design] for design in self.designs}

    def _blocks(self) -> None:
        log = self.directory.path / "template.log"
        self.made = data_templates.of_all_variants(self.setting, self.custody, self.observer, log)
        user_files.keep_user_files(self.setting, self.directory.path, bool(self.results.trials()))
        rehearsal.rehearse(self.setting, self.custody, self.made, self.directory.path)
        if "duet" in self.designs:
            self._settle_slices()
        planned = self._planned()
        done: Done = {
            d: {(r["block"], r["attempt"]): dict(r) for r in self.results.blocks(d)}
            for d in self.designs
        }
        self.observer.plan(self._plan(planned, done))
        for design, number in interleaved(planned):
            if design not in self.endings and design in self.designs:
                self._block_until_quiet(design, number, planned, done)

    def _plan(self, planned: dict[str, int], done: Done) -> Plan:
        """What is ahead, for the display."""
        per_block = self.estimate.trials_per_block
        left = 0
        for design in self.designs:
            complete = {b for b, a in done[design] if not self._wants_repeat(design, b, a, done)}
            begun = sum(
                1
                for b, a, _ in self.results.finished(design)
                if b not in complete and (b, a) not in done[design]
            )
            left += (planned[design] - len(complete)) * per_block[design] - begun * (
                2 if design == "duet" else 1
            )
        return Plan(
            name=self.experiment.name,
            blocks=planned,
            trials_per_block=per_block,
            trials=left,
            done=self.results.trials(),
            seconds=self._left(planned, done),
            percentile=self.experiment.load.percentile,
        )

    def _block_until_quiet(
        self, design: str, number: int, planned: dict[str, int], done: Done
    ) -> None:
        """Run a block, and repeat it whole while it is disturbed and may be; then look, if a look
        is planned here.
        """
        mine = done[design]
        attempt = max((a for b, a in mine if b == number), default=-1)
        if attempt >= 0 and not self._wants_repeat(design, number, attempt, done):
            return
        again = True
        while again:
            attempt += 1
            if number > 1 and self._block_seconds(design) > self._budget_left():
                self.endings[design] = "budget"
                return
            self.observer.block_started(
                design, number, attempt, planned[design], self._left(planned, done)
            )
            row = self._block(design, number, attempt)
            mine[number, attempt] = row
            rest = self._rest(planned, done) + self._block_seconds(design)
            again = (
                self._wants_repeat(design, number, attempt, done)
                and rest * _MARGIN <= self._budget_left()
            )
            self.observer.block_finished(design, number, row["disturbed"], again)
        if design == "duet" and number == 1 and not needs_pilot(self.setting):
            self._check_disk(self.results.slices("duet"))
        if (
            design in self.designs
            and number in self._looks(planned[design])
            and self._all_decided(design)
        ):
            self.endings[design] = "decided" if number < planned[design] else "planned"

    def _looks(self, planned: int) -> tuple[int, ...]:
        family = family_size(
            self.designs, len(self.experiment.variant), len(self.experiment.workloads)
        )
        return declare(planned, family).looks

    def _all_decided(self, design: str) -> bool:
        """Whether more blocks could only repeat the verdicts, or, of the baseline alone, the
        interval is narrow; asked at the planned looks alone.
        """
        found = baseline_comparison.compare(campaign_tables.load(self.directory.path))
        if not found.family:
            return all(verdict.narrow(c.ratio) for c in found.floor if c.metric.design == design)
        return verdict.all_decided(c.ratio for c in found.family if c.metric.design == design)

    def _budget_left(self) -> float:
        budget = self.experiment.budget
        return math.inf if budget is None else budget - (time.monotonic() - self.began)

    def _block_seconds(self, design: str) -> float:
        measured = self.block_seconds[design]
        return statistics.mean(measured) if measured else self.estimate.block_seconds[design]

    def _rest(self, planned: dict[str, int], done: Done) -> float:
        """Seconds that the blocks not yet begun take, whatever the budget."""
        open_designs = [d for d in self.designs if d not in self.endings]
        return sum(
            (planned[d] - len({b for b, _ in done[d]})) * self._block_seconds(d)
            for d in open_designs
        )

    def _left(self, planned: dict[str, int], done: Done) -> float:
        return min(self._rest(planned, done), max(0.0, self._budget_left()))

    def _wants_repeat(self, design: str, number: int, attempt: int, done: Done) -> bool:
        """A disturbed block is repeated whole, as long as the design's cap on repeats is not
        reached.
        """
        mine = done[design]
        if mine[number, attempt]["disturbed"] is None or (number, attempt + 1) in mine:
            return False
        repeats = sum(1 for _, a in mine if a > 0)
        return repeats < self.experiment.noise.repeats

    def _block(self, design: str, number: int, attempt: int) -> Row:
        places = self._places(design, number, attempt)
        finished = self.results.finished(design)
        started, before, ours = time.time(), noise_guard.read(), _own_cpu()
        probe_before, began = noise_guard.time_fixed_probe(), time.monotonic()
        server_and_client = 0.0
        left = [p for p in places if (p.block, p.attempt, p.position) not in finished]
        for place in left:
            server_and_client += self._perform(place, self.slices)
        if left == places:
            self.block_seconds[design].append(time.monotonic() - began)
        probes = probe_before, noise_guard.time_fixed_probe()
        used = server_and_client + _own_cpu() - ours
        found = noise_guard.between(before, noise_guard.read(), used, probes)
        usual = statistics.median([*self.results.probes(), *probes])
        row = {
            "design": design,
            "block": number,
            "attempt": attempt,
            "started": started,
            "ended": time.time(),
            "steal": found.steal,
            "others": found.others,
            "probe_before": probes[0],
            "probe_after": probes[1],
            "disturbed": noise_guard.describe_disturbance(found, self.experiment.noise, usual),
        }
        self.results.add_block(row)
        return row

    def _places(self, design: str, number: int, attempt: int) -> Sequence[Slot | Pairing]:
        if design == "solo":
            return schedule.block(self.experiment, number, attempt)
        assert self.setting.duet
        return [
            p
            for p in schedule.duets(self.experiment, number, attempt)
            if p.variant in self.setting.duet.thp
        ]

    def _perform(self, place: Slot | Pairing, slices: Slices) -> float:
        """Run and store one trial, or one duet of those slices; returns the CPU seconds that all
        its processes used.
        """
        before = self.custody.cpu_seconds
        path = self.directory.trial(place.label)
        self.stop.in_trial = True
        try:
            if isinstance(place, Slot):
                self._trial(place, path)
            else:
                self._duet(place, slices, path)
        # After a mistake of our own the raw files may tell the cause: they stay until the campaign
        # goes on.
        except (Interrupted, Failure, UsageError, OSError, KeyboardInterrupt):
            shutil.rmtree(path, ignore_errors=True)
            raise
        finally:
            self.stop.in_trial = False
        return self.custody.cpu_seconds - before

    def _template(self, variant: str, workload: str | None = None) -> Template:
        return self.made[self.setting.data_recipe(self.setting.variants[variant], workload).key]

    def _trial(self, slot: Slot, path: Path) -> None:
        self.observer.trial_started(slot)
        template = self._template(slot.variant, slot.workload)
        record = solo_trial.run_trial(self.context, slot, template, path)
        if (
            self.experiment.profile == "heap"
            and is_profiled(self.experiment, slot)
            and record.trial["outcome"] == "ok"
        ):
            solo_trial.run_heap_profile(self.context, slot, template, path)
        self.results.add_trial(slot, record)
        levels = [s for s in record.steps if s["kind"] == "level"]
        self.observer.trial_finished(
            slot,
            record.trial["fault_text"],
            record.trial["rss_peak"],
            levels[-1]["tps"] if levels else None,
        )

    # -- the duet -------------------------------------------------------------------------------

    def _duet(self, pairing: Pairing, slices: Slices, path: Path) -> None:
        assert self.setting.duet
        self.observer.duet_started(pairing)
        baseline = self.experiment.baseline
        both = self._template(baseline), self._template(pairing.variant)
        records = duet_trial.run_trial(self.context, self.setting.duet, pairing, slices, both, path)
        self.results.add_duet(pairing, baseline, records)
        last = self.experiment.workloads[-1]
        sides = [
            duet_pilot.pieces(r for r in record.slices if r["workload"] == last)
            for record in records
        ]
        found = block_log(self.experiment.duet.estimate, sides[0], sides[1])
        faults = [record.trial["fault_text"] for record in records if record.trial["fault_text"]]
        self.observer.duet_finished(
            pairing, faults, None if found is None or faults else math.exp(found)
        )

    def _settle_slices(self) -> None:
        """Slices and pairs as the experiment says, else as the pilot finds; the pilot is run once,
        and stored.
        """
        wanted, discard = self.experiment.duet, self.experiment.duet.discard
        if not needs_pilot(self.setting):
            assert wanted.slice and wanted.pairs
            self.slices = Slices(wanted.slice, wanted.pairs, discard)
            return
        known = json.loads(self.results.facts()["duet"])
        if "plan" not in known:
            rows = self._pilot()
            if not self._check_disk(rows):
                return
            known |= self._evaluate(rows)
            self.results.set_fact("duet", json.dumps(known))
            self.results.set_fact(
                "planned_blocks", json.dumps(self._planned() | {"duet": known["plan"]["blocks"]})
            )
        chosen = known["plan"]
        self.estimate.block_seconds["duet"] = chosen["block_seconds"]
        self.slices = Slices(chosen["slice"], chosen["pairs"], discard)

    def _pilot(self) -> list[Row]:
        """The slices of the pilot's trials, run as far as they are not there."""
        self.observer.notice(
            f"pilot of the duet: {PILOT_STARTS} starts, about {self.estimate.pilot:.0f} s"
        )
        length, number = pilot_slices(self.setting)
        slices = Slices(length, number // 2, self.experiment.duet.discard)
        finished = self.results.finished("pilot")
        for pairing in schedule.pilot(self.experiment, PILOT_STARTS):
            if (pairing.block, pairing.attempt, pairing.position) not in finished:
                self._perform(pairing, slices)
        return self.results.slices("pilot")

    def _evaluate(self, rows: list[Row]) -> dict[str, Any]:
        """The pilot's findings, as facts. With a fault in it, what is usual elsewhere is taken, and
        said so.
        """
        try:
            found = duet_pilot.evaluate(self.setting, rows)
        except ValueError:
            self.observer.notice(
                "the pilot of the duet had faults; slices and pairs are the usual ones"
            )
            return {"components": {}, "plan": asdict(duet_plan(self.setting, USUAL))}
        components = {w: asdict(c) for w, c in found.components.items()}
        return {"components": components, "plan": asdict(found.plan), "scatter": found.scatter}

    def _check_disk(self, rows: list[Row]) -> bool:
        """Whether the duet may go on; False if it is dropped, which only happens where nobody asked
        for it outright.
        """
        try:
            duet_pilot.check(rows)
        except UsageError as error:
            if self.experiment.design is not None:
                raise
            self.observer.notice(f"no duet, so solo alone: {error}")
            self.designs.remove("duet")
            self.results.set_fact("designs", " ".join(self.designs))
            self.results.set_fact("duet", json.dumps({"none": str(error)}))
            return False
        return True


def interleaved(planned: dict[str, int]) -> list[tuple[str, int]]:
    """All blocks of all designs, (design, number), so that each design is as far as the others at
    any time. Pure.
    """
    every = [
        (number / blocks, design, number)
        for design, blocks in planned.items()
        for number in range(1, blocks + 1)
    ]
    return [(design, number) for _, design, number in sorted(every, key=lambda e: e[0])]


def overall(endings: dict[str, str]) -> str:
    """Why the campaign ended, from why its designs did (one that ran all its blocks is not in
    there). Pure.
    """
    whys = set(endings.values())
    return next((why for why in ("budget", "decided") if why in whys), "planned")


def _own_cpu() -> float:
    """CPU seconds of this process and of what it ran itself."""
    return sum(os.times()[:4])
