"""A client on a host of its own: what it is asked, when it is the limit, and its password."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import measured_campaign
import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.elsewhere.client import pair_hosts, password_seal, server_clock
from dballoc.campaign.elsewhere.client.load_messages import (
    ClientFigures,
    ClientReady,
    ClientRequest,
    LoadFinished,
    LoadStopped,
    parse_from_client,
    parse_to_client,
)
from dballoc.campaign.elsewhere.client.network_link import find_interface, read_bytes, read_speed
from dballoc.campaign.elsewhere.client.pipe_lines import PipeLines
from dballoc.campaign.elsewhere.client.remote_load import (
    ClientPlace,
    RemoteLoads,
    find_client_limit,
)
from dballoc.campaign.elsewhere.client.server_clock import ClockReading, choose_reading
from dballoc.campaign.elsewhere.message_stream import encode_message
from dballoc.experiment.model import Experiment
from dballoc.experiment.trial_steps import Step
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load.client import ClientFailed
from dballoc.servers.private.certificates import write_certificates
from dballoc.servers.private.command_line import Address
from dballoc.store.rows import ClientStepRow

MakeExperiment = Callable[..., Experiment]

QUIET: dict[str, Any] = {
    "seconds": 10.0,
    "cpu": 8.0,
    "cpus": 4,
    "busy": 0.3,
    "throttled": 0.0,
    "received": 10**8,
    "sent": 10**7,
    "link": 10**9,
    "round_trip": 1e-4,
}
PLACE = ClientPlace(host="far", address="10.0.0.2", listen="127.0.0.1", shares_kernel=False)
ADDRESS = Address(Path("/run/s.sock"), 3307)
LEVEL = Step(number=3, kind="level", seconds=2.0, workload="oltp_read_only", threads=8)
TOTAL: dict[str, Any] = {
    "kind": "total", "clock": 102.0, "time_total": 2.0, "time_interval": 2.0, "threads_running": 0,
    "events": 10, "reads": 100, "writes": 0, "other": 20, "errors": 0, "reconnects": 0,
    "latency_min": 0.001, "latency_avg": 0.002, "latency_max": 0.003, "latency_pct": 0.003,
}  # fmt: skip
REPORTS = [TOTAL | {"kind": "interval", "clock": 101.0, "time_total": 1.0}, TOTAL]
PRINTED = "Latency histogram (values are in milliseconds)\n       2.000 |**** 10\n"


# -- when the client is the limit -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "threads", "shares_kernel", "link", "words"),
    [
        ({}, 64, False, None, None),
        ({"cpu": 35.0}, 64, False, None, "the client is the limit: it used 88% of the 4 CPUs"),
        ({"cpu": 33.0}, 64, False, None, None),
        # Two clients cannot use more than two CPUs.
        ({"cpu": 17.5}, 2, False, None, "88% of the 2 CPUs that it could use"),
        ({"busy": 0.96}, 64, False, None, "the client host is the limit: its CPUs were 96% busy"),
        ({"busy": 0.94}, 64, False, None, None),
        # The server's own use is in that share.
        ({"busy": 1.0}, 64, True, None, None),
        ({"received": 1_150_000_000}, 64, False, 10**9, "the network is the limit: 920 Mbit/s"),
        ({"sent": 1_150_000_000}, 64, False, 10**9, "over a link of 1,000"),
        ({"received": 1_100_000_000}, 64, False, 10**9, None),
        ({"received": 1_150_000_000}, 64, False, None, None),
        ({}, 64, False, 10**7, "over a link of 10"),
        ({"seconds": 0.0}, 64, False, 1, None),
    ],
)
def test_what_limits_a_load(
    changes: dict[str, Any],
    threads: int,
    shares_kernel: bool,
    link: int | None,
    words: str | None,
) -> None:
    figures = ClientFigures(**(QUIET | changes))
    limit = find_client_limit(figures, threads, shares_kernel, link)
    assert limit is None if words is None else words in str(limit)


def test_the_loopback_has_bytes_and_no_speed() -> None:
    interface = find_interface("127.0.0.1")
    assert interface == "lo"
    assert read_speed(interface) is None
    assert read_bytes(interface).received >= 0
    assert find_interface("192.0.2.1") is None
    assert read_bytes(None).sent == 0


# -- the password -----------------------------------------------------------------------------------


def test_a_password_is_for_one_key_alone() -> None:
    key, other = password_seal.make_private_key(), password_seal.make_private_key()
    password = password_seal.make_password()
    sealed = password_seal.seal(password, password_seal.format_public_key(key))
    assert password not in sealed
    assert password_seal.unseal(sealed, key) == password
    with pytest.raises(readers.Unfit, match="not encrypted for this client host"):
        password_seal.unseal(sealed, other)
    assert len(password) <= 32
    assert password != password_seal.make_password()


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])  # fmt: skip
def test_a_key_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(readers.Unfit, match="the client host's key"):
        password_seal.seal("secret", text)


@pytest.mark.parametrize("text", ["", "!", "AAAA"])
def test_what_is_no_password_is_refused(text: str) -> None:
    with pytest.raises(readers.Unfit):
        password_seal.unseal(text, password_seal.make_private_key())


# -- messages and lines -----------------------------------------------------------------------------

TEXTS = st.text(max_size=40)


@given(line=st.one_of(st.binary(max_size=200), TEXTS.map(str.encode)))
def test_any_other_line_is_unfit(line: bytes) -> None:
    for parse in (parse_to_client, parse_from_client):
        with pytest.raises(readers.Unfit):
            parse(line)


@pytest.mark.parametrize(
    "changes", [{"port": 0}, {"threads": 0}, {"seconds": -1.0}, {"seconds": 1e300}, {"engine": "x"}]
)
def test_a_load_beyond_its_bounds_is_unfit(changes: dict[str, Any]) -> None:
    words = {
        "kind": "load", "number": 1, "workload": "w", "threads": 1, "seconds": 1.0,
        "engine": "innodb", "port": 1, "password": "p",
    }  # fmt: skip
    with pytest.raises(readers.Unfit):
        parse_to_client(json.dumps(words | changes).encode())


@pytest.mark.parametrize("address", ["", "db1", "10.0.0.1' OR '1", "10.0.0.0/8", "%", "::1 "])
def test_a_place_that_is_no_address_is_unfit(address: str) -> None:
    request = {
        "dballoc": "1", "experiment": "", "server": address, "shares_kernel": False, "lease": 1.0
    }  # fmt: skip
    with pytest.raises(readers.Unfit, match="not a client's request"):
        ClientRequest.parse(json.dumps(request).encode())
    assert ClientRequest.parse(json.dumps(request | {"server": "fe80::1"}).encode())


@pytest.fixture
def pipe() -> Iterator[tuple[PipeLines, int]]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    yield PipeLines(reader), writer
    for descriptor in (reader, writer):
        os.close(descriptor)


def test_lines_come_whole_and_are_not_waited_for(pipe: tuple[PipeLines, int]) -> None:
    lines, writer = pipe
    assert lines.read(0) is None
    os.write(writer, b"one\ntwo\nthr")
    assert lines.read(5) == b"one\n"
    assert lines.read(0) == b"two\n"
    assert lines.read(0.01) is None
    os.write(writer, b"ee\n")
    assert lines.read(5) == b"three\n"


def test_a_line_longer_than_the_pipe_comes_whole(pipe: tuple[PipeLines, int]) -> None:
    lines, writer = pipe
    text = b"x" * 3_000_000 + b"\n"
    thread = threading.Thread(target=lambda: os.writev(writer, [text]))
    thread.start()
    assert lines.read(30) == text
    thread.join()


def test_a_closed_end_is_an_end() -> None:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.close(writer)
    with pytest.raises(Failure, match="who asked for this block is gone"):
        PipeLines(reader).read(5)
    os.close(reader)


# -- the server's side ------------------------------------------------------------------------------


class ClientHost:
    """Keeps what it is asked, and answers as it is told."""

    def __init__(self, pipe: tuple[PipeLines, int]) -> None:
        self.lines, self._writer = pipe
        self.asked: list[Any] = []
        self.key = password_seal.make_private_key()
        self.loads = RemoteLoads(PLACE, self.asked.append, self.lines)

    def answer(self, message: Any) -> None:
        os.write(self._writer, encode_message(message))

    def finish(self, number: int = 1, **changes: Any) -> None:
        words = {
            "number": number,
            "status": 0,
            "user": 3.0,
            "system": 1.0,
            "printed": PRINTED,
            "reports": "".join(json.dumps(line) + "\n" for line in REPORTS),
            "ahead": 1000.0,
            "figures": ClientFigures(**QUIET),
        }
        self.answer(LoadFinished(**(words | changes)))


@pytest.fixture
def host(pipe: tuple[PipeLines, int]) -> ClientHost:
    return ClientHost(pipe)


def test_a_load_on_another_host(host: ClientHost, tmp_path: Path) -> None:
    host.answer(ClientReady(key=password_seal.format_public_key(host.key), sysbench="1.0.20"))
    assert host.loads.wait_until_ready() == "1.0.20"
    client = host.loads.start_client(LEVEL, "innodb", ADDRESS, tmp_path)
    (load,) = host.asked
    assert (load.workload, load.threads, load.seconds, load.port) == (
        "oltp_read_only",
        8,
        2.0,
        3307,
    )
    assert password_seal.unseal(load.password, host.key).startswith("Aa1-")
    assert client.wait(0) is None
    assert client.make_row() is None
    host.finish(number=7)  # of another load, that was stopped
    assert client.wait(0) is None
    host.finish()
    ended = client.wait(5)
    assert ended
    (report,) = client.reports()
    result = client.result(ended)
    # The server's Unix time was 1000 s ahead of the client's clock.
    moved = 1000.0 - (time.time() - time.monotonic())
    assert report.clock == pytest.approx(101.0 + moved, abs=0.5)
    assert result.total.clock == pytest.approx(102.0 + moved, abs=0.5)
    assert result.histogram == [(2.0, 10)]
    assert client.make_row() == ClientStepRow(step=3, host="far", **QUIET)
    assert host.loads.cpu_seconds == 4.0
    assert {path.name for path in tmp_path.iterdir()} == {
        "sysbench-03-level-oltp_read_only-8.txt",
        "intervals-03-level-oltp_read_only-8.jsonl",
    }


@pytest.mark.parametrize(
    ("of_client", "of_server", "slower"),
    [(None, None, None), (10**9, None, 10**9), (None, 10**9, 10**9), (10**10, 10**9, 10**9)],
)
def test_the_slower_interface_is_the_link(
    host: ClientHost, of_client: int | None, of_server: int | None, slower: int | None
) -> None:
    host.loads._link = of_server
    figures = ClientFigures(**(QUIET | {"link": of_client}))
    assert host.loads.find_link_speed(figures) == slower


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("level", {"figures": ClientFigures(**(QUIET | {"busy": 1.0}))}, "client host far"),
        ("warmup", {"figures": ClientFigures(**(QUIET | {"busy": 1.0}))}, None),
        ("level", {"status": 1, "printed": "FATAL: no such table", "figures": None}, "no such tab"),
        ("level", {"reports": ""}, "no totals"),
        ("level", {"reports": "nonsense\n{}\n"}, "no totals"),
    ],
)
def test_what_did_not_measure_the_server_is_no_result(
    host: ClientHost, tmp_path: Path, kind: Any, changes: dict[str, Any], words: str | None
) -> None:
    step = Step(number=3, kind=kind, seconds=2.0, workload="oltp_read_only", threads=8)
    client = host.loads.start_client(step, "innodb", ADDRESS, tmp_path)
    host.finish(**changes)
    ended = client.wait(5)
    assert ended
    list(client.reports())
    if words is None:
        client.result(ended)
        return
    with pytest.raises(ClientFailed, match=words):
        client.result(ended)


def test_a_client_gets_what_an_encrypted_connection_takes_and_no_more(
    host: ClientHost, tmp_path: Path
) -> None:
    directory = write_certificates(tmp_path, "127.0.0.1", ServerUser(None))
    address = replace(ADDRESS, certificates=directory)
    host.loads.start_client(LEVEL, "innodb", address, tmp_path)
    (load,) = host.asked
    assert set(load.certificates) == {"cacert.pem", "client-cert.pem", "client-key.pem"}
    server_key = (tmp_path / "server-key.pem").read_text(encoding="ascii")
    assert server_key not in load.certificates.values()
    line = encode_message(load)
    assert parse_to_client(line) == load
    for bad in (b"../x.pem", b"server-key.pem"):
        with pytest.raises(readers.Unfit):
            parse_to_client(line.replace(b"cacert.pem", bad))


def test_a_load_is_stopped_and_waited_for(host: ClientHost, tmp_path: Path) -> None:
    client = host.loads.start_client(LEVEL, "innodb", ADDRESS, tmp_path)
    host.finish(status=-9, figures=None, reports="")
    client.kill()
    assert isinstance(host.asked[-1], LoadStopped)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"kind": "trial"}\n', "the client host far: not a message"),
        (encode_message(ClientReady(key="no key", sysbench="1.0")), "the client host's key"),
        (encode_message(LoadFinished(number=1, status=0, printed="")), "did not begin"),
    ],
)
def test_a_client_host_that_answers_nonsense_ends_the_block(
    pipe: tuple[PipeLines, int], line: bytes, words: str
) -> None:
    os.write(pipe[1], line)
    with pytest.raises(Failure, match=words):
        RemoteLoads(PLACE, lambda message: None, pipe[0]).wait_until_ready()


class Admin:
    """Keeps statements; the first of a kind may be refused."""

    def __init__(self, refusal: int | None) -> None:
        self.statements: list[str] = []
        self._refusal = refusal

    def rows(self, sql: str) -> list[Any]:
        self.statements.append(sql)
        if self._refusal and sql.startswith("CREATE"):
            number, self._refusal = self._refusal, None
            raise pymysql.err.OperationalError(number, "refused")
        return []


def test_the_account_may_come_from_the_client_host_alone(host: ClientHost) -> None:
    admin = Admin(None)
    host.loads.open_account(admin, "sbtest")  # type: ignore[arg-type]
    assert len(admin.statements) == 2
    assert all("'dballoc_load'@'10.0.0.2'" in sql for sql in admin.statements)
    assert admin.statements[1].startswith("GRANT ALL ON `sbtest`.* TO")


def test_an_account_that_the_last_server_left_is_made_again(host: ClientHost) -> None:
    admin = Admin(1396)
    host.loads.open_account(admin, "sbtest")  # type: ignore[arg-type]
    words = [sql.split()[0] for sql in admin.statements]
    assert words == ["CREATE", "DROP", "CREATE", "GRANT"]
    with pytest.raises(pymysql.Error):
        host.loads.open_account(Admin(1819), "sbtest")  # type: ignore[arg-type]


# -- the clocks -------------------------------------------------------------------------------------


@given(
    ahead=st.floats(-1e6, 1e6),
    trips=st.lists(st.tuples(st.floats(1e-5, 1.0), st.floats(0, 1.0)), min_size=1, max_size=8),
)
def test_the_clock_is_wrong_by_half_the_shortest_round_trip_at_most(
    ahead: float, trips: list[tuple[float, float]]
) -> None:
    readings = []
    for second, (round_trip, share) in enumerate(trips):
        there = second + share * round_trip
        readings.append(ClockReading(float(second), there + ahead, second + round_trip))
    shortest = min(round_trip for round_trip, _ in trips)
    assert abs(choose_reading(readings).ahead - ahead) <= shortest / 2 + 1e-6


@pytest.mark.parametrize("answer", [None, (), (None,), ("noon",)])
def test_a_server_that_does_not_tell_its_time(answer: Any) -> None:
    cursor = SimpleNamespace(execute=lambda sql: None, fetchone=lambda: answer)
    with pytest.raises(pymysql.Error, match="does not tell its time"):
        server_clock._ask_once(cursor, time.monotonic)  # type: ignore[arg-type]


def test_the_server_is_asked_over_tls_where_the_load_is_encrypted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that insists on it refuses what an older PyMySQL sends without being told."""
    asked: list[dict[str, Any]] = []

    def connect(**options: Any) -> Any:
        asked.append(options)
        raise pymysql.err.OperationalError(2003, "no such server")

    monkeypatch.setattr(pymysql, "connect", connect)
    for certificates in (None, Path("/run/private")):
        address = replace(ADDRESS, host="10.0.0.1", certificates=certificates)
        with pytest.raises(pymysql.Error):
            server_clock.ask_server_clock(address, "dballoc_load", "secret")
    plain, encrypted = asked
    assert (plain["host"], plain["port"]) == ("10.0.0.1", 3307)
    assert not [name for name in plain if name.startswith("ssl")]
    assert {name: encrypted[name] for name in encrypted.keys() - plain.keys()} == {
        "ssl_ca": "/run/private/cacert.pem",
        "ssl_cert": "/run/private/client-cert.pem",
        "ssl_key": "/run/private/client-key.pem",
    }


