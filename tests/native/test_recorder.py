"""The recorder under real allocators: what it writes against what a program knows of itself, and
what it must survive.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from machine import MACHINE
from programs import LONGEST, Ready, compiled, starting

from captured_run import run_captured
from dballoc import catalogue
from dballoc.allocators.find_library import read_version
from dballoc.ground.errors import Failure, UsageError
from dballoc.instruments.ways_in.preload_socket import RECORDER, find_preload_in_directory
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.compilation.match_blocks import AddressUses, match_blocks
from dballoc.trace.model import NONE, EventKind, Recording
from dballoc.trace.recording import recorder_client
from dballoc.trace.recording.read_recording import read_recording, verify_recording
from dballoc.trace.recording.recorder_client import Recorder

NATIVE = Path(__file__).parents[2] / "native"
SANITIZERS = ["address,undefined", "thread"]
ALLOCATORS = ["glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc"]
_FREES = (EventKind.FREE, EventKind.FREE_SIZED)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("recorded", tmp_path_factory.mktemp("recorded"), "-fno-builtin")


Environ = Callable[..., dict[str, str]]


@pytest.fixture
def environ(native_library: Callable[[str], Path], tmp_path: Path) -> Environ:
    """``environ("jemalloc", when="idle", limit=…)``: of a program under the recorder."""

    def make(allocator: str = "glibc", when: str = "start", limit: int = 1 << 30) -> dict[str, str]:
        libraries = MACHINE.find_libraries(allocator)
        return {
            "PATH": os.environ["PATH"],
            "LD_PRELOAD": ":".join(map(str, [native_library("trace"), *libraries])),
            RECORDER.variable: f"{when}:{limit}:{tmp_path}",
        }

    return make


def run_program(program: Path, environ: dict[str, str], *arguments: object) -> list[str]:
    """Run it to its end, and return the lines that it prints."""
    done = run_captured([program, *map(str, arguments)], env=environ, timeout=LONGEST)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def read_only_one(directory: Path) -> Recording:
    """The only recording there."""
    [path] = directory.glob("*.recording")
    assert path.stat().st_mode & 0o777 == 0o600
    return read_recording(path)


def parse_blocks(lines: list[str]) -> dict[int, int]:
    """Sizes by address of what the program says that it has."""
    words = [line.split() for line in lines]
    return {int(line[1], 0): int(line[2]) for line in words if line[0] == "block"}


def replay_live(recording: Recording, began_late: bool = False) -> dict[int, int]:
    """Sizes by address of what is alive at the end. The test fails if an address is handed out
    twice, or one is freed that is not alive, unless it may have been allocated before.
    """
    rows: dict[bool, list[tuple[int, int, int, int, int]]] = {False: [], True: []}
    call = 0
    for index, thread in enumerate(recording.threads):
        frees = np.isin(thread.kind, _FREES)
        for i in range(len(thread.kind)):
            call += 1
            address, size = int(thread.address[i]), int(thread.size[i])
            released = address if frees[i] else int(thread.old[i])
            if released:
                rows[True].append((released, int(thread.before[i]), call, index, 0))
            if not frees[i]:
                rows[False].append((address, int(thread.after[i]), call, index, size))
    allocated = np.array(rows[False], np.uint64).reshape(-1, 5)
    matches = match_blocks(make_uses(allocated), make_uses(np.array(rows[True], np.uint64)))
    assert len(matches.missed) == 0
    assert began_late or (matches.unknown, matches.double) == (0, 0)
    is_alive = np.ones(len(allocated), bool)
    is_alive[matches.allocation_of[matches.allocation_of != NONE]] = False
    return {int(row[0]): int(row[4]) for row in allocated[is_alive]}


def make_uses(rows: np.ndarray) -> AddressUses:
    """Rows of address, time, call and thread as match_blocks takes them."""
    address, time_, call, thread = rows.reshape(-1, 5).T[:4]
    return AddressUses(
        address=address,
        time=time_.astype(np.int64),
        call=call.astype(np.int64),
        thread=thread.astype(np.int32),
    )


def check_blocks(recording: Recording, lines: list[str]) -> None:
    """What the program has is alive in its recording, and nothing else of its sizes is."""
    known, live = parse_blocks(lines), replay_live(recording)
    assert {address: live.get(address) for address in known} == known
    # The C library has a few blocks of its own.
    assert len(live) - len(known) < 12
    assert recording.facts.dropped == 0


@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("mode", ["alone", "threads"])
def test_what_is_alive_is_what_the_program_has(
    program: Path, environ: Environ, tmp_path: Path, allocator: str, mode: str
) -> None:
    lines = run_program(program, environ(allocator), mode)
    recording = read_only_one(tmp_path)
    check_blocks(recording, lines)
    assert recording.facts.from_start
    assert recording.facts.ended_by == "exit"
    assert len(recording.threads) == (1 if mode == "alone" else 9)
    assert {t.created_by for t in recording.threads} == ({-1} if mode == "alone" else {-1, 0})
    kinds = set(np.concatenate([t.kind for t in recording.threads]).tolist())
    assert kinds == set(EventKind) - {EventKind.FREE_SIZED}


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_the_mallocs_version_and_settings_are_recorded(
    program: Path, environ: Environ, tmp_path: Path, allocator: str
) -> None:
    settings = {"MALLOC_ARENA_MAX": "2", "GLIBC_TUNABLES": "glibc.malloc.top_pad=131072\nx"}
    run_program(program, environ(allocator) | settings | {"OTHER": "MALLOC_"}, "alone")
    facts = read_only_one(tmp_path).facts
    entry = catalogue.allocators()[allocator]
    told = "says" in entry["version"] or "returned_by" in entry["version"]
    known = read_version(entry, MACHINE.find_libraries(allocator))
    # tbbmalloc has no function that tells it.
    assert facts.allocator_version == (known if told and allocator != "tbbmalloc" else "")
    assert set(facts.settings or ()) == {
        "MALLOC_ARENA_MAX=2",
        "GLIBC_TUNABLES=glibc.malloc.top_pad=131072?x",
    }


def test_a_large_environment_is_read_to_its_end(
    program: Path, environ: Environ, tmp_path: Path
) -> None:
    filling = {f"X{i}": "x" * (1000 + i) for i in range(100)}
    settings = {"MALLOC_ARENA_MAX": "1", "MIMALLOC_X": "y" * 3000}
    run_program(program, environ() | filling | settings, "alone")
    facts = read_only_one(tmp_path).facts
    assert set(facts.settings or ()) == {"MALLOC_ARENA_MAX=1", f"MIMALLOC_X={'y' * 2036}"}


def test_edges_of_the_family(program: Path, environ: Environ, tmp_path: Path) -> None:
    lines = run_program(program, environ(), "edges")
    recording = read_only_one(tmp_path)
    check_blocks(recording, lines)
    [thread] = recording.threads
    aligned = thread.kind == EventKind.ALIGNED
    assert sorted(thread.alignment[aligned].tolist()) == [4096, 1 << 16]
    assert thread.size[thread.kind == EventKind.REALLOC].tolist() == [77]


def test_alignments_that_are_none_are_the_next_mallocs_to_judge(
    program: Path, environ: Environ, tmp_path: Path
) -> None:
    """A block of the recorder's has just the bytes that were asked for; one of glibc's has more,
    and is recorded with the next power of two.
    """
    lines = run_program(program, environ(), "alignments")
    beyond = [(int(line.split()[1]), int(line.split()[2])) for line in lines]
    assert [more for alignment, more in beyond if alignment == 64] == [0, 0, 0]
    others = [more for alignment, more in beyond if alignment != 64]
    assert len(others) == 12
    assert 0 not in others
    [thread] = read_only_one(tmp_path).threads
    recorded = set(thread.alignment[thread.kind == EventKind.ALIGNED].tolist())
    assert recorded >= {32, 64, 4096}
    assert all(alignment & (alignment - 1) == 0 for alignment in recorded)


def test_a_free_in_the_last_round_of_destructors(
    program: Path, environ: Environ, tmp_path: Path
) -> None:
    run_program(program, environ(), "late")
    recording = read_only_one(tmp_path)
    check_blocks(recording, [])
    for thread in recording.threads[1:]:
        [block] = thread.address[thread.size == 1000]
        frees = thread.address[np.isin(thread.kind, _FREES)]
        assert block in frees


def test_a_handler_allocates(program: Path, environ: Environ, tmp_path: Path) -> None:
    run_program(program, environ(), "signals")
    recording = read_only_one(tmp_path)
    check_blocks(recording, [])
    [thread] = recording.threads
    assert np.count_nonzero(thread.size == 50) == 100


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_touched_pages_of_large_blocks(
    program: Path, environ: Environ, tmp_path: Path, allocator: str
) -> None:
    lines = run_program(program, environ(allocator), "large")
    recording = read_only_one(tmp_path)
    check_blocks(recording, lines)
    samples = [touch for touch in recording.touches if touch.size == 40 * 4096]
    # Of 400: the first eight, six of one in 4, and so on. Fewer than six of 392, and eight of 264 of
    # one in 256, have chances below 1 in 10 million.
    rarities = [touch.rarity for touch in samples]
    assert rarities.count(0) == 8
    assert rarities.count(1) == 6
    assert len(rarities) < 8 + 3 * 6 + 8
    assert {touch.runs for touch in samples} == {tuple((page, 1) for page in range(0, 40, 3))}
    [thread] = recording.threads
    sites = set(thread.site[thread.size == 40 * 4096].tolist())
    assert {touch.site for touch in samples} <= sites
    assert 0 not in sites


def test_callers_of_a_wrapper_are_told_apart(
    program: Path, environ: Environ, tmp_path: Path
) -> None:
    run_program(program, environ(), "wrapped")
    trace = compile_recording(read_only_one(tmp_path))
    wrapped = np.flatnonzero(trace.objects.size == 20 * 4096)
    touch = trace.objects.touch[wrapped]
    # Their pages are drawn from other blocks, but none gets those of the other caller.
    whole = touch == NONE
    assert whole.tolist() == [False, True] * 200
    assert {trace.touch_patterns[number] for number in touch[~whole]} == {((0, 1),)}


def test_threads_that_come_and_go(program: Path, environ: Environ, tmp_path: Path) -> None:
    run_program(program, environ(), "many")
    recording = read_only_one(tmp_path)
    assert recording.facts.dropped == 0
    assert len(recording.threads) == 1025
    for thread in recording.threads[1:]:
        assert np.count_nonzero(thread.kind == EventKind.MALLOC) >= 200
        assert thread.created_by == 0
    check_blocks(recording, [])


@pytest.mark.parametrize("milliseconds", [0, 1500], ids=["at once", "after the writer's look"])
def test_when_threads_are_created_and_end(
    program: Path, environ: Environ, tmp_path: Path, milliseconds: int
) -> None:
    """However long before their first call and after their last one, and however they end; whether
    the program ends at once, or the writer has given back what they had.
    """
    run_program(program, environ(), "idling", milliseconds)
    recording = read_only_one(tmp_path)
    assert len(recording.threads) == 5
    assert (recording.threads[0].created, recording.threads[0].ended) == (NONE, NONE)
    for thread in recording.threads[1:]:
        assert 0 <= thread.created < int(thread.after[0]) - 0.29e9
        [size] = thread.size[(thread.size > 7000) & (thread.size <= 7004)]
        last = int(thread.after[thread.size == size][0])
        if size == 7004:
            assert thread.ended == NONE
        else:
            latest = recording.facts.seconds * 1e9 - milliseconds * 1e6
            assert last + 0.29e9 < thread.ended < latest
    resolution = 10
    compiled = compile_recording(recording, resolution).threads
    for before, thread in zip(recording.threads, compiled, strict=True):
        for moment, kept in (before.created, thread.created), (before.ended, thread.ended):
            assert kept == (NONE if moment == NONE else moment // resolution * resolution)


def test_a_child_that_takes_its_parents_place(
    program: Path, environ: Environ, tmp_path: Path
) -> None:
    """Forked before its parent writes, as by a server that detaches: it has its parent's blocks."""
    lines = run_program(program, environ(), "fork")
    [child] = [line.split()[1] for line in lines if line.startswith("child")]
    [parent] = [line.split()[1] for line in lines if line.startswith("parent")]
    for pid, sizes in ((child, {111, 222}), (parent, {111, 333})):
        live = replay_live(read_recording(tmp_path / f"{pid}.recording"))
        assert {111, 222, 333} & set(live.values()) == sizes


