"""``dballoc explain --listen``: metrics for a scraper, until a signal ends it."""

import dataclasses
import os
import sys
from collections.abc import Callable

from dballoc.cli.explain_parts.explain_request import Request, Target
from dballoc.cli.shared.safe_output import safe
from dballoc.explain import explanation, find_server
from dballoc.explain.explanation import Explanation
from dballoc.explain.exporter.address_and_access import parse_listen_address
from dballoc.explain.exporter.look_cache import ServerLook, look_at_server
from dballoc.explain.exporter.run_exporter import (
    DEFAULT_USER,
    Listening,
    check_listening,
    run_exporter,
)
from dballoc.host.abandonable.abandonable_work import AbandonableWork
from dballoc.host.abandonable.look_limits import scrape_limits
from dballoc.host.process.handle import Process
from dballoc.host.process.read_rights import open_process
from dballoc.process.heaps.heap_probe_estimate import AskProbe
from dballoc.servers.running.credentials import Credentials

# Seconds beyond the limit of a look.
_SECONDS_TO_MANAGE = 0.5


def serve_metrics(request: Request, address: str, sample: AskProbe) -> None:
    """Serve at ``address`` what ``request`` names. Raises UsageError if it cannot begin."""
    flags = request.listening
    listening = Listening(
        address=parse_listen_address(address),
        tls_cert=flags.tls_cert,
        tls_key=flags.tls_key,
        token_file=flags.token_file,
        run_as=flags.run_as or DEFAULT_USER,
    )
    check_listening(listening)
    pace = request.watching.parse_pace()
    login = _find_login(request.target, listening.run_as)

    find_process = _make_finder(request.target)

    def look(process: Process) -> Explanation:
        return explanation.explain(process, login, sample=sample)

    limits = scrape_limits()
    longer = dataclasses.replace(limits, seconds=limits.seconds + _SECONDS_TO_MANAGE)
    reader = AbandonableWork[None, ServerLook](
        lambda _: look_at_server(find_process, look), limits, "the server"
    )
    # The threads that answer cannot fork safely. So a process of one thread starts the readers.
    manager = AbandonableWork[None, ServerLook](reader.run, longer, "the server")
    run_exporter(listening, manager, pace, _say)


def _make_finder(target: Target) -> Callable[[], Process]:
    """Return what finds the server's process before each look. A later process with the same PID is
    not taken for it. Raises UsageError if there is none of that PID.
    """
    if target.server.pid is None:
        return lambda: find_server.find_server(target.server)
    named = open_process(target.server.pid)

    def check_named() -> Process:
        named.check_running()
        return named

    return check_named


def _find_login(target: Target, run_as: str) -> Credentials | None:
    """Return the credentials, read before this process becomes another user. Without a password,
    the user of this process: the server asks the kernel who connects (unix_socket, auth_socket).
    """
    if target.without_sql:
        return None
    login = target.find_login()
    if os.geteuid() == 0 and login.password is None and login.user == "root":
        return dataclasses.replace(login, user=run_as)
    return login


def _say(line: str) -> None:
    print(f"dballoc: {safe(line)}", file=sys.stderr, flush=True)
