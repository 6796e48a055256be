"""Where a process is hidden (hidepid), or a security module refuses a look, each verb says so in one
line, with what to do.
"""

import ctypes
import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest
from harness import A_USER, Cli, run_as

pytestmark = pytest.mark.usefixtures("needs_root")

STRANGER = 61002
AS_STRANGER = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
HIDDEN = (
    "or one of another user, which /proc hides (hidepid=invisible); run this as root, as that "
    "user, or with CAP_SYS_PTRACE\n"
)
# <linux/landlock.h>, unistd.h: a domain that forbids to make block devices, and so, beside that,
# to look into processes outside it (Documentation/userspace-api/landlock.rst, "Ptrace").
LANDLOCK = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
handled = ctypes.c_uint64(1 << 11)
ruleset = libc.syscall(444, ctypes.byref(handled), ctypes.c_size_t(8), 0)
libc.prctl(38, 1, 0, 0, 0)
if ruleset < 0 or libc.syscall(446, ruleset, 0):
    sys.exit(f"landlock: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
"""
WITH_LANDLOCK = (sys.executable, "-c", LANDLOCK)


def with_hidepid(value: str) -> tuple[str, ...]:
    """What has a command see such a /proc, in a mount namespace of its own."""
    line = f'mount -t proc -o hidepid={value} proc /proc && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", line, "sh")


@pytest.fixture(scope="module")
def target() -> Iterator[int]:
    """A process of an ordinary user's."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, **run_as(A_USER)) as process:
        yield process.pid


@pytest.fixture(scope="module")
def needs_mounts_of_their_own() -> None:
    """Before Linux 5.8 all mounts of a PID namespace's /proc share their options."""
    major, minor = map(int, platform.release().split(".")[:2])
    if (major, minor) < (5, 8):
        pytest.skip("this kernel would hide the processes of the whole host")


@pytest.mark.usefixtures("needs_mounts_of_their_own")
@pytest.mark.parametrize(
    ("words", "start"),
    [
        (("verify", "PID"), "process PID: No such process, "),
        (("explain", "--pid", "PID"), "process PID: No such process, "),
        (("explain",), "no MySQL-family server runs here, "),
        (("profile", "contention", "--pid", "PID"), "process PID: No such process, "),
        (("profile", "heap", "--pid", "PID"), "process PID: No such process, "),
        (("bench", "--like", "PID", "--print"), "process PID: No such process, "),
    ],
)
def test_a_hidden_process_is_one_line_with_what_to_do(
    run_cli: Cli, target: int, words: tuple[str, ...], start: str
) -> None:
    command = [word.replace("PID", str(target)) for word in words]
    environ = {"HOME": "/nonexistent", "DBALLOC_CACHE": "/nonexistent/cache"}
    done = run_cli(*command, env=environ, prefix=(*with_hidepid("2"), *AS_STRANGER))
    assert done.status in (1, 2)
    assert done.stdout == ""
    assert done.stderr == f"dballoc: {start.replace('PID', str(target))}{HIDDEN}"


@pytest.mark.usefixtures("needs_mounts_of_their_own")
def test_doctor_says_that_processes_are_hidden(run_cli: Cli) -> None:
    environ = {"HOME": "/nonexistent", "DBALLOC_CACHE": "/nonexistent/cache"}
    done = run_cli("doctor", env=environ, prefix=(*with_hidepid("2"), *AS_STRANGER))
    [line] = [line for line in done.stdout.splitlines() if ": other processes: " in line]
    assert line.startswith(
        "note: other processes: /proc hides those of other users (hidepid=invisible)"
    )


@pytest.mark.usefixtures("needs_mounts_of_their_own")
def test_root_sees_what_is_hidden_from_others(run_cli: Cli, target: int) -> None:
    done = run_cli("verify", str(target), prefix=with_hidepid("2"))
    assert (done.status, done.stderr) == (0, "")
    done = run_cli("verify", "4194303", prefix=with_hidepid("2"))
    assert done.stderr == "dballoc: process 4194303: No such process\n"


@pytest.mark.usefixtures("needs_mounts_of_their_own")
def test_a_process_that_may_be_seen_but_not_read(run_cli: Cli, target: int) -> None:
    prefix = (*with_hidepid("1"), *AS_STRANGER)
    for words in (("verify", str(target)), ("bench", "--like", str(target), "--print")):
        done = run_cli(*words, prefix=prefix, env={"HOME": "/nonexistent"})
        assert done.stderr.count("\n") == 1
        assert "only root, its own user and who has CAP_SYS_PTRACE" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "PID"),
        ("explain", "--pid", "PID"),
        ("bench", "--like", "PID", "--print"),
    ],
)
def test_a_security_modules_refusal_is_one_line_with_what_to_do(
    run_cli: Cli, target: int, words: tuple[str, ...]
) -> None:
    """Root has all that the kernel asks for, and is refused all the same."""
    libc = ctypes.CDLL(None, use_errno=True)
    # landlock_create_ruleset with LANDLOCK_CREATE_RULESET_VERSION
    if libc.syscall(444, None, ctypes.c_size_t(0), 1) < 1:
        pytest.skip("this kernel has no Landlock")
    command = [word.replace("PID", str(target)) for word in words]
    done = run_cli(*command, prefix=WITH_LANDLOCK)
    assert done.status in (1, 2)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert str(target) in done.stderr
    assert "; a security module (SELinux, AppArmor, Landlock) forbids it: " in done.stderr
    assert "run dballoc unconfined" in done.stderr
