"""Whether the load was encrypted: read from a server's counts, summed by variant, and worded."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dballoc.campaign.trial.fault import Fault
from dballoc.campaign.trial.server_in_trial import check_encryption
from dballoc.questions.campaign.answer.compose_answer import compose_notes
from dballoc.questions.campaign.answer.noise_network_encryption import (
    describe_encryption,
    describe_network_checks,
    warn_of_encryption,
)
from dballoc.questions.compare.answer_words import measure_progress
from dballoc.questions.compare.baseline_comparison import compare_with_baseline
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.client_connections import (
    VariantConnections,
    asks_for_tls,
    count_client_connections,
)
from dballoc.questions.published.setup.campaign_setup import read_campaign_setup
from dballoc.questions.write_report import write_report_outputs
from dballoc.servers.private.client_connections import (
    ClientConnections,
    ConnectionMeter,
    OwnConnections,
    compare_counts,
)
from dballoc.store.column_types import check_values
from dballoc.store.rows import ClientConnectionRow

Make = Callable[..., Path]
Table = dict[str, str]

BEFORE = {"Connections": "7", "Ssl_finished_accepts": "1", "Ssl_server_not_after": ""}
AFTER = {"Connections": "40", "Ssl_finished_accepts": "33", "Ssl_server_not_after": ""}
BOTH = "TLSv1.2,TLSv1.3"
ONE = OwnConnections(made=1, over_tcp=False)


# -- a server's counts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "status", "versions"),
    [
        # MariaDB 10.11 without a certificate, and with one.
        ({"have_ssl": "DISABLED", "tls_version": BOTH}, {}, ""),
        ({"have_ssl": "YES", "tls_version": BOTH}, {}, BOTH),
        # MySQL 8.4 and later do not have the variable.
        ({"tls_version": BOTH}, {"Ssl_server_not_after": "Nov 22 2034"}, BOTH),
        ({"tls_version": BOTH}, {}, ""),
        # MySQL 5.5 does not name versions.
        ({"have_ssl": "YES"}, {}, "TLS"),
        ({"have_ssl": "YES", "tls_version": "<b>"}, {}, "TLS"),
        ({"have_ssl": "YES", "tls_version": "TLSv1.2, TLSv1.3"}, {}, BOTH),
        ({}, {}, ""),
    ],
)
def test_what_a_server_counts(variables: Table, status: Table, versions: str) -> None:
    counted = compare_counts(variables, BEFORE, AFTER | status, ONE)
    assert counted == ClientConnections(tls=versions, made=32, encrypted=32)
    [tls, *_] = ClientConnectionRow.list_columns()
    check_values([versions], tls)


def test_a_server_that_does_not_count_tells_nothing() -> None:
    assert compare_counts({}, {"Connections": "1"}, {"Connections": "2"}, ONE) is None
    assert compare_counts({}, BEFORE, {**AFTER, "Ssl_finished_accepts": ""}, ONE) is None


class Server:
    """A server that counts; ``status`` changes."""

    def __init__(self) -> None:
        self.status = dict(BEFORE)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Answer the meter's two statements."""
        if "VARIABLES" in sql:
            return [("have_ssl", "YES"), ("tls_version", BOTH)]
        return list(self.status.items())


@pytest.mark.parametrize(("over_tcp", "encrypted"), [(False, 32), (True, 29)])
def test_connections_are_counted_from_a_moment_on(over_tcp: bool, encrypted: int) -> None:
    server = Server()
    meter = ConnectionMeter(server, over_tcp=over_tcp)  # type: ignore[arg-type]
    server.status = dict(AFTER)
    meter.own_connections += 3
    assert meter.read() == ClientConnections(tls=BOTH, made=30, encrypted=encrypted)


def test_own_connections_are_not_encrypted_where_the_server_offers_nothing() -> None:
    counted = compare_counts({}, BEFORE, AFTER, OwnConnections(made=1, over_tcp=True))
    assert counted == ClientConnections(tls="", made=32, encrypted=32)


# -- whether the network was checked --------------------------------------------------------------

