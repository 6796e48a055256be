"""What a campaign reports while it runs. The base class ignores everything."""

from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import Step
from dballoc.store.results import TrialRecord


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is still to run. ``blocks`` and ``trials_per_block`` by design; ``trials`` counts those
    still to run in the planned blocks, ``finished_trials`` those in the database; ``seconds``:
    about how long they take; ``percentile``: of ticks' latency; ``replays``: whether trials are
    replays of a trace.
    """

    name: str
    blocks: dict[str, int]
    trials_per_block: dict[str, int]
    trials: int
    finished_trials: int
    seconds: float
    percentile: int
    replays: bool = False


@dataclass(frozen=True)
class Tick:
    """A reading about once a second within a step: ``rss`` in bytes, ``elapsed`` seconds of the
    step; ``tps`` and ``latency`` (ms) are None without load.
    """

    rss: int
    elapsed: float
    tps: float | None = None
    latency: float | None = None


@dataclass(frozen=True, kw_only=True)
class SearchProgress:
    """One trial of a search, in words: what was tried and how it ended, and the ``best`` so far;
    ``seconds_left`` of the search, and about how many ``trials_left``.
    """

    stage: str
    number: int
    variant: str
    origin: str
    settings: str
    outcome: str
    best: str
    trials_left: int
    seconds_left: float


class Observer:
    """Watches a campaign."""

    def notice(self, text: str) -> None:
        """Something the user should know: a template is made, a campaign resumed."""

    def plan(self, plan: Plan) -> None:
        """The campaign begins; called once, before the first trial."""

    def block_started(
        self, design: str, block: int, attempt: int, blocks: int, seconds_left: float
    ) -> None:
        """A block begins."""

    def trial_started(self, trial: Slot) -> None:
        """A trial begins: a server starts, or two."""

    def step_started(self, step: Step) -> None:
        """A step begins."""

    def tick(self, tick: Tick) -> None:
        """A reading within a step."""

    def trial_finished(
        self, trial: Slot, records: Sequence[TrialRecord], ratio: float | None = None
    ) -> None:
        """A trial is in the database: a record of each of its servers. ``ratio``: of a duet, CPU
        per transaction, partner ÷ baseline, of the last workload.
        """

    def block_finished(
        self, design: str, block: int, disturbed: str | None, repeated: bool
    ) -> None:
        """A block is in the database. ``repeated``: it will be run again."""

    def round_started(self, number: int, trials: int, seconds: float) -> None:
        """A round of ``dballoc fit`` begins; at most ``trials`` and ``seconds`` remain, this round
        included.
        """

    def probe_finished(self, variant: str, size: int, record: TrialRecord) -> None:
        """A cache size was tried, and the trial is in the database."""

    def search_progressed(self, progress: SearchProgress) -> None:
        """A trial of ``dballoc tune``'s search is in the database."""