def test_a_child_of_a_process_that_records_writes_nothing(
    program: Path, environ: Environ, tmp_path: Path
) -> None:
    lines = run_program(program, environ(), "fork-late")
    [parent] = [line.split()[1] for line in lines if line.startswith("parent")]
    [path] = tmp_path.glob("*.recording")
    assert path.name == f"{parent}.recording"
    live = replay_live(read_recording(path))
    assert {111, 222, 333} & set(live.values()) == {111, 333}


@pytest.mark.parametrize("way", ["_exit", "quick_exit"])
def test_an_end_without_destructors(
    program: Path, environ: Environ, tmp_path: Path, way: str
) -> None:
    lines = run_program(program, environ(), "alone", 0, way)
    recording = read_only_one(tmp_path)
    check_blocks(recording, lines)
    assert recording.facts.ended_by == "exit"


@pytest.mark.parametrize("milliseconds", [0, 600], ids=["before the writer", "with the writer"])
@pytest.mark.parametrize("way", ["exit", "_exit"])
def test_an_end_of_a_thread_that_is_to_be_cancelled(
    program: Path, environ: Environ, tmp_path: Path, way: str, milliseconds: int
) -> None:
    """What ends the program is no cancellation point: the file has its end, and so has the
    program.
    """
    run_program(program, environ(), "cancelled", milliseconds, *([way] if way == "_exit" else []))
    recording = read_only_one(tmp_path)
    assert recording.facts.ended_by == "exit"
    assert np.count_nonzero(recording.threads[0].size == 50) == 1