STEPS = (
    "INSERT INTO client_step SELECT trial, step, 'far', 4, 8, 4, 0.3, 0, 1000, 1000, {link}, 1e-4 "
    "FROM step WHERE {where} "
)


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([], None),
        ([("1e9", "1")], None),
        ([("NULL", "1")], r"was not checked in all of (\d+) levels"),
        ([("NULL", "trial = 1"), ("1000000000", "trial > 1")], r"not checked in 1 of (\d+) levels"),
    ],
)
def test_the_report_says_in_which_levels_no_interface_told_its_speed(
    make: Make, links: list[tuple[str, str]], words: str | None
) -> None:
    statements = [STEPS.format(link=link, where=where) for link, where in links]
    described = describe_network_checks(load_campaign(make_with(make, *statements)))
    if words is None:
        assert described == []
        return
    assert re.search(words, described[0])


# -- of a campaign ----------------------------------------------------------------------------------

ALL = "INSERT INTO client_connection SELECT trial, '{tls}', 10, {encrypted} FROM trial "


def make_with(make: Make, *sql: str) -> Path:
    return make("a", threads=[1], design="solo", sql=sql)


def test_older_results_tell_nothing(make: Make) -> None:
    campaign = load_campaign(make("a", threads=[1]))
    assert count_client_connections(campaign) == {}
    assert describe_encryption({}, False) == []
    assert warn_of_encryption({}) == []


def test_a_campaigns_connections_are_in_its_report(make: Make, tmp_path: Path) -> None:
    path = make_with(make, ALL.format(tls=BOTH, encrypted=0))
    campaign = load_campaign(path)
    counted = count_client_connections(campaign)
    assert list(counted) == campaign.names
    trials = campaign.trial.filter(pl.col("variant") == "tuned").height
    assert counted["tuned"] == VariantConnections(
        made=10 * trials, encrypted=0, tls=("TLSv1.2", "TLSv1.3")
    )
    [sentence] = describe_encryption(counted, False)
    assert "by the servers' own counts: none of" in sentence
    assert "The servers offered TLSv1.2 and TLSv1.3." in sentence
    write_report_outputs(path, tmp_path / "out")
    assert sentence in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert warn_of_encryption(counted) == []
    assert set(read_campaign_setup(campaign).encryption.values()) == {"not encrypted"}


def test_variants_that_differ_are_named_in_a_note(make: Make) -> None:
    path = make_with(
        make,
        ALL.format(tls="", encrypted=0) + "WHERE variant <> 'tuned'",
        ALL.format(tls=BOTH, encrypted=10) + "WHERE variant = 'tuned'",
    )
    campaign = load_campaign(path)
    notes = compose_notes(
        compare_with_baseline(campaign), campaign.experiment.baseline, measure_progress(campaign)
    )
    assert (
        "Not all variants had the same kind of connections: those of glibc and jemalloc were not "
        "encrypted; those of tuned were encrypted. What encryption costs is in the figures."
    ) in notes
    [sentence] = describe_encryption(count_client_connections(campaign), False)
    assert "different TLS: glibc none; jemalloc none; tuned TLSv1.2 and TLSv1.3" in sentence


def test_a_load_that_was_to_be_encrypted_and_was_not_is_a_fault() -> None:
    check_encryption([])  # of a server that does not count
    check_encryption(
        [
            ClientConnectionRow(tls="", made=0, encrypted=0),
            ClientConnectionRow(tls="", made=8, encrypted=7),
        ]
    )
    with pytest.raises(Fault, match="none of the load's 8 connections was encrypted") as fault:
        check_encryption([ClientConnectionRow(tls="", made=8, encrypted=0)])
    assert fault.value.kind == "proof"


def test_the_report_says_whether_encryption_was_asked_for(make: Make) -> None:
    campaign = load_campaign(make_with(make, ALL.format(tls=BOTH, encrypted=10)))
    counted = count_client_connections(campaign)
    [asked] = describe_encryption(counted, True)
    assert asked.endswith('The experiment asks for encryption (connect = "tls").')
    assert not asks_for_tls(campaign)
