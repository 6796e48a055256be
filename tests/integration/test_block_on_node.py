"""One block as a host runs it for a driver: real servers, messages on a pipe, and a lease without
which everything ends.
"""

import base64
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, processes_of, server_pid, wait_until

import dballoc
from dballoc.campaign.elsewhere.block_messages import (
    BlockFinished,
    BlockRefused,
    FilePiece,
    Message,
    TrialFinished,
    TrialStarted,
    parse_message,
)
from dballoc.campaign.elsewhere.block_request import BlockRequest
from dballoc.campaign.elsewhere.client.load_messages import ClientRequest
from dballoc.campaign.elsewhere.client.remote_load import ClientPlace
from dballoc.experiment import experiment_file, schedule
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment as Model
from dballoc.host.guardian.guardian import STAMP
from dballoc.load import sysbench_command


class Node:
    """A process of a block, its answers, its lease, and the lines to it."""

    def __init__(self, cli: Cli, request: BlockRequest | ClientRequest, place: Path) -> None:
        module = "node_block" if isinstance(request, BlockRequest) else "client.node_client"
        reader, writer = os.pipe2(os.O_CLOEXEC)
        lines, self.lines = os.pipe2(os.O_CLOEXEC)
        lease, self.lease = os.pipe2(os.O_CLOEXEC)
        place.mkdir()
        self.answer, self.printed = place / "answer", place / "printed"
        self.handed_on = 0
        with self.answer.open("wb") as out, self.printed.open("wb") as err:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    f"dballoc.campaign.elsewhere.{module}",
                    str(reader),
                    str(lines),
                ],
                env=cli.env,
                stdin=lease,
                stdout=out,
                stderr=err,
                pass_fds=[reader, lines],
            )
        os.close(reader)
        os.close(lease)
        os.close(lines)
        with os.fdopen(writer, "wb") as file:
            file.write(request.model_dump_json().encode())

    def renew(self) -> bool:
        """Renew the lease; False when nobody holds it any more."""
        try:
            os.write(self.lease, STAMP.pack(time.monotonic()))
        except BrokenPipeError:
            return False
        return True

    def has_ended(self) -> bool:
        """Renew the lease; whether the process has ended."""
        self.renew()
        return self.process.poll() is not None

    def list_messages(self) -> list[Message]:
        """What it answered until now."""
        lines = self.answer.read_bytes().splitlines(keepends=True)
        return [parse_message(line) for line in lines]

    def hand_on_to(self, other: "Node", *kinds: str) -> None:
        """Hand its new answers of these kinds to another process, as the driver does."""
        lines = self.answer.read_bytes().rpartition(b"\n")[0].splitlines(keepends=True)
        for line in lines[self.handed_on :]:
            if json.loads(line)["kind"] in kinds:
                os.write(other.lines, line.rstrip(b"\n") + b"\n")
        self.handed_on = len(lines)

    def kill(self) -> None:
        """End it, if a test failed midway."""
        self.process.kill()
        self.process.wait()
        os.close(self.lease)
        os.close(self.lines)


@pytest.fixture
def run_node(run_cli: Cli, tmp_path: Path) -> Iterator[Any]:
    """``run_node(request)``: the process of a block."""
    nodes: list[Node] = []

    def run(request: BlockRequest | ClientRequest) -> Node:
        nodes.append(Node(run_cli, request, tmp_path / f"node{len(nodes)}"))
        return nodes[-1]

    yield run
    for node in nodes:
        node.kill()


def make_request(experiment: Model, **changes: Any) -> BlockRequest:
    words: dict[str, Any] = {
        "dballoc": dballoc.__version__,
        "experiment": experiment_file.format_experiment(experiment),
        "design": Design.SOLO,
        "block": 3,
        "attempt": 1,
        "variants": {},
        "sysbench": sysbench_command.find().version,
        "lease": 120.0,
    }
    return BlockRequest(**(words | changes))


