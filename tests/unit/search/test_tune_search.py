"""What a search tries next, whom it puts forward, and what each knob was worth."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_results import build

from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment, TraceReplay, Tune, Variant
from dballoc.questions.tune.search_history import (
    ConfigurationResult,
    Origin,
    Ratios,
    Tried,
    compare_with_default,
    list_front,
    load_tried,
    summarize_standings,
)
from dballoc.search.plan_trials import (
    Candidate,
    SearchAim,
    StageProgress,
    list_outcomes,
    name_variant,
    plan_next_trial,
)
from dballoc.search.search_space import THP, Knob, Space
from dballoc.search.short_experiment import (
    choose_evenly,
    choose_highest,
    count_most_workloads,
    make_confirmation,
    make_short_experiment,
    make_survey,
)
from dballoc.search.weigh_knobs import weigh_knobs
from dballoc.store.facts import Surveyed

AIM = SearchAim(objective="memory", bound=math.log(1.03), seed=1)
SPACE = Space(
    knobs=(Knob(name="arenas", least=1, most=8, log=True), Knob(name="fast", words=("0", "1"))),
    presets=({"arenas": "1"},),
)
LONG = StageProgress(progress=0.5, trials=100)


def tried(
    number: int,
    parameters: dict[str, str] | None = None,
    memory: float = 0.0,
    *,
    base: str = "glibc",
    origin: Origin = "search",
    fault: str | None = None,
    cost: float = 0.0,
    design: Design = Design.SOLO,
) -> Tried:
    parameters = parameters or {}
    alone = design is Design.SOLO and not fault
    duets = {"a": cost + 0.01, "b": cost - 0.01}
    return Tried(
        number=number,
        stage="server",
        base=base,
        origin=origin,
        variant="-".join([base, *(f"{k}={v}" for k, v in parameters.items())]),
        parameters=parameters,
        fault=fault,
        rss=round(1e8 * math.exp(memory)) if alone else None,
        costs={"a": 1e-3 * math.exp(cost), "b": 2e-3 * math.exp(cost)} if alone else {},
        seconds=10.0,
        design=design,
        ratios=duets if design is Design.DUET and not fault else {},
    )


def origins(number: int, pace: StageProgress) -> list[str]:
    trials: list[Tried] = []
    for i in range(1, number + 1):
        candidate = plan_next_trial({"glibc": SPACE}, trials, "server", AIM, pace)
        assert candidate
        trials.append(tried(i, dict(candidate.parameters), origin=candidate.origin))
    return [t.origin for t in trials]


def test_the_default_comes_first_then_presets_then_single_knobs_then_the_sampler() -> None:
    # arenas alone at its least is the preset.
    assert origins(9, LONG) == [*["default"] * 2, "preset", *["single"] * 3, *["search"] * 3]


def test_the_default_comes_again() -> None:
    assert [i for i, o in enumerate(origins(17, LONG)) if o == "default"] == [0, 1, 14]


def test_a_short_search_tries_no_single_knobs() -> None:
    assert "single" not in origins(9, StageProgress(progress=0.5, trials=7))


def test_bases_take_turns() -> None:
    trials: list[Tried] = []
    for i in range(1, 7):
        candidate = plan_next_trial({"a": SPACE, "b": SPACE}, trials, "server", AIM, LONG)
        assert candidate
        trials.append(tried(i, dict(candidate.parameters), base=candidate.base))
    assert [t.base for t in trials] == ["a", "b"] * 3


def test_at_the_end_the_leaders_are_tried_again_and_without_single_settings() -> None:
    late = StageProgress(progress=0.9, trials=20)
    leader = {"arenas": "2", "fast": "0"}
    trials = [tried(1), tried(2), tried(3, {"arenas": "1"}), tried(4, leader, -0.4)]
    again = plan_next_trial({"glibc": SPACE}, trials, "server", AIM, late)
    assert again
    assert (again.origin, again.parameters) == ("again", leader)
    trials.append(tried(5, leader, -0.4))
    simpler = plan_next_trial({"glibc": SPACE}, trials, "server", AIM, late)
    assert simpler
    assert (simpler.origin, simpler.parameters) == ("simpler", {"fast": "0"})


LEADER = {"arenas": "2"}
WITH_LEADER = [tried(1), tried(2), tried(3, {"arenas": "1"}, -0.01), tried(4, LEADER, -0.4)]


def plan_duet(
    trials: list[Tried],
    progress: float,
    modes: tuple[str, ...] | None = ("never",),
    space: Space = SPACE,
) -> Candidate | None:
    """Return the duet that comes next; None if another trial does."""
    pace = StageProgress(progress=progress, trials=100)
    pairable = {} if modes is None else {"glibc": modes}
    candidate = plan_next_trial({"glibc": space}, trials, "server", AIM, pace, pairable)
    return candidate if candidate and candidate.design is Design.DUET else None


def test_leaders_have_a_duet_each_by_turns_with_other_trials() -> None:
    duet = plan_duet(WITH_LEADER, 0.7)
    assert duet
    assert (duet.parameters, duet.origin, duet.variant) == (LEADER, "again", "glibc-arenas=2")
    assert plan_duet(WITH_LEADER, 0.5) is None
    assert plan_duet(WITH_LEADER, 0.7, None) is None
    after = [*WITH_LEADER, tried(5, LEADER, design=Design.DUET)]
    assert plan_duet(after, 0.7) is None
    better = [*after, tried(6, {"arenas": "3"}, -0.5)]
    duet = plan_duet(better, 0.7)
    assert duet
    assert duet.parameters == {"arenas": "3"}


def test_leaders_that_are_refined_have_two_duets() -> None:
    trials = list(WITH_LEADER)
    while duet := plan_duet(trials, 0.9):
        assert duet.parameters == LEADER
        trials.append(tried(len(trials) + 1, LEADER, design=Design.DUET))
        assert plan_duet(trials, 0.9) is None
        trials.append(tried(len(trials) + 1, LEADER, -0.4))
    assert len(trials) == 8


def test_duets_that_tell_nothing_are_not_repeated() -> None:
    third = tried(5, {"arenas": "3"}, -0.5)
    fault = tried(6, {"arenas": "3"}, design=Design.DUET, fault="no room")
    assert plan_duet([*WITH_LEADER, third, fault, tried(7)], 0.9)
    again = tried(8, LEADER, design=Design.DUET, fault="no room")
    assert plan_duet([*WITH_LEADER, third, fault, tried(7), again, tried(9)], 0.9) is None
    idle = replace(again, fault=None, ratios={})
    assert plan_duet([*WITH_LEADER, third, idle, tried(9)], 0.9) is None


def test_where_nothing_else_is_left_to_try_the_leaders_have_their_duets() -> None:
    space = Space(knobs=(Knob(name="fast", words=("0",)),), presets=())
    trials: list[Tried] = []
    early = StageProgress(progress=0.1, trials=100)
    while candidate := plan_next_trial(
        {"glibc": space}, trials, "server", AIM, early, {"glibc": ()}
    ):
        memory = -0.4 if candidate.parameters else 0.0
        trials.append(
            tried(len(trials) + 1, dict(candidate.parameters), memory, design=candidate.design)
        )
    assert [t.design for t in trials] == ["solo"] * 6 + ["duet"] * 2


def test_the_default_presets_and_a_thp_mode_that_cannot_be_had_beside_have_no_duet() -> None:
    assert plan_duet(WITH_LEADER[:1], 0.7) is None
    assert plan_duet([WITH_LEADER[0], WITH_LEADER[1], tried(3, LEADER, -0.4)], 0.7) is None
    modes = Knob(name=THP, words=("always", "never"))
    space = Space(knobs=(*SPACE.knobs, modes), presets=SPACE.presets)
    always = [*WITH_LEADER[:3], tried(4, {THP: "always"}, -0.4)]
    assert plan_duet(always, 0.7, space=space) is None
    never = plan_duet([*WITH_LEADER[:3], tried(4, {THP: "never"}, -0.4)], 0.7, space=space)
    assert never
    assert never.parameters == {THP: "never"}


def test_where_a_configuration_had_duets_they_say_what_it_costs() -> None:
    trials = [tried(1), tried(2, LEADER, -0.4, cost=0.3), tried(3, LEADER, design=Design.DUET)]
    assert compare_with_default(trials[2], trials) is None
    standing = summarize_standings(trials, "server")[-1]
    assert (standing.trials, standing.duets, standing.cost) == (1, (0.0,), 0.0)
    memory_and_cost = [o.objectives for o in list_outcomes(trials, AIM)]
    assert memory_and_cost == [(0.0, 0.0), (pytest.approx(-0.4, abs=1e-6), 0.0)]
    broken = [*trials, tried(4, LEADER, design=Design.DUET, fault="it died")]
    assert list_outcomes(broken, AIM) == list_outcomes(trials, AIM)
    assert summarize_standings(broken, "server")[-1].faults == 0


def test_a_stored_duet_says_what_its_configuration_costs_and_nothing_of_memory(
    tmp_path: Path,
) -> None:
    """Duets in which the partner costs 3 % less; the second one's baseline did nothing."""
    chosen = Experiment.model_validate(
        {
            "name": "small",
            "baseline": "glibc",
            "workloads": ["oltp_read_only"],
            "threads": [1],
            "design": "both",
            "time": {"warmup": "0s", "level": "2s", "idle": "1s"},
            "tune": {},
            "variant": [{"name": "glibc"}, {"name": "tuned"}],
        }
    )
    facts = "INSERT OR REPLACE INTO campaign VALUES ('kind', 'tune')"
    candidates = (
        "INSERT INTO candidate SELECT trial, 'server', 'glibc', 'again', '{\"x\": \"1\"}' "
        "FROM trial WHERE variant = 'tuned'"
    )
    idle = (
        "UPDATE slice SET events = 0 WHERE trial IN (SELECT trial FROM trial WHERE block = 2 AND "
        "design = 'duet' AND role = 'A1')"
    )
    directory = build(tmp_path / "r", chosen, 2, (facts, candidates, idle), ())
    tried = load_tried(directory)
    assert [(t.design, t.fault) for t in tried] == [("duet", None), ("solo", None)] * 2
    assert tried[0].ratios == {"oltp_read_only": pytest.approx(math.log(0.972))}
    assert (tried[0].rss, tried[0].costs, tried[2].ratios) == (None, {}, {})
    assert tried[1].rss
    assert tried[1].costs


