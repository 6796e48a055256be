"""The bindings of a running process, read from outside: which library its calls of malloc, free and
the other allocation functions lead to.

The executable's dynamic section lists its relocations; each one that names a function has the
address of the slot (GOT entry) that the loader has filled in. The slots are read from
/proc/PID/mem, and /proc/PID/maps tells which file the addresses in them belong to. The executable
is parsed in a sandbox. Nothing is stopped or injected.
"""

import contextlib
import errno
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dballoc.allocators.proof_of_use import SYMBOLS
from dballoc.ground.errors import Failure
from dballoc.host.abandonable.blocking_mounts import Mounts, read_mounts
from dballoc.host.elf import loader
from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.process import maps, open_in_process_root
from dballoc.host.process.handle import Process
from dballoc.host.process.maps import MapsLine
from dballoc.host.process.read_rights import failing_for
from dballoc.host.unprivileged.sandbox import SandboxError
from dballoc.process.memory_reader import Memory

# That are looked through for an export, each in a sandbox of its own: malloc's is among the first.
_MOST_LIBRARIES = 64


@dataclass(frozen=True, kw_only=True)
class _MainProgram:
    """The main program in memory: what :func:`dballoc.host.elf.elf_parser.list_slots` lists of its
    file, what the loader added to virtual addresses (``bias``), and the file systems that its
    mappings may be of; ``static``: it names no loader.
    """

    path: str
    slots: list[tuple[str, int, bool]]
    dynamic: tuple[int, int]
    bias: int
    mappings: list[MapsLine]
    static: bool
    mounts: Mounts


def read_bindings(process: Process) -> dict[str, str]:
    """Return, by symbol, the file that provides each of
    :data:`dballoc.allocators.proof_of_use.SYMBOLS` to the executable.

    ``?`` for a slot that points nowhere. A symbol that the executable does not import, or has not
    called yet, is left out. Raises Failure if the process cannot be read.
    """
    with _explain_errors(process):
        image = _read_image(process)
        with Memory(process) as memory:
            providers = {}
            for symbol, slot, defined in image.slots:
                address = _read_slot(memory, image, image.bias + slot)
                provider = _find_file(image.mappings, address)
                # A slot that still leads to the executable's own stub waits for its first call
                # (lazy binding).
                if defined or provider != image.path:
                    providers[symbol] = provider
            return providers


@dataclass(frozen=True, kw_only=True)
class UnboundMalloc:
    """Where an ``executable`` without a binding to malloc has it from. ``imports``: it imports it,
    and has not called it yet; ``library``: the first one that exports it, the executable itself if
    none does; ``static``: the executable has no libraries.
    """

    executable: str
    library: str
    imports: bool
    static: bool


def find_unbound_malloc(process: Process) -> UnboundMalloc:
    """Find where an executable has malloc from that imports none, or has not called it yet: the
    first library that exports it, in the order in which the loader looks it up. Raises Failure if
    it imports one, and that library cannot be told.
    """
    with _explain_errors(process):
        image = _read_image(process)
        imports = any(symbol in ("malloc", "free") for symbol, _, _ in image.slots)
        library = _find_exporter_of_malloc(process, image)
        if imports and library is None:
            raise Failure(
                f"{process}: it has not called malloc yet, so its malloc is not known; "
                "look again when it has done some work"
            )
        return UnboundMalloc(
            executable=image.path,
            library=library or image.path,
            imports=imports,
            static=image.static,
        )


def _find_exporter_of_malloc(process: Process, image: _MainProgram) -> str | None:
    """Find the first library of the link map that exports malloc; None if none does, or if one
    before it cannot be read.
    """
    address, size = image.dynamic
    try:
        with Memory(process) as memory:
            sections = iterate_objects(
                lambda start, count: _read_loaded(memory, image, start, count),
                image.bias + address,
                size,
            )
            files = [_find_file(image.mappings, section) for section in sections]
        # The kernel's own library (vDSO) is in the list, too, and is no file.
        libraries = dict.fromkeys(path for path in files if path.startswith("/"))
        for path in list(libraries)[:_MOST_LIBRARIES]:
            if path != image.path and _exports_malloc(process, path):
                return path
    except (OSError, SandboxError):
        return None
    return None


def _exports_malloc(process: Process, path: str) -> bool:
    fd = open_in_process_root.open_file_of(process, path)
    try:
        return ask_elf_parser("find_export", fd, "malloc") is not None
    finally:
        os.close(fd)


@contextlib.contextmanager
def _explain_errors(process: Process) -> Iterator[None]:
    """Turn what reading a process may raise into a Failure, with the reason."""
    try:
        with failing_for(process):
            yield
    except SandboxError as error:
        raise Failure(f"{process}: its executable cannot be read: {error}") from None
    except (struct.error, OverflowError):
        raise Failure(f"{process}: its executable is damaged") from None


