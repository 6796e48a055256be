"""Who drives TPC-C, and what HammerDB is told. That its scripts are Tcl, and what they do, is
test_hammerdb_driver.py's.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.ground.errors import UsageError
from dballoc.load import hammerdb_command
from dballoc.load.workload import Workload, of_catalogue

Install = Callable[..., Path]
TPCC = of_catalogue("tpcc")
ACCOUNT = {"user": "dballoc", "password": "secret", "socket": "/run/x/mysqld.sock"}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """``install("HammerDB-4.12", on_path=True)``; nothing of the machine's own is seen."""
    monkeypatch.setattr(hammerdb_command, "_PLACES", (str(tmp_path),))
    monkeypatch.setenv("PATH", "/nowhere")

    def make(directory: str, text: str = "", on_path: bool = False) -> Path:
        path = tmp_path / directory / "hammerdbcli"
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o755)
        if on_path:
            monkeypatch.setenv("PATH", str(path.parent))
        return path

    return make


def with_options(**options: str) -> Workload:
    return replace(TPCC, options={"warehouses": "2", **options})


def test_it_is_found_on_the_path_first(install: Install) -> None:
    install("HammerDB-5.0")
    named = install("HammerDB-4.4", 'set hdb_version "v4.4"\n', on_path=True)
    assert (found := hammerdb_command.find())
    assert (found.executable, found.version) == (named, "4.4")


def test_else_the_highest_version_below_the_usual_places(install: Install) -> None:
    for name in ("HammerDB-4.9", "HammerDB-4.12", "HammerDB-4.10"):
        install(name, name)
    assert (found := hammerdb_command.find())
    assert (found.executable.parent.name, found.version) == ("HammerDB-4.12", "4.12")


def test_one_that_cannot_be_run_is_none(install: Install) -> None:
    install("HammerDB-4.9").chmod(0o644)
    assert hammerdb_command.find() is None


def test_without_it_our_lua_drives(install: Install) -> None:
    found = hammerdb_command.settle(with_options())
    assert (found.driver, found.script, found.options) == (
        "sysbench",
        "dballoc_tpcc",
        {"warehouses": "2"},
    )


def test_where_it_is_it_drives(install: Install) -> None:
    path = install("HammerDB-4.12")
    found = hammerdb_command.settle(with_options())
    assert (found.driver, found.script) == ("hammerdb", str(path))
    # Data of the one driver are none of the other's.
    assert found.content != TPCC.content
    assert found.title.startswith("HammerDB 4.12's TPROC-C")


@pytest.mark.parametrize(
    "options", [{"driver": "sysbench"}, {"items": "50"}, {"mysql_ignore_errors": "1213"}]
)
def test_our_lua_drives_where_it_is_asked_for_or_hammerdb_does_not_know_all_options(
    install: Install, options: dict[str, str]
) -> None:
    install("HammerDB-4.12")
    found = hammerdb_command.settle(with_options(**options))
    assert found.driver == "sysbench"
    assert "driver" not in found.options


def test_other_workloads_are_left_alone(install: Install) -> None:
    install("HammerDB-4.12")
    work = of_catalogue("oltp_read_only")
    assert hammerdb_command.settle(work) is work


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"driver": "both"}, "driver = 'both'; it is installed, hammerdb or sysbench"),
        ({"driver": "hammerdb"}, "HammerDB is not on this machine; install it"),
        ({"driver": "hammerdb", "items": "5"}, "HammerDB has no option 'items'"),
        ({"driver": "hammerdb", "warehouses": "many"}, "warehouses = 'many'; give a whole number"),
    ],
)
def test_what_cannot_be_had_is_refused(
    install: Install, options: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=r"^workload 'tpcc': ") as caught:
        hammerdb_command.settle(with_options(**options))
    assert says in str(caught.value)


