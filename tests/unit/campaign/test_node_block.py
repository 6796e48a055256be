"""What the process of a block does beside running it; with real servers:
tests/integration/test_block_on_node.py.
"""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dballoc
from dballoc.campaign.elsewhere import node_block
from dballoc.campaign.elsewhere.block_request import BlockRequest
from dballoc.campaign.elsewhere.client.remote_load import ClientHostFailed
from dballoc.campaign.elsewhere.node_process import make_refusal
from dballoc.experiment.designs import Design
from dballoc.ground.errors import Failure, NotNow, UsageError
from dballoc.host.guardian.guardian_client import Lease
from dballoc.host.settings.machine_lock import HeldByGuardian, HeldByRun


class FakeCustody:
    """A guardian that only knows its directories, and whether it has a lease and lives."""

    made: list["FakeCustody"]

    def __init__(self, lease: Lease | None = None) -> None:
        self.directories: list[Path] = []
        self.lease = lease
        self.is_closed = False
        self.made.append(self)

    def check(self) -> None:
        assert not self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def __enter__(self) -> "FakeCustody":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def scratch(self, path: Path) -> None:
        self.directories.append(path)

    def take_over(self, path: Path, other: "FakeCustody") -> None:
        self.scratch(path)
        other.directories.remove(path)


def list_directories() -> list[list[str]]:
    """What each guardian has, by the first words of the names."""
    custodies = FakeCustody.made
    return [[path.name.rpartition("-")[0] for path in c.directories] for c in custodies]


def make_request(**changes: Any) -> BlockRequest:
    words: dict[str, Any] = {
        "dballoc": dballoc.__version__,
        "experiment": "",
        "design": Design.SOLO,
        "block": 1,
        "attempt": 0,
        "variants": {},
        "sysbench": "1.0.20",
        "lease": 30.0,
    }
    return BlockRequest(**(words | changes))


def make_setting() -> Any:
    return SimpleNamespace(variants={}, sysbench=SimpleNamespace(version="1.0.20"))


def test_each_directory_of_a_block_has_one_guardian_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Results that servers write are removed by the guardian of the servers, when they have ended.
    Before that guardian is there another has the lease, and so has what is fetched; both at once
    would take its stamps from each other.
    """
    monkeypatch.setattr(FakeCustody, "made", [], raising=False)
    monkeypatch.setattr(node_block, "Custody", FakeCustody)
    monkeypatch.setattr(node_block.tempfile, "gettempdir", lambda: str(tmp_path))
    user = SimpleNamespace(show=lambda path: None)
    monkeypatch.setattr(node_block, "server_user", lambda: user)
    monkeypatch.setattr(BlockRequest, "build_experiment", lambda *_: None)
    monkeypatch.setattr(node_block, "prepare_campaign", lambda _: make_setting())
    leases: list[Lease] = []
    monkeypatch.setattr(
        node_block, "fetch_like_driver", lambda fetched, notice, lease: leases.append(lease)
    )
    during: list[list[str]] = []

    def run_in_session(
        setting: Any, out: Path, observer: Any, work: Callable[[Any], None], lease: Any
    ) -> None:
        os.close(lease.descriptor)
        assert list_directories() == [["dballoc-own", "dballoc-block"]]
        work(SimpleNamespace(custody=FakeCustody(lease)))

    monkeypatch.setattr(node_block, "run_in_session", run_in_session)

    def run_trials(*_: Any) -> None:
        during.extend(list_directories())
        assert [custody.is_closed for custody in FakeCustody.made] == [True, False]

    monkeypatch.setattr(node_block, "_run_trials", run_trials)
    node_block.run_block(make_request(), None, None)  # type: ignore[arg-type]
    assert during == [[], ["dballoc-own", "dballoc-block"]]
    assert {custody.lease for custody in FakeCustody.made} == set(leases)
    assert [lease.seconds for lease in leases] == [30.0]


def test_a_host_that_loads_itself_has_the_drivers_sysbench() -> None:
    node_block._check_prepared(make_setting(), make_request())
    with pytest.raises(UsageError, match=r"sysbench 1.0.20, on the driver 1.1.0; hosts of a"):
        node_block._check_prepared(make_setting(), make_request(sysbench="1.1.0"))


def test_a_client_host_has_the_drivers_sysbench() -> None:
    place = SimpleNamespace(host="far")
    loads: Any = SimpleNamespace(wait_until_ready=lambda: "1.1.0", place=place)
    node_block._wait_for_client_host(loads, "1.1.0")
    with pytest.raises(ClientHostFailed, match=r"far: sysbench 1.1.0, on the driver 1.0.20"):
        node_block._wait_for_client_host(loads, "1.0.20")


@pytest.mark.parametrize(
    ("error", "is_passing", "blames_client"),
    [
        (HeldByRun("another dballoc has it"), True, False),
        (HeldByGuardian("still locked by the guardian"), True, False),
        (UsageError("another version"), False, False),
        (NotNow("about 12 GiB of memory needed"), True, False),
        (Failure("a full disk"), True, False),
        (ClientHostFailed("no answer"), True, True),
    ],
)
def test_a_refusal_says_whether_another_try_may_end_otherwise(
    error: Exception, is_passing: bool, blames_client: bool
) -> None:
    refusal = make_refusal(error)
    assert (refusal.is_passing, refusal.blames_client) == (is_passing, blames_client)
    assert refusal.text == str(error)
