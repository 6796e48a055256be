"""The heap probe under real allocators: what it estimates against the truth, what it must survive,
who may ask it.
"""

import math
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from machine import MACHINE
from programs import open_probe, probed, socket_path, starting, wait_for_probe

from captured_run import run_captured
from dballoc.profile.heap import heap_profile, malloc_latency, probe_client
from dballoc.profile.heap.probe_client import Probe
from dballoc.profile.heap.probe_snapshot import Snapshot, compute_bucket_start
from dballoc.profile.symbols.symbols import Symbols

pytestmark = pytest.mark.alone  # what it counts and times wants the CPUs

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "native"
SOURCES, SHARED = NATIVE / "probe", NATIVE / "preload"
ALLOCATORS = ["glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return probed(tmp_path_factory.mktemp("probed"))


@dataclass
class Running:
    """A program under the probe that waits; what it has printed before."""

    process: "subprocess.Popen[str]"
    said: list[str]
    directory: Path

    def probe(self) -> Probe:
        """Its probe, once it listens: a moment after the first thread has begun."""
        return wait_for_probe(self.directory)


Start = Callable[..., Running]


@pytest.fixture
def environ(native_library: Callable[[str], Path], tmp_path: Path) -> Callable[..., dict[str, str]]:
    """``environ("jemalloc", interval)``: of a program under the probe over that allocator."""

    def made(allocator: str = "glibc", interval: int = 4096) -> dict[str, str]:
        libraries = MACHINE.find_libraries(allocator)
        preload = ":".join(map(str, [native_library("probe"), *libraries]))
        return {
            "PATH": os.environ["PATH"],
            "LD_PRELOAD": preload,
            probe_client.VARIABLE: f"{interval}:{tmp_path}",
        }

    return made


@pytest.fixture
def start(program: Path, environ: Callable[..., dict[str, str]], tmp_path: Path) -> Iterator[Start]:
    with starting() as begin:

        def run(mode: str, *how: object) -> Running:
            ready = begin(program, mode, **environ(*how))
            return Running(ready.process, ready.said, tmp_path)

        yield run


def errors(running: Running) -> list[float]:
    """By how many standard errors each site's estimate of live bytes misses the truth."""
    found = running.probe().snapshot()
    rows = {row.name: row.live for row in functions(found)}
    missed = []
    for line in running.said:
        _, site, size, blocks = line.split()
        live = rows[site]
        assert live.samples >= 20
        assert abs(live.objects - int(blocks)) < 6 * live.objects_error
        missed.append((live.bytes - int(size)) / live.error)
    assert len(missed) == 40
    return missed


def functions(found: Snapshot) -> list[heap_profile.HeapRow]:
    maps, symbols = heap_profile.parse_mappings(found), Symbols(Path(f"/proc/{found.pid}/root"))
    stacks = heap_profile.resolve_stacks(
        found.stacks, lambda address: symbols.resolve(maps, address)
    )
    return heap_profile.rank_functions(
        found,
        {number: heap_profile.find_dominant_frame(stack, []) for number, stack in stacks.items()},
    )


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_estimates_are_as_near_as_they_say(start: Start, allocator: str) -> None:
    running = start("known", allocator)
    missed = errors(running)
    # 95 % are expected; fewer than 33 of 40, or a mean beyond 0.8, has a chance of 1 in 10,000.
    assert sum(abs(z) <= 2 for z in missed) >= 33
    assert abs(sum(missed) / len(missed)) < 0.8
    found = running.probe().snapshot()
    assert found.complete >= 0.99
    assert not found.lost_blocks
    assert not found.overwritten


# What marks the places that are jumped to, and on aarch64 signs return addresses.
GUARDS = {"x86_64": "-fcf-protection=full", "aarch64": "-mbranch-protection=standard"}


def test_stacks_of_a_program_that_guards_its_returns(
    environ: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """Both ways of a walk give the same stacks, so that frame pointers alone are enough later."""
    with starting() as begin:
        begin(probed(tmp_path, GUARDS[MACHINE.architecture]), "known", **environ())
        snapshot = wait_for_probe(tmp_path).snapshot()
    assert snapshot.complete >= 0.99
    assert snapshot.by_pointers > 0.9 * (snapshot.by_pointers + snapshot.by_cfi)


@pytest.mark.slow
def test_nineteen_of_twenty_estimates_are_within_two_errors(start: Start) -> None:
    missed = []
    for _ in range(25):
        running = start("known")
        missed += errors(running)
        running.process.communicate("", timeout=10)
    inside = sum(abs(z) <= 2 for z in missed) / len(missed)
    print(
        f"{inside:.1%} of {len(missed)} estimates within 2 standard errors, mean {sum(missed) / len(missed):+.3f}"
    )
    assert inside > 0.93


def test_a_leak_of_one_in_a_hundred_is_first(start: Start) -> None:
    asked = start("leak").probe()
    time.sleep(0.5)
    before = asked.snapshot()
    time.sleep(2.5)
    after = asked.snapshot()
    maps, symbols = heap_profile.parse_mappings(after), Symbols()
    stacks = heap_profile.resolve_stacks(
        after.stacks, lambda address: symbols.resolve(maps, address)
    )
    grown = heap_profile.rank_growth(
        before,
        after,
        {number: heap_profile.find_dominant_frame(stack, []) for number, stack in stacks.items()},
    )
    assert grown[0].name == "leaking"
    assert grown[0].change.bytes > 5 * grown[0].change.error


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_every_function_does_what_it_does_without(
    program: Path, environ: Callable[..., dict[str, str]], allocator: str
) -> None:
    """mimalloc 2.0.9 breaks a promise of posix_memalign's by itself, and so it does with
    the probe.
    """
    with_probe = environ(allocator, 1024)
    without = {**with_probe, "LD_PRELOAD": with_probe["LD_PRELOAD"].partition(":")[2]}
    with_, by_itself = (
        run_captured([program, "family"], env=env, timeout=60) for env in (with_probe, without)
    )
    assert (with_.returncode, with_.stdout, with_.stderr) == (
        by_itself.returncode,
        by_itself.stdout,
        by_itself.stderr,
    )
    assert by_itself.returncode == 0 or allocator == "mimalloc"


@pytest.mark.parametrize("allocator", ["glibc", "jemalloc", "tcmalloc", "mimalloc"])
def test_what_goes_by_c23s_functions_is_gone(start: Start, allocator: str) -> None:
    running = start("sized", allocator)
    rows = {row.name: row.live for row in functions(running.probe().snapshot())}
    assert len(running.said) == 2
    for line in running.said:
        _, site, size, blocks = line.split()
        # What was ever allocated there is 20 times that.
        assert abs(rows[site].bytes - int(size)) < 6 * rows[site].error
        assert abs(rows[site].objects - int(blocks)) < 6 * rows[site].objects_error


@pytest.mark.parametrize("probed_too", [False, True])
def test_a_malloc_that_has_c23s_functions_gets_their_calls(
    program: Path,
    environ: Callable[..., dict[str, str]],
    preload: Callable[[str], Path],
    probed_too: bool,
) -> None:
    """It compares the size and the alignment with what it was asked for, and ends otherwise."""
    env = environ()
    libraries = [env["LD_PRELOAD"]] * probed_too + [str(preload("sized"))]
    done = run_captured(
        [program, "sized"],
        env={**env, "LD_PRELOAD": ":".join(libraries), "FREES": "1"},
        input="",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(" free_sized 19000 free_aligned_sized 19000\n")


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_storm_of_threads_forks_libraries_and_signals(
    program: Path, environ: Callable[..., dict[str, str]], allocator: str
) -> None:
    mode = (
        "threads" if allocator == "tbbmalloc" else "storm"
    )  # it hangs in forked children by itself
    done = run_captured([program, mode], env=environ(allocator, 1024), timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_detached_child_takes_its_parents_place(start: Start) -> None:
    running = start("fork", "glibc", 1024)
    [said] = running.said
    found = running.probe().snapshot()
    assert found.pid == int(said.split()[1])
    # What the parent had allocated before is the child's too, and what the child's own child freed
    # is not free.
    live = heap_profile.sum_blocks(found.blocks)
    assert live.bytes == pytest.approx(64 * 50_000 + (1 << 20), rel=0.05)
    assert [path.name for path in running.directory.glob("*.sock")] == [f"{found.pid}.sock"]


def test_idle_until_asked_and_idle_again(start: Start) -> None:
    asked = start("leak", "glibc", 0).probe()
    time.sleep(0.3)
    assert asked.snapshot().blocks == []
    assert malloc_latency.summarize_calls(asked.snapshot()).timed == 0
    asked.set_interval(4096)
    time.sleep(0.5)
    assert len(asked.snapshot().blocks) > 20
    asked.reset()
    asked.set_interval(0)
    time.sleep(0.3)
    samples = [
        sum(stack.samples for stack in asked.snapshot().stacks.values())
        for _ in (time.sleep(0.2), None)
    ]
    assert samples[0] == samples[1]


def test_time_in_malloc_is_counted(start: Start) -> None:
    asked = start("leak").probe()
    time.sleep(1)
    found = asked.snapshot()
    said = malloc_latency.summarize_calls(found)
    assert said.timed > 20
    assert said.share
    assert 0.01 < said.share < 1.0
    # That of a size may be 0 ns: what is left of a short call, less what reading the clock takes.
    sizes = malloc_latency.summarize_by_size(found)
    assert {row.operation for row in sizes} == {"malloc", "free"}
    assert all(0 <= row.p50 <= row.p99 <= row.longest for row in sizes)
    assert any(row.p50 > 0 for row in sizes)


def test_time_in_malloc_has_its_callers(start: Start) -> None:
    asked = start("leak").probe()
    time.sleep(3)
    found = asked.snapshot()
    maps, symbols = heap_profile.parse_mappings(found), Symbols(Path(f"/proc/{found.pid}/root"))
    stacks = heap_profile.resolve_stacks(
        found.stacks, lambda address: symbols.resolve(maps, address)
    )
    rows = heap_profile.rank_functions_by_time(
        found,
        {number: heap_profile.find_dominant_frame(stack, []) for number, stack in stacks.items()},
    )
    names = [row.name for row in rows]
    assert {"passing", "leak"} <= set(names)  # the one allocates, the other frees
    if "leaking" in names:  # one call in a hundred
        assert names.index("passing") < names.index("leaking")
    # Of all timed calls, and of one in 32 of them: as many, and as much time, each within six
    # standard errors. A call that waited for a CPU takes a thousand times as long as most, so the
    # time is told less exactly than the calls are.
    brief = [
        times
        for times in found.times
        if compute_bucket_start(times.bucket) < malloc_latency.STALL_NANOSECONDS
    ]
    timed = sum(times.calls for times in brief)
    recorded = sum(times.calls for times in found.waits)
    expected = timed / found.stacks_period
    assert recorded == pytest.approx(expected, abs=6 * math.sqrt(expected))
    square = sum(times.nanoseconds**2 / times.calls for times in brief) / timed
    error = found.period * found.stacks_period * math.sqrt(recorded * square) / 1e9
    assert sum(row.seconds for row in rows) == pytest.approx(
        malloc_latency.summarize_calls(found).seconds, abs=6 * error
    )


def test_nobody_else_is_answered(
    program: Path, environ: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: it changes users")
    for part in (tmp_path, *tmp_path.parents, program.parent, *program.parent.parents):
        if part.stat().st_uid == 0 and part != Path("/"):
            part.chmod(part.stat().st_mode | 0o755)
    tmp_path.chmod(0o777)
    ask = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'status\\n'); print(s.recv(99))"

    def as_user(uid: int) -> "subprocess.CompletedProcess[str]":
        return run_captured(
            ["/usr/bin/python3", "-I", "-S", "-c", ask, path], user=uid, group=uid, extra_groups=[]
        )

    with subprocess.Popen(
        [program, "leak"],
        env=environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=12345,
        group=12345,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        path = tmp_path / f"{process.pid}.sock"
        wait_for_probe(tmp_path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert "ok" in as_user(12345).stdout
        assert "PermissionError" in as_user(12346).stderr
        path.chmod(0o666)
        assert "only root and the user of the process" in as_user(12346).stdout
        assert open_probe(path, process.pid).status()["pid"] == process.pid
        process.communicate("", timeout=10)


def attack(path: Path, seconds: float) -> int:
    """Nonsense, half lines, clients that go away in the middle of a snapshot."""
    draw, tries, ends = random.Random(1), 0, time.monotonic() + seconds
    words = [
        b"snapshot\n",
        b"status\n",
        b"interval ",
        b"interval 9999999999999999999999\n",
        b"interval -1\n",
        b"interval 0x10\n",
    ]
    while time.monotonic() < ends:
        with socket.socket(socket.AF_UNIX) as talk:
            talk.connect(str(path))
            try:
                talk.sendall(
                    draw.choice([*words, draw.randbytes(draw.randrange(200)), b"\0\n", b"\n", b""])
                )
                talk.settimeout(0.05)
                talk.recv(draw.choice([1, 10, 100_000]))
            except OSError:
                pass
        tries += 1
    return tries


@pytest.mark.parametrize("seconds", [1.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_nonsense_does_no_harm(start: Start, seconds: float) -> None:
    running = start("leak")
    asked = running.probe()
    asked.set_interval(8192)
    assert attack(socket_path(asked), seconds) > 10
    assert asked.status()["interval"] == 8192
    assert asked.snapshot().blocks


@pytest.mark.parametrize("said", ["", "1", "x:/tmp", "10:/tmp", "8192:relative", "-1:/tmp"])
def test_a_wrong_request_is_one_line(
    program: Path, environ: Callable[..., dict[str, str]], said: str
) -> None:
    env = {**environ(), probe_client.VARIABLE: said}
    done = run_captured([program, "family"], env=env)
    assert done.returncode == 0
    assert (
        done.stderr
        == "dballoc probe: DBALLOC_PROBE is not INTERVAL:/DIRECTORY; nothing is sampled\n"
    )


@pytest.mark.parametrize("request_", [None, ""])
def test_where_nothing_is_sampled_no_block_is_looked_up(
    program: Path, environ: Callable[..., dict[str, str]], request_: str | None
) -> None:
    """Early blocks are hits of the filter. A block that shares a counter with one was looked up in
    a table that was never made.
    """
    env = {**environ(), probe_client.VARIABLE: request_ or ""}
    if request_ is None:
        del env[probe_client.VARIABLE]
    done = subprocess.run([program, "counters"], env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_tables_under_a_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    sources = [SOURCES / name for name in ("live.c", "stacks.c", "filter.c")]
    sources.append(SHARED / "memory.c")
    flags = [
        "-std=c17",
        "-D_GNU_SOURCE",
        "-O1",
        "-g",
        f"-fsanitize={sanitizer}",
        "-fno-sanitize-recover=all",
        f"-I{SOURCES}",
        f"-I{SHARED}",
    ]
    if sanitizer == "thread":
        flags.append("-Wno-tsan")  # fences: what they order is atomic all the same
    built = tmp_path / "tables"
    made = run_captured(["cc", *flags, "-o", built, HERE / "tables.c", *sources, "-lm", "-pthread"])
    if "cannot find" in made.stderr:
        pytest.skip(f"this compiler has no sanitizer {sanitizer}")
    assert made.returncode == 0, made.stderr
    # TSan wants its own layout of the address space.
    done = run_captured(["setarch", "-R", built])
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-3000:]


def test_a_standard_error_is_what_it_says() -> None:
    """The estimator by itself, on Poisson samples drawn here."""
    draw, interval, sizes = random.Random(7), 4096, [16, 100, 1000, 5000, 20000]
    truth = sum(sizes) * 200
    inside = 0
    for _ in range(400):
        total = heap_profile.Estimate()
        for size in sizes:
            block = heap_profile.SampledBlock(16, size, size, interval, 0.0, 1, 1)
            for _ in range(200):
                if draw.random() < block.chance:
                    total.add(block)
        inside += abs(total.bytes - truth) <= 2 * total.error
    assert inside / 400 == pytest.approx(math.erf(math.sqrt(2)), abs=0.03)


def test_symbols_of_the_running_program(start: Start) -> None:
    names = {row.name for row in functions(start("known").probe().snapshot())}
    assert {f"site_{i}" for i in range(40)} <= names


def test_a_malloc_is_asked_of_its_own_blocks_alone(
    native_library: Callable[[str], Path], preload: Callable[[str], Path]
) -> None:
    """While the probe looks for what C's programs have not, operator new, the loader allocates for
    its messages.
    """
    libraries = f"{native_library('probe')}:{preload('strict')}"
    for _ in range(10):
        done = subprocess.run(
            [MACHINE.find_program("/usr/bin/env")],
            stdout=subprocess.DEVNULL,
            env={"LD_PRELOAD": libraries, probe_client.VARIABLE: "1024:/tmp"},
            check=False,
        )
        assert done.returncode == 0
