"""A run beside its post: what is the same is no difference however it is written, and whatever one
changes is found, and nothing else.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from example_posts import PARAGRAPH, cite, make_post
from hypothesis import given
from hypothesis import strategies as st

from dballoc.experiment.model import Experiment
from dballoc.experiment.post import Post
from dballoc.host.settings import thp
from dballoc.questions.published.setup import workload_statements
from dballoc.questions.published.setup.campaign_setup import THP_SWITCHED_OFF
from dballoc.questions.published.setup.compare_options import describe_warmups, is_same_warmup
from dballoc.questions.published.setup.post_differences import compare_with_post
from dballoc.questions.published.setup.run_setup import (
    DEFAULT,
    NOT_RUN,
    NOT_SET,
    NOT_STATED,
    DuetSetup,
    PostComparison,
    RunSetup,
    WorkloadSetup,
)
from dballoc.questions.published.setup.setting_values import (
    is_same_release,
    is_same_variant,
    normalize_value,
    spread_settings,
)


def list_differences(post: Post, run: RunSetup) -> list[PostComparison]:
    """Return what differs, and only that."""
    return [compared for compared in compare_with_post(post, run) if compared.differs]


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
        "options": {
            "innodb_buffer_pool_size": "1G",
            "sync_binlog": "0",
            "sort-buffer-size": "8K",
        },
    },
    "profile": "contention",
    "profile_at": {"workload": "oltp_read_only", "threads": 8},
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
    "machine": "two Xeons",
    "cpus": {"server": 2, "client": 2},
    "memory": "16G",
    "thp": "never",
    "server": "MySQL 5.5",
    "options": {
        "innodb-buffer-pool-size": 1 << 30,
        "sync_binlog": False,
        "sort_buffer_size": 8192,
        "skip-log-bin": "",
    },
    "load_options": {"oltp-range-size": 90, "point_selects": 10},
    "workloads": ["oltp_read_only", "oltp_read_write"],
    "statements": [
        "oltp_read_only: simple range of 90, sum range of 90, order range of 90, "
        "1 distinct range of 90, 10 point selects"
    ],
    "states": {
        "load, clients": "8, 64",
        "load, profiled at": "oltp_read_only, 8 clients",
        "load, driver": "sysbench 1.0",
        "load, random numbers": "uniform",
        "load, statements are": "sent as text",
        "load, sysbench's option percentile": "99",
        "load, report interval": "1s",
        "load, events of a level": "as many as its time has",
        "sequence": "a start for each workload, its levels back to back",
        "data, tables": "4",
        "data, rows of a table": "1,000",
        "data, tables are filled": "once, and copied for each start",
        "time, a level": "5m",
        "time, idle after the load": "0s",
        "transport": "tcp",
        "transport, client on": "same host",
    },
    "warmup": [
        "a scan of every table",
        "oltp_read_only by 8 clients for 600s",
        "oltp_read_write by 8 clients",
    ],
    "variants": {
        "glibc": "glibc 2.36 (the system's), THP always",
        "one-arena": "glibc 2.36, arena_max=1",
        "large-sorts": "glibc 2.36, sort_buffer_size=1M",
    },
}


def describe_workload(script: str) -> WorkloadSetup:
    return WorkloadSetup(
        title=script,
        script=script,
        options={"range_size": "90"},
        prepared=False,
        driver="sysbench 1.0.20",
    )


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
        host_thp="never",
        host_cores=tuple(frozenset({n}) for n in range(4)),
    )


def find_items(post: Table, run: RunSetup | None = None) -> set[tuple[str, str]]:
    found = list_differences(make_post(post), run or make_run())
    assert len({(d.topic, d.item) for d in found}) == len(found)
    return {(d.topic, d.item) for d in found}


def test_what_is_the_same_is_no_difference() -> None:
    assert find_items(POST) == set()
    compared = compare_with_post(make_post(POST), make_run())
    assert {c.topic for c in compared} == {
        *(
            "machine",
            "allocator",
            "server",
            "options",
            "load",
            "sequence",
            "CPUs",
            "memory",
            "THP",
            "data",
        ),
        *("time", "statements", "transport", "warm-up"),
    }
    unstated = [c.item for c in compared if NOT_STATED in (c.post, c.run)]
    assert unstated == ["repeats"]  # which always differ where a post states them


# A key of the post, another value, and the difference that this must make.
CHANGES: dict[str, tuple[tuple[str, ...], Any, set[tuple[str, str]]]] = {
    "server's CPUs": (("cpus",), {"server": 3, "client": 2}, {("CPUs", "")}),
    "shared CPUs": (("cpus",), {"count": 4}, {("CPUs", "")}),
    "cores": (("cpus",), {"server_cores": 3, "client_cores": 2}, {("CPUs", "")}),
    "memory": (("memory",), "32G", {("memory", "of the machine")}),
    "THP of the host": (("thp",), "always", {("THP", "one-arena, large-sorts")}),
    "by hand": (
        ("otherwise",),
        {"options": {"thread pool": {"post": "Windows' own", "run": "MariaDB's"}}},
        {("options", "thread pool")},
    ),
    "another series": (("server",), "MySQL 5.6", {("server", "")}),
    "another server": (("server",), "Percona Server 5.5", {("server", "")}),
    "a size": (
        ("options", "innodb-buffer-pool-size"),
        "2G",
        {("options", "innodb_buffer_pool_size")},
    ),
    "a switch": (("options", "sync_binlog"), 1, {("options", "sync_binlog")}),
    "the log": (("options", "skip-log-bin"), "OFF", {("options", "log_bin")}),
    "not set": (("options", "loose-thread_cache_size"), 9, {("options", "thread_cache_size")}),
    "range": (("load_options", "oltp-range-size"), 100, {("load", "range_size")}),
    "default": (("load_options", "point_selects"), 12, {("load", "point_selects")}),
    "workload": (("workloads",), ["oltp_read_only"], {("load", "workload")}),
    "statements": (
        ("statements",),
        ["oltp_read_only: 12 point selects"],
        {("statements", "oltp_read_only")},
    ),
    "words": (("statements",), ["five selects"], {("statements", "")}),
    "no warm-up": (("warmup",), [], {("warm-up", "")}),
    "shorter warm-up": (
        ("warmup",),
        ["a scan of every table", "oltp_read_only for 5m", "oltp_read_write"],
        {("warm-up", "step 2 of 3")},
    ),
    "allocator": (("variants", "glibc"), "glibc 2.3, THP always", {("allocator", "glibc")}),
    "THP": (("variants", "glibc"), "glibc 2.36", {("allocator", "glibc")}),
    "setting": (
        ("variants", "one-arena"),
        "glibc 2.36, arena_max=2",
        {("allocator", "one-arena")},
    ),
    "only the post's": (("variants", "lockless"), "lockless", {("allocator", "lockless")}),
    **{
        key: (("states", key), value, {(topic, item)})
        for key, value in {
            "load, clients": "8, 64, 512",
            "load, profiled at": "oltp_read_only, 64 clients",
            "load, profiled for": "heap",
            "load, driver": "sysbench 0.5",
            "load, random numbers": "pareto",
            "load, statements are": "prepared in the server",
            "load, sysbench's option percentile": "95",
            "load, report interval": "10s",
            "load, events of a level": "100",
            "sequence": "one start for all workloads and levels",
            "sequence, repeats": "each variant once",
            "sequence, binary logs are removed": "before and after each test",
            "data, tables": "5",
            "data, rows of a table": "1,001",
            "data, tables are filled": "in each start, before its levels",
            "time, a level": "5m1s",
            "time, idle after the load": "1ms",
            "transport": "named pipe",
            "transport, client on": "another host",
        }.items()
        for topic, _, item in [key.partition(", ")]
    },
}


def state(post: Table, states: dict[str, str]) -> Table:
    """Return the post with further settings in words."""
    return {**post, "states": post["states"] | states}


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
    compared = compare_with_post(make_post(post), make_run())
    silent = [c for c in compared if c.post == NOT_STATED]
    assert silent or key == "statements"
    assert all(c.run for c in silent)


def test_an_option_that_is_set_and_not_stated_differs() -> None:
    post = {**POST, "options": {}}
    found = {d.item: d for d in list_differences(make_post(post), make_run())}
    assert set(found) == {
        "innodb_buffer_pool_size",
        "sync_binlog",
        "sort_buffer_size",
        "log_bin",
    }
    assert {d.post for d in found.values()} == {DEFAULT}
    assert found["log_bin"].run == "OFF"
    nothing = {**POST, "load_options": {}}
    assert find_items(nothing) == {("load", "range_size")}


def test_a_default_that_is_written_out_is_no_difference() -> None:
    table = change(RUN, ("load", "options", "index_updates"), "1")
    assert find_items(POST, make_run(table)) == set()


def test_a_variant_that_only_one_side_has() -> None:
    run = make_run({**RUN, "variant": [*RUN["variant"][:1], {"name": "more"}]})
    found = {d.item: (d.post, d.run) for d in list_differences(make_post(POST), run)}
    assert found["more"] == (NOT_RUN, "glibc 2.36")
    assert found["one-arena"] == ("glibc 2.36, arena_max=1", NOT_RUN)


def test_servers_of_single_variants_are_told_apart() -> None:
    run = make_run()
    run = replace(run, servers={**run.servers, "one-arena": "MySQL 8.0.40"})
    [found] = list_differences(make_post(POST), run)
    assert (found.topic, found.item, found.run) == ("server", "one-arena", "MySQL 8.0.40")


@pytest.mark.parametrize(
    ("sequence", "levels", "same"),
    [
        ("cycle", "rising", "one start for all workloads and levels"),
        ("fresh", "rising", "a start for each workload, its levels back to back"),
        ("fresh", "fresh", "a start for each workload and level"),
        ("cycle", "fresh", "a start for each level, all workloads in it"),
    ],
)
def test_starts_are_derived(sequence: str, levels: str, same: str | None) -> None:
    run = make_run({**RUN, "sequence": sequence, "levels": levels})
    sentences = (
        "one start for all workloads and levels",
        "a start for each workload, its levels back to back",
        "a start for each workload and level",
        "a start for each level, all workloads in it",
    )
    for sentence in sentences:
        differs = ("sequence", "") in find_items(state(POST, {"sequence": sentence}), run)
        assert differs == (sentence != same)


def test_the_order_counts_where_one_server_runs_all() -> None:
    swapped = {**POST, "workloads": ["oltp_read_write", "oltp_read_only"]}
    assert find_items(swapped) == set()
    cycle = make_run({**RUN, "sequence": "cycle"})
    assert ("load", "order of workloads") in find_items(swapped, cycle)


def test_one_workload_and_one_level_need_one_start() -> None:
    single = {**RUN, "workloads": ["oltp_read_only"], "threads": [8], "levels": "fresh"}
    sentence = "one start for all workloads and levels"
    assert ("sequence", "") not in find_items(state(POST, {"sequence": sentence}), make_run(single))


def test_numbers_of_cpus_are_a_list() -> None:
    variants = [{"name": "glibc", "cpu": {"count": 4}}, {"name": "b", "cpu": {"count": 8}}]
    run = make_run({**RUN, "variant": variants})
    assert ("CPUs", "") not in find_items({**POST, "cpus": {"count": [4, 8]}}, run)
    assert ("CPUs", "") in find_items({**POST, "cpus": {"count": [4, 8, 16]}}, run)


def test_a_machine_that_is_not_known_yet_does_not_differ() -> None:
    table = {key: value for key, value in RUN.items() if key != "cpu"}
    run = replace(make_run(table), host_cpus=None, host_memory=None, host_cores=())
    assert find_items(POST, run) == set()
    assert find_items(POST, replace(make_run(table), host_cpus=3)) == {("CPUs", "")}
    limited = make_run({**RUN, "limits": {"memory": "1G"}})
    [found] = list_differences(make_post(POST), limited)
    assert (found.post, found.run) == ("none, so the machine's 16G", "1G")
    named = replace(make_run(), machine="AMD EPYC, Debian 12")
    assert list_texts(POST, named) == [("", "two Xeons", "AMD EPYC, Debian 12")]


def test_the_servers_own_glibc_is_told_from_the_hosts() -> None:
    run = replace(make_run(), host_libc="glibc 2.31")
    assert find_items(POST, run) == set()
    found = {c.item: c.run for c in compare_with_post(make_post(POST), run)}
    assert found["one-arena"] == "glibc 2.36 (the server's own; the host has 2.31), arena_max=1"
    fetched = make_run({**RUN, "variant": [{"name": "glibc", "allocator": "glibc@2.36"}]})
    compared = compare_with_post(make_post(POST), replace(fetched, host_libc="glibc 2"))
    assert "glibc 2.36" in [c.run for c in compared if c.item == "glibc"]


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
            [
                "12 point selects",
                "2 sum ranges of 90",
                "1 scan of a whole table",
                "1 delete",
                "1 insert",
            ],
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
    words = [
        "a scan of every table",
        "oltp_read_only by 8 clients for 10m",
        "oltp_read_write by 8 clients for 10m",
    ]
    assert describe_warmups(model) == words
    cycle = Experiment.model_validate({**RUN, "sequence": "cycle", "warmup_sql": ["SELECT 1"]})
    assert describe_warmups(cycle) == ["SELECT 1", *words[1:]]
    warm = Experiment.model_validate({**RUN, "warm": ["oltp_point_select"]})
    assert describe_warmups(warm) == ["oltp_point_select by 8 clients for 10m"]
    assert is_same_warmup("oltp_read_only for 600s (by him)", words[1])
    assert not is_same_warmup("oltp_read_only for 9m", words[1])
    assert not is_same_warmup("oltp_read_only by 16 clients for 10m", words[1])
    assert is_same_warmup("oltp_read_only by 8 clients", words[1])


def test_what_the_set_up_does_not_know_is_not_compared() -> None:
    """Results of before there were facts about workloads."""
    run = replace(make_run(), workloads={})
    items = find_items({k: v for k, v in POST.items() if k != "statements"}, run)
    assert ("load", "statements are") not in items


def test_both_forms_of_cpus_are_refused() -> None:
    check: Callable[[Table], object] = make_post
    with pytest.raises(ValueError, match="either count or server and client"):
        check({"cpus": {"count": 4, "server": 2}})


def test_nothing_is_set_where_the_run_has_no_such_option() -> None:
    [found] = list_differences(
        make_post(change(POST, ("options", "thread_cache_size"), 9)), make_run()
    )
    assert (found.post, found.run) == ("9", NOT_SET)


def list_texts(post: Table, run: RunSetup) -> list[tuple[str, str, str]]:
    differences = list_differences(make_post(post), run)
    return [(d.item, d.post, d.run) for d in differences]


def test_cores_are_compared_where_they_are_known() -> None:
    """Two hyperthreads each: 0,4 1,5 2,6 3,7."""
    cores = tuple(frozenset({n, n + 4}) for n in range(4))
    post = {**POST, "cpus": {"server": 6, "server_cores": 3, "client_cores": 1}}
    right = make_run({**RUN, "cpu": {"server": "0-2,4-6", "client": "3,7"}})
    wrong = make_run({**RUN, "cpu": {"server": "0-5", "client": "6-7"}})
    assert list_texts(post, replace(right, host_cores=cores)) == []
    assert list_texts(post, replace(wrong, host_cores=())) == []
    assert list_texts(post, replace(wrong, host_cores=cores)) == [
        (
            "",
            "server 6 logical CPUs (3 cores), client 1 core",
            "server 6 logical CPUs (4 cores), client 2 logical CPUs (2 cores)",
        ),
        (
            "cores",
            "server and client on cores of their own",
            "server and client share 2 cores (CPUs 2,6; 3,7)",
        ),
    ]


def test_a_server_with_all_cpus_to_itself_differs_from_one_that_shares_them() -> None:
    run = make_run({**RUN, "cpu": {"count": 24}})
    assert list_texts({**POST, "cpus": {"count": 24}}, run) == []
    assert list_texts({**POST, "cpus": {"server": 24}}, run) == [
        ("", "server 24 logical CPUs", "24 logical CPUs, server and client together")
    ]
    words = {"cores": 24, "words": "24 cores (logical CPUs not stated)"}
    compared = compare_with_post(make_post({**POST, "cpus": words}), run)
    cpus = [(c.item, c.post, c.run, c.differs) for c in compared if c.topic == "CPUs"]
    together = "24 logical CPUs, server and client together"
    assert cpus == [
        ("", words["words"], together, False),
        ("logical CPUs", NOT_STATED, together, False),
    ]


def test_cpus_by_their_number_are_on_whole_cores() -> None:
    """Two hyperthreads each: 24 CPUs are 12 cores, as of ChinaUnix, and not the 24 of HammerDB's."""
    pairs = tuple(frozenset({n, n + 16}) for n in range(16))
    singles = tuple(frozenset({n}) for n in range(32))
    run = make_run({**RUN, "cpu": {"count": 24}})
    together = "24 logical CPUs ({} cores), server and client together"
    for cores, stated, differs in (
        (pairs, {"cores": 24, "words": "24 cores"}, True),
        (singles, {"cores": 24, "words": "24 cores"}, False),
        (pairs, {"cores": 12, "words": "12 cores"}, False),
    ):
        found = list_texts({**POST, "cpus": stated}, replace(run, host_cores=cores))
        text = together.format(12 if cores is pairs else 24)
        assert found == ([("", "24 cores", text)] if differs else [])
    apart = {**POST, "cpus": {"server": 24, "server_cores": 12}}
    for cores, differs in ((pairs, False), (singles, True)):
        run_apart = replace(run, host_cores=cores, clients_apart=True)
        assert (("CPUs", "") in find_items(apart, run_apart)) == differs


