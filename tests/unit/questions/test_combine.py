"""Campaigns of several hosts as one question: what is pooled, what is refused, the mean over hosts,
and the verb.
"""

import contextlib
import csv
import json
import math
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_results import build
from hypothesis import given
from hypothesis import strategies as st

from dballoc.cli.results_verbs import combine as verb
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.ratios_as_text import show_ratio
from dballoc.questions.compare.verdict import Verdict, judge_ratio
from dballoc.questions.hosts.answer import compose_headline, format_between, list_notes
from dballoc.questions.hosts.figures import FigureOverHosts, judge_over_hosts
from dballoc.questions.hosts.host_pool import (
    HostPool,
    choose_free_name,
    group_by_shared_key,
    pool_hosts,
    shorten_version,
)
from dballoc.questions.hosts.redact_hosts import redact_pool
from dballoc.questions.statistics.mean_over_hosts import compute_mean_over_hosts
from dballoc.questions.statistics.ratio_interval import Interval
from dballoc.store.results import Results

pytestmark = pytest.mark.long

MakeHost = Callable[..., Path]

# What each host does to the throughput of all but the baseline, and to the memory of tuned.
SPEEDS = {"a": 0.98, "b": 1.02, "c": 0.99, "d": 1.01}


@pytest.fixture(scope="module")
def originals(
    tmp_path_factory: pytest.TempPathFactory, experiment: Callable[..., Experiment]
) -> Callable[..., Path]:
    """``originals(rows=7)``: the results of an experiment with these keys changed, made once."""
    directory = tmp_path_factory.mktemp("originals")
    made: dict[str, Path] = {}

    def make(blocks: int = 3, faulty: tuple[str, ...] = (), **changes: Any) -> Path:
        key = repr((blocks, faulty, changes))
        if key not in made:
            usual = {"time": {"warmup": "2s", "level": "3s", "idle": "2s"}, "threads": [4]}
            chosen = experiment(**(usual | changes))
            made[key] = build(directory / str(len(made)), chosen, blocks, (), faulty)
        return made[key]

    return make


