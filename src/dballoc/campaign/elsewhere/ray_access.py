"""Who may join a Ray cluster: whoever has the token, or on the loopback alone, everybody."""

import ipaddress
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.errors import UsageError

# Ray takes its token from the first of these that is there (authentication_token_loader.cc, Ray
# 2.60): a variable, the file that a variable names, a file in the home directory.
MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_DEFAULT_PATH = ".ray/auth_token"
# Others of 127.0.0.0/8 may be addresses that something forwards from elsewhere.
_LOOPBACK = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))


def check_access(address: str, environment: Mapping[str, str]) -> None:
    """Raise UsageError unless Ray is reached on the loopback, or with a token that nobody else can
    read. ``address``: ``HOST:PORT``, as --ray has it.
    """
    host = find_host(address)
    if not has_token(environment):
        if is_loopback(host):
            return
        raise UsageError(
            f"--ray {address}: without a token Ray lets everybody in who reaches its ports; set "
            f"{MODE}=token and {TOKEN_PATH}=FILE here and on every node "
            "(docs/how-to/many-hosts.md)"
        )
    if environment.get(TOKEN):
        return  # only this user, and root, can read the environment of a process
    if path := environment.get(TOKEN_PATH):
        _check_token_file(TOKEN_PATH, Path(path))
        return
    default = Path(environment.get("HOME") or "/") / _DEFAULT_PATH
    if not default.exists():
        raise UsageError(
            f"--ray {address}: {MODE}=token, and there is no token: set {TOKEN_PATH}=FILE here and "
            "on every node (docs/how-to/many-hosts.md)"
        )
    _check_token_file("Ray's token", default)


def _check_token_file(name: str, path: Path) -> None:
    """Raise UsageError unless a file has a token, and nobody else can read it."""
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"{name}: {path}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        raise UsageError(f"{name}: {path}: not a file with a token in it")
    if status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid()):
        raise UsageError(
            f"{name}: {path}: others can read it, and who has the token can run code on every "
            f"host; chmod 600 {path}"
        )


def has_token(environment: Mapping[str, str]) -> bool:
    """Whether Ray is told to ask for a token; it joins no cluster then without one of its own."""
    return environment.get(MODE, "").lower() == "token"


def check_nodes(address: str, nodes: Iterable[str], environment: Mapping[str, str]) -> None:
    """Raise UsageError if a cluster without a token has nodes, by their addresses, beyond the
    loopback: its head answers there too, and may listen on all addresses.
    """
    if has_token(environment):
        return
    for node in nodes:
        if not is_loopback(node):
            raise UsageError(
                f"--ray {address}: Ray lets everybody in who reaches its ports, and has a node at "
                f"{node}, which is not the loopback; start it with --node-ip-address=127.0.0.1, or "
                f"set {MODE}=token and {TOKEN_PATH}=FILE here and on every node "
                "(docs/how-to/many-hosts.md)"
            )


def check_node(asks_token: bool, environment: Mapping[str, str]) -> None:
    """Raise Unfit for a node whose Ray asks for no token although the driver has one: it takes what
    the driver sends, and everybody else's.
    """
    if has_token(environment) and not asks_token:
        raise readers.Unfit(
            f"its Ray was started without a token, and lets everybody in; set {MODE}=token and "
            f"{TOKEN_PATH}=FILE there, and start it again"
        )


def check_head(address: str, modes: Collection[str]) -> None:
    """Raise UsageError unless a cluster's head asks for a token, as its RAY_AUTH_MODE says."""
    if not modes or any(mode.lower() != "token" for mode in modes):
        raise UsageError(
            f"--ray {address}: Ray's head was started without a token, and lets everybody in who "
            f"reaches its ports; set {MODE}=token and {TOKEN_PATH}=FILE there, and start all "
            "nodes again (docs/how-to/many-hosts.md)"
        )


def check_dashboard(url: str) -> None:
    """Raise UsageError if Ray's dashboard, which runs any code sent to it, listens beyond the
    loopback. ``url``: ``HOST:PORT``, with or without a scheme; empty if there is none.
    """
    address = url.rpartition("//")[2].rstrip("/")
    if address and not is_loopback(address.rpartition(":")[0].strip("[]")):
        raise UsageError(
            f"--ray: Ray's dashboard listens at {address}, and runs any code it gets; start Ray's "
            "head with --include-dashboard=false, or with --dashboard-host=127.0.0.1"
        )


def describe_usage_reports(metadata: bytes | None) -> str | None:
    """Return in words that a cluster tells Ray's makers of its use; None if it does not, or nothing
    is known. ``metadata``: what its head has noted of itself when it was started. Pure.
    """
    try:
        noted = readers.document(metadata or b"{}")
    except readers.Unfit:
        return None
    # Noted for such reports alone (usage_lib.py, Ray 2.60).
    if not isinstance(noted, dict) or "session_start_timestamp_ms" not in noted:
        return None
    return (
        "Ray's head reports the use of this cluster to Ray's makers; start it with "
        "--disable-usage-stats to turn that off"
    )


def find_host(address: str) -> str:
    """Return the host of ``HOST:PORT``. Raises UsageError if it is not one."""
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"--ray {address}: not an address; give HOST:PORT of Ray's head node")
    return host


def is_loopback(host: str) -> bool:
    """Whether a host is this machine's loopback by its own word; a name other than localhost is
    not.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host) in _LOOPBACK
    except ValueError:
        return False
