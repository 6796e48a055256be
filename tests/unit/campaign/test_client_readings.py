"""What a client host did during a load: the CPU quota that stopped it, and from when to when."""

import itertools
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dballoc
from dballoc.campaign.elsewhere.client import client_readings, network_link, node_client
from dballoc.campaign.elsewhere.client.client_readings import (
    ClientReading,
    LoadReadings,
    compute_figures,
)
from dballoc.campaign.elsewhere.client.load_messages import ClientRequest, LoadRequested
from dballoc.campaign.elsewhere.client.network_link import LinkBytes
from dballoc.campaign.elsewhere.client.remote_load import find_client_limit
from dballoc.doctor import leftovers
from dballoc.ground.errors import Failure
from dballoc.host.guardian.guardian_client import Exit
from dballoc.host.process.handle import Process
from dballoc.host.resources.cgroup_tree import ControlGroups
from dballoc.host.resources.process_limits import (
    QuotaPeriods,
    compute_throttled_share,
    read_quota_periods,
)
from dballoc.instruments.host_sampler import HostSample
from dballoc.load.sysbench_command import Sysbench

STAT = "usage_usec 5000000\nnr_periods {}\nnr_throttled {}\nthrottled_usec 900000\n"


def make_group(root: Path, name: str, counted: int, throttled: int) -> None:
    """Make a cgroup (v2) with a quota."""
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "cpu.stat").write_text(STAT.format(counted, throttled))


# -- the quota --------------------------------------------------------------------------------------


def test_the_periods_are_those_of_all_groups_that_can_be_seen(tmp_path: Path) -> None:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "7").mkdir(parents=True)
    (proc / "7/cgroup").write_text("0::/pod/container\n")
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu\n")
    (root / "cpu.stat").write_text("usage_usec 1\n")
    make_group(root, "pod", 100, 0)
    make_group(root, "pod/container", 600, 480)
    periods = read_quota_periods(ControlGroups(Process(7, 0, proc / "7"), root))
    assert periods == (QuotaPeriods(600, 480), QuotaPeriods(100, 0), QuotaPeriods(0, 0))
    assert read_quota_periods(ControlGroups(Process.own())) is not None


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ([], [], 0.0),
        ([(0, 0)], [(0, 0)], 0.0),
        ([(100, 50)], [(200, 50)], 0.0),
        ([(100, 50)], [(200, 140)], 0.9),
        # The group that stops it most is the limit, whichever that is.
        ([(0, 0), (100, 0)], [(100, 10), (200, 30)], 0.3),
    ],
)
def test_the_share_is_of_the_periods_between_two_readings(
    before: list[tuple[int, int]], after: list[tuple[int, int]], share: float
) -> None:
    early, late = ([QuotaPeriods(*pair) for pair in pairs] for pairs in (before, after))
    assert compute_throttled_share(early, late) == pytest.approx(share)


# -- the window -------------------------------------------------------------------------------------


def make_reading(clock: float, cpu: float, throttled: int = 0) -> ClientReading:
    """A reading on a host of eight CPUs that does nothing but the client's work."""
    host = HostSample(
        clock=clock, user=cpu, system=0, idle=8 * clock - cpu, iowait=0, steal=0, switches=0
    )
    periods = (QuotaPeriods(int(10 * clock), throttled),)
    link = LinkBytes(int(1000 * clock), 0)
    return ClientReading(cpu=cpu, host=host, link=link, periods=periods)


def test_a_saturated_client_is_seen_though_its_start_and_its_end_are_idle() -> None:
    """Four CPUs, used up for 5 s within 6: over all of it that would be 83 %."""
    start, end = make_reading(0.0, 0.0), make_reading(6.0, 20.0)
    reports = [make_reading(0.7 + second, 4.0 * second) for second in (1, 5)]
    first, last = client_readings.choose_window(start, reports, end)
    figures = compute_figures(first, last, cpus=4, speed=None, round_trip=1e-4)
    assert (figures.seconds, figures.cpu, figures.busy) == (4.0, 16.0, 0.5)
    assert "it used 100% of the 4 CPUs" in str(find_client_limit(figures, 64, False, None))
    diluted = compute_figures(start, end, cpus=4, speed=None, round_trip=1e-4)
    assert find_client_limit(diluted, 64, False, None) is None


@pytest.mark.parametrize(
    ("reports", "window"), [([], (0.0, 9.0)), ([1.0], (1.0, 9.0)), ([1.0, 8.0], (1.0, 8.0))]
)
def test_the_window_is_from_the_first_report_to_the_last(
    reports: list[float], window: tuple[float, float]
) -> None:
    start, end = make_reading(0.0, 0.0), make_reading(9.0, 1.0)
    readings = [make_reading(clock, 0.5) for clock in reports]
    first, last = client_readings.choose_window(start, readings, end)
    assert (first.host.clock, last.host.clock) == window


