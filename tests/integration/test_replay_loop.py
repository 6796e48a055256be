"""The blocks of a campaign of replays, with a stand-in for the engine: what is stored, resumed,
refused and reported does not depend on what the engine measures.
"""

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

import example_replays

from dballoc.campaign.noise_samples import BlockNoiseMeter
from dballoc.campaign.replay import prepare_replay, read_trace_file
from dballoc.campaign.replay.prepare_replay import EngineBuild
from dballoc.campaign.ways import replay as replay_blocks
from dballoc.cli import verb_list
from dballoc.cli.verbs import replay as verb
from dballoc.store.results import Results
from dballoc.trace.replay.replay_result import ReplayFault, ReplayResult

# A program that imports malloc and answers --version, as the engine does.
_PROGRAM = Path("/bin/ls").resolve()


class Engine:
    """The stand-in: ``stop_after`` so many replays it is interrupted, as by Ctrl-C; ``failing``:
    the malloc whose replays crash.
    """

    def __init__(self) -> None:
        self.replayed: list[str] = []
        self.stop_after = 10**6
        self.failing = ""

    def run(self, plan: Any, allocator: Any, settings: Any, **more: Any) -> ReplayResult:
        from dballoc.campaign.trial.server_in_trial import Interrupted

        if len(self.replayed) >= self.stop_after:
            raise Interrupted
        self.replayed.append(allocator.name)
        if allocator.name == self.failing:
            fault = ReplayFault(kind="crash", text="the replay got a SIGSEGV")
            return ReplayResult(figures=None, fault=fault, bindings={}, printed="boom\n")
        return example_replays.result(allocator.name, 1 + 0.001 * len(self.replayed))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The stand-in, in place of the engine and the trace's reader."""
    stand_in = Engine()
    trace = example_replays.make_trace_of_calls([[(1, 0, -1)]], [100])
    monkeypatch.setattr(
        prepare_replay,
        "find_engine",
        lambda: EngineBuild(
            family="replay", version="0", executable=_PROGRAM, basedir=_PROGRAM.parent,
            share=_PROGRAM.parent, plugins=None,
        ),
    )  # fmt: skip
    monkeypatch.setattr(replay_blocks.run_replay, "run_replay", stand_in.run)
    monkeypatch.setattr(replay_blocks, "find_difference", lambda figures, expected: None)
    # A busy machine would have blocks repeated.
    measure = BlockNoiseMeter.make_row
    monkeypatch.setattr(
        BlockNoiseMeter, "make_row", lambda *args: replace(measure(*args), disturbed=None)
    )
    for module in (read_trace_file, verb):
        monkeypatch.setattr(module, "read_any_trace", lambda path: trace)
    return stand_in


@pytest.fixture
def run(tmp_path: Path, engine: Engine) -> Callable[..., Any]:
    """``run("--blocks", "2")``: replay a trace on glibc and jemalloc; results in ``out``."""
    trace = tmp_path / "oltp.trace"
    trace.write_bytes(b"a trace")

    def call(*flags: str, status: int = 0) -> str:
        app = verb_list.application(["replay", "report"])
        result = CliRunner().invoke(
            app,
            ["replay", str(trace), "--allocators", "glibc,jemalloc", "--out", str(tmp_path / "out"),
             *flags],
        )  # fmt: skip
        if result.exception and not isinstance(result.exception, SystemExit):
            if status:
                return str(result.exception)
            raise result.exception
        assert result.exit_code == status, result.output
        return result.output

    return call


def test_blocks_are_run_stored_and_reported(
    run: Callable[..., str], engine: Engine, tmp_path: Path
) -> None:
    output = run("--blocks", "2")
    assert sorted(engine.replayed) == ["glibc"] * 4 + ["jemalloc"] * 2
    assert "jemalloc has the least peak heap" in " ".join(output.split())
    assert (tmp_path / "out" / "report.html").exists()
    results = Results.open(tmp_path / "out", read_only=True)
    assert results.good_trials() == 6
    assert results.facts().kind == "replay"
    results.close()
    # Finished: the same command runs nothing more.
    run("--blocks", "2")
    assert len(engine.replayed) == 6


def test_the_same_command_resumes(run: Callable[..., str], engine: Engine) -> None:
    engine.stop_after = 4
    run("--blocks", "2", status=130)
    engine.stop_after = 10**6
    output = run("--blocks", "2")
    assert "resuming: 4 trials are finished already" in output
    assert len(engine.replayed) == 7, "the block that was cut is run whole again"


def test_another_trace_is_another_campaign(
    run: Callable[..., str], engine: Engine, tmp_path: Path
) -> None:
    run("--blocks", "1")
    (tmp_path / "oltp.trace").write_bytes(b"another trace")
    assert "holds results of another experiment" in run("--blocks", "1", status=2)
    assert len(engine.replayed) == 3


def test_a_crash_is_a_result(run: Callable[..., str], engine: Engine) -> None:
    engine.failing = "jemalloc"
    output = " ".join(run("--blocks", "1").split())
    assert "FAULT: the replay got a SIGSEGV" in output
    assert "glibc has the least peak heap" in output


def test_a_dry_run_starts_nothing(run: Callable[..., str], engine: Engine, tmp_path: Path) -> None:
    output = run("--dry-run")
    assert "variant: jemalloc" in output
    assert "1 events in 1 threads" in output
    assert not engine.replayed
    assert not (tmp_path / "out").exists()


def test_libraries_that_are_missing_are_refused(run: Callable[..., str], tmp_path: Path) -> None:
    shutil.copy("/bin/true", tmp_path / "libmine.so")
    missing = run("--preload", str(tmp_path / "none.so"), status=2)
    assert "none.so" in missing
    assert "\n" not in missing
