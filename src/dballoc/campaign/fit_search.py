"""``dballoc fit``: rounds of trials, each a step in every variant's search, until all searches are
over.

A round runs one trial of every variant whose search goes on, in an order drawn anew, so that drift
affects all alike. The next size follows from the trials in the database alone, so a resume goes on
where the last run stopped.
"""

import json
import random
import statistics
import time
from dataclasses import replace
from pathlib import Path

from dballoc.analysis.tables import largest_cache as analysis
from dballoc.campaign.duration_estimate import estimate_solo_trial_seconds
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import data_templates, prepare, rehearsal, user_files
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.campaign.recorded_facts import make_server_facts
from dballoc.campaign.replay import first_cache_sizes
from dballoc.campaign.session import Session, run_in_session
from dballoc.campaign.trials import solo_trial
from dballoc.campaign.trials.server_in_trial import Interrupted
from dballoc.errors import UsageError
from dballoc.experiment import cache_size_search
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.experiment.model import LOAD, Experiment
from dballoc.experiment.schedule import Slot
from dballoc.measure.server_counters import Countable
from dballoc.servers.private import command_line as server_options
from dballoc.servers.private import data_template
from dballoc.servers.private.data_template import Template
from dballoc.store.results import KIND, Results, TrialRecord

_MIB = 2**20
# The server rounds a pool up to a whole number of chunks in each of up to eight instances.
_CHUNK = "loose-innodb-buffer-pool-chunk-size"
_INSTANCES = 8
# The fact that holds the variants' first sizes, where a trace gives them.
_STARTS = "starts"


def prepare_fit(experiment: Experiment) -> PreparedCampaign:
    """Find and check everything. UsageError for whatever this machine cannot do as asked."""
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
        "design": "solo",
        "levels": "rising",
        "sequence": "cycle",
        "profile": None,
        "profile_at": None,
    }
    setting = prepare.prepare_campaign(experiment.model_copy(update=changes))
    # It looks for kills, and compares no costs.
    setting = replace(setting, countable=Countable())
    for name, prepared in setting.variants.items():
        if prepared.server.engine not in server_options.CACHES:
            raise UsageError(
                f"variant {name!r}: fit does not know the cache of engine "
                f"{prepared.server.engine!r}; it supports {' and '.join(server_options.CACHES)}"
            )
        if experiment.fit.guess and prepared.server.engine != "innodb":
            raise UsageError(
                f"variant {name!r}: --from is for InnoDB alone: the cache of "
                f"{prepared.server.engine} is itself malloc's, so its trace does not tell what is "
                "beside it"
            )
    return setting


