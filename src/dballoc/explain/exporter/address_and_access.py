"""Where ``explain --listen`` listens, and who may ask there. Pure."""

import hmac
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.ground.errors import UsageError

_UNIX = "unix:"
# sun_path of unix(7), with its NUL.
_LONGEST_PATH = 107
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
# A name and a port (RFC 9110, 7.2).
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?")
_EXAMPLE = "write 127.0.0.1:9109, [::1]:9109 or unix:/run/dballoc-exporter/socket"


@dataclass(frozen=True, kw_only=True)
class ListenAddress:
    """A Unix socket's ``path``, or a ``host`` (an IP address) with its ``port``."""

    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return bool(self.path) or ipaddress.ip_address(self.host).is_loopback

    @property
    def authority(self) -> str:
        """``127.0.0.1:9109``, ``[::1]:9109``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress:
    """Parse the value of ``--listen``. Raises UsageError if it is none."""
    if text.startswith(_UNIX):
        path = text.removeprefix(_UNIX)
        if not path.startswith("/") or "\0" in path or len(path.encode()) > _LONGEST_PATH:
            raise UsageError(
                f"--listen {text!a:.200}: the path of a socket is absolute and has at most "
                f"{_LONGEST_PATH} bytes; {_EXAMPLE}"
            )
        return ListenAddress(path=path)
    host, colon, port = text.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        raise UsageError(
            f"--listen {text!a:.200}: not an IP address with a port, nor a socket; {_EXAMPLE}"
        ) from None
    fits = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 2**16
    if not colon or not fits or ("[" in host) != (address.version == 6):
        raise UsageError(f"--listen {text!a:.200}: no port from 1 to 65535; {_EXAMPLE}")
    return ListenAddress(host=str(address), port=int(port))


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Who may ask. ``names``: the names in the Host header that are answered, whatever the port
    (``kubectl port-forward`` and ``ssh -L`` have another), None for any; ``token``: what must
    follow ``Bearer`` in the Authorization header, empty for nothing.
    """

    names: frozenset[str] | None
    token: bytes

    def refuse(self, hosts: Sequence[str], authorizations: Sequence[str]) -> int:
        """Return the HTTP status of a refusal, 0 for none, by the values of these two headers.

        A page that somebody looks at may ask us in that browser's name once its own name leads to
        127.0.0.1 (DNS rebinding). The browser then sends that page's name as Host.
        """
        if self.names is not None and not self._is_local_name(hosts):
            return 421
        if not self.token:
            return 0
        sent = authorizations[0].encode("latin-1", "replace") if len(authorizations) == 1 else b""
        return 0 if hmac.compare_digest(sent, b"Bearer " + self.token) else 401

    def _is_local_name(self, hosts: Sequence[str]) -> bool:
        match = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        return match is not None and match[1] in (self.names or ())


def make_admission(address: ListenAddress, token: bytes) -> Admission:
    """Return who may ask at an address: on loopback, whoever names it so. Browsers reach no Unix
    socket, and elsewhere only those who know the token are answered, which no page does.
    """
    if address.path or not address.is_local:
        return Admission(names=None, token=token)
    address_name = address.authority.rpartition(":")[0]
    return Admission(names=frozenset((*_LOCAL_NAMES, address_name)), token=token)
