"""``dballoc verify`` on real servers: what it says is what was done to them, and what it cannot say
is one line.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import A_USER, Cli, StartServer, wait_until

from dballoc.allocators import find_library
from dballoc.ground.errors import UsageError
from dballoc.host.process.read_rights import describe_readers, read_ptrace_scope
from dballoc.host.settings import thp

pytestmark = pytest.mark.unprivileged


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here servers outlive a test on purpose; the module's own fixture ends them."""


@pytest.fixture(scope="module")
def stock(stock_server: StartServer) -> int:
    return stock_server()[0]


def library(name: str) -> str:
    try:
        return str(find_library.find_allocator(name).libraries[0])
    except UsageError as error:
        pytest.skip(str(error))


def test_a_stock_server(run_cli: Cli, stock: int) -> None:
    done = run_cli("verify", str(stock))
    assert done.status == 0, done.text
    assert (
        f"mariadbd (process {stock}) uses glibc malloc {find_library.find_allocator('glibc').version}: "
        in done.stdout
    )
    assert "because:  nothing else was preloaded\n" in done.stdout
    assert "settings: none in its environment\n" in done.stdout
    assert "warning" not in done.stdout


def test_what_is_expected_is_checked(run_cli: Cli, stock_server: StartServer) -> None:
    """As ``dballoc deploy`` prints it."""
    version = find_library.find_allocator("jemalloc").version
    pid = str(stock_server(LD_PRELOAD=library("jemalloc"), MALLOC_CONF="narenas:2")[0])
    for words in (
        ("--expect", "jemalloc"),
        ("--expect", f"jemalloc@{version}", "--setting", "MALLOC_CONF=narenas:2"),
    ):
        done = run_cli("verify", pid, *words)
        assert (done.status, done.stderr) == (0, "")
    for words, status, says in (
        (("--expect", "glibc"), 1, f"process {pid} uses jemalloc {version}, not glibc: "),
        (("--expect", "jemalloc@1.2"), 1, "not jemalloc@1.2, which is another variant"),
        (("--expect", "jemalloc", "--setting", "MALLOC_CONF=narenas:4"), 1, "MALLOC_CONF is narenas:2, not narenas:4"),
        (("--expect", "jemalloc", "--setting", "GLIBC_TUNABLES=x"), 1, "GLIBC_TUNABLES is not set"),
        (("--expect", "jemaloc"), 2, "no such allocator; these are: "),
        (("--expect", "jemalloc", "--setting", "x"), 2, "write VARIABLE=VALUE"),
        (("--setting", "A=b"), 2, "--setting goes with --expect"),
    ):  # fmt: skip
        done = run_cli("verify", pid, *words)
        assert done.status == status, done.text
        assert says in done.stderr
        assert done.stderr.count("\n") == 1
    assert (
        json.loads(run_cli("verify", pid, "--expect", "glibc", "--json").stdout)["name"]
        == "jemalloc"
    )


def test_a_setting_without_effect_is_not_as_expected(
    run_cli: Cli, stock_server: StartServer
) -> None:
    pid = str(stock_server(MALLOC_CONF="narenas:2")[0])
    done = run_cli("verify", pid, "--expect", "glibc")
    assert done.status == 1
    assert "warning:  MALLOC_CONF: " in done.stdout
    assert "see its warnings" in done.stderr


@pytest.mark.parametrize(
    ("name", "variable", "value"),
    [
        ("jemalloc", "MALLOC_CONF", "narenas:2,background_thread:true"),
        ("tcmalloc", "TCMALLOC_RELEASE_RATE", "5"),
        ("mimalloc", "MIMALLOC_EAGER_COMMIT_DELAY", "0"),
    ],
)
def test_a_server_under_another_malloc(
    run_cli: Cli, stock_server: StartServer, name: str, variable: str, value: str
) -> None:
    path = library(name)
    pid = str(stock_server(LD_PRELOAD=path, **{variable: value})[0])
    done = run_cli("verify", pid)
    assert done.status == 0, done.text
    assert (
        f"uses {find_library.find_allocator(name).entry['title']} {find_library.find_allocator(name).version}: "
        in done.stdout
    )
    assert "because:  LD_PRELOAD in its environment\n" in done.stdout
    if host := thp.read_host():
        assert f"host THP: {host['thp']}, defrag {host['thp_defrag']}" in done.stdout
    assert f"settings: {variable}={value}\n" in done.stdout
    assert "warning" not in done.stdout
    found = json.loads(run_cli("verify", pid, "--json").stdout)
    assert (found["pid"], found["name"], found["version"]) == (
        int(pid),
        name,
        find_library.find_allocator(name).version,
    )
    assert Path(found["library"]).samefile(path)
    assert (found["settings"], found["mixed"], found["idle"]) == ({variable: value}, {}, {})
    # A jemalloc without its symbol table does not show what it applied.
    effects = {e["effect"] for e in found["effects"]}
    assert effects == {"applied"} or (name == "jemalloc" and effects == {"unknown"})


def test_a_preload_that_silently_failed(run_cli: Cli, stock_server: StartServer) -> None:
    """The trap that this verb is for: the server runs on under glibc."""
    missing = "/usr/lib/nowhere/libjemalloc.so.2"
    done = run_cli("verify", str(stock_server(LD_PRELOAD=missing, MALLOC_CONF="narenas:2")[0]))
    assert "uses glibc malloc" in done.stdout
    assert "because:  what LD_PRELOAD asks for is not used\n" in done.stdout
    assert f"warning:  {missing}: LD_PRELOAD names it, but it is not loaded" in done.stdout
    assert "warning:  MALLOC_CONF: a setting of jemalloc, which is not in use\n" in done.stdout


