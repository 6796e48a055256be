"""A campaign on several hosts is split into theirs, and judged over them."""

import contextlib
import json
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
import pytest
from simulated_hosts import SimulatedHosts, run

from dballoc.cli.results_verbs import combine as verb
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.numbers import listing
from dballoc.questions.campaign.answer.compose_answer import compose_notes
from dballoc.questions.campaign.answer.settling_time import measure_paces
from dballoc.questions.campaign.sections import machine_and_variants
from dballoc.questions.campaign.sections.shared_sections import CLIENTS_APART, describe_method
from dballoc.questions.compare.answer_words import measure_progress
from dballoc.questions.compare.baseline_comparison import compare_with_baseline, declare_procedures
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign
from dballoc.questions.compare.comparability import Comparability, pair_campaigns
from dballoc.questions.compare.split_by_host import count_lost_hosts, find_own_name, split_by_host
from dballoc.questions.compare.verdict import Verdict
from dballoc.questions.diff.answer import Side
from dballoc.questions.hosts import host_pool
from dballoc.questions.hosts.answer import compose_headline, describe_verdicts
from dballoc.questions.hosts.figures import judge_over_hosts
from dballoc.questions.hosts.host_pool import Exclusion, HostPool, pool_hosts
from dballoc.questions.hosts.redact_hosts import redact_pool
from dballoc.questions.redact import redact_campaign
from dballoc.questions.write_report import write_report_outputs

pytestmark = pytest.mark.long

MakeExperiment = Callable[..., Experiment]


