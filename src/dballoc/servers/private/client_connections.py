"""Connections to a private server, by its own counts: how many were made, and how many of them are
encrypted. What a client is asked for does not decide that: its library may encrypt by itself
wherever the server can.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dballoc.servers.private.admin_connection import Admin

_MADE, _ENCRYPTED = "Connections", "Ssl_finished_accepts"
# Until when the server's certificate is valid; empty without one, and so without TLS.
_CERTIFICATE = "Ssl_server_not_after"
_HAS_TLS, _VERSIONS = "have_ssl", "tls_version"
_STATUS = f"SHOW GLOBAL STATUS WHERE Variable_name IN {(_MADE, _ENCRYPTED, _CERTIFICATE)}"
_VARIABLES = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {(_HAS_TLS, _VERSIONS)}"
# As results may have them (store/column_types.py).
_PLAIN = re.compile(r"[A-Za-z0-9.,]{1,100}")


@dataclass(frozen=True, kw_only=True)
class ClientConnections:
    """Connections that clients made. ``tls``: the versions of TLS that the server offers, as its
    variable has them; empty if it offers none.
    """

    tls: str
    made: int
    encrypted: int


@dataclass(frozen=True, kw_only=True)
class OwnConnections:
    """Connections that dballoc made meanwhile; ``over_tcp``: as for :class:`ConnectionMeter`."""

    made: int
    over_tcp: bool


class ConnectionMeter:
    """Counts the connections to a server from now on. ``own_connections``: those of them that are
    dballoc's; ``over_tcp``: these are made over TCP, and so encrypted wherever the server offers
    that. Raises pymysql.Error as it comes.
    """

    def __init__(self, admin: Admin, *, over_tcp: bool) -> None:
        self.own_connections = 0
        self._over_tcp = over_tcp
        self._admin = admin
        self._status = _read(admin, _STATUS)
        self._variables = _read(admin, _VARIABLES)

    def read(self) -> ClientConnections | None:
        """Return those of clients; None of a server that does not count encrypted ones. Raises
        pymysql.Error as it comes.
        """
        own_connections = OwnConnections(made=self.own_connections, over_tcp=self._over_tcp)
        status = _read(self._admin, _STATUS)
        return compare_counts(self._variables, self._status, status, own_connections)


def _read(admin: Admin, statement: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in admin.rows(statement)}


def compare_counts(
    variables: Mapping[str, str],
    before: Mapping[str, str],
    after: Mapping[str, str],
    own_connections: OwnConnections,
) -> ClientConnections | None:
    """Return clients' connections between two readings of a server's status, without so many of
    dballoc's; None if it has not both counts. Pure.
    """
    counts = [status.get(name, "") for status in (before, after) for name in (_MADE, _ENCRYPTED)]
    if not all(text.isdecimal() for text in counts):
        return None
    made_before, encrypted_before, made, encrypted = map(int, counts)
    tls = _find_versions(variables, after)
    own_encrypted = own_connections.made if own_connections.over_tcp and tls else 0
    return ClientConnections(
        tls=tls,
        made=max(0, made - made_before - own_connections.made),
        encrypted=max(0, encrypted - encrypted_before - own_encrypted),
    )


def _find_versions(variables: Mapping[str, str], status: Mapping[str, str]) -> str:
    # Newer servers do not have the first variable: they have TLS if they have a certificate.
    by_certificate = "YES" if status.get(_CERTIFICATE) else "NO"
    if variables.get(_HAS_TLS, by_certificate) != "YES":
        return ""
    versions = variables.get(_VERSIONS, "").replace(" ", "")
    return versions if _PLAIN.fullmatch(versions) else "TLS"
