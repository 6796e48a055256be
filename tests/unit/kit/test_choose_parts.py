"""What a kit carries, and what it cannot."""

from pathlib import Path
from typing import Any

import pytest

from dballoc.experiment import experiment_file
from dballoc.ground.errors import UsageError
from dballoc.kit.choose_parts import (
    ServerPart,
    find_loaded_modules,
    join_uses,
    list_plugins,
    name_entry,
    refuse_uncarried,
)
from dballoc.servers.build import Build

TABLE: dict[str, Any] = {
    "name": "e",
    "baseline": "glibc",
    "workloads": ["oltp_read_only"],
    "threads": [1],
    "variant": [{"name": "glibc", "allocator": "glibc"}],
}


def test_an_ordinary_experiment_can_be_carried() -> None:
    refuse_uncarried(experiment_file.build_experiment(TABLE, "e"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"data": {"directory": "/var/lib/mysql"}},
            "data.directory: data of your own are not carried",
        ),
        ({"record": {}}, "record: traces need packages"),
        ({"data": {"sql": ["/dump.sql"]}}, "data.sql: data of your own are not carried"),
        (
            {"variant": [{"name": "glibc", "server": {"recipe": "build it with -DX"}}]},
            "variant 'glibc': its server cannot be fetched: build it with -DX",
        ),
    ],
)
def test_what_cannot_be_carried_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        refuse_uncarried(experiment_file.build_experiment(TABLE | change, "e"))


@pytest.mark.parametrize(
    ("options", "plugins"),
    [
        ({"plugin-load-add": "ha_rocksdb"}, ["ha_rocksdb"]),
        (
            {"plugin_load": "rocksdb=ha_rocksdb.so;auth_ed25519.so"},
            ["ha_rocksdb.so", "auth_ed25519.so"],
        ),
        ({"plugin_load_add": "a.so:b=c.so"}, ["a.so", "c.so"]),
        ({"plugin-maturity": "alpha", "innodb_buffer_pool_size": "1G"}, []),
    ],
)
def test_plugins_that_options_load(options: dict[str, str], plugins: list[str]) -> None:
    assert list_plugins(options) == plugins


def test_modules_that_a_script_loads() -> None:
    script = 'require("oltp_common")\nlocal m = require \'mine\'\n-- required reading: "x"\n'
    assert find_loaded_modules(script) == ["oltp_common", "mine"]


def test_a_server_with_two_names_is_carried_once() -> None:
    build = Build(
        family="mysql",
        version="8",
        executable=Path("/s/bin/mysqld"),
        basedir=Path("/s"),
        share=Path("/s"),
        plugins=None,
    )
    first = ServerPart(
        words=("mysql",), build=build, of_machine=True, fetched=None, plugins=(Path("/a"),)
    )
    other = ServerPart(
        words=("mysql@8",),
        build=build,
        of_machine=True,
        fetched=None,
        plugins=(Path("/a"), Path("/b")),
    )
    both = join_uses(first, other)
    assert (both.words, both.plugins, both.of_machine) == (
        ("mysql", "mysql@8"),
        (Path("/a"), Path("/b")),
        True,
    )
    own = ServerPart(words=("mysql in /s",), build=build, of_machine=False, fetched=None)
    assert not join_uses(both, own).of_machine


def test_entries_have_names_of_their_own() -> None:
    assert name_entry("mysql", "8.0", []) == "mysql@8.0"
    assert name_entry("mysql", "8.0", ["mysql@8.0", "mysql@8.0.2"]) == "mysql@8.0.3"
    assert name_entry("a/b", "1", []) == "a-b@1"
