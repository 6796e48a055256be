"""``cpus`` and ``[longer]``: what they make of a file, and one line for what makes no sense."""

from typing import Any

import pytest

from dballoc.cli.shared.experiment_from_flags import experiment, overlay
from dballoc.experiment import experiment_file, schedule
from dballoc.experiment.model import Experiment, parse_cpu_counts
from dballoc.ground.errors import UsageError

BASE: dict[str, Any] = {
    "baseline": "glibc",
    "workloads": ["oltp_read_only"],
    "threads": [1],
    "variant": [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
}


def build(**changes: Any) -> Experiment:
    return experiment_file.build_experiment(BASE | changes, "x.toml", 16)


def list_cpus(model: Experiment) -> dict[str, int | None]:
    return {v.name: model.cpu_of(v).count for v in model.variant}


def test_every_variant_on_each_number() -> None:
    model = build(cpus=[16, 4], cpu={"client": "apart"})
    assert list_cpus(model) == {
        "glibc_4cpu": 4, "jemalloc_4cpu": 4, "glibc_16cpu": 16, "jemalloc_16cpu": 16,
    }  # fmt: skip
    assert model.baseline == "glibc_4cpu"
    assert {model.cpu_of(v).client for v in model.variant} == {"apart"}
    parts = model.split_by_cpus()
    assert [part.baseline for part in parts] == ["glibc_4cpu", "glibc_16cpu"]


def test_one_number_needs_no_other_names() -> None:
    assert list_cpus(build(cpus=[4])) == {"glibc": 4, "jemalloc": 4}


def test_cores_in_a_sweep_are_the_variants_own() -> None:
    swept = {"name": "glibc", "sweep": {"MALLOC_ARENA_MAX": ["1", "2*cores"]}}
    model = build(cpus=[4, 16], variant=[swept])
    assert [(v.name, v.env.get("MALLOC_ARENA_MAX")) for v in model.variant] == [
        ("glibc_4cpu", None),
        ("glibc_4cpu-MALLOC_ARENA_MAX=1", "1"),
        ("glibc_4cpu-MALLOC_ARENA_MAX=8", "8"),
        ("glibc_16cpu", None),
        ("glibc_16cpu-MALLOC_ARENA_MAX=1", "1"),
        ("glibc_16cpu-MALLOC_ARENA_MAX=32", "32"),
    ]
    assert [part.baseline for part in model.split_by_cpus()] == ["glibc_4cpu", "glibc_16cpu"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cpus": [4, 4]}, "x.toml: cpus: the same number twice"),
        ({"cpus": []}, "x.toml: cpus: give numbers of CPUs, like [4, 16]"),
        ({"cpus": 4}, "x.toml: cpus: give numbers of CPUs, like [4, 16]"),
        ({"cpus": ["4"]}, "x.toml: cpus: give numbers of CPUs, like [4, 16]"),
        ({"cpus": [0]}, "x.toml: cpus: give numbers of CPUs, like [4, 16]"),
        (
            {"cpus": [*range(1, 102)]},
            "x.toml: cpus: 202 variants; give fewer numbers, 200 variants at most",
        ),
        (
            {"cpus": [4], "cpu": {"server": "0-3", "client": "4-7"}},
            "x.toml: cpus: give either cpus or cpu.count, cpu.server and a list of cpu.client, not "
            "both",
        ),
        (
            {"cpus": [4], "cpu": {"client": "4-7"}},
            "x.toml: cpus: give either cpus or cpu.count, cpu.server and a list of cpu.client, not "
            "both",
        ),
        (
            {"cpus": [1, 2], "variant": [{"name": "glibc", "cpu": {"count": 1}}]},
            'x.toml: variant "glibc": cpu: every variant has the numbers of cpus; leave out one of '
            "the two",
        ),
    ],
)
def test_what_makes_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        build(**changes)
    assert str(raised.value) == message


