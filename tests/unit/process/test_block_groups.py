"""Live blocks by size: sizes that are nearly the same are one group, and most bytes come first."""

from hypothesis import given
from hypothesis import strategies as st

from dballoc.process.heaps.heap_walk import BlockGroup, group_blocks

MIB = 1 << 20


def test_blocks_of_nearly_one_size_are_one_group() -> None:
    sizes = {16 * MIB + 4096: 12, 16 * MIB: 8, 8 * MIB: 3, 4096: 1000}
    assert group_blocks(sizes) == [
        BlockGroup(size=16 * MIB + 4096, count=20, bytes=20 * 16 * MIB + 12 * 4096),
        BlockGroup(size=8 * MIB, count=3, bytes=24 * MIB),
        BlockGroup(size=4096, count=1000, bytes=4096 * 1000),
    ]


@given(st.dictionaries(st.integers(1, 2**47), st.integers(1, 1000), max_size=60))
def test_groups_have_the_blocks_that_there_are(sizes: dict[int, int]) -> None:
    groups = group_blocks(sizes)
    assert [g.bytes for g in groups] == sorted((g.bytes for g in groups), reverse=True)
    assert sum(g.count for g in groups) <= sum(sizes.values())
    if len(sizes) <= 32:
        assert sum(g.bytes for g in groups) == sum(size * n for size, n in sizes.items())
    assert all(g.size in sizes and g.bytes <= g.size * g.count for g in groups)
