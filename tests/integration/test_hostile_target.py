"""Processes that wait for root to look at them: what they prepare is neither loaded, executed nor
followed, what they answer is bounded, and our password is not theirs.
"""

import os
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from harness import Cli

USER = 65533  # nobody's: neither an account nor the servers' user
PASSWORD = "CanaryOfMyCnf"

# Tells who loads it, once it does. It provides what jemalloc does, so that it is taken for one.
LIBRARY = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern void *__libc_malloc(size_t);
extern void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void free(void *p) { __libc_free(p); }
int mallctl(const char *name, void *old, size_t *size, void *new_, size_t n) { return 1; }
__attribute__((constructor)) static void load(void) {
    char text[64];
    int fd = open("RECORD", O_WRONLY | O_APPEND);
    if (fd < 0) return;
    int n = snprintf(text, sizeof text, "%d\\n", (int)geteuid());
    if (write(fd, text, n) < 0) _exit(1);
    close(fd);
}
"""
# Tells who runs it, in the same way; then waits.
PROGRAM = (
    LIBRARY.partition("extern")[0]
    + LIBRARY[LIBRARY.index("__attribute__") :]
    + """
int main(void) { free(malloc(10)); puts("ready"); fflush(stdout); return getchar() == 0; }
"""
)
VERBS = [
    ("verify",),
    ("explain", "--pid"),
    ("explain", "--procedure", "--pid"),
    ("explain", "--install-function", "--yes", "--pid"),
    ("explain", "--trim", "--yes", "--pid"),
    ("profile", "heap", "--by", "user", "--pid"),
    ("bench", "--dry-run", "--like"),
]


@pytest.fixture
def place(needs_root: None, fresh_directory: Callable[[], Path]) -> Iterator[Path]:
    """A directory that everybody may enter, with a file ``record`` that everybody may write."""
    path = fresh_directory()
    path.chmod(0o755)
    (path / "record").touch()
    (path / "record").chmod(0o666)
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=["", "own-mounts"])
def trap(
    place: Path, c_library: Callable[..., Path], request: pytest.FixtureRequest
) -> Iterator[int]:
    """A process of an ordinary user, named as a server is, whose malloc is a library of its own;
    also in a mount namespace of its own, as in a container.
    """
    library = c_library("jemalloc", LIBRARY.replace("RECORD", str(place / "record")), place).rename(
        place / "libjemalloc.so.2"
    )
    (place / "p.c").write_text(PROGRAM.replace("RECORD", str(place / "record")))
    subprocess.run(["cc", "-fno-builtin", "-o", place / "mariadbd", place / "p.c"], check=True)
    (place / "etc").mkdir()
    start = f"exec setpriv --reuid={USER} --regid={USER} --clear-groups env LD_PRELOAD={library} {place}/mariadbd"
    if request.param:
        start = f"exec unshare --mount sh -c 'mount --bind {place}/etc /etc; {start}'"
    process = subprocess.Popen(["sh", "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    yield process.pid
    process.kill()
    process.wait()


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_nothing_of_a_target_is_loaded_or_run(
    run_cli: Cli, place: Path, trap: int, verb: tuple[str, ...]
) -> None:
    before = (place / "record").read_text()
    # env was preloaded too.
    assert set(before.split()) == {str(USER)}, "its own start is seen"
    done = run_cli(*verb, str(trap))
    assert "Traceback" not in done.stderr
    assert (place / "record").read_text() == before
    if verb == ("verify",):
        assert done.status == 0, done.stderr
        assert "jemalloc" in done.stdout


# A process of the host's own file, and root; but with files, processes or users of its own.
NAMED_ROOTS = {
    "without capabilities": "exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all {0}",
    "in a container": "exec unshare --mount --pid --fork --kill-child sh -c 'mount --rbind / {1}/root && exec chroot {1}/root {0}'",
    "with its own mounts": "exec unshare --mount --fork --kill-child sh -c 'mount --bind {1}/root /opt && exec {0}'",
    "with its own network": "exec unshare --net --fork --kill-child {0}",
    "with its own users": "exec unshare --user --map-root-user --fork --kill-child {0}",
}


@pytest.fixture
def listen(place: Path) -> Iterator[Callable[..., int]]:
    """``listen("garbage")``: tests/integration/hostile_server.py in that mode, as an ordinary
    user's ``mysqld``; its PID. ``listen("password", "in a container")``: as such a root's.
    """
    processes: list[subprocess.Popen[bytes]] = []
    program = Path(shutil.copy(os.path.realpath("/usr/bin/python3"), place / "mysqld"))
    script = shutil.copy(Path(__file__).with_name("hostile_server.py"), place / "s.py")
    (place / "run").mkdir()
    (place / "root").mkdir()

    def start(mode: str, root: str = "") -> int:
        words = [program, "-S", "-E", script, mode, place / "run/s.sock", place / "record"]
        how: dict = {"user": USER, "group": USER, "extra_groups": []}
        if root:
            line = NAMED_ROOTS[root].format(" ".join(map(str, words)), place)
            words, how = ["sh", "-c", line], {}
        else:
            os.chown(place / "run", USER, USER)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, **how)
        processes.append(process)
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(True)]
        [server] = [p for p in family if Path(p.exe()).name == "mysqld"]
        return server.pid

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def settings(place: Path) -> dict[str, str]:
    """Root's own client settings, with a password."""
    home = place / "home"
    home.mkdir(mode=0o700)
    (home / ".my.cnf").write_text(f"[client]\nuser=root\npassword={PASSWORD}\n")
    return {"HOME": str(home)}


