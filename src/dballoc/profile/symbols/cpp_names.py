"""C++ names for people: demangled, and short enough for a label."""

import ctypes
import re
from functools import cache
from typing import Any

# Stands for template arguments that are left out.
_ELIDED = "…"

# Functions with several names in glibc: __GI_NAME, __NAME, __libc_NAME.
_ALIAS = re.compile(
    r"(?:__GI_)?_*(?:libc_)?(c?free|free_(?:aligned_)?sized|[cm]alloc|realloc|memalign|posix_memalign|aligned_alloc|p?valloc|mmap|mmap64|munmap|mremap"
    r"|madvise|brk|sbrk|read|write|pread64|pwrite64|poll|fsync|clone|clone3|pthread_\w+)"
)

# Long names of the standard library, and how everybody writes them.
_STANDARD = (
    ("std::__cxx11::", "std::"),
    ("std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"),
    ("[abi:cxx11]", ""),
)


@cache
def demangle(name: str) -> str:
    """Demangle a symbol, with the C++ library's own demangler (__cxa_demangle of libstdc++, which
    every C++ server needs). Return it as it is if it is not mangled, or there is no such library.
    """
    library = _load_library()
    if library is None or not name.startswith(("_Z", "__Z")):
        return name
    status = ctypes.c_int()
    demangled = library.__cxa_demangle(
        name.encode("utf-8", "replace"), None, None, ctypes.byref(status)
    )
    if not demangled:
        return name
    try:
        return ctypes.string_at(demangled).decode("utf-8", "backslashreplace")
    finally:
        library.free(demangled)


def load_demangler() -> None:
    """Load the demangler's library now, for a process that will lose access to files."""
    _load_library()


@cache
def unify_alias(symbol: str, module: str) -> str:
    """Return the name by which programs call a function of the C library, for some of those that
    allocate, map or wait. glibc has several names for each (``malloc``, ``__libc_malloc``; with
    debug symbols ``__GI___pthread_mutex_lock``), and a lookup returns any of them: profiles from
    machines with and without debug symbols would differ.
    """
    alias = _ALIAS.fullmatch(symbol) if re.match(r"lib(c|pthread)[-.]", module) else None
    return alias[1] if alias else symbol.removeprefix("__GI_")


@cache
def _load_library() -> Any:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.argtypes = (
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.free.argtypes, library.free.restype = (ctypes.c_void_p,), None
    except (OSError, AttributeError):
        return None
    return library


@cache
def shorten_name(name: str) -> str:
    """Return a label for a function: no return type, no parameters, template arguments as ``<…>``.
    Overloads and instances of a template have the same label, so it is for display alone.
    """
    for long, usual in _STANDARD:
        name = name.replace(long, usual)
    plain, _, clone = name.partition(" [clone ")
    label = _strip_return_type(_strip_argument_lists(plain)).strip()
    return f"{label} [{clone}" if label and clone else label or name


def _strip_argument_lists(name: str) -> str:
    """Return a name with its template arguments elided, and without its parameters and what follows
    them.
    """
    out: list[str] = []
    depth = 0  # of <
    i = 0
    while i < len(name):
        if (
            depth == 0
            and name.startswith("operator", i)
            and not _is_word_character(name, i - 1)
            and not _is_word_character(name, i + 8)
        ):
            end = _find_operator_end(name, i + 8)
            out.append(name[i:end])
            i = end
            continue
        c = name[i]
        if c == "<":
            depth += 1
            if depth == 1:
                out.append(f"<{_ELIDED}>")
        elif c == ">" and depth and name[i - 1] != "-":
            depth -= 1
        elif depth:
            pass
        elif c == "{":
            # {lambda(int)#1}
            closed = name.find("}", i) if "}" in name[i:] else len(name)
            out.append(re.sub(r"\(.*\)", "", name[i:closed]) + "}")
            i = closed + 1
            continue
        elif c == "(":
            closed = _find_closing_parenthesis(name, i)
            # A name in parentheses, like (anonymous namespace), or a local class's
            # function(…)::name, is not the end.
            if name.startswith("(anonymous namespace)", i):
                out.append(name[i : closed + 1])
            elif not (name.startswith("::", closed + 1) or name.startswith(" const::", closed + 1)):
                return "".join(out)
            i = closed + 1 if not name.startswith(" const::", closed + 1) else closed + 7
            continue
        else:
            out.append(c)
        i += 1
    return "".join(out)


def _find_operator_end(name: str, i: int) -> int:
    """Return where an operator's name ends: operator(), operator<<, operator->, operator bool."""
    for symbol in ("()", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"):
        if name.startswith(symbol, i):
            return i + len(symbol)
    return i


def _find_closing_parenthesis(name: str, i: int) -> int:
    """Return the index of the parenthesis that closes the one at i; the name's end if none does."""
    depth = 0
    for j in range(i, len(name)):
        depth += (name[j] == "(") - (name[j] == ")")
        if depth == 0:
            return j
    return len(name)


def _is_word_character(name: str, i: int) -> bool:
    return 0 <= i < len(name) and (name[i].isalnum() or name[i] == "_")


def _strip_return_type(name: str) -> str:
    # The demangler's own prefixes are not return types, and an operator's name may contain spaces.
    for phrase in (
        "vtable for",
        "typeinfo for",
        "non-virtual thunk to ",
        "virtual thunk to ",
        "guard variable for",
    ):
        if name.startswith(phrase):
            return name
    before, operator, after = name.partition("operator")
    if operator and not _is_word_character(before, len(before) - 1):
        return _get_last_word(before) + operator + after
    return _get_last_word(name)


def _get_last_word(name: str) -> str:
    # The space of (anonymous namespace) is part of a name.
    kept = name.replace("(anonymous namespace)", "(anonymous\0namespace)")
    return kept.rpartition(" ")[2].replace("\0", " ")
