"""A search as it will run on this machine, found and checked before the first start."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import get_args

from dballoc.campaign.preparation import prepare
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepare_duet import PreparedDuet, prepare_duet, share_host
from dballoc.campaign.preparation.prepare_variant import (
    PreparedVariant,
    VariantInputs,
    prepare_variant,
)
from dballoc.campaign.replay.prepare_replay import PreparedReplay
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment, ThpMode, Tune, Variant
from dballoc.ground.errors import UsageError
from dballoc.host.resources import cpus
from dballoc.host.settings import machine_lock, thp
from dballoc.questions.campaign.answer.conditions_and_preference import Preference, check_preference
from dballoc.questions.tune.search_history import select_searched
from dballoc.search.replay_trials import prepare_replays
from dballoc.search.search_aim import check_bounds, make_search_aim, parse_aim
from dballoc.search.search_space import (
    THP,
    Parameters,
    Space,
    apply_parameters,
    build_space,
    check_changeable,
    check_left_alone,
    check_safe,
)
from dballoc.search.short_experiment import (
    choose_evenly,
    count_most_workloads,
    make_short_experiment,
)
from dballoc.store.facts import Facts

# Seconds of a search and its confirmation, where nothing is said.
DEFAULT_BUDGET = 3600.0


@dataclass(frozen=True, kw_only=True)
class PreparedTune(PreparedCampaign):
    """A search: ``spaces`` by base, each a variant of the experiment; ``preference``: by which the
    finalists are judged; ``replays``: of its first stage, where a trace is given; ``duets``: by
    base, in which leaders run beside their default; ``no_duets``: why there are none although they
    would tell what a leader costs; ``no_thp``: why the host's THP mode is not searched although
    nothing was said of it.
    """

    spaces: Mapping[str, Space]
    preference: Preference
    replays: PreparedReplay | None = None
    duets: Mapping[str, PreparedDuet]
    no_duets: str | None
    no_thp: str | None

    @property
    def tune(self) -> Tune:
        """What the experiment says of the search."""
        assert self.experiment.tune
        return self.experiment.tune

    @property
    def records(self) -> bool:
        """Whether its first trial is recorded: there is no trace, and something that a replay could
        try.
        """
        has_knobs = any(space.of_malloc.knobs for space in self.spaces.values())
        return self.experiment.record is not None and has_knobs

    @property
    def surveys(self) -> bool:
        """Whether short starts show which of the workloads the trials have."""
        return len(self.experiment.workloads) > count_most_workloads(self.experiment)

    def select_searched(self, facts: Facts) -> "PreparedTune":
        """Return it with the workloads that the results' facts say its trials have. Raises Failure
        if it does not have one of them.
        """
        return replace(self, experiment=select_searched(self.experiment, facts))

    @property
    def pairable(self) -> Mapping[str, Sequence[str]]:
        """By base that has duets, the host's THP modes that its configurations may have in one."""
        host = self.thp.get(thp.SETTING)
        return {base: list_pairable_modes(self.experiment.find(base), host) for base in self.duets}

    @property
    def thp_settings(self) -> list[str]:
        """The names of the host's THP settings that any configuration may ask."""
        searched = [thp.SETTING] if self._searches_thp else []
        return list(dict.fromkeys([*super().thp_settings, *searched]))

    @property
    def switches_thp(self) -> bool:
        """Whether any configuration may need other THP settings than the host's."""
        return self._searches_thp or super().switches_thp

    @property
    def _searches_thp(self) -> bool:
        return any(knob.name == THP for space in self.spaces.values() for knob in space.knobs)

    def prepare_candidate(self, base: str, parameters: Parameters, name: str) -> PreparedVariant:
        """Find and check what a configuration needs. Raises UsageError if it cannot be."""
        variant = apply_parameters(self.experiment.find(base), parameters, name)
        inputs = VariantInputs(self.experiment, self.user, self.sysbench, self.contents)
        return prepare_variant(inputs, variant)


