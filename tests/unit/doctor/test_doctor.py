"""doctor: what decides in it."""

import os
import shlex
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from dballoc.doctor import cpus_memory_disk, examine, installation, kernel, leftovers, software
from dballoc.doctor.finding import Finding
from dballoc.doctor.installation import VerbPackages
from dballoc.ground.errors import UsageError
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.package_names import parse_policy
from dballoc.host.process.handle import Process
from dballoc.host.resources.process_limits import ProcessLimits
from dballoc.host.unprivileged import server_user
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.instruments import perf_events
from dballoc.instruments.server_counters import Countable

pytestmark = pytest.mark.long

POLICY = """libmimalloc2.0:
  Installed: 2.0.9
  Candidate: 2.0.9
libmimalloc3:
  Installed: (none)
  Candidate: (none)
sysbench:
  Installed: (none)
  Candidate: 1.0.20
"""


def test_packages_with_a_candidate() -> None:
    assert parse_policy(POLICY) == {"libmimalloc2.0", "sysbench"}


@pytest.mark.parametrize(
    ("state", "can"), [("ok", True), ("note", True), ("warn", True), ("missing", False)]
)
def test_only_what_is_missing_keeps_bench_from_running(state: str, can: bool) -> None:
    findings = [Finding("python", "ok", "3.11"), Finding("sysbench", state, "…", "install it")]
    assert examine.can_bench(findings) is can


@pytest.mark.parametrize(
    ("machine", "state", "words"),
    [
        ("x86_64", "ok", "x86_64, pages of 16K"),
        ("aarch64", "note", "aarch64, pages of 16K: dballoc was tried there in emulation alone"),
        ("riscv64", "warn", "knows the processes of x86-64 and aarch64 alone"),
    ],
)
def test_no_architecture_is_promised_that_was_not_tried(
    machine: str, state: str, words: str
) -> None:
    found = kernel.check_architecture(machine, 16384)
    assert found.state == state
    assert words in found.text


@pytest.mark.parametrize(
    ("kernel_mode", "refusal", "state", "words", "remedy"),
    [
        (True, "", "ok", "counted in user mode and in the kernel", ""),
        (
            False,
            "not the kernel's part: refused; run as root",
            "note",
            "counted in user mode, not the kernel's part: refused",
            "run as root",
        ),
        (None, "no such counters; use another", "note", "not counted: no such", "use another"),
    ],
)
def test_whether_instructions_are_counted(
    monkeypatch: pytest.MonkeyPatch,
    kernel_mode: bool | None,
    refusal: str,
    state: str,
    words: str,
    remedy: str,
) -> None:
    events = () if kernel_mode is None else perf_events.list_events(["cycles"], kernel_mode)
    monkeypatch.setattr(
        kernel, "find_countable", lambda _: Countable(events=events, refusal=refusal)
    )
    finding = kernel.check_counters()
    assert (finding.state, finding.remedy) == (state, remedy)
    assert finding.text.startswith(words)


def test_an_installation_is_asked_for_what_it_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Finding("host settings", "ok", "not looked at: that would restore them")
    monkeypatch.setattr(examine, "check_host_settings", lambda: settings)
    light = VerbPackages(
        working=("explain", "verify"), lacking=("bench", "report"), remedy="pip install 'x[all]'"
    )
    finding = installation.check_installation(light)
    assert finding == Finding(
        "installation",
        "note",
        "has what explain, verify need, and not what bench, report need; bench --measure-only needs "
        "none of it",
        "pip install 'x[all]'",
    )
    findings = examine.examine(light)
    names = {finding.name for finding in findings}
    assert {"installation", "Python", "perf (for profiles)", "host settings"} <= names
    assert "missing" not in {finding.state for finding in findings}
    assert not any("dballoc fetch" in finding.remedy for finding in findings)
    assert not names & {"sysbench", "server user", "the demo", "cache"}
    whole = replace(light, working=("bench", "explain"), lacking=(), remedy="")
    assert installation.check_installation(whole) == Finding(
        "installation", "ok", "has all that bench, explain need"
    )