def test_a_block_answers_trial_by_trial_while_its_lease_is_renewed(
    run_node: Any, tiny_experiment: Experiment
) -> None:
    experiment = experiment_file.load_experiment(tiny_experiment(time={"idle": "0s"}))
    node = run_node(make_request(experiment, lease=4.0))
    wait_until(node.has_ended, 120)
    assert node.process.returncode == 0, node.printed.read_text()
    messages = node.list_messages()
    planned = schedule.order_block(experiment, 3, 1)
    begun = [m.position for m in messages if isinstance(m, TrialStarted)]
    trials = [m for m in messages if isinstance(m, TrialFinished)]
    assert begun == [t.position for t in trials] == [slot.position for slot in planned]
    for trial in trials:
        row = trial.records[0]["trial"][0]
        assert row["outcome"] == "ok", row["fault_text"]
        steps = trial.records[0]["step"]
        assert any(s["kind"] == "level" and float(s["tps"] or 0) > 0 for s in steps)
        files = {
            m.name for m in messages if isinstance(m, FilePiece) and m.position == trial.position
        }
        assert {"server.log", "variables.tsv"} <= files
    assert isinstance(messages[-1], BlockFinished)


def test_an_own_workload_comes_with_the_request(run_node: Any, tiny_experiment: Experiment) -> None:
    """Its path is the driver's, where this host has nothing."""
    path = tiny_experiment(
        workload={"mine": {"sql": "/nowhere/mine.sql"}},
        workloads=["mine"],
        variant=[{"name": "glibc"}],
        time={"idle": "0s"},
    )
    table = experiment_file.parse_table(path.read_text(), "x")
    experiment = experiment_file.build_experiment(table, "x")
    sql = base64.b64encode(b"SELECT c FROM sbtest1 WHERE id = {id=int:1:100};\n").decode()
    node = run_node(make_request(experiment, workload_files={"mine": sql}))
    wait_until(node.has_ended, 120)
    assert node.process.returncode == 0, node.printed.read_text()
    trials = [m for m in node.list_messages() if isinstance(m, TrialFinished)]
    rows = [trial.records[0]["trial"][0] for trial in trials]
    assert [(row["outcome"], row["fault_text"]) for row in rows] == [("ok", None)] * len(rows)
    assert trials


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
    # It may be for once, so the host does not say that it cannot run blocks.
    assert b'"kind":"refused"' not in node.answer.read_bytes()
    assert ("no word for 3 s" in node.printed.read_text()) == (how == "silent")
    assert not processes_of(home)


def test_a_block_that_is_killed_before_its_servers_leaves_nothing(
    run_node: Any, tiny_experiment: Experiment, home: Path
) -> None:
    experiment = experiment_file.load_experiment(tiny_experiment())
    node = run_node(make_request(experiment))
    wait_until(lambda: [*(home / "tmp").glob("dballoc-own-*")], 60)
    node.process.kill()
    node.process.wait()
    wait_until(lambda: not [*(home / "tmp").glob("dballoc-*")], 30)


def test_a_host_that_differs_refuses(run_node: Any, tiny_experiment: Experiment) -> None:
    experiment = experiment_file.load_experiment(tiny_experiment())
    rows = {"glibc": {"server": "MariaDB 5.5"}}
    node = run_node(make_request(experiment, variants=rows))
    wait_until(node.has_ended, 120)
    assert node.process.returncode == 1
    last = node.list_messages()[-1]
    assert isinstance(last, BlockRefused)
    assert "on the driver MariaDB 5.5" in last.text


def test_a_host_that_cannot_fetch_what_the_driver_has_says_so(
    run_node: Any, tiny_experiment: Experiment
) -> None:
    experiment = experiment_file.load_experiment(tiny_experiment())
    node = run_node(make_request(experiment, fetched={"mariadb@0.1": {"mine.tar": "0" * 64}}))
    wait_until(node.has_ended, 120)
    assert node.process.returncode == 1
    last = node.list_messages()[-1]
    assert isinstance(last, BlockRefused)
    assert "mariadb@0.1, which the driver has, is in no source" in last.text


def make_client_request(experiment: Model) -> ClientRequest:
    return ClientRequest(
        dballoc=dballoc.__version__,
        experiment=experiment_file.format_experiment(experiment),
        server="127.0.0.1",
        shares_kernel=True,
        lease=120.0,
    )


PLACE = ClientPlace(host="far", address="127.0.0.1", listen="127.0.0.1", shares_kernel=True)


