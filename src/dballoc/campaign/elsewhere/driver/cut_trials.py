"""Trials that hosts had under way when an earlier driver of the campaign went without a word. A
variant that takes down the driver's own machine must not vanish with it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dballoc.campaign.elsewhere.driver.store_answers import AnswerStore
from dballoc.campaign.elsewhere.place_blocks import Host
from dballoc.campaign.ways.way import Blocks
from dballoc.store.results import Results
from dballoc.store.rows import TrialUnderWayRow


@dataclass(frozen=True)
class LostBlock:
    """A block in whose trial its host went with the driver."""

    host: str
    design: str
    number: int


class CutTrials:
    """What a campaign that is resumed has of them. ``blocks``: by design; ``notice``: told what
    becomes of each.
    """

    def __init__(
        self,
        results: Results,
        store: AnswerStore,
        blocks: Mapping[str, Blocks],
        notice: Callable[[str], None],
    ) -> None:
        self._results = results
        self._store = store
        self._blocks = blocks
        self._notice = notice
        self._rows = results.list_rows(TrialUnderWayRow)

    def settle(self, hosts: Sequence[Host], *, is_over: bool = False) -> list[LostBlock]:
        """Store each trial as lost whose host has another kernel than then, which has started anew;
        those whose host went on are run again. What is of a host that is not there waits for it,
        unless the campaign ``is_over``.
        """
        lost, waiting = [], []
        kernels = {host.name: host.kernel for host in hosts}
        for row in self._rows:
            kernel = kernels.get(row.host)
            if kernel is None and not is_over:
                waiting.append(row)
            elif kernel == row.kernel:
                self._run_again(row)
            else:
                why = "it has not come back" if kernel is None else "it has started anew"
                lost += self._add_lost(row, f"{why} since the driver went in this trial")
        self._rows = waiting
        return lost

    def _add_lost(self, row: TrialUnderWayRow, reason: str) -> list[LostBlock]:
        if trial := self._find_trial(row):
            # How long it ran nobody knows.
            text = f"its host {row.host} was lost: {reason}"
            self._store.add_host_lost(trial, row.started, row.started, text)
            self._notice(f"{row.host} was lost in the trial of {trial.variant}: {reason}")
            return [LostBlock(row.host, row.design, row.block)]
        self._forget(row)
        return []

    def _run_again(self, row: TrialUnderWayRow) -> None:
        if trial := self._find_trial(row):
            self._notice(
                f"the last run ended without a word while {row.host} was in the trial of "
                f"{trial.variant}; that host went on, and the block is drawn again"
            )
        self._forget(row)

    def _forget(self, row: TrialUnderWayRow) -> None:
        self._results.forget_begun_trials(row.design, row.block, row.attempt)

    def _find_trial(self, row: TrialUnderWayRow) -> Any:
        """Return the trial of a row; None if the campaign has none there."""
        blocks = self._blocks.get(row.design)
        trials = blocks.list_trials(row.block, row.attempt) if blocks else ()
        return next((trial for trial in trials if trial.position == row.position), None)
