"""A replay as the server user, under the guardian: its figures on real mallocs, and its faults."""

import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dballoc.allocators.find_library import (
    Allocator,
    find_allocator,
    make_allocator_of_files,
    use_server_library,
)
from dballoc.allocators.server_environment import build_environment
from dballoc.campaign.replay import prepare_replay
from dballoc.ground.errors import UsageError
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.resources import cgroup
from dballoc.servers import relink
from dballoc.trace.replay.plan_file import ReplayPlan, write_plan
from dballoc.trace.replay.replay_result import ReplayResult
from dballoc.trace.replay.replay_settings import ReplayLimits, ReplaySettings
from dballoc.trace.replay.run_replay import run_replay
from example_traces import make_trace

MALLOCS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "tbbmalloc")
Replay = Callable[..., ReplayResult]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ReplayPlan:
    return write_plan(make_trace(6, 10_000, 3), tmp_path_factory.mktemp("plan") / "plan")


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Replay]:
    with Custody() as custody:

        def run(plan: ReplayPlan, allocator: Allocator, **options: object) -> ReplayResult:
            others = {name: options.pop(name) for name in ("cpus", "engine") if name in options}
            tunables, env = options.pop("tunables", {}), options.pop("environment", {})
            others["environment"] = build_environment({}, allocator, tunables, env)  # type: ignore[arg-type]
            settings = ReplaySettings(**options)  # type: ignore[arg-type]
            return run_replay(
                plan, allocator, settings, custody=custody, scratch=tmp_path, **others
            )  # type: ignore[arg-type]

        yield run


@pytest.fixture
def compile_library(c_library: Callable[..., Path]) -> Iterator[Callable[..., Path]]:
    """As ``c_library``, where the server user can read it."""
    with tempfile.TemporaryDirectory(prefix="dbc-") as directory:
        Path(directory).chmod(0o755)
        yield lambda name, source: c_library(name, source, Path(directory))


def installed(name: str) -> Allocator:
    try:
        return find_allocator(name)
    except UsageError as lacking:
        pytest.skip(str(lacking))


@pytest.mark.parametrize("name", MALLOCS)
def test_figures_of_a_real_malloc(name: str, plan: ReplayPlan, replay: Replay) -> None:
    allocator = installed(name)
    result = replay(plan, allocator, idle=0.05, cpus={min(os.sched_getaffinity(0))})
    assert result.fault is None
    figures = result.figures
    assert figures is not None
    assert figures.events == plan.events
    assert figures.peak_heap >= figures.end_heap > 0
    assert figures.peak_live >= figures.end_live == sum(each.live for each in figures.threads)
    assert figures.idle_heap is not None
    assert figures.cpu > 0
    assert figures.malloc_seconds > 0
    assert [moment.name for moment in figures.moments] == list(plan.marks)
    assert all(moment.heap > 0 for moment in figures.moments)
    assert figures.live_curve[-1][1] == figures.end_live
    curve = figures.curve
    assert len(curve.time) == len(curve.heap) == len(curve.live) == len(curve.seconds) > 0
    malloc = next(each for each in figures.operations if each.operation == "malloc")
    assert malloc.calls >= malloc.sampled
    assert all(
        (each.quantile(0.5) or 0) <= (each.quantile(0.99) or 0) for each in figures.operations
    )
    expected = {Path(path).name for path in allocator.providers} or {"libc.so.6"}
    assert Path(os.path.realpath(result.bindings["malloc"])).name in expected


def test_tunables_reach_the_malloc(plan: ReplayPlan, replay: Replay) -> None:
    result = replay(plan, installed("jemalloc"), tunables={"narenas": "1"})
    assert result.fault is None
    result = replay(plan, installed("jemalloc"), tunables={"no_such_option": "1"})
    assert result.fault is not None
    assert result.fault.kind in ("not proved", "crash")


