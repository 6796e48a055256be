"""A search is checked before its first start: room for its duets, and the host's THP mode."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dballoc.campaign.preparation import prepare, prepare_duet
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepare_duet import PreparedDuet, SharedHost
from dballoc.campaign.preparation.prepare_variant import MOST_DUET_CLIENTS, count_most_clients
from dballoc.campaign.trial.duet_trial import Slices
from dballoc.experiment.model import Experiment, Tune, Variant
from dballoc.ground.errors import UsageError
from dballoc.host.resources.cpu_halves import DuetCpus
from dballoc.host.settings import machine_lock, thp
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load.sysbench_command import Sysbench
from dballoc.search import prepare_tune as tune_preparation
from dballoc.search.plan_trials import Candidate
from dballoc.search.prepare_tune import (
    PreparedTune,
    list_pairable_modes,
    list_thp_modes,
    prepare_duets,
    settle_thp,
)
from dballoc.search.search_aim import parse_aim
from dballoc.search.search_space import THP, Knob, Space, apply_parameters
from dballoc.search.search_trials import SearchTrials
from dballoc.search.short_experiment import make_short_experiment

GIB = 2**30
MODES = ["always", "madvise", "never"]


def prepare_search(chosen: Experiment, **changes: Any) -> PreparedCampaign:
    """Return a search's campaign, of servers with a cache of 1 GiB, before its duet is added."""
    short = make_short_experiment(chosen, Tune.model_validate(changes), 3600.0)
    server: Any = SimpleNamespace(pool_bytes=GIB)
    nothing: Any = None
    return PreparedCampaign(
        experiment=short,
        variants={v.name: server for v in short.variant},
        user=ServerUser(None),
        sysbench=Sysbench(Path("/s"), "1.0", Path("/s")),
        contents=nothing,
    )


