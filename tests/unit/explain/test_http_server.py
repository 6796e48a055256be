"""The exporter's HTTP server on real sockets, against those who mean ill: half requests, slow ones,
many, large ones, wrong names, nonsense.
"""

import http.client
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dballoc.explain.exporter import http_server
from dballoc.explain.exporter.address_and_access import Admission, ListenAddress
from dballoc.explain.exporter.http_server import MetricsServer, Service, open_server
from dballoc.ground.errors import UsageError

TEXT = "dballoc_up 1\n# EOF\n"
LOCAL = Admission(names=frozenset({"localhost", "127.0.0.1"}), token=b"")
GOOD = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(autouse=True)
def as_many_as_a_test_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_A_SECOND", 10_000)


class Running:
    """A server in a thread."""

    def __init__(self, service: Service, address: ListenAddress) -> None:
        self.server: MetricsServer = open_server(address, service)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def connect(self) -> socket.socket:
        if path := self.server.address.path:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(path)
        else:
            connection = socket.create_connection(self.server.server_address[:2], timeout=60)  # type: ignore[arg-type]
        connection.settimeout(60)
        return connection

    def ask(self, request: bytes) -> bytes:
        with self.connect() as connection:
            connection.sendall(request)
            return read_all(connection)

    def end(self) -> None:
        self.server.end()
        self.thread.join(30)
        assert not self.thread.is_alive()


def read_all(connection: Any) -> bytes:
    """All that is sent until the end of the connection."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Running]]:
    """``serve(admission=…, render=…)``; half requests have a fraction of a second here."""
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(http_server, "_DRAIN_SECONDS", 0.1)
    started: list[Running] = []

    def start(address: ListenAddress | None = None, **changes: Any) -> Running:
        values: dict[str, Any] = {
            "admission": LOCAL,
            "render": lambda: TEXT,
            "content_type": "text/x",
            "complain": print,
        }
        service = Service(**values | changes)
        started.append(Running(service, address or ListenAddress(host="127.0.0.1", port=0)))
        return started[-1]

    yield start
    for running in started:
        running.end()


def test_a_scrape(serve: Callable[..., Running]) -> None:
    answer = serve().ask(GOOD)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert status(answer) == 200
    assert body.decode() == TEXT
    assert b"Content-Type: text/x" in head
    assert b"Python" not in head
    assert status(serve().ask(b"GET / HTTP/1.0\nHost: LocalHost\n\n")) == 200


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 421),
        (b"GET http://localhost/metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /metrics\r\n\r\n", 421),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx", 405),
        (b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET /metrics/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /%2e%2e/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET /\xff\xfe\x00 \xe2\x82\xac\r\n\r\n", 400),
        (b"\r\n\r\n", 0),
        (b"GET /metrics HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"a" * 100_000, 431),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 9000 + b"\r\n\r\n", 431),
    ],
)
def test_what_is_not_answered(serve: Callable[..., Running], request_: bytes, wanted: int) -> None:
    running = serve()
    answer = running.ask(request_)
    assert status(answer) == wanted
    assert b"evil" not in answer
    assert TEXT.encode() not in answer
    assert status(running.ask(GOOD)) == 200


def test_what_follows_a_request_is_not_answered(serve: Callable[..., Running]) -> None:
    assert serve().ask(GOOD * 5).count(b"HTTP/1.0") == 1


def test_half_a_request_is_not_waited_for(serve: Callable[..., Running]) -> None:
    running = serve()
    with running.connect() as half:
        half.sendall(GOOD[:-2])
        assert status(read_all(half)) == 408


def test_a_request_byte_by_byte_does_not_live_longer(serve: Callable[..., Running]) -> None:
    running = serve()
    began = time.monotonic()
    with running.connect() as slow:
        try:
            for byte in GOOD * 10:
                slow.sendall(bytes([byte]))
                time.sleep(0.05)
        except OSError:
            pass
    # All of it would take 20 s.
    assert time.monotonic() - began < 10
    assert status(running.ask(GOOD)) == 200


def test_connections_that_say_nothing_do_not_keep_a_scrape_out(
    serve: Callable[..., Running],
) -> None:
    running = serve()
    silent = [running.connect() for _ in range(12)]
    try:
        assert status(running.ask(GOOD)) == 200
    finally:
        for connection in silent:
            connection.close()


def test_no_more_than_four_at_a_time(serve: Callable[..., Running]) -> None:
    lock, most, now = threading.Lock(), 0, 0

    def render() -> str:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        with lock:
            now -= 1
        return TEXT

    running = serve(render=render)
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(status(running.ask(GOOD))))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [200] * 12
    assert most <= http_server.MOST_CONNECTIONS


def test_no_more_than_so_many_in_a_second(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MOST_A_SECOND", 20)
    running = serve()
    began = time.monotonic()
    for _ in range(11):
        assert status(running.ask(GOOD)) == 200
    assert time.monotonic() - began >= 10 / 20


def test_a_look_that_fails_is_said_and_the_next_one_is_taken(serve: Callable[..., Running]) -> None:
    complaints: list[str] = []
    texts = iter([ZeroDivisionError("of a look"), TEXT])

    def render() -> str:
        text = next(texts)
        if isinstance(text, Exception):
            raise text
        return text

    running = serve(render=render, complain=complaints.append)
    answer = running.ask(GOOD)
    assert status(answer) == 500
    assert b"of a look" not in answer
    assert complaints == ["a look failed: ZeroDivisionError: of a look"]
    assert status(running.ask(GOOD)) == 200


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (b"", 401),
        (b"Authorization: Bearer wrong\r\n", 401),
        (b"Authorization: Bearer a-long-token-0123\xff\r\n", 401),
        (b"Authorization: Basic a-long-token-0123\r\n", 401),
        (b"Authorization: Bearer a-long-token-0123\r\n" * 2, 401),
        (b"Authorization: Bearer a-long-token-0123\r\n", 200),
    ],
)
def test_a_token(serve: Callable[..., Running], sent: bytes, wanted: int) -> None:
    running = serve(admission=Admission(names=None, token=b"a-long-token-0123"))
    answer = running.ask(b"GET /metrics HTTP/1.1\r\nHost: any\r\n" + sent + b"\r\n")
    assert status(answer) == wanted
    assert (b"WWW-Authenticate: Bearer" in answer) == (wanted == 401)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if not shutil.which("openssl"):
        pytest.skip("needs openssl to make a certificate")
    place = tmp_path_factory.mktemp("tls")
    cert, key = place / "cert.pem", place / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def test_tls(serve: Callable[..., Running], certificate: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    running = serve(tls=context)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with (
        running.connect() as plain,
        trusting.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        wrapped.sendall(GOOD)
        assert TEXT.encode() in read_all(wrapped)
    assert status(running.ask(GOOD)) == 0
    silent = [running.connect() for _ in range(5)]
    with (
        running.connect() as plain,
        trusting.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        wrapped.sendall(GOOD)
        assert status(read_all(wrapped)) == 200
    for connection in silent:
        connection.close()


def scrape(
    url: str, trusting: ssl.SSLContext, headers: dict[str, str], exporter: subprocess.Popen[str]
) -> tuple[int, str]:
    """Ask as Prometheus does, once somebody answers; the status and the text."""
    deadline = time.monotonic() + 60
    while True:
        request = urllib.request.Request(url, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60, context=trusting) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
        assert exporter.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


ALLOCATES = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { free(malloc(1)); puts("ready"); fflush(stdout); return getchar() < 0; }
"""


