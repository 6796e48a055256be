"""--scale: what shrinks, how far, and what is refused."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc import catalogue
from dballoc.experiment import experiment_file, scale
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.load.post_like import fill_post

TWO = {0, 1}
BIG = {
    "server": {"options": {"innodb-buffer-pool-size": "80G", "sort_buffer_size": "2M"}},
    "data": {"tables": 16, "rows": 50_000_000},
    "threads": [8, 64, 256],
    "time": {"warmup": "10m", "level": "20m", "idle": "0s"},
}

Make = Callable[..., Experiment]


def test_rows_memory_times_and_levels_shrink_together(experiment: Make) -> None:
    small = scale.scale_experiment(experiment(**BIG), 0.01, TWO, "x")
    assert (small.data.tables, small.data.rows) == (16, 500_000)
    assert small.server.options == {"innodb-buffer-pool-size": "819M", "sort_buffer_size": "2M"}
    assert small.threads == [3, 20, 81]
    assert (small.time.warmup, small.time.level, small.time.idle) == (6.0, 12.0, 0.0)
    was = small.scaled
    assert was is not None
    assert "settle" not in experiment_file.format_experiment(small)
    assert (was.factor, was.rows, was.threads, was.level, was.memory) == (
        0.01,
        50_000_000,
        [8, 64, 256],
        1200.0,
        80 * 2**30,
    )


def test_what_cannot_be_measured_or_started_is_not_made(experiment: Make) -> None:
    tiny = scale.scale_experiment(
        experiment(**BIG | {"limits": {"memory": "2G"}, "budget": "1h"}), 1e-6, TWO, "x"
    )
    assert tiny.data.rows == scale.FEWEST_ROWS
    assert tiny.server.options["innodb-buffer-pool-size"] == "16M"
    assert (tiny.time.warmup, tiny.time.level, tiny.time.idle, tiny.budget) == (1.0, 3.0, 0.0, 60.0)
    assert tiny.limits.memory == 512 * 2**20
    assert tiny.threads == [1, 2, 8]


def test_settling_shrinks_like_the_times(experiment: Make) -> None:
    long = {
        "before": {"oltp_read_only": ["settle"]},
        "time": {"warmup": "0s", "settle": "10m", "level": "10m"},
    }
    assert scale.scale_experiment(experiment(**long), 0.01, TWO, "x").time.settle == 6
    assert scale.scale_experiment(experiment(**long), 0.0001, TWO, "x").time.settle == 1


def test_what_fit_searches_shrinks_with_its_memory(experiment: Make) -> None:
    searched = {"limits": {"memory": "120G"}, "fit": {"start": "80G", "tolerance": "4G"}}
    small = scale.scale_experiment(experiment(**searched), 1 / 64, TWO, "x")
    assert (small.limits.memory, small.fit.start, small.fit.tolerance) == (
        (1920 + 512) * 2**20,
        1280 * 2**20,
        64 * 2**20,
    )
    # Where the file leaves them out, they still follow from the memory.
    assert (
        scale.scale_experiment(experiment(limits={"memory": "120G"}), 1 / 64, TWO, "x").fit.start
        is None
    )


def test_a_variants_own_cache_shrinks_too(experiment: Make) -> None:
    options = {"rocksdb_block_cache_size": "10G"}
    variants = [{"name": "glibc"}, {"name": "big", "server": {"options": options}}]
    small = scale.scale_experiment(experiment(variant=variants), 0.1, TWO, "x")
    assert small.find("big").server.options == {"rocksdb_block_cache_size": "1G"}


def test_logs_shrink_too_and_are_no_caches(experiment: Make) -> None:
    options = {
        "innodb_buffer_pool_size": "74G",
        "innodb_redo_log_capacity": "100G",
        "innodb_log_file_size": "1G",
        "innodb_log_files_in_group": "4",
        "innodb_log_buffer_size": "64M",
        "max-binlog-size": "500M",
        "max_binlog_cache_size": "2G",
        "sync_binlog": "1",
    }
    init = {"innodb_log_file_size": "1G", "innodb_page_size": "16K"}
    server = {"options": options, "init_options": init}
    small = scale.scale_experiment(experiment(server=server), 0.01, TWO, "x")
    assert small.server.options == {
        "innodb_buffer_pool_size": "758M",
        "innodb_redo_log_capacity": "1G",
        "innodb_log_file_size": "16M",
        "innodb_log_files_in_group": "4",
        "innodb_log_buffer_size": "2M",
        "max-binlog-size": "5M",
        "max_binlog_cache_size": "20M",
        "sync_binlog": "1",
    }
    assert small.server.init_options == {"innodb_log_file_size": "16M", "innodb_page_size": "16K"}
    assert small.scaled is not None
    assert small.scaled.memory == 74 * 2**30


def test_rocksdbs_files_follow_its_cache(experiment: Make) -> None:
    def files(given: dict[str, str], share: float) -> str:
        options = {"rocksdb_block_cache_size": "10G", **given}
        server = {"engine": "rocksdb", "options": options}
        return scale.scale_experiment(experiment(server=server), share, TWO, "x").server.options[
            scale.FILES
        ]

    assert (
        files({}, 0.5)
        == "write_buffer_size=32M;target_file_size_base=32M;max_bytes_for_level_base=128M"
    )
    assert (
        files({}, 1e-6)
        == "write_buffer_size=1M;target_file_size_base=1M;max_bytes_for_level_base=1M"
    )
    own = {
        "rocksdb_default_cf_options": "compression=kLZ4Compression; target_file_size_base=32m;x={write_buffer_size=9}"
    }
    assert files(own, 0.5) == (
        "compression=kLZ4Compression; target_file_size_base=16M;x={write_buffer_size=9};write_buffer_size=32M;"
        "max_bytes_for_level_base=128M"
    )
    innodb = scale.scale_experiment(experiment(**BIG), 0.5, TWO, "x")
    assert scale.FILES not in innodb.server.options


def test_what_myrocks_sorts_in_follows_its_cache(experiment: Make) -> None:
    options = {"rocksdb_block_cache_size": "10G", "rocksdb-merge-buf-size": "128M"}
    small = scale.scale_experiment(
        experiment(server={"engine": "rocksdb", "options": options}), 0.25, TWO, "x"
    ).server.options
    assert (small["rocksdb-merge-buf-size"], small["rocksdb_merge_combine_read_size"]) == (
        "32M",
        "256M",
    )


def test_a_variants_own_files_shrink_too(experiment: Make) -> None:
    options = {scale.FILES: "write_buffer_size=8M"}
    variants = [{"name": "glibc"}, {"name": "flushing", "server": {"options": options}}]
    rocks = {"engine": "rocksdb", "options": {"rocksdb_block_cache_size": "10G"}}
    small = scale.scale_experiment(experiment(variant=variants, server=rocks), 0.25, TWO, "x")
    assert small.find("flushing").server.options == {scale.FILES: "write_buffer_size=2M"}
    assert small.server.options[scale.FILES].startswith("write_buffer_size=16M")


def test_innodb_beside_rocksdb_is_not_told_of_its_files(experiment: Make) -> None:
    rocks = {"engine": "rocksdb", "options": {"rocksdb_block_cache_size": "10G"}}
    small = scale.scale_experiment(
        experiment(
            baseline="innodb", variant=[{"name": "innodb"}, {"name": "rocksdb", "server": rocks}]
        ),
        0.5,
        TWO,
        "x",
    )
    assert not [name for name in small.server.options if name.startswith("rocksdb")]
    assert small.find("rocksdb").server.options[scale.FILES].startswith("write_buffer_size=32M")


@given(share=st.floats(1e-4, 1), threads=st.lists(st.integers(1, 4096), min_size=1, unique=True))
def test_levels_keep_their_order_and_never_grow(
    experiment: Make, share: float, threads: list[int]
) -> None:
    small = scale.scale_experiment(experiment(threads=threads), share, TWO, "x")
    assert small.threads == sorted({scale.scale_level(n, share) for n in threads})
    assert len(small.threads) <= len(threads)
    assert max(small.threads) <= max(threads)
    assert (
        experiment_file.build_experiment(
            experiment_file.parse_table(experiment_file.format_experiment(small), "x"), "x"
        )
        == small
    )


def test_the_whole_share_changes_no_figure(experiment: Make) -> None:
    one = experiment(**BIG)
    whole = scale.scale_experiment(one, 1.0, TWO, "x")
    assert (whole.data, whole.threads, whole.time, whole.server) == (
        one.data,
        one.threads,
        one.time,
        one.server,
    )


@pytest.mark.parametrize(
    ("asked", "have", "got"),
    [
        ({"server": "0-7", "client": "8-15"}, {0, 1}, {"server": "0", "client": "1"}),
        ({"server": "0-11", "client": "12-15"}, {0, 1, 2, 3}, {"server": "0-2", "client": "3"}),
        ({"server": "0-7", "client": "8-15"}, {5}, {"server": "5", "client": "5"}),
        ({"server": "0-7"}, {0, 1}, {"server": "0-1"}),
        ({"server": "0", "client": "1"}, {0, 1}, {"server": "0", "client": "1"}),
        ({"count": 8}, {0, 1}, {"count": 2}),
        ({"count": 2}, {0, 1, 2}, {"count": 2}),
    ],
)
def test_cpus_become_those_that_are_here(
    experiment: Make, asked: dict, have: set[int], got: dict
) -> None:
    small = scale.scale_experiment(experiment(cpu=asked), 0.5, have, "x")
    assert small.cpu.model_dump(exclude_none=True) == got


def test_tunables_over_the_cpus_follow_them(experiment: Make) -> None:
    table = {
        "baseline": "j", "workloads": ["oltp_read_only"], "threads": [1], "cpu": {"count": 32},
        "variant": [
            {"name": "j", "allocator": "jemalloc"},
            {"name": "more", "allocator": "jemalloc", "tunables": {"narenas": "16*cores", "thp": "never"}},
        ],
    }  # fmt: skip
    full = experiment_file.build_experiment(table, "x")
    assert full.find("more").tunables == {"narenas": "512", "thp": "never"}
    shrunk = scale.scale_table(table, "0.01", TWO, "x")
    small = experiment_file.build_experiment(shrunk, "x")
    assert small.find("more").tunables == {"narenas": "32", "thp": "never"}
    assert scale.restore_full_scale(small).variant == full.variant


def test_of_variants_that_come_out_alike_the_first_stays(experiment: Make) -> None:
    variants = [{"name": f"v{n}", "cpu": {"count": n}} for n in (4, 8, 16, 32)]
    small = scale.scale_experiment(experiment(variant=variants, baseline="v8"), 0.5, TWO, "x")
    assert [(v.name, v.cpu and v.cpu.count) for v in small.variant] == [("v4", 1), ("v32", 2)]
    assert small.baseline == "v4"
    assert small.scaled
    assert small.scaled.cpus == "4, 8, 16, 32"


@pytest.mark.parametrize("text", ["", "tiny", "0", "-1", "1.5", "nan", "inf", "1/2"])
def test_other_words_are_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="is neither small nor a number above 0 and up to 1"):
        scale.parse_share(text, 0.1, "x")


def test_small_is_what_the_experiment_says(experiment: Make) -> None:
    assert scale.parse_share("small", 0.25, "x") == 0.25
    with pytest.raises(UsageError, match=r"^my\.toml: --scale small needs the key small"):
        scale.parse_share("small", None, "my.toml")


def test_twice_and_own_data_are_refused(experiment: Make) -> None:
    with pytest.raises(UsageError, match=r"^x: --scale: the experiment is already scaled to 0\.5"):
        scale.scale_experiment(scale.scale_experiment(experiment(), 0.5, TWO, "x"), 0.5, TWO, "x")
    with pytest.raises(UsageError, match=r"^x: --scale: the data are your own"):
        scale.scale_experiment(experiment(data={"directory": "/backup"}), 0.5, TWO, "x")


WITH_A_SMALL_SCALE = [n for n, text in catalogue.experiments().items() if "\nsmall = " in text]


def build_shipped(name: str) -> Experiment:
    table = fill_post(experiment_file.parse_table(catalogue.experiments()[name], name), name)
    return experiment_file.build_experiment(table, name)


@pytest.mark.parametrize("name", WITH_A_SMALL_SCALE)
def test_what_an_experiment_was_can_be_told_from_the_small_one(name: str) -> None:
    """RocksDB's defaults, which are written out, excepted."""
    one = build_shipped(name)
    small = scale.scale_experiment(one, 0.001, {0}, name)
    text = experiment_file.format_experiment(small)
    assert experiment_file.build_experiment(experiment_file.parse_table(text, "x"), "x") == small
    was = scale.restore_full_scale(small)
    whole = ("threads", "data", "time", "limits", "cpu", "load", "workload", "profile_at")
    assert [getattr(was, key) for key in whole] == [getattr(one, key) for key in whole]
    for variant in was.variant:
        original = one.find(variant.name)
        assert was.cpu_of(variant) == one.cpu_of(original)
        server, expected = was.server_of(variant), one.server_of(original)
        assert server.init_options == expected.init_options
        for option, value in expected.options.items():
            assert server.options[option].startswith(value)
    assert [v.name for v in was.variant] == [v.name for v in one.variant]
    assert scale.restore_full_scale(one) == one


