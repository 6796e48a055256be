"""Show a running campaign: a live display on a terminal, plain lines in a pipe."""

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console as RichConsole
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from dballoc.campaign.observer import Observer, Plan, SearchProgress, Tick
from dballoc.cli.shared.safe_output import Console, safe
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.experiment.schedule import Pairing, Rotation, Slot
from dballoc.experiment.trial_steps import Step
from dballoc.store.results import TrialRecord
from dballoc.store.rows import TurnRow


def minutes(seconds: float) -> str:
    """Format seconds as ``6 min 05 s``."""
    rounded = round(seconds)
    return f"{rounded // 60} min {rounded % 60:02} s" if rounded >= 60 else f"{rounded} s"


def mebibytes(size: int | None) -> str:
    """Format bytes as ``181 MiB``; a dash for None."""
    return "–" if size is None else f"{size / 2**20:,.0f} MiB"


def _label_trial(trial: Slot) -> str:
    if isinstance(trial, Rotation):
        return f"{len(trial.servers)} servers in turns"
    return trial.variant + (f" ({trial.role})" if trial.role != "V" else "")


def _describe_turns(records: Sequence[TrialRecord]) -> str:
    """Return the throughput of a rotation's servers, the baseline's first."""
    rates = [
        sum(turn.transactions for turn in turns) / sum(turn.seconds for turn in turns)
        for record in records
        if (turns := record.select(TurnRow))
    ]
    return f"{', '.join(f'{rate:,.0f}' for rate in rates)} tps" if rates else "no turn"


class PlainDisplay(Observer):
    """Print one line whenever something ends; for pipes and logs."""

    def __init__(self, console: RichConsole) -> None:
        self.console = console
        self.total = self.done = 0
        self.per_block: dict[str, int] = {}
        self.replays, self.speed, self.memory = False, "tps", "peak RSS"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def notice(self, text: str) -> None:
        self._line(text)

    def plan(self, plan: Plan) -> None:
        self.total, self.done, self.per_block = (
            plan.trials + plan.finished_trials,
            plan.finished_trials,
            plan.trials_per_block,
        )
        if plan.replays:
            self.replays, self.speed, self.memory = True, "events/s", "peak heap"
        blocks = " and ".join(f"{number} {design} blocks" for design, number in plan.blocks.items())
        self._line(
            f"{plan.name}: {blocks}, {plan.trials} trials to run, about {minutes(plan.seconds)}"
        )

    def block_started(
        self, design: str, block: int, attempt: int, blocks: int, seconds_left: float
    ) -> None:
        again = f", again ({attempt})" if attempt else ""
        self._line(f"{design} block {block} of {blocks}{again}, about {minutes(seconds_left)} left")

    def trial_finished(
        self, trial: Slot, records: Sequence[TrialRecord], ratio: float | None = None
    ) -> None:
        counts = ""
        if trial.design != "pilot":
            self.done += len(records)
            counts = f"[{self.done}/{self.total}] "
        label = _label_trial(trial)
        if isinstance(trial, Pairing):
            label += " beside the baseline"
            good = (
                f"CPU per transaction {ratio:.3f} of the baseline's"
                if ratio
                else "no whole pair of slices"
            )
        elif isinstance(trial, Rotation):
            good = _describe_turns(records)
        else:
            label += f" in {trial.workload}" if trial.workload is not None else ""
            label += f" at {trial.level} threads" if trial.level is not None else ""
            [record] = records
            tps = record.last_tps
            speed = f"{tps:,.0f} {self.speed}, " if tps is not None else ""
            good = f"{speed}{self.memory} {mebibytes(record.trial.rss_peak)}"
        faults = [r.trial.fault_text for r in records if r.trial.fault_text]
        outcome = "; ".join(f"FAULT: {safe(fault)}" for fault in faults) or good
        self._line(f"  {counts}{label}: {outcome}")

    def block_finished(
        self, design: str, block: int, disturbed: str | None, repeated: bool
    ) -> None:
        # The plan has one attempt at each block, also at one that was cut and is begun again.
        self.total += self.per_block[design] if repeated else 0
        if disturbed:
            consequence = "repeated whole" if repeated else "kept, no repeat left"
            self._line(f"  {design} block {block} was disturbed ({disturbed}): {consequence}")

    def round_started(self, number: int, variants_to_go: int, seconds: float) -> None:
        self._line(
            f"round {number}, {variants_to_go} trials or fewer left, {minutes(seconds)} at most"
        )

    def probe_finished(self, variant: str, size: int, record: TrialRecord) -> None:
        trial = record.trial
        fault = "killed" if trial.fault == "oom" else f"FAULT: {safe(str(trial.fault_text))}"
        words = "survived" if trial.outcome == "ok" else fault
        peak = mebibytes(trial.rss_peak)
        self._line(f"  {variant} with {format_size(size)}: {words}, peak RSS {peak}")

    def search_progressed(self, progress: SearchProgress) -> None:
        self._line(
            f"  [{progress.stage} {progress.number}] {progress.variant} ({progress.origin}; "
            f"{safe(progress.settings)}): {safe(progress.outcome)}"
        )