def test_sizes_that_no_block_has(program: Path, environ: Environ, tmp_path: Path) -> None:
    """A program may say anything when it frees a block: it is recorded as the largest size, and
    nothing else of the recording is wrong.
    """
    run_program(program, environ(), "wrong-sizes")
    recording = read_only_one(tmp_path)
    check_blocks(recording, [])
    assert recording.touches
    [thread] = recording.threads
    sizes = thread.size[thread.kind == EventKind.FREE_SIZED]
    assert sizes.tolist() == [2**56 - 1] * 200
    assert thread.size.tolist().count(100) == thread.size.tolist().count(50000) == 100
    trace = compile_recording(recording)
    assert sorted(set(trace.objects.size.tolist()) & {100, 50000}) == [100, 50000]


@pytest.fixture
def start(program: Path) -> Iterator[Callable[..., Ready]]:
    with starting() as begin:
        yield lambda *arguments, **variables: begin(program, *arguments, **variables)


def wait_for_recorder(directory: Path) -> Recorder:
    deadline = time.monotonic() + LONGEST
    while True:
        try:
            return recorder_client.Recorder(find_preload_in_directory(directory, RECORDER))
        except (UsageError, Failure):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def test_a_program_that_sleeps_after_its_allocations(
    start: Callable[..., Ready], environ: Environ, tmp_path: Path
) -> None:
    """It has one thread, and calls malloc no more."""
    start("wait", 1000, **environ())
    recorder = wait_for_recorder(tmp_path)
    name = "after-level-delete_range=100-57"
    recorder.mark(name, {"rss": 12345, "heap.live": 7})
    with pytest.raises(UsageError, match="no name for a mark"):
        recorder.mark("prepared", {"rss=1": 12345})
    recorder.stop()
    status = recorder.status()
    assert not status.is_recording
    assert status.ended_by == "asked"
    recording = read_only_one(tmp_path)
    assert sum(len(thread.kind) for thread in recording.threads) == status.events >= 900
    [mark] = recording.marks
    assert (mark.name, mark.truth) == (name, {"rss": 12345, "heap.live": 7})
    assert 0 < mark.time <= recording.facts.seconds * 1e9
    with pytest.raises(Failure, match="not recording"):
        recorder.stop()


