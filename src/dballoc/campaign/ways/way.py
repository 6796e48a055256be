"""A way to load: its blocks, how long they take, how a trial is run and stored.

A further way is a file here with its blocks and its :class:`ServerWay`, a line in
:data:`dballoc.campaign.ways.servers.WAYS`, and its words in :mod:`dballoc.experiment.designs`.
"""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from dballoc.campaign.interruptible_session import PreparedT, Session
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.trial.duet_trial import Slices
from dballoc.campaign.trial.turns_trial import Rounds
from dballoc.experiment.designs import Design
from dballoc.experiment.schedule import Pairing, Rotation, Slot
from dballoc.ground.errors import UsageError
from dballoc.servers.private.data_template import Template
from dballoc.store.results import Results, TrialRecord, TrialStore

TrialT = TypeVar("TrialT", Slot, Pairing, Rotation)


class Unsuitable(UsageError):
    """A way that cannot compare the servers of a campaign."""


@dataclass(frozen=True, kw_only=True)
class BlockEstimate:
    """What a campaign has of a way. ``blocks``: how many, of so many ``trials`` and ``seconds``
    each; ``on_purpose``: the seconds of a block that are spent measuring, warming up or idling;
    ``pilot``: the seconds of what comes before, 0 without one.
    """

    blocks: int
    trials: int
    seconds: float
    on_purpose: float
    pilot: float = 0.0


@dataclass(frozen=True, kw_only=True)
class DurationEstimate:
    """How long a campaign takes: ``ways`` by design."""

    ways: Mapping[str, BlockEstimate]

    @property
    def blocks(self) -> dict[str, int]:
        """The planned blocks by design."""
        return {design: each.blocks for design, each in self.ways.items()}

    @property
    def trials(self) -> int:
        """Trials of the whole campaign, without pilot and repeats."""
        return sum(each.blocks * each.trials for each in self.ways.values())

    @property
    def pilot(self) -> float:
        """Seconds before the first block; 0 without a pilot."""
        return sum(each.pilot for each in self.ways.values())

    @property
    def seconds(self) -> float:
        """Seconds of the whole campaign, without repeats."""
        return self.pilot + sum(each.blocks * each.seconds for each in self.ways.values())

    @property
    def measured_share(self) -> float:
        """The share of the time that is spent measuring, warming up or idling on purpose."""
        return sum(each.blocks * each.on_purpose for each in self.ways.values()) / self.seconds


class Blocks(ABC, Generic[PreparedT, TrialT]):
    """The blocks of a way in a campaign. ``store``: where finished trials go; ``planned_seconds``:
    what a block is expected to take; ``slices``, ``rounds``: those of its trials, None in a way
    that has none; ``interruptible``: whether Ctrl-C interrupts a trial, which never looks for one.
    """

    slices: Slices | None = None
    rounds: Rounds | None = None
    interruptible = False

    def __init__(
        self, session: Session[PreparedT], store: TrialStore, planned_seconds: float
    ) -> None:
        self._session = session
        self._store = store
        self.planned_seconds = planned_seconds

    def settle(self, results: Results, *, runs_here: bool) -> None:
        """Decide before the first block what is still open, and store that. Raises Unsuitable."""

    @abstractmethod
    def list_trials(self, number: int, attempt: int) -> Sequence[TrialT]:
        """Return the trials of a block in their order."""

    def fit_block(self, seconds: float) -> float | None:
        """Make the next block take so many seconds, if its length may be chosen. Returns those that
        it will take, else None.
        """
        return None

    def run_trial(self, trial: TrialT) -> float:
        """Run and store one trial, and tell of it. Returns the CPU seconds that its processes
        used.
        """
        with self._session.run_trial(trial, interruptible=self.interruptible) as running:
            records = self.measure(trial, running.directory)
            self._store.add_trial(trial, *records)
            self.tell(trial, records)
        return running.cpu_seconds

    @abstractmethod
    def measure(self, trial: TrialT, directory: Path, /) -> Sequence[TrialRecord]:
        """Run one trial with its raw files in ``directory``, and return a record of each of its
        servers.
        """

    def tell(self, trial: TrialT, records: Sequence[TrialRecord], /) -> None:
        """Tell the observer of a trial that is stored."""
        self._session.observer.trial_finished(trial, records)

    def check_block(self, results: Results, number: int) -> None:
        """Check what a block has measured once it is finished. Raises Unsuitable."""


class ServerBlocks(Blocks[PreparedCampaign, TrialT]):
    """Blocks of servers. ``templates``: by their recipes' keys, none where trials run on other
    hosts.
    """

    def __init__(
        self,
        session: Session[PreparedCampaign],
        store: TrialStore,
        templates: Mapping[str, Template],
        planned_seconds: float,
    ) -> None:
        super().__init__(session, store, planned_seconds)
        self._templates = templates
        self._overheads: list[float] = []

    def _find_overhead(self) -> float | None:
        """Return the seconds that a trial took beside its load: the median of those so far, without
        the first one, which alone copies the data; None before there are two.
        """
        return statistics.median(self._overheads[1:]) if self._overheads[1:] else None

    @property
    def _setting(self) -> PreparedCampaign:
        return self._session.setting

    def _find_template(self, variant: str, workload: str | None = None) -> Template:
        recipe = self._setting.data_recipe(self._setting.variants[variant], workload)
        return self._templates[recipe.key]


@dataclass(frozen=True, kw_only=True)
class ServerWay:
    """A way to load servers: its design, how a campaign's blocks are estimated, and their class."""

    design: Design
    estimate: Callable[[PreparedCampaign], BlockEstimate]
    make_blocks: Callable[
        [Session[PreparedCampaign], TrialStore, Mapping[str, Template], float],
        ServerBlocks[Slot] | ServerBlocks[Pairing] | ServerBlocks[Rotation],
    ]
