"""Which options of another server a private one takes, and which spelling of a value means the
same.
"""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.catalogue import foreign_options
from dballoc.servers.private.reserved_options import RESERVED, check
from dballoc.servers.running import adopted_options

pytestmark = pytest.mark.long


def take(*arguments: str, plugins: Path | None = None) -> adopted_options.Taken:
    return adopted_options.take(adopted_options.parse(arguments), plugins)


def test_what_is_taken() -> None:
    taken = take(
        "--innodb-buffer-pool-size=1G",
        "--skip-name-resolve",
        "--sql_mode=",
        "--loose-read_buffer_size=3",
        "--sort_buffer_size",
        "4M",
    )
    assert taken.options == {
        "innodb_buffer_pool_size": "1G",
        "skip_name_resolve": "",
        "sql_mode": "''",
        "loose_read_buffer_size": "3",
        "sort_buffer_size": "4M",
    }
    assert taken.notes() == []


@pytest.mark.parametrize(
    ("argument", "group"),
    [
        ("--datadir=/x", "paths"), ("--innodb_ft_aux=/x", "paths"), ("--innodb_flush_method=/x", "paths"), ("--tmpdir=./x", "paths"), ("--port=3306", "network and identity"),
        ("--skip-networking", "network and identity"), ("--server-id=3", "network and identity"),
        ("--log-bin", "replication and the binary log"), ("--loose-wsrep_on=ON", "replication and the binary log"),
        ("--skip-log-bin", "replication and the binary log"), ("--gtid_mode=ON", "replication and the binary log"),
        ("--slow_query_log=1", "logs"), ("--log_error=x", "logs"), ("--ssl-ca=x", "TLS, accounts and encryption"),
        ("--skip-grant-tables", "TLS, accounts and encryption"), ("--innodb_encrypt_tables=ON", "TLS, accounts and encryption"),
        ("--event-scheduler=ON", "what only its own data can have"), ("--plugin-load-add=nosuch", "plugins"),
        *((argument, "not known to matter for memory or speed") for argument in (
            "--local-infile", "--local_infile=1", "--loose-local-infile=ON", "--allow_suspicious_udfs=1", "--local-inf=1", "--no-such-option=1")),
        *((argument, "values that could name a file or a host") for argument in (
            "--rocksdb_fs_uri=hdfs://h/x", "--rocksdb-fs-uri=h", "--innodb_buffer_pool_size=db7.example.com",
            "--sql_mode=x.so", "--performance-schema-instrument=x", "--rocksdb_default_cf_options=x://y")),
    ],
)  # fmt: skip
def test_what_is_left_out(argument: str, group: str) -> None:
    taken = take(argument)
    assert (taken.options, taken.init_options) == ({}, {})
    assert list(taken.left_out) == [group]
    assert taken.notes()[0].startswith(f"left out ({group}): ")


DATA = Path(__file__).parents[2] / "data/server-options"
# What each server's --help --verbose lists: names and defaults.
SERVERS = {
    path.stem: dict([*line.split(" ", 1), ""][:2] for line in path.read_text().splitlines())
    for path in DATA.iterdir()
}
# Names whose values are files, hosts, programs or libraries.
REACHING = re.compile(
    "(.*-)?(dirs?|directory|directories|path|file|filename|socket|ur[il]|host|address|cmd|provider|proxy|home|capath|cert|key|ca|crl|crlpath|"
    "chroot|basedir|datadir|tmpdir|index|suspicious-udfs|infile|symbolic-links|feedback)(-path)?"
)
# They end so, and are numbers, switches or tables.
HARMLESS = {"innodb-adaptive-hash-index", "innodb-force-primary-key", "innodb-cmp-per-index", "max-seeks-for-key", "sql-require-primary-key",
            "restrict-fk-on-non-standard-key", "sql-generate-invisible-primary-key", "rocksdb-blind-delete-primary-key", "innodb-file-per-table"}  # fmt: skip
