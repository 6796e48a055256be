"""What sysbench needs to encrypt its traffic: with ``--mysql-ssl=on`` it reads three files of fixed
names from its working directory (sysbench 1.0.20, drv_mysql.c), and does nothing without them.

They are one certificate that nobody has signed. It proves nothing to the server, which does not ask
for one, and the server's is not checked either: the account's password is what proves who is who.
"""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.x509.oid import NameOID

from dballoc.host.unprivileged.private_file import write_private
from dballoc.host.unprivileged.server_user import ServerUser

# The option that reads them.
OPTION = {"mysql-ssl": "on"}
_VALID = datetime.timedelta(days=3650)


def write_tls_files(directory: Path, key: RSAPrivateKey, user: ServerUser) -> None:
    """Write the three files, which the client may read, into its working directory."""
    certificate = _make_certificate(key).public_bytes(serialization.Encoding.PEM).decode()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    write_private(directory / "cacert.pem", certificate, user)
    write_private(directory / "client-cert.pem", certificate, user)
    write_private(directory / "client-key.pem", private, user)


def _make_certificate(key: RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dballoc load")])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _VALID)
        .sign(key, hashes.SHA256())
    )
