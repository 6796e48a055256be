"""Run a campaign: blocks in the seed's order, resumed where it stopped, within its budget."""

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dballoc.campaign.block_history import BlockHistory
from dballoc.campaign.interruptible_session import Session, run_in_session
from dballoc.campaign.looks import Extension, Looks
from dballoc.campaign.noise_samples import BlockNoiseMeter
from dballoc.campaign.observer import Observer, Plan
from dballoc.campaign.own_libraries import check_preloads, hash_preloads
from dballoc.campaign.preparation.prepared import Prepared
from dballoc.campaign.recorded_facts import check_margin
from dballoc.campaign.trial.server_in_trial import Interrupted
from dballoc.campaign.ways.way import Blocks, DurationEstimate, TrialT, Unsuitable
from dballoc.ground.errors import UsageError
from dballoc.questions.compare.procedure import Procedure
from dballoc.store.facts import DuetFacts, Facts
from dballoc.store.open_database import FILE
from dballoc.store.results import Results
from dballoc.store.rows import BlockRow

# A repeat is begun only if the budget has room for this many times the planned blocks' time: if the
# machine becomes slower, it must not cost one of them.
_MARGIN = 1.1


@dataclass(frozen=True)
class RunEnding:
    """How a campaign ended. ``why``: ``planned`` (all blocks ran), ``decided``, ``budget`` or
    ``interrupted``; ``blocks``: how many it has, by design; ``decided``: the designs that ended
    before their last block because every comparison of them is decided.
    """

    why: str
    blocks: dict[str, int]
    good_trials: int
    decided: tuple[str, ...] = ()


def has_trials(directory: Path) -> bool:
    """Whether a results directory has any trial to report."""
    results = Results.open(directory, read_only=True)
    try:
        return bool(results.directories())
    finally:
        results.close()


def run_blocks_in_turn(campaign: "CampaignRun", planned: dict[str, int]) -> None:
    """Run the planned blocks on this machine, one after the other, each with its repeats."""
    for design, number in interleave_blocks(planned):
        if campaign.is_open(design) and campaign.run_until_quiet(design, number, planned):
            campaign.end_if_decided(design, number, planned[design])


@dataclass(frozen=True, kw_only=True)
class CampaignKind:
    """What blocks are of: trials of servers, or replays of a trace. ``name``: the fact ``kind``;
    None for bench, whose results have none. ``estimate``, ``make_facts`` (of the setting and the
    planned blocks) and ``prepare_blocks`` (what comes before the first trial; returns the blocks by
    design) get what was prepared for this kind. ``run_blocks`` runs the planned blocks, by design:
    here in turn, or on other hosts; ``runs_here``: which of the two; ``measured_only``: whether it
    is judged once, elsewhere.
    """

    name: str | None
    estimate: Callable[[Any], DurationEstimate]
    make_facts: Callable[[Any, dict[str, int]], Facts]
    prepare_blocks: Callable[[Session, Results, DurationEstimate, Sequence[str]], dict[str, Blocks]]
    run_blocks: "Callable[[CampaignRun, dict[str, int]], None]" = run_blocks_in_turn
    runs_here: bool = True
    measured_only: bool = False


def run_campaign(
    setting: Prepared,
    out: Path,
    observer: Observer,
    *,
    kind: CampaignKind,
    looks: Looks,
    extension: Extension | None = None,
) -> RunEnding:
    """Run or resume the campaign in ``out``, judged by ``looks``; with an ``extension``, to its
    look instead of the planned end. Raises UsageError or Failure; what was finished is kept.
    """

    def run_in(session: Session) -> RunEnding:
        for notice in setting.list_notices():
            observer.notice(notice)
        return CampaignRun(session, looks, extension, kind).run()

    return run_in_session(setting, out, observer, run_in, runs_here=kind.runs_here)


