"""A malloc of the user's own in any experiment: --preload, and --allocators with a path."""

from pathlib import Path

import pytest

from dballoc.cli.shared import experiment_from_flags
from dballoc.cli.shared.flags import ExperimentSource
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment

MINE = Path("/opt/malloc/libmine.so.2")


def read(name: str, **source: object) -> Experiment:
    return experiment_from_flags.read_experiment(
        ExperimentSource(named=name, **source),  # type: ignore[arg-type]
        {},
    )


def test_it_stands_beside_the_shipped_variants_on_their_server() -> None:
    shipped, model = read("quick"), read("quick", preload=[MINE])
    assert [v.name for v in model.variant] == ["glibc", "jemalloc", "mine"]
    mine = model.find("mine")
    assert (mine.allocator, mine.preload) == (None, [str(MINE)])
    assert model.server_of(mine) == model.server_of(model.find("glibc"))
    assert model.model_copy(update={"variant": shipped.variant}) == shipped


def test_a_path_among_the_allocators_is_the_same_variant() -> None:
    model = read("quick", allocators=f"glibc,{MINE}")
    assert model.variant == read("quick", allocators="glibc", preload=[MINE]).variant
    assert model.baseline == "glibc"
    alone = read("quick", allocators=f"{MINE}")
    assert (alone.baseline, [v.name for v in alone.variant]) == ("mine", ["mine"])


def test_a_name_with_so_in_it_is_no_path() -> None:
    variants = experiment_from_flags.make_variants(["some", "x.so", "./y", "libz.so.1.2"])
    assert [(v["name"], "preload" in v) for v in variants] == [
        ("some", False), ("x", True), ("y", True), ("z", True),
    ]  # fmt: skip


def test_it_runs_wherever_the_others_do() -> None:
    """On each number of CPUs, under each mode of THP."""
    on_cpus = read("percona-2013", preload=[MINE])
    mine = {v.name: v.cpu.count for v in on_cpus.variant if v.preload and v.cpu}
    assert mine == {"mine_4cpu": 4, "mine_8cpu": 8, "mine_16cpu": 16, "mine_32cpu": 32}
    with_thp = read("percona-2012", preload=[MINE])
    assert [(v.name, v.thp) for v in with_thp.variant if v.preload] == [
        ("mine-thp-always", "always"), ("mine-thp-never", "never"),
    ]  # fmt: skip


def test_it_has_the_baselines_server() -> None:
    table = {
        "baseline": "a", "workloads": ["oltp_read_only"], "threads": [1],
        "variant": [
            {"name": "a", "server": {"use": "mysql@9.7"}},
            {"name": "b", "server": {"use": "mariadb@11.8"}},
        ],
    }  # fmt: skip
    laid = experiment_from_flags.overlay(table, {"preload": [MINE]})
    model = experiment_file.build_experiment(laid, "x")
    assert [v.name for v in model.variant] == ["a", "b", "mine"]
    assert model.server_of(model.find("mine")).use == "mysql@9.7"


def test_no_two_variants_have_one_name(tmp_path: Path) -> None:
    paths = [Path(p) for p in ("/a/libjemalloc.so.2", "/b/libjemalloc.so.2", "/a/libjemalloc.so.2")]
    model = read("quick", preload=paths)
    assert [(v.name, v.preload) for v in model.variant[2:]] == [
        ("jemalloc-2", ["/a/libjemalloc.so.2"]), ("jemalloc-3", ["/b/libjemalloc.so.2"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("libmy malloc.so", "my-malloc"),
        ("lib.so", "lib.so"),
        ("_x.so", "malloc-_x"),
        ("lib" + "x" * 80 + ".so", "x" * 64),
        ("löcher.so.1", "l-cher"),
    ],
)
def test_every_file_name_gives_a_name_that_a_variant_may_have(file: str, name: str) -> None:
    assert read("quick", preload=[Path("/opt") / file]).variant[-1].name == name


def test_it_is_scaled_with_the_others() -> None:
    model = read("percona-2013", preload=[MINE], scale="small")
    assert [v.cpu.count for v in model.variant if v.preload and v.cpu] == sorted(
        {v.cpu.count for v in model.variant if not v.preload and v.cpu}
    )