@pytest.mark.parametrize("text", ["", "0", "4,4", "4,", "a", "4;8", "-1"])
def test_numbers_that_the_flag_refuses(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--cpus: "):
        parse_cpu_counts(text)


def test_the_flag_takes_the_place_of_what_the_file_says() -> None:
    for cpu in ({"count": 2}, {"server": "0", "client": "1"}):
        table = overlay(BASE | {"cpu": cpu}, {"cpu.count": parse_cpu_counts("4,8")})
        assert (table["cpus"], table["cpu"]) == ([4, 8], {})
    apart = overlay(BASE | {"cpu": {"client": "apart"}}, {"cpu.count": [4, 8]})
    assert apart["cpu"] == {"client": "apart"}
    sets = overlay(BASE | {"cpus": [4, 8]}, {"cpu.server": "0", "cpu.client": "1"})
    assert list_cpus(experiment_file.build_experiment(sets, "x")) == {
        "glibc": None, "jemalloc": None,
    }  # fmt: skip
    kept = overlay(BASE | {"cpus": [4, 8]}, {"cpu.client": "apart"})
    assert len(experiment_file.build_experiment(kept, "x").variant) == 4


def test_numbers_of_a_flag_come_before_the_scale() -> None:
    model = experiment(None, "percona-2013", {"cpu.count": [1, 2]})
    assert [v.name for v in model.variant] == [
        "glibc_1cpu", "jemalloc_1cpu", "tcmalloc_1cpu",
        "glibc_2cpu", "jemalloc_2cpu", "tcmalloc_2cpu",
    ]  # fmt: skip


def test_a_block_has_each_baseline_twice() -> None:
    model = build(cpus=[4, 16])
    for number in range(1, 6):
        slots = schedule.order_block(model, number)
        assert sorted((s.variant, s.role) for s in slots) == [
            ("glibc_16cpu", "A1"), ("glibc_16cpu", "A2"), ("glibc_4cpu", "A1"),
            ("glibc_4cpu", "A2"), ("jemalloc_16cpu", "V"), ("jemalloc_4cpu", "V"),
        ]  # fmt: skip


def test_turns_have_a_rotation_for_each_number() -> None:
    rotations = schedule.order_rotations(build(cpus=[4, 16]), 1, in_pairs=False)
    assert sorted(sorted(rotation.members) for rotation in rotations) == [
        [("glibc_16cpu", "A1"), ("glibc_16cpu", "A2"), ("jemalloc_16cpu", "V")],
        [("glibc_4cpu", "A1"), ("glibc_4cpu", "A2"), ("jemalloc_4cpu", "V")],
    ]
    assert {rotation.members[0][1] for rotation in rotations} == {"A1"}
    assert len({rotation.label for rotation in rotations}) == 2
    pairs = schedule.order_rotations(build(cpus=[4, 16]), 1, in_pairs=True)
    assert len(pairs) == 4
    for pair in pairs:
        assert pair.members[0][0].partition("_")[2] == pair.variant.partition("_")[2]


LONGER = {
    "from": "2h",
    "threads": [1, 64],
    "time": {"level": "30s"},
    "variant": [{"name": "mimalloc", "allocator": "mimalloc"}],
}


def test_a_longer_budget_changes_the_file() -> None:
    file = {"budget": "8m", "time": {"idle": "1s"}, "longer": LONGER}
    short = build(**file)
    assert (short.threads, short.time.level, len(short.variant)) == ([1], 30.0, 2)
    assert build(**(file | {"budget": "8m"})) == build(**{k: file[k] for k in ("budget", "time")})
    laid = experiment_file.lay_longer(BASE | file, "2h", "x.toml")
    long = experiment_file.build_experiment(laid | {"budget": "2h"}, "x.toml")
    assert (long.threads, long.time.level, long.time.idle) == ([1, 64], 30.0, 1.0)
    assert [v.name for v in long.variant] == ["glibc", "jemalloc", "mimalloc"]
    # The identity is that of the result, however it was written.
    plain = build(
        budget="2h", threads=[1, 64], time={"idle": "1s", "level": "30s"},
        variant=[*BASE["variant"], *LONGER["variant"]],
    )  # fmt: skip
    assert experiment_file.compute_identity(long) == experiment_file.compute_identity(plain)


@pytest.mark.parametrize(
    ("longer", "message"),
    [
        ("2h", 'x.toml: longer: give from = "2h", and the keys that a longer budget changes'),
        ({"from": "2h"}, 'x.toml: longer: give from = "2h", and the keys that'),
        ({"threads": [1]}, 'x.toml: longer: give from = "2h", and the keys that'),
        ({"from": "soon", "threads": [1]}, "x.toml: longer.from: 'soon' is not a duration"),
        (
            {"from": "5m", "threads": [1]},
            "x.toml: longer.from: 5m is no longer than the file's own budget, 8m",
        ),
        ({"from": "2h", "thread": [1]}, "x.toml: longer.thread: this is no key that"),
        ({"from": "2h", "budget": "3h"}, "x.toml: longer.budget: this is no key that"),
        ({"from": "2h", "longer": {}}, "x.toml: longer.longer: this is no key that"),
    ],
)
def test_a_longer_budget_that_makes_no_sense(longer: Any, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        build(budget="8m", longer=longer)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
