"""Serve a live server's memory until a signal ends it: open what needs rights, give them up, and
answer.
"""

import os
import pwd
import signal
import ssl
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dballoc.explain.exporter import http_server
from dballoc.explain.exporter.address_and_access import ListenAddress, make_admission
from dballoc.explain.exporter.http_server import Service
from dballoc.explain.exporter.look_cache import LookCache, ServedLook, ServerLook
from dballoc.explain.output import openmetrics
from dballoc.explain.watch import WatchPace
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.files.foreign_file import open_foreign_file
from dballoc.host.abandonable.abandonable_work import AbandonableWork
from dballoc.host.unprivileged import keep_capabilities
from dballoc.host.unprivileged.sandbox import ELF_PARSER, SandboxError

DEFAULT_USER = "nobody"
# A token is guessed by whoever can reach the port.
_SHORTEST_TOKEN, _LONGEST_TOKEN = 16, 4096
# What a look needs of root's rights: to read another user's process, and the files that it names
# where only that user may pass.
_NEEDED = (keep_capabilities.CAP_SYS_PTRACE, keep_capabilities.CAP_DAC_READ_SEARCH)


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where and as whom to serve; files: None where there are none."""

    address: ListenAddress
    tls_cert: Path | None
    tls_key: Path | None
    token_file: Path | None
    run_as: str


def check_listening(listening: Listening) -> None:
    """Raises UsageError for an address that is not safe to serve at."""
    if (listening.tls_cert is None) != (listening.tls_key is None):
        raise UsageError("give --tls-cert and --tls-key together")
    address = listening.address
    if address.path and listening.tls_cert:
        raise UsageError("--tls-cert goes with an IP address: a Unix socket needs no TLS")
    if not address.is_local and not (listening.tls_cert and listening.token_file):
        raise UsageError(
            f"--listen {address.authority}: everybody on the network could read it: give "
            "--tls-cert, --tls-key and --token-file too, or listen on 127.0.0.1"
        )


def run_exporter(
    listening: Listening,
    reader: AbandonableWork[None, ServerLook],
    pace: WatchPace,
    say: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM. ``reader``: takes the looks; ``say``: prints a line. Raises
    UsageError if it cannot begin.
    """
    cache = LookCache(lambda: reader.run(None), pace, say)
    token = _read_token(listening.token_file) if listening.token_file else b""
    service = Service(
        admission=make_admission(listening.address, token),
        render=lambda: render_metrics(cache.serve()),
        content_type=CONTENT_TYPE,
        complain=say,
        tls=_load_tls(listening),
    )
    user = _find_user(listening.run_as)
    ended = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: ended.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    server = http_server.open_server(listening.address, service)
    try:
        _prepare_parser()
        rights = _give_up_rights(user)
        # Before the first thread, and with no more rights than a look needs.
        reader.start()
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="accept")
        thread.start()
        try:
            say(f"{_describe_place(listening)}; {rights}")
            ended.wait()
        finally:
            reader.kill_child()
            server.end()
            thread.join()
    finally:
        reader.close()
        server.server_close()
        ELF_PARSER.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _describe_place(listening: Listening) -> str:
    address = listening.address
    if address.path:
        return f"GET /metrics on unix:{address.path}"
    return f"{'https' if listening.tls_cert else 'http'}://{address.authority}/metrics"


def _find_user(name: str) -> pwd.struct_passwd:
    try:
        user = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise UsageError(f"--run-as {name!a:.80}: there is no such user on this host") from None
    if user.pw_uid == 0:
        raise UsageError("--run-as root: it gives up root's rights; name another user")
    return user


def _prepare_parser() -> None:
    """Start what parses files, where this is root: the user may not pass to our own interpreter
    where that is root's alone, as the portable file's is. Raises UsageError if it cannot be
    started.
    """
    if os.geteuid() != 0:
        return
    try:
        ELF_PARSER.prepare_children()
    except SandboxError as error:
        raise UsageError(f"--listen: the files of a server cannot be read: {error}") from None


def _give_up_rights(user: pwd.struct_passwd) -> str:
    """Become the user, where this is root, and return in words what is left."""
    is_root = os.geteuid() == 0
    try:
        kept = keep_capabilities.keep_capabilities(user.pw_uid, user.pw_gid, _NEEDED)
    except OSError as error:
        raise UsageError(
            f"--run-as {user.pw_name}: rights cannot be given up here: {error.strerror or error}; "
            "start it as that user, with CAP_SYS_PTRACE alone"
        ) from None
    name = user.pw_name if is_root else f"user {os.geteuid()}"
    rights = " and ".join(keep_capabilities.NAMES[number] for number in kept)
    return f"as {name}, with {rights or 'no rights'} and no way to more"


def _read_token(path: Path) -> bytes:
    """Read the token that a scraper must send. Raises UsageError if others can read it too, or if
    it can be guessed.
    """
    try:
        with readers.open_file(path) as file:
            token = file.read(_LONGEST_TOKEN + 1).strip()
            mode = os.fstat(file.fileno()).st_mode
        if len(token) > _LONGEST_TOKEN:
            raise readers.Unfit(f"is larger than {_LONGEST_TOKEN} bytes")
    except (readers.Unfit, OSError) as error:
        raise UsageError(f"--token-file {path}: {error}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"--token-file {path}: others may read it; chmod 600 {path}")
    printable = token.isascii() and token.decode("ascii", "replace").isprintable()
    if len(token) < _SHORTEST_TOKEN or not printable or b" " in token:
        raise UsageError(
            f"--token-file {path}: a token is {_SHORTEST_TOKEN} or more letters, digits and signs "
            "on one line; openssl rand -hex 32 makes one"
        )
    return token


def _load_tls(listening: Listening) -> ssl.SSLContext | None:
    if not (listening.tls_cert and listening.tls_key):
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        with (
            open_foreign_file(listening.tls_cert) as cert,
            open_foreign_file(listening.tls_key) as key,
        ):
            # A key with a passphrase is refused: there may be no terminal to ask on.
            context.load_cert_chain(
                f"/proc/self/fd/{cert.fileno()}", f"/proc/self/fd/{key.fileno()}", password=""
            )
    except (OSError, ValueError) as error:
        reason = readers.reason(error)
        raise UsageError(
            f"--tls-cert {listening.tls_cert}, --tls-key {listening.tls_key}: {reason}; give a "
            "certificate and its own key as PEM, the key without a passphrase"
        ) from None
    return context


CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_END = "# EOF\n"


def render_metrics(served: ServedLook) -> str:
    """Return all metrics; without a server only the exporter's own, with ``dballoc_up`` 0."""
    look = served.explanation
    gauge, counter = openmetrics.format_gauge, openmetrics.format_counter
    return "".join(
        [
            openmetrics.render_openmetrics(look).removesuffix(_END) if look else "",
            gauge("dballoc_up", "", "1 if the server could be looked at.", int(bool(look))),
            gauge(
                "dballoc_look_age",
                "seconds",
                "How long ago the look was taken whose figures these are.",
                round(served.age, 3),
            ),
            gauge(
                "dballoc_look_cpu",
                "seconds",
                "CPU time of that look.",
                round(served.cost, 6),
            ),
            gauge(
                "dballoc_look_pause",
                "seconds",
                "The least time from one look to the next; what is asked between is served again.",
                round(served.pause, 3),
            ),
            counter("dballoc_looks", "", "Looks since the exporter started.", served.looks),
            counter(
                "dballoc_look_failures",
                "",
                "Looks that found no server, or one that could not be read.",
                served.failures,
            ),
            _END,
        ]
    )
