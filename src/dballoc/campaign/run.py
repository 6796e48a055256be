"""Run a campaign: blocks in the seed's order, resumed where it stopped, within its budget."""

import contextlib
import json
import math
import os
import shutil
import signal
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dballoc
from dballoc.analysis import campaign, comparison, verdict
from dballoc.analysis.procedure import declare
from dballoc.campaign import own, rehearsal, templates, trial
from dballoc.campaign.directory import ROOM, Directory
from dballoc.campaign.estimate import Estimate, estimate
from dballoc.campaign.observer import Observer, Plan
from dballoc.campaign.prepare import Setting
from dballoc.errors import Failure
from dballoc.experiment import file, schedule
from dballoc.experiment.schedule import Slot
from dballoc.host import facts, places
from dballoc.host.custody import Custody
from dballoc.measure import noise
from dballoc.servers.template import Template
from dballoc.store.results import Results, Row

# A repeat must not cost a planned block in the end, should the machine become slower.
_MARGIN = 1.1


@dataclass(frozen=True)
class Ending:
    """Why a campaign ended: ``planned`` (all blocks), ``decided``, ``budget``, ``interrupted``."""

    why: str
    blocks: int
    good_trials: int


def run(setting: Setting, out: Path, observer: Observer) -> Ending:
    """Run or resume the campaign in ``out``. UsageError or Failure in one line; what was finished is kept."""
    out = out.absolute()  # servers and clients run in directories of their own
    if places.free_bytes(out) < ROOM:
        raise Failure(f"{out}: less than {ROOM >> 20} MiB free; make room, or choose another --out")
    directory = Directory.take(out, setting.experiment)
    try:
        with Custody(keep_open=[directory.lock]) as custody, _stop_on_interrupt() as stop:
            return _Campaign(setting, directory, custody, observer, stop).run()
    except OSError as error:
        raise Failure(
            f"{error.filename or out}: {error.strerror}; what was finished is kept, the same command resumes"
        ) from None
    finally:
        directory.release()


def has_trials(directory: Path) -> bool:
    """Whether there is anything to report."""
    results = Results.open(directory, read_only=True)
    try:
        return bool(results.finished())
    finally:
        results.close()


@dataclass
class _Stop:
    """Ctrl-C or SIGTERM. Within a trial the first one is noted, and the trial ends at its next step of the clock;
    anywhere else, and the second time, it ends things at once.
    """

    in_trial: bool = False
    asked: bool = False

    def __call__(self, *_: object) -> None:
        if self.asked or not self.in_trial:
            raise trial.Interrupted
        self.asked = True


