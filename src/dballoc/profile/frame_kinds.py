"""Classify frames, for colours: the server's, malloc's, a library's, the kernel's."""

import re

from dballoc.profile.model import Frame
from dballoc.profile.symbols import cpp_names

# Each kind, and its name in a legend.
KINDS = {
    "server": "server",
    "malloc": "malloc",
    "library": "other libraries",
    "kernel": "kernel",
    "unnamed": "no name known",
}

_ALLOCATORS = re.compile(
    r"lib(jemalloc|tcmalloc|mimalloc|tbbmalloc|snmalloc|rpmalloc|hardened_malloc|clang_rt\.scudo|mallocng|hoard|mesh)"
)

# The functions of malloc in the C library, and those that call them directly.
_FUNCTIONS = re.compile(
    r"(__libc_|__)?(malloc|calloc|realloc|reallocarray|free|cfree|memalign|posix_memalign|aligned_alloc|valloc|pvalloc"
    r"|malloc_trim|malloc_usable_size)|_int_(malloc|free|realloc|memalign)\w*|sys(malloc|trim)\w*|systrim\w*"
    r"|malloc_consolidate|unlink_chunk\w*|(tcache|arena)_\w+|heap_trim|munmap_chunk"
    r"|mremap_chunk|operator (new|delete)(\[\])?"
    # Windows': the C library, and the heap in ntdll.dll.
    r"|_(malloc|free|calloc|realloc|recalloc)_(base|dbg)|_aligned_(malloc|free|realloc)|Heap(Alloc|Free|ReAlloc)"
    r"|Rtlp?(Allocate|Free|ReAllocate)Heap\w*|Rtlp(Allocate|Free)NTHeapInternal|Rtlp(Hp|LowFragHeap)\w+"
)
_LIBRARY = re.compile(r"(lib.*|ld-.*|.*\.so(\..*)?|.*\.dll)$", re.IGNORECASE)


def is_malloc(label: str) -> bool:
    """Whether a function, by its short name, is one of malloc's own or operator new."""
    return bool(_FUNCTIONS.fullmatch(re.sub(r"( \[.*|\.\w+(\.\d+)?)$", "", label)))


def classify_frame(frame: Frame) -> str:
    """Return a frame's kind, a key of KINDS."""
    if frame.module.startswith("[") and frame.module != "[vdso]":
        return "kernel"
    if _ALLOCATORS.match(frame.module):
        return "malloc"
    if not frame.named:
        return "unnamed"
    if is_malloc(cpp_names.shorten_name(frame.function)):
        return "malloc"
    return "library" if _LIBRARY.match(frame.module) else "server"