def set_cache_size(
    prepared: PreparedVariant, sizes: cache_size_search.SizeRange, size: int
) -> PreparedVariant:
    """Return the variant with a cache of ``size`` bytes. Pure."""
    option = server_options.CACHES[prepared.server.engine]
    options = {option: str(size)}
    if prepared.server.engine == "innodb" and not any(
        server_options.bare(o) == server_options.bare(_CHUNK) for o in prepared.options
    ):
        # With the default chunk size a server may round the pool up by 128 MiB and more.
        options[_CHUNK] = str(max(1, sizes.tolerance // _INSTANCES // _MIB) * _MIB)
    return replace(prepared, options=prepared.options | options, pool_bytes=size)


def run_fit(setting: PreparedCampaign, out: Path, observer: Observer) -> str:
    """Run or resume the search in ``out``. Returns why it ended: ``planned``, ``budget`` or
    ``interrupted``. UsageError or Failure; what was finished is kept.
    """
    return run_in_session(setting, out, observer, lambda session: _Fit(session).run())


class _Fit:
    """The rounds of one search, and what they need."""

    def __init__(self, session: Session[PreparedCampaign]) -> None:
        self.session = session
        self.setting = session.setting
        self.experiment = session.setting.experiment
        self.sizes = cache_size_search.derive_range(self.experiment)
        self.directory = session.directory
        self.observer = session.observer
        self.results = self._open_results()
        self.trial_seconds: list[float] = []
        self.starts: dict[str, int] = {}
        self.began = time.monotonic() - self.results.spent()

    def run(self) -> str:
        try:
            try:
                why = self._run_rounds()
            except Interrupted:
                why = "interrupted"
            self.results.set_fact("ending", why)
            return why
        finally:
            self.results.close()

    def _open_results(self) -> Results:
        if (self.directory.path / "results.sqlite").exists():
            results = Results.open(self.directory.path)
            analysis.check_is_fit(results, self.directory.path)
            directories = results.directories()
            self.observer.notice(f"resuming: {results.trials()} trials are finished already")
            self.directory.remove_unfinished_trials(directories)
            return results
        names = {
            name: server_options.CACHES[p.server.engine]
            for name, p in self.setting.variants.items()
        }
        facts = make_server_facts(self.setting) | {
            KIND: analysis.VERB,
            "designs": "solo",
            "duet": "{}",
            "planned_blocks": "{}",
            "options": json.dumps(names),
        }
        # The cache size that a variant's own options give is not the one that is tried.
        return Results.create(
            self.directory.path,
            facts,
            [p.make_row() | {"pool_bytes": None} for p in self.setting.variants.values()],
        )

    def _run_rounds(self) -> str:
        templates = data_templates.prepare_data_templates(
            self.setting, self.session.custody, self.observer, self.directory.path / "template.log"
        )
        user_files.keep_user_files(self.setting, self.directory.path, bool(self.results.trials()))
        rehearsal.rehearse(self.setting, self.session.custody, templates, self.directory.path)
        self._warn_about_small_data(templates)
        self.starts = self._find_starts()
        number = 1
        while trials := self._list_trials(number):
            finished = self.results.finished("solo")
            unfinished = [
                (slot, size)
                for slot, size in trials
                if (slot.block, slot.attempt, slot.position) not in finished
            ]
            if unfinished:
                most = sum(
                    cache_size_search.count_trials_at_most(
                        self._range_of(v), self._list_earlier_trials(v, number)
                    )
                    for v in self.setting.variants
                )
                most -= len(trials) - len(unfinished)
                self.observer.round_started(number, most, most * self._estimate_trial_seconds())
            for slot, size in unfinished:
                if self._budget_is_used_up():
                    return "budget"
                recipe = self.setting.data_recipe(self.setting.variants[slot.variant], None)
                self._try_size(slot, size, templates[recipe.key])
            number += 1
        return "planned"

    def _warn_about_small_data(self, templates: dict[str, Template]) -> None:
        smallest = min(template.size for template in templates.values())
        if LOAD in self.experiment.workloads:
            smallest = max(smallest, data_template.tables_bytes(self.experiment.data))
        if smallest < self.sizes.memory:
            self.observer.notice(
                f"the data take {smallest / _MIB:,.0f} MiB, but the memory limit is "
                f"{self.sizes.memory / _MIB:,.0f} MiB: the load cannot fill a cache larger than "
                "the data; raise --rows to find the limit"
            )

    def _find_starts(self) -> dict[str, int]:
        """Return the variants' first sizes that a trace gives; kept, so that a resume goes on from
        the same ones.
        """
        if self.experiment.fit.guess is None:
            return {}
        if (kept := self.results.facts().get(_STARTS)) is None:
            kept = json.dumps(first_cache_sizes.guess_first_sizes(self.session))
            self.results.set_fact(_STARTS, kept)
        return dict(json.loads(kept))

    def _range_of(self, variant: str) -> cache_size_search.SizeRange:
        """Return the range that a variant's search goes through, with its own start."""
        if (start := self.starts.get(variant)) is None:
            return replace(self.sizes, is_near=False)
        return replace(self.sizes, start=start)

    def _list_trials(self, number: int) -> list[tuple[Slot, int]]:
        """Return the trials of a round in its order, each with its cache size; none when all
        searches are over.
        """
        sizes = {
            name: cache_size_search.compute_state(
                self._range_of(name), self._list_earlier_trials(name, number)
            ).next
            for name in self.setting.variants
        }
        members = [(name, size) for name, size in sizes.items() if size is not None]
        random.Random(f"{self.experiment.seed}:fit:{number}").shuffle(members)
        return [
            (Slot(block=number, attempt=0, position=i, variant=name, role="V"), size)
            for i, (name, size) in enumerate(members, 1)
        ]

    def _list_earlier_trials(self, variant: str, number: int) -> list[cache_size_search.Trial]:
        """Return the trials of a variant in the rounds before ``number``."""
        probes = analysis.list_probes(self.results)
        return [p.trial for p in probes if p.variant == variant and p.round < number]

    def _estimate_trial_seconds(self) -> float:
        return (
            statistics.mean(self.trial_seconds)
            if self.trial_seconds
            else estimate_solo_trial_seconds(self.setting)
        )

    def _budget_is_used_up(self) -> bool:
        budget = self.experiment.budget
        return (
            budget is not None
            and time.monotonic() - self.began + self._estimate_trial_seconds() > budget
            and bool(self.results.trials())
        )

    def _try_size(self, slot: Slot, size: int, template: Template) -> None:
        began = time.monotonic()
        self.observer.trial_started(slot)
        path = self.directory.make_trial_directory(slot.label)
        sized = set_cache_size(self.setting.variants[slot.variant], self.sizes, size)
        setting = replace(self.setting, variants={**self.setting.variants, slot.variant: sized})
        self.session.stop.in_trial = True
        try:
            record = solo_trial.run_trial(
                replace(self.session.trial_context, setting=setting), slot, template, path
            )
            record.probes.append({"asked": size, "pool_bytes": _read_actual_size(path, sized)})
            self.results.add_trial(slot, record)
        except BaseException:
            self.directory.remove_trial_directory(path)
            raise
        finally:
            self.session.stop.in_trial = False
        self.trial_seconds.append(time.monotonic() - began)
        self.observer.probe_finished(
            slot.variant, size, _describe_outcome(record), record.trial["rss_peak"]
        )


def _describe_outcome(record: TrialRecord) -> str:
    """Return ``survived``, ``killed``, or the fault's text."""
    if record.trial["outcome"] == "ok":
        return "survived"
    return "killed" if record.trial["fault"] == "oom" else str(record.trial["fault_text"])


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
