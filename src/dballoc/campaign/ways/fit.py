"""Fit: rounds of trials, each a step in every variant's search, until all searches are over.

A round runs one trial of every variant whose search goes on, in an order drawn anew, so that drift
affects all alike. The next size follows from the trials in the database alone, so a resume goes on
where the last run stopped.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dballoc.campaign.interruptible_session import Session
from dballoc.campaign.preparation import prepare
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.campaign.recorded_facts import make_server_facts
from dballoc.campaign.replay import first_cache_sizes
from dballoc.campaign.run_blocks import CampaignKind, CampaignRun
from dballoc.campaign.trial import solo_trial
from dballoc.campaign.ways.servers import prepare_data
from dballoc.campaign.ways.solo import estimate_solo_trial_seconds
from dballoc.campaign.ways.way import DurationEstimate, ServerBlocks
from dballoc.experiment import cache_size_search
from dballoc.experiment.designs import Design
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.experiment.model import LOAD, Experiment
from dballoc.experiment.schedule import Slot
from dballoc.ground.errors import UsageError
from dballoc.instruments.server_counters import Countable
from dballoc.questions.fit import figures
from dballoc.servers.private import command_line as server_options
from dballoc.servers.private import data_template, reserved_options
from dballoc.servers.private.data_template import Template
from dballoc.store.facts import Facts
from dballoc.store.results import Results, TrialRecord
from dballoc.store.rows import ProbeRow

_MIB = 2**20
# The server rounds a pool up to a whole number of chunks in each of up to eight instances.
_CHUNK = "loose-innodb-buffer-pool-chunk-size"
_INSTANCES = 8


def prepare_fit(experiment: Experiment) -> PreparedCampaign:
    """Find and check everything. Raises UsageError for whatever this machine cannot do as asked."""
    if experiment.limits.memory is None:
        raise UsageError(
            "fit: the server's memory limit is missing; give --memory SIZE, or limits.memory in "
            "the file"
        )
    sizes = cache_size_search.derive_range(experiment)
    if sizes.steps < 2:
        raise UsageError(
            f"fit.tolerance: {format_size(sizes.tolerance)} is more than half of the memory limit, "
            f"{format_size(sizes.memory)}; lower it, or leave it out"
        )
    # Only one server at a time, and one start for all workloads and levels.
    changes = {
        "design": Design.SOLO.value,
        "levels": "rising",
        "sequence": "cycle",
        "profile": None,
        "profile_at": None,
    }
    setting = prepare.prepare_campaign(experiment.model_copy(update=changes))
    # It looks for kills and compares no costs. The search replaces the cache size of a variant's
    # own options.
    setting = replace(
        setting,
        countable=Countable(),
        variants={name: replace(p, pool_bytes=None) for name, p in setting.variants.items()},
    )
    for name, prepared in setting.variants.items():
        if prepared.server.engine not in server_options.CACHES:
            raise UsageError(
                f"variant {name!r}: fit does not know the cache of engine "
                f"{prepared.server.engine!r}; it supports {' and '.join(server_options.CACHES)}"
            )
        if experiment.fit.guess and prepared.server.engine != "innodb":
            raise UsageError(
                f"variant {name!r}: --from is for InnoDB alone: the cache of "
                f"{prepared.server.engine} is allocated with malloc, so a trace cannot tell it "
                "apart"
            )
    return setting


def set_cache_size(
    prepared: PreparedVariant, sizes: cache_size_search.SizeRange, size: int
) -> PreparedVariant:
    """Return the variant with a cache of ``size`` bytes. Pure."""
    option = server_options.CACHES[prepared.server.engine]
    options = {option: str(size)}
    if prepared.server.engine == "innodb" and not any(
        reserved_options.bare(o) == reserved_options.bare(_CHUNK) for o in prepared.options
    ):
        # With the default chunk size a server may round the pool up by 128 MiB and more.
        options[_CHUNK] = str(max(1, sizes.tolerance // _INSTANCES // _MIB) * _MIB)
    return replace(prepared, options=prepared.options | options, pool_bytes=size)


class FitRounds(ServerBlocks[Slot]):
    """The rounds of a search: a trial of every variant whose search goes on, each of the size that
    follows from its earlier ones. Raises UsageError if a trace that gives first sizes is another
    one, or cannot be replayed.
    """

    def __init__(
        self, session: Session[PreparedCampaign], results: Results, templates: dict[str, Template]
    ) -> None:
        super().__init__(session, results, templates, estimate_solo_trial_seconds(session.setting))
        self._results = results
        self._sizes = cache_size_search.derive_range(session.setting.experiment)
        self._starts = self._find_starts()
        self._warn_about_small_data()

    def list_trials(self, number: int, attempt: int) -> Sequence[Slot]:
        """Return the trials of a round in its order; none when all searches are over."""
        going_on = [
            name for name in self._setting.variants if self._choose_size(name, number) is not None
        ]
        random.Random(f"{self._setting.experiment.seed}:fit:{number}").shuffle(going_on)
        return [
            Slot(block=number, attempt=attempt, position=i, variant=name, role="V")
            for i, name in enumerate(going_on, 1)
        ]

    def count_trials_at_most(self, number: int) -> int:
        """Return how many trials there may still be before round ``number``."""
        return sum(
            cache_size_search.count_trials_at_most(
                self._range_of(name), self._list_earlier_trials(name, number)
            )
            for name in self._setting.variants
        )

    def measure(self, slot: Slot, directory: Path) -> Sequence[TrialRecord]:
        """Try a variant's next size."""
        setting = self._setting
        size = self._choose_size(slot.variant, slot.block)
        assert size is not None
        sized = set_cache_size(setting.variants[slot.variant], self._sizes, size)
        setting = replace(setting, variants={**setting.variants, slot.variant: sized})
        record = solo_trial.run_trial(
            replace(self._session.trial_context, setting=setting),
            slot,
            self._find_template(slot.variant),
            directory,
        )
        actual = _read_actual_size(directory, sized)
        record.rows.append(ProbeRow(asked=size, pool_bytes=actual))
        return [record]

    def tell(self, slot: Slot, records: Sequence[TrialRecord]) -> None:
        """Tell the observer what became of a size."""
        [record] = records
        [probe] = record.select(ProbeRow)
        self._session.observer.probe_finished(slot.variant, probe.asked, record)

    def _warn_about_small_data(self) -> None:
        smallest = min(template.size for template in self._templates.values())
        experiment = self._setting.experiment
        if LOAD in experiment.workloads:
            smallest = max(smallest, data_template.tables_bytes(experiment.data))
        if smallest < self._sizes.memory:
            self._session.observer.notice(
                f"the data take {smallest / _MIB:,.0f} MiB, but the memory limit is "
                f"{self._sizes.memory / _MIB:,.0f} MiB: the load cannot fill a cache larger than "
                "the data; raise --rows to find the limit"
            )

    def _find_starts(self) -> dict[str, int]:
        """Return the variants' first sizes that a trace gives; kept, so that a resume goes on from
        the same ones.
        """
        if self._setting.experiment.fit.guess is None:
            return {}
        if (starts := self._results.facts().starts) is None:
            starts = first_cache_sizes.guess_first_sizes(self._session)
            self._results.change_facts(starts=starts)
        return starts

    def _range_of(self, variant: str) -> cache_size_search.SizeRange:
        """Return the range that a variant's search goes through, with its own start."""
        if (start := self._starts.get(variant)) is None:
            return replace(self._sizes, is_near=False)
        return replace(self._sizes, start=start)

    def _choose_size(self, variant: str, number: int) -> int | None:
        """Return the size that a variant tries in a round; None when its search is over."""
        earlier = self._list_earlier_trials(variant, number)
        return cache_size_search.compute_state(self._range_of(variant), earlier).next

    def _list_earlier_trials(self, variant: str, number: int) -> list[cache_size_search.Trial]:
        """Return the trials of a variant in the rounds before ``number``."""
        probes = figures.list_probes(self._results)
        return [p.trial for p in probes if p.variant == variant and p.round < number]