def test_a_recording_that_begins_late(
    start: Callable[..., Ready], environ: Environ, tmp_path: Path
) -> None:
    start("wait", 1000, **environ(when="idle"))
    recorder = wait_for_recorder(tmp_path)
    assert not recorder.status().is_recording
    recorder.start()
    with pytest.raises(Failure, match="already"):
        recorder.start()
    recorder.stop()
    recorder.start()
    recorder.stop()
    first, second = sorted(tmp_path.glob("*.recording"))
    for path in (first, second):
        assert not read_recording(path).facts.from_start
        assert verify_recording(path).complaint == ""


def test_threads_are_counted_in_each_recording(
    program: Path, environ: Environ, tmp_path: Path
) -> None:
    process = subprocess.Popen([program, "churn", "-1"], env=environ(when="idle"))
    try:
        recorder = wait_for_recorder(tmp_path)
        for _ in range(2):
            recorder.start()
            deadline = time.monotonic() + LONGEST
            while recorder.status().events < 10_000:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            recorder.stop()
            assert recorder.status().threads == 1
    finally:
        process.kill()
        process.wait()


def test_a_killed_program_leaves_what_was_written(
    start: Callable[..., Ready], program: Path, environ: Environ, tmp_path: Path
) -> None:
    process = subprocess.Popen([program, "churn", "-1"], env=environ())
    try:
        recorder = wait_for_recorder(tmp_path)
        deadline = time.monotonic() + LONGEST
        while recorder.status().events < 10_000:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    recording = read_only_one(tmp_path)
    assert recording.facts.ended_by == "unknown"
    assert sum(len(thread.kind) for thread in recording.threads) >= 10_000
    replay_live(recording)