def test_a_throttled_client_is_refused() -> None:
    """A pod with a limit of two CPUs on a node of 64, whose 120 s in 60 were 3 % of those."""
    figures = compute_figures(
        make_reading(0.0, 0.0), make_reading(60.0, 120.0, 570), cpus=64, speed=None, round_trip=1e-4
    )
    limit = str(find_client_limit(figures, 256, False, None))
    assert "its CPU quota stopped it in 95% of the quota's periods" in limit
    assert "a pod's CPU limit" in limit
    rarely = figures.model_copy(update={"throttled": 0.04})
    assert find_client_limit(rarely, 256, False, None) is None


def test_the_cpus_are_those_that_the_quota_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = SimpleNamespace(cpu_count=2)
    monkeypatch.setattr(client_readings.process_limits, "read_limits", lambda pid: limits)
    ended = Exit(status=0, user=1.0, system=0.5, voluntary=0, involuntary=0)
    figures = LoadReadings("lo").make_figures(ended, 1e-4)
    assert (figures.cpus, figures.cpu, figures.link) == (2, 1.5, None)


class FakeClient:
    """Reports at its second and third look, and ends after the fourth."""

    pid = os.getpid()

    def __init__(self) -> None:
        self._looks = itertools.count(1)
        self._look = 0

    def wait(self, timeout: float) -> Exit | None:
        self._look = next(self._looks)
        ended = Exit(status=0, user=0.0, system=0.0, voluntary=0, involuntary=0)
        return ended if self._look > 4 else None

    def reports(self) -> list[str]:
        return ["a report"] if self._look in (2, 3) else []


def test_a_reading_is_taken_at_each_report_and_at_no_other_time() -> None:
    load: Any = LoadRequested(
        number=1, workload="w", threads=1, seconds=1.0, engine="innodb", port=1, password="p"
    )
    noted: list[int] = []
    readings: Any = SimpleNamespace(note_report=noted.append)
    lines: Any = SimpleNamespace(read=lambda timeout: None)
    client: Any = FakeClient()
    assert node_client._wait_for_client(client, load, lines, readings).status == 0
    assert noted == [os.getpid()] * 2


def test_a_client_that_has_ended_has_no_reading() -> None:
    readings = LoadReadings(None)
    readings.note_report(2**22 + 1)  # beyond all PIDs
    readings.note_report(os.getpid())
    readings.note_report(os.getpid())
    assert len(readings._reports) == 2


# -- the link ---------------------------------------------------------------------------------------


def test_the_speed_of_an_interface_without_a_device_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["eth0", "eth1", "bond0", "vlan7", "veth1", "bridge0", "bridge1"]
    for name in names:
        (tmp_path / name).mkdir()
    for name in ("eth0", "eth1"):
        (tmp_path / name / "device").mkdir()
    lower = {"bond0": ["eth0", "eth1"], "vlan7": ["bond0"], "bridge0": ["eth0", "veth1"]}
    for name, below in lower.items():
        for each in below:
            (tmp_path / name / f"lower_{each}").symlink_to(tmp_path / each)
    monkeypatch.setattr(
        network_link.psutil,
        "net_if_stats",
        lambda: {n: SimpleNamespace(speed=10_000) for n in names},
    )
    told = [name for name in names if network_link.read_speed(name, tmp_path)]
    assert told == ["eth0", "eth1", "bond0", "vlan7"]
    assert network_link.read_speed("eth0", tmp_path) == 10**10


# -- the process ------------------------------------------------------------------------------------


def test_a_client_hosts_directories_are_its_guardians_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A kill between the two would leave one; the doctor knows their names."""
    registered: list[Path] = []

    class FakeCustody:
        def __init__(self, **_: Any) -> None: ...

        def __enter__(self) -> "FakeCustody":
            return self

        def __exit__(self, *_: object) -> None: ...

        def scratch(self, path: Path) -> None:
            assert not path.exists()
            registered.append(path)

        def check(self) -> None:
            raise Failure("enough")

    user = SimpleNamespace(
        share=lambda path: None, show=lambda path: None, check_alone=lambda: None
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(node_client, "Custody", FakeCustody)
    monkeypatch.setattr(node_client, "server_user", lambda: user)
    monkeypatch.setattr(ClientRequest, "build_experiment", lambda *_: {})
    monkeypatch.setattr(node_client.workload, "settle", lambda *_: {})
    sysbench = Sysbench(Path("/usr/bin/sysbench"), "1.0.20", Path("/usr/share/sysbench"))
    monkeypatch.setattr(node_client.sysbench_command, "find", lambda: sysbench)
    request = ClientRequest(
        dballoc=dballoc.__version__,
        experiment="",
        server="10.0.0.1",
        shares_kernel=False,
        lease=30.0,
    )
    sent: list[Any] = []
    stream: Any = SimpleNamespace(send=sent.append)
    with pytest.raises(Failure, match="enough"):
        node_client.serve_loads(request, stream, None)  # type: ignore[arg-type]
    assert set(tmp_path.iterdir()) == set(registered)
    assert all(leftovers._RUN_DIRECTORY.fullmatch(path.name) for path in registered)
    assert [ready.sysbench for ready in sent] == ["1.0.20"]
