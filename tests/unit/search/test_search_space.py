"""What a search may set, and how proposals follow from what was tried."""

import math
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc import catalogue
from dballoc.allocators import tunables
from dballoc.allocators.find_library import Allocator
from dballoc.experiment.model import Tune, Variant
from dballoc.experiment.sweep import evaluate_expression
from dballoc.ground.errors import UsageError
from dballoc.search import propose_parameters as proposals
from dballoc.search.propose_parameters import (
    Evaluation,
    make_study,
    propose_changes,
    propose_parameters,
)
from dballoc.search.search_aim import check_bounds, make_search_aim, parse_aim
from dballoc.search.search_space import (
    THP,
    Knob,
    Space,
    apply_parameters,
    build_space,
    check_changeable,
    check_left_alone,
    check_safe,
)

VERSIONS = {
    "glibc": "2.41",
    "jemalloc": "5.3.1",
    "tcmalloc": "2.10",
    "mimalloc": "2.1.7",
    "scudo": "19",
}


def malloc(name: str, version: str | None = None) -> Allocator:
    return Allocator(name=name, libraries=(), version=version or VERSIONS.get(name, ""))


def space_of(name: str, **changes: object) -> Space:
    return build_space(malloc(name), Tune.model_validate(changes), 8)


def test_the_catalogues_knobs_are_settings_with_values_that_their_malloc_takes() -> None:
    searched = 0
    for family in catalogue.tunables().values():
        for name, row in family["settings"].items():
            if "search" not in row:
                continue
            searched += 1
            version = VERSIONS.get(family["allocators"][0], "")
            assert set(row["search"]) <= {"values", "least", "most", "log", "needs"}, name
            assert ("values" in row["search"]) != ("least" in row["search"]), name
            assert set(row["search"].get("needs", {})) <= set(family["settings"]), name
            if not tunables.is_in_version(row, version):
                continue
            space = build_space(malloc(family["allocators"][0]), Tune(), 8)
            knob = next(k for k in space.knobs if k.name == name)
            for value in (*knob.words, *knob.ends):
                expected = tunables.describe_expected_value(family, row, value, version)
                assert expected is None, f"{name}: {value!r} is not {expected}"
                assert knob.takes(value)
    assert searched > 25


@pytest.mark.parametrize("name", VERSIONS)
def test_every_preset_can_be_proposed_by_the_search_as_well(name: str) -> None:
    family = next(f for f in catalogue.tunables().values() if name in f["allocators"])
    presets = family.get("presets", [])
    expressions = {tuple(sorted(p["settings"].items())) for p in presets}
    assert len(space_of(name).presets) == len(expressions)
    assert all(preset["why"] for preset in presets)


def test_a_setting_that_the_version_lacks_is_no_knob() -> None:
    old = build_space(malloc("glibc", "2.28"), Tune(), 8)
    assert "mxfast" not in {k.name for k in old.knobs}
    assert next(k for k in old.knobs if k.name == "tcache_count").most == 127


def test_presets_and_settings_may_be_withheld() -> None:
    space = space_of("glibc", presets=False, leave=["arena_max"])
    assert space.presets == ()
    assert "arena_max" not in {knob.name for knob in space.knobs}
    with pytest.raises(UsageError, match="'arena_mx' is not a setting of glibc"):
        check_left_alone(Tune(leave=["arena_mx"]), [malloc("glibc")])


def test_server_options_and_the_hosts_thp_mode_are_searched_where_asked() -> None:
    tune = Tune.model_validate({"space": {"innodb_buffer_pool_instances": ["1", "8"]}})
    space = build_space(malloc("jemalloc"), tune, 8, ["madvise", "never"])
    by_name = {knob.name: knob for knob in space.knobs}
    # jemalloc's own setting is another thing.
    assert {THP, "thp", "server.innodb_buffer_pool_instances"} <= set(by_name)
    assert by_name[THP].words == ("madvise", "never")
    assert THP not in {knob.name for knob in space_of("jemalloc", thp=True).knobs}
    variant = apply_parameters(
        Variant(name="jemalloc", allocator="jemalloc"),
        {THP: "never", "thp": "always", "server.innodb_buffer_pool_instances": "8"},
        "jemalloc-1",
    )
    assert variant.thp == "never"
    assert variant.tunables == {"thp": "always"}
    assert variant.server.options == {"innodb_buffer_pool_instances": "8"}


