"""A request to ``explain --listen``, from anybody who can connect."""

import contextlib
import socket
from types import SimpleNamespace

from dballoc.explain.exporter import http_server
from dballoc.explain.exporter.address_and_access import ListenAddress, make_admission
from dballoc.explain.exporter.http_server import Service

OF = ("dballoc.explain.exporter.http_server", "dballoc.explain.exporter.address_and_access")
PRIVILEGED = True  # it may read every process

_TEXT = "what nobody else may read\n"
_TOKEN = b"0123456789abcdef"
_SERVICE = Service(
    admission=make_admission(ListenAddress(host="127.0.0.1", port=9109), _TOKEN),
    render=lambda: _TEXT,
    content_type="text/plain",
    complain=lambda line: None,
)


def seeds() -> list[bytes]:
    return [
        b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9109\r\n"
        b"Authorization: Bearer 0123456789abcdef\r\n\r\n",
        b"GET / HTTP/1.0\nHost: localhost:9109\n\n",
        b"POST /metrics?a=b HTTP/1.1\r\nHost: [::1]:9109\r\nContent-Length: 3\r\n\r\nabc",
        b"GET /metrics\r\n\r\n",
    ]


def fuzz(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data[: 64 << 10])
        theirs.shutdown(socket.SHUT_WR)
        http_server._Handler(ours, ("", 0), SimpleNamespace(service=_SERVICE))  # type: ignore[arg-type]
        theirs.settimeout(10)
        answer = b""
        # What is sent beyond a request's most bytes is not read, and the kernel says so.
        with contextlib.suppress(ConnectionResetError):
            while piece := theirs.recv(65536):
                answer += piece
    assert answer.startswith(b"HTTP/1.0 ") or not answer
    # The document goes to those alone who know the token.
    assert _TEXT.encode() not in answer or _TOKEN in data
