"""A private server's binary log: only when it is asked for, and nowhere but in its data."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from example_builds import BUILD, argv
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.preparation import prepare, prepare_variant
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.experiment.model import Experiment, Server
from dballoc.ground.errors import UsageError
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load.sysbench_command import Sysbench
from dballoc.servers.private import binary_log, data_template, reserved_options
from dballoc.servers.private.admin_connection import Admin

MIB = 2**20


def settled(**options: str) -> dict[str, str]:
    reserved_options.check(options, "variant 'v'")
    return binary_log.settle_binary_log(
        {reserved_options.normal(name): value for name, value in options.items()}
    )


@pytest.mark.parametrize(
    ("value", "name"),
    [("", "dballoc-binlog"), ("1", "dballoc-binlog"), ("ON", "dballoc-binlog"), ("true", "dballoc-binlog"),
     ("mysql-bin", "mysql-bin"), ("my.log_1", "my.log_1")],
)  # fmt: skip
def test_a_server_has_a_binary_log_if_its_options_ask_for_one(value: str, name: str) -> None:
    options = settled(log_bin=value)
    assert options == {"server-id": "1", "log-bin": name}
    words = argv(options)
    assert f"--log-bin={name}" in words
    assert "--skip-log-bin" not in words


@pytest.mark.parametrize(
    "options",
    [{}, {"log_bin": "OFF"}, {"log_bin": "0"}, {"log_bin": "false"}, {"skip_log_bin": ""}],
)
def test_otherwise_it_has_none(options: dict[str, str]) -> None:
    words = argv(settled(**options))
    assert "--skip-log-bin" in words
    assert not [w for w in words if w.startswith(("--log-bin", "--server-id"))]


def test_its_number_is_the_users_if_there_is_one() -> None:
    assert settled(log_bin="", server_id="7")["server-id"] == "7"


@pytest.mark.parametrize(
    "value", ["/var/lib/mysql/bin", "../bin", "sub/bin", ".hidden", "a b", "x\n", "ü", "x" * 65]
)
def test_a_log_elsewhere_is_refused(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        reserved_options.check({"log-bin": value}, "variant 'v'")
    complaint = f"variant 'v': option log_bin: {value!r} is not a plain name;"
    assert str(caught.value).startswith(complaint)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "option", ["loose_log_bin", "enable-log-bin", "maximum-log-bin", "loose-skip-log-bin"]
)
def test_another_spelling_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=r"write log_bin, or skip_log_bin$"):
        reserved_options.check({option: "x"}, "variant 'v'")


@given(st.text(max_size=70))
def test_no_accepted_name_leaves_the_data_directory(value: str) -> None:
    try:
        reserved_options.check({"log_bin": value}, "x")
    except UsageError:
        return
    name = binary_log.settle_binary_log({"log-bin": value}).get("log-bin", "off")
    assert Path("/data", name).parent == Path("/data")
    assert not name.startswith((".", "-"))


def test_old_files_go_and_the_newest_stays() -> None:
    told: list[str] = []

    class Recorder(Admin):
        def __init__(self) -> None:
            pass

        def rows(self, sql: str) -> list[tuple[Any, ...]]:
            told.append(sql)
            return [("log.000001", 9), ("log.000002", 4)] if sql.startswith("SHOW") else []

    Recorder().empty_binary_log()
    assert told == [
        "FLUSH BINARY LOGS",
        "SHOW BINARY LOGS",
        "PURGE BINARY LOGS TO 'log.000002'",
    ]


# -- room on the disk


@pytest.mark.parametrize(
    ("family", "version", "options", "size"),
    [
        ("mysql", "5.5.34", {"innodb-log-file-size": "1G", "innodb-log-files-in-group": "4"}, 4096),
        ("mysql", "5.5.34", {"innodb-log-file-size": "64M"}, 128),
        ("mariadb", "10.11.6", {"innodb-log-file-size": "20G"}, 20 * 1024),
        ("mariadb", "10.4.2", {"innodb-log-file-size": "50331648"}, 96),
        ("mysql", "8.0.40", {"innodb-redo-log-capacity": "100G"}, 100 * 1024),
        ("mysql", "8.0.40", {}, 0),
        ("mysql", "8.0.40", {"innodb-log-file-size": "much"}, 0),
    ],
)
def test_bytes_of_the_redo_log(
    family: str, version: str, options: dict[str, str], size: int
) -> None:
    build = replace(BUILD, family=family, version=version)
    assert prepare_variant._count_redo_bytes(build, options) == size * MIB


def test_what_an_old_server_cannot_change_later_is_set_when_its_data_are_made() -> None:
    logs = {"innodb_log_file_size": "16M", "innodb-log-files-in-group": "4"}
    server = Server(options={**logs, "sync_binlog": "1"}, init_options={"innodb_page_size": "8K"})
    old, new = (replace(BUILD, family="mysql", version=v) for v in ("5.5.34", "5.6.40"))
    of_old, of_new = (prepare_variant._choose_init_options(server, b) for b in (old, new))
    assert of_old == {**logs, "innodb_page_size": "8K"}
    assert of_new == {"innodb_page_size": "8K"}


@pytest.mark.parametrize("family", ["mariadb", "mysql"])
def test_files_of_rocksdb_are_written_as_the_server_s_options_say(family: str) -> None:
    shape = {"rocksdb_default_cf_options": "target_file_size_base=1M", "rocksdb-block-size": "8K"}
    server = Server(options={**shape, "rocksdb_block_cache_size": "26M"})
    build = replace(BUILD, family=family, version="10.11.6" if family == "mariadb" else "8.0.40")
    assert prepare_variant._choose_init_options(server, build) == shape


@pytest.mark.parametrize("family", ["mariadb", "mysql"])
def test_data_have_the_page_size_of_the_server_s_options(family: str) -> None:
    server = Server(options={"loose_innodb_page_size": "8K", "innodb_buffer_pool_size": "64M"})
    build = replace(BUILD, family=family, version="10.11.6" if family == "mariadb" else "8.0.40")
    chosen = prepare_variant._choose_init_options(server, build)
    assert chosen == {"loose_innodb_page_size": "8K"}


class Prepared(PreparedCampaign):
    """A campaign whose data are a MiB and there already."""

    def _all_recipes(self) -> list[data_template.Recipe]:
        return []

    def _data_bytes(self) -> dict[str, int]:
        return {"data": MIB}


def prepared(experiment: Experiment, options: dict[str, str], redo_bytes: int = 0) -> Prepared:
    variant: Any = SimpleNamespace(
        options=options, redo_bytes=redo_bytes, server_cpus=frozenset({0, 1, 2}), pool_bytes=MIB
    )
    nothing: Any = None
    return Prepared(
        experiment=experiment,
        variants={"glibc": variant},
        user=ServerUser(None),
        sysbench=Sysbench(Path("/s"), "1.0", Path("/s")),
        contents=nothing,
    )


def room(experiment: Experiment, options: dict[str, str], redo_bytes: int = 0) -> int:
    """Bytes of disk that a campaign needs beside its data."""
    tables = data_template.tables_bytes(experiment.data) if "load" in experiment.workloads else 0
    return prepared(experiment, options, redo_bytes).disk_needed - MIB - tables


def test_the_logs_count_as_disk_that_is_needed(experiment: Callable[..., Experiment]) -> None:
    time = {"warmup": "5s", "level": "20s"}
    writing = experiment(workloads=["oltp_read_write"], design="solo", time=time)
    reading = experiment(workloads=["oltp_read_only"], design="solo", time=time)
    log = {"log-bin": "dballoc-binlog"}
    assert room(writing, {}, redo_bytes=64 * MIB) == 64 * MIB
    # The longest step, for each of three CPUs.
    assert room(writing, log) == 3 * 20 * binary_log.BYTES_PER_CPU_SECOND
    assert room(reading, log) == 0
    filling = experiment(workloads=["load"], design="solo", time=time, data={"rows": 10**7})
    assert room(filling, log) == data_template.tables_bytes(filling.data) > 10**9


def test_a_full_disk_is_refused_with_what_needs_less(
    experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(prepare.user_directories, "make_cache", lambda: tmp_path)
    monkeypatch.setattr(prepare.directories, "free_bytes", lambda _: 0)
    writing = experiment(workloads=["oltp_read_write"], design="solo")
    for options, remedy in (
        ({}, "lower data.rows, or set DBALLOC_CACHE"),
        (
            {"log-bin": "x"},
            "lower data.rows or time.level, leave log_bin out, or set DBALLOC_CACHE",
        ),
    ):
        with pytest.raises(
            UsageError, match=f"for data and logs, 0.0 GiB free; make room, {remedy}$"
        ):
            prepare._check_memory_and_disk(prepared(writing, options))
