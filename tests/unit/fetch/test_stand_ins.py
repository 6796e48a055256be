"""Stand-ins give way to what was fetched, and a resume stays with what it began with."""

from typing import Any

import pytest

from dballoc.experiment import experiment_file, scale
from dballoc.experiment.model import Experiment
from dballoc.fetch.stand_ins import describe_originals, use_originals

STORE = {
    ("jemalloc", "3.0.0"): "jemalloc@3.0.0",
    ("jemalloc", "3.1.0"): "jemalloc@3.1.0",
    ("tcmalloc", "2.0"): "tcmalloc@2.0",
}


def make(*stands_for: str, **more: Any) -> Experiment:
    variants = [
        {"name": f"v{i}", "allocator": "jemalloc@5.1.0", "stands_for": words}
        for i, words in enumerate(stands_for)
    ]
    table = {
        "baseline": "v0", "workloads": ["oltp_read_only"], "threads": [1],
        "variant": variants, **more,
    }  # fmt: skip
    return experiment_file.build_experiment(table, "x")


@pytest.mark.parametrize(
    ("stands_for", "allocator"),
    [
        ("jemalloc 3.1.0", "jemalloc@3.1.0"),
        ("jemalloc 3.0", "jemalloc@3.0.0"),
        ("gperftools tcmalloc 2.0", "tcmalloc@2.0"),
        ("jemalloc 3.1", "jemalloc@3.1.0"),
        ("jemalloc 3.1.1", "jemalloc@5.1.0"),
        ("jemalloc 3", "jemalloc@3.0.0"),
        ("tcmalloc 3.1.0", "jemalloc@5.1.0"),
        ("glibc 2.15, new malloc", "jemalloc@5.1.0"),
        ("gperftools tcmalloc of svn, early 2013", "jemalloc@5.1.0"),
    ],
)
def test_the_very_version_takes_the_place(stands_for: str, allocator: str) -> None:
    [variant] = use_originals(make(stands_for), STORE, None).variant
    assert variant.allocator == allocator
    assert (variant.stands_for is None) == (allocator != "jemalloc@5.1.0")


def test_each_one_is_said() -> None:
    written = make("jemalloc 3.1.0", "jemalloc 3.2.0")
    used = use_originals(written, STORE, None)
    assert list(describe_originals(written, used)) == [
        "v0: jemalloc@3.1.0 is in the store and runs, not its stand-in jemalloc@5.1.0"
    ]
    assert use_originals(written, {}, None) == written


def test_what_was_begun_stays_what_it_is() -> None:
    written = make("jemalloc 3.0.0", "jemalloc 3.1.0")
    assert use_originals(written, STORE, written) == written
    with_one = use_originals(written, {("jemalloc", "3.1.0"): "jemalloc@3.1.0"}, None)
    assert use_originals(written, STORE, with_one) == with_one


def test_the_full_scale_of_a_small_one_has_the_same_mallocs() -> None:
    written = make("jemalloc 3.1.0", cpu={"count": 8}, small=0.1)
    variants = [v.model_dump(mode="json", exclude_defaults=True) for v in written.variant]
    variants[0]["tunables"] = {"narenas": "cores"}
    table = {
        **written.model_dump(mode="json", exclude_defaults=True), "variant": variants,
    }  # fmt: skip
    small = experiment_file.build_experiment(scale.scale_table(table, "small", {0, 1}, "x"), "x")
    used = use_originals(small, STORE, None)
    assert used.variant[0].tunables == {"narenas": "2"}
    full = scale.restore_full_scale(used)
    assert [v.allocator for v in (*used.variant, *full.variant)] == ["jemalloc@3.1.0"] * 2
    assert full.variant[0].tunables == {"narenas": "8"}