def test_fewer_logical_cpus_than_stated_cores_differ_where_cores_are_not_known() -> None:
    words = {"cores": 24, "words": "24 cores"}
    few = replace(make_run({**RUN, "cpu": {"count": 2}}), host_cores=())
    assert list_texts({**POST, "cpus": words}, few) == [
        ("", "24 cores", "2 logical CPUs, server and client together")
    ]
    apart = replace(make_run({**RUN, "cpu": {"server": "0", "client": "1"}}), host_cores=())
    stated = {"server_cores": 8, "client_cores": 1}
    assert list_texts({**POST, "cpus": stated}, apart) == [
        ("", "server 8 cores, client 1 core", "server 1 logical CPU, client 1 logical CPU")
    ]


def test_how_many_cpus_there_are_at_most_is_compared() -> None:
    few, many = (make_run({**RUN, "cpu": {"count": n}}) for n in (24, 25))
    assert list_texts({**POST, "cpus": {"most_count": 24}}, few) == []
    assert list_texts({**POST, "cpus": {"most_count": 24}}, many) == [
        ("", "at most 24 logical CPUs", "25 logical CPUs, server and client together")
    ]
    compared = compare_with_post(make_post({**POST, "cpus": {"most_count": 24, "cores": 12}}), few)
    stated = [(c.item, c.post) for c in compared if c.topic == "CPUs"]
    assert stated == [("", "12 cores (at most 24 logical CPUs)"), ("logical CPUs", NOT_STATED)]


