"""The list of a target's libraries, out of its memory."""

from dballoc.process.malloc import malloc_bindings

OF = ("dballoc.process.malloc.malloc_bindings",)
PRIVILEGED = True

_SECTION = 64


def _pack(*words: int) -> bytes:
    return b"".join(word.to_bytes(8, "little") for word in words)


def seeds() -> list[bytes]:
    section = _pack(21, _SECTION, 0, 0, 0, 0, 0, 0)
    debug, first = _pack(1, _SECTION + 16), _pack(0, 0, 0x1000, _SECTION + 48)
    return [section + debug + first + _pack(0, 0, 0x2000, 0)]


def fuzz(data: bytes) -> None:
    def read(address: int, count: int) -> bytes:
        assert 0 <= address < 1 << 63
        assert 0 <= count <= 1 << 16
        if address >= len(data):
            raise OSError(5, "Input/output error")
        return data[address : address + count]

    try:
        objects = list(malloc_bindings.iterate_objects(read, 0, _SECTION))
    except OSError:
        return
    assert len(objects) <= 4096
    assert all(0 <= address < 1 << 64 for address in objects)
