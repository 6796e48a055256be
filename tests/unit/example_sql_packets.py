"""Packets of MySQL's protocol, as a server sends them
(https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html).
"""

import struct
from collections.abc import Sequence

# Capability flags (group__group__mysql__capabilities__flags.html).
PROTOCOL_41, TLS, SECURE, PLUGIN_AUTH = 1 << 9, 1 << 11, 1 << 15, 1 << 19
OFFERED = PROTOCOL_41 | TLS | SECURE | PLUGIN_AUTH
FULL_LOGIN = b"\x01\x04"
OK = b"\x00\x00\x00\x02\x00\x00\x00"
END_OF_ROWS = b"\xfe\x00\x00\x02\x00"

# Types of columns.
DECIMAL, LONGLONG, VARCHAR = 246, 8, 253
_UTF8 = 33


def packet(number: int, body: bytes) -> bytes:
    """Put the header before a packet: its length, and its number in the conversation."""
    return struct.pack("<I", len(body))[:3] + bytes([number % 256]) + body


GREETING = packet(
    0,
    b"\x0a8.4.0\x00"
    + struct.pack("<I", 1)
    + b"saltsalt\x00"
    + struct.pack("<HBHHB", OFFERED & 0xFFFF, 255, 2, OFFERED >> 16, 21)
    + bytes(10)
    + b"saltsaltsalt\x00caching_sha2_password\x00",
)


def make_text(content: bytes) -> bytes:
    """Put its length before a text of less than 64 KiB."""
    size = len(content)
    return (bytes([size]) if size < 251 else b"\xfc" + struct.pack("<H", size)) + content


def make_column(kind: int) -> bytes:
    """Describe a column of a type."""
    names = [b"def", b"", b"", b"", b"name", b""]
    numbers = struct.pack("<BHIBHB2x", 12, _UTF8, 20, kind, 0, 0)
    return b"".join(map(make_text, names)) + numbers


def make_result(kinds: Sequence[int], rows: Sequence[Sequence[bytes]]) -> bytes:
    """Answer a statement with rows; ``kinds``: the columns' types."""
    bodies = [
        bytes([len(kinds)]),
        *map(make_column, kinds),
        END_OF_ROWS,
        *(b"".join(map(make_text, row)) for row in rows),
        END_OF_ROWS,
    ]
    return b"".join(packet(number, body) for number, body in enumerate(bodies, 1))
