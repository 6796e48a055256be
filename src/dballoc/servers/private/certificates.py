"""Certificates for the load of a private server over TLS: an authority of our own, which signs the
server's and the client's. They are made once a process, and written where a server is started.

What they protect is the load on its way. They open nothing: whoever connects needs the password
too.
"""

import datetime
import ipaddress
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from dballoc.host.unprivileged.private_file import write_private
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.servers.private.certificate_files import (
    AUTHORITY,
    CLIENT,
    CLIENT_KEY,
    SERVER,
    SERVER_KEY,
)

# What servers of the last fifteen years take.
_BITS = 2048
# A campaign of days ends before them, and a host whose clock is behind takes them.
_BEFORE, _AFTER = datetime.timedelta(days=2), datetime.timedelta(days=60)

_Signer = tuple[x509.Certificate, rsa.RSAPrivateKey]


def write_certificates(directory: Path, host: str, user: ServerUser) -> Path:
    """Write the files for a server that listens on the address ``host``, and for its clients, into
    a directory that the server user may enter; return that. Raises OSError if they cannot be
    written.
    """
    for name, text in _make_certificates(host).items():
        write_private(directory / name, text, user)
    return directory


@cache
def _make_certificates(host: str) -> dict[str, str]:
    """Return the text of each file, PEM. A key takes a tenth of a second."""
    authority = _sign("dballoc", None, [])
    server = _sign("dballoc server", authority, [x509.IPAddress(ipaddress.ip_address(host))])
    client = _sign("dballoc client", authority, [])
    return {
        AUTHORITY: _format_certificate(authority),
        SERVER: _format_certificate(server),
        SERVER_KEY: _format_key(server),
        CLIENT: _format_certificate(client),
        CLIENT_KEY: _format_key(client),
    }


def _sign(title: str, authority: _Signer | None, names: list[x509.GeneralName]) -> _Signer:
    """Make a key with a certificate for ``names``, signed by the ``authority``; None: by itself."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    issuer, issuer_key = (authority[0].subject, authority[1]) if authority else (subject, key)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256()), key


def _format_certificate(signer: _Signer) -> str:
    return signer[0].public_bytes(serialization.Encoding.PEM).decode()


def _format_key(signer: _Signer) -> str:
    # The form that all servers and libraries read.
    return (
        signer[1]
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        .decode()
    )
