"""``dballoc fit``: rounds of trials, each with a step of every variant's search, until every search
is over.

A round runs one trial of every variant whose search goes on, in an order drawn anew, so that drift
hits all alike. What is to be tried follows from the trials that are in the store, so a resume goes
on where it stopped.
"""

import json
import random
import shutil
import statistics
import time
from dataclasses import replace
from pathlib import Path

from dballoc.analysis.tables import largest_cache as analysis
from dballoc.analysis.tables.largest_cache import Probe
from dballoc.campaign.duration_estimate import solo_seconds
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import data_templates, rehearsal, user_files
from dballoc.campaign.preparation.prepare import Setting
from dballoc.campaign.preparation.prepare import settle as settle_all
from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.campaign.results_directory import Directory
from dballoc.campaign.session import Stop, known_facts, within
from dballoc.campaign.trials import solo_trial
from dballoc.campaign.trials.server_in_trial import Context, Interrupted
from dballoc.errors import UsageError
from dballoc.experiment import cache_size_search
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.host.guardian.guardian_client import Custody
from dballoc.servers.private import command_line as server_options
from dballoc.servers.private.data_template import Template
from dballoc.store.results import KIND, Results, TrialRecord

_MIB = 2**20
# A pool is rounded up to a whole number of chunks in each of up to eight instances.
_CHUNK = "loose-innodb-buffer-pool-chunk-size"
_INSTANCES = 8


def settle(experiment: Experiment) -> Setting:
    """Find and check everything. UsageError for whatever this machine cannot do as asked."""
    if experiment.limits.memory is None:
        raise UsageError(
            "fit: how much memory the server has is not said; give --memory SIZE, or limits.memory "
            "in the file"
        )
    of = cache_size_search.of_experiment(experiment)
    if of.steps < 2:
        raise UsageError(
            f"fit.tolerance: {format_size(of.tolerance)} is more than half of the memory limit, "
            f"{format_size(of.memory)}; "
            "lower it, or leave it out"
        )
    # One server at a time; a start runs all levels.
    setting = settle_all(
        experiment.model_copy(update={"design": "solo", "levels": "rising", "profile": None})
    )
    for name, prepared in setting.variants.items():
        if prepared.server.engine not in server_options.CACHES:
            raise UsageError(
                f"variant {name!r}: fit knows no cache of engine {prepared.server.engine!r}; it is "
                "for "
                f"{' and '.join(server_options.CACHES)}"
            )
    return setting


