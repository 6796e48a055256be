"""What tells of a malloc and its start: attributes of files, tables of options."""

import struct


def attribute(
    permitted: int, effective: bool = True, revision: int = 2, inheritable: int = 0
) -> bytes:
    halves = (permitted & 0xFFFFFFFF, inheritable, permitted >> 32, 0)
    words = halves[:2] if revision == 1 else halves
    rootid = struct.pack("<I", 100000) if revision == 3 else b""
    return struct.pack(f"<I{len(words)}I", revision << 24 | effective, *words) + rootid


def make_tunable(layout: str, name: str, alias: str, number: int, is_set: bool) -> bytes:
    """A record as glibc 2.36, 2.39 or 2.41 has it."""
    kind = struct.pack("<QQQ", 0, 0, 255 if name.endswith("perturb") else 9)
    match layout:
        case "2.36":
            value, bits, size = struct.pack("<Q", number), struct.pack("<?3xI", is_set, 1), 24
        case "2.39":
            value, bits, size = struct.pack("<QQ", number, 0), struct.pack("<?", is_set), 31
        case _:
            value = struct.pack("<QQQQ", 7, 0, number, 0)
            bits, size = struct.pack("<?", is_set), 39
    return name.encode().ljust(40, b"\0") + kind + value + bits + alias.encode().ljust(size, b"\0")


def make_option_table(start: int) -> bytes:
    """Names and two options of mimalloc, as they lie from ``start`` on."""
    texts = b"\0show_errors\0segment_decommit_delay\0reset_delay\0".ljust(64, b"\0")
    show, decommit, older = (
        start + texts.index(name) for name in (b"show_errors", b"decommit_delay", b"reset_delay")
    )
    options = struct.pack("<qIIQQ", 0, 1, 0, show, 0) + struct.pack(
        "<qIIQQ", -1, 2, 15, decommit, older
    )
    return texts + options
