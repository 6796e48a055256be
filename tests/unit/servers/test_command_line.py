"""The command line of a private server: a user's option never undoes what keeps it private."""

from dataclasses import replace
from pathlib import Path

import pytest
from example_builds import BUILD, argv
from hypothesis import given
from hypothesis import strategies as st

from dballoc.ground.errors import UsageError
from dballoc.servers.private import command_line, reserved_options
from dballoc.servers.private.reserved_options import RESERVED


@pytest.mark.parametrize("option", RESERVED)
@pytest.mark.parametrize(
    "spell",
    [str, str.upper, lambda o: o.replace("-", "_"), lambda o: "--" + o, lambda o: "loose-" + o, lambda o: "loose_" + o,
     lambda o: "skip-" + o, lambda o: "enable_" + o, lambda o: "loose-skip-" + o, lambda o: o[:-1], lambda o: f" {o} "],
    ids=["plain", "upper", "underscores", "dashes", "loose", "loose_", "skip", "enable", "two", "abbreviated", "spaces"],
)  # fmt: skip
def test_reserved_options_are_refused_in_every_spelling(option: str, spell) -> None:
    with pytest.raises(UsageError) as caught:
        reserved_options.check({spell(option): "x"}, "variant 'v'")
    assert (
        str(caught.value)
        == f"variant 'v': option {spell(option)!r} is set by dballoc itself, so that the server stays private"
    )


@pytest.mark.parametrize("name", ["", "a=b", "datadir=/x --y", "a b", "x\ny", "-"])
def test_what_is_no_options_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not an option's name"):
        reserved_options.check({name: "x"}, "here")


@pytest.mark.parametrize(
    "option",
    ["innodb_buffer_pool_size", "innodb", "skip-innodb", "innodb_doublewrite", "lc_messages", "port-open-timeout", "user-variables",
     "socket-x", "loose-innodb_numa_interleave", "performance_schema", "plugin-load-add", "maximum-sort-buffer-size", "log_warnings"],
)  # fmt: skip
def test_ordinary_options_are_taken(option: str) -> None:
    reserved_options.check({option: "x"}, "here")


def test_no_option_file_is_read() -> None:
    # Any later and the server would not take it for what it is.
    assert argv({})[:2] == ["/usr/sbin/mariadbd", "--no-defaults"]


def test_everything_lies_in_our_own_directories() -> None:
    made = argv({})
    for wanted in (
        "--datadir=/data",
        "--socket=/run/d/mysqld.sock",
        "--pid-file=/run/d/mysqld.pid",
        "--tmpdir=/run/d",
    ):
        assert wanted in made


def test_a_socket_alone_unless_tcp_is_asked() -> None:
    assert "--skip-networking" in argv({})
    assert not any(a.startswith("--port") for a in argv({}))
    tcp = argv({}, 3307)
    assert "--skip-networking" not in tcp
    assert {"--bind-address=127.0.0.1", "--port=3307"} <= set(tcp)


def test_the_users_word_replaces_the_catalogues_in_any_spelling() -> None:
    made = argv({"innodb_buffer_pool_dump_at_shutdown": "ON", "skip-log-bin": "", "flag": ""})
    assert [a for a in made if "dump-at-shutdown" in a] == [
        "--innodb-buffer-pool-dump-at-shutdown=ON"
    ]
    assert "--flag" in made


def test_limits_are_wide_enough() -> None:
    limits = command_line.capacity(clients=1024, statements=100_000, tables=8)
    assert int(limits["max-connections"]) > 1024
    assert int(limits["max-prepared-stmt-count"]) > 100_000
    assert int(limits["table-open-cache"]) >= 8 * 1024
    assert command_line.open_files(1024, 8) > int(limits["table-open-cache"]) + 1024
    # A server that may not open as many files as its connections need lowers their limit.
    assert command_line.open_files(3, 8, "10000") == 4096 + 10_000 - 151
    assert command_line.open_files(3, 8, "10G") == command_line.open_files(3, 8) == 4096
    # Never below the server's own defaults.
    assert {int(v) for v in command_line.capacity(1, 0, 1).values()} == {151, 16_382, 2_000, 80}


@given(st.integers(1, 5000), st.integers(1, 64), st.integers(0, 1 << 20))
def test_fewer_tables_are_kept_open_where_files_are_few(
    clients: int, tables: int, most: int
) -> None:
    kept = int(command_line.capacity(clients, 0, tables, most)["table-open-cache"])
    usual = int(command_line.capacity(clients, 0, tables)["table-open-cache"])
    assert min(usual, clients) <= kept <= usual
    needed = command_line.open_files(clients, tables, "", most)
    # Either the files suffice, or there are no fewer tables that would do.
    assert needed <= max(most, 4096) or kept <= max(clients + 20, 2000)
    assert command_line.open_files(clients, tables, "", 1e9) == command_line.open_files(
        clients, tables
    )


def test_an_engine_that_is_a_plugin_is_there_with_its_file(tmp_path: Path) -> None:
    assert BUILD.engines == ["innodb", "aria", "myisam"]
    packed = replace(BUILD, plugins=tmp_path)
    assert "rocksdb" not in packed.engines
    (tmp_path / "ha_rocksdb.so").touch()
    assert packed.engines == ["innodb", "aria", "myisam", "rocksdb"]
