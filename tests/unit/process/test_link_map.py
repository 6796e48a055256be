"""The order of a process's libraries, from memory that may say anything."""

import struct

import pytest

from dballoc.process.malloc import malloc_bindings

DYNAMIC, DEBUG, FIRST, SECOND = 0x1000, 0x2000, 0x3000, 0x4000


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def read_objects(**changes: bytes) -> list[int]:
    """Of a program with two objects, where some of its memory is changed."""
    parts = {
        "dynamic": words(1, 7, 21, DEBUG, 0, 0),
        "debug": words(1, FIRST),
        "first": words(0, 0, 0xAAAA, SECOND),
        "second": words(0, 0, 0xBBBB, 0),
    } | changes
    places = dict(zip((DYNAMIC, DEBUG, FIRST, SECOND), parts.values(), strict=True))

    def read(address: int, count: int) -> bytes:
        for start, content in places.items():
            if start <= address < start + len(content):
                return content[address - start : address - start + count]
        raise OSError(5, "Input/output error")

    return list(malloc_bindings.iterate_objects(read, DYNAMIC, len(parts["dynamic"])))


def test_objects_come_in_the_loaders_order() -> None:
    assert read_objects() == [0xAAAA, 0xBBBB]


def test_a_section_that_names_no_list_has_no_objects() -> None:
    assert read_objects(dynamic=words(1, 7, 0, 0, 21, DEBUG)) == []
    assert read_objects(dynamic=words(21, 0, 0, 0)) == []
    assert read_objects(dynamic=words(1, 7)[:-3]) == []
    assert read_objects(debug=words(1, 0)) == []


def test_a_circle_ends() -> None:
    objects = read_objects(second=words(0, 0, 0xBBBB, FIRST))
    assert objects[:3] == [0xAAAA, 0xBBBB, 0xAAAA]
    assert len(objects) < 10_000


@pytest.mark.parametrize("address", [2**64 - 1, 2**63, 2**63 - 8])
def test_an_address_that_no_process_has_ends_the_list(address: int) -> None:
    assert read_objects(dynamic=words(21, address, 0, 0)) == []
    assert read_objects(debug=words(1, address)) == [0]
    assert read_objects(first=words(0, 0, 0xAAAA, address)) == [0xAAAA, 0]


def test_an_address_that_is_not_mapped_is_the_readers_error() -> None:
    with pytest.raises(OSError, match="Input/output"):
        read_objects(first=words(0, 0, 0xAAAA, 1 << 40))
