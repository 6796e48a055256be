"""A campaign on three real Ray nodes, each in a network namespace, of which one is lost."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_cluster import load_demo_hosts
from harness import Cli, Experiment, rows, wait_until

from dballoc.host.settings import thp
from dballoc.host.settings.writable_settings import read_setting

pytestmark = [pytest.mark.slow, pytest.mark.alone]

ROOT = Path(__file__).resolve().parents[2]


# The nodes have one kernel, whose THP setting is not theirs to change one by one. So each sees a
# file of its own in its place, and has a lock and a journal of its own, as hosts have.
RAY = """#!/bin/sh -e
for word in "$@"; do
    case $word in --node-ip-address=*) node=${word##*.};; esac
done
if [ "$1" = start ]; then
    mkdir -p -m 700 /run/dballoc PLACE/run-$node
    mount --bind PLACE/run-$node /run/dballoc
    mount --bind PLACE/thp-$node ENABLED
fi
exec BIN/ray "$@"
"""
MODES = ("always", "madvise", "never")
THP_BEFORE = "madvise"
# Every trial switches it.
SWITCHING = [
    {"name": "glibc", "thp": "never"},
    {"name": "jemalloc", "allocator": "jemalloc", "thp": "never"},
]


def make_ray_with_own_host_state(place: Path) -> Path:
    """Make a command ``ray`` that gives its node a stand-in for THP; returns its directory."""
    programs = place / "bin"
    programs.mkdir()
    text = RAY.replace("PLACE", str(place)).replace("ENABLED", thp.ENABLED)
    (programs / "ray").write_text(text.replace("BIN", str(ROOT / ".venv" / "bin")))
    (programs / "ray").chmod(0o755)
    return programs


@contextlib.contextmanager
def keep_as_the_kernel_does(place: Path) -> Iterator[None]:
    """Make the stand-ins, and keep them in the kernel's form: all modes, that which is on in brackets.
    What is written to them is a mode alone.
    """
    modes = {mode: "always madvise never\n".replace(mode, f"[{mode}]") for mode in MODES}
    paths = [place / f"thp-{node}" for node in (1, 2, 3)]
    for path in paths:
        path.write_text(modes[THP_BEFORE])
    is_over = threading.Event()

    def keep() -> None:
        files = [path.open("r+b", buffering=0) for path in paths]
        while not is_over.wait(0.02):
            for file in files:
                mode = os.pread(file.fileno(), 100, 0).split(b"\n")[0].decode()
                if mode in modes:
                    os.pwrite(file.fileno(), modes[mode].encode(), 0)
        for file in files:
            file.close()

    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        yield
    finally:
        is_over.set()
        keeper.join()


def read_thp(place: Path, number: int) -> str:
    """What a node has in the place of THP."""
    return read_setting(str(place / f"thp-{number + 1}"))


@pytest.fixture
def cluster(
    needs_root: None, run_cli: Cli, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Any]:
    """The nodes; a test's parameter names their resources, else all are server hosts. With
    ``SLOW_TO_NOTICE`` Ray looks after its nodes as seldom as it does by itself; ``WITH_TLS`` as the
    docs turn it on.
    """
    if not shutil.which("ip"):
        pytest.skip("needs ip (iproute2) for network namespaces")
    if not (ROOT / ".venv" / "bin" / "ray").exists():
        pytest.skip("needs Ray: run make setup")
    demo = load_demo_hosts()
    ray = make_ray_with_own_host_state(tmp_path)
    before = dict(os.environ)
    os.environ.update(run_cli.env)
    try:
        kind = getattr(request, "param", "SERVERS")
        if kind == "WITH_TLS":
            os.environ.update(make_tls(tmp_path, [f"10.87.77.{n}" for n in (1, 2, 3)]))
        resources = getattr(demo, kind, demo.SERVERS)
        health = {} if kind == "SLOW_TO_NOTICE" else demo.HEALTH
        with (
            keep_as_the_kernel_does(tmp_path),
            demo.start_cluster(ray, resources, health) as started,
        ):
            yield started
    finally:
        os.environ.clear()
        os.environ.update(before)


def make_tls(place: Path, addresses: list[str]) -> dict[str, str]:
    """Make an authority and one certificate for all nodes; returns Ray's variables for them."""
    key, csr, authority = place / "server.key", place / "server.csr", place / "ca.crt"
    names = ",".join(f"IP:{address}" for address in [*addresses, "127.0.0.1"])
    (place / "server.ext").write_text(f"subjectAltName={names},DNS:localhost\n")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for command in (
        ["req", "-x509", *new, "-subj", "/CN=ray", "-keyout", place / "ca.key", "-out", authority],
        ["req", *new, "-subj", "/CN=node", "-keyout", key, "-out", csr],
        ["x509", "-req", "-in", csr, "-CA", authority, "-CAkey", place / "ca.key",
         "-CAcreateserial", "-extfile", place / "server.ext", "-out", place / "server.crt"],
    ):  # fmt: skip
        subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_CA_CERT": str(authority),
        "RAY_TLS_SERVER_CERT": str(place / "server.crt"),
        "RAY_TLS_SERVER_KEY": str(key),
    }