def test_a_machine_that_is_not_known_is_not_above_the_most() -> None:
    table = {key: value for key, value in RUN.items() if key != "cpu"}
    run = replace(make_run(table), host_cpus=None, host_cores=())
    assert list_texts({**POST, "cpus": {"most_count": 1}}, run) == []


@pytest.mark.parametrize("side", ["count", "server", "client"])
def test_a_number_and_the_most_of_it_are_refused(side: str) -> None:
    with pytest.raises(ValueError, match="how many at most, not both"):
        make_post({"cpus": {side: 4, f"most_{side}": 8}})


def test_which_variant_has_how_many_cpus_is_told_where_it_differs() -> None:
    variants = [
        {"name": "glibc_4cpu", "cpu": {"count": 1}},
        {"name": "glibc_32cpu", "cpu": {"count": 2}},
    ]
    run = make_run({**RUN, "baseline": "glibc_4cpu", "variant": variants})
    post = {**POST, "cpus": {"count": [4, 32]}, "variants": {}}
    assert [run for _, _, run in list_texts(post, run) if "glibc_4cpu" in run] == [
        "1 logical CPU (1 core), server and client together (glibc_4cpu), "
        "2 logical CPUs (2 cores), server and client together (glibc_32cpu)"
    ]


def test_options_of_a_list_that_is_not_complete_are_no_differences() -> None:
    post = {**POST, "options": {"innodb_buffer_pool_size": "1G"}, "options_complete": False}
    assert find_items(post) == set()
    silent = {
        c.item
        for c in compare_with_post(make_post(post), make_run())
        if c.topic == "options" and c.post == NOT_STATED
    }
    assert silent == {"sync_binlog", "sort_buffer_size", "log_bin"}