def test_a_limit_ends_it_and_the_program_goes_on(
    start: Callable[..., Ready], environ: Environ, tmp_path: Path
) -> None:
    start("wait", 3_000_000, **environ(limit=4 << 20))
    status = wait_for_recorder(tmp_path).status()
    deadline = time.monotonic() + LONGEST
    while not status.ended_by:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        status = wait_for_recorder(tmp_path).status()
    assert status.ended_by == "limit"
    recording = read_only_one(tmp_path)
    assert recording.facts.ended_by == "limit"
    assert status.bytes == next(tmp_path.glob("*.recording")).stat().st_size <= 4 << 20
    assert verify_recording(next(tmp_path.glob("*.recording"))).complaint == ""


def test_what_records_no_more_says_why_it_ended(
    program: Path, environ: Environ, tmp_path: Path
) -> None:
    """Between the last event and the end of the file it still records, for who asks."""
    process = subprocess.Popen([program, "churn", "-1"], env=environ(when="idle", limit=1 << 20))
    try:
        recorder = wait_for_recorder(tmp_path)
        recorder.start()
        deadline = time.monotonic() + LONGEST
        while (status := recorder.status()).is_recording:
            assert time.monotonic() < deadline
    finally:
        process.kill()
        process.wait()
    assert status.ended_by == "limit"
    assert read_only_one(tmp_path).facts.ended_by == "limit"


def test_a_limit_that_was_asked_for_is_of_one_recording(
    start: Callable[..., Ready], environ: Environ, tmp_path: Path
) -> None:
    start("wait", 1000, **environ(when="idle", limit=4 << 20))
    recorder = wait_for_recorder(tmp_path)
    recorder.set_limit(2 << 20)
    assert recorder.status().limit == 2 << 20
    limits = []
    for _ in range(2):
        recorder.start()
        limits.append(recorder.status().limit)
        recorder.stop()
    assert limits == [2 << 20, 4 << 20]