def start_bench(run_cli: Cli, cluster: Any, file: Path, out: Path) -> "subprocess.Popen[str]":
    prefix = tuple(cluster.inside(0))
    return run_cli.start(
        "bench", file, "--ray", cluster.address, "--out", out,
        env=cluster.environment, prefix=prefix,
    )  # fmt: skip


def find_node_under_load(cluster: Any) -> int | None:
    """The number of a node, not the head, on which a server is under load."""
    for number in (1, 2):
        names = set()
        for pid in cluster.list_pids(number):
            try:
                names.add(Path(f"/proc/{pid}/comm").read_text().strip())
            except OSError:
                continue
        if "mariadbd" in names and "sysbench" in names:
            return number
    return None


def check_campaign(out: Path, blocks: int, trials: int) -> None:
    """Every block is there once, whole."""
    stored = rows(
        out,
        "SELECT block, count(*) AS trials FROM trial JOIN block USING (design, block, attempt) "
        "WHERE outcome = 'ok' GROUP BY block ORDER BY block",
    )
    assert stored == [{"block": n, "trials": trials} for n in range(1, blocks + 1)]


@pytest.mark.parametrize("loss", ["killed", "cut off"])
def test_a_node_is_lost(
    run_cli: Cli,
    tiny_experiment: Experiment,
    cluster: Any,
    out: Path,
    home: Path,
    loss: str,
    tmp_path: Path,
) -> None:
    file = tiny_experiment(blocks=4, time={"level": "6s", "idle": "0s"}, variant=SWITCHING)
    process = start_bench(run_cli, cluster, file, out)
    number = wait_until(lambda: process.poll() is not None or find_node_under_load(cluster), 240)
    assert number is not True, run_cli.end(process).text
    assert read_thp(tmp_path, number) == "never"
    lost_at = time.monotonic()
    if loss == "killed":
        cluster.kill_node(number)
    else:
        cluster.set_link(number, "down")
    # Its servers end, whatever it can reach: within a minute of losing contact.
    address = cluster.node_address(number)
    wait_until(
        lambda: (
            not any(
                Path(f"/proc/{pid}/comm").exists()
                and Path(f"/proc/{pid}/comm").read_text().strip() == "mariadbd"
                for pid in cluster.list_pids(number)
            )
        ),
        90,
    )
    wait_until(lambda: read_thp(tmp_path, number) == THP_BEFORE, 60)
    assert time.monotonic() - lost_at < 60
    done = run_cli.end(process, 400)
    assert done.status == 0, done.text
    check_campaign(out, 4, 3)
    lost = rows(out, "SELECT fault, fault_text FROM trial WHERE outcome = 'fault'")
    assert [row["fault"] for row in lost] == ["host lost"]
    assert address in lost[0]["fault_text"]
    assert re.search(r"was lost in the trial of \w+", done.text)
    check_nothing_is_doubled_or_left(cluster, out, home)
    check_host_state(tmp_path)


def check_host_state(place: Path) -> None:
    """Every node has in the place of THP what it had before."""
    for number in range(3):
        wait_until(lambda n=number: read_thp(place, n) == THP_BEFORE, 60)


def list_commands(cluster: Any, number: int) -> str:
    """The command lines of the processes on a node."""
    texts = []
    for pid in cluster.list_pids(number):
        try:
            texts.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return "\n".join(texts)


# What a block is doing on a node, by what of it runs there and what does not.
MOMENTS = {
    "begins": (("dballoc.campaign.elsewhere.node_block",), ("mariadbd",)),
    "has a server": (("dballoc.campaign.elsewhere.node_block", "mariadbd"), ("sysbench",)),
    "is under load": (("mariadbd", "sysbench"), ()),
}


