"""One block as a host runs it for a driver: real servers, messages on a pipe, and a lease without
which everything ends.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, processes_of, server_pid, wait_until

import dballoc
from dballoc.experiment import experiment_file, schedule
from dballoc.experiment.model import Experiment as Model
from dballoc.hosts.block_messages import (
    BlockFinished,
    FilePiece,
    Message,
    Refused,
    TrialFinished,
    TrialStarted,
    parse_message,
)
from dballoc.hosts.block_request import BlockRequest
from dballoc.hosts.store_answers import read_columns
from dballoc.store.results import Results


class Node:
    """The process of a block, its answers and its lease."""

    def __init__(self, cli: Cli, request: BlockRequest, place: Path) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        lease, self.lease = os.pipe2(os.O_CLOEXEC)
        self.answer, self.printed = place / "answer", place / "printed"
        with self.answer.open("wb") as out, self.printed.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dballoc.hosts.node_block", str(reader)],
                env=cli.env,
                stdin=lease,
                stdout=out,
                stderr=err,
                pass_fds=[reader],
            )
        os.close(reader)
        os.close(lease)
        with os.fdopen(writer, "wb") as file:
            file.write(request.model_dump_json().encode())

    def renew(self) -> bool:
        """Renew the lease; False when nobody holds it any more."""
        try:
            os.write(self.lease, b".")
        except BrokenPipeError:
            return False
        return True

    def has_ended(self) -> bool:
        """Renew the lease; whether the process has ended."""
        self.renew()
        return self.process.poll() is not None

    def list_messages(self, columns: dict[str, dict[str, str]]) -> list[Message]:
        """What it answered until now."""
        lines = self.answer.read_bytes().splitlines(keepends=True)
        return [parse_message(line, columns) for line in lines]

    def kill(self) -> None:
        """End it, if a test failed midway."""
        self.process.kill()
        self.process.wait()
        os.close(self.lease)


@pytest.fixture
def columns(tmp_path: Path) -> dict[str, dict[str, str]]:
    """The columns of an empty results database."""
    results = Results.create(tmp_path, {}, [])
    try:
        return read_columns(results)
    finally:
        results.close()


@pytest.fixture
def run_node(run_cli: Cli, tmp_path: Path) -> Iterator[Any]:
    """``run_node(request)``: the process of a block."""
    nodes: list[Node] = []

    def run(request: BlockRequest) -> Node:
        nodes.append(Node(run_cli, request, tmp_path))
        return nodes[-1]

    yield run
    for node in nodes:
        node.kill()


def make_request(experiment: Model, **changes: Any) -> BlockRequest:
    words: dict[str, Any] = {
        "dballoc": dballoc.__version__,
        "experiment": experiment_file.format_experiment(experiment),
        "design": "solo",
        "block": 3,
        "attempt": 1,
        "variants": {},
        "lease": 120.0,
    }
    return BlockRequest(**(words | changes))


def test_a_block_answers_trial_by_trial_while_its_lease_is_renewed(
    run_node: Any, tiny_experiment: Experiment, columns: dict[str, dict[str, str]]
) -> None:
    experiment = experiment_file.load_experiment(tiny_experiment(time={"idle": "0s"}))
    node = run_node(make_request(experiment, lease=4.0))
    wait_until(node.has_ended, 120)
    assert node.process.returncode == 0, node.printed.read_text()
    messages = node.list_messages(columns)
    planned = schedule.order_block(experiment, 3, 1)
    begun = [m.position for m in messages if isinstance(m, TrialStarted)]
    trials = [m for m in messages if isinstance(m, TrialFinished)]
    assert begun == [t.position for t in trials] == [slot.position for slot in planned]
    for trial in trials:
        row = trial.records[0]["trial"][0]
        assert row["outcome"] == "ok", row["fault_text"]
        steps = trial.records[0]["steps"]
        assert any(s["kind"] == "level" and float(s["tps"] or 0) > 0 for s in steps)
        files = {
            m.name for m in messages if isinstance(m, FilePiece) and m.position == trial.position
        }
        assert {"server.log", "variables.tsv"} <= files
    assert isinstance(messages[-1], BlockFinished)


@pytest.mark.parametrize("how", ["silent", "closed"])
def test_without_its_lease_everything_ends(
    run_node: Any, tiny_experiment: Experiment, home: Path, how: str
) -> None:
    experiment = experiment_file.load_experiment(tiny_experiment(time={"level": "60s"}))
    node = run_node(make_request(experiment, lease=3.0 if how == "silent" else 600.0))
    wait_until(lambda: node.renew() and server_pid(home), 120)
    if how == "closed":
        os.close(node.lease)
        node.lease = os.open(os.devnull, os.O_RDONLY)
    wait_until(lambda: node.process.poll() is not None, 60)
    assert node.process.returncode == 1
    assert b'"kind":"trial"' not in node.answer.read_bytes()
    assert ("no word for 3 s" in node.printed.read_text()) == (how == "silent")
    assert not processes_of(home)


def test_a_host_that_differs_refuses(
    run_node: Any, tiny_experiment: Experiment, columns: dict[str, dict[str, str]]
) -> None:
    experiment = experiment_file.load_experiment(tiny_experiment())
    rows = {"glibc": {"server": "MariaDB 5.5"}}
    node = run_node(make_request(experiment, variants=rows))
    wait_until(node.has_ended, 120)
    assert node.process.returncode == 1
    last = node.list_messages(columns)[-1]
    assert isinstance(last, Refused)
    assert "on the driver MariaDB 5.5" in last.text