def at_size(prepared: PreparedVariant, of: cache_size_search.Range, size: int) -> PreparedVariant:
    """The variant with a cache of that size. Pure."""
    option = server_options.CACHES[prepared.server.engine]
    more = {option: str(size)}
    if prepared.server.engine == "innodb" and not any(
        server_options.bare(o) == server_options.bare(_CHUNK) for o in prepared.options
    ):
        # Else a server may round the pool up by 128 MiB and more.
        more[_CHUNK] = str(max(1, of.tolerance // _INSTANCES // _MIB) * _MIB)
    return replace(prepared, options=prepared.options | more, pool_bytes=size)


def run(setting: Setting, out: Path, observer: Observer) -> str:
    """Run or resume in ``out``; why it ended: ``planned``, ``budget``, ``interrupted``. UsageError
    or Failure in one line.
    """

    def work(directory: Directory, custody: Custody, stop: Stop) -> str:
        return _Fit(setting, directory, custody, observer, stop).run()

    return within(setting, out, observer, work)


class _Fit:
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
        self.of = cache_size_search.of_experiment(setting.experiment)
        self.directory = directory
        self.custody = custody
        self.observer = observer
        self.stop = stop
        self.results = self._open()
        self.seconds: list[float] = []
        self.began = time.monotonic() - self.results.spent()

    def run(self) -> str:
        try:
            try:
                why = self._rounds()
            except Interrupted:
                why = "interrupted"
            self.results.set_fact("ending", why)
            return why
        finally:
            self.results.close()

    def _open(self) -> Results:
        if (self.directory.path / "results.sqlite").exists():
            results = Results.open(self.directory.path)
            analysis.check(results, self.directory.path)
            directories = results.directories()
            self.observer.notice(f"resuming: {results.trials()} trials are there already")
            self.directory.forget_unfinished(directories)
            return results
        names = {
            name: server_options.CACHES[p.server.engine]
            for name, p in self.setting.variants.items()
        }
        known = known_facts(self.setting) | {
            KIND: analysis.VERB,
            "designs": "solo",
            "duet": "{}",
            "planned_blocks": "{}",
            "options": json.dumps(names),
        }
        # What a variant's own file says of the size is not what is tried.
        return Results.create(
            self.directory.path,
            known,
            [p.make_row() | {"pool_bytes": None} for p in self.setting.variants.values()],
        )

    def _rounds(self) -> str:
        made = data_templates.of_all_variants(
            self.setting, self.custody, self.observer, self.directory.path / "template.log"
        )
        user_files.keep_user_files(self.setting, self.directory.path, bool(self.results.trials()))
        rehearsal.rehearse(self.setting, self.custody, made, self.directory.path)
        self._warn_of_small_data(made)
        number = 1
        while places := self._places(number):
            finished = self.results.finished("solo")
            left = [
                (slot, size)
                for slot, size in places
                if (slot.block, slot.attempt, slot.position) not in finished
            ]
            if left:
                most = sum(
                    cache_size_search.at_most(self.of, self._before(v, number))
                    for v in self.setting.variants
                )
                most -= len(places) - len(left)
                self.observer.round_started(number, most, most * self._trial_seconds())
            for slot, size in left:
                if self._budget_is_used_up():
                    return "budget"
                self._try(slot, size, made[self.setting.variants[slot.variant].recipe.key])
            number += 1
        return "planned"

    def _warn_of_small_data(self, made: dict[str, Template]) -> None:
        smallest = min(template.size for template in made.values())
        if smallest < self.of.memory:
            self.observer.notice(
                f"the data take {smallest / _MIB:,.0f} MiB, the memory limit is "
                f"{self.of.memory / _MIB:,.0f} MiB: a cache "
                "that is larger than the data is never filled; raise --rows to find its limit"
            )

    def _places(self, number: int) -> list[tuple[Slot, int]]:
        """The trials of a round, in its order, with the size of each; none when every search is
        over.
        """
        wanted = {
            name: cache_size_search.state(self.of, self._before(name, number)).next
            for name in self.setting.variants
        }
        members = [(name, size) for name, size in wanted.items() if size is not None]
        random.Random(f"{self.experiment.seed}:fit:{number}").shuffle(members)
        return [
            (Slot(block=number, attempt=0, position=i, variant=name, role="V"), size)
            for i, (name, size) in enumerate(members, 1)
        ]

    def _before(self, variant: str, number: int) -> list[cache_size_search.Trial]:
        """What was seen of a variant in the rounds before this one."""
        return [p.trial for p in self._probes() if p.variant == variant and p.round < number]

    def _probes(self) -> list[Probe]:
        return analysis.probes(self.results)

    def _trial_seconds(self) -> float:
        return statistics.mean(self.seconds) if self.seconds else solo_seconds(self.setting)

    def _budget_is_used_up(self) -> bool:
        budget = self.experiment.budget
        return (
            budget is not None
            and time.monotonic() - self.began + self._trial_seconds() > budget
            and bool(self.results.trials())
        )

    def _try(self, slot: Slot, size: int, template: Template) -> None:
        began = time.monotonic()
        self.observer.trial_started(slot)
        path = self.directory.trial(slot.label)
        sized = at_size(self.setting.variants[slot.variant], self.of, size)
        setting = replace(self.setting, variants={**self.setting.variants, slot.variant: sized})
        self.stop.in_trial = True
        try:
            record = solo_trial.run_trial(
                Context(setting, self.custody, self.observer, lambda: self.stop.asked),
                slot,
                template,
                path,
            )
            record.probes.append({"asked": size, "pool_bytes": _had(path, sized)})
            self.results.add_trial(slot, record)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        finally:
            self.stop.in_trial = False
        self.seconds.append(time.monotonic() - began)
        self.observer.probe_finished(slot.variant, size, _words(record), record.trial["rss_peak"])


def _words(record: TrialRecord) -> str:
    if record.trial["outcome"] == "ok":
        return "survived"
    return "killed" if record.trial["fault"] == "oom" else str(record.trial["fault_text"])


def _had(path: Path, prepared: PreparedVariant) -> int | None:
    """The size as the server itself says; None if it was killed before it could be asked."""
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