@pytest.mark.parametrize("when", ["at once", "at the end"])
def test_a_file_that_must_not_grow(
    program: Path, environ: Environ, tmp_path: Path, when: str
) -> None:
    """RLIMIT_FSIZE, as a full disk: the program ends as it would, and the file is whole so far."""
    events = 3_000_000 if when == "at once" else 100_000
    limit = 1 << 20 if when == "at once" else 100_000

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [program, "churn", str(events)],
        env=environ(),
        preexec_fn=limit_files,
        capture_output=True,
        check=False,
        timeout=LONGEST,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    [path] = tmp_path.glob("*.recording")
    condition = verify_recording(path)
    assert condition.complaint == ""
    assert 0 < path.stat().st_size <= limit
    recording = read_recording(path)
    assert recording.facts.ended_by in ("disk", "unknown")  # the last chunk may not fit either


def test_a_directory_that_is_not_there(program: Path, environ: Environ, tmp_path: Path) -> None:
    variables = environ()
    variables[RECORDER.variable] += "/nowhere"
    done = run_captured([program, "alone"], env=variables)
    assert done.returncode == 0
    assert "dballoc trace: " in done.stderr
    assert "nothing is recorded" in done.stderr


@pytest.mark.parametrize(
    "request_", ["", "start", "start:1:/tmp", "begin:1073741824:/tmp", "idle:1073741824:tmp"]
)
def test_a_malformed_request(program: Path, environ: Environ, request_: str) -> None:
    done = run_captured([program, "edges"], env={**environ(), RECORDER.variable: request_})
    assert done.returncode == 0
    assert done.stderr == (
        "dballoc trace: DBALLOC_TRACE is not WHEN:LIMIT:/DIRECTORY; it does nothing\n"
    )


def test_without_a_request_it_only_forwards(
    program: Path, environ: Environ, tmp_path: Path
) -> None:
    variables = environ()
    del variables[RECORDER.variable]
    run_program(program, variables, "threads")
    assert not list(tmp_path.iterdir())


def test_a_stopped_thread_does_not_hold_up_an_end(
    start: Callable[..., Ready], environ: Environ, tmp_path: Path
) -> None:
    """The program stands still while its recorder is asked, which goes on when it does."""
    running = start("wait", 100, **environ())
    recorder = wait_for_recorder(tmp_path)
    os.kill(running.pid, signal.SIGSTOP)
    os.kill(running.pid, signal.SIGCONT)
    recorder.stop()
    assert read_only_one(tmp_path).facts.ended_by == "asked"


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("recorded") / "operators"
    source = Path(__file__).with_name("recorded_operators.cc")
    flags = [
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fno-builtin",
        "-fsized-deallocation",
    ]
    MACHINE.compile("g++", target, *flags, source)
    return target


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_operators_that_free_with_a_size(
    operators: Path, environ: Environ, tmp_path: Path, allocator: str
) -> None:
    """Every block is freed once, and where the size was passed it is the block's."""
    lines = run_program(operators, environ(allocator))
    recording = read_only_one(tmp_path)
    check_blocks(recording, lines[1:])
    [thread] = recording.threads
    is_sized = thread.kind == EventKind.FREE_SIZED
    assert lines[0] == f"sized {is_sized.sum()} {thread.size[is_sized].sum()}"
    live: dict[int, int] = {}
    for kind, address, size in zip(thread.kind, thread.address, thread.size, strict=True):
        if kind == EventKind.FREE_SIZED:
            assert live[address] == size
        live[address] = size


def test_a_program_whose_delete_is_its_own(environ: Environ, tmp_path: Path) -> None:
    """Every form of delete ends there, of blocks that the recorder has mapped too."""
    target = tmp_path / "own_delete"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-sized-deallocation"]
    source = Path(__file__).with_name("own_delete.cc")
    MACHINE.compile("g++", target, *flags, "-fno-builtin", source)
    assert run_program(target, environ()) == ["deletes 800"]
    recording = read_only_one(tmp_path)
    check_blocks(recording, [])
    assert len(recording.touches) >= 10
    [thread] = recording.threads
    is_large = np.isin(thread.size, [10000 << power for power in range(10)])
    assert set(thread.kind[is_large].tolist()) == {EventKind.MALLOC}
    assert np.count_nonzero(is_large) == 800
    assert np.count_nonzero(thread.kind == EventKind.FREE) >= 800