@pytest.mark.parametrize(
    "option",
    ["innodb_flush_log_at_trx_commit", "loose-skip-innodb-doublewrite", "innodb-flush-log-at-trx",
     "SYNC_BINLOG", "skip-grant-tables"],
)  # fmt: skip
def test_what_a_gain_would_be_paid_for_in_safety_is_not_searched(option: str) -> None:
    with pytest.raises(UsageError, match=f"^tune.space: {option} is not searched: ") as refused:
        check_safe(Tune(space={option: ["0"]}))
    assert "\n" not in str(refused.value)
    check_safe(Tune(space={"table_open_cache": ["400"], "innodb_buffer_pool_instances": ["1"]}))


def test_what_data_are_made_with_is_not_searched() -> None:
    for option in ("innodb_page_size", "loose-rocksdb-block-size", "INNODB-PAGE-SI"):
        with pytest.raises(UsageError, match=f"^tune.space: {option} is not searched: data are "):
            check_changeable(
                Tune(space={option: ["8K"]}), ["innodb-page-size", "rocksdb-block-size"]
            )
    check_changeable(Tune(space={"table_open_cache": ["400"]}), ["innodb-page-size"])


def test_a_knob_without_what_it_needs_is_no_knob() -> None:
    family = tunables.find_family(malloc("jemalloc", "5.3.0"))
    assert family
    rows = {
        n: row["search"].get("needs") for n, row in family["settings"].items() if "search" in row
    }
    [needing] = [name for name, needs in rows.items() if needs and "background_thread" in needs]
    whole = build_space(malloc("jemalloc", "5.3.0"), Tune(), 4)
    assert needing in {knob.name for knob in whole.knobs}
    left = build_space(malloc("jemalloc", "5.3.0"), Tune(leave=["background_thread"]), 4)
    assert needing not in {knob.name for knob in left.knobs}
    for space in (whole, left):
        assert all(space.takes(single) for single in space.singles)
        assert all(space.takes(preset) for preset in space.presets)


def test_a_mallocs_setting_is_no_option_of_the_server() -> None:
    with pytest.raises(UsageError, match=r"^tune.space: arena_max is a setting of glibc, and "):
        check_safe(Tune(space={"arena_max": ["1"]}))


SMALL = Space(
    knobs=(
        Knob(name="arenas", least=1, most=64, log=True),
        Knob(name="pad", least=4096, most=2**24, log=True, powers=True),
        Knob(name="threads", words=("true",)),
        Knob(name="most_threads", least=1, most=4, needs={"threads": "true"}),
    ),
    presets=(),
)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), number=st.integers(0, 12))
def test_what_is_proposed_is_in_the_space_and_follows_from_the_trials_alone(
    seed: int, number: int
) -> None:
    outcomes: list[Evaluation] = []
    for i in range(number):
        [parameters] = propose_parameters(SMALL, outcomes, 2, seed)
        failed = i % 5 == 4
        outcomes.append(
            Evaluation(parameters=parameters, objectives=None if failed else (i * 0.01, 0.0))
        )
    [proposed] = propose_parameters(SMALL, outcomes, 2, seed)
    assert [proposed] == propose_parameters(SMALL, list(outcomes), 2, seed)
    by_name = {knob.name: knob for knob in SMALL.knobs}
    for name, value in proposed.items():
        assert by_name[name].takes(value)
        assert by_name[name].is_active(proposed)


def test_a_refilled_study_has_the_values_that_were_measured_and_a_bad_one_for_a_fault() -> None:
    outcomes = [
        Evaluation(parameters={"arenas": "1", "pad": "65536"}, objectives=(-0.5, 0.02)),
        Evaluation(parameters={}, objectives=(0.0, 0.0)),
        Evaluation(parameters={"threads": "true", "most_threads": "3"}, objectives=None),
    ]
    trials = make_study(SMALL, outcomes, 2, 1).trials
    assert trials[0].params == {
        "arenas?": True, "arenas": 1, "pad?": True, "pad": 16, "threads": "",
    }  # fmt: skip
    assert trials[0].values == [-0.5, 0.02]
    assert trials[1].params == {"arenas?": False, "pad?": False, "threads": ""}
    assert trials[2].params["most_threads"] == 3
    assert trials[2].values == [proposals.FAILED] * 2