def test_what_an_experiment_was_is_no_part_of_its_identity(experiment: Make) -> None:
    """Results of before it was noted can be resumed."""
    small = scale.scale_experiment(experiment(**BIG), 0.01, TWO, "x")
    assert small.scaled is not None
    assert small.scaled.full.time is not None
    older = small.model_copy(
        update={"scaled": small.scaled.model_copy(update={"full": type(small.scaled.full)()})}
    )
    identities = {experiment_file.compute_identity(e) for e in (small, older)}
    assert len(identities) == 1
    was = scale.restore_full_scale(older)
    assert (was.threads, was.data.rows, was.time.level) == ([8, 64, 256], 50_000_000, 1200.0)


@pytest.mark.parametrize("name", WITH_A_SMALL_SCALE)
def test_every_shipped_experiment_is_small_enough_for_a_laptop(name: str) -> None:
    one = build_shipped(name)
    small = scale.scale_experiment(one, one.small or math.nan, TWO, name)
    assert small.data.tables * small.data.rows <= 4_000_000
    caches = [
        scale._parse_bytes(v) or 0 for k, v in small.server.options.items() if k in scale.CACHES
    ]
    assert max(caches) + small.threads[-1] * 2 * 2**20 < 4 * 2**30
    assert small.time.level <= 40
    assert small.time.settle <= 10
