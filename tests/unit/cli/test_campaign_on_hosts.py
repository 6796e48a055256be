"""What bench --ray refuses before it joins a cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import measured_campaign
import pytest
import simulated_hosts

from dballoc.campaign.elsewhere.block_request import find_secret
from dballoc.campaign.elsewhere.place_blocks import Host, Role
from dballoc.cli import extras
from dballoc.cli.shared import campaign_on_hosts
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.load.workload_files import (
    MOST_BYTES,
    read_workload_files,
    write_workload_files,
)
from dballoc.store.facts import Environment

MakeExperiment = Callable[..., Experiment]


def test_an_extension_stays_on_one_host() -> None:
    with pytest.raises(UsageError, match="--extend: not with --ray"):
        campaign_on_hosts.check_flags("20m")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda module: None if module == "ray" else object())
    with pytest.raises(UsageError, match=r"bench --ray needs more packages: .*dballoc\[hosts\]"):
        campaign_on_hosts.check_flags(None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": {"directory": "/srv/data", "database": "shop"}}, "own data"),
        ({"record": {}}, "a recording"),
    ],
)
def test_what_is_on_this_machine_alone_is_not_sent(
    experiment: MakeExperiment, changes: dict[str, Any], words: str
) -> None:
    with (
        pytest.raises(UsageError, match=f"--ray: {words} cannot be sent to other hosts"),
        campaign_on_hosts.join_cluster(
            "10.0.0.1:6379", measured_campaign.make_setting(experiment(**changes)), Path("none")
        ),
    ):
        raise AssertionError


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"server": {"options": {"report-password": "hunter2"}}}, "report-password"),
        ({"variant": [{"name": "glibc", "env": {"AWS_SECRET_ACCESS_KEY": "x"}}]}, "AWS_SECRET"),
        (
            {"variant": [{"name": "glibc", "server": {"options": {"wsrep_sst_auth": "a:b"}}}]},
            "wsrep_sst_auth",
        ),
        ({"load": {"options": {"api-token": "hunter2"}}}, "api-token"),
        (
            {"workload": {"mine": {"use": "oltp_read_only", "options": {"api-token": "hunter2"}}}},
            "api-token",
        ),
        ({"warmup_sql": ["CREATE USER u IDENTIFIED BY 'hunter2'"]}, "warmup_sql"),
        ({"variant": [{"name": "glibc", "tunables": {"upload_token": "hunter2"}}]}, "upload_token"),
    ],
)
def test_a_secret_of_the_experiment_is_not_sent(
    experiment: MakeExperiment, changes: dict[str, Any], name: str
) -> None:
    with (
        pytest.raises(UsageError, match=f"--ray: {name}.* holds a secret") as refused,
        campaign_on_hosts.join_cluster(
            "10.0.0.1:6379", measured_campaign.make_setting(experiment(**changes)), Path("none")
        ),
    ):
        raise AssertionError
    assert "hunter2" not in str(refused.value)


def test_settings_that_are_no_secrets_are_sent(experiment: MakeExperiment) -> None:
    options = {"innodb_buffer_pool_size": "1G", "old_passwords": "0", "user": "mysql"}
    assert find_secret(experiment(server={"options": options})) is None


def test_a_cluster_without_a_token_is_not_joined(
    experiment: MakeExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with (
        pytest.raises(UsageError, match="lets everybody in"),
        campaign_on_hosts.join_cluster(
            "10.0.0.1:6379", measured_campaign.make_setting(experiment()), Path("none")
        ),
    ):
        raise AssertionError


@pytest.mark.parametrize(("clients", "apart"), [([], False), (["x"], True)])
def test_a_campaign_that_is_resumed_keeps_its_clients_where_they_are(
    experiment: MakeExperiment, tmp_path: Path, clients: list[str], apart: bool
) -> None:
    assert campaign_on_hosts.find_clients_apart(tmp_path / "r") is None
    hosts = simulated_hosts.SimulatedHosts(names=["a", *clients], clients=clients)
    simulated_hosts.run(experiment(design="solo", blocks=1), hosts, tmp_path / "r")
    assert campaign_on_hosts.find_clients_apart(tmp_path / "r") is apart


def test_own_workloads_are_sent_as_they_are(experiment: MakeExperiment, tmp_path: Path) -> None:
    script, sql = tmp_path / "mine.lua", tmp_path / "orders.sql"
    script.write_bytes(b"-- \xff\n")
    sql.write_text("SELECT 1;\n")
    chosen = experiment(
        workload={
            "mine": {"script": str(script)},
            "orders": {"sql": str(sql)},
            "unused": {"script": "/nowhere.lua"},
            "points": {"use": "oltp_point_select", "options": {"tables": "2"}},
        },
        workloads=["mine", "orders", "points"],
    )
    files = read_workload_files(chosen)
    assert set(files) == {"mine", "orders"}
    (tmp_path / "node").mkdir()
    table = experiment_file.parse_table(experiment_file.format_experiment(chosen), "x")
    there = experiment_file.build_experiment(
        write_workload_files(table, files, tmp_path / "node"), "x"
    )
    for name, sent in (("mine", script), ("orders", sql)):
        workload = there.workload[name]
        path = Path(workload.script or workload.sql or "")
        assert path.is_relative_to(tmp_path / "node")
        assert path.name == sent.name
        assert path.read_bytes() == sent.read_bytes()
    assert there.workload["points"] == chosen.workload["points"]


def test_own_workloads_that_are_too_large_are_not_sent(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    script = tmp_path / "mine.lua"
    script.write_bytes(b" " * (MOST_BYTES + 1))
    chosen = experiment(workload={"mine": {"script": str(script)}}, workloads=["mine"])
    with pytest.raises(UsageError, match="own workloads of more than 1 MiB"):
        read_workload_files(chosen)
    script.unlink()
    with pytest.raises(UsageError, match=r"workload 'mine': .*No such file"):
        read_workload_files(chosen)


BOTH = frozenset({"server", "client"})


@pytest.mark.parametrize(
    ("roles", "unusable", "words"),
    [
        ([{"server"}], [], None),
        ([{"server"}, {"client"}], ["10.0.0.3: it has dballoc 0.0"], None),
        ([BOTH, BOTH], [], None),
        ([{"server"}, {"server"}], ["10.0.0.3: it has dballoc 0.0"], "no client host can be used"),
        ([BOTH], [], "beside h0 there is not another client host"),
        ([{"client"}, {"client"}], [], "beside h0, h1 there is not a server host"),
    ],
)
def test_a_campaign_with_clients_apart_begins_where_a_block_can_have_both(
    roles: list[set[Role]], unusable: list[str], words: str | None
) -> None:
    hosts = [
        Host(name=f"h{n}", kernel=f"k{n}", environment=Environment(), roles=frozenset(each))
        for n, each in enumerate(roles)
    ]
    if words is None:
        campaign_on_hosts.check_client_hosts("10.0.0.1:6379", hosts, unusable)
        return
    with pytest.raises(UsageError, match=f"--ray 10.0.0.1:6379: .*{words}"):
        campaign_on_hosts.check_client_hosts("10.0.0.1:6379", hosts, unusable)
