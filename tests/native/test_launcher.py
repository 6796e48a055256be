"""The launcher of the portable file, with a shell script in the interpreter's place: where it
unpacks, what it refuses, what it leaves.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from captured_run import run_captured

LAUNCHER = Path(__file__).parents[2] / "native/launcher"
# Seconds; what is waited for comes at once on a machine that has time.
LONGEST = 60
SCRIPT = """#!/bin/sh
echo "home $0"
echo "arguments $*"
env | grep -e ^LD_ -e ^DBALLOC_ | LC_ALL=C sort
echo "mask $(umask)"
[ -z "$WAIT" ] || { echo ready; read -r line; }
exit 7
"""
STATUS = 7

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def make_payload(directory: Path) -> Path:
    """What the launcher unpacks: enough files that it is seen at it."""
    tree = directory / "tree"
    (tree / "bin").mkdir(parents=True)
    script = tree / "bin/python3"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    deep = tree / "lib" / ("d" * 50) / ("e" * 60)
    deep.mkdir(parents=True)
    (deep / ("f" * 60)).write_bytes(b"x" * 1000)
    (tree / "lib/large").write_bytes(os.urandom(300_000))
    (tree / "lib/empty").touch()
    archive = directory / "payload.tar"
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as file:
        for path in sorted(tree.rglob("*")):
            file.add(path, path.relative_to(tree), recursive=False)
    packed = directory / "payload.tar.zst"
    subprocess.run(["zstd", "-q", archive, "-o", packed], check=True)
    return packed


def compile_launcher(payload: Path, target: Path, *flags: str) -> Path:
    sources = [*sorted(LAUNCHER.glob("*.c")), LAUNCHER / "payload.S"]
    words = ["cc", "-std=c17", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    words += [f'-DPAYLOAD="{payload}"', "-o", str(target), *map(str, sources), "-lzstd"]
    subprocess.run(words, check=True)
    return target


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for tool in ("cc", "zstd"):
        assert shutil.which(tool), f"no {tool} on the PATH; run: tools/install-packages test"
    return make_payload(tmp_path_factory.mktemp("payload"))


@pytest.fixture(scope="module")
def launcher(payload: Path) -> Path:
    """With the sanitizers: what it does wrong in memory ends it."""
    flags = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return compile_launcher(payload, payload.with_name("launcher"), *flags)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The directory that TMPDIR names; what is unpacked there goes away by itself."""
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    yield place
    wait_until_empty(place)


@pytest.fixture
def run(launcher: Path, place: Path) -> Run:
    def run(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return run_captured(
            [launcher, *arguments],
            env={"PATH": os.environ["PATH"], "TMPDIR": str(place), **environ},
            timeout=LONGEST,
        )

    return run


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.01)


def wait_until_empty(place: Path) -> None:
    wait_until(lambda: not list(place.iterdir()))


