"""The padding preload does what the tests that use it rely on."""

CODE = """
import ctypes
libc = ctypes.CDLL(None)
for name in ("malloc", "calloc", "realloc", "memalign", "aligned_alloc"):
    getattr(libc, name).restype = ctypes.c_void_p
libc.malloc_usable_size.argtypes = [ctypes.c_void_p]
libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
block = ctypes.c_void_p()
libc.posix_memalign(ctypes.byref(block), 64, 4000)
blocks = [
    libc.malloc(4000), libc.calloc(40, 100), libc.realloc(libc.malloc(8), 4000), libc.memalign(64, 4000), block.value,
    libc.aligned_alloc(64, 4032),
]
print(min(map(libc.malloc_usable_size, blocks)), max(map(libc.malloc_usable_size, blocks)), [b % 64 for b in blocks[3:]])
"""


def test_it_pads_by_a_quarter(preload, under):
    least, most, *offsets = under(preload("pad"), CODE).split(maxsplit=2)
    assert int(least) >= 5000
    assert int(most) < 5200
    assert offsets == ["[0, 0, 0]"]
