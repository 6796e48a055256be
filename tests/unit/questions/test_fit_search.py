"""``dballoc fit`` without a server: its experiment, its plan, its results in words, tables and
files.
"""

import dataclasses
import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_posts import cite
from example_results import facts, variant
from rich.console import Console

from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.campaign.replay.first_cache_sizes import find_other_memory
from dballoc.campaign.ways import fit as campaign
from dballoc.cli.search_verbs import fit as verb
from dballoc.cli.shared import experiment_from_flags
from dballoc.document.terminal import print_document
from dballoc.experiment import cache_size_search, experiment_file
from dballoc.experiment.model import Experiment, Server
from dballoc.experiment.schedule import Slot
from dballoc.ground.errors import UsageError
from dballoc.questions.compare import campaign_tables as campaigns
from dballoc.questions.fit import answer as said
from dballoc.questions.fit import figures
from dballoc.questions.write_report import gather_document, write_report_outputs
from dballoc.store.replay_facts import RecordedMark
from dballoc.store.results import Results, TrialRecord
from dballoc.store.rows import MeasuredTrial, ProbeRow, StepRow

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import published

MIB = 2**20
# 120 and 60 MiB beside the pool, in 512.
BESIDE = {"glibc": 120, "jemalloc": 60}


def model(**changes: Any) -> Experiment:
    given = {"limits.memory": "512M", "fit.tolerance": "16M", **changes}
    return experiment_from_flags.experiment(None, "fit", given)


def trial(size: int, beside: int, memory: int) -> TrialRecord:
    need = size + beside * MIB
    row = MeasuredTrial(started=1.0, ended=2.0, seconds_planned=1.0, exit_status=0, rss_peak=need)
    if need > memory:
        row = replace(
            row,
            outcome="fault",
            fault="oom",
            fault_text="the kernel killed it",
            exit_status=-9,
            log_tail="<b>",
            rss_peak=memory - MIB,
        )
    found = TrialRecord(trial=row, rows=[ProbeRow(asked=size, pool_bytes=size)])
    if need <= memory:
        found.rows.append(
            StepRow(
                step=1,
                kind="level",
                workload="oltp_read_write",
                threads=32,
                t=0.0,
                seconds=1.0,
                tps=100.0,
            )
        )
    return found


@pytest.fixture
def fitted(tmp_path: Path):
    """``fitted(rounds=…, **changes)``: results as a campaign would leave them, until every search
    is over.
    """

    def make(rounds: int = 99, beside: dict[str, int] = BESIDE, **changes: Any) -> Path:
        chosen = model(**changes)
        of = cache_size_search.derive_range(chosen)
        out = tmp_path / "r"
        out.mkdir()
        names = {v.name: "innodb-buffer-pool-size" for v in chosen.variant}
        known = replace(facts(chosen, 1, ["solo"]), kind="fit", options=names, ending="planned")
        results = Results.create(
            out, known, [replace(variant(name), pool_bytes=None) for name in names]
        )
        seen: dict[str, list[cache_size_search.Trial]] = {name: [] for name in names}
        for number in range(1, rounds + 1):
            for position, name in enumerate(names, 1):
                if (size := cache_size_search.compute_state(of, seen[name]).next) is None:
                    continue
                record = trial(size, beside[name], of.memory)
                results.add_trial(
                    Slot(block=number, attempt=0, position=position, variant=name, role="V"), record
                )
                outcome = "survived" if record.trial.outcome == "ok" else "killed"
                seen[name].append(cache_size_search.Trial(size, outcome, record.trial.rss_peak))
        results.close()
        return out

    return make


def test_the_answer(fitted) -> None:
    found = figures.load_fits(fitted())
    glibc, jemalloc = found.fitted
    assert (glibc.largest, glibc.killed) == (384 * MIB, 400 * MIB)
    assert (jemalloc.largest, jemalloc.killed) == (448 * MIB, 464 * MIB)
    assert glibc.peak == 504 * MIB
    assert glibc.ratio == pytest.approx(504 / 384)
    assert glibc.last == 511 * MIB
    assert glibc.tps == 100.0
    answer = said.answer_fit(found)
    assert answer.headline == (
        "With 512 MiB for the server, innodb_buffer_pool_size survives up to 448M under jemalloc and 384M under glibc"
    )
    assert (
        answer.reason
        == "Each survived 2 trials without an OOM kill, and the next size, 16M more, was killed. "
        "That shows, with 95 % confidence, that at least 22 % of such trials survive; --repeats 14 "
        "shows 80 %."
    )
    assert answer.variants[0].text == (
        "innodb_buffer_pool_size = 384M: peak RSS 504 MiB, 1.31 times the cache; 400M was killed, at 511 MiB of RSS"
    )


def print_experiment(capsys: pytest.CaptureFixture, **arguments: Any) -> Experiment:
    """The experiment that ``dballoc fit --print`` shows."""
    verb.fit(**arguments, print_=True)
    return experiment_file.build_experiment(tomllib.loads(capsys.readouterr().out), "printed")


