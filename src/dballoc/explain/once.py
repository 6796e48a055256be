"""What a server allocates once and keeps until its end: the tables of its character sets and their collations, above all.

mysys' ``my_once_alloc`` takes it from malloc, past all memory instruments, and chains its blocks from ``my_once_root_block``,
which servers export to their plugins. Each begins with the next one's address, the bytes left in it and its size: words of 64
bits in MariaDB, of 32 in MySQL (my_sys.h, my_alloc.h: ``USED_MEM``).
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.hash import GNUHashSection

from dballoc.explain.labels import Label
from dballoc.explain.memory import PAGE, Memory
from dballoc.explain.outside import Outside
from dballoc.host import inside

OWNER = "character sets and what else is kept for good"
_ROOT, _SOURCE = "my_once_root_block", "the chain of my_once_alloc's blocks"
_MOST_BLOCKS = 1 << 16
# Blocks from this size on malloc maps by themselves, as long as it has not been told otherwise.
_LARGE = 128 << 10

Words = Callable[[int, int], Sequence[int]]


def label(look: Outside) -> Label | None:
    """Of a live server; None where there is no such chain, or it cannot be followed."""
    executable = look.malloc.executable
    try:
        found = _symbol(inside.path(look.pid, executable))
        base = next((m.start for m in look.mappings if m.path == executable and m.offset == 0), None)
        if found is None or base is None:
            return None
        address, first = found
        with Memory(look.pid) as memory:
            sizes = list(chain(memory.words, base - first + address))
    except (OSError, Broken):
        return None
    large = sorted((size for size in sizes if size >= _LARGE), reverse=True)
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


def _symbol(path: Path) -> tuple[int, int] | None:
    """The address of the root by the executable's own count, and that of its first page; None if it exports none."""
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            table = elf.get_section_by_name(".gnu.hash")
            symbol = table.get_symbol(_ROOT) if isinstance(table, GNUHashSection) else None
            first = min((s["p_vaddr"] for s in elf.iter_segments("PT_LOAD")), default=0)
    except OSError:
        raise
    except Exception:  # pyelftools raises all kinds of errors for a broken file
        return None
    return (symbol["st_value"], first // PAGE * PAGE) if symbol and symbol["st_value"] else None
