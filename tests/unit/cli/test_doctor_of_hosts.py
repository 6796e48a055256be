"""doctor --ray: what it prints, and with which exit status; without Ray."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import typer

from dballoc.campaign.elsewhere.place_blocks import Host
from dballoc.cli.shared import doctor_of_hosts
from dballoc.ground.errors import Failure
from dballoc.store.facts import Environment

ray_executor = pytest.importorskip("dballoc.campaign.elsewhere.ray_executor", exc_type=ImportError)

HOST = Host(name="db1 (10.0.0.1)", kernel="k1", environment=Environment())
OTHER_VERSION = "10.0.0.2: it has dballoc 0.0, the driver 0.1"


def make_examination(**finding: str) -> Any:
    words = {"name": "sysbench", "state": "ok", "text": "1.0.20", "remedy": ""} | finding
    return ray_executor.HostExamination.model_validate({"findings": [words], "ahead": 0.0})


class FakeCluster:
    """An executor of one host, unless a test says otherwise."""

    hosts: tuple[Host, ...] = (HOST,)
    unusable: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.examination: Any = make_examination()

    def list_hosts(self) -> list[Host]:
        return list(self.hosts)

    def list_unusable(self) -> list[str]:
        return list(self.unusable)

    def examine_hosts(self) -> dict[str, Any]:
        return {host.name: self.examination for host in self.hosts}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()

    @contextlib.contextmanager
    def connect(address: str, notice: Callable[[str], None]) -> Iterator[FakeCluster]:
        yield fake

    monkeypatch.setattr(ray_executor, "connect", connect)
    return fake


def examine(capsys: pytest.CaptureFixture[str], as_json: bool) -> tuple[int, str]:
    """The exit status, and what is printed."""
    try:
        doctor_of_hosts.print_hosts("10.0.0.1:6379", as_json)
        status = 0
    except typer.Exit as exit_:
        status = exit_.exit_code
    return status, capsys.readouterr().out


def test_a_host_that_has_all(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(capsys, as_json=False) == (0, "db1 (10.0.0.1): ok\nthe hosts are alike\n")
    status, text = examine(capsys, as_json=True)
    assert status == 0
    assert json.loads(text) == {
        "hosts": {"db1 (10.0.0.1)": []},
        "no answer": {},
        "cannot be used": [],
        "differences": [],
    }


@pytest.mark.parametrize("hosts", [(HOST,), ()])
def test_a_node_that_cannot_be_used_is_named_and_is_no_success(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str], hosts: tuple[Host, ...]
) -> None:
    cluster.hosts, cluster.unusable = hosts, (OTHER_VERSION,)
    status, text = examine(capsys, as_json=True)
    assert status == 1
    assert json.loads(text)["cannot be used"] == [OTHER_VERSION]
    status, text = examine(capsys, as_json=False)
    assert status == 1
    assert text.count("10.0.0.2") == 1
    assert f"cannot be used: {OTHER_VERSION}" in text


@pytest.mark.parametrize(("state", "expected"), [("missing", 1), ("warn", 0), ("note", 0)])
def test_only_what_is_missing_fails(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str], state: str, expected: int
) -> None:
    cluster.examination = make_examination(state=state)
    assert examine(capsys, as_json=True)[0] == expected


def test_a_silent_host_fails(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.examination = "not in time"
    status, text = examine(capsys, as_json=True)
    assert status == 1
    assert json.loads(text)["no answer"] == {"db1 (10.0.0.1)": "not in time"}


def test_a_cluster_without_a_node_for_us(cluster: FakeCluster) -> None:
    cluster.hosts = ()
    with pytest.raises(Failure, match="no node has the resource dballoc_server or dballoc_client"):
        doctor_of_hosts.print_hosts("10.0.0.1:6379", as_json=True)


def test_hosts_with_another_version_are_named(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.hosts = tuple(replace(HOST, name=name, kernel=name) for name in ("a", "b", "c"))
    versions = {
        "a": "1.0.20 (/usr/bin/sysbench)",
        "b": "1.0.20 (/opt/x)",
        "c": "1.1.0 (/usr/bin/y)",
    }
    examinations = {name: make_examination(text=text) for name, text in versions.items()}
    monkeypatch.setattr(cluster, "examine_hosts", lambda: examinations)
    status, text = examine(capsys, as_json=False)
    assert status == 0
    assert "sysbench: c: 1.1.0; the others: 1.0.20" in text.splitlines()
    # What is no program has no version.
    examinations["c"] = make_examination(name="memory", text="1 GiB")
    assert examine(capsys, as_json=False)[1].endswith("the hosts are alike\n")
