"""An ELF file's description of itself: segments, build-id, where its debug information is (elf(5);
the manuals of binutils and gdb on separate debug files). pyelftools reads it, for files of others
in a sandbox (:mod:`dballoc.profile.symbols.symbol_tables`).
"""

import os
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection


class UnreadableElf(Exception):
    """Not an ELF file that can be read; the text says why, in a few words."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """An ELF file. ``build_id``: hexadecimal, empty if it has none; ``segments``: file offset,
    bytes in the file and address of each segment that is loaded; ``base``: the address of the
    first; ``complete``: it has a symbol table of all functions, not of the exported ones alone;
    ``link``: name and CRC-32 of a separate debug file; ``names``: offset and bytes of the sections'
    names in the file.
    """

    build_id: str
    segments: tuple[tuple[int, int, int], ...]
    base: int
    complete: bool
    link: tuple[str, int] | None
    names: tuple[int, int]

    def address(self, offset: int) -> int:
        """Return the address, as the file's symbols count, of the byte at an offset. Bytes between
        two segments are mapped with the segment before, for whole pages are.
        """
        for start, size, address in self.segments:
            if start <= offset < start + size:
                return offset - start + address
        start, _, address = max(
            (s for s in self.segments if s[0] <= offset), default=(0, 0, self.base)
        )
        return offset - start + address


def read_image(fd: int) -> Image:
    """Read an open ELF file. Raises UnreadableElf if it is not a sound one."""
    try:
        with open(os.dup(fd), "rb") as f:
            f.seek(0)
            return _read_image(ELFFile(f))
    except OSError as error:
        raise UnreadableElf(error.strerror or "cannot be read") from None
    # pyelftools raises all kinds of errors for a broken file, those of its parser and Python's own.
    except Exception:
        raise UnreadableElf("not a whole ELF file") from None


def _read_image(elf: ELFFile) -> Image:
    segments = tuple(
        (s["p_offset"], s["p_filesz"], s["p_vaddr"]) for s in elf.iter_segments("PT_LOAD")
    )
    if not segments:
        raise UnreadableElf("an ELF file without segments to load")
    symbols = elf.get_section_by_name(".symtab")
    table = elf.get_section(elf.get_shstrndx())
    return Image(
        build_id=_read_build_id(elf),
        segments=segments,
        base=segments[0][2],
        complete=symbols is not None and symbols["sh_type"] == "SHT_SYMTAB",
        link=_read_debug_link(elf),
        names=(table["sh_offset"], table["sh_size"]),
    )


def _read_build_id(elf: ELFFile) -> str:
    section = elf.get_section_by_name(".note.gnu.build-id")
    for note in section.iter_notes() if isinstance(section, NoteSection) else ():
        if note["n_type"] == "NT_GNU_BUILD_ID":
            return str(note["n_desc"])
    return ""


def _read_debug_link(elf: ELFFile) -> tuple[str, int] | None:
    section = elf.get_section_by_name(".gnu_debuglink")
    if section is None:
        return None
    # A name, zeros up to a multiple of four, and the CRC-32 of that file.
    data = section.data()
    name = data[: data.index(b"\0")].decode("utf-8", "backslashreplace")
    return name, int.from_bytes(data[-4:], "little" if elf.little_endian else "big")