class CampaignRun:
    """A campaign under way: its blocks, the budget, repeats, and the looks at which a design may
    end early. ``hosts_at_once``: how many hosts run blocks at the same time; ``blocks_ahead``: how
    many of each design are finished, but ahead of their look.
    """

    hosts_at_once = 1

    def __init__(
        self, session: Session, looks: Looks, extension: Extension | None, kind: CampaignKind
    ) -> None:
        self.session = session
        self.looks = looks
        self.kind = kind
        self.extension = extension
        self.setting = session.setting
        self.experiment = session.setting.experiment
        self.observer = session.observer
        self.estimate = kind.estimate(session.setting)
        self.results = open_results(
            session,
            kind.name,
            lambda: replace(
                kind.make_facts(self.setting, self.estimate.blocks),
                measured_only=kind.measured_only,
            ),
            measured_only=kind.measured_only,
        )
        if kind.runs_here and self.results.table("placement"):
            self.results.close()
            raise UsageError(
                f"{session.directory.path}: its blocks ran on the hosts of a Ray cluster; go on "
                "with --ray HOST:PORT, or choose a new --out"
            )
        self.designs = [design.value for design in self.results.facts().designs]
        # The budget is for all runs of the campaign together.
        self.began = time.monotonic() - self.results.spent()
        self.extension_began = time.monotonic()
        self.block_seconds: dict[str, list[float]] = {design: [] for design in self.designs}
        self.blocks_ahead: dict[str, int] = {}
        procedures = self.declare_procedures()
        self.endings: dict[str, str] = {}
        if extension is None:
            self.endings |= dict.fromkeys(list_designs_over_budget(procedures), "budget")
        self.endings |= dict.fromkeys(self.results.facts().decided, "decided")
        self.history = BlockHistory(
            {d: self.results.blocks(d) for d in self.designs},
            self.experiment.noise.repeats,
            {d: p.reached or 0 for d, p in procedures.items()},
        )
        self.blocks: dict[str, Blocks] = {}

    def run(self) -> RunEnding:
        """Run or resume it, and return how it ended. UsageError or Failure."""
        try:
            try:
                self._prepare_blocks()
                self._run_blocks()
                self._store_budget_looks()
                why = combine_endings(self.endings, self.designs)
            except Interrupted:
                why = "interrupted"
            self.results.change_facts(ending=why)
            blocks = {
                design: len({row.block for row in self.results.blocks(design)})
                for design in self.designs
            }
            planned = self._read_planned_blocks()
            decided = [
                d
                for d in self.designs
                if self.endings.get(d) == "decided" and blocks[d] < planned[d]
            ]
            return RunEnding(why, blocks, self.results.good_trials(), tuple(decided))
        finally:
            self.results.close()

    # -- before the first block -------------------------------------------------------------------

    def _prepare_blocks(self) -> None:
        """Do what comes before the first trial, and decide what blocks leave open."""
        self.blocks |= self.kind.prepare_blocks(
            self.session, self.results, self.estimate, self.designs
        )
        for design, blocks in self.blocks.items():
            try:
                blocks.settle(self.results, runs_here=self.kind.runs_here)
            except Unsuitable as error:
                self._drop_design(design, error)

    def _drop_design(self, design: str, error: Unsuitable) -> None:
        """Go on without a design. Raises the error if the experiment asks for it."""
        if self.experiment.design is not None:
            raise error
        self.designs.remove(design)
        others = " and ".join(self.designs)
        self.observer.notice(f"no {design}, only the {others} design: {error}")
        self.results.change_facts(designs=tuple(self.designs), duet=DuetFacts(none=str(error)))

    def _read_planned_blocks(self) -> dict[str, int]:
        """Return the number of blocks that each design runs to: those planned, or those of the
        extension, which leaves designs that it does not name as they are.
        """
        planned: dict[str, int] = self.results.facts().planned_blocks
        if self.extension is not None:
            planned = self.extension.goals
        return {design: planned[design] for design in self.designs if design in planned}

    def declare_procedures(self) -> Mapping[str, Procedure]:
        """Return each design's procedure after the blocks that are in the database; none where
        there are no looks.
        """
        return self.looks.declare_procedures(self.session.directory.path)

    # -- the blocks -------------------------------------------------------------------------------

    def _run_blocks(self) -> None:
        planned = self._read_planned_blocks()
        if planned:
            self.observer.plan(self._make_plan(planned))
        for design in list(self.designs):
            # dballoc may have been killed between a look's last block and its decision.
            finished = len(self.history.list_attempted_blocks(design))
            if finished and design not in self.endings:
                self.end_if_decided(design, finished, planned[design])
        self.kind.run_blocks(self, planned)

    def is_open(self, design: str) -> bool:
        """Whether blocks of a design are still to be run."""
        return design not in self.endings and design in self.designs

    def _make_plan(self, planned: dict[str, int]) -> Plan:
        """Return what is still to run, for the display."""
        per_block = {design: each.trials for design, each in self.estimate.ways.items()}
        trials = 0
        for design in self.designs:
            if design not in self.endings:
                complete = self.history.list_complete_blocks(design)
                trials += (planned[design] - len(complete)) * per_block[design]
        return Plan(
            name=self.experiment.name,
            blocks=planned,
            trials_per_block=per_block,
            trials=trials,
            finished_trials=self.results.trials(),
            seconds=self.estimate_seconds_left(planned),
            percentile=self.experiment.load.percentile,
            replays=self.experiment.replay is not None,
        )

    def run_until_quiet(self, design: str, number: int, planned: dict[str, int]) -> bool:
        """Run a block, and repeat it whole while it is disturbed and may be repeated. False if it
        was finished already, or the budget is used up.
        """
        attempt = self.history.choose_attempt(design, number, self.list_cut(design, number))
        if attempt is None:
            return False
        while True:
            seconds = self.blocks[design].fit_block(self._find_block_time(design, number, planned))
            if seconds is None:
                seconds = self.estimate_block_seconds(design)
            # An extension fits its time; to end it before its look would waste it.
            is_over = seconds > self.find_budget_left()
            if number > 1 and is_over and self.extension is None:
                self.endings[design] = "budget"
                return False
            seconds_left = self.estimate_seconds_left(planned)
            self.observer.block_started(design, number, attempt, planned[design], seconds_left)
            row = self._run_block(design, number, attempt)
            again = self.add_to_history(row, planned)
            self.observer.block_finished(design, number, row.disturbed, again)
            if not again:
                return True
            attempt += 1

    def add_to_history(self, row: BlockRow, planned: dict[str, int]) -> bool:
        """Take a stored block into account; returns whether it is repeated: it was disturbed, the
        design has repeats left, and the budget has room for one beside all that is planned.
        """
        design, number = row.design, row.block
        self.history.add(row)
        if self.history.is_complete(design, number):
            return False
        rest = self._estimate_rest_seconds(planned) + self.estimate_block_seconds(design)
        if rest * _MARGIN > self.find_budget_left():
            self.history.keep(design, number)
            return False
        return True

    def list_cut(self, design: str, number: int) -> set[int]:
        """Return the interrupted attempts at a block: some of their trials did not run, or their
        host was lost.
        """
        begun = {a for b, a, _ in self.results.finished(design) if b == number}
        lost = self.results.list_lost_attempts(design, number)
        return {
            attempt
            for attempt in begun
            if attempt in lost
            or self.list_unfinished(design, self.blocks[design].list_trials(number, attempt))
        }

    def list_unfinished(self, design: str, trials: Sequence[TrialT]) -> list[TrialT]:
        """Return those of the trials that are not in the database."""
        finished = self.results.finished(design)
        return [t for t in trials if (t.block, t.attempt, t.position) not in finished]

    def _run_block(self, design: str, number: int, attempt: int) -> BlockRow:
        """Run the trials of a block that are not in the database, and store its row."""
        blocks = self.blocks[design]
        trials = blocks.list_trials(number, attempt)
        unfinished = self.list_unfinished(design, trials)
        meter = BlockNoiseMeter()
        began = time.monotonic()
        for trial in unfinished:
            meter.cpu_seconds += blocks.run_trial(trial)
        if len(unfinished) == len(trials):
            self.block_seconds[design].append(time.monotonic() - began)
        measured = meter.make_row(self.experiment.noise, self.results.probes())
        row = BlockRow(design=design, block=number, attempt=attempt, **vars(measured))
        self.results.add(row)
        return row

    def end_if_decided(self, design: str, number: int, planned: int) -> None:
        """After a block that was just run: end its design if this is a planned look, and more
        blocks could only repeat the verdicts.
        """
        try:
            self.blocks[design].check_block(self.results, number)
        except Unsuitable as error:
            self._drop_design(design, error)
            return
        if self.looks.is_decided_at(self.session.directory.path, design, number):
            self.endings[design] = "decided" if number < planned else "planned"
            self.results.change_facts(decided=self.results.facts().decided | {design: number})

    # -- the budget -------------------------------------------------------------------------------

    def _store_budget_looks(self) -> None:
        """Make it a look where the budget ended a design: otherwise the blocks since the last one
        would have been for nothing.
        """
        looks = list_budget_looks(self.declare_procedures(), self.endings)
        if looks:
            self.results.change_facts(budget_looks=looks)

    def find_budget_left(self) -> float:
        """Return the seconds that the budget, or the extension, has left; infinite without one."""
        if self.extension is not None:
            return self.extension.seconds * _MARGIN - (time.monotonic() - self.extension_began)
        budget = self.experiment.budget
        return math.inf if budget is None else budget - (time.monotonic() - self.began)

    def _find_block_time(self, design: str, number: int, planned: dict[str, int]) -> float:
        """Return the seconds that the next block may take, so that those of its design share evenly
        what the other designs' blocks leave of the budget.
        """
        rest = self._estimate_rest_seconds({d: n for d, n in planned.items() if d != design})
        attempted = set(self.history.list_attempted_blocks(design)) - {number}
        return (self.find_budget_left() - rest) / max(1, planned[design] - len(attempted))

    def estimate_block_seconds(self, design: str) -> float:
        """Return what a block of a design takes: as measured, before that as planned."""
        measured = self.block_seconds[design]
        return statistics.mean(measured) if measured else self.blocks[design].planned_seconds

    def _estimate_rest_seconds(self, planned: dict[str, int]) -> float:
        """Seconds that the blocks not yet attempted take, whatever the budget."""
        seconds = sum(
            (
                planned[design]
                - len(self.history.list_attempted_blocks(design))
                - self.blocks_ahead.get(design, 0)
            )
            * self.estimate_block_seconds(design)
            for design in planned
            if design in self.designs and design not in self.endings
        )
        return seconds / self.hosts_at_once

    def estimate_seconds_left(self, planned: dict[str, int]) -> float:
        """Return the seconds that the campaign still takes, as far as its budget goes."""
        return min(self._estimate_rest_seconds(planned), max(0.0, self.find_budget_left()))


