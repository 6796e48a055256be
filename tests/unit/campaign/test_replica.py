"""What a replica has applied, how far behind it is, and what its server says of itself."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.preparation import prepare_duet
from dballoc.campaign.trial import replica
from dballoc.campaign.trial.replica import ReplicaStep, ReplicationProgress
from dballoc.fetch.name_and_version import parse_version_numbers
from dballoc.ground.errors import UsageError
from dballoc.load import sysbench_command, workload
from dballoc.load.client_output import IntervalReport, Total
from dballoc.servers import families
from dballoc.servers.build import Build
from dballoc.servers.private import command_line, replication
from dballoc.servers.private.command_line import Address

UUID = "3E11FA47-71CA-11E1-9E33-C80AA9429562"


def build(family: str, version: str) -> Build:
    return Build(
        family=family,
        version=version,
        executable=None,  # type: ignore[arg-type]
        basedir=None,  # type: ignore[arg-type]
        share=None,  # type: ignore[arg-type]
        plugins=None,
    )


@pytest.mark.parametrize(
    ("text", "transactions"),
    [
        ("", 0),
        (None, 0),
        ("0-1-12345", 12345),
        ("0-1-10,5-1-7", 17),
        (f"{UUID}:1-5", 5),
        (f"{UUID}:1-5:7:10-11", 8),
        (f"{UUID}:1-5,\n{UUID.lower()}:9", 6),
        (f"{UUID}:tag_1:1-3", 3),
    ],
)
def test_the_transactions_of_a_gtid_position(text: str | None, transactions: int) -> None:
    assert replication.count_gtids(text) == transactions


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**6)), min_size=1))
def test_a_gtid_set_has_the_length_of_its_intervals(intervals: list[tuple[int, int]]) -> None:
    text = UUID + "".join(f":{first}-{first + more}" for first, more in intervals)
    assert replication.count_gtids(text) == sum(more + 1 for _, more in intervals)


def test_the_state_is_read_of_old_and_new_names() -> None:
    stopped = {
        "Slave_IO_Running": "Yes",
        "Slave_SQL_Running": "No",
        "Last_IO_Errno": 0,
        "Last_IO_Error": "",
        "Last_SQL_Errno": 1146,
        "Last_SQL_Error": "Table 'sbtest.sbtest1' doesn't exist",
    }
    state = replication.parse_state(stopped)
    assert (state.connected, state.applying) == (True, False)
    assert state.error == "Table 'sbtest.sbtest1' doesn't exist (error 1146)"
    renamed = {name.replace("Slave_", "Replica_"): value for name, value in stopped.items()}
    assert replication.parse_state(renamed) == state
    assert replication.parse_state({}) == replication.ReplicaState(False, False, "")


@pytest.mark.parametrize(
    ("family", "version", "workers"),
    [
        ("mariadb", "10.11.19-MariaDB", "slave-parallel-threads"),
        ("mysql", "9.7.4", "replica-parallel-workers"),
        ("mysql", "8.0.40", "slave-parallel-workers"),
        ("mysql", "5.7.44", "slave-parallel-workers"),
    ],
)
def test_the_options_of_both_servers(family: str, version: str, workers: str) -> None:
    server = build(family, version)
    replication.check_replication(server, "variant 'x'")
    own = {"innodb-buffer-pool-size": "1G", "server-id": "1"}
    options = replication.make_replica_options(server, own, None)
    assert options[workers] == "4"
    # Its number is its own: two servers with the same one refuse each other.
    primary = replication.make_primary_options(server, options)
    assert (options["server-id"], primary["server-id"]) == ("2", "1")
    assert workers not in primary
    assert "relay-log" not in primary
    assert primary["innodb-buffer-pool-size"] == options["innodb-buffer-pool-size"] == "1G"
    assert replication.make_replica_options(server, {**own, workers: "9"}, None)[workers] == "9"
    assert replication.make_replica_options(server, {**own, workers: "9"}, 2)[workers] == "2"
    # The binary log is in the primary's data directory.
    words = command_line.command(server, Path("/data"), Address(Path("/run/s")), primary)
    assert "--log-bin=dballoc-binlog" in words
    assert "--skip-log-bin" not in words


@pytest.mark.parametrize(
    ("family", "version"), [("mysql", "9.7.4"), ("percona", "8.0.36-28"), ("mysql", "5.7.44")]
)
def test_statements_suit_the_version(family: str, version: str) -> None:
    words = build(family, version).entry.replication
    told = " ".join([*words["begin"], *words["follow"], words["state"]])
    assert ("SLAVE STATUS" in told) == (parse_version_numbers(version) < [8, 4])
    assert ("PUBLIC_KEY" in told) == (parse_version_numbers(version) >= [8, 0])
    account = replication.make_account(3307)
    assert len(account.password) <= 32  # the most that MySQL takes of a replica
    for sql in [*words["begin"], *words["follow"]]:
        assert "{" not in sql.format(**vars(account))


def test_servers_without_such_replicas_are_refused() -> None:
    for family, version in (("mysql", "5.6.51"), ("mariadb", "5.5.68-MariaDB")):
        with pytest.raises(UsageError, match=r"variant 'x': .* cannot be a replica here: it needs"):
            replication.check_replication(build(family, version), "variant 'x'")


def test_every_family_says_how_it_replicates() -> None:
    for family in families.list_families():
        assert set(family.replication) == {
            "primary",
            "replica",
            "workers",
            "begin",
            "follow",
            "state",
            "committed",
            "applied",
        }, family.name


def test_the_lag_is_the_time_since_the_primary_was_there() -> None:
    readings = [
        ReplicationProgress(0.0, 0, 0),
        ReplicationProgress(1.0, 100, 40),
        ReplicationProgress(2.0, 300, 90),
    ]
    # At 0.5 s the primary had 50, at 1.5 s 200.
    assert replica.compute_lag(readings, ReplicationProgress(3.0, 300, 50)) == pytest.approx(2.5)
    assert replica.compute_lag(readings, ReplicationProgress(3.0, 300, 200)) == pytest.approx(1.5)
    assert replica.compute_lag(readings, ReplicationProgress(3.0, 300, 300)) == 0.0
    # What was committed since the last reading counts as spread evenly over the time since.
    assert replica.compute_lag(readings, ReplicationProgress(4.0, 500, 400)) == pytest.approx(1.0)


@given(
    st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 1000)), min_size=1, max_size=20),
    st.floats(0, 1),
)
def test_the_lag_lies_within_the_step(steps: list[tuple[float, int]], share: float) -> None:
    clock, committed, readings = 0.0, 0, [ReplicationProgress(0.0, 0, 0)]
    for seconds, more in steps:
        clock, committed = clock + seconds, committed + more
        readings.append(ReplicationProgress(clock, committed, 0))
    now = ReplicationProgress(clock, committed, int(share * committed))
    lag = replica.compute_lag(readings[:-1], now)
    assert 0.0 <= lag <= clock + 1e-9
    assert (lag == 0.0) == (now.behind == 0)


def test_a_step_counts_what_was_applied_and_says_what_was_not() -> None:
    report = IntervalReport(
        clock=1.0, elapsed=1.0, seconds=1.0, threads=4, events=500, queries=2500, latency=0.01,
        errors=0, reconnects=0,
    )  # fmt: skip
    progress = ReplicaStep([ReplicationProgress(0.0, 1000, 1000)])
    applied = progress.add(ReplicationProgress(1.25, 1500, 1300), report)
    assert (applied.events, applied.seconds, applied.clock) == (300, 1.25, 1.25)
    assert applied.latency is None
    of_client = Total(
        clock=10.0, seconds=10.0, events=5000, queries=25_000, latency_min=0.001, latency_avg=0.01,
        latency_max=0.1, errors=2, reconnects=0,
    )  # fmt: skip
    progress.loaded = ReplicationProgress(10.0, 6000, 4000)
    progress.caught_up = ReplicationProgress(14.5, 6000, 6000)
    total = replica.make_total(progress, of_client)
    assert (total.events, total.seconds, total.errors) == (3000, 10.0, 2)
    row = replica.make_replica_row(3, progress, of_client)
    assert row.primary_tps == 500
    assert (row.behind, row.waited, row.left_behind) == (2000, 4.5, 0)
    assert row.lag == pytest.approx(10.0 - (1.25 + 2500 / 4500 * 8.75))
    assert replica.describe_lag(row) == (
        "the replica does not keep up: 2,000 transactions, 3.9 s, behind at the end; applied 4.5 s "
        "later"
    )
    assert "12 of them still wait 4 s later" in str(
        replica.describe_lag(replace(row, left_behind=12))
    )
    assert replica.describe_lag(replace(row, lag=0.9)) is None


def test_a_replica_is_not_mixed_with_other_loads(experiment) -> None:
    with pytest.raises(UsageError, match="oltp_insert does not; run them as two campaigns"):
        workload.settle(experiment(workloads=["replica", "oltp_insert"]))
    with pytest.raises(UsageError, match="run them as two campaigns"):
        workload.settle(experiment(workloads=["replica"], warm=["oltp_point_select"]))


def test_a_replica_needs_something_to_apply(experiment) -> None:
    own = {"r": {"use": "oltp_read_only", "replica": True}}
    with pytest.raises(UsageError, match="workload 'r': replica: it writes nothing"):
        workload.settle(experiment(workloads=["r"], workload=own))
    own = {"r": {"use": "dump-beside-writes", "replica": True}}
    with pytest.raises(UsageError, match="it runs a program beside its clients"):
        workload.settle(experiment(workloads=["r"], workload=own))
    own = {"r": {"use": "oltp_read_write", "replica": True}}
    assert workload.settle(experiment(workloads=["r"], workload=own))["r"].replica


def test_a_replica_has_no_duet(experiment) -> None:
    chosen = experiment(workloads=["replica"])
    bench = sysbench_command.Sysbench(None, "1.0.20", None, workload.settle(chosen))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a replica has a primary beside it; use --design solo"):
        prepare_duet.prepare_duet(chosen, bench)