def test_without_a_default_that_runs_nothing_of_a_base_is_tried() -> None:
    trials: list[Tried] = []
    while len(trials) < 20 and (
        candidate := plan_next_trial({"a": SPACE, "b": SPACE}, trials, "server", AIM, LONG)
    ):
        number, fault = len(trials) + 1, "killed" if candidate.base == "a" else None
        parameters = dict(candidate.parameters)
        trials.append(tried(number, parameters, base=candidate.base, fault=fault))
    assert [t.parameters for t in trials if t.base == "a"] == [{}] * 3
    assert len(trials) == 20
    alone = [t for t in trials if t.base == "a"]
    assert plan_next_trial({"a": SPACE}, alone, "server", AIM, LONG) is None


def test_a_default_that_ran_once_is_enough_to_go_on() -> None:
    trials = [tried(1, fault="killed"), tried(2, fault="killed"), tried(3)]
    candidate = plan_next_trial({"glibc": SPACE}, trials, "server", AIM, LONG)
    assert candidate
    assert candidate.origin == "preset"


def test_a_search_ends_when_there_is_nothing_else_to_try() -> None:
    space = Space(knobs=(Knob(name="fast", words=("0", "1")),), presets=())
    trials: list[Tried] = []
    gains = {"0": -0.4, "1": 0.0}
    while candidate := plan_next_trial({"glibc": space}, trials, "server", AIM, LONG):
        parameters = dict(candidate.parameters)
        memory = gains[parameters["fast"]] if parameters else 0.0
        trials.append(tried(len(trials) + 1, parameters, memory, origin=candidate.origin))
        assert len(trials) < 20
    # The leader has as many trials as it needs.
    assert [t.parameters.get("fast") for t in trials].count("0") == 4


