"""A results directory in which somebody has put links, pipes and files of others before it became
ours: what dballoc writes and removes stays in it.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from example_explanations import look
from example_profiles import heap
from example_recordings import simulate
from example_results import BARE_FACTS

from dballoc.campaign.results_directory import ResultsDirectory
from dballoc.document import chart_files
from dballoc.experiment.model import Experiment
from dballoc.explain.output import saved_snapshots
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.host.guardian import guardian
from dballoc.profile.contention import contention
from dballoc.profile.formats.profile_file import load_profile
from dballoc.questions.write_report import write_report_outputs
from dballoc.store.results import Results
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.trace_file.write_trace import write_trace

MakeExperiment = Callable[..., Experiment]
STRANGER = 54321
REFUSED = (UsageError, Failure)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of ours that nobody else may read, beside the results."""
    path = tmp_path / "secret"
    path.write_text("root's own")
    path.chmod(0o600)
    return path


@pytest.fixture
def keep(tmp_path: Path) -> Path:
    """A directory of ours, beside the results, with a file in it."""
    path = tmp_path / "keep"
    (path / "b001").mkdir(parents=True)
    (path / "b001" / "file").write_text("root's own")
    return path


@pytest.fixture
def results(make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(chart_files, "write_chart", lambda *_: None)
    return make("results", blocks=1)


def list_files(path: Path) -> dict[str, Any]:
    return {
        os.fspath(each.relative_to(path)): each.is_file() and each.read_bytes()
        for each in path.rglob("*")
    }


@pytest.mark.unprivileged
@pytest.mark.parametrize("name", ["report.html", "report.md", "recommendation.json"])
def test_a_report_overwrites_nothing_behind_a_link(results: Path, secret: Path, name: str) -> None:
    (results / name).symlink_to(secret)
    write_report_outputs(results)
    assert secret.read_text() == "root's own"
    assert not (results / name).is_symlink()
    assert (results / name).stat().st_size > 100


@pytest.mark.unprivileged
@pytest.mark.timeout(60)
def test_a_report_does_not_wait_for_a_pipe(results: Path) -> None:
    for name in ("report.html", "report.md"):
        os.mkfifo(results / name)
    write_report_outputs(results)
    assert (results / "report.md").is_file()


@pytest.mark.unprivileged
@pytest.mark.parametrize("name", ["csv", "charts"])
def test_a_report_writes_into_no_directory_behind_a_link(
    results: Path, keep: Path, name: str
) -> None:
    before = list_files(keep)
    (results / name).symlink_to(keep)
    with pytest.raises(REFUSED, match=f"{results / name}: is a link"):
        write_report_outputs(results)
    assert list_files(keep) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_a_report_asks_for_out_where_the_directory_is_not_ours(
    results: Path, tmp_path: Path
) -> None:
    os.chown(results, STRANGER, STRANGER)
    before = list_files(results)
    with pytest.raises(UsageError, match=f"belongs to {STRANGER}.* --out, or run: chown root: "):
        write_report_outputs(results)
    assert list_files(results) == before
    page = write_report_outputs(results, tmp_path / "out")
    assert page == tmp_path / "out" / "report.html"
    assert list_files(results) == before


@pytest.mark.unprivileged
@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_a_report_asks_for_out_where_others_may_write(results: Path, mode: int) -> None:
    results.chmod(mode)
    with pytest.raises(UsageError, match="other users may write in it: run: chmod go-w"):
        write_report_outputs(results)


@pytest.mark.unprivileged
def test_a_resume_removes_nothing_behind_linked_trials(
    tmp_path: Path, experiment: MakeExperiment, keep: Path
) -> None:
    path = tmp_path / "results"
    ResultsDirectory.acquire(path, experiment()).release()
    (path / "trials").rmdir()
    (path / "trials").symlink_to(keep)
    with pytest.raises(UsageError, match=f"{path}/trials: is a link"):
        ResultsDirectory.acquire(path, experiment()).remove_unfinished_trials(set())
    assert (keep / "b001" / "file").exists()


@pytest.mark.unprivileged
def test_a_resume_removes_nothing_behind_a_linked_trial(
    tmp_path: Path, experiment: MakeExperiment, keep: Path
) -> None:
    path = tmp_path / "results"
    directory = ResultsDirectory.acquire(path, experiment())
    for label in ("a", "b"):
        (path / "trials" / label).symlink_to(keep)
    assert directory.make_trial_directory("a").is_dir()
    directory.remove_unfinished_trials(set())
    directory.release()
    assert os.listdir(path / "trials") == []
    assert (keep / "b001" / "file").exists()


@pytest.mark.unprivileged
@pytest.mark.parametrize("name", ["lock", "experiment.toml", "results.sqlite"])
def test_a_resume_truncates_nothing_behind_a_link(
    tmp_path: Path, experiment: MakeExperiment, secret: Path, name: str
) -> None:
    path = tmp_path / "results"
    ResultsDirectory.acquire(path, experiment()).release()
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(secret)
    with pytest.raises(UsageError, match=f"{path}/{name}: is a link"):
        ResultsDirectory.acquire(path, experiment())
    assert secret.read_text() == "root's own"


@pytest.mark.unprivileged
@pytest.mark.timeout(60)
def test_a_resume_does_not_wait_for_a_pipe(tmp_path: Path, experiment: MakeExperiment) -> None:
    for name in ("lock", "experiment.toml"):
        path = tmp_path / f"r-{name}"
        path.mkdir()
        os.mkfifo(path / name)
        with pytest.raises(UsageError, match=f"{path}/{name}: not a regular file"):
            ResultsDirectory.acquire(path, experiment())


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_no_results_go_into_another_users_directory(
    tmp_path: Path, experiment: MakeExperiment
) -> None:
    path = tmp_path / "r"
    path.mkdir()
    os.chown(path, STRANGER, STRANGER)
    with pytest.raises(UsageError, match=f"chown root: {path}$"):
        ResultsDirectory.acquire(path, experiment())
    assert os.listdir(path) == []


@pytest.mark.unprivileged
@pytest.mark.parametrize("name", ["results.sqlite", "results.sqlite-journal"])
def test_no_trial_goes_into_a_database_behind_a_link(
    results: Path, tmp_path: Path, name: str
) -> None:
    """The journal, too: SQLite plays it back into the database."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes((results / "results.sqlite").read_bytes() if name.endswith("e") else b"")
    before = elsewhere.read_bytes()
    (results / name).unlink(missing_ok=True)
    (results / name).symlink_to(elsewhere)
    with pytest.raises(UsageError, match=f"{name}.* is a link"):
        Results.open(results).change_facts(ending="planned")
    assert elsewhere.read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_a_journal_in_another_users_directory_is_not_played_back(results: Path) -> None:
    """A report only reads, unless a writer was killed: SQLite would then write."""
    (results / "results.sqlite-journal").write_bytes(bytes(1024))
    os.chown(results, STRANGER, STRANGER)
    before = list_files(results)
    Results.open(results, read_only=True).close()
    assert list_files(results) == before


@pytest.mark.unprivileged
def test_a_database_is_not_made_through_a_link(tmp_path: Path, secret: Path) -> None:
    path = tmp_path / "r"
    path.mkdir()
    for name in ("results.sqlite", "results.sqlite.partial"):
        (path / name).symlink_to(secret)
    Results.create(path, BARE_FACTS, []).close()
    assert secret.read_text() == "root's own"
    assert sqlite3.connect(path / "results.sqlite").execute("SELECT 1").fetchone() == (1,)


def save_look(path: Path) -> None:
    saved_snapshots.save_snapshot(look(), path)


def save_series(path: Path) -> None:
    for first in (True, False):
        saved_snapshots.append_snapshot(look(), path, first)


def save_trace(path: Path) -> None:
    write_trace(compile_recording(simulate(calls=0).recording), path)


@pytest.mark.unprivileged
@pytest.mark.parametrize("save", [save_look, save_series, save_trace])
def test_no_file_that_the_user_names_is_written_through_a_link(
    tmp_path: Path, secret: Path, save: Callable[[Path], None]
) -> None:
    (tmp_path / "x").symlink_to(secret)
    with pytest.raises(REFUSED, match="is a link"):
        save(tmp_path / "x")
    assert secret.read_text() == "root's own"
    (tmp_path / "x").unlink()
    save(tmp_path / "x")
    assert (tmp_path / "x").stat().st_size > 100


@pytest.mark.unprivileged
def test_profiles_are_not_written_through_links(tmp_path: Path, secret: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    names = ("contention.profile.json.gz", ".contention.profile.json.gz.partial", "contention.html")
    for name in names:
        (out / name).symlink_to(secret)
    contention.save_profiles(contention.Contention("perf", heap(), None), out)
    assert secret.read_text() == "root's own"
    assert load_profile(out / names[0]) == heap()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_profiles_go_into_no_directory_of_another_user(tmp_path: Path) -> None:
    os.chown(tmp_path, STRANGER, STRANGER)
    with pytest.raises(UsageError, match=f"belongs to {STRANGER}"):
        contention.save_profiles(contention.Contention("perf", heap(), None), tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.unprivileged
@pytest.mark.timeout(60)
def test_a_childs_log_is_a_file_of_our_own(tmp_path: Path, secret: Path) -> None:
    """What a server or a client prints is written by the guardian."""
    (tmp_path / "link").symlink_to(secret)
    os.link(secret, tmp_path / "hard")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "logs").symlink_to(tmp_path)
    for name in ("link", "hard", "fifo", "logs/log"):
        with pytest.raises(OSError, match=name.partition("/")[0]):
            guardian.open_to_append(os.fspath(tmp_path / name))
    assert not (tmp_path / "log").exists()
    assert secret.read_text() == "root's own"
    for _ in range(2):
        with guardian.open_to_append(os.fspath(tmp_path / "log")) as log:
            log.write(b"1")
    assert (tmp_path / "log").read_text() == "11"
    guardian.open_to_append(os.devnull).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_no_childs_log_goes_into_another_users_directory(tmp_path: Path) -> None:
    os.chown(tmp_path, STRANGER, STRANGER)
    with pytest.raises(PermissionError):
        guardian.open_to_append(os.fspath(tmp_path / "log"))
    os.chown(tmp_path, 0, 0)
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError):
        guardian.open_to_append(os.fspath(tmp_path / "log"))


@pytest.mark.unprivileged
def test_the_raw_files_of_a_host_stay_in_their_trial(tmp_path: Path, secret: Path) -> None:
    with OutputDirectory.open(tmp_path / "trial") as trial:
        for _ in range(2):
            trial.append_below("heap/heap.txt", b"1")
        for name in ("../secret", "/etc/x", "heap/../../secret", "heap//x", ""):
            with pytest.raises(OSError, match="not the name of a file"):
                trial.append_below(name, b"2")
        with pytest.raises(NotADirectoryError):
            trial.append_below("heap/heap.txt/x", b"2")
    assert (tmp_path / "trial/heap/heap.txt").read_text() == "11"
    assert secret.read_text() == "root's own"
