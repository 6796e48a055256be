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
from dballoc.errors import Failure, NotNow, UsageError
from dballoc.host.settings.machine_lock import HeldByGuardian, HeldByRun
from dballoc.hosts import node_block
from dballoc.hosts.block_request import BlockRequest
from dballoc.hosts.client.remote_load import ClientHostFailed


class FakeCustody:
    """A guardian that only knows its directories."""

    made: list["FakeCustody"]

    def __init__(self) -> None:
        self.directories: list[Path] = []
        self.made.append(self)

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


def test_each_directory_of_a_block_has_one_guardian_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Results that servers write are removed by the guardian of the servers, when they have ended."""
    monkeypatch.setattr(FakeCustody, "made", [], raising=False)
    monkeypatch.setattr(node_block, "Custody", FakeCustody)
    monkeypatch.setattr(node_block.tempfile, "gettempdir", lambda: str(tmp_path))
    user = SimpleNamespace(show=lambda path: None)
    monkeypatch.setattr(node_block, "server_user", lambda: user)
    monkeypatch.setattr(node_block, "_prepare", lambda *_: SimpleNamespace(variants={}))
    during: list[list[str]] = []

    def run_in_session(
        setting: Any, out: Path, observer: Any, work: Callable[[Any], None], lease: Any
    ) -> None:
        os.close(lease.descriptor)
        assert list_directories() == [["dballoc-own", "dballoc-block"]]
        work(SimpleNamespace(custody=FakeCustody()))

    monkeypatch.setattr(node_block, "run_in_session", run_in_session)
    monkeypatch.setattr(node_block, "_run_trials", lambda *_: during.extend(list_directories()))
    request = BlockRequest(
        dballoc=dballoc.__version__,
        experiment="",
        design="solo",
        block=1,
        attempt=0,
        variants={},
        lease=30.0,
    )
    node_block.run_block(request, None, None)  # type: ignore[arg-type]
    assert during == [["dballoc-own"], ["dballoc-block"]]


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
    refusal = node_block.make_refusal(error)
    assert (refusal.is_passing, refusal.blames_client) == (is_passing, blames_client)
    assert refusal.text == str(error)