def find_node_at(cluster: Any, moment: str) -> int | None:
    """The number of a node, not the head, whose block is at a moment."""
    present, absent = MOMENTS[moment]
    for number in (1, 2):
        commands = list_commands(cluster, number)
        if all(word in commands for word in present) and not any(w in commands for w in absent):
            return number
    return None


# What runs on a node for a block: servers and clients, who starts them, and who cleans up.
OF_A_BLOCK = re.compile(
    r"mariadbd|sysbench|dballoc\.hosts\.(node_block|client\.node_client)|guardian/guardian\.py"
)


def list_scratch(home: Path) -> list[Path]:
    """What is there of blocks, where the nodes have their temporary files and their cache."""
    cache = home / "cache"
    return [
        *(home / "tmp").glob("dballoc-*"),
        *cache.glob("scratch/*"),
        *cache.glob("templates/*.partial.*"),
    ]


def check_nothing_is_doubled_or_left(cluster: Any, out: Path, home: Path) -> None:
    """No trial is stored twice, none failed but by the loss of its host, nothing of a block runs,
    and no directory of one is left.
    """
    doubled = rows(
        out,
        "SELECT 1 FROM trial GROUP BY design, block, attempt, position, variant, role "
        "HAVING count(*) > 1",
    )
    assert not doubled
    faults = rows(out, "SELECT fault FROM trial WHERE outcome = 'fault'")
    assert {row["fault"] for row in faults} <= {"host lost"}
    for number in range(3):
        wait_until(lambda n=number: not OF_A_BLOCK.search(list_commands(cluster, n)), 60)
    wait_until(lambda: not list_scratch(home), 60)


def test_nodes_are_killed_five_times_and_start_again(
    run_cli: Cli,
    tiny_experiment: Experiment,
    cluster: Any,
    out: Path,
    home: Path,
    tmp_path: Path,
) -> None:
    file = tiny_experiment(blocks=6, time={"level": "3s", "idle": "0s"}, variant=SWITCHING)
    process = start_bench(run_cli, cluster, file, out)
    switched = 0
    for moment in ("begins", "has a server", "is under load", "is under load", "begins"):
        number = wait_until(
            lambda m=moment: process.poll() is not None or find_node_at(cluster, m), 240
        )
        assert number is not True, run_cli.end(process).text
        switched += read_thp(tmp_path, number) != THP_BEFORE
        cluster.kill_node(number)
        wait_until(
            lambda n=number: not re.search(r"raylet|node_block", list_commands(cluster, n)), 60
        )
        cluster.start_node(number, cluster.resources[number])
    done = run_cli.end(process, 500)
    assert done.status == 0, done.text
    check_campaign(out, 6, 3)
    check_nothing_is_doubled_or_left(cluster, out, home)
    # Where no server was seen, the block may just have ended.
    assert done.text.count(" was lost") >= 3, done.text
    assert switched
    check_host_state(tmp_path)


@pytest.mark.parametrize("cluster", ["SERVERS", "SLOW_TO_NOTICE"], indirect=True)
def test_a_network_that_is_cut_for_30_s_heals(
    run_cli: Cli,
    tiny_experiment: Experiment,
    cluster: Any,
    out: Path,
    home: Path,
    tmp_path: Path,
) -> None:
    """Whether Ray notices it or not."""
    file = tiny_experiment(blocks=4, time={"level": "3s", "idle": "0s"}, variant=SWITCHING)
    process = start_bench(run_cli, cluster, file, out)
    number = wait_until(lambda: process.poll() is not None or find_node_under_load(cluster), 240)
    assert number is not True, run_cli.end(process).text
    cluster.set_link(number, "down")
    assert read_thp(tmp_path, number) == "never"
    time.sleep(30)  # what is tried is this time, nothing waits for it
    cluster.set_link(number, "up")
    done = run_cli.end(process, 400)
    assert done.status == 0, done.text
    check_campaign(out, 4, 3)
    check_nothing_is_doubled_or_left(cluster, out, home)
    check_host_state(tmp_path)


def wait_for_a_trial_that_switches(out: Path, place: Path) -> None:
    """Wait until a trial is stored, and a node has another THP than before."""
    wait_until(
        lambda: (
            (out / "results.sqlite").exists()
            and rows(out, "SELECT 1 FROM trial LIMIT 1")
            and any(read_thp(place, number) != THP_BEFORE for number in range(3))
        ),
        240,
    )