_TWO = (frozenset({0}), frozenset({1}))
_HALVES = DuetCpus(halves=_TWO, client_halves=_TWO)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``host(3.0)``: a host of two like CPUs with so many GiB of free memory."""
    monkeypatch.setattr(prepare_duet.cpu_halves, "choose_halves", lambda _: _HALVES)
    monkeypatch.setattr(prepare_duet.thp, "read_mode", lambda: "madvise")

    def set_memory(gib: float) -> None:
        memory = SimpleNamespace(available=int(gib * GIB))
        monkeypatch.setattr(prepare.psutil, "virtual_memory", lambda: memory)

    return set_memory


def test_a_search_has_no_duets_where_two_servers_have_no_room(
    experiment: Callable[..., Experiment], host: Callable[[float], None]
) -> None:
    preference = parse_aim("memory")
    setting = prepare_search(experiment())
    host(3.0)
    duets, why = prepare_duets(prepare._add_duet(setting), preference)
    assert (list(duets), why) == (["glibc", "jemalloc", "tuned"], None)
    host(2.0)
    small = prepare._add_duet(setting)
    duets, why = prepare_duets(small, preference)
    assert not duets
    assert why
    assert "for a duet's two servers, 2.0 GiB available" in why
    # A confirmation that is to be a duet could not run either.
    with pytest.raises(UsageError, match="for a duet's two servers"):
        prepare._add_duet(prepare_search(experiment(), design="duet"))


def test_a_search_has_no_duets_where_there_are_not_two_like_cpus(
    experiment: Callable[..., Experiment],
    host: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: object) -> None:
        raise UsageError("a duet needs two cores, there is one (CPU 0)")

    host(8.0)
    monkeypatch.setattr(prepare_duet.cpu_halves, "choose_halves", refuse)
    setting = prepare._add_duet(prepare_search(experiment()))
    duets, why = prepare_duets(setting, parse_aim("memory"))
    assert (duets, why) == ({}, "a duet needs two cores, there is one (CPU 0)")


def test_servers_of_a_search_have_room_for_the_clients_and_copies_of_a_duet(
    experiment: Callable[..., Experiment], host: Callable[[float], None]
) -> None:
    host(8.0)
    one = experiment(threads=[1])
    paired, alone = prepare_search(one), prepare_search(one, design="solo")
    assert count_most_clients(paired.experiment) == MOST_DUET_CLIENTS
    assert count_most_clients(alone.experiment) == 1
    assert (prepare._add_duet(paired).copies_at_once, alone.copies_at_once) == (2, 1)
    assert prepare_duets(alone, parse_aim("memory")) == ({}, None)
    assert prepare_duets(paired, parse_aim("memory,p99<=1.1")) == ({}, None)


@pytest.mark.parametrize(
    ("default", "host", "pairable", "searched"),
    [
        (None, "madvise", ["madvise", "never"], MODES),
        (None, "always", ["always", "never"], MODES),
        (None, "never", MODES, ["always", "madvise"]),
        ("never", "always", MODES, ["always", "madvise"]),
        ("madvise", "always", ["madvise", "never"], ["always", "never"]),
    ],
)
def test_which_thp_modes_are_searched(
    default: Any, host: str, pairable: list[str], searched: list[str]
) -> None:
    variant = Variant(name="glibc", thp=default)
    assert list_pairable_modes(variant, host) == pairable
    assert list_thp_modes(variant, host, needs_duet=False) == searched
    both = [mode for mode in searched if mode in pairable]
    assert list_thp_modes(variant, host, needs_duet=True) == both


def test_thp_is_searched_where_the_host_lets_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    obstacle = "the host is at 'madvise' and only root can switch it to 'always'; run as root"
    monkeypatch.setattr(tune_preparation.thp, "find_obstacle", lambda _: f"thp: {obstacle}")
    assert settle_thp(Tune()) == (Tune(thp=False), obstacle)
    assert settle_thp(Tune(thp=False)) == (Tune(thp=False), None)
    with pytest.raises(UsageError, match=r"^tune.thp: the host is at 'madvise' and only root"):
        settle_thp(Tune(thp=True))
    monkeypatch.setattr(tune_preparation.thp, "find_obstacle", lambda _: None)
    place = machine_lock.LockPlace(tmp_path / "run")
    monkeypatch.setattr(machine_lock, "THIS_MACHINE", place)
    assert settle_thp(Tune()) == (Tune(thp=True), None)
    # Without the machine's lock nothing may be switched.
    monkeypatch.setattr(
        machine_lock, "THIS_MACHINE", machine_lock.LockPlace(tmp_path / "no" / "run")
    )
    settled, why = settle_thp(Tune())
    assert (settled.thp, why) == (False, f"{tmp_path}/no/run: No such file or directory")


def test_a_search_of_the_thp_mode_has_the_machine_to_itself(
    experiment: Callable[..., Experiment],
) -> None:
    space = Space(knobs=(Knob(name=THP, words=("always", "never")),), presets=())
    malloc = Space(knobs=(Knob(name="arena_max", least=1, most=8),), presets=())
    nothing: Any = None
    setting = PreparedTune(
        experiment=experiment(variant=[{"name": "glibc"}]),
        variants={},
        user=ServerUser(None),
        sysbench=nothing,
        contents=nothing,
        thp={"thp": "madvise"},
        spaces={"glibc": malloc},
        preference=parse_aim("memory"),
        duets={"glibc": nothing},
        no_duets=None,
        no_thp=None,
    )
    assert (setting.switches_thp, setting.thp_settings) == (False, [])
    assert setting.pairable == {"glibc": ["madvise", "never"]}
    switching = replace(setting, spaces={"glibc": malloc, "jemalloc": space})
    assert (switching.switches_thp, switching.thp_settings) == (True, [thp.SETTING])


def test_in_a_duet_the_host_has_the_wider_thp_mode_of_both(
    experiment: Callable[..., Experiment],
) -> None:
    of_base = PreparedDuet(_HALVES, 4, {"glibc": SharedHost({}, (False, False))}, {})
    setting: Any = SimpleNamespace(
        experiment=experiment(), thp={"thp": "always"}, duets={"glibc": of_base}
    )
    session: Any = SimpleNamespace(setting=setting)
    nothing: Any = None
    trials = SearchTrials(session, nothing, {})
    for parameters, shared in (
        ({THP: "never"}, SharedHost({"thp": "always"}, (False, True))),
        ({"arena_max": "1"}, SharedHost({}, (False, False))),
    ):
        candidate = Candidate(
            base="glibc", origin="again", parameters=parameters, variant="glibc-1", design="duet"
        )
        variant = apply_parameters(Variant(name="glibc"), parameters, "glibc-1")
        prepared: Any = SimpleNamespace(variant=variant)
        assert trials._prepare_pair(candidate, prepared).thp == {"glibc-1": shared}


@pytest.mark.parametrize(
    ("duet", "slices"),
    [
        ({}, Slices(0.2, 20, 0.1)),
        ({"slice": "120ms"}, Slices(0.12, 20, 0.03)),
        ({"slice": "2s", "pairs": 4, "discard": "1s"}, Slices(2.0, 4, 1.0)),
    ],
)
def test_the_slices_of_a_search_count_for_something(
    experiment: Callable[..., Experiment], duet: dict[str, Any], slices: Slices
) -> None:
    setting = SimpleNamespace(experiment=experiment(duet=duet), duet=SimpleNamespace())
    session: Any = SimpleNamespace(setting=setting)
    nothing: Any = None
    assert SearchTrials(session, nothing, {})._choose_slices() == slices
