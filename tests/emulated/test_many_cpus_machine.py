"""The kit on a whole emulated x86-64 with 16 CPUs, two NUMA nodes, two threads a core, and without
network: Debian's cloud kernel, a C library and a shell, and nothing else. It runs there once to its
end, and once killed and resumed. DBALLOC_TEST_KIT names the kit, which was made of many_cpus.toml.

Times of emulated CPUs say nothing, so that no figure of these campaigns is looked at but what tells
where something ran, and whether it was seen.
"""

import os
import shutil
import subprocess
import sys

import pytest
from machine_image import CHECKOUT, HERE, get_packages, make_tree, pack_tree
from many_cpus_machine import CORES, CPUS, NODES, SOCKETS, THREADS, run_machine
from measured_machine import MeasuredMachine

from dballoc.experiment.cpu_list import parse_cpus

BUILT = CHECKOUT / "build" / "many-cpus"
# Seconds until the machine must have switched itself off.
LONGEST = 2400
RUNS = ("whole", "resumed")
# Of the higher level.
CLIENTS = 64
# The trial under way when all is killed, from 1 (many_cpus_init.sh).
KILLED_IN = 3

pytestmark = pytest.mark.timeout(LONGEST + 300)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> MeasuredMachine:
    """What the machine has sent, after all its runs."""
    scratch = tmp_path_factory.mktemp("machine")
    kernel = get_packages("amd64", "kernel=linux-image-cloud-amd64", BUILT / "kernel", "trixie")
    packages = get_packages("amd64", "bare", BUILT / "bare")
    tree = make_tree(packages, scratch / "tree", HERE / "many_cpus_init.sh")
    shutil.copy2(os.environ["DBALLOC_TEST_KIT"], tree / "kit.tar.gz")
    image = pack_tree(tree, scratch / "image.cpio")
    [vmlinuz] = (kernel / "boot").glob("vmlinuz-*")
    return MeasuredMachine(run_machine(vmlinuz, image, scratch, LONGEST))


def count_cpus(variant: str) -> int:
    """The number of CPUs that a variant of a sweep has: glibc_4cpu has 4."""
    return int(variant.rpartition("_")[2].removesuffix("cpu"))