def test_an_option_that_equals_the_servers_default_is_no_difference() -> None:
    run = replace(make_run(), defaults={"log-bin": "OFF", "max-connections": "151"})
    options = {k: v for k, v in POST["options"].items() if k != "skip-log-bin"}
    assert find_items({**POST, "options": options}, run) == set()
    assert find_items({**POST, "options": {**options, "max_connections": 151}}, run) == set()
    [found] = list_differences(
        make_post({**POST, "options": {**options, "max_connections": 9}}), run
    )
    assert (found.post, found.run) == ("9", "151 (the server's default)")


def test_only_the_steps_of_a_warm_up_that_differ_are_told() -> None:
    stated = ["a scan of every table", "oltp_read_only by 16 clients for 10m", "oltp_read_write"]
    assert list_texts({**POST, "warmup": stated}, make_run()) == [
        (
            "step 2 of 3",
            "oltp_read_only by 16 clients for 10m",
            "oltp_read_only by 8 clients for 10m",
        )
    ]
    shorter = ["a scan of every table", "oltp_read_only for 9m", "oltp_read_write"]
    [(_, post, run)] = list_texts({**POST, "warmup": shorter}, make_run())
    assert post == "oltp_read_only for 9m (clients not stated)"
    assert run == "oltp_read_only by 8 clients for 10m"