def open_results(
    session: Session,
    kind: str | None,
    make_facts: Callable[[], Facts],
    *,
    measured_only: bool = False,
) -> Results:
    """Open the session's results, of this ``kind``, or make them. Raises UsageError if another verb
    made them, if they were judged as they were measured and now shall be ``measured_only``, or the
    reverse, if they are asked for another margin, or if a library of the user's is another one.
    """
    path = session.directory.path
    if not (path / FILE).exists():
        rows = [p.make_row() for p in session.setting.variants.values()]
        return Results.create(path, make_facts(), rows)
    with contextlib.ExitStack() as on_failure:
        results = Results.open(path)
        on_failure.callback(results.close)
        facts = results.facts()
        if facts.kind != kind:
            verb = facts.kind or "bench"
            raise UsageError(f"{path}: results of dballoc {verb}; choose a new --out")
        if facts.measured_only != measured_only:
            begun, change = ("with", "add") if facts.measured_only else ("without", "leave out")
            raise UsageError(
                f"{path}: begun {begun} --measure-only; to go on, {change} --measure-only"
            )
        check_margin(session.setting.margin, facts.margin, path)
        if results.trials():
            check_preloads(session.setting.experiment, facts.preloads, path)
        else:
            results.change_facts(preloads=hash_preloads(session.setting.experiment))
        on_failure.pop_all()
    session.observer.notice(f"resuming: {results.trials()} trials are finished already")
    session.directory.remove_unfinished_trials(results.directories())
    return results