class LiveDisplay(PlainDisplay):
    """Print the plain lines, and show below them a panel with what is happening now."""

    def __init__(self, console: RichConsole) -> None:
        super().__init__(console)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(None),
            TextColumn("{task.percentage:>3.0f} %"),
        )
        self._trials = self._progress.add_task("trials", total=None)
        self._now: dict[str, str] = {}
        self._ends = time.monotonic()
        self._latency = "latency"
        # Started last, because it draws at once.
        self._live = Live(
            get_renderable=self._render, console=console, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def plan(self, plan: Plan) -> None:
        super().plan(plan)
        for key in ("best", "left"):  # of the search that came before
            self._now.pop(key, None)
        self._ends = time.monotonic() + plan.seconds
        self._latency = f"p{plan.percentile}"
        self._progress.update(self._trials, total=self.total, completed=self.done)

    def block_started(
        self, design: str, block: int, attempt: int, blocks: int, seconds_left: float
    ) -> None:
        super().block_started(design, block, attempt, blocks, seconds_left)
        self._ends = time.monotonic() + seconds_left
        self._now["block"] = f"{design} {block} of {blocks}"

    def round_started(self, number: int, variants_to_go: int, seconds: float) -> None:
        super().round_started(number, variants_to_go, seconds)
        self._ends = time.monotonic() + seconds
        self._now["block"] = f"round {number}"

    def trial_started(self, trial: Slot) -> None:
        self._now |= {
            "variant": _label_trial(trial) + " | baseline" * isinstance(trial, Pairing),
            "step": "replaying" if self.replays else "starting",
            "tps": "–",
            "latency": "–",
            "RSS": "–",
        }

    def step_started(self, step: Step) -> None:
        self._now |= {"step": step.title, "tps": "–", "latency": "–"}

    def tick(self, tick: Tick) -> None:
        self._now["RSS"] = mebibytes(tick.rss)
        if tick.tps is not None:
            self._now |= {
                "tps": f"{tick.tps:,.0f}",
                "latency": "–" if tick.latency is None else f"{tick.latency:.2f} ms",
            }

    def trial_finished(
        self, trial: Slot, records: Sequence[TrialRecord], ratio: float | None = None
    ) -> None:
        super().trial_finished(trial, records, ratio)
        self._progress.update(self._trials, completed=self.done)

    def search_progressed(self, progress: SearchProgress) -> None:
        super().search_progressed(progress)
        self._ends = time.monotonic() + progress.seconds_left
        self._now |= {
            "block": progress.stage,
            "best": safe(progress.best),
            "left": f"about {progress.trials_left}",
        }
        total = progress.number + progress.trials_left
        self._progress.update(self._trials, total=total, completed=progress.number)

    def _render(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        names = {
            "block": "block",
            "variant": "variant",
            "step": "step",
            "tps": "tps",
            "latency": self._latency,
            "RSS": "RSS",
        }
        if self.replays:
            # A replay is not looked into while it runs.
            names = {key: names[key] for key in ("block", "variant", "step")}
        if "best" in self._now:
            names |= {"left": "trials left", "best": "best so far"}
        table.add_row(*(Text(label, style="dim") for label in (*names.values(), "time left")))
        remaining = minutes(max(0.0, self._ends - time.monotonic()))
        table.add_row(
            *(Text(self._now.get(key, "–"), style="bold") for key in names),
            Text(remaining, style="bold"),
        )
        return Group(table, self._progress)


def display(console: RichConsole | None = None) -> LiveDisplay | PlainDisplay:
    """Return the display that suits the console; without one, that of standard output."""
    console = console or Console()
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)