def prepare_tune(experiment: Experiment) -> PreparedTune:
    """Find and check everything. Raises UsageError for whatever this machine cannot do as asked."""
    tune, no_thp = settle_thp(experiment.tune or Tune())
    preference = parse_aim(tune.aim)
    check_safe(tune)
    budget = experiment.budget or DEFAULT_BUDGET
    short = make_short_experiment(experiment, tune, budget)
    if preference.objective != "memory":
        workloads = choose_evenly(short.workloads, count_most_workloads(short))
        short = short.model_copy(update={"workloads": workloads})
    bases = [v.name for v in short.variant]
    check_preference(preference, bases, short.workloads, idle=False)
    check_bounds(preference, bases)
    setting = prepare.prepare_campaign(short)
    for prepared in setting.variants.values():
        check_changeable(tune, prepared.build.entry.fixed)
    check_left_alone(tune, [p.allocator for p in setting.variants.values()])
    duets, no_duets = prepare_duets(setting, preference)
    spaces = _build_spaces(setting, preference, has_duets=bool(duets))
    if not any(space.knobs for space in spaces.values()):
        names = ", ".join(p.allocator.name for p in setting.variants.values())
        raise UsageError(f"tune: there is nothing to set: {names}; see dballoc list settings")
    return PreparedTune(
        **{f.name: getattr(setting, f.name) for f in fields(setting)},
        spaces={name: space for name, space in spaces.items() if space.knobs},
        preference=preference,
        replays=prepare_replays(setting, tune.trace) if tune.trace else None,
        duets=duets,
        no_duets=no_duets,
        no_thp=no_thp,
    )


def _build_spaces(
    setting: PreparedCampaign, preference: Preference, *, has_duets: bool
) -> Mapping[str, Space]:
    """Return the space of each base. Memory that is bought with CPU is confirmed by duets, where
    there are any; so a THP mode that cannot be in one is not searched for it.
    """
    tune = setting.experiment.tune
    assert tune
    needs_duet = has_duets and preference.objective == "memory"
    host = setting.thp.get(thp.SETTING)
    spaces = {}
    for name, prepared in setting.variants.items():
        default = prepared.variant
        modes = list_thp_modes(default, host, needs_duet=needs_duet) if tune.thp else []
        spaces[name] = build_space(prepared.allocator, tune, _count_cores(prepared), modes)
    return spaces


def prepare_duets(
    setting: PreparedCampaign, preference: Preference
) -> tuple[Mapping[str, PreparedDuet], str | None]:
    """Return the fields ``duets`` and ``no_duets`` of :class:`PreparedTune`. None is needed where
    the CPU does not matter, or where the confirmation is to have none. The campaign was prepared
    with room for a duet's two servers, or says why it has none.
    """
    aim, experiment = make_search_aim(preference, 0), setting.experiment
    if Design.DUET not in experiment.designs or (
        aim.objective == "memory" and math.isinf(aim.bound)
    ):
        return {}, None
    if setting.duet is None:
        return {}, setting.no_duet
    duets = {}
    for variant in experiment.variant:
        alone = experiment.model_copy(update={"baseline": variant.name, "variant": [variant]})
        try:
            duets[variant.name] = prepare_duet(alone, setting.sysbench)
        except UsageError as error:
            return {}, str(error)
    return duets, None


def _count_cores(prepared: PreparedVariant) -> int:
    return len(prepared.server_cpus or cpus.list_available_cpus())


# -- the host's THP mode ---------------------------------------------------------------------------


def settle_thp(tune: Tune) -> tuple[Tune, str | None]:
    """Return what is searched, with ``thp`` true or false, and why it is false where nothing was
    said. Raises UsageError if it is asked for and this host cannot have it.
    """
    if tune.thp is False:
        return tune, None
    obstacle = _find_obstacle()
    if obstacle and tune.thp:
        raise UsageError(f"tune.thp: {obstacle}")
    return tune.model_copy(update={"thp": obstacle is None}), obstacle


def _find_obstacle() -> str | None:
    """Return why a search cannot switch the host's mode; None if it can."""
    for mode in get_args(ThpMode):
        if obstacle := thp.find_obstacle({thp.SETTING: mode}):
            return obstacle.removeprefix(f"{thp.SETTING}: ")
    try:
        os.close(machine_lock.open_directory(machine_lock.THIS_MACHINE.directory, make=True))
    except OSError as error:
        return f"{machine_lock.THIS_MACHINE.directory}: {error.strerror}"
    return None


def list_thp_modes(default: Variant, host: str | None, *, needs_duet: bool) -> list[str]:
    """Return the modes that are tried beside what the default has. ``host``: the host's own;
    ``needs_duet``: whether only a duet with the default can show that one keeps to what it may
    cost. Pure.
    """
    # With THP off for all there is nothing that a server could switch off for itself.
    unchanged = {default.thp} if default.thp or host != "never" else {"never"}
    possible = list_pairable_modes(default, host) if needs_duet else list(get_args(ThpMode))
    return [mode for mode in possible if mode not in unchanged]


def list_pairable_modes(default: Variant, host: str | None) -> list[str]:
    """Return the modes that a configuration may have in a duet with its default: the host has the
    wider mode of both, and it is switched off for one of them, if it must be. Pure.
    """
    return [
        mode
        for mode in get_args(ThpMode)
        if not isinstance(
            share_host([default, default.model_copy(update={"thp": mode})], host), str
        )
    ]