def _run_rounds(campaign: CampaignRun, _: dict[str, int]) -> None:
    """Run rounds until all searches are over, or the budget is used up."""
    rounds = campaign.blocks[Design.SOLO]
    assert isinstance(rounds, FitRounds)
    number = 1
    while trials := rounds.list_trials(number, 0):
        unfinished = campaign.list_unfinished(Design.SOLO, trials)
        if unfinished:
            most = rounds.count_trials_at_most(number) - len(trials) + len(unfinished)
            each = campaign.estimate_block_seconds(Design.SOLO)
            campaign.observer.round_started(number, most, most * each)
        for slot in unfinished:
            each = campaign.estimate_block_seconds(Design.SOLO)
            if campaign.results.trials() and each > campaign.find_budget_left():
                campaign.endings[Design.SOLO] = "budget"
                return
            began = time.monotonic()
            rounds.run_trial(slot)
            campaign.block_seconds[Design.SOLO].append(time.monotonic() - began)
        number += 1


def _make_facts(setting: PreparedCampaign, _: dict[str, int]) -> Facts:
    names = {name: server_options.CACHES[p.server.engine] for name, p in setting.variants.items()}
    return replace(make_server_facts(setting), kind="fit", options=names)


# The number of trials is not known before; each is a "block" of the budget.
FIT = CampaignKind(
    name="fit",
    estimate=lambda _: DurationEstimate(ways={}),
    make_facts=_make_facts,
    prepare_blocks=lambda session, results, *_: {
        Design.SOLO: FitRounds(session, results, prepare_data(session, results))
    },
    run_blocks=_run_rounds,
)


def _read_actual_size(path: Path, prepared: PreparedVariant) -> int | None:
    """Return the cache size that the server reports; None if it was killed before it could."""
    option = server_options.CACHES[prepared.server.engine].replace("-", "_")
    try:
        pairs = dict(
            line.split("\t", 1)
            for line in (path / "variables.tsv").read_text().splitlines()
            if "\t" in line
        )
        return int(pairs[option])
    except (OSError, KeyError, ValueError):
        return None