def build_with(name: str, directory: Path, *parts: str) -> Path:
    """``NAME.c`` with these parts of the recorder's, like ``trace/stamp``."""
    rooms = [f"-I{NATIVE / room}" for room in ("trace", "preload")]
    sources = [NATIVE / f"{part}.c" for part in parts]
    return compiled(name, directory, "-O2", *rooms, *sources)


# What fills buffers, and what that needs.
_FILLING = ("trace/recorder", "trace/buffers", "trace/threads", "trace/stamp", "preload/memory")


def test_no_record_begins_without_room(tmp_path: Path) -> None:
    """Whatever records in the middle of a call: what the recorder starts, a signal's handler."""
    assert run_program(build_with("recorder_room", tmp_path, *_FILLING), {}) == []


def test_a_thread_waits_for_a_buffer_only_while_one_may_come(tmp_path: Path) -> None:
    """More threads than buffers: none waits in vain, nor is one cancelled while it waits."""
    messages = ("preload/message", "preload/descriptors")
    built = build_with("recorder_waiting", tmp_path, *_FILLING, *messages)
    assert run_program(built, {}) == []


def test_requests_that_take_too_long_are_over(tmp_path: Path) -> None:
    """The writer hangs before it sees a request, or in it; later ones are answered."""
    built = build_with("recorder_mailbox", tmp_path, "trace/writer", "preload/own_thread")
    assert run_program(built, {}) == []


def build_sanitized(sanitizer: str, name: str, sources: list[Path], target: Path) -> Path:
    """``NAME.c`` with these sources of the recorder's under a sanitizer. Skips where the compiler
    has none.
    """
    flags = ["-std=c17", "-D_GNU_SOURCE", "-O1", "-g", "-fno-sanitize-recover=all", "-pthread"]
    rooms = [f"-I{NATIVE / room}" for room in ("trace", "preload")]
    command = ["cc", *flags, f"-fsanitize={sanitizer}", *rooms, "-o", target]
    made = run_captured([*command, Path(__file__).with_name(f"{name}.c"), *sources, "-ldl"])
    if "cannot find" in made.stderr:
        pytest.skip(f"this compiler has no sanitizer {sanitizer}")
    assert made.returncode == 0, made.stderr
    return target


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_its_parts_under_a_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    """Buffers that are filled, handed over and read at once; blocks whose pages are looked at."""
    names = ("buffers", "chunk", "sites", "stamp", "touches")
    sources = [NATIVE / "trace" / f"{name}.c" for name in names]
    sources.append(NATIVE / "preload" / "memory.c")
    built = build_sanitized(sanitizer, "recorder_parts", sources, tmp_path / "parts")
    done = run_captured([built], timeout=2 * LONGEST)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_all_of_it_under_a_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    """Threads hand blocks to each other while recordings begin, are marked and end; all but the
    functions that stand in malloc's place, where a sanitizer's own are.
    """
    sources = [path for room in ("trace", "preload") for path in (NATIVE / room).glob("*.c")]
    sources = [path for path in sources if path.name not in ("hooks.c", "births.c")]
    built = build_sanitized(sanitizer, "recorder_whole", sources, tmp_path / "whole")
    # The recorder's threads have tables of open files of their own: their numbers are not the same
    # files, as the sanitizer thinks.
    (tmp_path / "suppressions").write_text("race:^descriptor_\nrace:^file_open$\n")
    environ = {
        RECORDER.variable: f"start:{1 << 30}:{tmp_path}",
        "TSAN_OPTIONS": f"suppressions={tmp_path / 'suppressions'} print_suppressions=0",
    }
    [events] = run_program(built, environ)
    recordings = sorted(tmp_path.glob("*.recording"), key=lambda path: path.stat().st_mtime_ns)
    conditions = [verify_recording(path, 1 << 30) for path in recordings]
    assert [each.ended_by for each in conditions] == ["asked"] * 3 + ["exit"]
    assert [each.dropped for each in conditions] == [0] * 4
    assert conditions[-1].events == int(events)
    replay_live(read_recording(recordings[-1]), began_late=True)