def test_what_replays_put_forward_is_tried_on_servers_next() -> None:
    trials = [
        replace(t, stage="replay")
        for t in (tried(1), tried(2, {"arenas": "3"}, -0.4), tried(3, {"arenas": "5"}, 0.3))
    ]
    trials += [tried(4), tried(5), tried(6, {"arenas": "1"})]
    candidate = plan_next_trial({"glibc": SPACE}, trials, "server", AIM, LONG)
    assert candidate
    assert (candidate.origin, candidate.parameters) == ("front", {"arenas": "3"})


def test_names_follow_from_what_was_tried() -> None:
    trials = [tried(1), tried(2, {"arenas": "1"})]
    assert name_variant("glibc", {}, trials) == "glibc"
    assert name_variant("glibc", {"arenas": "1"}, trials) == trials[1].variant
    assert name_variant("glibc", {"arenas": "2"}, trials) == "glibc-2"
    assert name_variant("jemalloc", {"arenas": "2"}, trials) == "jemalloc-1"


def test_trials_are_relative_to_the_mean_of_their_own_default() -> None:
    trials = [
        tried(1, memory=0.1),
        tried(2, memory=-0.1),
        tried(3, base="jemalloc", memory=-1.0),
        tried(4, {"arenas": "1"}, -0.5, cost=0.02),
        tried(5, {"arenas": "2"}, fault="it hung"),
    ]
    memory, cost = compare_with_default(trials[3], trials) or (0.0, 0.0)
    assert memory == pytest.approx(-0.5, abs=1e-6)
    assert cost == pytest.approx(0.02)
    assert compare_with_default(trials[4], trials) is None
    assert compare_with_default(tried(6, {"x": "1"}, base="mimalloc"), trials) is None
    by_name = {s.variant: s for s in summarize_standings(trials, "server")}
    assert by_name["glibc"].memory == pytest.approx(0.0, abs=1e-6)
    assert by_name["glibc-arenas=2"].trials == 0
    assert by_name["glibc-arenas=2"].faults == 1