def test_the_machine_has_nodes_and_siblings(machine: MeasuredMachine) -> None:
    cores = set(machine.cores.values())
    assert set(machine.cores) == set(range(CPUS))
    assert [len(core) for core in cores] == [THREADS] * SOCKETS * CORES
    assert {len(machine.list_nodes(core)) for core in cores} == {1}
    assert sorted(machine.nodes.values()) == sorted([*range(NODES)] * (CPUS // NODES))
    first_half = {machine.nodes[cpu] for cpu in range(CPUS // 2)}
    assert len(first_half) == NODES, "by their numbers alone, the first CPUs would be of one node"


@pytest.mark.parametrize("run", RUNS)
def test_every_planned_trial_ended_well(machine: MeasuredMachine, run: str) -> None:
    trials = machine.read(run, "SELECT outcome, fault_text FROM trial")
    assert {trial["outcome"] for trial in trials} == {"ok"}, trials
    planned = machine.read_fact(run, "planned_blocks")
    [blocks] = machine.read(run, "SELECT COUNT(DISTINCT block) AS number FROM block")
    assert {"solo": blocks["number"]} == planned
    [ending] = machine.read(run, "SELECT value FROM campaign WHERE key = 'ending'")
    assert ending["value"] == "planned"


def test_killed_and_resumed_are_the_same_trials(machine: MeasuredMachine) -> None:
    """What was finished before the kill is kept. The block that it cut was begun anew, in another
    order, and ran to its end.
    """
    sql = """
        SELECT design, block, variant, role FROM trial
        WHERE attempt = (SELECT MAX(attempt) FROM block) ORDER BY 1, 2, 3, 4
    """
    whole, resumed = (machine.read(run, sql) for run in RUNS)
    assert whole == resumed
    before = machine.read("resumed", "SELECT trial FROM trial WHERE attempt = 0")
    assert len(before) == KILLED_IN - 1


@pytest.mark.parametrize("run", RUNS)
def test_servers_have_whole_cores_of_one_node(machine: MeasuredMachine, run: str) -> None:
    for trial in machine.read(run, "SELECT variant, cpus FROM trial"):
        cpus, count = parse_cpus(trial["cpus"]), count_cpus(trial["variant"])
        assert len(cpus) == count
        assert machine.is_whole_cores(cpus)
        assert len(machine.list_nodes(cpus)) == (1 if count <= CPUS // NODES else NODES)


@pytest.mark.parametrize("run", RUNS)
def test_clients_have_cores_of_their_own_on_the_servers_node(
    machine: MeasuredMachine, run: str
) -> None:
    for trial in machine.read(run, "SELECT variant, cpus, client_cpus FROM trial"):
        server, client = parse_cpus(trial["cpus"]), parse_cpus(trial["client_cpus"])
        assert machine.is_whole_cores(client)
        assert len(client) == len(server)
        assert not server & client if len(server) < CPUS else server == client
        if 2 * len(server) <= CPUS // NODES:
            assert machine.list_nodes(client) == machine.list_nodes(server)


@pytest.mark.parametrize("run", RUNS)
def test_they_ran_where_they_should(machine: MeasuredMachine, run: str) -> None:
    """As seen from beside: the affinity of the main threads, about once a second."""
    for trial in machine.read(run, "SELECT * FROM trial"):
        servers, clients = (
            machine.list_processes(name, trial["started"], trial["ended"])
            for name in ("mariadbd", "sysbench")
        )
        assert [process.cpus for process in servers] == [{parse_cpus(trial["cpus"])}]
        assert clients
        assert all(process.cpus == {parse_cpus(trial["client_cpus"])} for process in clients)
        assert max(process.threads for process in clients) > CLIENTS


@pytest.mark.parametrize("run", RUNS)
def test_all_cpus_are_read(machine: MeasuredMachine, run: str) -> None:
    assert machine.read_fact(run, "environment")["cpus"] == CPUS
    assert machine.read_fact(run, "environment")["cores"] == CPUS // THREADS
    assert machine.read_fact(run, "environment")["numa_nodes"] == NODES
    sql = """
        SELECT trial, MAX(t) - MIN(t) AS seconds,
          MAX(user + system + idle + iowait + steal) - MIN(user + system + idle + iowait + steal) AS cpu
        FROM host_sample GROUP BY trial
    """
    rows = machine.read(run, sql)
    assert len(rows) == len(machine.read(run, "SELECT trial FROM trial"))
    # A busy emulated CPU that waits for a real one loses ticks of its clock; an idle one does not.
    seen = [row["cpu"] / row["seconds"] for row in rows]
    assert CPUS / 2 < max(seen) < CPUS * 1.05


@pytest.mark.parametrize("run", RUNS)
def test_the_sampler_sees_many_threads(machine: MeasuredMachine, run: str) -> None:
    sql = "SELECT trial, MAX(threads) AS threads, MAX(voluntary) AS switches FROM sample GROUP BY 1"
    rows = machine.read(run, sql)
    assert len(rows) == len(machine.read(run, "SELECT trial FROM trial"))
    assert min(row["threads"] for row in rows) > CLIENTS
    assert min(row["switches"] for row in rows) > 0


@pytest.mark.parametrize("run", RUNS)
def test_perf_counts_on_all_cpus(machine: MeasuredMachine, run: str) -> None:
    """The kernel's own count of a server's CPU time, over all its threads on their CPUs, is about
    what the process's clock says; both are read at moments that emulation moves apart.
    """
    sql = """
        SELECT step.trial, SUM(step.cpu) AS cpu, SUM(step_counter.count) / 1e9 AS counted
        FROM step JOIN step_counter USING (trial, step)
        WHERE event = 'task-clock' AND count IS NOT NULL GROUP BY 1
    """
    rows = machine.read(run, sql)
    assert len(rows) == len(machine.read(run, "SELECT trial FROM trial"))
    for row in rows:
        assert row["counted"] == pytest.approx(row["cpu"], rel=0.5)


def test_halves_are_whole_cores_of_one_node(machine: MeasuredMachine) -> None:
    halves = [parse_cpus(half) for half in machine.read_fact("halves", "duet")["halves"]]
    assert [len(half) for half in halves] == [CPUS // NODES // 2] * 2
    assert all(machine.is_whole_cores(half) for half in halves)
    assert not halves[0] & halves[1]
    assert len(machine.list_nodes(halves[0] | halves[1])) == 1
    trials = machine.read("halves", "SELECT outcome, fault_text, cpus FROM trial")
    assert {trial["outcome"] for trial in trials} == {"ok"}, trials


@pytest.mark.parametrize("name", ["mariadbd", "sysbench"])
def test_both_sides_of_a_duet_swap_halves(machine: MeasuredMachine, name: str) -> None:
    halves = {parse_cpus(half) for half in machine.read_fact("halves", "duet")["halves"]}
    sql = "SELECT MIN(started) AS started, MAX(ended) AS ended FROM trial GROUP BY position"
    for duet in machine.read("halves", sql):
        processes = machine.list_processes(name, duet["started"], duet["ended"])
        assert len(processes) == 2
        assert all(halves <= process.cpus for process in processes)


def test_nothing_is_left(machine: MeasuredMachine) -> None:
    assert (machine.directory / "left").read_text() == ""


def test_nothing_is_written_outside(machine: MeasuredMachine) -> None:
    outside = (machine.directory / "outside").read_text().splitlines()
    assert [path for path in outside if not path.startswith("/run/dballoc")] == []


@pytest.mark.parametrize("run", [*RUNS, "halves"])
def test_home_reads_it(machine: MeasuredMachine, run: str) -> None:
    """`dballoc report` at home judges it, once."""
    directory = machine.directory / run
    command = [sys.executable, "-I", "-m", "dballoc", "report", directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Measured only: not judged while it ran" in done.stdout
    assert (directory / "report.html").exists()