def test_explain_listens_with_tls_to_who_has_the_token(
    certificate: tuple[Path, Path],
    tmp_path: Path,
    package_path: Path,
    running_program: Callable[..., int],
    reserve_port: Callable[[], int],
) -> None:
    """The whole command, as a scraper meets it: certificate, token, rights given up, a signal."""
    token, port = tmp_path / "token", reserve_port()
    token.write_text("a-long-token-0123\n")
    token.chmod(0o600)
    for path in certificate:
        path.chmod(0o600)
    explained = running_program("explained", ALLOCATES)
    words = ["explain", "--pid", str(explained), "--no-sql"]
    words += ["--listen", f"127.0.0.1:{port}", "--token-file", str(token)]
    words += ["--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1])]
    exporter = subprocess.Popen(
        [sys.executable, "-m", "dballoc", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package_path)},
    )
    try:
        url = f"https://localhost:{port}/metrics"
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
        right = {"Authorization": "Bearer a-long-token-0123"}
        code, text = scrape(url, trusting, right, exporter)
        assert (code, "dballoc_up 1\n" in text) == (200, True)
        assert scrape(url, trusting, {}, exporter)[0] == 401
        assert scrape(url, trusting, {"Authorization": "Bearer wrong"}, exporter)[0] == 401
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            scrape(url, ssl.create_default_context(), right, exporter)
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(url.replace("https", "http"), timeout=60)
    finally:
        exporter.terminate()
        _, errors = exporter.communicate(timeout=60)
    assert exporter.returncode == 0, errors
    assert f"https://127.0.0.1:{port}/metrics; as " in errors
    assert "a-long-token" not in errors


def test_a_unix_socket_is_its_users_and_leaves_nothing(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    path = tmp_path / "s"
    running = serve(ListenAddress(path=str(path)), admission=Admission(names=None, token=b""))
    assert path.stat().st_mode & 0o777 == 0o660
    assert status(running.ask(GOOD)) == 200
    with pytest.raises(UsageError, match="somebody listens there already"):
        serve(ListenAddress(path=str(path)))
    running.end()
    assert not path.exists()


def test_a_socket_of_a_killed_exporter_is_replaced_and_no_other_file(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    running = serve(ListenAddress(path=str(path)), admission=Admission(names=None, token=b""))
    assert status(running.ask(GOOD)) == 200
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="no socket"):
        serve(ListenAddress(path=str(tmp_path / "file")))
    assert (tmp_path / "file").read_text() == "mine"


def test_an_address_that_is_taken_is_one_line(serve: Callable[..., Running]) -> None:
    port = serve().server.server_address[1]
    with pytest.raises(UsageError, match=rf"--listen 127\.0\.0\.1:{port}: Address already in use"):
        serve(ListenAddress(host="127.0.0.1", port=port))


def test_descriptors_do_not_pile_up(serve: Callable[..., Running]) -> None:
    running = serve()
    running.ask(GOOD)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        running.ask(GOOD)
        running.ask(b"x\r\n\r\n")
    deadline = time.monotonic() + 20
    while len(os.listdir("/proc/self/fd")) > before + 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
