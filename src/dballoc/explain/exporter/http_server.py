"""A small HTTP server for one document: few connections at a time, each with one request, bounded
in bytes and in time. Anybody on the machine may connect, and means ill.
"""

import contextlib
import io
import os
import socket
import socketserver
import ssl
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from dballoc.explain.exporter.address_and_access import Admission, ListenAddress
from dballoc.ground.errors import UsageError

# How many are answered at a time; so many more wait in the kernel.
MOST_CONNECTIONS, _BACKLOG = 4, 16
# And how many are begun in a second: an answer takes some 0.4 ms of CPU, whoever asks for it.
MOST_A_SECOND = 40
# Bytes of a request, headers included, and seconds in which it must be there; seconds in which the
# answer must be taken.
MOST_REQUEST, REQUEST_SECONDS, ANSWER_SECONDS = 8 << 10, 1.5, 5.0
_DRAIN_SECONDS = 0.5
_PLAIN = "text/plain; charset=utf-8"
_REFUSALS = {
    400: "not a request that is understood here",
    401: "a token is missing or wrong: Authorization: Bearer TOKEN",
    404: "only /metrics is here",
    405: "only GET is answered",
    408: "the request came too slowly",
    421: "the Host header names another server",
    431: "the request is too large",
    500: "this look failed; the exporter's standard error says how",
}


@dataclass(frozen=True, kw_only=True)
class Service:
    """What is served. ``render``: makes the text of /metrics, ``content_type`` is its own;
    ``complain``: is told in a line what went wrong; ``tls``: None for plain HTTP.
    """

    admission: Admission
    render: Callable[[], str]
    content_type: str
    complain: Callable[[str], None]
    tls: ssl.SSLContext | None = None


def open_server(address: ListenAddress, service: Service) -> "MetricsServer":
    """Listen, and return the server; its ``serve_forever`` answers. Raises UsageError if the
    address cannot be had.
    """
    try:
        return _UnixServer(address, service) if address.path else MetricsServer(address, service)
    except OSError as error:
        where = f"unix:{address.path}" if address.path else address.authority
        raise UsageError(f"--listen {where}: {error.strerror or error}; give another") from None


class MetricsServer(socketserver.TCPServer):
    """Answers each connection in a thread of its own, while there are fewer than so many."""

    allow_reuse_address = True
    request_queue_size = _BACKLOG

    def __init__(self, address: ListenAddress, service: Service) -> None:
        self.address, self.service = address, service
        self.address_family = self._family
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._ending = False
        self._next = 0.0
        super().__init__(self._place, _Handler)

    @property
    def _family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address.host else socket.AF_INET

    @property
    def _place(self) -> Any:
        return self.address.host, self.address.port

    def get_request(self) -> Any:
        """Accept a connection once there is a slot for it: those who wait do so in the kernel."""
        while not self._slots.acquire(timeout=0.2):
            if self._ending:
                raise OSError("ending")
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + 1 / MOST_A_SECOND
        try:
            return super().get_request()
        except BaseException:
            self._slots.release()
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread. Each ends within the bounds above and the time of a look."""
        thread = threading.Thread(
            target=self._answer, args=(request, client_address), daemon=True, name="scrape"
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads here
            self.shutdown_request(request)
            self._slots.release()

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            with contextlib.suppress(OSError):  # whoever asked has gone, or is too slow
                self.finish_request(request, client_address)
        finally:
            self.shutdown_request(request)
            self._slots.release()

    def end(self) -> None:
        """Stop to accept, and close the socket. Not from the thread of ``serve_forever``."""
        self._ending = True
        self.shutdown()
        self.server_close()


class _UnixServer(MetricsServer):
    """The same on a Unix socket, which its user and group may connect to."""

    _bound = False

    @property
    def _family(self) -> socket.AddressFamily:
        return socket.AF_UNIX

    @property
    def _place(self) -> Any:
        return self.address.path

    def server_bind(self) -> None:
        """Bind, in place of a socket that an exporter left which was killed."""
        _remove_dead_socket(self.address.path)
        before = os.umask(0o117)
        try:
            self.socket.bind(self.address.path)
            self._bound = True
        finally:
            os.umask(before)
        self.server_address = self.address.path  # type: ignore[assignment]

    def get_request(self) -> Any:
        request, _ = super().get_request()
        return request, ("", 0)

    def server_close(self) -> None:
        super().server_close()
        # In a directory that only root may write, one that has given up root cannot; the next
        # exporter takes its place.
        if self._bound:
            self._bound = False
            with contextlib.suppress(OSError):
                os.unlink(self.address.path)


def _remove_dead_socket(path: str) -> None:
    """Remove a socket that nobody listens on. Raises OSError if there is anything else."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(0, "there is a file that is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as attempt:
        attempt.settimeout(REQUEST_SECONDS)
        try:
            attempt.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(0, "somebody listens there already")


