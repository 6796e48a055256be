"""Which options of another server a private one takes, and which spelling of a value means the
same.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.servers.private.command_line import RESERVED, check
from dballoc.servers.running import adopted_options


def take(*arguments: str, plugins: Path | None = None) -> adopted_options.Taken:
    return adopted_options.take(adopted_options.parse(arguments), plugins)


def test_what_is_taken() -> None:
    taken = take(
        "--innodb-buffer-pool-size=1G",
        "--skip-name-resolve",
        "--sql_mode=",
        "--loose-x-y=3",
        "--sort_buffer_size",
        "4M",
    )
    assert taken.options == {
        "innodb_buffer_pool_size": "1G",
        "skip_name_resolve": "",
        "sql_mode": "''",
        "loose_x_y": "3",
        "sort_buffer_size": "4M",
    }
    assert taken.notes() == []


@pytest.mark.parametrize(
    ("argument", "group"),
    [
        ("--datadir=/x", "paths"), ("--innodb_ft_aux=/x", "paths"), ("--tmpdir=./x", "paths"), ("--port=3306", "network and identity"),
        ("--skip-networking", "network and identity"), ("--server-id=3", "network and identity"),
        ("--log-bin", "replication and the binary log"), ("--loose-wsrep_on=ON", "replication and the binary log"),
        ("--skip-log-bin", "replication and the binary log"), ("--gtid_mode=ON", "replication and the binary log"),
        ("--slow_query_log=1", "logs"), ("--log_error=x", "logs"), ("--ssl-ca=x", "TLS, accounts and encryption"),
        ("--skip-grant-tables", "TLS, accounts and encryption"), ("--innodb_encrypt_tables=ON", "TLS, accounts and encryption"),
        ("--event-scheduler=ON", "what only its own data can have"), ("--plugin-load-add=nosuch", "plugins"),
    ],
)  # fmt: skip
def test_what_is_left_out(argument: str, group: str) -> None:
    taken = take(argument)
    assert (taken.options, taken.init_options) == ({}, {})
    assert list(taken.left_out) == [group]
    assert taken.notes()[0].startswith(f"left out ({group}): ")


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
    for name in ("ha_a", "b", "auth_x"):
        (tmp_path / f"{name}.so").touch()
    taken = take(
        "--flush=1",
        "--plugin-load=x=ha_a.so;b",
        "--flush=2",
        "--plugin-load-add=auth_x",
        plugins=tmp_path,
    )
    assert taken.options == {"flush": "2", "plugin_load_add": "x=ha_a.so;b"}
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