def test_clients_of_a_warm_up_that_are_not_stated_are_no_statement_of_the_post() -> None:
    stated = ["a scan of every table", "oltp_read_only for 10m", "oltp_read_write by 8 clients"]
    compared = compare_with_post(make_post({**POST, "warmup": stated}), make_run())
    ours = ["oltp_read_only by 8 clients for 10m", "oltp_read_write by 8 clients for 10m"]
    assert [(c.item, c.post, c.run, c.differs) for c in compared if c.topic == "warm-up"] == [
        ("clients", NOT_STATED, ours[0], False),
        (
            "",
            f"{stated[0]}, then {stated[1]} (clients not stated), then {stated[2]}",
            f"{stated[0]}, then {ours[0]}, then {ours[1]}",
            False,
        ),
    ]


def test_where_it_is_profiled_is_marked_where_it_was_scaled() -> None:
    scaled = {"factor": 0.1, "rows": 1000, "threads": [8, 512], "level": "5m"}
    scaled["full"] = {"profile_at": {"workload": "oltp_read_only", "threads": 512}}
    run = make_run({**RUN, "scaled": scaled})
    post = state(POST, {"load, profiled at": "oltp_read_only, 512 clients"})
    assert ("profiled at", "oltp_read_only, 512 clients", "oltp_read_only, 8 clients (scaled)") in (
        list_texts(post, run)
    )
    nothing = {key: value for key, value in RUN.items() if not key.startswith("profile")}
    assert list_texts(POST, make_run(nothing)) == [
        ("profiled at", "oltp_read_only, 8 clients", "nothing")
    ]


def test_duets_are_told_where_no_server_ran_alone() -> None:
    run = replace(make_run(), duet=DuetSetup(threads=8, slice_seconds=0.4))
    compared = list_differences(make_post(POST), run)
    assert [(c.topic, c.item, c.post, c.run) for c in compared] == [
        ("load", "clients", "8, 64", "8 of each of the two servers"),
        (
            "sequence",
            "",
            POST["states"]["sequence"],
            "two servers at once, a variant beside the baseline, each with half of the CPUs; they "
            "swap after each slice of load",
        ),
        ("time", "a level", "5m", "slices of 0.4 s"),
    ]


def test_when_binary_logs_are_removed_is_told_where_there_are_any() -> None:
    table = change(RUN, ("server", "options", "log_bin"), "")
    run = replace(make_run(table), added_options={})
    post = change(POST, ("options",), {**POST["options"], "skip-log-bin": "OFF"})
    item = "binary logs are removed"
    stated = state(post, {f"sequence, {item}": "after each test"})
    ours = "after each step, all but the last file"
    assert list_texts(stated, run) == [(item, "after each test", ours)]
    assert find_items(state(post, {f"sequence, {item}": ours}), run) == set()
    [silent] = [c for c in compare_with_post(make_post(post), run) if c.item == item]
    assert (silent.post, silent.run) == (NOT_STATED, ours)
    assert item not in {c.item for c in compare_with_post(make_post(POST), make_run())}


def test_what_drives_the_load_is_not_compared_where_it_is_not_known() -> None:
    run = make_run()
    unknown = {name: replace(work, driver="") for name, work in run.workloads.items()}
    assert find_items(POST, replace(run, workloads=unknown)) == set()
    other = {**run.workloads, "oltp_read_write": replace(unknown["oltp_read_write"], driver="own")}
    assert ("driver", "sysbench 1.0", "sysbench 1.0.20 and own") in (
        list_texts(POST, replace(run, workloads=other))
    )