def answers_to_challenge(place: Path) -> list[int]:
    """How many bytes each login had for the server's challenge ("HandshakeResponse41")."""
    return [
        length[0]
        for length in re.findall(rb"root\0(.)", (place / "record").read_bytes(), re.DOTALL)
    ]


@pytest.mark.parametrize("root", ["", *NAMED_ROOTS])
def test_a_password_goes_to_no_stranger(
    run_cli: Cli, place: Path, listen: Callable[..., int], settings: dict[str, str], root: str
) -> None:
    pid = listen("password", root)
    for words in (
        ["explain", "--pid", str(pid)],
        ["explain", "--procedure", "--pid", str(pid)],
        ["bench", "--like", str(pid)],
    ):
        done = run_cli(*words, env=settings)
        assert "Traceback" not in done.stderr
        assert PASSWORD not in done.text
    received = (place / "record").read_bytes()
    assert {0} == set(answers_to_challenge(place)), "it was asked, without an answer"
    assert PASSWORD.encode() not in received


@pytest.mark.parametrize("root", NAMED_ROOTS)
def test_a_root_elsewhere_gets_none_even_where_ones_settings_say(
    run_cli: Cli, place: Path, listen: Callable[..., int], settings: dict[str, str], root: str
) -> None:
    pid = listen("password", root)
    named = {**settings, "MYSQL_UNIX_PORT": str(place / "run/s.sock")}
    done = run_cli("explain", "--pid", str(pid), env=named)
    assert {0} == set(answers_to_challenge(place))
    assert PASSWORD.encode() not in (place / "record").read_bytes()
    assert done.status == 0, done.text


@pytest.mark.parametrize("by_flag", [False, True])
def test_a_server_that_ones_settings_name_gets_an_answer_and_no_password(
    run_cli: Cli, place: Path, listen: Callable[..., int], settings: dict[str, str], by_flag: bool
) -> None:
    """So that the tests above can fail: this same server gets the answer to its challenge, by which
    a real one knows the password. It is no unit of this host, so it does not get the text.
    """
    pid, path = listen("password"), str(place / "run/s.sock")
    if by_flag:
        done = run_cli("explain", "--socket", path, env=settings)
    else:
        done = run_cli("explain", "--pid", str(pid), env={**settings, "MYSQL_UNIX_PORT": path})
    # A first connection only asks the kernel who listens there.
    assert 20 in answers_to_challenge(place)
    assert PASSWORD.encode() not in (place / "record").read_bytes()
    assert "it asks for your password itself" in " ".join(done.text.split())


@pytest.mark.parametrize("mode", ["garbage", "endless"])
def test_what_it_answers_is_bounded(run_cli: Cli, listen: Callable[[str], int], mode: str) -> None:
    pid = listen(mode)
    began = time.monotonic()
    done = run_cli("explain", "--pid", str(pid))
    assert done.status == 0, done.text
    assert "Traceback" not in done.stderr
    assert "not queried by SQL" in done.stdout
    assert time.monotonic() - began < 150
    # KiB, of the largest child so far: 16 MiB of rows take some hundred MiB as Python's.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 3 << 20