def test_a_run_is_told_all_it_needs(tmp_path: Path) -> None:
    work = replace(with_options(), driver="hammerdb", script="/opt/HammerDB-4.12/hammerdbcli")
    task = hammerdb_command.run(
        work,
        8,
        30,
        engine="rocksdb",
        prepared=True,
        account=tmp_path / "client.cnf",
        place=tmp_path / "work",
    )
    lines = hammerdb_command.script(task, True, ACCOUNT).splitlines()
    assert lines[:2] == ["dbset db maria", "dbset bm TPC-C"]
    for line in (
        "diset connection maria_socket /run/x/mysqld.sock",
        "diset tpcc maria_user dballoc",
        "diset tpcc maria_dbase tpcc",
        "diset tpcc maria_storage_engine rocksdb",
        "diset tpcc maria_driver timed",
        "diset tpcc maria_rampup 0",
        "diset tpcc maria_prepared true",
        "vuset vu 8",
    ):
        assert line in lines
    # Its virtual users are made of a script that must be there, and are run when they are there.
    assert [lines.index(c) for c in ("loadscript", "vucreate", "vurun")] == sorted(
        lines.index(c) for c in ("loadscript", "vucreate", "vurun")
    )
    assert "secret" not in " ".join(hammerdb_command.command(task))
    assert "secret" not in str(hammerdb_command.environment(tmp_path))


def test_mysql_over_tcp(tmp_path: Path) -> None:
    work = replace(with_options(warehouses="3"), driver="hammerdb", script="/opt/hammerdbcli")
    task = hammerdb_command.prepare(work, 2, "innodb", tmp_path / "client.cnf", tmp_path)
    account = {"user": "u", "password": "p", "host": "127.0.0.1", "port": "3307"}
    lines = hammerdb_command.script(task, False, account).splitlines()
    for line in (
        "dbset db mysql",
        "diset connection mysql_host 127.0.0.1",
        "diset connection mysql_port 3307",
        "diset connection mysql_socket null",
        "diset tpcc mysql_count_ware 3",
        "diset tpcc mysql_num_vu 2",
        "buildschema",
    ):
        assert line in lines
    assert "vurun" not in lines


def test_no_more_build_users_than_warehouses(tmp_path: Path) -> None:
    task = hammerdb_command.prepare(
        replace(with_options(warehouses="1"), script="/x"),
        16,
        "innodb",
        tmp_path / "client.cnf",
        tmp_path,
    )
    assert "diset tpcc maria_num_vu 1" in hammerdb_command.script(task, True, ACCOUNT).splitlines()


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1))
def test_a_password_is_one_word_of_tcl(password: str) -> None:
    # Of Tcl's rules (Tcl(n)) all that can end a word or change it are those of characters that a
    # backslash takes away.
    task = hammerdb_command.prepare(
        replace(with_options(), script="/x"), 1, "innodb", Path("client.cnf"), Path("work")
    )
    text = hammerdb_command.script(task, True, {**ACCOUNT, "password": password})
    word = next(
        line for line in text.split("\n") if line.startswith("diset tpcc maria_pass ")
    ).removeprefix("diset tpcc maria_pass ")
    plain, escaped = "", False
    for character in word:
        if escaped or character != "\\":
            assert escaped or character.isalnum() or character in "_./-"
            plain, escaped = plain + character, False
        else:
            escaped = True
    assert plain == password
    assert not escaped


# As HammerDB 4 prints it where a schema is built without a server.
FAILED = """Vuser 1:RUNNING
Vuser 1:Monitor Thread
Vuser 1:CREATING TPCC SCHEMA
Error in Virtual User 1: mysqlconnect/db server: Can't connect to local server
Vuser 1:FINISHED FAILED
Vuser 2:RUNNING
"""


def test_a_failure_is_told_in_its_words() -> None:
    assert (
        hammerdb_command.failure(FAILED)
        == "Error in Virtual User 1: mysqlconnect/db server: Can't connect to local server"
    )
    assert hammerdb_command.failure(FAILED.replace("Error in", "In")) == "Vuser 1:FINISHED FAILED"
    assert hammerdb_command.failure(FAILED.replace("FAILED", "SUCCESS")) is None


def test_the_last_word() -> None:
    assert hammerdb_command.last_word("a\nb \n\n") == "b"
    assert hammerdb_command.last_word(os.linesep) == "it printed nothing"
