"""How sysbench is asked: everything that its version leaves to a default is said, no password is an
argument.
"""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.experiment.model import Data, Experiment, Load
from dballoc.ground.errors import UsageError
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load import client, sysbench_command
from dballoc.load.workload import of_catalogue, settle
from dballoc.servers import client_programs
from dballoc.servers.private.command_line import Address

DATA = Data(tables=3, rows=500)
BENCH = sysbench_command.Sysbench(Path("/usr/bin/sysbench"), "1.0.20", Path("/usr/share/sysbench"))


def test_the_options_of_a_run() -> None:
    options = sysbench_command.run_options(
        of_catalogue("oltp_read_only"),
        16,
        10,
        DATA,
        "innodb",
        Load(random="pareto", options={"skip_trx": "on"}),
    )
    wanted = {
        "tables": "3",
        "table-size": "500",
        "threads": "16",
        "time": "10",
        "events": "0",
        "report-interval": "1",
        "rand-type": "pareto",
        "mysql-db": "sbtest",
        "db-ps-mode": "auto",
        "histogram": "on",
        "percentile": "95",
        "skip-trx": "on",
    }
    assert wanted.items() <= options.items()
    assert (
        sysbench_command.run_options(
            of_catalogue("oltp_read_only"), 1, 10, DATA, "innodb", Load(prepared_statements=False)
        )["db-ps-mode"]
        == "disable"
    )
    micro = of_catalogue("point-query_range=100")  # which sends text by itself
    assert micro.prepares(Load(prepared_statements="auto")) is True
    assert micro.prepares(Load()) is False


def test_the_password_is_in_a_file_of_ours_alone(tmp_path: Path) -> None:
    options = sysbench_command.connection_options(Address(Path("/run/s.sock")), "secret")
    config = sysbench_command.write_config(tmp_path / "s.cnf", options, ServerUser(None))
    assert config.stat().st_mode & 0o777 == 0o600
    assert "mysql-password=secret" in config.read_text().splitlines()
    assert not any(
        "secret" in word
        for word in sysbench_command.command(BENCH, config, "run", {"threads": "1"})
    )


def test_socket_or_tcp() -> None:
    socket = sysbench_command.connection_options(Address(Path("/run/s.sock")), "")
    tcp = sysbench_command.connection_options(Address(Path("/run/s.sock"), 3307), "")
    assert (socket.get("mysql-socket"), socket.get("mysql-port")) == ("/run/s.sock", None)
    assert (tcp.get("mysql-socket"), tcp.get("mysql-host"), tcp.get("mysql-port")) == (
        None,
        "127.0.0.1",
        "3307",
    )


def test_the_client_gets_nothing_of_the_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_PRELOAD", "MALLOC_CONF", "GLIBC_TUNABLES"):
        monkeypatch.setenv(name, "x")
    made = sysbench_command.environment(BENCH, of_catalogue("oltp_read_only"), Path("/out.jsonl"))
    assert set(made) == {"PATH", "LUA_PATH", "DBALLOC_SCRIPT", "DBALLOC_INTERVALS"}


def test_prepared_statements_are_counted() -> None:
    assert sysbench_command.statements(of_catalogue("oltp_read_only"), 256, 8, Load()) == 256 * (
        8 * 5 + 2
    )
    assert (
        sysbench_command.statements(
            of_catalogue("oltp_read_only"), 256, 8, Load(prepared_statements=False)
        )
        == 0
    )


def test_statements_go_as_the_workload_has_them_unless_told_otherwise() -> None:
    def mode(name: str, load: Load) -> str:
        return sysbench_command.run_options(of_catalogue(name), 1, 10, DATA, "innodb", load)[
            "db-ps-mode"
        ]

    micro = "point-query_range=100"
    assert (mode("oltp_point_select", Load()), mode(micro, Load())) == ("auto", "disable")
    assert mode(micro, Load(prepared_statements=True)) == "auto"
    assert sysbench_command.statements(of_catalogue(micro), 256, 16, Load()) == 0
    assert sysbench_command.statements(
        of_catalogue(micro), 256, 16, Load(prepared_statements=True)
    ) == 256 * (16 + 2)


def test_the_load_has_no_time() -> None:
    assert (
        sysbench_command.run_options(of_catalogue("load"), 4, 0, DATA, "innodb", Load())["time"]
        == "0"
    )


def test_fewer_clients_may_fill_the_tables(experiment: Callable[..., Experiment]) -> None:
    works = settle(experiment(workloads=["load"], data={"load_clients": 1}))
    assert works["load"].options == {"clients": "1"}
    assert settle(experiment(workloads=["load"]))["load"].options == {}


def test_a_dump_is_told_to_sysbench_as_words_of_a_shell(tmp_path: Path) -> None:
    address = Address(tmp_path / "s.sock")
    connection = client.connection_file(tmp_path, address, "secret", ServerUser(None))
    job = client.ClientJob(
        workload="dump-churn",
        threads=1,
        seconds=5,
        data=Data(database="my shop"),
        engine="innodb",
        load=Load(),
        program=Path("/opt/my sql/mariadb-dump"),
    )
    places = client.Places(connection, tmp_path / "work")
    beside = client.beside_command(job, of_catalogue("dump-churn"), places)
    assert beside is not None
    words = beside.command
    assert beside.log.parent == places.work
    assert shlex.split(words)[0] == "/opt/my sql/mariadb-dump"
    assert shlex.split(words)[-1] == "my shop"
    assert "secret" not in words
    option_file = tmp_path / "client.cnf"
    assert f"--defaults-file={option_file}" in shlex.split(words)
    assert option_file.stat().st_mode & 0o777 == 0o600
    assert f"socket={address.socket}" in option_file.read_text()


def test_a_backup_is_streamed_and_knows_the_account_from_a_file(tmp_path: Path) -> None:
    connection = client.connection_file(
        tmp_path, Address(tmp_path / "s.sock"), "secret", ServerUser(None)
    )
    job = client.ClientJob(
        workload="backup-beside-writes",
        threads=1,
        seconds=5,
        data=Data(),
        engine="innodb",
        load=Load(),
        program=Path("/usr/bin/xtrabackup"),
    )
    places = client.Places(connection, tmp_path / "work")
    beside = client.beside_command(job, of_catalogue(job.workload), places)
    assert beside is not None
    words = shlex.split(beside.command)
    assert words[:2] == ["/usr/bin/xtrabackup", f"--defaults-file={tmp_path / 'client.cnf'}"]
    assert {"--backup", "--stream=xbstream"} <= set(words)
    assert "secret" not in beside.command
    # Nothing of it lies beside the server's data.
    assert all(word.endswith(("work", "work/backup")) for word in words if "dir=" in word)


@pytest.mark.parametrize(
    ("output", "series"),
    [
        ("mariadb-backup based on MariaDB server 10.11.19-MariaDB debian-linux-gnu", "10.11"),
        ("xtrabackup version 8.4.0-3 based on MySQL server 8.4.2 Linux (x86_64)", "8.4"),
        ("something else 1.2", None),
    ],
)
def test_the_series_of_a_backup_program(output: str, series: str | None) -> None:
    assert client_programs.find_series(output) == series


def test_a_workload_that_is_not_there() -> None:
    with pytest.raises(
        UsageError, match="no workload 'oltp_readonly'; did you mean 'oltp_read_only'"
    ):
        of_catalogue("oltp_readonly")
