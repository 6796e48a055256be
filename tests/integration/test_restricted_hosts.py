"""The table of docs/how-to/restricted-hosts.md, row by row, on a real server of an ordinary user."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from harness import A_USER, Cli, Done, Launch, run_as

from dballoc.host.process.read_rights import describe_readers, read_ptrace_scope

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("needs_root")]

PAGE = Path(__file__).parents[2] / "docs/how-to/restricted-hosts.md"
STRANGER = 61002
VERBS = ("verify", "explain", "profile contention")
# What a container of Docker's has, from its documentation ("Runtime privilege and Linux
# capabilities").
USUAL = (
    "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw "
    "sys_chroot mknod audit_write setfcap"
).split()


def as_user(uid: int, *capabilities: str) -> tuple[str, ...]:
    words = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    if capabilities:
        names = ",".join(f"+{name}" for name in capabilities)
        words += (f"--inh-caps={names}", f"--ambient-caps={names}")
    return words


def with_bound(*capabilities: str) -> tuple[str, ...]:
    names = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    return ("setpriv", f"--bounding-set={names}", f"--inh-caps={names}")


PREFIXES = {
    "root": (),
    "the server's own user": as_user(A_USER),
    "another user": as_user(STRANGER),
    "another user, `CAP_SYS_PTRACE` alone": as_user(STRANGER, "sys_ptrace"),
    "another user, `CAP_SYS_PTRACE` and `CAP_DAC_READ_SEARCH`": as_user(
        STRANGER, "sys_ptrace", "dac_read_search"
    ),
    "another user, these two and `CAP_PERFMON`": as_user(
        STRANGER, "sys_ptrace", "dac_read_search", "perfmon"
    ),
    "root in a container with Docker's usual capabilities": with_bound(*USUAL),
    "root in such a container, with `CAP_SYS_PTRACE` too": with_bound(*USUAL, "sys_ptrace"),
    "the server's own user, in another user namespace": (
        *as_user(A_USER),
        "unshare",
        "--user",
        "--map-root-user",
    ),
}


def read_table() -> dict[str, tuple[str, ...]]:
    """The page's rows: who, and what each verb does."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert cells[0][1:] == [f"`{verb}`" for verb in VERBS]
    return {who: tuple(rest) for who, *rest in cells[2:]}


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here servers outlive a test on purpose; the module's own fixture ends them."""


@pytest.fixture(scope="module")
def server(home: Path, data_with_accounts: Path, launch: Launch) -> int:
    """Of an ordinary user from its start on, as systemd's ``User=`` has it."""
    place = Path(tempfile.mkdtemp(prefix="restricted-", dir=home))
    place.chmod(0o755)
    os.chown(place, A_USER, A_USER)
    subprocess.run(["cp", "-a", data_with_accounts, place / "data"], check=True)
    words = ["mariadbd", "--no-defaults", f"--datadir={place}/data", f"--socket={place}/s"]
    words += [f"--pid-file={place}/p", "--skip-networking", "--innodb-buffer-pool-size=16M"]
    return launch(
        [*words], place, {"PATH": f"{os.environ['PATH']}:/usr/sbin"}, **run_as(A_USER)
    ).pid


def describe(verb: str, done: Done) -> str:
    """What the table says of an outcome."""
    if done.status == 0 and verb == "profile contention":
        return "without call stacks" if "no call stacks" in done.stdout else "yes"
    if done.status == 0:
        return "yes"
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    reasons = describe_readers(read_ptrace_scope()), "it belongs to another user namespace"
    assert any(reason in done.stderr for reason in reasons), done.stderr
    return "no"


def test_every_row_is_tried() -> None:
    assert set(read_table()) == set(PREFIXES)


@pytest.mark.parametrize("who", PREFIXES)
def test_a_row_of_the_table(run_cli: Cli, server: int, tmp_path: Path, who: str) -> None:
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) < 2 or read_ptrace_scope():
        pytest.skip("the table is of other settings of the kernel")
    if (Path("/proc/self/status").read_text().split("CapBnd:")[1].split()[0]).strip("0") == "":
        pytest.skip("this container has no capabilities to give")
    place = Path(tempfile.mkdtemp(prefix="restricted-", dir=run_cli.home))
    place.chmod(0o777)
    environ = {"DBALLOC_CACHE": str(place / "cache"), "HOME": str(place), "TMPDIR": str(place)}
    commands = {
        "verify": ("verify", str(server)),
        "explain": ("explain", "--pid", str(server)),
        "profile contention": (
            "profile", "contention", "--pid", str(server), "--seconds", "1",
        ),
    }  # fmt: skip
    outcomes = tuple(
        describe(verb, run_cli(*commands[verb], env=environ, prefix=PREFIXES[who]))
        for verb in VERBS
    )
    assert outcomes == read_table()[who]


def test_a_server_that_gave_up_root_is_hidden_from_its_own_user(
    run_cli: Cli,
) -> None:
    """As the page says: a process that changes its user is not "dumpable" (prctl(2))."""
    program = (
        "import os, sys; "
        f"os.setgroups([]); os.setresgid({A_USER}, {A_USER}, {A_USER}); "
        f"os.setresuid({A_USER}, {A_USER}, {A_USER}); print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        ["python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        done = run_cli("verify", str(process.pid), prefix=as_user(A_USER))
        assert describe("verify", done) == "no"