def test_any_process_has_a_malloc(run_cli: Cli) -> None:
    done = run_cli("verify", str(os.getpid()), "--json")
    assert done.status == 0, done.text
    found = json.loads(done.stdout)
    assert Path(found["executable"]).samefile(sys.executable) or found["executable"].endswith(
        Path(sys.executable).resolve().name
    )
    assert found["library"]


@pytest.mark.parametrize(
    ("pid", "status", "line"),
    [
        ("4194303", 2, "dballoc: process 4194303: No such process\n"),
        (
            "2",
            1,
            "dballoc: process 2: it has no executable: it is a kernel thread, or is just ending\n",
        ),
        ("0", 2, "dballoc: Invalid value for 'PID'"),
        ("mariadbd", 2, "dballoc: Invalid value for 'PID'"),
    ],
)
def test_what_cannot_be_looked_into_is_one_line(
    run_cli: Cli, needs_root: None, pid: str, status: int, line: str
) -> None:
    if pid == "2" and Path("/proc/2/comm").read_text().strip() != "kthreadd":
        pytest.skip("no kernel threads to be seen from this container")
    done = run_cli("verify", pid)
    assert (done.status, done.stdout, done.stderr.count("\n")) == (status, "", 1)
    assert done.stderr.startswith(line)


def test_a_server_of_another_user(run_cli: Cli, stock: int, needs_root: None) -> None:
    done = run_cli(
        "verify", str(stock), prefix=("setpriv", f"--reuid={A_USER}", "--clear-groups", "--")
    )
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr == (
        f"dballoc: process {stock}: Permission denied; {describe_readers(read_ptrace_scope())}\n"
    )


@pytest.fixture
def privileged_program() -> Iterator[Path]:
    """A copy of sleep with a file capability, where every user may run it."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "sleep"
        shutil.copy("/bin/sleep", copy)
        copy.chmod(0o755)
        # As setcap does it: cap_sys_nice, permitted and effective (<linux/capability.h>).
        capability = struct.pack("<5I", 0x02000001, 1 << 23, 0, 0, 0)
        try:
            os.setxattr(copy, "security.capability", capability)
        except OSError as error:
            pytest.skip(f"no file capabilities can be set here: {error}")
        if os.statvfs(place).f_flag & os.ST_NOSUID:
            pytest.skip("no program starts privileged on this file system")
        Path(place).chmod(0o755)
        yield copy


def test_a_privileged_start(run_cli: Cli, needs_root: None, privileged_program: Path) -> None:
    """As EL8's mysqld: whatever its environment says, the loader and glibc ignore it."""
    user = ("setpriv", f"--reuid={A_USER}", f"--regid={A_USER}", "--clear-groups", "--")
    settings = {"MALLOC_ARENA_MAX": "2", "GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": library("jemalloc"), **settings}
    cause = "(file capability cap_sys_nice)"
    with subprocess.Popen([*user, privileged_program, "120"], env=environment) as process:
        try:
            name = Path(f"/proc/{process.pid}/exe")
            wait_until(lambda: name.samefile(privileged_program))
            pid = str(process.pid)
            wait_until(lambda: run_cli("verify", pid).status == 0)
            lines = run_cli("verify", pid).stdout.splitlines()
            ignored = f"because:  LD_PRELOAD is ignored: it was started privileged {cause}"
            assert any(line.startswith(ignored) for line in lines)
            warnings = [line for line in lines if line.startswith("warning:")]
            assert len(warnings) == 3
            assert all(line.endswith(f"was started privileged {cause}") for line in warnings)
            assert any("AmbientCapabilities=CAP_SYS_NICE" in line for line in lines)
            for variable, value in settings.items():
                setting = f"{variable}={value}"
                done = run_cli("verify", pid, "--expect", "glibc", "--setting", setting)
                assert done.status == 1
                assert f"{setting} has no effect: ignored, as the program" in done.stderr
        finally:
            process.kill()
    done = run_cli(
        *("exec", "--probe", "heap", "--out", "/tmp/nowhere", "--", str(privileged_program)),
        prefix=user,
    )
    assert done.status == 2
    assert f"it starts privileged {cause}, so the loader ignores LD_PRELOAD" in done.stderr


def test_settings_that_have_no_effect(run_cli: Cli, stock_server: StartServer) -> None:
    """The loader's own list, in the server's memory, tells which of them it took."""
    text = "glibc.malloc.arena_test=3:glibc.malloc.trim_treshold=4096"
    pid = str(stock_server(GLIBC_TUNABLES=text, MALLOC_ARENA_MAX="two")[0])
    done = run_cli("verify", pid)
    for line in (
        "warning:  glibc.malloc.trim_treshold=4096: has no effect: glibc",
        "warning:  MALLOC_ARENA_MAX=two: has no effect: 'two' is not a whole number",
    ):
        assert line in done.stdout
    assert "setting:  glibc.malloc.arena_test=3: applied\n" in done.stdout  # since glibc 2.33
    done = run_cli("verify", pid, "--expect", "glibc", "--setting", f"GLIBC_TUNABLES={text}")
    assert done.status == 1
    assert "did you mean 'trim_threshold'?" in done.stderr