def test_a_trial_outside_the_space_is_left_out_of_the_study() -> None:
    outcomes = [
        Evaluation(parameters={"arenas": "100"}, objectives=(0.1, 0.0)),
        Evaluation(parameters={"gone": "1"}, objectives=(0.1, 0.0)),
        Evaluation(parameters={"pad": "5000"}, objectives=(0.1, 0.0)),
    ]
    assert make_study(SMALL, outcomes, 2, 1).trials == []


def test_changes_of_a_configuration_are_of_one_knob_each_and_those_that_need_it() -> None:
    leader = {"arenas": "2", "threads": "true", "most_threads": "3"}
    outcomes = [Evaluation(parameters=p, objectives=(0.0, 0.0)) for p in ({}, leader)]
    changes = propose_changes(SMALL, outcomes, 2, 3, leader)
    assert changes == propose_changes(SMALL, list(outcomes), 2, 3, leader)
    different = [
        {name for name in (*leader, "pad") if c.get(name) != leader.get(name)} for c in changes
    ]
    of_threads = {"threads", "most_threads"}
    assert all(len(names) == 1 or names == of_threads for names in different)
    assert {"arenas"} in different
    assert {"pad"} in different


def test_the_search_goes_where_it_is_better() -> None:
    def measure(parameters: dict[str, str]) -> tuple[float, float]:
        return math.log(int(parameters.get("arenas", 64)) / 64), 0.0

    outcomes: list[Evaluation] = []
    for _ in range(35):
        [parameters] = propose_parameters(SMALL, outcomes, 2, 7)
        outcomes.append(Evaluation(parameters=parameters, objectives=measure(parameters)))

    few = [o for o in outcomes[-20:] if int(o.parameters.get("arenas", 64)) <= 8]
    # At random, every fourth.
    assert len(few) >= 12


@pytest.mark.parametrize(
    ("text", "objective", "rule", "bound"),
    [
        ("memory", "memory", "cpu<=1.03", 1.03),
        ("speed", "speed", "speed,rss<=1.03", 1.03),
        ("rss, cpu<=1.01", "memory", "memory,cpu<=1.01", 1.01),
        ("cpu,rss<=1.2", "speed", "speed,rss<=1.2", 1.2),
        ("memory,p99<=1.1", "memory", "p99<=1.1", math.inf),
    ],
)  # fmt: skip
def test_what_a_search_is_for(text: str, objective: str, rule: str, bound: float) -> None:
    preference = parse_aim(text)
    assert preference.objective == objective
    assert preference == parse_aim(rule)
    assert make_search_aim(preference, 1).bound == pytest.approx(math.log(bound))


def test_a_bound_on_one_malloc_alone_is_refused_and_one_on_a_workload_is_kept() -> None:
    alone = parse_aim("memory,jemalloc:cpu<=1.01")
    with pytest.raises(UsageError, match=r"^--for: .*leave out 'jemalloc:'"):
        check_bounds(alone, ["glibc", "jemalloc"])
    of_workload = parse_aim("memory,oltp_read_only:cpu<=1.01")
    check_bounds(of_workload, ["glibc", "jemalloc"])
    assert make_search_aim(of_workload, 1).bound == pytest.approx(math.log(1.01))


@pytest.mark.parametrize("text", ["", "thrift", "memory,speed", "rss<=0.5"])
def test_what_no_search_can_be_for(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--for: "):
        parse_aim(text)


def test_a_search_goes_as_far_in_arenas_as_the_shipped_comparison_of_them() -> None:
    table = tomllib.loads(catalogue.experiments()["percona-2013-more-arenas"])
    written = [
        v["tunables"]["narenas"] for v in table["variant"] if "narenas" in v.get("tunables", {})
    ]
    assert written == ["8*cores", "16*cores"]
    [knob] = [k for k in space_of("jemalloc").knobs if k.name == "narenas"]
    assert (knob.least, knob.most) == (1, 128)
    assert all(knob.takes(str(evaluate_expression(text, 8))) for text in written)
