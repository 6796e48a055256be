"""The sources of a small malloc as authors publish them: a tarball with ``configure``."""

import io
import tarfile
from pathlib import Path

# glibc's under other names, so that a server runs on it.
MALLOC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
void *valloc(size_t n) { return __libc_memalign(4096, n); }
void *pvalloc(size_t n) { return __libc_memalign(4096, (n + 4095) & ~(size_t)4095); }
int posix_memalign(void **p, size_t a, size_t n) {
    *p = __libc_memalign(a, n);
    return *p ? 0 : 12;
}
void free(void *p) { __libc_free(p); }
size_t malloc_usable_size(void *p) {
    return ((size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size"))(p);
}
"""

CONFIGURE = """#!/bin/sh
set -e
prefix=${1#--prefix=}
sed "s|@PREFIX@|$prefix|" Makefile.in > Makefile
"""

# "who" shows in the library which user has built it.
MAKEFILE = """
all: SONAME
SONAME: malloc.c
\techo "const int built_by = $$(id -u);" > who.c
\tcc -shared -fPIC -Wl,-soname,SONAME -o $@ malloc.c who.c
install: all
\tmkdir -p @PREFIX@/lib
\tcp SONAME @PREFIX@/lib/SONAME.0
\tln -sf SONAME.0 @PREFIX@/lib/SONAME
"""


def pack_sources(
    path: Path, soname: str, configure: str = CONFIGURE, makefile: str = MAKEFILE
) -> Path:
    """Write the tarball of a malloc that installs a library of that name; returns its path."""
    files = {
        "configure": (configure, 0o755),
        "Makefile.in": (makefile.replace("SONAME", soname), 0o644),
        "malloc.c": (MALLOC, 0o644),
    }
    with tarfile.open(path, "w:gz") as tar:
        for name, (text, mode) in files.items():
            member = tarfile.TarInfo(f"malloc-1.0/{name}")
            member.size, member.mode = len(text.encode()), mode
            tar.addfile(member, io.BytesIO(text.encode()))
    return path