@pytest.mark.parametrize("connect", ["socket", "tls"])
def test_the_load_comes_from_a_client_apart(
    run_node: Any,
    tiny_experiment: Experiment,
    home: Path,
    connect: str,
) -> None:
    experiment = experiment_file.load_experiment(
        tiny_experiment(
            time={"level": "3s", "idle": "0s"},
            variant=[{"name": "glibc"}],
            server={"connect": connect},
        )
    )
    client = run_node(make_client_request(experiment))
    block = run_node(make_request(experiment, client=PLACE))

    def hand_on() -> bool:
        client.renew()
        client.hand_on_to(block, "client ready", "load finished")
        block.hand_on_to(client, "load", "stop load")
        return bool(block.has_ended())

    wait_until(hand_on, 120)
    assert block.process.returncode == 0, block.answer.read_bytes()[-2000:]
    trials = [m for m in block.list_messages() if isinstance(m, TrialFinished)]
    assert len(trials) == 2
    for trial in trials:
        record = trial.records[0]
        assert record["trial"][0]["outcome"] == "ok", record["trial"][0]["fault_text"]
        (level,) = (s for s in record["step"] if s["kind"] == "level")
        assert float(level["tps"] or 0) > 20
        assert float(level["cpu"] or 0) > 0
        # Server and client have one clock here, so the client's reports are within the step.
        begin, end = float(level["t"]), float(level["t"]) + float(level["seconds"])  # type: ignore[arg-type]
        assert all(begin <= float(i["t"]) <= end for i in record["interval"])  # type: ignore[arg-type]
        assert len(record["interval"]) >= 2
        assert len(record["sample"]) >= 3
        (row,) = record["client_step"]
        assert row["host"] == "far"
        (counted,) = record["client_connection"]
        # Without the one that asks the server for its clock.
        assert counted["made"] == level["threads"]
        assert counted["encrypted"] == (counted["made"] if connect == "tls" else 0)
        assert float(row["round_trip"] or 0) > 0
    # No password is in what went from host to host, or in what is kept.
    for node in (block, client):
        assert b"Aa1-" not in node.answer.read_bytes() + node.printed.read_bytes()
    os.close(client.lines)
    client.lines = os.open(os.devnull, os.O_WRONLY)
    wait_until(client.has_ended, 60)
    assert not processes_of(home)


@dataclass(frozen=True)
class CpuCgroup:
    """A cgroup, and the file and text that give it a twentieth of a CPU."""

    path: Path
    quota: str
    text: str

    def add(self, pid: int) -> None:
        """Move a process into it; those that it starts are in it, too."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def limit(self) -> None:
        """Set the quota."""
        (self.path / self.quota).write_text(self.text)


@pytest.fixture
def cpu_cgroup(needs_root: None) -> Iterator[CpuCgroup]:
    """A cgroup without a quota."""
    v1 = Path("/sys/fs/cgroup/cpu")
    quota = ("cpu.cfs_quota_us", "5000") if v1.is_dir() else ("cpu.max", "5000 100000")
    path = (v1 if v1.is_dir() else v1.parent) / f"dballoc-test-{uuid.uuid4().hex[:8]}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"needs a CPU cgroup: {error}")
    group = CpuCgroup(path, *quota)
    try:
        if not (path / group.quota).exists():
            pytest.skip("needs a CPU cgroup: there is no quota")
        yield group
    finally:

        def remove() -> bool:
            try:
                path.rmdir()
            except OSError:
                return False  # its processes are about to end
            return True

        wait_until(remove)


def test_a_load_that_the_clients_quota_stopped_is_no_result(
    cpu_cgroup: CpuCgroup,
    run_node: Any,
    tiny_experiment: Experiment,
) -> None:
    experiment = experiment_file.load_experiment(
        # As many threads as want several times the quota.
        tiny_experiment(
            time={"level": "3s", "idle": "0s"}, threads=[16], variant=[{"name": "glibc"}]
        )
    )
    client = run_node(make_client_request(experiment))
    cpu_cgroup.add(client.process.pid)
    block = run_node(make_request(experiment, client=PLACE))

    def hand_on() -> bool:
        client.renew()
        client.hand_on_to(block, "client ready", "load finished")
        block.hand_on_to(client, "load", "stop load")
        return bool(block.has_ended())

    wait_until(lambda: hand_on() or client.handed_on, 120)
    # Once: the kernel grants the whole of a quota when it is set.
    cpu_cgroup.limit()
    wait_until(hand_on, 200)
    trials = [m for m in block.list_messages() if isinstance(m, TrialFinished)]
    assert trials
    for trial in trials:
        (row,) = trial.records[0]["trial"]
        assert row["fault"] == "client", row["fault_text"]
        assert "its CPU quota stopped it in" in str(row["fault_text"])
