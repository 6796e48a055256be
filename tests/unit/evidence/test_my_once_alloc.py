"""The chain of what a server allocates once."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.evidence.process import my_once_alloc

ROOT = 0x1000
BLOCKS = st.lists(st.tuples(st.integers(24, 2**32 - 1), st.floats(0, 1)), max_size=20)


def words(image: bytes, base: int = ROOT) -> my_once_alloc.Words:
    """Memory that holds an image and nothing else."""

    def read(address: int, count: int) -> Sequence[int]:
        at = address - base
        if not 0 <= at <= len(image) - 8 * count:
            raise OSError(14, "not resident")
        return struct.unpack_from(f"<{count}Q", image, at)

    return read


def chained(blocks: list[tuple[int, float]], form: str) -> bytes:
    """The root and the heads of blocks of so many bytes, of which a share is left; the last one's
    next is 0.
    """
    heads = [ROOT + 8 + 24 * i for i in range(len(blocks))] + [0]
    image = struct.pack("<Q", heads[0])
    for (size, share), after in zip(blocks, heads[1:], strict=True):
        image += struct.pack(form, after, int(size * share), size).ljust(24, b"\xaa")
    return image


@given(BLOCKS, st.sampled_from(["<QQQ", "<QII"]))
def test_the_sizes_of_all_blocks_of_both_servers(
    blocks: list[tuple[int, float]], form: str
) -> None:
    assert list(my_once_alloc.walk_chain(words(chained(blocks, form)), ROOT)) == [
        size for size, _ in blocks
    ]


@given(st.binary(min_size=8, max_size=400), st.integers(0, 1))
def test_anything_else_ends(image: bytes, leads: int) -> None:
    torn = struct.pack("<Q", ROOT + 8) + image if leads else image
    try:
        sizes = list(my_once_alloc.walk_chain(words(torn), ROOT))
    except (my_once_alloc.Broken, OSError):
        return
    assert all(0 < size < 2**32 for size in sizes)


def test_a_ring_is_no_chain() -> None:
    image = struct.pack("<4Q", ROOT + 8, ROOT + 8, 0, 4096)
    with pytest.raises(my_once_alloc.Broken):
        list(my_once_alloc.walk_chain(words(image), ROOT))
