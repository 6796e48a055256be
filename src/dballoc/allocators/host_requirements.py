"""What an allocator requires of the machine that it runs on: its kernel's page size, its CPU, and
who registers restartable sequences (rseq(2)), glibc or the allocator. Pure, but for reading the
host.

The facts are data: ``pages``, ``aborts``, ``rseq`` and ``recommended`` in
catalogue/allocators.toml.
"""

import os
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc import catalogue
from dballoc.allocators import version_ranges
from dballoc.ground.errors import UsageError

RSEQ = "glibc.pthread.rseq"
NEEDS_GLIBC = "a glibc of 2.35 or newer can keep it from that"
_VARIABLE = "GLIBC_TUNABLES"
# The levels of the x86-64 psABI by their bit in GNU_PROPERTY_X86_ISA_1_NEEDED, with the names that
# /proc/cpuinfo has for what each adds (abm: lzcnt).
_X86_LEVELS = {
    2: ("x86-64-v2", frozenset("cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3".split())),
    4: ("x86-64-v3", frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe xsave".split())),
    8: ("x86-64-v4", frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())),
}


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The machine. ``page_size``: of the kernel, in bytes; ``kernel``: its release as uname(2)
    tells it, ``6.19.3-arch1-1``; ``machine``: ``x86_64``, from there too; ``cpu_flags``: what its
    CPUs can do, by the names of /proc/cpuinfo; ``glibc``: the version of its C library. The last
    three are empty where they are not known.
    """

    page_size: int
    kernel: str
    machine: str = ""
    cpu_flags: frozenset[str] = frozenset()
    glibc: str = ""


def read_host() -> Platform:
    """Read what allocators require of this machine."""
    return Platform(
        page_size=os.sysconf("SC_PAGE_SIZE"),
        kernel=os.uname().release,
        machine=os.uname().machine,
        cpu_flags=parse_cpu_flags(_read_cpuinfo()),
        glibc=read_glibc_version(),
    )


def read_glibc_version() -> str:
    """Read the version of the C library that we run on; empty if that is another than glibc."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (OSError, ValueError):
        return ""


def parse_cpu_flags(cpuinfo: str) -> frozenset[str]:
    """Parse the flags of the first CPU of /proc/cpuinfo; empty where it has none by that name."""
    for line in cpuinfo.split("\n"):
        name, colon, flags = line.partition(":")
        if colon and name.strip() == "flags":
            return frozenset(flags.split())
    return frozenset()


def _read_cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


# -- pages ---------------------------------------------------------------------------------------


def find_page_obstacle(
    entry: Mapping[str, Any], alignments: Mapping[Path, int], page_size: int
) -> str | None:
    """Return why an allocator does not run with this page size, and what to do; None if nothing
    speaks against it.

    ``alignments``: by library, the bytes that its loaded segments are aligned to, 0 for none
    (:func:`dballoc.host.elf.elf_parser.read_host_needs`); ``page_size``: bytes.
    """
    size = _spell_size(page_size)
    pages = entry.get("pages", {})
    if "exactly" in pages and page_size != pages["exactly"]:
        wanted = _spell_size(pages["exactly"])
        return (
            f"{entry['title']} runs with pages of {wanted} alone, and this kernel's are of {size}: "
            f"{pages['why']}; use another allocator, or a kernel with pages of {wanted}"
        )
    for library, alignment in alignments.items():
        if 0 < alignment < page_size:
            return (
                f"preload {library}: laid out for pages of {_spell_size(alignment)}, and this "
                f"kernel's are of {size}: the loader cannot map it; take a build for such a "
                f"kernel, linked with -Wl,-z,max-page-size={page_size}"
            )
    return None


def explain_abort(text: str, page_size: int) -> str | None:
    """Return what an allocator's last words mean, and what to do; None if they are none that the
    catalogue knows. ``text``: what a process has printed.
    """
    for entry in catalogue.allocators().values():
        for row in entry.get("aborts", []):
            if row["says"] in text:
                return str(row["means"]).format(page_size=_spell_size(page_size))
    return None


def _spell_size(size: int) -> str:
    return f"{size >> 10} KiB" if size and size % 1024 == 0 else f"{size} bytes"


# -- CPUs ----------------------------------------------------------------------------------------