def test_a_shipped_experiment_by_name_and_smaller(capsys: pytest.CaptureFixture) -> None:
    name = "smalldatum-2025-myrocks-fit"
    small = print_experiment(capsys, named=name, scale="small", fit_tolerance="8M")
    assert (small.name, small.data.rows) == (name, 250_000)
    assert small.limits.memory == (614 + 512) * MIB
    assert (small.fit.start, small.fit.tolerance) == (205 * MIB, 8 * MIB)
    assert print_experiment(capsys).name == "fit"


def test_of_file_and_name_there_is_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give an experiment file or --experiment NAME, not both"):
        verb.fit(experiment=tmp_path / "x.toml", named="fit", print_=True)
    with pytest.raises(UsageError, match="experiment fit: --scale small needs the key small"):
        verb.fit(scale="small", print_=True)
    with pytest.raises(UsageError, match="--scale: '' is neither small nor a number"):
        verb.fit(scale="", print_=True)


def test_every_kind_of_end(fitted) -> None:
    # Nothing fits beside glibc's 600 MiB; jemalloc's server takes nothing at all, so the cache
    # cannot have been filled.
    out = fitted(beside={"glibc": 600, "jemalloc": 0})
    glibc, jemalloc = (found := figures.load_fits(out)).fitted
    assert glibc.state.why == "none"
    assert said.advise(glibc) == "nothing survives: even 16M was killed, at 511 MiB of RSS"
    assert jemalloc.state.why == "all"
    assert said.advise(jemalloc).endswith("no larger size was tried: it is all the memory")
    assert said.answer_fit(found).headline.endswith("survives up to 512M under jemalloc")
    assert (
        said.answer_fit(found).reason
        == "Every size that survived did so in 2 trials without an OOM kill; not every search found "
        "the limit. That shows, with 95 % confidence, that at least 22 % of such trials survive; "
        "--repeats 14 shows 80 %."
    )
    assert said.describe_fits(found)["variants"][0]["largest"] is None


def test_a_cache_that_was_not_filled_is_said(fitted) -> None:
    found = figures.load_fits(fitted(beside={"glibc": 60, "jemalloc": -200}))
    assert [f.filled for f in found.fitted] == [True, False]
    assert said.list_notes(found)[0].startswith("The load did not fill the cache under jemalloc: ")


@pytest.mark.parametrize("own", [{}, {"server.options": {"innodb-buffer-pool-size": "410M"}}])
def test_what_differs_from_a_post_is_said(fitted, own: dict[str, Any]) -> None:
    post = {
        "source": "somebody",
        "options": {"innodb_buffer_pool_size": "80G"},
        "states": {"sequence, repeats": "each variant once"},
    }
    out = fitted(post=cite(post), **own)
    note = said.answer_fit(figures.load_fits(out)).post
    assert note is not None
    lines = {topic.name: topic.lines for topic in note.topics}
    assert lines["options"][0] == (
        "innodb_buffer_pool_size: the post: 80G; here: what the search tries"
    )
    assert lines["sequence"] == [
        "repeats: the post: each variant once; here: as many blocks as it takes"
    ]
    # The benchmark of the published comparisons reads such results too.
    write_report_outputs(out, out)
    assert published.check_note("fit", out, 0.0) is None


def test_a_search_that_is_not_over(fitted) -> None:
    found = figures.load_fits(fitted(rounds=1))
    assert not found.over
    assert (
        said.answer_fit(found).reason
        == "The search is not over; run the same command to resume it."
    )
    assert said.tabulate_sizes(found).rows[0][-1] == "not over yet"


def test_the_report(fitted, capsys: pytest.CaptureFixture) -> None:
    out = fitted()
    page = write_report_outputs(out)
    text = page.read_text()
    assert "survives up to 448M under jemalloc" in text
    assert "&lt;b&gt;" in text, "a log's end is text"
    assert json.loads((out / "fit.json").read_text())["variants"][1]["largest"] == 448 * MIB
    assert (out / "csv/fit.csv").read_text().startswith("variant,option,largest,smallest_killed,")
    assert (out / "charts/fit.svg").exists()
    markdown = (out / "report.md").read_text()
    assert "| glibc | 384M | 400M | 504.0 | 1.31 | 511.0 | 100 |" in markdown
    print_document(Console(width=200), gather_document(out))
    assert "384M" in capsys.readouterr().out
    redacted = write_report_outputs(out, out / "redacted", redact=True)
    assert "jane" not in redacted.read_text()


def test_other_verbs_leave_a_fit_alone(fitted) -> None:
    out = fitted()
    with pytest.raises(UsageError, match="results of dballoc fit; dballoc report shows them"):
        campaigns.load_campaign(out)


def test_a_fit_leaves_other_results_alone(make) -> None:
    with pytest.raises(
        UsageError, match="these are not results of dballoc fit; choose a new --out"
    ):
        figures.load_fits(make("a", blocks=1))


def test_a_directory_without_a_trial(fitted) -> None:
    with pytest.raises(UsageError, match="no trial is finished yet; run dballoc fit first"):
        figures.load_fits(fitted(rounds=0))


# -- the experiment ------------------------------------------------------------------------------------------------------


