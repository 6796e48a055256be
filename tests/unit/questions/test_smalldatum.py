"""The experiments and figures of Small Datum, April 2025, against what the author published: his
my.cnf, his order, his units.
"""

import pytest

from dballoc import catalogue
from dballoc.cli.shared import experiment_from_flags
from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.experiment.model import Experiment
from dballoc.questions.published import post_figures
from dballoc.questions.published.post_figures import Published, PublishedTable

# github.com/mdcallag/mytools, bench/arc/apr25.c48.malloc/25apr.c48.inno.conf and …fbmy.conf, but for paths (datadir, tmpdir,
# innodb_data_home_dir, innodb_data_file_path, innodb_log_group_home_dir, rocksdb_wal_dir, that of log_bin), server_id, and
# default_authentication_plugin, which lets his clients log in.
COMMON = """
sql_mode=no_engine_substitution,no_unsigned_subtraction
default_tmp_storage_engine=MyISAM
long_query_time=5
log_bin=ON
max_binlog_size=256M
binlog_format=ROW
performance_schema=1
ssl=0
character_set_server=latin1
collation_server=latin1_swedish_ci
eq_range_index_dive_limit=10
sync_binlog=0
max_connections=1024
"""
INNODB = """
innodb_file_per_table=1
slow_query_log=1
innodb_fast_shutdown=1
innodb_doublewrite=1
innodb_flush_method=O_DIRECT_NO_FSYNC
innodb_autoinc_lock_mode=2
innodb_flush_neighbors=0
innodb_buffer_pool_load_at_startup=OFF
innodb_buffer_pool_dump_at_shutdown=OFF
innodb_purge_threads=8
innodb_flush_log_at_trx_commit=2
innodb_dedicated_server=ON
innodb_buffer_pool_size=80G
innodb_max_dirty_pages_pct_lwm=80
innodb_max_dirty_pages_pct=90
innodb_idle_flush_pct=1
innodb_io_capacity=10000
innodb_io_capacity_max=20000
innodb_adaptive_hash_index=OFF
innodb_page_cleaners=8
innodb_read_io_threads=8
innodb_write_io_threads=8
innodb_redo_log_capacity=100G
innodb_max_purge_lag=500000
innodb_max_purge_lag_delay=1000000
"""
MYROCKS = """
slow_query_log=OFF
binlog_checksum=crc32
default_storage_engine=rocksdb
skip_innodb=
transaction_isolation=READ-COMMITTED
rocksdb_flush_log_at_trx_commit=2
rocksdb_block_cache_size=10G
rocksdb_default_cf_options=level_compaction_dynamic_level_bytes=true;block_based_table_factory={cache_index_and_filter_blocks=1;filter_policy=bloomfilter:10:false;whole_key_filtering=1};optimize_filters_for_hits=true;max_write_buffer_number=4;write_buffer_size=32m;max_bytes_for_level_base=256m;compression_per_level=kNoCompression;bottommost_compression=kLZ4Compression
rocksdb_block_size=8192
rocksdb_cache_index_and_filter_with_high_priority=ON
rocksdb_cache_high_pri_pool_ratio=0.5
rocksdb_max_subcompactions=4
rocksdb_compaction_sequential_deletes=14999
rocksdb_compaction_sequential_deletes_count_sd=ON
rocksdb_compaction_sequential_deletes_window=15000
rocksdb_merge_combine_read_size=64M
"""
# rocksdb_max_background_compactions=12 and rocksdb_max_background_flushes=4 are one option in
# MariaDB; yield_check_frequency=10 is Facebook's alone.
OURS = {"innodb": {}, "rocksdb": {"rocksdb_max_background_jobs": "16"}}
CACHES = {
    "smalldatum-2025-innodb": "80G",
    "smalldatum-2025-innodb-fit": "80G",
    "smalldatum-2025-myrocks": "10G",
    "smalldatum-2025-myrocks-80g": "80G",
    "smalldatum-2025-myrocks-caches": "10G",
    "smalldatum-2025-myrocks-fit": "40G",
    "myrocks-arena-max": "10G",
    "myrocks-jemalloc-builds": "10G",
}
POSTS = [name for name in CACHES if name in catalogue.published()]


def read(name: str) -> Experiment:
    return experiment_from_flags.experiment(None, name, {})


def parse(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.split())


def post(name: str) -> Published:
    return post_figures.parse_published(name, *catalogue.published()[name])


def find_table(name: str, table: str) -> PublishedTable:
    return next(t for t in post(name).tables if t.name == table)