def find_cpu_obstacle(needed: Mapping[Path, int], flags: Set[str]) -> str | None:
    """Return why a library does not run on this CPU, and what to do; None if nothing speaks against
    it, or the CPU is not known.

    ``needed``: by library, the bits of the levels that its file asks for
    (:func:`dballoc.host.elf.elf_parser.read_host_needs`); ``flags``: those of /proc/cpuinfo.
    """
    for library, bits in needed.items():
        for bit, (level, names) in _X86_LEVELS.items():
            missing = sorted(names - flags)
            if bits & bit and flags and missing:
                return (
                    f"preload {library}: built for CPUs of {level}, and this one lacks "
                    f"{', '.join(missing)}: the loader refuses it; take a build with -march=x86-64"
                )
    return None


# -- restartable sequences -----------------------------------------------------------------------


# The build of one of Ubuntu's kernels counts as its fourth number.
_UBUNTU_KERNEL = re.compile(r"(\d+\.\d+\.\d+)-(\d+)-generic")


def find_rseq_row(
    entry: Mapping[str, Any], version: str, kernel: str, machine: str = ""
) -> dict[str, Any] | None:
    """Return the row of ``rseq`` that holds for an allocator's version on a kernel; None for an
    allocator that leaves rseq alone. ``kernel``, ``machine``: as in Platform.
    """
    kernel = _UBUNTU_KERNEL.sub(r"\1.\2", kernel)
    for row in entry.get("rseq", []):
        mended = row.get("mended", {}).get(machine, [])
        is_mended = bool(mended) and version_ranges.is_in_any(kernel, mended)
        fits_kernel = version_ranges.is_in_any(kernel, row.get("kernels", ["-"])) and not is_mended
        if fits_kernel and version_ranges.is_in_any(version, row.get("versions", ["-"])):
            return dict(row)
    return None


# The first glibc that registers rseq.
_FIRST_WITH_RSEQ = (2, 35)


def registers_rseq(glibc: str) -> bool:
    """Whether a glibc of that version registers rseq; one that is not known does."""
    numbers = version_ranges.parse_numbers(glibc)
    return not numbers or numbers >= _FIRST_WITH_RSEQ


def choose_rseq(row: Mapping[str, Any], wanted: str | None, glibc_registers: bool) -> str | None:
    """Return the value of glibc.pthread.rseq to start a server with; None if it needs none, or has
    it. UsageError, without the variant's name, if the server would crash.

    ``wanted``: the user's own value; ``glibc_registers``: whether the server's C library registers
    rseq, as glibc does since 2.35.
    """
    if row["must"]:
        if not glibc_registers:
            raise UsageError(
                f"{row['why']}; {NEEDS_GLIBC}: dballoc fetch glibc@2.41, and "
                'server = { glibc = "2.41" } in the variant; or boot another kernel'
            )
        if wanted not in (None, row["value"]):
            raise UsageError(
                f"env {_VARIABLE}: {RSEQ}={wanted}: {row['why']}; leave it out, and dballoc sets "
                f"it to {row['value']}"
            )
    return str(row["value"]) if wanted is None and glibc_registers else None


def find_rseq_setting(environment: Mapping[str, str]) -> str | None:
    """Return the value of glibc.pthread.rseq in an environment; None if it is not set there."""
    values = [
        value
        for item in environment.get(_VARIABLE, "").split(":")
        for name, equals, value in [item.partition("=")]
        if equals and name == RSEQ
    ]
    return values[-1] if values else None


def add_rseq_setting(environment: Mapping[str, str], value: str) -> dict[str, str]:
    """Return an environment with glibc.pthread.rseq beside what GLIBC_TUNABLES has already."""
    items = [*filter(None, [environment.get(_VARIABLE)]), f"{RSEQ}={value}"]
    return {**environment, _VARIABLE: ":".join(items)}


# -- in words ------------------------------------------------------------------------------------


def describe_rseq(entry: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each value of glibc.pthread.rseq that an allocator needs, and where."""
    return [
        f"{RSEQ}={row['value']} on {row['where']}: {row['why']}" for row in entry.get("rseq", [])
    ]


def describe_fit(entry: Mapping[str, Any], name: str, version: str, host: Platform) -> str:
    """Return in words what to know of an allocator's version on this machine; empty if nothing.

    ``name``: the catalogue's.
    """
    notes = []
    if obstacle := find_page_obstacle(entry, {}, host.page_size):
        notes.append(obstacle)
    if row := find_rseq_row(entry, version, host.kernel, host.machine):
        notes.append(f"runs with {RSEQ}={row['value']} on this kernel: {row['why']}")
    if line := entry.get("recommended"):
        if not version_ranges.parse_numbers(version):
            notes.append(f"its authors recommend {line}.x")
        elif version_ranges.is_in_any(version, [f"{line}-{line}"]):
            notes.append("of the line that its authors recommend")
        else:
            notes.append(f"its authors recommend {line}.x: dballoc fetch {name}")
    return "; ".join(notes)