LEADS_OUT = (
    "/tmp/x", "../x", "~/x", "x.so", "hdfs://h/x", "s3://b/x", "db7.example.com", "db7:3306", "10.0.0.1", "[::1]:1", "a b", "x;y", "$(touch x)",
    "`id`", "|id", "a\nb", "a\rb=c", "\\\\host\\x", "x@h", "x\0", "\x1b[2J", "ｘ", "--x",
)  # fmt: skip
# What is tuned most often.
TUNED = {
    "mariadb-10.11": """innodb_buffer_pool_size innodb_log_file_size innodb_log_buffer_size innodb_flush_log_at_trx_commit innodb_flush_method
        innodb_io_capacity innodb_io_capacity_max innodb_read_io_threads innodb_write_io_threads innodb_file_per_table innodb_lock_wait_timeout
        innodb_purge_threads innodb_stats_on_metadata innodb_open_files innodb_doublewrite innodb_autoinc_lock_mode innodb_adaptive_hash_index
        innodb_buffer_pool_chunk_size innodb_max_dirty_pages_pct innodb_old_blocks_time innodb_sort_buffer_size innodb_undo_tablespaces
        innodb_page_size key_buffer_size query_cache_size query_cache_type query_cache_limit sort_buffer_size join_buffer_size read_buffer_size
        read_rnd_buffer_size bulk_insert_buffer_size myisam_sort_buffer_size aria_pagecache_buffer_size tmp_table_size max_heap_table_size
        tmp_disk_table_size table_open_cache table_definition_cache table_open_cache_instances thread_cache_size thread_handling
        thread_pool_size thread_stack max_connections max_allowed_packet max_prepared_stmt_count max_user_connections max_connect_errors
        back_log wait_timeout interactive_timeout connect_timeout net_read_timeout net_buffer_length skip_name_resolve performance_schema
        performance_schema_digests_size performance_schema_max_table_instances sql_mode character_set_server collation_server
        transaction_isolation optimizer_switch optimizer_search_depth lower_case_table_names large_pages host_cache_size
        group_concat_max_len concurrent_insert delay_key_write flush sync_frm userstat max_session_mem_used mrr_buffer_size""",
    "mysql-9.7": """innodb_buffer_pool_size innodb_buffer_pool_instances innodb_redo_log_capacity innodb_log_buffer_size innodb_dedicated_server
        innodb_flush_method innodb_io_capacity innodb_thread_concurrency innodb_page_cleaners innodb_parallel_read_threads innodb_ddl_buffer_size
        innodb_ddl_threads innodb_doublewrite innodb_doublewrite_pages innodb_sync_array_size innodb_spin_wait_delay temptable_max_ram
        temptable_max_mmap internal_tmp_mem_storage_engine schema_definition_cache tablespace_definition_cache stored_program_definition_cache
        global_connection_memory_limit connection_memory_limit connection_memory_chunk_size global_connection_memory_tracking parser_max_mem_size
        range_optimizer_max_mem_size set_operations_buffer_size select_into_buffer_size table_open_cache max_connections
        performance_schema_error_size max_execution_time cte_max_recursion_depth super_large_pages join_buffer_size""",
    "rocksdb-11.8": """rocksdb_block_cache_size rocksdb_db_write_buffer_size rocksdb_max_background_jobs rocksdb_max_total_wal_size
        rocksdb_max_open_files rocksdb_use_direct_reads rocksdb_flush_log_at_trx_commit rocksdb_block_size rocksdb_bytes_per_sync
        rocksdb_merge_buf_size rocksdb_table_cache_numshardbits rocksdb_cache_index_and_filter_blocks rocksdb_write_policy""",
}  # fmt: skip


@pytest.mark.parametrize("server", SERVERS)
def test_nothing_that_reaches_out_or_loads_is_taken(server: str) -> None:
    for name, default in SERVERS[server].items():
        # Of a name that is on no list, no value is taken.
        on_a_list = adopted_options._list_kinds(name, foreign_options()["take"])
        for value in LEADS_OUT if on_a_list else LEADS_OUT[:2]:
            taken = take(f"--{name}={value}")
            assert taken.options == taken.init_options == {}, (name, value)
            assert taken.notes() or name == "default-storage-engine"
        if REACHING.fullmatch(name) and name not in HARMLESS:
            for value in (default, "1", "ON", "x"):
                taken = take(f"--{name}={value}")
                assert taken.options == taken.init_options == {}, (name, value)


@pytest.mark.parametrize("server", TUNED)
def test_what_is_tuned_is_taken(server: str) -> None:
    for name in TUNED[server].split():
        listed = SERVERS[server].get(name.replace("_", "-"))
        assert listed is not None, name
        taken = take(f"--{name}={listed}")
        assert taken.options | taken.init_options == {name: listed or "''"}, name


def test_lists_of_instruments_and_column_families_are_taken() -> None:
    options = {
        "performance_schema_instrument": "memory/%=ON",
        "rocksdb_default_cf_options": "write_buffer_size=64m;compression_per_level=kLZ4:kZSTD;block_based_table_factory={block_size=16k}",
        "rocksdb_override_cf_options": "cf1={max_write_buffer_number=4}",
        "optimizer_switch": "mrr=on,index_merge=off",
        "sql_mode": "STRICT_TRANS_TABLES,NO_ZERO_DATE",
    }
    assert take(*(f"--{name}={value}" for name, value in options.items())).options == options


@given(
    st.sampled_from(RESERVED),
    st.sampled_from(["", "loose-", "skip-", "loose_"]),
    st.text("abc019", max_size=5),
)
def test_nothing_that_dballoc_sets_itself_is_ever_taken(
    option: str, prefix: str, value: str
) -> None:
    taken = take(f"--{prefix}{option}={value}")
    assert taken.options == taken.init_options == {}


@given(st.lists(st.from_regex(r"--[a-z][a-z_-]{0,20}(=[a-zA-Z0-9/.]{0,8})?", fullmatch=True)))
def test_what_is_taken_is_never_refused_later(arguments: list[str]) -> None:
    taken = take(*arguments)
    check(taken.options, "here")
    check(taken.init_options, "here")