def interleave_blocks(planned: dict[str, int]) -> list[tuple[str, int]]:
    """Return all blocks of all designs, (design, number), in an order in which each design is as
    far as the others at any time. Pure.
    """
    blocks = [
        (number / count, design, number)
        for design, count in planned.items()
        for number in range(1, count + 1)
    ]
    return [(design, number) for _, design, number in sorted(blocks, key=lambda block: block[0])]


def list_budget_looks(
    procedures: Mapping[str, Procedure], endings: Mapping[str, str]
) -> dict[str, list[int]]:
    """Return the numbers of blocks at which the budget ended each design, now or before; without
    designs that it never ended, or not before their first interval. It ends a design once: what
    comes after is an extension. Pure.
    """
    looks = {}
    for design, procedure in procedures.items():
        is_over = endings.get(design) == "budget" and not procedure.budget_looks
        now = [procedure.blocks] if is_over and procedure.blocks > 1 else []
        if numbers := sorted({*procedure.budget_looks, *now}):
            looks[design] = numbers
    return looks


def list_designs_over_budget(procedures: Mapping[str, Procedure]) -> list[str]:
    """Return the designs that the budget has ended before their planned end. Without an extension
    they get no more blocks: only trials' time is known of an earlier run, so that a resume would
    find some budget left, and each would move the look at which they were judged. Pure.
    """
    return [design for design, procedure in procedures.items() if procedure.is_over_budget]


def combine_endings(endings: Mapping[str, str], designs: Collection[str]) -> str:
    """Return why the campaign ended, from why its designs did; one that ran all its blocks may be
    missing there. It is decided only if all its designs are. Pure.
    """
    reasons = {endings.get(design, "planned") for design in designs}
    if "budget" in reasons:
        return "budget"
    return "decided" if reasons == {"decided"} else "planned"
