"""Import PyMySQL without cryptography until a password must be encrypted with a server's key.
Only a TCP connection without TLS does that; ``dballoc explain`` connects to sockets.
"""

import importlib
import sys
from typing import Any


def postpone_cryptography() -> None:
    """Import PyMySQL; it imports cryptography when it encrypts a password. Does nothing if either
    is imported already.
    """
    if "pymysql" in sys.modules or "cryptography" in sys.modules:
        return
    sys.modules["cryptography"] = None  # type: ignore[assignment]
    try:
        auth: Any = importlib.import_module("pymysql._auth")
    finally:
        del sys.modules["cryptography"]

    def encrypt(*arguments: bytes) -> bytes:
        importlib.reload(auth)  # defines the function anew, in the same module
        encrypted: bytes = auth.sha2_rsa_encrypt(*arguments)
        return encrypted

    auth.sha2_rsa_encrypt = encrypt