class _RequestRefused(Exception):
    """A request that is not answered with the document; the HTTP status, 0 for no answer at all."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """Reads one request within bounds, and answers it. Whatever follows it is not read."""

    server: MetricsServer
    protocol_version = request_version = "HTTP/1.0"

    def setup(self) -> None:
        """Use the plain connection: all reading and writing has deadlines here."""
        self.connection = self.request
        self._answer = io.BytesIO()
        self.wfile = self._answer
        self._is_slow = False

    def finish(self) -> None:
        """Send what was written, and close the connection."""
        with self.connection:
            self._send_answer(self._answer.getvalue())

    def _send_answer(self, answer: bytes) -> None:
        if not answer:
            return
        # sendall takes it for the whole of the data.
        self.connection.settimeout(ANSWER_SECONDS)
        self.connection.sendall(answer)
        if not self._is_slow:
            self._drain()

    def _drain(self) -> None:
        """Read a little of what follows the request: the kernel drops an answer that was not taken
        yet when a connection is closed with data unread.
        """
        self.connection.shutdown(socket.SHUT_WR)
        deadline, data_left = time.monotonic() + _DRAIN_SECONDS, MOST_REQUEST
        while data_left > 0 and (seconds := deadline - time.monotonic()) > 0:
            self.connection.settimeout(seconds)
            piece = self.connection.recv(1024)
            if not piece:
                return
            data_left -= len(piece)

    def handle(self) -> None:
        """Answer one request."""
        self.close_connection = True
        try:
            self.rfile = io.BytesIO(self._read_request())
            self.raw_requestline = self.rfile.readline(MOST_REQUEST)
            if self.parse_request():
                self._send(200, self.server.service.content_type, self._render())
        except _RequestRefused as refusal:
            self._is_slow = refusal.status == 408
            if refusal.status:
                self.send_error(refusal.status)

    def _render(self) -> str:
        service = self.server.service
        hosts, authorizations = (
            self.headers.get_all(name, []) for name in ("Host", "Authorization")
        )
        if status := service.admission.refuse(hosts, authorizations):
            raise _RequestRefused(status)
        if self.command != "GET":
            raise _RequestRefused(405)
        if self.path.partition("?")[0] not in ("/metrics", "/"):
            raise _RequestRefused(404)
        try:
            return service.render()
        except Exception as error:  # whatever a look runs into, the next one may do better
            service.complain(f"a look failed: {type(error).__name__}: {error}")
            raise _RequestRefused(500) from None

    def _read_request(self) -> bytes:
        """Read up to the empty line that ends the headers."""
        deadline = time.monotonic() + REQUEST_SECONDS
        self._set_timeout(deadline)
        if tls := self.server.service.tls:
            self.connection = self.request = tls.wrap_socket(
                self.request, server_side=True, do_handshake_on_connect=False
            )
            self.connection.do_handshake()
        data = bytearray()
        while b"\r\n\r\n" not in data and b"\n\n" not in data:
            if len(data) > MOST_REQUEST:
                raise _RequestRefused(431)
            self._set_timeout(deadline)
            try:
                piece = self.connection.recv(1024)
            except TimeoutError:
                raise _RequestRefused(408) from None
            if not piece:
                raise _RequestRefused(0)
            data += piece
        if len(data) > MOST_REQUEST:
            raise _RequestRefused(431)
        return bytes(data)

    def _set_timeout(self, deadline: float) -> None:
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise _RequestRefused(408)
        self.connection.settimeout(seconds)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with a status and a fixed line: nothing of a request is echoed."""
        code = code if code in _REFUSALS else 400
        self._send(code, _PLAIN, _REFUSALS[code] + "\n")

    def _send(self, status: int, content_type: str, text: str) -> None:
        self.request_version = self.protocol_version  # an answer without headers is for HTTP/0.9
        body = text.encode("utf-8", "replace")
        self.send_response_only(status)
        for name, value in (
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: whoever connects would fill the log."""