# -- what it cannot be of ---------------------------------------------------------------------------


def make_setting(experiment: Experiment, **work: Any) -> Any:
    words = {"driver": "sysbench", "replica": False, "program": (), "backup": False}
    sysbench = SimpleNamespace(workload=lambda name: SimpleNamespace(**(words | work)))
    return replace(measured_campaign.make_setting(experiment), sysbench=sysbench)


@pytest.mark.parametrize(
    ("changes", "work", "words"),
    [
        ({"design": "duet"}, {}, "no duets and turns with clients on another host"),
        ({"design": "both"}, {}, "servers at once would share one client host"),
        ({"profile": "contention"}, {}, "no profile with clients on another host"),
        ({}, {"driver": "hammerdb"}, "it runs more than sysbench"),
        ({}, {"replica": True}, "it runs more than sysbench"),
        ({}, {"backup": True}, "cannot come from another host"),
    ],
)
def test_what_is_loaded_from_the_servers_host_alone_is_refused(
    experiment: MakeExperiment, changes: dict[str, Any], work: dict[str, Any], words: str
) -> None:
    chosen = experiment(**({"design": "solo"} | changes))
    with pytest.raises(UsageError, match=words):
        pair_hosts.fit_setting(make_setting(chosen, **work))


def test_a_solo_campaign_stays_as_it_is(experiment: MakeExperiment) -> None:
    setting = make_setting(experiment(design="solo"))
    assert pair_hosts.fit_setting(setting) is setting