def test_the_front() -> None:
    standings = [
        ConfigurationResult(base="glibc", variant=name, readings=(Ratios(*ratios),))
        for name, ratios in (("a", (-0.5, 0.1)), ("b", (-0.3, 0.0)), ("c", (-0.2, 0.05)))
    ]
    assert [s.variant for s in list_front(standings)] == ["a", "b"]


def test_what_knobs_were_worth() -> None:
    """Without a trial of either alone: what they did beside each other tells."""
    trials = [tried(1), tried(2, memory=0.001), tried(3, memory=-0.002)]
    trials += [
        tried(
            4 + i,
            {"arenas": str(1 + i % 8), "fast": str(i // 8 % 2)},
            -0.4 if i % 8 == 0 else 0.0,
        )
        for i in range(24)
    ]
    arenas, fast = weigh_knobs({"glibc": SPACE}, trials)
    assert (arenas.stage, arenas.configurations) == ("server", 16)
    assert arenas.measurable is True
    assert arenas.memory_value == "1"
    assert arenas.memory_low < arenas.memory < arenas.memory_high < 1
    assert arenas.memory == pytest.approx(math.exp(-0.4), abs=0.1)
    assert fast.measurable is False
    assert fast.memory_low < 1 < fast.memory_high
    assert arenas.memory_share > fast.memory_share
    untried = weigh_knobs({"glibc": SPACE}, trials[:3])[0]
    assert (untried.measurable, untried.memory_share, untried.memory) == (None,) * 3


def test_knobs_are_weighed_in_replays_as_well() -> None:
    """Replays try each alone; servers have tried one of them, in what replays put forward."""
    space = Space(knobs=(*SPACE.knobs, Knob(name="server.x", words=("1",))), presets=SPACE.presets)
    singles = [{"arenas": "1"}, {"arenas": "8"}, {"fast": "0"}, {"fast": "1"}]
    replays = [tried(1), tried(2, memory=0.001)]
    replays += [
        tried(3 + i, s, -0.4 if s == {"arenas": "1"} else 0.0) for i, s in enumerate(singles * 2)
    ]
    trials = [replace(t, stage="replay") for t in replays]
    trials += [tried(11 + i, memory=0.002 * i) for i in range(3)]
    trials += [tried(14 + i, {"arenas": "1"}, -0.3 + 0.002 * i) for i in range(3)]
    rows = {(r.stage, r.knob): r for r in weigh_knobs({"glibc": space}, trials)}
    assert list(rows) == [
        ("server", "arenas"), ("server", "fast"), ("server", "server.x"),
        ("replay", "arenas"), ("replay", "fast"),
    ]  # fmt: skip
    assert [r.measurable for r in rows.values()] == [True, None, None, True, False]
    assert rows["replay", "arenas"].memory == pytest.approx(math.exp(-0.4), abs=0.1)


def test_a_space_without_effect_has_knobs_of_nothing_measurable() -> None:
    """Each knob in half of 60 trials that scatter: hardly one may seem to do anything."""
    names = [f"k{i}" for i in range(8)]
    space = Space(knobs=tuple(Knob(name=n, words=("1",)) for n in names), presets=())
    seemed = 0
    for seed in range(5):
        chance = np.random.default_rng(seed)
        trials = [
            tried(i, {n: "1" for n in names if i > 5 and chance.random() < 0.5},
                  chance.normal(0, 0.02), cost=chance.normal(0, 0.1))
            for i in range(1, 66)
        ]  # fmt: skip
        seemed += sum(r.measurable for r in weigh_knobs({"glibc": space}, trials))
    assert seemed <= 2


def experiment(**changes: object) -> Experiment:
    table = {
        "name": "mine",
        "baseline": "glibc",
        "workloads": ["load", *(f"w{i}" for i in range(12))],
        "threads": [1, 8],
        "levels": "fresh",
        "warm": ["w1"],
        "profile": "heap",
        "blocks": 9,
        "time": {"level": "5m", "warmup": "1m"},
        "variant": [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
    }
    return Experiment.model_validate({**table, **changes})


def test_trials_are_short_and_short_searches_have_room_for_fewer_workloads() -> None:
    short = make_short_experiment(experiment(), Tune(), 3600.0)
    assert short.threads == [8]
    assert short.time.level == 5.0
    assert short.tune == Tune()
    # A trial takes a 240th of the time at most: a workload of 7.5 s, and 2 s beside it.
    assert count_most_workloads(short) == 1
    assert count_most_workloads(make_short_experiment(experiment(), Tune(), 2 * 3600.0)) == 3
    assert count_most_workloads(make_short_experiment(experiment(), Tune(), 60.0)) == 1
    assert count_most_workloads(make_short_experiment(experiment(), Tune(), 10 * 3600.0)) > 12


def test_a_survey_has_a_start_for_each_workload_in_a_fifth_of_the_search() -> None:
    short = make_short_experiment(experiment(), Tune(), 3600.0)
    survey = make_survey(short)
    assert [s.workloads for s in survey] == [[w] for w in short.workloads]
    assert {(s.time.level, s.time.warmup) for s in survey} == {(1.0, 2.0)}
    # A start takes 5.5 s.
    few = make_survey(short.model_copy(update={"budget": 300.0}))
    assert [s.workloads[0] for s in few] == choose_evenly(short.workloads, 5)
    assert len(make_survey(short.model_copy(update={"budget": 10.0}))) == 1


def test_trials_have_the_workloads_with_the_highest_peak() -> None:
    names = ["reads", "sorts", "scans", "small", "writes"]
    one = make_short_experiment(experiment(workloads=names), Tune(), 3600.0)
    two = one.model_copy(update={"budget": 4800.0})
    assert (count_most_workloads(one), count_most_workloads(two)) == (1, 2)
    peaks = dict(zip(names, (110, 200, 400, 90, 130), strict=True))
    longest = dict(zip(names, (0.1, 0.8, 0.9, 0.1, 0.2), strict=True))
    surveyed = {w: Surveyed(peak=peaks[w], longest=longest[w]) for w in names}
    assert choose_highest(surveyed, two, []) == ["sorts", "writes"]
    # What the aim names is there, even if that leaves no room.
    assert choose_highest(surveyed, two, ["small"]) == ["sorts", "small"]
    assert choose_highest(surveyed, one, ["small", "scans"]) == ["scans", "small"]
    # Workloads of long events are better than none; where no peak is known, they are spread.
    slow = {w: Surveyed(peak=peaks[w], longest=2.0) for w in names}
    assert choose_highest(slow, one, []) == ["scans"]
    failed = {w: Surveyed(peak=None, longest=0.0) for w in names}
    assert choose_highest(failed, two, []) == ["sorts", "writes"]
    assert choose_highest(failed | {"small": surveyed["small"]}, two, []) == ["small"]
    assert choose_highest({}, one, ["small"]) == ["small"]
    # A survey that knows workloads of no experiment chooses none of them.
    assert choose_highest({"x": Surveyed(peak=999, longest=0.0)}, one, []) == ["writes"]


def test_the_baseline_is_recorded_where_there_is_no_trace_to_replay() -> None:
    trace = TraceReplay(trace="mine.trace", sha256="0" * 64)
    for tune, recorded in (
        (Tune(), True),
        (Tune(trace=trace), False),
        (Tune(replay=False), False),
    ):
        short = make_short_experiment(experiment(), tune, 3600.0)
        assert (short.record is not None) == recorded
        confirmation = make_confirmation(short, "glibc", [Variant(name="glibc-1")], 60.0)
        assert confirmation.record is None


def test_what_is_chosen_evenly() -> None:
    assert choose_evenly(list("abcdef"), 3) == ["b", "d", "f"]
    assert choose_evenly(list("abc"), 5) == ["a", "b", "c"]
    assert choose_evenly(list("abcdefg"), 1) == ["g"]


def test_a_confirmation_has_its_base_as_the_baseline() -> None:
    short = make_short_experiment(experiment(), Tune(), 3600.0)
    finalist = Variant(name="jemalloc-7", allocator="jemalloc", tunables={"narenas": "1"})
    confirmation = make_confirmation(short, "jemalloc", [finalist], 600.0)
    assert confirmation.baseline == "jemalloc"
    assert [v.name for v in confirmation.variant] == ["jemalloc", "jemalloc-7"]
    assert confirmation.tune is None
    assert confirmation.design is None
    assert confirmation.budget == 600.0