def test_a_client_host_is_asked_for_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_servers() -> list[Finding]:
        raise AssertionError("it runs none")

    monkeypatch.setattr(software, "check_servers", check_servers)
    whole = VerbPackages(working=("bench", "doctor"), lacking=(), remedy="")
    names = {finding.name for finding in examine.examine(whole, is_client_host=True)}
    assert {"installation", "Python", "sysbench", "server user", "socket path"} <= names
    assert {"guardian", "CPUs", "CPU governor", "memory", "temporary files"} <= names
    assert not names & {"the demo", "cache", "swap", "native parts", "host settings"}


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_guardian_must_end_what_it_holds_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_closed: bool
) -> None:
    """One that does not notice the loss of contact is no guardian."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(examine, "_PATIENCE", 5.0 if is_closed else 0.2)
    if not is_closed:
        monkeypatch.setattr(examine, "Custody", lambda lease: Custody())
    finding = examine.check_guardian()
    assert finding.state == ("ok" if is_closed else "missing")
    assert "of a loss of contact" in finding.text
    assert bool(finding.remedy) is not is_closed
    assert not list(tmp_path.iterdir())


def test_a_guardian_that_may_hold_nothing_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = examine.check_guardian()
    assert finding.state == "missing"
    assert "cannot hold a process: cannot spawn sleep" in finding.text


@pytest.mark.parametrize(
    ("limits", "is_client_host", "state", "words"),
    [
        (ProcessLimits(64, None, None), False, "ok", "64 (0-63)"),
        (ProcessLimits(64, 2.5, None), False, "ok", "64 (0-63), of which a quota allows 2.5"),
        (ProcessLimits(64, 0.5, None), False, "warn", "allows 0.5: client and server share it"),
        (ProcessLimits(1, None, None), True, "warn", "the client is soon the limit"),
    ],
)
def test_cpus_are_those_that_the_quota_leaves(
    limits: ProcessLimits, is_client_host: bool, state: str, words: str
) -> None:
    finding = cpus_memory_disk.judge_cpu_count(limits, "0-63", is_client_host=is_client_host)
    assert finding.state == state
    assert words in finding.text


@pytest.mark.parametrize(("free", "state"), [(2**28, "warn"), (2**33, "ok")])
def test_a_block_needs_room_for_its_temporary_files(
    monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    monkeypatch.setattr(cpus_memory_disk.directories, "free_bytes", lambda path: free)
    finding = cpus_memory_disk.check_temporary_files()
    assert finding.state == state
    assert f"{free / 2**30:.1f} GiB free" in finding.text


def test_to_look_for_leftovers_makes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("DBALLOC_CACHE", str(cache))
    monkeypatch.setattr(leftovers, "_list_processes", list)  # no run is under way
    # Tests beside this one have directories of runs in the common one.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    leftovers.check_leftovers()
    assert not cache.exists()
    (cache / "scratch/t0123").mkdir(parents=True)
    # A trial's, and those of a block of bench --ray.
    names = [f"dballoc-{of}0123456789ab" for of in ("", "block-", "client-", "own-")]
    for name in (*names, "dballoc-of-somebody", "dballoc-error-0123456789ab"):
        (tmp_path / name).mkdir()
    [finding] = [f for f in leftovers.check_leftovers() if f.name == "leftover directories"]
    assert finding.state == "warn"
    assert set(finding.remedy.removeprefix("rm -r ").split()) == {
        f"{cache}/scratch/t0123",
        *(f"{tmp_path}/{name}" for name in names),
    }


def test_what_others_put_there_is_no_leftover(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(leftovers, "_list_processes", list)  # no run is under way
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "dballoc-0123456789ab").symlink_to("/usr")
    (tmp_path / "dballoc-abcdef012345").write_bytes(b"")
    [finding] = [f for f in leftovers.check_leftovers() if f.name == "leftover directories"]
    assert finding.state == "ok"


def test_the_names_of_cgroups_are_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(leftovers.cgroup, "ROOT", tmp_path)
    name = "dballoc-$(touch${IFS}x) y"
    group = tmp_path / "user.slice" / name
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_bytes(b"")
    finding = leftovers._check_cgroups()
    assert shlex.split(finding.remedy) == ["rmdir", str(group)]
    if os.getuid() == 0:
        os.chown(group, 65534, 65534)
        assert leftovers._check_cgroups().state == "ok", "a user's own, who may give it any name"


def test_a_leftover_that_goes_away_while_it_is_looked_at_has_no_size(tmp_path: Path) -> None:
    assert leftovers.measure_directory(tmp_path / "gone") == 0
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file").write_bytes(b"x" * 5000)
    (tmp_path / "link").symlink_to("/usr")
    assert 8192 <= leftovers.measure_directory(tmp_path) < 2**20


def test_where_there_is_no_user_for_servers_the_rest_is_examined(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a rootless container, which has one user."""

    def find_none() -> ServerUser:
        raise UsageError("servers need a free user ID, and there is none")

    for module in (server_user, software):
        monkeypatch.setattr(module, "server_user", find_none)
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path))
    monkeypatch.setattr(leftovers, "_list_processes", list)  # no run is under way
    monkeypatch.setattr(
        examine, "check_host_settings", lambda: Finding("host settings", "ok", "none")
    )
    (tmp_path / "scratch/t0123").mkdir(parents=True)
    light = VerbPackages(working=("explain",), lacking=("bench",), remedy="pip install 'x[all]'")
    findings = {finding.name: finding for finding in examine.examine(light)}
    assert findings["leftover directories"].state == "warn"
    assert software.check_server_user().state == "missing"


def test_a_long_name_is_not_completed_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "sixteen_letters_"
    program.symlink_to("/bin/sleep")

    def read_command_line(process: psutil.Process) -> list[str]:
        raise AssertionError(f"reads the memory of process {process.pid}")

    monkeypatch.setattr(psutil.Process, "cmdline", read_command_line)
    with subprocess.Popen([program, "600"]) as process:
        try:
            assert examine.check_noise()
            assert Process.at(process.pid).read_name() == "sixteen_letters"
        finally:
            process.kill()
