"""What sysbench needs to encrypt its traffic: with ``--mysql-ssl=on`` it reads three files of fixed
names from its working directory (sysbench 1.0.20, drv_mysql.c), and connects nowhere without them.

The first is the certificate that the server showed when it was asked for its time, so sysbench
talks to that server alone. It must be signed by itself: for any other the client library wants the
authority's, which a server does not show, and then the load is not encrypted. The others are a
certificate of this host that nobody has signed, as servers do not ask for one, and its key, which
is used for nothing else.
"""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dballoc import readers
from dballoc.host.unprivileged.private_file import write_private
from dballoc.host.unprivileged.server_user import ServerUser

# The option that reads them.
OPTION = {"mysql-ssl": "on"}
SERVER, CLIENT, KEY = "cacert.pem", "client-cert.pem", "client-key.pem"
_VALID = datetime.timedelta(days=3650)


def write_tls_files(directory: Path, server_certificate: str, user: ServerUser) -> None:
    """Write the three files, which the client may read, into its working directory."""
    key, certificate = make_certificate()
    write_private(directory / SERVER, server_certificate, user)
    write_private(directory / CLIENT, certificate, user)
    write_private(directory / KEY, key, user)


def is_self_signed(certificate: str) -> bool:
    """Whether a certificate, PEM, was signed with its own key. Unfit if it is none."""
    try:
        parsed = x509.load_pem_x509_certificate(certificate.encode())
        if parsed.issuer != parsed.subject:
            return False
        parsed.verify_directly_issued_by(parsed)
    except InvalidSignature:
        return False
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise readers.Unfit(f"the server's certificate: {readers.reason(error)}") from None
    return True


def make_certificate() -> tuple[str, str]:
    """Return a new key, and a certificate of it that it has signed itself; PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dballoc load")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _VALID)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private.decode(), certificate.public_bytes(serialization.Encoding.PEM).decode()
