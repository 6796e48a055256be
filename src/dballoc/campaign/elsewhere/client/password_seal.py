"""A password for one block, encrypted for the client host that has the private key. So Ray, which
carries it, and whoever reads Ray's objects and logs, never has it.
"""

import base64
import secrets

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from dballoc.ground import readers

_BITS = 3072
_PADDING = padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=None)


def make_password() -> str:
    """Return a random password that any server takes: MySQL takes 32 characters where it
    replicates, and the first four are for rules that a data directory may bring.
    """
    return f"Aa1-{secrets.token_hex(14)}"


def make_private_key() -> rsa.RSAPrivateKey:
    """Return a new private key, for as long as the process lives."""
    return rsa.generate_private_key(public_exponent=65537, key_size=_BITS)


def format_public_key(key: rsa.RSAPrivateKey) -> str:
    """Return the public half of a key, PEM."""
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


def seal(password: str, public_key: str) -> str:
    """Encrypt a password, base64. Raises Unfit if the key is no RSA key of our length."""
    try:
        key = serialization.load_pem_public_key(public_key.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise readers.Unfit(f"the client host's key: {readers.reason(error)}") from None
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size != _BITS:
        raise readers.Unfit(f"the client host's key is no RSA key of {_BITS} bits")
    return base64.b64encode(key.encrypt(password.encode(), _PADDING)).decode()


def unseal(sealed: str, key: rsa.RSAPrivateKey) -> str:
    """Decrypt a password. Raises Unfit if it was not encrypted for this key."""
    try:
        return key.decrypt(base64.b64decode(sealed, validate=True), _PADDING).decode()
    except ValueError:
        raise readers.Unfit("the password was not encrypted for this client host") from None