@pytest.fixture
def make_host(originals: Callable[..., Path], tmp_path: Path) -> MakeHost:
    """``make_host("a", rss=1.3, cpus=8)``: results of a host of that name, on which jemalloc's peak
    RSS is that many times the usual, and whose environment has these changes; ``of``: of what
    experiment.
    """

    def on_host(
        name: str,
        *,
        rss: float = 1.0,
        started: int = 10**9,
        sql: tuple[str, ...] = (),
        of: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Path:
        directory = tmp_path / f"on-{name}-{started}"
        shutil.copytree(originals(**(of or {})), directory)
        pairs = ", ".join(
            f"'$.{key}', {value!r}" for key, value in {"host": name, **changes}.items()
        )
        others = "(SELECT trial FROM trial WHERE variant != 'glibc')"
        speed = SPEEDS.get(name, 1.0)
        with contextlib.closing(sqlite3.connect(directory / "results.sqlite")) as store, store:
            for statement in (
                f"UPDATE campaign SET value = json_set(value, {pairs}) WHERE key = 'environment'",
                f"UPDATE campaign SET value = '{started}' WHERE key = 'started'",
                f"UPDATE trial SET rss_peak = rss_peak * {rss} WHERE variant = 'jemalloc'",
                f"UPDATE trial SET rss_peak = rss_peak * {speed} WHERE variant = 'tuned'",
                f"UPDATE step SET tps = tps * {speed} WHERE trial IN {others}",
                *sql,
            ):
                store.execute(statement)
        return directory

    return on_host


def pooled(*directories: Path, each_is_a_host: bool = False) -> HostPool:
    campaigns = [load_campaign(directory) for directory in directories]
    return pool_hosts(directories, campaigns, each_is_a_host=each_is_a_host)


def read_csv(report: Path) -> list[dict[str, str]]:
    with (report / "csv" / "hosts.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def peak_rss(pool: HostPool, variant: str = "jemalloc") -> FigureOverHosts:
    [figure] = [
        f for f in judge_over_hosts(pool) if (f.variant, f.metric.key) == (variant, "rss_peak")
    ]
    return figure


# -- the mean ----------------------------------------------------------------------------------


def test_the_mean_by_hand() -> None:
    # Means 0.1, 0.2, 0.3, 0.4: variance 1/60, error √(1/240) = 0.0645; t(3) at 95 % is 3.182.
    mean = compute_mean_over_hosts([[m - 0.01, m + 0.01] for m in (0.1, 0.2, 0.3, 0.4)], 0.95)
    assert mean.estimate == pytest.approx(math.exp(0.25))
    assert math.log(mean.low) == pytest.approx(0.25 - 3.18245 * math.sqrt(1 / 240), abs=1e-5)
    # Within: variance 2 · 0.01² of a block, half of it in a mean of two.
    assert mean.between == pytest.approx(math.sqrt(1 / 60 - 0.0001))
    reach = 3.18245 * math.sqrt(1 / 60 - 0.0001 + 1 / 240)
    assert math.log(mean.next_host.high) == pytest.approx(0.25 + reach, abs=1e-5)


logs = st.floats(-1, 1, allow_subnormal=False)
hosts = st.lists(st.lists(logs, min_size=1, max_size=5), min_size=2, max_size=8)


@given(hosts, st.randoms())
def test_the_order_of_hosts_is_nothing(of_hosts: list[list[float]], chance: Any) -> None:
    shuffled = of_hosts.copy()
    chance.shuffle(shuffled)
    one, other = (compute_mean_over_hosts(x, 0.95) for x in (of_hosts, shuffled))
    assert one.estimate == pytest.approx(other.estimate)
    assert one.between == pytest.approx(other.between, abs=1e-9)


@given(hosts)
def test_a_host_is_further_away_than_the_mean(of_hosts: list[list[float]]) -> None:
    mean = compute_mean_over_hosts(of_hosts, 0.95, fewest=2)
    assert mean.next_host.low <= mean.low <= mean.estimate <= mean.high <= mean.next_host.high


@given(hosts, st.integers(2, 4))
def test_a_host_counts_once_whatever_it_measured(of_hosts: list[list[float]], times: int) -> None:
    longer = [of_hosts[0] * times, *of_hosts[1:]]
    one, other = (compute_mean_over_hosts(x, 0.95) for x in (of_hosts, longer))
    assert one.estimate == pytest.approx(other.estimate)


def test_hosts_that_agree_by_luck_have_their_blocks_scatter_at_least() -> None:
    # s² of a block is 0.02, of a host's mean of two 0.01, of the mean of four hosts 0.0025.
    mean = compute_mean_over_hosts([[-0.1, 0.1]] * 4, 0.95)
    assert math.log(mean.high) == pytest.approx(3.18245 * 0.05, abs=1e-5)
    assert judge_ratio(mean) is Verdict.UNDECIDED
    assert mean.between == 0


def test_a_host_with_one_block_has_the_scatter_of_the_others() -> None:
    # Within: 0.02 ÷ 2, 0.02 ÷ 2 and 0.02 ÷ 1; of the means 0, 0 and 0.3 the variance is 0.03.
    mean = compute_mean_over_hosts([[-0.1, 0.1], [-0.1, 0.1], [0.3]], 0.95)
    assert mean.between == pytest.approx(math.sqrt(0.03 - 0.04 / 3))


def test_one_block_everywhere_does_not_tell_hosts_from_blocks() -> None:
    mean = compute_mean_over_hosts([[0.1], [0.2], [0.3], [0.4]], 0.95)
    assert mean.between is None
    assert format_between(mean) == "–"
    assert math.log(mean.next_host.high) == pytest.approx(
        0.25 + 3.18245 * math.sqrt(5 / 240), abs=1e-5
    )


def test_one_host_has_no_mean() -> None:
    with pytest.raises(ValueError, match="two hosts"):
        compute_mean_over_hosts([[0.1, 0.2]], 0.95)


# -- pooling -----------------------------------------------------------------------------------


def test_four_hosts_give_a_verdict(make_host: MakeHost) -> None:
    figure = peak_rss(pooled(*(make_host(n, rss=0.6 + i / 100) for i, n in enumerate("abcd"))))
    assert figure.verdict is Verdict.LOWER
    assert figure.mean
    # Of 5 %, memory has half, shared by two variants.
    assert figure.mean.confidence == pytest.approx(1 - 0.025 / 2)
    assert figure.mean.estimate == pytest.approx(0.615 * 150 / 160, rel=0.01)
    assert [f.host.name for f in figure.figures] == list("abcd")
    assert (figure.higher_on, figure.lower_on) == ((), ("a", "b", "c", "d"))


def test_three_hosts_give_none(make_host: MakeHost) -> None:
    figure = peak_rss(pooled(*(make_host(n, rss=0.6) for n in "abc")))
    assert figure.verdict is Verdict.NOT_JUDGED
    assert figure.no_verdict == "3 hosts have it, and a verdict for all takes 4"


def test_what_is_the_other_way_round_is_named(make_host: MakeHost) -> None:
    ratios = {"a": 0.5, "b": 0.5, "c": 0.5, "d": 1.5}
    pool = pooled(*(make_host(n, rss=r) for n, r in ratios.items()))
    figure = peak_rss(pool)
    assert figure.verdict is Verdict.UNDECIDED
    assert (figure.higher_on, figure.lower_on) == (("d",), ("a", "b", "c"))
    [note] = [n for n in list_notes(pool, [figure]) if "sign" in n]
    assert note == "Hosts differ in sign: jemalloc, peak RSS: higher on d; lower on a, b and c."


def test_the_baselines_faults_and_what_lacks_for_them_are_named(make_host: MakeHost) -> None:
    directories = [make_host(n, rss=0.6) for n in "abcd"]
    directories.append(make_host("e", of={"faulty": ("glibc",)}))
    pool = pooled(*directories)
    figures = judge_over_hosts(pool)
    figure = peak_rss(pool)
    assert figure.verdict is Verdict.LOWER
    assert figure.lacking == {"e": "6 of 6 trials of glibc ended in a fault"}
    assert figure.baseline_faults == {"e": (6, 6)}
    notes = list_notes(pool, figures)
    assert "e has no figure in 6 comparisons: 6 of 6 trials of glibc ended in a fault." in notes
    assert any(
        n.startswith("Trials of glibc, the baseline, ended in a fault: 6 of 6") for n in notes
    )
    assert compose_headline(pool, figures).startswith("Over 4 of 5 hosts, against glibc: ")


def test_the_headline_claims_nothing_of_what_has_no_verdict(make_host: MakeHost) -> None:
    directories = [make_host(n) for n in "abc"]
    directories.append(make_host("d", of={"faulty": ("jemalloc", "tuned")}))
    pool = pooled(*directories)
    headline = compose_headline(pool, judge_over_hosts(pool))
    assert "differ" not in headline
    assert headline.startswith(
        "No verdict on jemalloc, oltp_read_only, transactions per second at 4 clients and peak "
        "RSS: trials ended in a fault: 3 of 3 on d; tuned, "
    )
    directories[3] = make_host("e", of={"faulty": ("tuned",)})
    pool = pooled(*directories)
    noisy = [figure for figure in judge_over_hosts(pool) if figure.metric.measure.name == "tps"]
    headline = compose_headline(pool, noisy)
    assert headline.startswith(
        "Over 4 hosts no variant is shown to differ from glibc in what was judged. No verdict on "
        "tuned, oltp_read_only, "
    )


def test_a_headline_of_nothing_that_is_judged(make_host: MakeHost) -> None:
    assert compose_headline(pooled(*map(make_host, "abcd")), []) == (
        "4 hosts: nothing that is judged is on all."
    )


def test_a_sign_is_a_hosts_only_if_it_is_shown_among_all(make_host: MakeHost) -> None:
    figure = peak_rss(pooled(*(make_host(n, rss=0.6 + i / 100) for i, n in enumerate("abcd"))))
    for of_host in figure.figures:
        assert of_host.ratio.confidence == 0.95
        assert of_host.among_all.confidence == pytest.approx(1 - 0.05 / 4)
        assert of_host.among_all.low < of_host.ratio.low
    edge = replace(
        figure.figures[0], ratio=replace(figure.figures[0].ratio, interval=Interval(1.1, 1.2))
    )
    assert replace(figure, figures=(edge,)).higher_on == ()


def test_a_kind_is_shown_in_every_output(
    make_host: MakeHost,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one of a single host."""
    monkeypatch.setenv("COLUMNS", "160")
    directories = [*(make_host(n, rss=0.5) for n in "abc"), make_host("d", rss=0.9, cpus=64)]
    verb.combine(directories, out=tmp_path / "report")
    printed = " ".join(capsys.readouterr().out.split())
    kinds = peak_rss(pooled(*directories)).kinds
    report = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    labels = "3 hosts: a CPU, 2 CPUs, ", "1 host: a CPU, 64 CPUs, "
    for mean, label in zip(kinds.values(), labels, strict=True):
        text = show_ratio(mean)
        assert "[" in text
        for output in (printed, report.replace("\\", "")):
            assert label in output
            assert text in output
    rows = [
        (row["kind"], row["hosts"], float(row["low"]))
        for row in read_csv(tmp_path / "report")
        if (row["metric"], row["variant"], row["host"]) == ("rss_peak", "jemalloc", "")
    ]
    assert rows[:2] == [(kind, str(mean.hosts), mean.low) for kind, mean in kinds.items()]
    answer = json.loads((tmp_path / "report" / "combined.json").read_text(encoding="utf-8"))
    [peak] = [
        f for f in answer["figures"] if (f["variant"], f["metric"]) == ("jemalloc", "rss_peak")
    ]
    assert {kind: of_kind["high"] for kind, of_kind in peak["kinds"].items()} == {
        kind: mean.high for kind, mean in kinds.items()
    }


def test_under_four_hosts_nothing_has_an_interval_over_all(
    make_host: MakeHost, tmp_path: Path
) -> None:
    """What is descriptive neither."""
    verb.combine([make_host(n, kernel=n) for n in "ab"], out=tmp_path / "report")
    rows = read_csv(tmp_path / "report")
    assert "rss_idle" in {row["metric"] for row in rows}
    assert all(bool(row["low"]) == bool(row["host"]) for row in rows)
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert '"over hosts"' not in page


def test_two_campaigns_of_a_machine_are_one_host(make_host: MakeHost) -> None:
    first = make_host("a")
    second = make_host("a", started=2 * 10**9)
    pool = pooled(first, second, make_host("b"))
    assert [(h.name, len(h.campaigns)) for h in pool.hosts] == [("a", 2), ("b", 1)]
    apart = pooled(first, second, make_host("c"), each_is_a_host=True)
    assert [h.name for h in apart.hosts] == ["a", "a (2)", "c"]


def test_containers_of_a_machine_are_one_host(make_host: MakeHost) -> None:
    directories = [make_host(name, boot_id="b") for name in "ab"] + [make_host("c", boot_id="c")]
    assert [(h.name, len(h.campaigns)) for h in pooled(*directories).hosts] == [("a", 2), ("c", 1)]
    apart = pooled(*directories, each_is_a_host=True)
    assert [h.name for h in apart.hosts] == ["a", "b", "c"]
    assert apart.alike == ()


def test_hosts_that_may_be_one_machine_are_named(make_host: MakeHost) -> None:
    alike = [make_host(name) for name in "ab"]
    pool = pooled(*alike, make_host("c", kernel="6.8"))
    assert pool.alike == (("a", "b"),)
    assert any(note.startswith("a and b differ in nothing but") for note in list_notes(pool, []))
    assert pooled(*(make_host(name, boot_id=name) for name in "de")).alike == ()


def test_sets_with_a_key_in_common_are_one_group() -> None:
    keys = [{"x"}, {"y"}, {"z"}, {"y", "x"}, {"z"}]
    assert group_by_shared_key([set(key) for key in keys]) == [[0, 1, 3], [2, 4]]
    assert group_by_shared_key([]) == []


def test_a_name_that_is_used_gets_the_first_free_number(make_host: MakeHost) -> None:
    assert choose_free_name("a", {"a", "a (2)"}) == "a (3)"
    directories = [make_host("a"), make_host("a (2)"), make_host("a", started=2 * 10**9)]
    hosts = pooled(*directories, each_is_a_host=True).hosts
    assert [host.name for host in hosts] == ["a", "a (2)", "a (3)"]


def test_a_host_without_a_name_goes_by_its_directory(make_host: MakeHost) -> None:
    nameless = "UPDATE campaign SET value = json_remove(value, '$.host') WHERE key = 'environment'"
    directory = make_host("db2", sql=(nameless,))
    pool = pooled(make_host("db1"), directory)
    assert [host.name for host in pool.hosts] == ["db1", directory.name]
    assert [host.name for host in redact_pool(pool).hosts] == ["HOST", "DIR 2"]


def test_what_differs_is_listed_and_versions_are_pooled(make_host: MakeHost) -> None:
    newer = (
        "UPDATE variant SET server = 'MariaDB 10.11.9', server_version = '10.11.9'",
        "UPDATE variant SET allocator_version = '2' WHERE name = 'jemalloc'",
        "UPDATE variant SET libraries = '[]' WHERE name = 'tuned'",
        "UPDATE campaign SET value = '1.1' WHERE key = 'sysbench'",
    )
    pool = pooled(make_host("a", kernel="6.1"), make_host("b", kernel="6.8", sql=newer))
    differences = dict(pool.differences)
    assert differences["kernel"] == {"a": "6.1", "b": "6.8"}
    assert differences["allocator of jemalloc"] == {"a": "jemalloc 1", "b": "jemalloc 2"}
    assert differences["sysbench"] == {"a": "1.0.20", "b": "1.1"}
    assert differences["preloaded for tuned"] == {"a": "lib.so", "b": "nothing"}
    [note] = [n for n in list_notes(pool, judge_over_hosts(pool)) if n.startswith("Versions")]
    assert note == (
        "Versions of the allocator of jemalloc differ: jemalloc 1 on a; jemalloc 2 on b."
    )
    assert differences["server of glibc"]["b"] == "MariaDB 10.11.9 (10.11.9)"
    assert pool.variants == ("glibc", "jemalloc", "tuned")
    assert pool.left_out == ()


@pytest.mark.parametrize(
    ("sql", "how", "reason"),
    [
        ((), {"data": {"rows": 7}}, "rows: "),
        (("UPDATE variant SET server = 'MySQL 8.0.40'",), {}, "the baseline is another: server: "),
        (("UPDATE variant SET allocator = 'x' WHERE name = 'glibc'",), {}, "the baseline is anoth"),
        ((), {"baseline": "jemalloc"}, "baseline: glibc against jemalloc"),
        (
            (),
            {"server": {"glibc": "2.39"}},
            "the baseline is another: C library: none against 2.39",
        ),
    ],
)
def test_another_question_is_refused(
    make_host: MakeHost, sql: tuple[str, ...], how: dict[str, Any], reason: str
) -> None:
    first, second = make_host("a"), make_host("b", sql=sql, of=how)
    with pytest.raises(UsageError, match=reason) as refusal:
        pooled(first, second)
    assert str(refusal.value).startswith(f"{second} cannot be pooled with {first}: ")


OTHER_LOADS: list[tuple[dict[str, Any], str]] = [
    ({"workloads": ["oltp_write_only"]}, "it has no workload oltp_read_only"),
    ({"threads": [8]}, "clients at the highest level: 4 against 8"),
]


@pytest.mark.parametrize(("load", "reason"), OTHER_LOADS)
def test_a_campaign_of_another_load_is_refused(
    make_host: MakeHost, load: dict[str, Any], reason: str
) -> None:
    usual, other = [make_host(n) for n in "abcd"], make_host("e", of=load)
    with pytest.raises(UsageError, match=reason) as refusal:
        pooled(*usual, other)
    assert str(refusal.value).startswith(f"{other} cannot be pooled with {usual[0]}: ")
    assert str(refusal.value).endswith("; leave it out")
    with pytest.raises(UsageError) as refusal:
        pooled(other, *usual)
    assert f"; nor can any of the others; leave {other} out" in str(refusal.value)
    further = make_host("f", of=load)
    with pytest.raises(UsageError, match=f"; nor can {further}; leave them out"):
        pooled(*usual, other, further)


def test_metrics_that_others_have_not_are_named(make_host: MakeHost) -> None:
    both = {"workloads": ["oltp_read_only", "oltp_write_only"]}
    one, others = make_host("a"), [make_host(n, of=both) for n in "bcd"]
    title = "oltp_write_only, transactions per second at 4 clients"
    exclusions = {(x.part, x.directory): x.reason for x in pooled(*others, one).left_out}
    assert exclusions[title, one].endswith("it has no workload oltp_write_only")
    exclusions = {(x.part, x.directory): x.reason for x in pooled(one, *others).left_out}
    assert {exclusions[title, other] for other in others} == {
        "not in the first results, which say what is compared"
    }


def test_other_cpus_are_another_variant_and_others_of_as_many_are_listed(
    make_host: MakeHost,
) -> None:
    on = [
        make_host(name, of={"cpu": {"server": server, "client": "9"}})
        for name, server in (("a", "0-3"), ("b", "4-7"), ("c", "0-1"))
    ]
    assert dict(pooled(*on[:2]).differences)["CPUs of glibc"] == {
        "a": "client=9 server=0-3",
        "b": "client=9 server=4-7",
    }
    reason = "numbers of CPUs: client=1 server=4 against client=1 server=2"
    with pytest.raises(UsageError, match=reason):
        pooled(on[0], on[2])


def test_a_duet_with_another_estimate_is_not_pooled(make_host: MakeHost) -> None:
    usual = {"design": "both"}
    paired = usual | {"duet": {"estimate": "paired"}}
    pool = pooled(*(make_host(n, of=usual) for n in "abcd"), make_host("e", of=paired))
    [exclusion] = pool.left_out
    assert exclusion.part == "oltp_read_only, server CPU per transaction at half width"
    assert exclusion.reason == "the duet's estimate: middle against paired"


def test_the_same_campaign_twice_is_refused(make_host: MakeHost) -> None:
    one = make_host("a")
    with pytest.raises(UsageError, match="are the same campaign; give it once"):
        pooled(one, one)


def test_a_campaign_without_a_block_is_refused(make_host: MakeHost) -> None:
    with pytest.raises(UsageError, match="no block is finished yet"):
        pooled(make_host("a"), make_host("b", of={"blocks": 0}))


def test_memory_of_other_durations_is_left_out(make_host: MakeHost) -> None:
    longer = {"time": {"warmup": "2s", "level": "9s", "idle": "2s"}}
    pool = pooled(*(make_host(n) for n in "abcd"), make_host("e", of=longer))
    assert len(peak_rss(pool).figures) == 4
    [exclusion] = pool.left_out
    assert exclusion.part == "peak RSS; idle RSS after the load"
    assert exclusion.reason == "level, s: 3.0 against 9.0"
    [tps] = [
        f
        for f in judge_over_hosts(pool)
        if f.metric.measure.name == "tps" and f.variant == "jemalloc"
    ]
    assert len(tps.figures) == 5


@pytest.mark.parametrize(
    ("server", "series"),
    [
        ("MariaDB 10.11.19", "MariaDB 10.11"),
        ("MySQL 8.0.40", "MySQL 8.0"),
        ("MySQL 8.4", "MySQL 8.4"),
        ("mine", "mine"),
    ],
)
def test_a_servers_series(server: str, series: str) -> None:
    assert shorten_version(server) == series


# -- the verb ----------------------------------------------------------------------------------


def test_the_verb(make_host: MakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    ratios = {"a": 0.6, "b": 0.61, "c": 0.62, "d": 0.63}
    directories = [make_host(n, rss=r, kernel=n) for n, r in ratios.items()]
    verb.combine(directories)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("Over 4 hosts, against glibc: jemalloc: peak RSS lower (0.57")
    assert "In what they differ what a b c d kernel a b c d" in printed
    assert "every host with the same weight" in printed
    verb.combine(directories, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert [host["host"] for host in answer["hosts"]] == list("abcd")
    [peak] = [
        f for f in answer["figures"] if (f["variant"], f["metric"]) == ("jemalloc", "rss_peak")
    ]
    assert peak["verdict"] == "lower"
    assert peak["low"] < peak["ratio"] < peak["high"] < 1
    assert peak["next_host"][0] < peak["low"]
    assert len(peak["hosts"]) == 4


def test_the_verb_with_two_hosts_shows_each(
    make_host: MakeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.combine([make_host("a", rss=0.6), make_host("b", rss=0.6)])
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("2 hosts: no verdict for all hosts, which takes 4.")
    assert "no verdict: 2 hosts have it" in printed
    assert "lower" in printed  # each host's own


def test_no_host_and_no_directory_is_named_in_what_is_redacted(
    make_host: MakeHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ("UPDATE variant SET thp = 'always' WHERE name = 'tuned'",)
    directories = [make_host("dbhost1", sql=other), make_host("dbhost2")]
    verb.combine(directories, redact=True, as_json=True, out=tmp_path / "report")
    texts = [capsys.readouterr().out] + [
        path.read_text(encoding="utf-8")
        for path in (tmp_path / "report").rglob("*")
        if path.suffix in (".html", ".md", ".csv", ".svg", ".json")
    ]
    assert len(texts) > 5
    assert not any("dbhost" in text for text in texts)
    answer = json.loads(texts[0])
    assert [host["directories"] for host in answer["hosts"]] == [["DIR 1"], ["DIR 2"]]
    assert answer["left_out"] == ["variant tuned of DIR 2: THP: always against none"]


def test_rows_of_every_second_are_not_read(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    table = Results.table

    def note(results: Results, name: str, most: int | None = None) -> list[tuple]:
        read.append(name)
        return table(results, name, most)

    monkeypatch.setattr(Results, "table", note)
    verb.combine([make_host("a"), make_host("b")], as_json=True)
    assert "trial" in read
    assert not {"sample", "interval", "histogram", "host_sample"} & set(read)


def test_nonsense_is_one_line(make_host: MakeHost) -> None:
    first, second = make_host("a"), make_host("a", started=2 * 10**9)
    with pytest.raises(UsageError, match="two results directories or more"):
        verb.combine([first])
    with pytest.raises(UsageError, match="all results are of one host, a; if these are several"):
        verb.combine([first, second])