@pytest.fixture(scope="module")
def results(experiment: MakeExperiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six blocks on five hosts, after one was lost in a trial of "tuned"."""
    losses = iter([True])
    hosts = SimulatedHosts(
        names=list("abcde"),
        lose=lambda draw, variant: variant == "tuned" and next(losses, False),
    )
    place = tmp_path_factory.mktemp("hosts") / "r"
    return run(experiment(design="solo", blocks=6), hosts, place)[1]


def test_every_host_has_its_own_blocks(results: Path) -> None:
    campaign = load_campaign(results)
    parts = split_by_host(campaign)
    assert sum(part.blocks("solo") for part in parts) == campaign.blocks("solo") == 6
    names = [part.environment.host for part in parts]
    assert names == sorted(set(names))
    for part in parts:
        placed = campaign.placement.filter(host=part.environment.host)
        assert set(part.trial["block"]) <= set(placed["block"])


def test_the_report_and_a_comparison_tell_the_hosts_and_not_the_drivers_machine(
    results: Path,
) -> None:
    campaign = load_campaign(results)
    placed = sorted(set(campaign.placement["host"]))
    [alike] = machine_and_variants.tabulate_hosts(campaign).rows
    assert alike[0] == listing(placed)
    driver = machine_and_variants.tabulate_environment(campaign)
    assert (driver.title, driver.rows[0][0]) == ("Driver and tools", "driver")
    assert Side(results, campaign).words.endswith(f" on {len(placed)} hosts")
    assert pair_campaigns(campaign, campaign).machine == []
    other = campaign.host.with_columns(
        environment=pl.when(pl.col("host") == placed[0])
        .then(pl.lit(json.dumps(asdict(campaign.environment) | {"cpu": "another CPU"})))
        .otherwise("environment")
    )
    changed = replace(campaign, host=other)
    assert len(machine_and_variants.tabulate_hosts(changed).rows) == 2
    [cpus] = [t for t in pair_campaigns(campaign, changed).machine if t.startswith("cpu: ")]
    assert " or another CPU" in cpus or "another CPU or " in cpus


def test_hosts_at_once_are_reckoned_with_where_more_time_is_named(results: Path) -> None:
    campaign = load_campaign(results)
    rows, hosts = campaign.block, len(split_by_host(campaign))
    seconds = float((rows["ended"] - rows["started"]).sum()) / 6
    pace = measure_paces(campaign)["solo"]
    assert (pace.seconds, pace.hosts) == (pytest.approx(seconds), hosts)
    # A block more than there are hosts has to wait for one of them.
    assert pace.estimate_seconds(hosts) == pytest.approx(seconds)
    assert pace.estimate_seconds(hosts + 1) == pytest.approx(2 * seconds)


def test_what_a_lost_attempt_measured_counts_nowhere(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    """Not even while its block was not drawn again."""
    hosts = SimulatedHosts(names=["a", "b"], lose=lambda draw, variant: variant == "tuned")
    with pytest.raises(Failure, match="no host is left"):
        run(experiment(design="solo", blocks=2), hosts, tmp_path / "r")
    campaign = load_campaign(tmp_path / "r")
    assert campaign.trial.filter(outcome="ok").height
    assert campaign.trial.filter(fault="host lost").height == 2
    assert not campaign.trial["counted"].any()


def test_hosts_of_one_kernel_are_one_host(experiment: MakeExperiment, tmp_path: Path) -> None:
    hosts = SimulatedHosts(names=["a", "b", "c"], kernels=1)
    _, path = run(experiment(design="solo", blocks=3), hosts, tmp_path / "r")
    parts = split_by_host(load_campaign(path))
    assert [part.blocks("solo") for part in parts] == [3]


def test_the_method_says_where_the_clients_were(results: Path) -> None:
    campaign = load_campaign(results)
    procedures = compare_with_baseline(campaign).procedures
    together = describe_method(campaign, procedures, "")
    campaign = replace(campaign, facts=replace(campaign.facts, clients="apart"))
    apart = describe_method(campaign, procedures, "")
    assert CLIENTS_APART not in together
    assert "the clients included" in " ".join(together)
    assert CLIENTS_APART in apart
    assert "the clients included" not in " ".join(apart)


def test_a_campaign_on_one_host_stays_as_it_is(make: Callable[..., Path]) -> None:
    campaign = load_campaign(make("a", threads=[1]))
    assert split_by_host(campaign) == [campaign]
    assert count_lost_hosts(campaign) == []


def run_on(experiment: MakeExperiment, out: Path, names: list[str], blocks: int = 4) -> Path:
    hosts = SimulatedHosts(names=names)
    return run(experiment(design="solo", blocks=blocks, threads=[4]), hosts, out)[1]


def pool_parts(*directories: Path) -> HostPool:
    parts = [(d, part) for d in directories for part in split_by_host(load_campaign(d))]
    return pool_hosts([d for d, _ in parts], [part for _, part in parts])


def test_a_machine_is_one_host_in_a_campaign_of_its_own_and_in_one_on_several(
    experiment: MakeExperiment, make: Callable[..., Path], tmp_path: Path
) -> None:
    several = run_on(experiment, tmp_path / "r", ["db1 (10.0.0.1)", "db2 (10.0.0.2)"])
    again = run_on(experiment, tmp_path / "again", ["db1 (10.9.9.9)", "db3 (10.0.0.3)"])
    sql = (
        "UPDATE campaign SET value = json_set(value, '$.host', 'db1') WHERE key = 'environment'",
        "UPDATE campaign SET value = '5' WHERE key = 'started'",
    )
    usual = experiment().time.model_dump(mode="json")
    alone = make("alone", threads=[4], design="solo", time=usual, sql=sql)
    pool = pool_parts(several, again, alone)
    assert [(host.name, len(host.campaigns)) for host in pool.hosts] == [
        ("db1 (10.0.0.1)", 3),
        ("db2 (10.0.0.2)", 1),
        ("db3 (10.0.0.3)", 1),
    ]


def test_campaigns_are_compared_once_however_many_hosts_they_have(
    results: Path, experiment: MakeExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = run(
        experiment(design="solo", blocks=6), SimulatedHosts(names=list("vwxyz")), tmp_path / "r"
    )[1]
    pairs = []

    def note(*campaigns: Campaign) -> Comparability:
        pairs.append(campaigns)
        return pair_campaigns(*campaigns)

    monkeypatch.setattr(host_pool, "pair_campaigns", note)
    pool = pool_parts(results, again)
    assert len(pool.hosts) > 8
    assert judge_over_hosts(pool)
    assert len(pairs) == 1


def test_a_container_of_a_node_is_no_further_host(
    experiment: MakeExperiment, make: Callable[..., Path], tmp_path: Path
) -> None:
    several = run_on(experiment, tmp_path / "r", ["db1", "db2"])
    environment = "$.host', 'pod-7', '$.boot_id', 'kernel of db2, boot 1"
    sql = (
        f"UPDATE campaign SET value = json_set(value, '{environment}') WHERE key = 'environment'",
        "UPDATE campaign SET value = '5' WHERE key = 'started'",
    )
    usual = experiment().time.model_dump(mode="json")
    alone = make("alone", threads=[4], design="solo", time=usual, sql=sql)
    pool = pool_parts(several, alone)
    assert [(h.name, len(h.campaigns)) for h in pool.hosts] == [("db1", 1), ("db2", 2)]


def test_a_host_without_a_name_has_none_of_its_own(make: Callable[..., Path]) -> None:
    nameless = "UPDATE campaign SET value = json_remove(value, '$.host') WHERE key = 'environment'"
    campaign = load_campaign(make("a", threads=[1], sql=(nameless,)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_own_name(campaign) is None


def test_hosts_of_one_name_in_a_campaign_are_several(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    names = ["localhost (10.0.0.1)", "localhost (10.0.0.2)"]
    pool = pool_parts(run_on(experiment, tmp_path / "r", names))
    assert [host.name for host in pool.hosts] == names


def test_each_host_has_its_share_of_the_plan(experiment: MakeExperiment, tmp_path: Path) -> None:
    """Eight blocks on two hosts: neither would come to the campaign's planned end."""
    path = run_on(experiment, tmp_path / "r", ["a", "b"], blocks=8)
    parts = split_by_host(load_campaign(path))
    assert [declare_procedures(part)["solo"].looks for part in parts] == [(4,), (4,)]
    pool = pool_hosts([path] * 2, parts)
    figures = judge_over_hosts(pool)
    memory = next(f for f in figures if f.variant == "jemalloc" and f.metric.key == "rss_peak")
    assert [f.verdicts for f in memory.figures] == [(Verdict.LOWER,)] * 2
    assert compose_headline(pool, figures).endswith("Each host's own verdicts are below.")


def test_a_host_spends_no_more_error_than_the_campaign_at_the_look_that_ended_it(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    """Thirty blocks are planned, and the look after ten decides."""
    hosts = SimulatedHosts(names=["a", "b"])
    ending, path = run(experiment(design="solo", blocks=30, threads=[4]), hosts, tmp_path / "r")
    assert ending.blocks["solo"] < 30
    campaign = load_campaign(path)
    whole = declare_procedures(campaign)["solo"]
    assert whole.reached == ending.blocks["solo"]
    for part in split_by_host(campaign):
        procedure = declare_procedures(part)["solo"]
        assert procedure.blocks == part.blocks("solo") == procedure.reached
        assert procedure.looks[-1] == 15
        spent = sum(s for look, s in procedure.spending.items() if look <= procedure.blocks)
        limit = sum(s for look, s in whole.spending.items() if look <= whole.blocks)
        assert spent == pytest.approx(limit, rel=0.01)


def test_the_headline_promises_no_verdict_before_the_first_look(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    path = run_on(experiment, tmp_path / "r", ["a", "b"], blocks=8)
    for table in ("placement", "block", "trial"):
        delete = f"DELETE FROM {table} WHERE block > 2"
        with contextlib.closing(sqlite3.connect(path / "results.sqlite")) as db, db:
            db.execute(delete)
    pool = pool_parts(path)
    assert "without a verdict" in compose_headline(pool, judge_over_hosts(pool))


def test_a_block_that_was_repeated_elsewhere_is_no_block_of_its_first_host(
    results: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "r"
    shutil.copytree(results, copy)
    with contextlib.closing(sqlite3.connect(copy / "results.sqlite")) as db, db:
        block, attempt, host = db.execute(
            "SELECT block, attempt, host FROM block JOIN placement USING (design, block, attempt) "
            "ORDER BY block DESC LIMIT 1"
        ).fetchone()
        names = [name for (name,) in db.execute("SELECT DISTINCT host FROM placement")]
        other = next(name for name in names if name != host)
        for table in ("block", "placement"):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            values = [
                {"attempt": str(attempt + 1), "host": f"'{other}'"}.get(name, name)
                for name in columns
            ]
            db.execute(
                f"INSERT INTO {table} SELECT {', '.join(values)} FROM {table} "
                f"WHERE block = {block} AND attempt = {attempt}"
            )
        db.execute(f"UPDATE trial SET attempt = {attempt + 1} WHERE block = {block}")
    parts = {part.environment.host: part for part in split_by_host(load_campaign(copy))}
    assert block in parts[other].block["block"]
    assert host not in parts or block not in parts[host].block["block"]


def test_the_verdict_over_hosts(results: Path) -> None:
    parts = split_by_host(load_campaign(results))
    pool = pool_hosts([results] * len(parts), parts)
    assert len(pool.hosts) >= 4
    figures = judge_over_hosts(pool)
    memory = next(f for f in figures if f.variant == "jemalloc" and f.metric.key == "rss_peak")
    assert memory.verdict is Verdict.LOWER
    assert memory.mean
    assert memory.mean.estimate == pytest.approx(150 / 160, rel=0.02)


def test_lost_trials_enter_no_figure_and_are_named(results: Path) -> None:
    campaign = load_campaign(results)
    assert [(x.variant, x.losses, x.is_suspect) for x in count_lost_hosts(campaign)] == [
        ("tuned", 1, False)
    ]
    comparisons = compare_with_baseline(campaign)
    assert not comparisons.faulty
    notes = " ".join(compose_notes(comparisons, "glibc", measure_progress(campaign)))
    assert "Hosts were lost in trials of tuned (1);" in notes
    assert "Blocks ran on 5 hosts" in notes


def test_a_placement_on_no_host_is_damage(make: Callable[..., Path]) -> None:
    sql = "INSERT INTO placement (design, block, attempt, host) VALUES ('solo', 1, 0, 'nowhere')"
    with pytest.raises(Failure, match=r"placement\.host: no such host"):
        load_campaign(make("a", sql=(sql,), threads=[1]))


def test_a_variant_that_takes_hosts_down_is_named(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    losses = iter([True] * 5)
    hosts = SimulatedHosts(
        names=[f"h{n}" for n in range(12)],
        lose=lambda draw, variant: variant == "tuned" and next(losses, False),
    )
    _, path = run(experiment(design="solo", blocks=4), hosts, tmp_path / "r")
    campaign = load_campaign(path)
    suspects = [x for x in count_lost_hosts(campaign) if x.is_suspect]
    assert [(x.variant, x.losses) for x in suspects] == [("tuned", 5)]
    notes = compose_notes(compare_with_baseline(campaign), "glibc", measure_progress(campaign))
    assert any("tuned may take hosts down" in note for note in notes)


def test_a_redacted_campaign_names_none_of_its_hosts(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    hosts = SimulatedHosts(names=["db1", "db2", "db3"])
    _, path = run(experiment(design="solo", blocks=3), hosts, tmp_path / "r")
    redacted = redact_campaign(load_campaign(path))
    assert sorted(set(redacted.placement["host"])) == ["HOST 1", "HOST 2", "HOST 3"]
    assert not any(name in str(redacted.host.rows()) for name in hosts.names)
    parts = split_by_host(redacted)
    assert [part.environment.host for part in parts] == ["HOST 1", "HOST 2", "HOST 3"]


def test_a_host_without_a_block_and_the_driver_are_not_named_either(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    """Whoever is named in a text has the name that it has in the tables."""
    names = [f"db{i} (10.0.0.{i})" for i in (1, 2, 3)]
    hosts = SimulatedHosts(names=names)
    _, path = run(experiment(design="solo", blocks=3), hosts, tmp_path / "r")
    campaign = load_campaign(path)
    parts = [part for part in split_by_host(campaign) if part.environment.host != names[1]]
    pool = pool_hosts([path] * len(parts), parts)
    texts = (f"{campaign.environment.host} drives 10.0.0.2", f"{names[2]} has 10.0.0.3")
    exclusions = tuple(Exclusion("x", path, text) for text in texts)
    redacted = redact_pool(replace(pool, left_out=exclusions))
    assert [host.name for host in redacted.hosts] == ["HOST 1", "HOST 3"]
    reasons = [exclusion.reason for exclusion in redacted.left_out]
    assert reasons == ["HOST 4 drives HOST 2", "HOST 3 has HOST 3"]


def test_a_redacted_pool_names_none_of_its_hosts(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    hosts = SimulatedHosts(names=["db1", "db2"])
    place = tmp_path / "acme" / "results-of-db1"
    _, path = run(experiment(design="solo", blocks=4), hosts, place)
    parts = split_by_host(load_campaign(path))
    pool = pool_hosts([path] * len(parts), parts)
    named = replace(
        pool,
        left_out=(Exclusion("variant tuned", path, "server: db1 against x"),),
        differences=(("kernel", {"db1": "6.1 of db1", "db2": "6.6"}),),
    )
    redacted = redact_pool(named)
    assert [host.name for host in redacted.hosts] == ["HOST 1", "HOST 2"]
    [exclusion] = redacted.left_out
    assert str(exclusion) == "variant tuned of DIR 1: server: HOST 1 against x"
    assert redacted.differences == (("kernel", {"HOST 1": "6.1 of HOST 1", "HOST 2": "6.6"}),)
    texts = json.dumps(describe_verdicts(redacted, judge_over_hosts(redacted)))
    assert "db1" not in texts
    assert "acme" not in texts


def test_a_report_names_the_hosts_that_were_lost(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    losses = iter([False, True])
    hosts = SimulatedHosts(names=["a", "b"], lose=lambda draw, variant: next(losses, False))
    _, path = run(experiment(design="solo", blocks=4, threads=[4]), hosts, tmp_path / "r")
    write_report_outputs(path)
    report = (path / "report.md").read_text(encoding="utf-8")
    [fault] = load_campaign(path).trial.filter(outcome="fault")["fault_text"]
    assert fault in report
    assert "host lost (1)" in report
    assert "A lost host takes no variant's verdict" in report
    assert "A variant with faults gets no verdict" not in report


def test_a_campaign_on_hosts_without_a_block_is_not_left_out_without_a_word(
    make: Callable[..., Path], experiment: MakeExperiment, tmp_path: Path
) -> None:
    several = run_on(experiment, tmp_path / "r", ["db1", "db2"])
    sql = ("DELETE FROM block",)
    empty = make("empty", threads=[4], sql=sql)
    with contextlib.closing(sqlite3.connect(empty / "results.sqlite")) as db:
        db.execute("INSERT INTO host VALUES ('db3', 'k3', '{}')")
        db.execute("INSERT INTO placement VALUES ('solo', 1, 0, 'db3', NULL)")
        db.commit()
    with pytest.raises(UsageError, match=f"{empty}: no block is finished yet"):
        verb.combine([several, empty])
