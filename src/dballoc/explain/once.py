"""What a server allocates once and keeps until its end: the tables of its character sets and their collations, above all.

mysys' ``my_once_alloc`` takes it from malloc, past all memory instruments, and chains its blocks from ``my_once_root_block``,
which servers export to their plugins. Each begins with the next one's address, the bytes left in it and its size: words of 64
bits in MariaDB, of 32 in MySQL (my_sys.h, my_alloc.h: ``USED_MEM``).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from dballoc.explain import bss
from dballoc.explain.labels import LARGE, Label
from dballoc.explain.memory import Memory
from dballoc.explain.outside import Outside
from dballoc.host import elf, inside

OWNER = "character sets and what else is kept for good"
_ROOT, _SOURCE = "my_once_root_block", "the chain of my_once_alloc's blocks"
_MOST_BLOCKS = 1 << 16

Words = Callable[[int, int], Sequence[int]]


def label(look: Outside) -> Label | None:
    """Of a live server; None where there is no such chain, or it cannot be followed."""
    executable = look.malloc.executable
    try:
        path = inside.path(look.pid, executable)
        found = os.stat(path)
        root = _root(path, (found.st_dev, found.st_ino, found.st_mtime_ns))
        start = next((m.start for m in look.mappings if m.path == executable and m.offset == 0), None)
        if root is None or start is None:
            return None
        with Memory(look.pid) as memory:
            sizes = list(chain(memory.words, start + root))
    except (OSError, Broken):
        return None
    large = sorted((size for size in sizes if size >= LARGE), reverse=True)
    return Label(OWNER, sum(sizes), _SOURCE, sizes=tuple(large)) if sizes else None


class Broken(Exception):
    """No chain of such blocks."""


def chain(words: Words, root: int) -> Iterator[int]:
    """The sizes of the blocks in bytes. Broken if what is there are no such blocks.

    ``words(address, count)``: so many words there, OSError where there is nothing; ``root``: where the first one's address is.
    """
    (at,) = words(root, 1)
    for _ in range(_MOST_BLOCKS):
        if not at:
            return
        after, left, size = words(at, 3)
        if left >> 32:
            left, size = left & 0xFFFFFFFF, left >> 32
        if at % 8 or not left <= size or not 0 < size < 1 << 32:
            raise Broken
        yield size
        at = after
    raise Broken


@cache
def _root(path: Path, identity: tuple[int, ...]) -> int | None:
    """How far from where the executable is mapped; None if it exports none. Kept, for ``--watch`` looks again and again, as
    long as the file's ``identity`` is the same.
    """
    from elftools.elf.elffile import ELFFile  # takes as long as a look, and only some looks need it

    try:
        with path.open("rb") as file:
            loads = bss.segments(file.read(bss.HEAD))
            address = elf.exported(ELFFile(file), _ROOT)
    except OSError:
        raise
    except Exception:  # pyelftools raises all kinds of errors for a broken file
        return None
    return address - bss.first_page(loads) if address and loads else None