@pytest.mark.parametrize("name", CACHES)
def test_the_server_has_the_authors_options(name: str) -> None:
    server = read(name).server
    cache = "innodb_buffer_pool_size" if server.engine == "innodb" else "rocksdb_block_cache_size"
    stated = parse(COMMON + (INNODB if server.engine == "innodb" else MYROCKS))
    assert {**server.options, **server.init_options} == {
        **stated,
        **OURS[server.engine],
        cache: CACHES[name],
    }
    assert set(server.init_options) == {"character_set_server", "collation_server"}


@pytest.mark.parametrize("name", CACHES)
def test_the_order_is_the_authors(name: str) -> None:
    experiment = read(name)
    order = experiment.workloads
    assert order[0] == "load"
    assert order[-2:] == ["delete_range=100", "insert_range=100"]
    # The order of his per-operation figures, but for the scan, which he lists last.
    if name in ("smalldatum-2025-innodb", "smalldatum-2025-myrocks"):
        listed = [r for r in find_table(name, "cpu").rows if "." not in r]
        assert listed[-1] == "scan_range=100"
        assert [w for w in order if w != "scan_range=100"] == listed[:-1]
    assert order.index("scan_range=100") == order.index("read-write_range=100") + 1
    assert experiment.warm == ["point-query_range=100"]
    assert experiment.before == {
        "update-inlist_range=100": [
            "settle", "point-query_range=100", "range-notcovered-si_range=100",
        ],
        "scan_range=100": ["settle"],
        "points-covered-si_range=100": ["points-covered-si_range=100"],
    }  # fmt: skip
    # A minute, and a second for each million rows.
    data = experiment.data
    assert experiment.time.settle == 60 + data.tables * data.rows / 1e6


@pytest.mark.parametrize("name", POSTS)
def test_gb_are_binary_there(name: str) -> None:
    table = find_table(name, "memory")
    pool = parse_size(CACHES[name])
    values = {(c.row, c.measure): c.value for c in table.cells}
    ratios = 0
    for (row, measure), published in values.items():
        if measure == "peak_to_pool":
            ratios += 1
            # He cuts the third digit off rather than to round it.
            peak = values[row, "rss_peak"] * table.units["rss_peak"]
            assert peak / pool == pytest.approx(published, abs=0.0101)
            # Of 10⁹ bytes it would be 7 % less.
            assert values[row, "rss_peak"] * 1e9 / pool < published - 0.05
    assert ratios == len(table.rows)
    assert table.units["vsz_peak"] == table.units["rss_peak"] == 2**30


@pytest.mark.parametrize("name", ["smalldatum-2025-innodb", "smalldatum-2025-myrocks"])
def test_the_hosts_figures_are_those_of_every_test(name: str) -> None:
    expected = catalogue.cycles()["microbenchmarks"]["workloads"]
    cpus = post(name).cpus
    for title, table in ((t, find_table(name, t)) for t in ("cpu", "switches")):
        measured = {c.workload for c in table.cells if "." not in c.row}
        assert measured == set(expected), title
        for cell in table.cells:
            # Ours have none of his warm-ups, and no operation of a thousand rows.
            of_ours = "." not in cell.row and cell.workload != "scan_range=100"
            assert cell.variant == (cell.column if of_ours else None), cell
            per = "operation" if cell.workload == "load" else "query"
            assert cell.measure.endswith(f"_per_{per}")
    # 0.000255 % of the host for each query in a second.
    cpu = {(c.row, c.column): c.value for c in find_table(name, "cpu").cells}
    if name == "smalldatum-2025-innodb":
        point = cpu["point-query_range=100", "glibc"]
        assert point == pytest.approx(0.000255 / 100 * cpus * 1e6)
        # 369,292 queries a second of it are nearly all of his CPUs.
        assert 0.9 * cpus < point * 369_292 / 1e6 < cpus


def test_the_arenas_he_had_no_time_for_are_there() -> None:
    arenas = [v.env["MALLOC_ARENA_MAX"] for v in read("myrocks-arena-max").variant if v.env]
    assert arenas == ["1", "2", "4", "6", "8", "48", "96"]


@pytest.mark.parametrize("name", ["smalldatum-2025-innodb-fit", "smalldatum-2025-myrocks-fit"])
def test_what_fits_is_searched_in_his_memory(name: str) -> None:
    experiment = read(name)
    assert experiment.limits.memory == 120 * 2**30
    assert experiment.fit.start == parse_size(CACHES[name])
    assert [v.name for v in experiment.variant] == ["glibc", "tcmalloc", "jemalloc"]