def start_waiting(launcher: Path, place: Path) -> "subprocess.Popen[str]":
    """One whose script waits for a line."""
    process = subprocess.Popen(
        [launcher],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(place), "WAIT": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while process.stdout.readline() not in ("ready\n", ""):
        pass
    return process


def refuses(done: "subprocess.CompletedProcess[str]", words: str) -> None:
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("dballoc: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_it_runs_what_it_holds(run: Run, place: Path) -> None:
    done = run(
        "explain", "--pid", "7", "", LD_LIBRARY_PATH="/opt/lib", LD_DEBUG="", DBALLOC_STORE="/s"
    )
    assert (done.returncode, done.stderr) == (STATUS, "")
    home, arguments, *environ, mask = done.stdout.splitlines()
    directory = home.removeprefix("home ").removesuffix("/bin/python3")
    assert Path(directory).parent == place
    assert arguments == "arguments -I -B -m dballoc explain --pid 7 "
    assert environ == [
        f"DBALLOC_PORTABLE={directory}",
        "DBALLOC_PORTABLE_LD_DEBUG=",
        "DBALLOC_PORTABLE_LD_LIBRARY_PATH=/opt/lib",
        "DBALLOC_STORE=/s",
    ]
    assert mask.endswith("22")


def test_the_directory_is_the_users_alone_and_goes_with_the_process(
    launcher: Path, place: Path
) -> None:
    with start_waiting(launcher, place) as process:
        [directory] = place.iterdir()
        assert directory.stat().st_mode & 0o7777 == 0o700
        assert (directory / "lib/large").stat().st_size == 300_000
        assert not [p for p in directory.rglob("*") if p.stat().st_mode & 0o077]
        assert Path(f"/proc/{process.pid}/exe").exists(), "it is the process that was started"
        process.kill()
    wait_until_empty(place)


def test_it_needs_no_standard_streams(launcher: Path, place: Path) -> None:
    line = f'"{launcher}" <&- >&- 2>&-; echo $?'
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(place)}
    done = run_captured(["sh", "-c", line], env=environ)
    assert done.stdout == f"{STATUS}\n"


def test_who_waits_for_the_end_of_a_pipe_is_not_kept(launcher: Path, place: Path) -> None:
    """A child that outlives it with its descriptors closed would keep the directory in use."""
    process = start_waiting(launcher, place)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    assert process.stdout.read() == ""
    assert process.wait(LONGEST) == STATUS
    process.stdout.close()


def test_what_a_kill_left_is_removed_and_nothing_else(
    run: Run, place: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    leftover = place / "dballoc-portable-00112233445566ff"
    (leftover / "lib/inner").mkdir(parents=True)
    leftover.chmod(0o700)
    (leftover / ".unpacked-by-dballoc-portable").touch()
    (leftover / "lib/file").write_text("x")
    (leftover / "lib/link").symlink_to(outside)
    empty = place / "dballoc-portable-1111111111111111"
    empty.mkdir(mode=0o700)

    used = place / "dballoc-portable-2222222222222222"
    unmarked = place / "dballoc-portable-3333333333333333"
    open_to_all = place / "dballoc-portable-4444444444444444"
    other_name = place / "dballoc-portable-results"
    for directory in (used, unmarked, open_to_all, other_name):
        directory.mkdir(mode=0o700)
        (directory / "file").touch()
    for directory in (used, open_to_all, other_name):
        (directory / ".unpacked-by-dballoc-portable").touch()
    open_to_all.chmod(0o755)
    link = place / "dballoc-portable-5555555555555555"
    link.symlink_to(outside)
    kept = {used, unmarked, open_to_all, other_name, link}

    lock = os.open(used, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert run().returncode == STATUS
        wait_until(lambda: set(place.iterdir()) == kept)
        assert (outside / "kept").exists()
    finally:
        os.close(lock)
        for path in kept:
            path.unlink() if path.is_symlink() else shutil.rmtree(path)


def test_somebody_elses_is_not_touched(
    run: Run, launcher: Path, place: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make another user's directory")
    other = place / "dballoc-portable-6666666666666666"
    other.mkdir(mode=0o700)
    (other / ".unpacked-by-dballoc-portable").touch()
    os.chown(other, 61001, 61001)
    assert run().returncode == STATUS
    wait_until(lambda: list(place.iterdir()) == [other])
    shutil.rmtree(other)


def test_many_at_once_do_not_remove_each_other(launcher: Path, place: Path) -> None:
    """Each looks for leftovers while others make their directories."""
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(place)}
    for _ in range(4):
        processes = [
            subprocess.Popen(
                [launcher], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for _ in range(8)
        ]
        for process in processes:
            _, errors = process.communicate(timeout=LONGEST)
            assert (process.returncode, errors) == (STATUS, b"")
    wait_until_empty(place)


def test_a_place_where_others_may_exchange_files_is_refused(run: Run, place: Path) -> None:
    place.chmod(0o777)
    refuses(run(), "no sticky bit")
    place.chmod(0o1777)
    assert run().returncode == STATUS
    if os.geteuid() == 0:
        os.chown(place, 61001, 61001)
        refuses(run(), "belongs to another user")
        os.chown(place, 0, 0)


def test_a_place_below_one_where_others_may_exchange_files_is_refused(
    run: Run, place: Path
) -> None:
    """Who may rename a directory above may put another in its place."""
    below = place / "open" / "own"
    below.mkdir(parents=True, mode=0o700)
    below.parent.chmod(0o777)
    refuses(run(TMPDIR=str(below)), "others may write to a directory above")
    if os.geteuid() == 0:
        below.parent.chmod(0o755)
        os.chown(below.parent, 61001, 61001)
        refuses(run(TMPDIR=str(below)), "a directory above")
    link = place / "link"
    below.parent.chmod(0o700)
    os.chown(below.parent, os.geteuid(), os.getegid())
    link.symlink_to(below)
    assert run(TMPDIR=str(link)).returncode == STATUS
    wait_until_empty(below)
    link.unlink()
    shutil.rmtree(below.parent)


@pytest.mark.parametrize(
    ("place_name", "words"),
    [
        ("there/is/none", "is no absolute path"),
        ("/there/is/none", "No such file or directory"),
        ("/dev/null", "Not a directory"),
        ("/" + "x" * 4090, "shorter path"),
        ("/a\n\x1b[2Jb", "/a??[2Jb: No such file"),
    ],
)
def test_a_wrong_place_is_one_line(run: Run, place_name: str, words: str) -> None:
    refuses(run(TMPDIR=place_name), words)


def in_a_mount(launcher: Path, options: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run it with a file system of its own as /tmp."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a file system")
    inner = (
        'mount -t tmpfs -o "$1" none /mnt && shift && TMPDIR=/mnt "$@"; s=$?; ls -A /mnt; exit $s'
    )
    return run_captured(
        ["unshare", "--mount", "sh", "-c", inner, "sh", options, launcher, *words],
        env={"PATH": os.environ["PATH"]},
        timeout=LONGEST,
    )


def test_noexec_is_one_line(launcher: Path) -> None:
    refuses(in_a_mount(launcher, "noexec"), "/mnt is mounted noexec")


def test_a_full_place_is_one_line(launcher: Path) -> None:
    done = in_a_mount(launcher, "size=100k")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def test_a_damaged_file_is_one_line(payload: Path, tmp_path: Path, place: Path) -> None:
    data = payload.read_bytes()
    cut = tmp_path / "cut.zst"
    cut.write_bytes(data[: len(data) // 2])
    launcher = compile_launcher(cut, tmp_path / "cut", "-fsanitize=address,undefined")
    done = run_captured([launcher], env={"TMPDIR": str(place)})
    refuses(done, "this file is damaged")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_flipped_bit_is_seen(payload: Path, tmp_path: Path, place: Path, share: float) -> None:
    """Also where what is unpacked has the right sizes and names: by the checksum at its end."""
    data = bytearray(payload.read_bytes())
    data[int(len(data) * share)] ^= 1
    (tmp_path / "flipped.zst").write_bytes(data)
    launcher = compile_launcher(tmp_path / "flipped.zst", tmp_path / "flipped")
    words = [launcher, "--unpack-to", tmp_path / "opt"]
    done = run_captured(words)
    assert done.returncode == 1, done
    assert "this file is damaged" in done.stderr
    assert not (tmp_path / "opt").exists()
    done = run_captured([launcher], env={"TMPDIR": str(place)})
    refuses(done, "this file is damaged")


def test_it_runs_where_the_end_of_children_is_ignored(launcher: Path, place: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(place)}
    done = run_captured(["env", "--ignore-signal=CHLD", launcher], env=environ)
    assert (done.returncode, done.stderr) == (STATUS, "")


def test_others_may_remove_what_is_unpacked_at_the_same_time(launcher: Path, place: Path) -> None:
    """As a guardian does with its scratch in the cache, when dballoc is killed."""
    for _ in range(5):
        with start_waiting(launcher, place) as process:
            [directory] = place.iterdir()
            scratch = directory / "cache/scratch"
            scratch.mkdir(parents=True)
            for number in range(500):
                (scratch / str(number)).touch()
            process.kill()
        while scratch.exists():
            shutil.rmtree(scratch, ignore_errors=True)
        wait_until_empty(place)


def test_a_place_without_room_for_a_file_stays_empty(launcher: Path) -> None:
    """One inode for the file system, one for the directory, none for the mark in it."""
    done = in_a_mount(launcher, "nr_inodes=2")
    refuses(done, "cannot make a directory in /mnt: No space left on device")


def test_it_unpacks_to_a_place_that_stays(run: Run, place: Path, tmp_path: Path) -> None:
    target = tmp_path / "opt"
    done = run("--unpack-to", str(target))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"unpacked; run: {target}/bin/dballoc\n"
    assert target.stat().st_mode & 0o7777 == 0o755
    assert (target / "bin/python3").stat().st_mode & 0o7777 == 0o755
    assert not list(place.iterdir())
    refuses(run("--unpack-to", str(target)), "File exists")
    refuses(run("--unpack-to"), "takes one directory")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_what_runs(launcher: Path, place: Path, number: signal.Signals) -> None:
    with start_waiting(launcher, place) as process:
        process.send_signal(number)
        assert process.wait(LONGEST) == -number


def test_it_runs_in_a_user_namespace(launcher: Path, request: pytest.FixtureRequest) -> None:
    """/tmp belongs to the machine's root, who has no number there."""
    open_to_all = Path(tempfile.mkdtemp(prefix="launcher-"))
    open_to_all.chmod(0o755)
    request.addfinalizer(lambda: shutil.rmtree(open_to_all))
    words = ["unshare", "--user", "--map-root-user", shutil.copy(launcher, open_to_all)]
    as_root = os.geteuid() == 0
    as_user = {"user": 61001, "group": 61001, "extra_groups": []} if as_root else {}
    if subprocess.run(["unshare", "--user", "true"], check=False, **as_user).returncode != 0:
        pytest.skip("this kernel lets nobody make a user namespace")
    environ = {"PATH": os.environ["PATH"], "ASAN_OPTIONS": "detect_leaks=0"}
    done = run_captured(words, env=environ, timeout=LONGEST, **as_user)
    assert (done.returncode, done.stderr) == (STATUS, "")
    assert done.stdout.startswith("home /tmp/dballoc-portable-")
    left = Path(done.stdout.splitlines()[0].removeprefix("home ")).parents[1]
    wait_until(lambda: not left.exists())