def test_a_malloc_that_is_not_in_use_is_a_fault(
    plan: ReplayPlan, replay: Replay, compile_library: Callable[..., Path]
) -> None:
    library = compile_library("nomalloc", "int dballoc_no_malloc;")
    result = replay(plan, make_allocator_of_files((library,)))
    assert result.figures is None
    assert result.fault is not None
    assert result.fault.kind == "not proved"


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("crash", "crash", "SIG(ILL|TRAP)"),
        ("nothing", "no memory", r"allocations returned no memory, the first of \d+ bytes"),
        ("hang", "hang", "not at its end after 1 seconds"),
    ],
)
def test_faults_of_a_malloc_are_results(
    fault: str,
    kind: str,
    words: str,
    plan: ReplayPlan,
    replay: Replay,
    compile_library: Callable[..., Path],
) -> None:
    source = Path(__file__).parents[1] / "native" / "faulty.c"
    library = compile_library("faulty", source.read_text())
    result = replay(
        plan,
        make_allocator_of_files((library,)),
        environment={"FAULTY": fault, "FAULTY_AFTER": "500"},
        limits=ReplayLimits(seconds=1 if fault == "hang" else 600),
    )
    assert result.fault is not None
    assert result.fault.kind == kind, result.fault.text
    assert re.search(words, result.fault.text), result.fault.text
    assert "\n" not in result.fault.text


def test_the_memory_limit_holds(replay: Replay, tmp_path: Path) -> None:
    try:
        cgroup.check_memory_cgroup()
    except UsageError as lacking:
        pytest.skip(str(lacking))
    large = write_plan(make_trace(2, 20_000, 3, live=20_000), tmp_path / "large")
    result = replay(large, installed("glibc"), limits=ReplayLimits(memory=6 << 20), touch="all")
    assert result.fault is not None
    assert result.fault.kind == "oom"
    assert result.fault.text == "killed at the memory limit of 6 MiB"


def test_an_interrupt_ends_the_replay_and_its_cgroup(plan: ReplayPlan, tmp_path: Path) -> None:
    try:
        cgroup.check_memory_cgroup()
    except UsageError as lacking:
        pytest.skip(str(lacking))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def signal_while_it_runs(custody: Custody) -> None:
        # A cgroup is in custody before it is made.
        while not any(Path(path).is_dir() for path in custody._cgroups):
            time.sleep(0.05)
        [procs] = [Path(path, "cgroup.procs") for path in custody._cgroups]
        while not procs.read_text():
            time.sleep(0.05)
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGALRM)

    settings = ReplaySettings(idle=60, limits=ReplayLimits(memory=1 << 30))
    kept = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Custody() as custody:
            threading.Thread(target=signal_while_it_runs, args=[custody], daemon=True).start()
            with pytest.raises(KeyboardInterrupt):
                run_replay(plan, installed("glibc"), settings, custody=custody, scratch=tmp_path)
            assert not any(Path(path).exists() for path in custody._cgroups)
    finally:
        signal.signal(signal.SIGALRM, kept)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"threads": 2}, "6 threads, and no more than 2"),
        ({"threads_alive": 1}, "more than 1 threads at once"),
        ({"live_bytes": 1000}, "no more than 1000 are allowed"),
    ],
)
def test_what_needs_more_than_the_limits_is_refused(
    limits: dict[str, int], words: str, plan: ReplayPlan, replay: Replay
) -> None:
    with pytest.raises(UsageError, match=words):
        replay(plan, installed("glibc"), limits=ReplayLimits(**limits))  # type: ignore[arg-type]


def test_the_engine_runs_on_another_c_library(
    plan: ReplayPlan, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of this machine's, in a directory of its own, stands for another version."""
    with tempfile.TemporaryDirectory(prefix="dbc-") as directory:
        place = Path(directory)
        place.chmod(0o755)
        monkeypatch.setenv("DBALLOC_CACHE", str(place / "cache"))
        linked = relink.linked(engine := prepare_replay.find_engine())
        assert linked is not None
        loader = next(linked.library.parent.glob("ld-linux*.so.*"))
        for library in (loader, linked.library):
            shutil.copy(library, place)
        build = relink.relinked(engine, place / loader.name)
        place.joinpath("cache").chmod(0o755)
        libc = place / linked.library.name
        glibc = use_server_library(find_allocator("glibc"), libc, "2.99")
        result = replay(plan, glibc, engine=build.executable)
        assert result.fault is None
        assert result.figures is not None
        assert result.figures.events == plan.events
        assert result.bindings["malloc"] == str(libc)
        # Not the one that was chosen.
        fault = replay(plan, glibc).fault
        assert fault is not None
        assert fault.kind == "not proved"


@pytest.mark.parametrize("wrong", [{"speed": 0.0}, {"touch": "x"}, {"idle": -1}, {"window": -1}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ReplaySettings(**wrong)  # type: ignore[arg-type]
