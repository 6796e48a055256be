"""Measure what a server allocates once and keeps until it ends: above all the tables of its
character sets and their collations.

mysys' ``my_once_alloc`` takes it from malloc, uncounted by the memory instruments, and chains its
blocks from ``my_once_root_block``, which servers export to their plugins. Each block begins with
the next one's address, the bytes free in it and its size: words of 64 bits in MariaDB, of 32 in
MySQL (my_sys.h, my_alloc.h: ``USED_MEM``).
"""

import os
from collections.abc import Callable, Iterator, Sequence

from dballoc.evidence.sql.server_memory import LARGE, OwnerMemory
from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.process import open_in_process_root
from dballoc.host.unprivileged.sandbox import SandboxError
from dballoc.process.memory_reader import Memory
from dballoc.process.snapshot import ProcessSnapshot

OWNER = "character sets and what else is kept for good"
_ROOT, _SOURCE = "my_once_root_block", "the chain of my_once_alloc's blocks"
_MOST_BLOCKS = 1 << 16

Words = Callable[[int, int], Sequence[int]]


def measure_once_blocks(look: ProcessSnapshot) -> OwnerMemory | None:
    """Return the total of a live server's blocks; None where there is no such chain, or it cannot
    be followed.
    """
    executable = look.malloc.executable
    try:
        fd = open_in_process_root.open_file_of(look.process, executable)
        try:
            root = _find_root(fd)
        finally:
            os.close(fd)
        start = next(
            (m.start for m in look.mappings if m.path == executable and m.offset == 0), None
        )
        if root is None or start is None:
            return None
        with Memory(look.process) as memory:
            sizes = list(walk_chain(memory.words, start + root))
    except (OSError, Broken):
        return None
    large = sorted((size for size in sizes if size >= LARGE), reverse=True)
    return (
        OwnerMemory(owner=OWNER, bytes=sum(sizes), source=_SOURCE, sizes=tuple(large))
        if sizes
        else None
    )


class Broken(Exception):
    """The memory there is no chain of such blocks."""


def walk_chain(words: Words, root: int) -> Iterator[int]:
    """Yield the sizes of the blocks in bytes. Raises Broken if the memory holds no such blocks.

    ``words(address, count)``: reads ``count`` words, OSError where there is nothing; ``root``:
    where the address of the first block is.
    """
    (address,) = words(root, 1)
    for _ in range(_MOST_BLOCKS):
        if not address:
            return
        following, free, size = words(address, 3)
        if free >> 32:  # MySQL's: two words of 32 bits
            free, size = free & 0xFFFFFFFF, free >> 32
        if address % 8 or not free <= size or not 0 < size < 1 << 32:
            raise Broken
        yield size
        address = following
    raise Broken


def _find_root(fd: int) -> int | None:
    """Return the root's offset from where the executable is mapped; None if it exports no root, or
    cannot be parsed.
    """
    try:
        export = ask_elf_parser("find_export", fd, _ROOT)
    except SandboxError:
        return None
    return export[0] - export[1] if export else None