def _read_image(process: Process) -> _MainProgram:
    executable = loader.find_main_program(process)
    started = executable == process.read_link("exe")
    parts = _list_slots(process, executable, started)
    mappings = maps.read_maps(process)
    return _MainProgram(
        path=executable,
        slots=[(symbol, slot, defined) for symbol, slot, defined in parts["slots"]],
        dynamic=(parts["dynamic"][0], parts["dynamic"][1]),
        bias=_find_load_bias(process, parts["loads"], mappings, executable),
        mappings=mappings,
        static=not parts["interpreter"],
        mounts=read_mounts(process.home),
    )


def _list_slots(process: Process, executable: str, started: bool) -> dict[str, list]:
    """List the slots and the loaded segments of the main program. ``started``: the process was
    started as this program, and not as the loader with the program as an argument.
    """
    if started:
        fd = open_in_process_root.open_link(f"{process.home}/exe")
    else:
        fd = open_in_process_root.open_file_of(process, executable)
    try:
        slots: dict[str, list] = ask_elf_parser("list_slots", fd, list(SYMBOLS))
        return slots
    finally:
        os.close(fd)


def _find_load_bias(
    process: Process, loads: list[list[int]], mappings: list[MapsLine], executable: str
) -> int:
    """Return what the loader added to the executable's virtual addresses. Raises Failure if the
    executable is not among its mappings.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    address, offset = min(loads, default=[0, 0])
    for mapping in mappings:
        if mapping.path == executable and mapping.offset == offset - offset % page:
            return mapping.start - (address - address % page)
    raise Failure(f"{process}: the executable is not among its own mappings")


def _read_slot(memory: Memory, image: _MainProgram, address: int) -> int:
    value: int = struct.unpack("<Q", _read_loaded(memory, image, address, 8))[0]
    return value


def _read_loaded(memory: Memory, image: _MainProgram, address: int, count: int) -> bytes:
    """Read memory of the process. OSError also where that would ask a file system that may not
    answer: what a program has written into is in memory, or in swap.
    """
    mapping = next((m for m in image.mappings if m.start <= address < m.end), None)
    mount = image.mounts.find_blocking_device(mapping.device) if mapping else None
    if mount and not memory.is_loaded(address, count):
        raise OSError(
            errno.EFAULT,
            f"its memory at {address:x} is of a file on {mount.title}, and not loaded; it is not "
            "read, because that file system may not answer",
        )
    return memory.read(address, count)


def _find_file(mappings: list[MapsLine], address: int) -> str:
    return next((m.path or "?" for m in mappings if m.start <= address < m.end), "?")


_DT_NULL, _DT_DEBUG = 0, 21
_ENTRY = struct.Struct("<QQ")
_LONGEST_SECTION = 1 << 16
# Of struct r_debug: r_map. Of struct link_map: l_ld and l_next.
_R_MAP, _L_LD, _L_NEXT = 8, 16, 24
# A server with all its plugins has some hundred.
_MOST_OBJECTS = 4096

# Returns that many bytes at an address, fewer where there are not as many.
ReadMemory = Callable[[int, int], bytes]


def iterate_objects(read: ReadMemory, address: int, size: int) -> Iterator[int]:
    """Yield the address of the dynamic section of each object, the main program's first.
    ``address``, ``size``: of the main program's own, in memory. Raises OSError as ``read`` raises
    it.

    This is the link map, in the order in which the loader looks a symbol up (<link.h>, struct
    r_debug and struct link_map). All of it is the process's word: addresses that lead nowhere,
    or in a circle, end the list.
    """
    debug = _find_debug_structure(read, address, size)
    link = _read_word(read, debug + _R_MAP) if debug else 0
    for _ in range(_MOST_OBJECTS):
        if link == 0:
            return
        yield _read_word(read, link + _L_LD)
        link = _read_word(read, link + _L_NEXT)


def _find_debug_structure(read: ReadMemory, address: int, size: int) -> int:
    """Return the address of the loader's struct r_debug; 0 if the section names none."""
    section = _read_at(read, address, min(size, _LONGEST_SECTION))
    for tag, value in _ENTRY.iter_unpack(section[: len(section) - len(section) % _ENTRY.size]):
        if tag == _DT_NULL:
            break
        if tag == _DT_DEBUG:
            return value
    return 0


def _read_word(read: ReadMemory, address: int) -> int:
    return int.from_bytes(_read_at(read, address, 8), "little")


def _read_at(read: ReadMemory, address: int, count: int) -> bytes:
    """Read bytes; none at an address that no process has."""
    return read(address, count) if address < 1 << 63 else b""