def test_the_range_of_an_experiment() -> None:
    assert cache_size_search.derive_range(model()) == cache_size_search.SizeRange(
        memory=512 * MIB, tolerance=16 * MIB, start=256 * MIB, repeats=2
    )
    plain = experiment_from_flags.experiment(
        None, "fit", {"limits.memory": "2G", "fit.start": "1500M", "fit.repeats": 3}
    )
    assert cache_size_search.derive_range(plain) == cache_size_search.SizeRange(
        memory=2048 * MIB, tolerance=40 * MIB, start=1500 * MIB, repeats=3
    )
    tiny = experiment_from_flags.experiment(None, "fit", {"limits.memory": "20M"})
    assert cache_size_search.derive_range(tiny).tolerance == MIB


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"limits.memory": None}, r"^fit: the server's memory limit is missing; give --memory SIZE, or limits.memory in the file$"),
        ({"fit.tolerance": "300M"}, r"^fit.tolerance: 300M is more than half of the memory limit, 512M; lower it, or leave it out$"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched(changes, line) -> None:
    chosen = model(**changes)
    if changes.get("limits.memory", "") is None:
        chosen = chosen.model_copy(update={"limits": type(chosen.limits)()})
    with pytest.raises(UsageError, match=line):
        campaign.prepare_fit(chosen)


@pytest.mark.parametrize(
    ("key", "value"), [("fit.repeats", 0), ("fit.tolerance", "1K"), ("fit.start", "1")]
)
def test_values_that_make_no_sense_are_one_line(key, value) -> None:
    with pytest.raises(UsageError, match=rf"^command line: {key}: "):
        experiment_from_flags.experiment(None, None, {"limits.memory": "512M", key: value})


# -- a trial's server ----------------------------------------------------------------------------------------------------


def prepared(engine: str, **more: str) -> PreparedVariant:
    nothing: Any = None
    known = {f.name: nothing for f in dataclasses.fields(PreparedVariant)}
    return PreparedVariant(
        **{**known, "server": Server(engine=engine), "options": {"max-connections": "151", **more}}
    )


def test_a_trace_gives_the_start_and_is_known_by_what_it_holds(tmp_path: Path) -> None:
    guess = {"trace": "/a/oltp.trace", "sha256": "ab" * 32}
    chosen = model(**{"fit.guess": guess})
    assert cache_size_search.derive_range(chosen).is_near
    identity = experiment_file.compute_identity
    elsewhere = model(**{"fit.guess": guess | {"trace": "/b/x"}})
    assert identity(chosen) == identity(elsewhere)
    assert identity(chosen) != identity(model(**{"fit.guess": guess | {"sha256": "cd" * 32}}))
    assert identity(chosen) != identity(model())
    text = experiment_file.format_experiment(chosen)
    again = experiment_file.build_experiment(experiment_file.parse_table(text, "x"), "x")
    assert identity(again) == identity(chosen)
    with pytest.raises(UsageError, match="give either start or guess"):
        model(**{"fit.guess": guess, "fit.start": "1G"})
    path = tmp_path / "a.trace"
    path.write_bytes(b"a trace")
    named = experiment_from_flags.name_trace(path)
    assert named["trace"] == str(path)
    assert len(named["sha256"]) == 64


def test_what_a_server_holds_beside_heap_and_cache() -> None:
    def mark(**truth: int) -> RecordedMark:
        return RecordedMark(t=1.0, name="x", truth={k: v * MIB for k, v in truth.items()})

    full = mark(rss=300, heap=80, pool=180)
    assert find_other_memory([full, mark(rss=200, heap=50, pool=180)]) == 40 * MIB
    # A cache that was never full tells nothing of the rest; but it was measured.
    assert find_other_memory([mark(rss=200, heap=50, pool=180)]) == 0
    assert find_other_memory([mark(rss=200, heap=50)]) is None
    assert find_other_memory([]) is None


def test_a_size_becomes_the_engines_option() -> None:
    of = cache_size_search.SizeRange(
        memory=2048 * MIB, tolerance=40 * MIB, start=1024 * MIB, repeats=2
    )
    found = campaign.set_cache_size(
        prepared("innodb", **{"innodb-buffer-pool-size": "1G"}), of, 640 * MIB
    )
    assert found.options == {
        "max-connections": "151", "innodb-buffer-pool-size": str(640 * MIB),
        "loose-innodb-buffer-pool-chunk-size": str(5 * MIB),
    }  # fmt: skip
    assert found.pool_bytes == 640 * MIB
    rocks = campaign.set_cache_size(prepared("rocksdb"), of, 640 * MIB)
    assert rocks.options == {"max-connections": "151", "rocksdb-block-cache-size": str(640 * MIB)}


def test_the_users_own_chunks_stay() -> None:
    of = cache_size_search.SizeRange(
        memory=2048 * MIB, tolerance=40 * MIB, start=1024 * MIB, repeats=2
    )
    found = campaign.set_cache_size(
        prepared("innodb", **{"innodb-buffer-pool-chunk-size": "2M"}), of, 640 * MIB
    )
    assert "loose-innodb-buffer-pool-chunk-size" not in found.options
