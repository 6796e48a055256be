"""An ELF file of a target: what the sandbox's parser tells of it, and of its symbols."""

import contextlib
import os
import re
import shutil
import struct
import sys
from pathlib import Path

from elftools.common.exceptions import ELFError

from dballoc.host.elf import elf_parser
from dballoc.profile.symbols import elf_notes, plain_symbol_tables

OF = (
    "dballoc.host.elf.elf_parser",
    "dballoc.profile.symbols.elf_notes",
    "dballoc.profile.symbols.plain_symbol_tables",
)
PRIVILEGED = False  # root hands it to a child without rights

# A kept table of one function of 16 bytes.
_KEPT_TABLE = struct.pack("<8s5Q", b"dballoc1", 1, 5, 0x1000, 16, 0) + b"main\0"
_SYMBOLS = ("malloc", "free", "calloc", "_Znwm")


def seeds() -> list[bytes]:
    files = [
        Path(os.path.realpath(shutil.which("true") or sys.executable)),
        *Path("/usr/lib").glob("*/libdl.so.2"),
    ]
    return [*(path.read_bytes() for path in files), _KEPT_TABLE]


def fuzz(data: bytes) -> None:
    fd = os.memfd_create("elf")
    try:
        os.write(fd, data)
        for read in (
            lambda: elf_parser.list_slots(fd, _SYMBOLS),
            lambda: elf_parser.find_export(fd, "malloc"),
            lambda: elf_parser.list_data_symbols(fd, "opt_"),
            lambda: elf_parser.read_returned_number(fd, "mi_version"),
            lambda: elf_parser.find_text(fd, r"\b(\d+\.\d+\.\d+)-\d+-g[0-9a-f]+"),
            lambda: elf_parser.list_texts(fd, r"\x00(mysqld-[0-9]{1,2}\.[0-9]{1,2})(?=\x00)", 4),
        ):
            with contextlib.suppress(elf_parser.ParseError):
                read()
        with contextlib.suppress(elf_parser.ParseError):
            assert re.fullmatch("[0-9a-f]*", elf_parser.read_build_id(fd))
        with contextlib.suppress(elf_parser.ParseError):
            needs = elf_parser.read_host_needs(fd)
            assert 0 <= needs["alignment"] < 1 << 64
            assert needs["alignment"] != 1
            assert 0 <= needs["isa"] < 1 << 32
        with contextlib.suppress(elf_notes.UnreadableElf, ELFError):
            elf_notes.read_image(fd)
        with contextlib.suppress(elf_notes.UnreadableElf):
            plain_symbol_tables.make_table(fd, False, (0, 0))
            for address in (0, 0x1000, 0x2345, 2**64 - 1):
                names = [name for name, *_ in plain_symbol_tables.look_up(address, "libc.so.6")]
                assert all(names)
        with contextlib.suppress(elf_notes.UnreadableElf):
            plain_symbol_tables.read_table(fd)
            plain_symbol_tables.look_up(0x1000, "libc.so.6")
    finally:
        os.close(fd)