def test_servers_that_switch_thp_off_are_told() -> None:
    run = replace(make_run(), host_thp="madvise", without_thp=frozenset({"one-arena"}))
    assert list_texts(POST, run) == [("large-sorts", "never", "as the host has it (madvise)")]
    found = {c.item: c.run for c in compare_with_post(Post(), run) if c.topic == "THP"}
    assert found == {
        "large-sorts": "as the host has it (madvise)",
        "one-arena": "off, as the server switches it off for itself (the host: madvise)",
    }
    [kept] = [c.run for c in compare_with_post(Post(), run) if c.item == "glibc"]
    assert kept == (
        "glibc 2.36, THP always (a preloaded library of dballoc's keeps the server from switching "
        "THP off)"
    )
    assert THP_SWITCHED_OFF == thp.SWITCHED_OFF


def test_how_mallocs_come_to_their_servers_is_told_where_the_post_does_not_say() -> None:
    variants = [
        {"name": "glibc"},
        {"name": "one-arena", "allocator": "glibc@2.31"},
        {"name": "large-sorts", "allocator": "jemalloc"},
    ]
    run = replace(
        make_run({**RUN, "variant": variants}),
        added_environment={"glibc": {}, "large-sorts": {"MALLOC_CONF": "stats_print:true"}},
    )
    told = {c.item: c.run for c in compare_with_post(Post(), run) if c.topic == "allocator"}
    assert told["how it is put under the server, one-arena"].startswith("a copy of the server ")
    assert told["how it is put under the server, large-sorts"] == "by LD_PRELOAD"
    assert told["environment that dballoc sets, large-sorts"] == "MALLOC_CONF=stats_print:true"
    words = {"post": "by malloc-lib", "run": "by LD_PRELOAD"}
    stated = make_post({"otherwise": {"allocator": {"how it is put under the server": words}}})
    ways = [c for c in compare_with_post(stated, run) if "put under" in c.item]
    assert [(c.item, c.differs) for c in ways] == [("how it is put under the server", True)]


def test_the_drivers_version_is_told_where_the_post_has_none() -> None:
    post = make_post({"states": {"load, driver": "sysbench (its oltp.lua)"}})
    found = {c.item: c for c in compare_with_post(post, make_run())}
    assert (found["version of the driver"].run, found["driver"].differs) == (
        "sysbench 1.0.20",
        False,
    )
    assert "version of the driver" not in {
        c.item for c in compare_with_post(make_post(POST), make_run())
    }


def test_repeats_count_the_baseline_twice() -> None:
    stated = state(POST, {"sequence, repeats": "each variant twice"})
    [(_, post, run)] = list_texts(stated, make_run())
    assert post == "each variant twice"
    assert run == "each variant twice (the baseline four times), in random order"


def test_the_most_clients_may_be_all_that_is_stated() -> None:
    states = {k: v for k, v in POST["states"].items() if k != "load, clients"}
    post = {**POST, "states": states}
    assert find_items(state(post, {"load, most clients": "64"})) == set()
    scaled = {"factor": 0.5, "rows": 1000, "threads": [8, 4096], "level": "5m"}
    run = make_run({**RUN, "scaled": scaled})
    assert list_texts(state(post, {"load, most clients": "4096"}), run) == [
        ("most clients", "4096", "64 (scaled)")
    ]


def test_what_was_scaled_is_marked() -> None:
    options = {**RUN["server"]["options"], "innodb_buffer_pool_size": "52G"}
    was = {
        "factor": 0.01,
        "rows": 9,
        "threads": [8, 512],
        "level": "1h",
        "left_out": ["many-cpus"],
        "full": {"server": {**RUN["server"], "options": options}, "time": {"level": "1h"}},
    }
    words = {"data, rows of a table": "9", "load, clients": "8, 512", "time, a level": "1h"}
    post = state(POST, words)
    post = change(post, ("options", "innodb-buffer-pool-size"), "52G")
    post = change(post, ("variants", "many-cpus"), "glibc 2.36")
    assert list_texts(post, make_run({**RUN, "scaled": was})) == [
        ("many-cpus", "glibc 2.36", "not run: too few CPUs"),
        ("innodb_buffer_pool_size", "52G", "1G (scaled)"),
        ("clients", "8, 512", "8, 64 (scaled)"),
        ("rows of a table", "9", "1,000 (scaled)"),
        ("a level", "1h", "5m (scaled)"),
    ]


def test_cpus_that_this_host_lacks_are_told_without_cores() -> None:
    """Four CPUs of two cores: the CPUs that the experiment asks for are on none of them."""
    cores = tuple(frozenset({n, n + 2}) for n in range(2))
    was = {"factor": 0.1, "rows": 1000, "threads": [8, 64], "level": "5m", "cpus": "server 0-7"}
    table = {**RUN, "scaled": {**was, "full": {"cpu": {"server": "0-7", "client": "8-15"}}}}
    run = replace(make_run(table), host_cores=cores)
    stated = {**POST, "cpus": {"server": 3, "client": 3}}
    assert [d for d in list_texts(stated, run) if d[0] != "rows of a table"] == [
        (
            "",
            "server 3 logical CPUs, client 3 logical CPUs",
            "server 2 logical CPUs (2 cores), client 2 logical CPUs (2 cores) "
            "(scaled from server 8 logical CPUs, client 8 logical CPUs)",
        ),
        (
            "cores",
            "server and client on cores of their own",
            "server and client share 2 cores (CPUs 0,2; 1,3) (scaled)",
        ),
    ]


