"""A target's memory as the walk of glibc's heap reads it: words of a made image are overwritten, 12
bytes each.
"""

import struct

from example_heaps import Image, check, read, sound

from dballoc.process.heaps import glibc_heap

OF = ("dballoc.process.heaps.glibc_heap",)
PRIVILEGED = True

_CHANGE = struct.Struct("<IQ")
_MOST = 2000


def seeds() -> list[bytes]:
    """Changes that change next to nothing; the fuzzer finds the others."""
    return [_CHANGE.pack(at, value) for at in (0, 1000, 40_000) for value in (0, 0x21, 2**63)]


def fuzz(data: bytes) -> None:
    """The first byte is the layout; of each change, where it goes in all parts together, and the
    word.
    """
    layout = (
        glibc_heap.LAYOUTS[data[0] % len(glibc_heap.LAYOUTS)] if data else glibc_heap.LAYOUTS[0]
    )
    image: Image = sound(layout)
    parts = sorted(image.parts.items())
    words = sum(len(part) for _, part in parts) // 8
    for at, value in (
        list(_CHANGE.iter_unpack(data[1 : 1 + (len(data) - 1) // 12 * 12]))[:_MOST] if data else []
    ):
        word = at % words
        for start, part in parts:
            if word < len(part) // 8:
                image.put(start + 8 * word, value)
                break
            word -= len(part) // 8
    check(read(image), image)
