"""The benchmark of the published comparisons runs each by its verb, and one that fails alone."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import published

from dballoc import catalogue
from dballoc.doctor.shipped_experiments import plan_setup
from dballoc.document.markdown import list_post_lines
from dballoc.experiment import experiment_file
from dballoc.experiment.scale import scale_table
from dballoc.load.post_like import fill_post
from dballoc.load.workload_cycles import expand
from dballoc.questions.published.setup.post_differences import compare_with_post
from dballoc.questions.published.setup.post_note import describe_comparisons
from dballoc.questions.published.setup.run_setup import PostComparison


class Runner:
    """Stands for the verbs: what was called, and with which status each verb ends."""

    def __init__(self, **statuses: int) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.statuses = statuses

    def __call__(self, *words: object) -> subprocess.CompletedProcess[str]:
        self.calls.append(tuple(map(str, words)))
        return subprocess.CompletedProcess([], self.statuses.get(str(words[0]), 0), "", "why")


def run_main(monkeypatch: pytest.MonkeyPatch, runner: Runner, out: Path, *flags: str) -> int:
    monkeypatch.setattr(published, "run_dballoc", runner)
    monkeypatch.setattr(sys, "argv", ["published.py", "--out", str(out), *flags])
    return published.main()


def test_each_runs_by_its_verb_and_only_figures_ask_for_published(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runner = Runner()
    monkeypatch.setattr(published, "check_note", lambda *_: None)
    names = ["smalldatum-2025-innodb", "smalldatum-2025-innodb-fit", "smalldatum-2025-myrocks-80g"]
    flags = ["--bench", "--level 2s", "--fit", "--time 2s", *names]
    assert run_main(monkeypatch, runner, tmp_path, *flags) == 0
    plain, fit, larger = (str(tmp_path / name) for name in names)
    scale = ("--scale", "small")
    assert runner.calls == [
        ("bench", "--experiment", names[0], *scale, "--level", "2s", "--out", plain),
        ("report", plain, "--published"),
        ("fit", "--experiment", names[1], *scale, "--time", "2s", "--out", fit),
        ("report", fit),
        ("bench", "--experiment", names[2], *scale, "--level", "2s", "--out", larger),
        ("report", larger),
    ]


def test_what_fails_keeps_no_other_from_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A results directory without anything to read is one failure, and so is a verb's."""
    runner = Runner(fit=1)
    assert run_main(monkeypatch, runner, tmp_path) == 1
    ran = {call[2] for call in runner.calls if call[0] != "report"}
    assert ran == {shipped.name for shipped in published.list_shipped()}
    lines = capsys.readouterr().out.splitlines()
    assert "smalldatum-2025-myrocks-fit: failed" in lines
    assert "percona-2012: its results cannot be read" in lines


def test_what_cannot_run_here_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run_main(monkeypatch, Runner(bench=2, fit=2), tmp_path) == 0


def test_an_interrupted_campaign_ends_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = Runner(bench=130)
    assert run_main(monkeypatch, runner, tmp_path) == 130
    assert len(runner.calls) == 1
    assert "the same command resumes it" in capsys.readouterr().out


def compare_at_small_scale(name: str) -> tuple[list[PostComparison], str]:
    """What a shipped experiment does beside its post, on two CPUs, and its note."""
    table = experiment_file.parse_table(catalogue.experiments()[name], name)
    table = expand(fill_post(table, name))
    scaled = scale_table(table, "small", range(2), name)
    experiment = experiment_file.build_experiment(scaled, name)
    assert experiment.post is not None
    compared = compare_with_post(experiment.post, plan_setup(experiment))
    note = describe_comparisons(experiment.post, compared)
    return compared, "\n".join(list_post_lines(note))


@pytest.mark.parametrize("name", [shipped.name for shipped in published.list_shipped()])
def test_a_note_lacks_nothing_and_what_is_cut_from_it_is_missed(name: str) -> None:
    compared, note = compare_at_small_scale(name)
    assert published.list_missing(compared, note) == []
    lines = note.splitlines()
    cut = "\n".join(line for line in lines if "    - rows of a table" not in line)
    expected = ["data rows of a table"] if len(cut) < len(note) else []
    assert published.list_missing(compared, cut) == expected
