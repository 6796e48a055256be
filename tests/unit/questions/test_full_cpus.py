"""At which levels the CPUs are full, from what was measured."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.questions.campaign.figures.full_cpus import (
    LevelIdle,
    describe_full_cpus,
    describe_host,
    describe_servers,
    list_server_idle,
)
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.report_content import gather_report

Make = Callable[..., Path]
NAMES = ["glibc", "jemalloc"]


def idle(
    threads: int, glibc: float, jemalloc: float, workload: str = "oltp_read_only"
) -> list[LevelIdle]:
    """A level of both variants, and their shares of idle time."""
    return [
        LevelIdle(workload=workload, threads=threads, variant=name, idle=share)
        for name, share in zip(NAMES, (glibc, jemalloc), strict=True)
    ]


def test_full_levels_are_named_with_their_variants() -> None:
    levels = [*idle(256, 0.12, 0.049), *idle(512, 0.0, 0.01), *idle(32, 0.5, 0.6)]
    levels += idle(512, 0.05, 0.3, "oltp_read_write")
    assert describe_host(levels, NAMES) == (
        "The host's CPUs were full (idle for less than 5 % of the time) in oltp_read_only with "
        "256 (jemalloc) and 512 clients (all variants)."
    )


def test_where_no_level_is_full_the_nearest_is_named() -> None:
    levels = [*idle(1, 0.4, 0.3), *idle(2, 0.2, 0.06)]
    assert describe_host(levels, NAMES) == (
        "At no level were the host's CPUs full (idle for less than 5 % of the time): idle for 6.0 % "
        "at the least, oltp_read_only with 2 clients under jemalloc."
    )
    # Of a server's own CPUs is known what it used of them, not what others did.
    assert describe_servers(levels, NAMES) == (
        "At no level did a server use all of its own CPUs (at least 95 % of their time): 94.0 % at "
        "the most, oltp_read_only with 2 clients under jemalloc."
    )


def test_many_workloads_are_counted() -> None:
    levels = [level for i in range(9) for level in idle(1, 0, 0, f"w{i}")]
    sentence = describe_host(levels, NAMES)
    assert "w5 with 1 client (all variants); 3 more workloads." in sentence
    assert "w6" not in sentence


def test_the_report_says_it_where_cpu_by_level_is(make: Make) -> None:
    """The host idles for a fifth of the time; with 16 clients under glibc only for a 25th, and
    waits for storage count as idle.
    """
    full = (
        "UPDATE host_step SET user = user + idle * 0.8, iowait = idle * 0.2, idle = 0 WHERE EXISTS "
        "(SELECT 1 FROM step JOIN trial USING (trial) WHERE step.trial = host_step.trial AND "
        "step.step = host_step.step AND threads = 16 AND variant = 'glibc')"
    )
    campaign = load_campaign(make("full", blocks=2, threads=[4, 16], sql=(full,)))
    [section] = [s for s in gather_report(campaign).sections if s.key == "cpu"]
    assert section.text[1] == (
        "The host's CPUs were full (idle for less than 5 % of the time) in oltp_read_only with "
        "16 clients (glibc)."
    )
    assert section.text[-1].startswith("Where CPUs are full, user CPU is near its most")


def test_what_was_not_measured_is_not_said(make: Make) -> None:
    nothing = ("DELETE FROM host_sample", "DELETE FROM host_step")
    assert describe_full_cpus(load_campaign(make("none", blocks=2, sql=nothing))) == []
    known = "UPDATE campaign SET value = '{\"cpus\": 64}' WHERE key = 'environment'"
    few = load_campaign(make("few", blocks=2, cpu={"count": 2}, sql=(known,)))
    assert describe_full_cpus(few)[-1] == (
        "Server and clients ran on 2 of 64 CPUs; whether these alone were full was not measured."
    )


def test_a_servers_own_cpus_are_full_by_what_it_uses_of_them(make: Make) -> None:
    used = ("UPDATE step SET cpu_user = 0.9 * window, cpu_system = 1.08 * window",)
    path = make("own", blocks=2, threads=[4], cpu={"server": "0-1", "client": "2-3"}, sql=used)
    campaign = load_campaign(path)
    levels = list_server_idle(campaign)
    assert levels
    assert all(level.idle == pytest.approx(0.01) for level in levels)
    assert describe_full_cpus(campaign)[1] == (
        "Servers used all of their own CPUs (at least 95 % of their time) in oltp_read_only with 4 "
        "clients (all variants)."
    )


def test_a_server_with_clients_apart_has_cpus_of_its_own(make: Make) -> None:
    """Where they were beside it after all, it has not."""
    used = "UPDATE step SET cpu_user = 0.9 * window, cpu_system = 1.08 * window"
    clients = "UPDATE trial SET client_cpus = '{}'"
    cpu = {"count": 2, "client": "apart"}
    for cpus, is_apart in (("2-3", True), ("0-1", False)):
        path = make(
            f"apart-{cpus}", blocks=2, threads=[4], cpu=cpu, sql=(used, clients.format(cpus))
        )
        levels = list_server_idle(load_campaign(path))
        assert bool(levels) == is_apart
        assert all(level.idle == pytest.approx(0.01) for level in levels)