@contextlib.contextmanager
def _stop_on_interrupt() -> Iterator[_Stop]:
    stop = _Stop()
    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Campaign:
    def __init__(self, setting: Setting, directory: Directory, custody: Custody, observer: Observer, stop: _Stop) -> None:
        self.setting = setting
        self.experiment = setting.experiment
        self.directory = directory
        self.custody = custody
        self.observer = observer
        self.stop = stop
        self.results = self._open()
        self.estimate: Estimate = estimate(setting)
        # As if the campaign had run in one piece until now: the budget is for all of its runs together.
        self.began = time.monotonic() - self._spent()
        self.block_seconds: list[float] = []

    def run(self) -> Ending:
        try:
            try:
                why = self._blocks()
            except trial.Interrupted:
                why = "interrupted"
            self.results.set_fact("ending", why)
            return Ending(why, len({r["block"] for r in self.results.blocks()}), self.results.good_trials())
        finally:
            self.results.close()

    def _open(self) -> Results:
        if (self.directory.path / "results.sqlite").exists():
            results = Results.open(self.directory.path)
            labels = {row[0] for row in results.connection().execute("SELECT directory FROM trial")}
            self.observer.notice(f"resuming: {len(labels)} trials are there already")
            self.directory.forget_unfinished(labels)
            return results
        known = {
            "dballoc": dballoc.__version__, "identity": file.identity(self.experiment),
            "experiment": file.dump(self.experiment), "seed": str(self.experiment.seed),
            "planned_blocks": str(estimate(self.setting).blocks), "started": str(time.time()),
            "environment": json.dumps(facts.gather()), "sysbench": self.setting.sysbench.version,
            "server_user": self.setting.user.name, "design": "solo",
        }  # fmt: skip
        rows: list[dict[str, Any]] = [p.row() for p in self.setting.variants.values()]
        return Results.create(self.directory.path, known, rows)

    def _spent(self) -> float:
        """Seconds that the campaign has taken so far, in all its runs."""
        row = self.results.connection().execute("SELECT coalesce(sum(ended - started), 0) FROM trial").fetchone()
        return float(row[0])

    def _blocks(self) -> str:
        planned = int(self.results.facts()["planned_blocks"])
        log = self.directory.path / "template.log"
        made = templates.of_all_variants(self.setting, self.custody, self.observer, log)
        own.keep(self.setting, self.directory.path, bool(self.results.finished()))
        rehearsal.rehearse(self.setting, self.custody, made, self.directory.path)
        done: dict[tuple[int, int], Row] = {(r["block"], r["attempt"]): dict(r) for r in self.results.blocks()}
        per_block = self.estimate.trials_per_block
        finished = self.results.finished()
        complete = {b for b, a in done if not self._wants_repeat(b, a, done)}
        begun = sum(1 for b, a, _ in finished if b not in complete and (b, a) not in done)
        left = (planned - len(complete)) * per_block - begun
        seconds, percentile = self._left(planned, complete), self.experiment.load.percentile
        self.observer.plan(Plan(self.experiment.name, planned, per_block, left, len(finished), seconds, percentile))
        for number in range(1, planned + 1):
            attempt = max((a for b, a in done if b == number), default=-1)
            if attempt >= 0 and not self._wants_repeat(number, attempt, done):
                continue
            again = True
            while again:
                attempt += 1
                if number > 1 and not self._affordable():
                    return "budget"
                self.observer.block_started(number, attempt, planned, self._left(planned, set(range(1, number))))
                row = self._block(number, attempt, made)
                done[number, attempt] = row
                again = self._wants_repeat(number, attempt, done) and self._affordable((planned - number + 1) * _MARGIN)
                self.observer.block_finished(number, row["disturbed"], again)
            if number in self._looks(planned) and self._all_decided():
                return "decided"
        return "planned"

    def _looks(self, planned: int) -> tuple[int, ...]:
        return declare(planned, len(self.experiment.variant), len(self.experiment.workloads)).looks

    def _all_decided(self) -> bool:
        """Whether more blocks could only repeat the verdicts; asked at the planned looks alone."""
        found = comparison.compare(campaign.load(self.directory.path))
        return all(c.ratio is not None and verdict.decided(c.ratio) for c in found.family)

    def _affordable(self, blocks: float = 1) -> bool:
        """Whether the budget holds that many more blocks."""
        return blocks * self._block_seconds() <= self._budget_left()

    def _budget_left(self) -> float:
        budget = self.experiment.budget
        return math.inf if budget is None else budget - (time.monotonic() - self.began)

    def _block_seconds(self) -> float:
        return statistics.mean(self.block_seconds) if self.block_seconds else self.estimate.block_seconds

    def _left(self, planned: int, complete: set[int]) -> float:
        return min((planned - len(complete)) * self._block_seconds(), max(0.0, self._budget_left()))

    def _wants_repeat(self, number: int, attempt: int, done: dict[tuple[int, int], Row]) -> bool:
        """A disturbed block is repeated whole, as long as the campaign's cap on repeats is not reached."""
        if done[number, attempt]["disturbed"] is None or (number, attempt + 1) in done:
            return False
        repeats = sum(1 for _, a in done if a > 0)
        return repeats < self.experiment.noise.repeats

    def _block(self, number: int, attempt: int, made: dict[str, Template]) -> Row:
        slots = schedule.block(self.experiment, number, attempt)
        finished = self.results.finished()
        started, before, ours = time.time(), noise.read(), _own_cpu()
        probe_before, began = noise.probe(), time.monotonic()
        server_and_client = 0.0
        left = [slot for slot in slots if (slot.block, slot.attempt, slot.position) not in finished]
        for slot in left:
            server_and_client += self._trial(slot, made[self.setting.variants[slot.variant].recipe.key])
        if left == slots:
            self.block_seconds.append(time.monotonic() - began)
        probes = probe_before, noise.probe()
        used = server_and_client + _own_cpu() - ours
        found = noise.between(before, noise.read(), used, probes)
        usual = statistics.median([*self.results.probes(), *probes])
        row = {
            "block": number, "attempt": attempt, "started": started, "ended": time.time(), "steal": found.steal,
            "others": found.others, "probe_before": probes[0], "probe_after": probes[1],
            "disturbed": noise.disturbance(found, self.experiment.noise, usual),
        }  # fmt: skip
        self.results.add_block(row)
        return row

    def _trial(self, slot: Slot, made: Template) -> float:
        """Run and store one trial; returns the CPU seconds that all its processes used."""
        self.observer.trial_started(slot)
        before = self.custody.cpu_seconds
        context = trial.Context(self.setting, self.custody, self.observer, lambda: self.stop.asked)
        path = self.directory.trial(slot.label)
        self.stop.in_trial = True
        try:
            record = trial.run(context, slot, made, path)
            self.results.add_trial(slot, record)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        finally:
            self.stop.in_trial = False
        levels = [s for s in record.steps if s["kind"] == "level"]
        self.observer.trial_finished(
            slot, record.trial["fault_text"], record.trial["rss_peak"], levels[-1]["tps"] if levels else None
        )
        return self.custody.cpu_seconds - before


def _own_cpu() -> float:
    """CPU seconds of this process and of what it ran itself."""
    return sum(os.times()[:4])