def test_what_differs_at_full_scale_too_is_told_with_what_it_was() -> None:
    """Of a cache other than the post's, of a limit that the post's server did not have, of a
    warm-up by other clients, and of what the post does not state.
    """
    small = change(RUN, ("time",), {"warmup": "6s", "level": "3s", "idle": "0s"})
    small["limits"] = {"memory": "819M"}
    options = {**RUN["server"]["options"], "innodb_buffer_pool_size": "80G"}
    small["scaled"] = {
        "factor": 0.01,
        "rows": 100_000,
        "threads": [16, 512],
        "level": "5m",
        "full": {
            "server": {**RUN["server"], "options": options},
            "limits": {"memory": "120G"},
            "time": RUN["time"],
        },
    }
    states = {k: v for k, v in POST["states"].items() if not k.startswith("data")}
    post = state({**POST, "states": states}, {"load, clients": "16, 512"})
    post = change(post, ("options", "innodb-buffer-pool-size"), "10G")
    assert list_texts(post, make_run(small)) == [
        ("innodb_buffer_pool_size", "10G", "1G (scaled from 80G)"),
        ("clients", "16, 512", "8, 64 (scaled)"),
        ("the server's limit", "none, so the machine's 16G", "819M (scaled from 120G)"),
        ("a level", "5m", "3s (scaled)"),
        (
            "step 2 of 3",
            "oltp_read_only by 8 clients for 600s",
            "oltp_read_only by 8 clients for 6s (scaled from oltp_read_only by 16 clients for 10m)",
        ),
    ]
    silent = {c.item: c.run for c in compare_with_post(make_post(post), make_run(small))}
    assert silent["rows of a table"] == "1,000 (scaled from 100,000)"
    assert silent["tables"] == "4"


def test_a_malloc_in_the_server_is_told_from_a_preloaded_one() -> None:
    variants = [
        {"name": "glibc", "allocator": "jemalloc@5.2.1"},
        {"name": "built-in", "allocator": "builtin"},
    ]
    names = {"glibc": "jemalloc 5.2.1", "built-in": "jemalloc 5.2.1"}
    run = replace(make_run({**RUN, "variant": variants}), allocators=names)
    run = replace(run, servers=dict.fromkeys(names, "MySQL 5.5.62"))
    built_in = "jemalloc, built into the server"
    right = {"glibc": "jemalloc 5.2.1 (by malloc-lib)", "built-in": built_in}
    assert list_texts({**POST, "thp": None, "variants": right}, run) == []
    unknown = replace(run, allocators={**names, "built-in": "builtin"})
    assert list_texts({**POST, "thp": None, "variants": right}, unknown) == []
    swapped = {"glibc": built_in, "built-in": "jemalloc 5.2.1"}
    assert [item for item, _, _ in list_texts({**POST, "thp": None, "variants": swapped}, run)] == [
        "glibc",
        "built-in",
    ]


def test_a_workload_with_tables_of_its_own_has_no_rows_of_sysbenchs() -> None:
    tpcc = WorkloadSetup(title="", script="dballoc_tpcc", options={}, prepared=True, brings=True)
    run = replace(make_run(), workloads={"tpcc": tpcc})
    told = {(c.topic, c.item): c.run for c in compare_with_post(Post(), run)}
    assert [item for topic, item in told if topic == "data"] == ["tables are filled"]
    assert ("load", "random numbers") not in told
    assert told["load", "statements are"] == "prepared in the server"
    assert told["load", "report interval"] == "1s"
    driven = replace(run, workloads={"tpcc": replace(tpcc, driver="HammerDB")})
    items = {c.item for c in compare_with_post(Post(), driven)}
    assert not {"sysbench's option percentile", "report interval", "events of a level"} & items


def test_the_load_and_its_tests_are_counted() -> None:
    names = ["load", *(f"oltp_{n}" for n in range(32))]
    run = make_run({**RUN, "sequence": "cycle", "workloads": names})
    compared = compare_with_post(Post(), run)
    [workloads] = [c for c in compared if c.item == "workloads"]
    assert workloads.run == "the load and 32 tests"


def test_how_many_clients_fill_the_tables_is_told_where_a_start_fills_them() -> None:
    item = "clients that fill them"
    loaded = {**RUN, "sequence": "cycle", "workloads": ["load", "oltp_read_only"]}
    alone = make_run({**loaded, "data": {**RUN["data"], "load_clients": 1}})
    stated = state(POST, {f"data, {item}": "1"})
    assert (item, "1", "4") in list_texts(stated, make_run(loaded))
    assert item not in {name for name, _, _ in list_texts(stated, alone)}
    [silent] = [c for c in compare_with_post(Post(), alone) if c.item == item]
    assert (silent.post, silent.run) == (NOT_STATED, "1")
    # A template is filled before, at its own speed.
    assert list_texts(stated, make_run()) == [(item, "1", "one for each CPU")]