@given(
    st.sampled_from(("", "loose-", "skip-", "LOOSE_", "plugin_", "loose_plugin-", "enable-")),
    st.one_of(
        st.tuples(st.from_regex(r"([a-z][a-z0-9]{0,6}[_-])?", fullmatch=True),
                  st.sampled_from(("secret", "Password", "TOKEN", "access-key", "access_key", "otlp")),
                  st.from_regex(r"([_-]?[a-z]{1,6})?", fullmatch=True)),
        st.tuples(st.sampled_from(("s3", "S3", "spider", "federated", "connect")), st.sampled_from("-_"),
                  st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(lambda word: word != "timeout")),
    ).map("".join),
    st.booleans(), st.sampled_from(("CANARY", "'CANARY'", "/x/CANARY", "CANARY;ha_x", "a=CANARY")),
)  # fmt: skip
def test_no_value_of_a_secret_is_taken_or_said(
    prefix: str, name: str, apart: bool, value: str
) -> None:
    words = [f"--{prefix}{name}", value] if apart else [f"--{prefix}{name}={value}"]
    taken = take("--flush=1", *words, "--sort-buffer-size=1M")
    assert "CANARY" not in repr(taken)
    assert taken.options == {"flush": "1", "sort_buffer_size": "1M"}
    assert [note for note in taken.notes() if name.replace("-", "_").lower() in note]


@pytest.mark.parametrize(
    "argument",
    ["--http-source=http://jane:CANARY@proxy/", "--set-variable=s3_secret_key=CANARY", "--x=host=h;password=CANARY",
     "--{password:CANARY}=1", "--x=app:CANARY@tcp(db7)/", '--{"s3_secret":"CANARY"}', "--report-passw=CANARY", "--\x1b[31mx=CANARY"],
)  # fmt: skip
def test_secrets_under_names_that_do_not_tell(argument: str) -> None:
    taken = take(argument)
    assert "CANARY" not in repr(taken)
    assert taken.notes()


def test_engines_that_talk_to_other_hosts_are_left_out(tmp_path: Path) -> None:
    files = [
        "ha_s3",
        "ha_spider",
        "ha_federatedx",
        "ha_connect",
        "ha_sphinx",
        "handlersocket",
        "not_known",
        "auth_ldap",
        "ha_archive",
    ]
    for name in files:
        (tmp_path / f"{name}.so").touch()
    taken = take(
        f"--plugin-load-add={';'.join(files)}",
        "--plugin-load=x=../y;a\x1bb",
        "--connect-timeout=5",
        plugins=tmp_path,
    )
    assert taken.options == {"plugin_load_add": "ha_archive", "connect_timeout": "5"}
    assert taken.left_out == {"plugins": [*files[:-1], "…", "…"]}


def test_the_last_counts_and_plugins_add_up(tmp_path: Path) -> None:
    for name in ("ha_archive", "disks", "auth_x"):
        (tmp_path / f"{name}.so").touch()
    taken = take(
        "--flush=1",
        "--plugin-load=x=ha_archive.so;disks",
        "--flush=2",
        "--plugin-load-add=auth_x",
        plugins=tmp_path,
    )
    assert taken.options == {"flush": "2", "plugin_load_add": "x=ha_archive.so;disks"}
    assert taken.left_out == {"plugins": ["auth_x"]}


def test_engine_and_what_counts_when_data_are_made() -> None:
    taken = take("--default-storage-engine=RocksDB", "--innodb_page_size=8K")
    assert (taken.engine, taken.options, taken.init_options) == (
        "rocksdb",
        {},
        {"innodb_page_size": "8K"},
    )
    assert take("--default-storage-engine=BLACKHOLE").engine is None


@pytest.mark.parametrize(
    ("written", "value", "same"),
    [("64M", "67108864", True), ("1", "ON", True), ("", "ON", True), ("off", "0", True), ("''", "", True), ("64M", "1", False),
     ("TRADITIONAL", "traditional", True), ("1G", "1073741824", True), ("2", "ON", False)],
)  # fmt: skip
def test_a_value_stays_as_it_was_written_while_it_means_the_same(
    written: str, value: str, same: bool
) -> None:
    result = adopted_options.with_own_word([("loose-a-b", written)], {"a_b": value})
    assert result == (
        [("loose-a-b", written)] if same else [("loose-a-b", written), ("a_b", value)]
    )


def test_what_was_set_since_the_start_is_added() -> None:
    assert adopted_options.with_own_word([], {"max_heap_table_size": "1024", "sql_mode": ""}) == [
        ("max_heap_table_size", "1024"), ("sql_mode", "''"),
    ]  # fmt: skip


def test_a_size_of_more_digits_than_a_number_may_have() -> None:
    options = [("x", "9" * 5000 + "k")]
    assert adopted_options.with_own_word(options, {"x": "1"}) == [*options, ("x", "1")]
