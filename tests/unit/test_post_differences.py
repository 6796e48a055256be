"""A run beside its post: what is the same is no difference however it is written, and whatever one
changes is found, and nothing else.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.analysis.published.setup import workload_statements
from dballoc.analysis.published.setup.post_differences import (
    NOT_RUN,
    NOT_SET,
    NOT_STATED,
    compare_with_post,
    list_differences,
)
from dballoc.analysis.published.setup.release_names import is_same_release, is_same_variant
from dballoc.analysis.published.setup.run_setup import RunSetup, WorkloadSetup
from dballoc.analysis.published.setup.setting_values import normalize_value, spread_settings
from dballoc.analysis.published.setup.warmup_words import describe_warmups, is_same_warmup
from dballoc.experiment.model import Experiment
from dballoc.experiment.post import Post

Table = dict[str, Any]

RUN: Table = {
    "name": "repeated",
    "baseline": "glibc",
    "workloads": ["oltp_read_only", "oltp_read_write"],
    "threads": [8, 64],
    "sequence": "fresh",
    "blocks": 2,
    "server": {
        "connect": "tcp",
        "options": {"innodb_buffer_pool_size": "1G", "sync_binlog": "0", "sort-buffer-size": "8K"},
    },
    "cpu": {"server": "0-1", "client": "2-3"},
    "data": {"tables": 4, "rows": 1000},
    "load": {"percentile": 99, "prepared_statements": False, "options": {"range_size": "90"}},
    "time": {"warmup": "10m", "level": "5m", "idle": "0s"},
    "variant": [
        {"name": "glibc", "thp": "always"},
        {"name": "one-arena", "tunables": {"arena_max": "1"}},
        {"name": "large-sorts", "server": {"options": {"sort_buffer_size": "1M"}}},
    ],
}
# What the post of that run states, in spellings of its own.
POST: Table = {
    "source": "somebody, 2012",
    "cpus": {"server": 2, "client": 2},
    "memory": "16G",
    "server": "MySQL 5.5",
    "connect": "tcp",
    "client_host": "same",
    "sequence": "a start for each workload, its levels back to back",
    "options": {
        "innodb-buffer-pool-size": 1 << 30,
        "sync_binlog": False,
        "sort_buffer_size": 8192,
        "skip-log-bin": "",
    },
    "load": {
        "random": "uniform",
        "prepared_statements": "disable",
        "percentile": 99,
        "report_interval": 1,
    },
    "load_options": {"oltp-range-size": 90, "point_selects": 10},
    "tables": 4,
    "rows": 1000,
    "workloads": ["oltp_read_only", "oltp_read_write"],
    "statements": [
        "oltp_read_only: simple range of 90, sum range of 90, order range of 90, "
        "1 distinct range of 90, 10 point selects"
    ],
    "threads": [64, 8],
    "warmup": ["a scan of every table", "oltp_read_only for 600s", "oltp_read_write"],
    "level": "300s",
    "idle": "0s",
    "runs": 2,
    "variants": {
        "glibc": "glibc 2.36 (the system's), THP always",
        "one-arena": "glibc 2.36, arena_max=1",
        "large-sorts": "glibc 2.36, sort_buffer_size=1M",
    },
}


def describe_workload(script: str) -> WorkloadSetup:
    return WorkloadSetup(title=script, script=script, options={"range_size": "90"}, prepared=False)


def make_run(table: Table | None = None) -> RunSetup:
    experiment = Experiment.model_validate(table or RUN)
    return RunSetup(
        experiment=experiment,
        allocators={v.name: "glibc 2.36" for v in experiment.variant},
        servers={v.name: "MySQL 5.5.62" for v in experiment.variant},
        added_options={"skip-log-bin": ""},
        workloads={w: describe_workload(w) for w in experiment.workloads},
        blocks=experiment.blocks,
        host_cpus=4,
        host_memory=int(15.6 * 2**30),
    )


def find_items(post: Table, run: RunSetup | None = None) -> set[tuple[str, str]]:
    found = list_differences(Post.model_validate(post), run or make_run())
    assert len({(d.topic, d.item) for d in found}) == len(found)
    return {(d.topic, d.item) for d in found}


def test_what_is_the_same_is_no_difference() -> None:
    assert find_items(POST) == set()
    compared = compare_with_post(Post.model_validate(POST), make_run())
    assert {c.topic for c in compared} == {
        *("allocator", "server", "options", "load", "sequence", "CPUs", "memory", "data", "time"),
        *("statements", "transport", "warm-up"),
    }
    assert not [c for c in compared if NOT_STATED in (c.post, c.run)]


# A key of the post, another value, and the difference that this must make.
CHANGES: dict[str, tuple[tuple[str, ...], Any, set[tuple[str, str]]]] = {
    "server's CPUs": (("cpus",), {"server": 3, "client": 2}, {("CPUs", "")}),
    "shared CPUs": (("cpus",), {"count": 4}, {("CPUs", "")}),
    "memory": (("memory",), "32G", {("memory", "")}),
    "another series": (("server",), "MySQL 5.6", {("server", "")}),
    "another server": (("server",), "Percona Server 5.5", {("server", "")}),
    "transport": (("connect",), "named pipe", {("transport", "")}),
    "another host": (("client_host",), "another", {("transport", "client on")}),
    "starts": (("sequence",), "one start for all workloads and levels", {("sequence", "")}),
    "a size": (
        ("options", "innodb-buffer-pool-size"),
        "2G",
        {("options", "innodb_buffer_pool_size")},
    ),
    "a switch": (("options", "sync_binlog"), 1, {("options", "sync_binlog")}),
    "the log": (("options", "skip-log-bin"), "OFF", {("options", "log_bin")}),
    "not set": (("options", "loose-thread_cache_size"), 9, {("options", "thread_cache_size")}),
    "random": (("load", "random"), "pareto", {("load", "random numbers")}),
    "prepared": (("load", "prepared_statements"), "auto", {("load", "statements are")}),
    "percentile": (("load", "percentile"), 95, {("load", "percentile")}),
    "interval": (("load", "report_interval"), 10, {("load", "report interval")}),
    "range": (("load_options", "oltp-range-size"), 100, {("load", "range_size")}),
    "default": (("load_options", "point_selects"), 12, {("load", "point_selects")}),
    "tables": (("tables",), 5, {("data", "tables")}),
    "rows": (("rows",), 1001, {("data", "rows of a table")}),
    "workload": (("workloads",), ["oltp_read_only"], {("load", "workload")}),
    "statements": (
        ("statements",),
        ["oltp_read_only: 12 point selects"],
        {("statements", "oltp_read_only")},
    ),
    "words": (("statements",), ["five selects"], {("statements", "")}),
    "clients": (("threads",), [8, 64, 512], {("load", "clients")}),
    "no warm-up": (("warmup",), [], {("warm-up", "")}),
    "shorter warm-up": (
        ("warmup",),
        ["a scan of every table", "oltp_read_only for 5m", "oltp_read_write"],
        {("warm-up", "")},
    ),
    "level": (("level",), "301s", {("time", "a level")}),
    "idle": (("idle",), "1ms", {("time", "idle after the load")}),
    "runs": (("runs",), 1, {("sequence", "repeats")}),
    "allocator": (("variants", "glibc"), "glibc 2.3, THP always", {("allocator", "glibc")}),
    "THP": (("variants", "glibc"), "glibc 2.36", {("allocator", "glibc")}),
    "setting": (
        ("variants", "one-arena"),
        "glibc 2.36, arena_max=2",
        {("allocator", "one-arena")},
    ),
    "only the post's": (("variants", "lockless"), "lockless", {("allocator", "lockless")}),
}


def change(table: Table, path: tuple[str, ...], value: Any) -> Table:
    key, *rest = path
    inner = change(table.get(key, {}), tuple(rest), value) if rest else value
    return {**table, key: inner}


@given(st.sets(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=6))
def test_whatever_is_changed_is_found_and_nothing_else(names: set[str]) -> None:
    """Each of several changes at once, of different keys, is a difference of its own."""
    paths: dict[tuple[str, ...], str] = {CHANGES[name][0]: name for name in sorted(names)}
    post, expected = POST, set()
    for path, name in paths.items():
        post = change(post, path, CHANGES[name][1])
        expected |= CHANGES[name][2]
    assert find_items(post) == expected


@pytest.mark.parametrize("name", CHANGES)
def test_one_change_is_one_difference(name: str) -> None:
    path, value, expected = CHANGES[name]
    assert find_items(change(POST, path, value)) == expected


@pytest.mark.parametrize("key", sorted({*POST} - {"source"}))
def test_what_the_post_does_not_state_is_told_and_is_no_difference(key: str) -> None:
    post = {k: v for k, v in POST.items() if k != key}
    assert find_items(post) == set()
    compared = compare_with_post(Post.model_validate(post), make_run())
    silent = [c for c in compared if c.post == NOT_STATED]
    assert silent or key == "statements"
    assert all(c.run for c in silent)


def test_an_option_that_is_set_and_not_stated_differs() -> None:
    post = {**POST, "options": {}}
    found = {d.item: d for d in list_differences(Post.model_validate(post), make_run())}
    assert set(found) == {
        "innodb_buffer_pool_size",
        "sync_binlog",
        "sort_buffer_size",
        "log_bin",
    }
    assert {d.post for d in found.values()} == {NOT_STATED}
    assert found["log_bin"].run == "OFF"
    nothing = {**POST, "load_options": {}}
    assert find_items(nothing) == {("load", "range_size")}


def test_a_default_that_is_written_out_is_no_difference() -> None:
    table = change(RUN, ("load", "options", "index_updates"), "1")
    assert find_items(POST, make_run(table)) == set()


def test_a_variant_that_only_one_side_has() -> None:
    run = make_run({**RUN, "variant": [*RUN["variant"][:1], {"name": "more"}]})
    found = {d.item: (d.post, d.run) for d in list_differences(Post.model_validate(POST), run)}
    assert found["more"] == (NOT_RUN, "glibc 2.36")
    assert found["one-arena"] == ("glibc 2.36, arena_max=1", NOT_RUN)


def test_servers_of_single_variants_are_told_apart() -> None:
    run = make_run()
    run = replace(run, servers={**run.servers, "one-arena": "MySQL 8.0.40"})
    [found] = list_differences(Post.model_validate(POST), run)
    assert (found.topic, found.item, found.run) == ("server", "one-arena", "MySQL 8.0.40")


@pytest.mark.parametrize(
    ("sequence", "levels", "same"),
    [
        ("cycle", "rising", "one start for all workloads and levels"),
        ("fresh", "rising", "a start for each workload, its levels back to back"),
        ("fresh", "fresh", "a start for each workload and level"),
        ("cycle", "fresh", None),
    ],
)
def test_starts_are_derived(sequence: str, levels: str, same: str | None) -> None:
    run = make_run({**RUN, "sequence": sequence, "levels": levels})
    sentences = (
        "one start for all workloads and levels",
        "a start for each workload, its levels back to back",
        "a start for each workload and level",
    )
    for sentence in sentences:
        differs = ("sequence", "") in find_items({**POST, "sequence": sentence}, run)
        assert differs == (sentence != same)


def test_the_order_counts_where_one_server_runs_all() -> None:
    swapped = {**POST, "workloads": ["oltp_read_write", "oltp_read_only"]}
    assert find_items(swapped) == set()
    cycle = make_run({**RUN, "sequence": "cycle"})
    assert ("load", "order of workloads") in find_items(swapped, cycle)


def test_one_workload_and_one_level_need_one_start() -> None:
    single = {**RUN, "workloads": ["oltp_read_only"], "threads": [8], "levels": "fresh"}
    sentence = "one start for all workloads and levels"
    assert ("sequence", "") not in find_items({**POST, "sequence": sentence}, make_run(single))


def test_numbers_of_cpus_are_a_list() -> None:
    variants = [{"name": "glibc", "cpu": {"count": 4}}, {"name": "b", "cpu": {"count": 8}}]
    run = make_run({**RUN, "variant": variants})
    assert ("CPUs", "") not in find_items({**POST, "cpus": {"count": [4, 8]}}, run)
    assert ("CPUs", "") in find_items({**POST, "cpus": {"count": [4, 8, 16]}}, run)


def test_a_machine_that_is_not_known_yet_does_not_differ() -> None:
    table = {key: value for key, value in RUN.items() if key != "cpu"}
    run = replace(make_run(table), host_cpus=None, host_memory=None)
    assert find_items(POST, run) == set()
    assert find_items(POST, replace(make_run(table), host_cpus=3)) == {("CPUs", "")}
    limited = make_run({**RUN, "limits": {"memory": "1G"}})
    assert find_items(POST, limited) == {("memory", "")}


def test_a_list_of_settings_is_compared_setting_by_setting() -> None:
    stated = "a={b=1;write_buffer_size=32m};compression=kNo"
    actual = "compression = kNo; a = { write_buffer_size=64M; b=true }"
    run = make_run(change(RUN, ("server", "options", "rocksdb_cf"), actual))
    post = change(POST, ("options", "rocksdb_cf"), stated)
    assert find_items(post, run) == {("options", "rocksdb_cf: write_buffer_size")}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("10G", "10737418240", True),
        (8192, "8k", True),
        ("ON", True, True),
        ("", "1", True),
        ("off", 0, True),
        ("b,a", "A, B", True),
        (0.5, "0.50", True),
        ("O_DIRECT", "o_direct", True),
        ("O_DIRECT", "O_DIRECT_NO_FSYNC", False),
        ("1", "2", False),
        ("10G", "10M", False),
        ("9" * 5000, "9" * 5001, False),
    ],
)
def test_values_are_compared_by_what_they_mean(first: Any, second: Any, same: bool) -> None:
    assert (normalize_value(first) == normalize_value(second)) is same


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=30) | st.booleans(), max_size=5))
def test_any_setting_has_a_value(settings: dict[str, str | bool]) -> None:
    spread = spread_settings(settings)
    assert all(spread.values())


def test_switches_have_one_name() -> None:
    settings = {"skip-log-bin": "", "enable-named-pipe": 1, "skip_name_resolve": ""}
    assert spread_settings(settings) == {
        "log_bin": "OFF",
        "named_pipe": "ON",
        "skip_name_resolve": "ON",
    }
    assert spread_settings({"log-bin": "mysql-bin"}) == {"log_bin": "ON"}
    assert spread_settings({"skip_innodb": "OFF"}) == {"innodb": "ON"}


@pytest.mark.parametrize(
    ("stated", "actual", "same"),
    [
        ("MariaDB 10.11", "MariaDB 10.11.19", True),
        ("MariaDB 10.1", "MariaDB 10.11.19", False),
        ("MariaDB main on Windows", "MariaDB 10.11.19", False),
        ("tcmalloc 2.0 (gperftools)", "tcmalloc 2.0", True),
        ("tcmalloc of svn (gperftools)", "tcmalloc 2.8.1", False),
        ("jemalloc (built in)", "jemalloc 5.2.1", True),
        ("glibc 2.35", "glibc", False),
    ],
)
def test_releases(stated: str, actual: str, same: bool) -> None:
    assert is_same_release(stated, actual) is same
    assert is_same_variant(f"{stated}, a=1, THP never", f"{actual}, THP never, A=1") is same
    assert not is_same_variant(f"{stated}, a=1", actual)


@pytest.mark.parametrize(
    ("script", "options", "items"),
    [
        ("oltp_point_select", {}, ["1 point select"]),
        (
            "oltp_read_write",
            {"range_selects": "off", "point_selects": "1", "delete_inserts": "0"},
            ["1 point select", "1 index update", "1 non-index update"],
        ),
        ("oltp_write_only", {"skip_trx": "on", "index_updates": "2"}, None),
        (
            "dballoc_micro",
            {"statements": "begin, 12 point, 2 sum, scan, replace, commit", "range": "90"},
            ["12 point selects", "2 sum ranges of 90", "1 scan", "1 delete", "1 insert"],
        ),
        ("dballoc_connect", {}, []),
    ],
)
def test_statements_follow_from_options(
    script: str, options: dict[str, str], items: list[str] | None
) -> None:
    found = workload_statements.list_statements(script, options)
    if items is None:
        items = ["2 index updates", "1 non-index update", "1 delete", "1 insert", "no transaction"]
    assert found == items


def test_warm_ups_are_told_in_their_order() -> None:
    model = Experiment.model_validate(RUN)
    words = ["a scan of every table", "oltp_read_only for 10m", "oltp_read_write for 10m"]
    assert describe_warmups(model) == words
    cycle = Experiment.model_validate({**RUN, "sequence": "cycle", "warmup_sql": ["SELECT 1"]})
    assert describe_warmups(cycle) == ["SELECT 1", *words[1:]]
    warm = Experiment.model_validate({**RUN, "warm": ["oltp_point_select"]})
    assert describe_warmups(warm) == ["oltp_point_select for 10m"]
    assert is_same_warmup("oltp_read_only for 600s (by him)", words[1])
    assert not is_same_warmup("oltp_read_only for 9m", words[1])


def test_what_the_set_up_does_not_know_is_not_compared() -> None:
    """Results of before there were facts about workloads."""
    run = replace(make_run(), workloads={})
    items = find_items({k: v for k, v in POST.items() if k != "statements"}, run)
    assert ("load", "statements are") not in items


def test_both_forms_of_cpus_are_refused() -> None:
    check: Callable[[Table], object] = Post.model_validate
    with pytest.raises(ValueError, match="either count or server and client"):
        check({"cpus": {"count": 4, "server": 2}})


def test_nothing_is_set_where_the_run_has_no_such_option() -> None:
    [found] = list_differences(
        Post.model_validate(change(POST, ("options", "thread_cache_size"), 9)), make_run()
    )
    assert (found.post, found.run) == ("9", NOT_SET)