def test_the_driver_is_killed_and_the_same_command_resumes(
    run_cli: Cli, tiny_experiment: Experiment, cluster: Any, out: Path, tmp_path: Path
) -> None:
    file = tiny_experiment(blocks=3, time={"level": "6s", "idle": "0s"}, variant=SWITCHING)
    process = start_bench(run_cli, cluster, file, out)
    wait_for_a_trial_that_switches(out, tmp_path)
    process.kill()
    run_cli.end(process)
    check_host_state(tmp_path)
    before = len(rows(out, "SELECT 1 FROM trial"))
    done = run_cli.end(start_bench(run_cli, cluster, file, out), 400)
    assert done.status == 0, done.text
    check_campaign(out, 3, 3)
    assert len(rows(out, "SELECT 1 FROM trial")) >= before
    doctor = run_cli(
        "doctor", "--ray", cluster.address, "--json",
        env=cluster.environment, prefix=tuple(cluster.inside(0)),
    )  # fmt: skip
    document = json.loads(doctor.stdout)
    assert len(document["hosts"]) == 3, doctor.text
    assert not document["no answer"]
    assert any("share a kernel" in sentence for sentence in document["differences"])


def test_rays_head_is_lost_and_the_same_command_resumes(
    run_cli: Cli, tiny_experiment: Experiment, cluster: Any, out: Path, home: Path, tmp_path: Path
) -> None:
    file = tiny_experiment(blocks=3, time={"level": "6s", "idle": "0s"}, variant=SWITCHING)
    process = start_bench(run_cli, cluster, file, out)
    wait_for_a_trial_that_switches(out, tmp_path)
    lost_at = time.monotonic()
    cluster.kill_node(0, "gcs_server")
    check_host_state(tmp_path)
    wait_until(lambda: not any("mariadbd" in list_commands(cluster, n) for n in range(3)), 60)
    assert time.monotonic() - lost_at < 60
    done = run_cli.end(process, 120)
    assert done.status == 1, done.text
    assert "Ray's head does not answer" in done.text
    check_nothing_is_doubled_or_left(cluster, out, home)
    # Ray does not outlive its head: it is started again on every host.
    for number in range(3):
        for pid in cluster.list_pids(number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for number in range(3):
        wait_until(lambda n=number: not cluster.list_pids(n), 60)
    for number in range(3):
        cluster.start_node(number, cluster.resources[number])
    done = run_cli.end(start_bench(run_cli, cluster, file, out), 400)
    assert done.status == 0, done.text
    check_campaign(out, 3, 3)


@pytest.mark.parametrize("cluster", ["WITH_TLS"], indirect=True)
def test_a_campaign_runs_where_rays_traffic_is_encrypted(
    run_cli: Cli, tiny_experiment: Experiment, cluster: Any, out: Path, home: Path
) -> None:
    file = tiny_experiment(blocks=2, time={"level": "3s", "idle": "0s"})
    done = run_cli.end(start_bench(run_cli, cluster, file, out), 400)
    assert done.status == 0, done.text
    check_campaign(out, 2, 3)
    check_nothing_is_doubled_or_left(cluster, out, home)
    # What answers at its port speaks TLS.
    head = cluster.inside(1, "openssl", "s_client", "-brief", "-connect", cluster.address)
    answer = subprocess.run(head, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert b"TLSv1" in answer.stderr


def list_listening(cluster: Any, number: int, program: str) -> set[str]:
    """The addresses, without ports, at which a program listens on a node."""
    listed = subprocess.run(
        cluster.inside(number, "ss", "-Hltnp"), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.split()[3].rpartition(":")[0] for line in listed if f'"{program}"' in line}


def list_loads(cluster: Any) -> set[tuple[int, int]]:
    """The numbers of the nodes on which a server and a client of it run now, if both do."""
    nodes: dict[str, set[int]] = {"mariadbd": set(), "sysbench": set()}
    for number in range(3):
        for pid in cluster.list_pids(number):
            try:
                name = Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            if name in nodes:
                nodes[name].add(number)
    return {(s, c) for s in nodes["mariadbd"] for c in nodes["sysbench"]}


@pytest.mark.parametrize("cluster", ["CLIENT_APART"], indirect=True)
def test_the_load_comes_from_a_host_of_its_own_and_a_lost_one_is_replaced(
    run_cli: Cli, tiny_experiment: Experiment, cluster: Any, out: Path, home: Path
) -> None:
    file = tiny_experiment(blocks=3, time={"level": "6s", "idle": "0s"})
    process = start_bench(run_cli, cluster, file, out)
    # The data were made on the server's host; the load comes from the client host.
    wait_until(lambda: (0, 1) in list_loads(cluster) or process.poll() is not None, 240)
    assert process.poll() is None, run_cli.end(process).text
    assert list_loads(cluster) <= {(0, 1)}
    assert list_listening(cluster, 0, "mariadbd") == {cluster.node_address(0)}
    cluster.kill_node(1)
    done = run_cli.end(process, 400)
    assert done.status == 0, done.text
    assert "share its kernel" in done.text or "shares its kernel" in done.text
    check_campaign(out, 3, 3)
    check_nothing_is_doubled_or_left(cluster, out, home)
    lost = rows(out, "SELECT fault, fault_text FROM trial WHERE outcome = 'fault'")
    assert [row["fault"] for row in lost] == ["host lost"]
    assert "its client host" in lost[0]["fault_text"]
    steps = rows(
        out,
        "SELECT client_step.host AS client, placement.host AS server, round_trip, link, received "
        "FROM client_step JOIN trial USING (trial) JOIN placement USING (design, block, attempt)",
    )
    # The spare took the client's place, and so the first node has all servers.
    assert {cluster.node_address(2) in row["client"] for row in steps} == {True}
    assert {cluster.node_address(0) in row["server"] for row in steps} == {True}
    assert all(0 < row["round_trip"] < 1 and row["received"] > 0 for row in steps)
    # The kernel says 10 Gbit/s of a veth pair, which is not real.
    assert {row["link"] for row in steps} == {None}

    # No password, and nothing that decrypts one, is in what Ray and dballoc wrote.
    kept = [p for p in (*cluster.home.rglob("*"), *out.rglob("*")) if p.is_file()]
    assert not [p for p in kept if re.search(rb"Aa1-[0-9a-f]{28}", p.read_bytes())]


def list_namespaces() -> set[str]:
    """The names of the network namespaces of this machine."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in listed.stdout.splitlines() if line.strip()}


def list_links() -> set[str]:
    """The names of the network interfaces of this machine."""
    return set(os.listdir("/sys/class/net"))


def read_report(out: Path) -> str:
    """The report of a campaign, as text; its page must be there too."""
    assert (out / "report.html").stat().st_size > 10_000
    return (out / "report.md").read_text(encoding="utf-8")


def test_the_demo_loses_a_node_and_ends_with_its_report(
    needs_root: None, run_cli: Cli, out: Path, home: Path
) -> None:
    """What ``make demo-hosts`` runs, with a client host that is killed under load."""
    if not shutil.which("ip") or not (ROOT / ".venv" / "bin" / "ray").exists():
        pytest.skip("needs ip (iproute2) and Ray: run make demo-hosts")
    module, before, links = load_demo_hosts(), list_namespaces(), list_links()
    demo = subprocess.Popen(
        [ROOT / "tools" / "demo-hosts", "--out", out],
        env=run_cli.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    run_cli.running.append(demo)
    # Its nodes are in namespaces with its PID in their names.
    nodes = module.Cluster(
        home, ROOT / ".venv" / "bin", module.CLIENT_APART, module.HEALTH, f"dballoc{demo.pid}"
    )
    wait_until(lambda: (0, 1) in list_loads(nodes) or demo.poll() is not None, 300)
    assert demo.poll() is None, demo.communicate()[0]
    nodes.kill_node(1)
    text, _ = demo.communicate(timeout=500)
    assert demo.returncode == 0, text
    lost = nodes.node_address(1)
    assert re.search(rf"{re.escape(lost)}\S* was lost in the trial of \w+", text), text
    check_lost_client_host(out, lost)
    report = read_report(out)
    assert lost in report
    assert re.search(r"jemalloc.*\d %", report)
    assert list_namespaces() == before
    assert list_links() == links
    assert not list((home / "tmp").glob("dbr-*"))
    wait_until(lambda: not list_scratch(home), 60)


def check_lost_client_host(out: Path, address: str) -> None:
    """The trial under way is the loss of that host, and all that enters the figures is whole."""
    (fault,) = rows(out, "SELECT fault, fault_text FROM trial WHERE outcome = 'fault'")
    assert fault["fault"] == "host lost"
    assert "its client host" in fault["fault_text"]
    assert address in fault["fault_text"]
    finished = rows(out, "SELECT count(DISTINCT block) AS blocks FROM block")
    check_campaign(out, finished[0]["blocks"], 3)