def test_clients_on_hosts_of_their_own() -> None:
    apart = state({**POST, "cpus": {"server": 2}}, {"transport, client on": "another host"})
    run = replace(make_run(), clients_apart=True)
    assert list_texts(apart, run) == []
    assert list_texts(state(POST, {"transport": "socket"}), run) == [
        (
            "",
            "server 2 logical CPUs, client 2 logical CPUs",
            "server 2 logical CPUs (2 cores), client all of its own host",
        ),
        ("", "socket", "tcp"),
        ("client on", "same host", "another host"),
    ]
    # They come over TCP, whatever the experiment asks.
    by_socket = make_run(change(RUN, ("server", "connect"), "socket"))
    assert list_texts(apart, replace(by_socket, clients_apart=True)) == []


def test_a_server_that_shares_no_cpus_with_its_clients() -> None:
    run = replace(make_run({**RUN, "cpu": {"count": 24}}), clients_apart=True)
    post = state({**POST, "cpus": {"server": 24}}, {"transport, client on": "another host"})
    assert list_texts(post, run) == []
    assert list_texts({**post, "cpus": {"count": 24}}, run) == [
        ("", "24 logical CPUs", "server 24 logical CPUs, client all of its own host")
    ]
    whole = {key: value for key, value in RUN.items() if key != "cpu"}
    on_all = replace(make_run(whole), clients_apart=True, host_cpus=24, host_cores=())
    assert list_texts(post, on_all) == []
    unknown = replace(on_all, host_cpus=None)
    assert list_texts(post, unknown) == []
    [cpus] = [c for c in compare_with_post(make_post(post), unknown) if c.topic == "CPUs"]
    assert cpus.run == "server all of the machine, client all of its own host"
    # What is on the server's host says nothing about the clients'.
    cores = tuple(frozenset({n, n + 2}) for n in range(2))
    both = replace(make_run(), host_cores=cores)
    assert ("CPUs", "cores") in find_items(POST, both)
    assert ("CPUs", "cores") not in find_items(POST, replace(both, clients_apart=True))


def test_clients_on_cores_of_their_own() -> None:
    """By what they had; before they ran, by what was asked."""
    run = make_run({**RUN, "cpu": {"count": 2, "client": "apart"}})
    kept_apart = {**POST, "cpus": {"server": 2, "client": 4}}
    stated = "server 2 logical CPUs, client 4 logical CPUs"
    here = "server 2 logical CPUs (2 cores), client "
    assert list_texts(kept_apart, run) == []
    [cpus] = [c for c in compare_with_post(make_post(kept_apart), run) if c.topic == "CPUs"]
    assert cpus.run == f"{here}other cores, where there are enough"
    names = [variant.name for variant in run.experiment.variant]
    for number, words in (
        (4, None),
        (3, f"{here}3 logical CPUs"),
        (0, "2 logical CPUs (2 cores), server and client together"),
    ):
        ran = replace(run, own_clients=dict.fromkeys(names, number))
        assert list_texts(kept_apart, ran) == ([("", stated, words)] if words else [])


def test_words_of_own_scripts_say_what_they_read() -> None:
    options = {"statements": "random-points, 2 range-covered-si, scan, count", "range": "10"}
    assert workload_statements.list_statements("dballoc_micro", options) == [
        "1 select of c by 10 random ids",
        "2 selects of k from a random k to 10 above it",
        "1 scan of a whole table",
        "1 count of c in a range of 10",
    ]
    one = {"statements": "update-nonindex", "range": "100", "ids": "one"}
    assert workload_statements.list_statements("dballoc_micro", one) == [
        "1 non-index update",
        "always of the first row",
    ]


def test_a_comparison_has_the_paragraph_of_its_statement() -> None:
    table = cite(POST)
    table["paragraphs"] |= {
        "options.sync_binlog": "my.cnf, line 2",
        "states.load, clients": "Load, 1",
        "load_options.point_selects": "Load, 2",
        "variants.one-arena": "Builds, 2",
        "otherwise.load.scripts": "Load, 3",
    }
    table["otherwise"] = {"load": {"scripts": {"post": "his", "run": "ours"}}}
    compared = compare_with_post(Post.model_validate(table), make_run())
    paragraphs = {(c.topic, c.item): c.paragraph for c in compared}
    assert paragraphs["options", "sync_binlog"] == "my.cnf, line 2"
    assert paragraphs["options", "sort_buffer_size"] == PARAGRAPH
    assert paragraphs["load", "clients"] == "Load, 1"
    assert paragraphs["load", "point_selects"] == "Load, 2"
    assert paragraphs["load", "scripts"] == "Load, 3"
    assert paragraphs["allocator", "one-arena"] == "Builds, 2"
    for topic in ("machine", "CPUs", "memory", "THP", "server", "warm-up"):
        assert {p for (t, _), p in paragraphs.items() if t == topic} <= {PARAGRAPH, ""}
    assert {c.paragraph for c in compared if c.post == NOT_STATED} == {""}
    assert all(c.paragraph for c in compared if c.post != NOT_STATED)


@pytest.mark.parametrize("empty", ["options", "load_options", "warmup"])
def test_that_nothing_was_set_is_a_statement_too(empty: str) -> None:
    table: Table = {empty: [] if empty == "warmup" else {}}
    with pytest.raises(ValueError, match=f"paragraphs: none for '{empty}'"):
        Post.model_validate(table)
    Post.model_validate({**table, "paragraphs": {empty: "Set-up, 1"}})
