"""What an allocator requires of the machine: page size and rseq, with stand-ins for both."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dballoc import catalogue
from dballoc.allocators import host_requirements, proof_of_use, version_ranges
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.host_requirements import Platform
from dballoc.campaign.preparation import malloc_on_this_host, variant_malloc
from dballoc.cli.verbs import exec_ as exec_verb
from dballoc.cli.verbs import verify as verify_verb
from dballoc.ground.errors import UsageError
from dballoc.host.elf import elf_parser
from dballoc.host.process.handle import Process
from dballoc.process.malloc import identify_malloc, preload_obstacles
from dballoc.servers.build import Build

KIB = 1024
HERE = Platform(page_size=4 * KIB, kernel="6.18.44-fc")
JEMALLOC, HARDENED, GOOGLE = (
    catalogue.allocators()[name]
    for name in ("jemalloc", "hardened-malloc-light", "google-tcmalloc")
)
LIBRARY = Path("/opt/libx.so")


# -- pages


@pytest.mark.parametrize(
    ("entry", "alignment", "page", "reason"),
    [
        (JEMALLOC, 4 * KIB, 4 * KIB, None),
        (JEMALLOC, 64 * KIB, 4 * KIB, None),
        (JEMALLOC, 64 * KIB, 64 * KIB, None),
        (JEMALLOC, 2048 * KIB, 64 * KIB, None),
        (JEMALLOC, 4 * KIB, 64 * KIB,
         "preload /opt/libx.so: laid out for pages of 4 KiB, and this kernel's are of 64 KiB: the loader cannot map it; "
         "take a build for such a kernel, linked with -Wl,-z,max-page-size=65536"),
        (HARDENED, 64 * KIB, 4 * KIB, None),
        (HARDENED, 64 * KIB, 16 * KIB,
         "GrapheneOS hardened_malloc (light) runs with pages of 4 KiB alone, and this kernel's are of 16 KiB: its size "
         "classes and guard pages are made for those; use another allocator, or a kernel with pages of 4 KiB"),
    ],
)  # fmt: skip
def test_a_page_size_that_an_allocator_does_not_run_with(
    entry: dict, alignment: int, page: int, reason: str | None
) -> None:
    assert host_requirements.find_page_obstacle(entry, {LIBRARY: alignment}, page) == reason


def test_alignment_is_read_from_the_file(c_library: Callable[..., Path], tmp_path: Path) -> None:
    library = c_library("aligned", "int one(void) { return 1; }")
    [needs] = preload_obstacles.read_host_needs([library]).values()
    assert needs["alignment"] >= os.sysconf("SC_PAGE_SIZE")
    (tmp_path / "text").write_text("no library")
    assert preload_obstacles.read_host_needs([tmp_path / "text", tmp_path / "none"]) == {}


@pytest.mark.parametrize(("alignments", "least"), [([0x10000, 0x1000], 0x1000), ([0, 1], 0)])
def test_the_least_alignment_counts(alignments: list[int], least: int) -> None:
    """Program headers of segments that are loaded (elf(5)): alignments 0 and 1 mean none."""
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    head[32:40], head[54:56], head[56:58] = (
        (64).to_bytes(8, "little"),
        (56).to_bytes(2, "little"),
        len(alignments).to_bytes(2, "little"),
    )
    table = b"".join(
        (1).to_bytes(4, "little") + bytes(44) + each.to_bytes(8, "little") for each in alignments
    )
    fd = os.memfd_create("library")
    try:
        os.write(fd, bytes(head) + table)
        assert elf_parser.read_host_needs(fd) == {"alignment": least, "isa": 0}
    finally:
        os.close(fd)


def test_a_variant_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Platform(page_size=64 * KIB, kernel="6.12.0")
    monkeypatch.setattr(host_requirements, "read_host", lambda: host)
    hardened = Allocator(name="hardened-malloc-light", libraries=(LIBRARY,), version="16")
    with pytest.raises(
        UsageError, match=r"^variant 'h': GrapheneOS .* this kernel's are of 64 KiB"
    ):
        malloc_on_this_host.check_libraries("variant 'h'", hardened, hardened.libraries)
    # By its path alone it is known by the file's name.
    by_path = Allocator(
        name="libmine.so", libraries=(Path("/opt/libhardened_malloc-light.so"),), version=""
    )
    with pytest.raises(UsageError, match=r"^variant 'h': GrapheneOS "):
        malloc_on_this_host.check_libraries("variant 'h'", by_path, by_path.libraries)


# A server as it ends under a jemalloc that was built for smaller pages.
SERVER = ["/bin/sh", "-c", "echo '<jemalloc>: Unsupported system page size' >&2; exit 134"]


def test_jemallocs_last_words_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(proof_of_use.NotProved) as caught:
        proof_of_use.read_bindings(SERVER, {"PATH": "/usr/bin:/bin"})
    host = Platform(page_size=64 * KIB, kernel="6.12.0")
    monkeypatch.setattr(host_requirements, "read_host", lambda: host)
    build = Build(
        family="mariadb",
        version="10.11.19-MariaDB",
        executable=Path("/usr/sbin/mariadbd"),
        basedir=Path("/"),
        share=Path("/usr/share"),
        plugins=None,
    )
    error = variant_malloc.make_proof_error("variant 'j'", caught.value, build, "libjemalloc.so.2")
    assert str(error) == (
        "variant 'j': MariaDB 10.11.19 does not use libjemalloc.so.2: the server does not run under it: "
        "<jemalloc>: Unsupported system page size; it was built for smaller pages than this kernel's, which are of 64 KiB; "
        "dballoc fetch jemalloc@5.3.1 builds one on this machine, or build yours with ./configure --with-lg-page=16"
    )


# -- CPUs


V2 = frozenset("fpu sse2 cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3".split())


@pytest.mark.parametrize(
    ("bits", "flags", "missing"),
    [
        (0b11, V2, None),
        (0b111, V2, "x86-64-v3, and this one lacks abm, avx, avx2, "),
        (0b10, V2 - {"popcnt"}, "x86-64-v2, and this one lacks popcnt: the loader refuses it"),
        (0b1000, V2, "x86-64-v4"),
        (0, V2, None),
        (1 << 31, V2, None),
        (0b111, frozenset(), None),  # nobody knows what this CPU can do
    ],
)
def test_a_cpu_that_a_library_is_not_built_for(
    bits: int, flags: frozenset[str], missing: str | None
) -> None:
    reason = host_requirements.find_cpu_obstacle({LIBRARY: bits}, flags)
    assert (reason is None) == (missing is None)
    if missing and reason:
        assert f"preload {LIBRARY}: built for CPUs of {missing}" in reason
        assert "-march=x86-64" in reason


def test_what_a_file_needs_of_the_cpu_is_read_from_it(c_library: Callable[..., Path]) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the note is x86-64's")
    plain = c_library("plain", "int one(void) { return 1; }")
    newer = plain.with_name("newer.so")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wl,-z,x86-64-v3", "-o", newer, "-x", "c", "-"],
        input="int one(void) { return 1; }",
        text=True,
        check=True,
    )
    old = Platform(page_size=os.sysconf("SC_PAGE_SIZE"), kernel="6.1.0", cpu_flags=V2)
    assert preload_obstacles.find_library_obstacle({}, [plain], old) is None
    assert "x86-64-v3" in (preload_obstacles.find_library_obstacle({}, [newer], old) or "")


def test_flags_of_cpuinfo() -> None:
    text = "processor\t: 0\nmodel name\t: flags: none\nflags\t\t: fpu sse2\n\nflags\t: x\n"
    assert host_requirements.parse_cpu_flags(text) == {"fpu", "sse2"}
    assert host_requirements.parse_cpu_flags("Features\t: fp asimd\n") == frozenset()


# -- a program with a preload, before it starts


@pytest.mark.parametrize(
    ("environment", "host", "words"),
    [
        ({"LD_PRELOAD": "/a/libjemalloc.so.2:libgoogle_tcmalloc.so"}, Platform(page_size=4096, kernel="6.19.0"), None),
        ({"LD_PRELOAD": "libgoogle_tcmalloc.so", "GLIBC_TUNABLES": "glibc.pthread.rseq=0"},
         Platform(page_size=4096, kernel="6.19.0"),
         "LD_PRELOAD=libgoogle_tcmalloc.so: with rseq of its own, .* set GLIBC_TUNABLES=glibc.pthread.rseq=1"),
        ({"LD_PRELOAD": "libgoogle_tcmalloc.so", "GLIBC_TUNABLES": "glibc.pthread.rseq=0"}, Platform(page_size=4096, kernel="6.18.0"), None),
        ({"LD_PRELOAD": "libgoogle_tcmalloc.so"}, Platform(page_size=4096, kernel="6.19.0", glibc="2.35"), None),
        ({"LD_PRELOAD": "libgoogle_tcmalloc.so"}, Platform(page_size=4096, kernel="6.18.0", glibc="2.34"), None),
        ({"LD_PRELOAD": "libgoogle_tcmalloc.so", "GLIBC_TUNABLES": "glibc.pthread.rseq=1"},
         Platform(page_size=4096, kernel="6.19.0", glibc="2.34"), "and crashes; .*; a glibc of 2.35 or newer can keep it from that"),
        ({"LD_PRELOAD": "/none/libhardened_malloc-light.so"}, Platform(page_size=65536, kernel="6.1"), "runs with pages of 4 KiB alone"),
        ({}, Platform(page_size=65536, kernel="6.19.0"), None),
    ],
)  # fmt: skip
def test_a_preload_that_does_not_run_here(
    environment: dict[str, str], host: Platform, words: str | None
) -> None:
    obstacle = preload_obstacles.find_preload_obstacle(environment, host)
    assert (obstacle is None) == (words is None)
    if words:
        assert re.search(words, obstacle or "")


def test_exec_refuses_before_the_program_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libhardened_malloc-light.so")
    host = Platform(page_size=64 * KIB, kernel="6.12.0")
    monkeypatch.setattr(host_requirements, "read_host", lambda: host)
    with pytest.raises(UsageError, match="runs with pages of 4 KiB alone"):
        exec_verb.exec_([shutil.which("true")], "heap", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_verify_warns_of_a_malloc_that_will_crash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = identify_malloc.identify_malloc_in_use(Process.own())
    monkeypatch.setattr(
        identify_malloc,
        "identify_malloc_in_use",
        lambda pid: replace(own, name="google-tcmalloc", version="2025-06-16"),
    )
    environment = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
    monkeypatch.setattr(Process, "read_environment", lambda *_: environment)
    for kernel in ("6.18.1", "6.19.1"):
        host = Platform(page_size=4 * KIB, kernel=kernel)
        monkeypatch.setattr(host_requirements, "read_host", lambda host=host: host)
        verify_verb.verify(os.getpid())
        warned = "warning:  with rseq of its own" in capsys.readouterr().out
        assert warned == (kernel == "6.19.1")


# -- restartable sequences


@pytest.mark.parametrize(
    ("kernel", "version", "value"),
    [
        ("5.10.0-28-amd64", "2025-06-16", "0"), ("6.18.99", "2025-06-16", "0"),
        ("6.19.0", "2025-06-16", "1"), ("6.19.3-arch1-1", "2025-06-16", "1"), ("7.0.0-14-generic", "2025-06-16", "1"),
        ("7.0.13", "2025-06-16", "1"), ("7.0.14", "2025-06-16", "0"), ("7.1.0-rc3", "2025-06-16", "0"),
        # Before it relied on the field; and a version that nobody knows.
        ("6.19.0", "2022-11-03", "0"), ("6.19.0", "", "1"), ("6.19.0", "unknown", "1"),
    ],
)  # fmt: skip
def test_which_rseq_googles_tcmalloc_needs(kernel: str, version: str, value: str) -> None:
    row = host_requirements.find_rseq_row(GOOGLE, version, kernel)
    assert row
    assert (row["value"], row["must"]) == (value, value == "1")


@pytest.mark.parametrize(
    ("kernel", "machine", "value"),
    [
        ("7.0.9", "x86_64", "1"), ("7.0.10", "x86_64", "0"), ("7.0.10-200.fc44.x86_64", "x86_64", "0"),
        ("7.0.10", "aarch64", "1"), ("7.0.13", "aarch64", "1"), ("7.0.14", "aarch64", "0"),
        ("7.0.0-27-generic", "x86_64", "1"), ("7.0.0-28-generic", "x86_64", "0"),
        ("7.0.0-30-generic", "aarch64", "1"), ("7.0.0-31-generic", "aarch64", "0"),
        # Nobody else's builds are numbered so.
        ("7.0.0-1031-aws", "x86_64", "1"), ("7.0.0-31", "x86_64", "1"), ("6.19.14", "x86_64", "1"),
    ],
)  # fmt: skip
def test_kernels_that_are_mended(kernel: str, machine: str, value: str) -> None:
    row = host_requirements.find_rseq_row(GOOGLE, "2025-06-16", kernel, machine)
    assert row
    assert row["value"] == value


def test_other_mallocs_leave_rseq_alone() -> None:
    for name, entry in catalogue.allocators().items():
        assert (host_requirements.find_rseq_row(entry, "1", "6.19.0") is None) == (
            name != "google-tcmalloc"
        )


def row_on(kernel: str) -> dict:
    row = host_requirements.find_rseq_row(GOOGLE, "2025-06-16", kernel)
    assert row
    return row


@pytest.mark.parametrize(
    ("kernel", "wanted", "glibc_registers", "value"),
    [
        ("6.18", None, True, "0"), ("6.18", "0", True, None), ("6.18", "1", True, None),
        # An older glibc leaves rseq to it.
        ("6.18", None, False, None), ("6.18", "0", False, None),
        ("6.19", None, True, "1"), ("6.19", "1", True, None),
    ],
)  # fmt: skip
def test_what_is_set(
    kernel: str, wanted: str | None, glibc_registers: bool, value: str | None
) -> None:
    assert host_requirements.choose_rseq(row_on(kernel), wanted, glibc_registers) == value


@pytest.mark.parametrize(
    ("wanted", "glibc_registers", "line"),
    [
        ("0", True, r"^env GLIBC_TUNABLES: glibc.pthread.rseq=0: .* crashes; .*; leave it out, and dballoc sets it to 1$"),
        (None, False, r"crashes; .*; a glibc of 2\.35 or newer can keep it from that: dballoc fetch glibc@2\.41, and server = "),
        ("1", False, r"a glibc of 2\.35 or newer"),
    ],
)  # fmt: skip
def test_what_would_crash_is_refused(wanted: str | None, glibc_registers: bool, line: str) -> None:
    with pytest.raises(UsageError, match=line) as caught:
        host_requirements.choose_rseq(row_on("6.19"), wanted, glibc_registers)
    assert "\n" not in str(caught.value)


def test_the_setting_stands_beside_the_users_own() -> None:
    both = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.pthread.rseq=0", "TZ": "UTC"}
    assert host_requirements.find_rseq_setting(both) == "0"
    assert host_requirements.find_rseq_setting({"GLIBC_TUNABLES": "glibc.pthread.rseq"}) is None
    assert host_requirements.find_rseq_setting({}) is None
    one = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1", "TZ": "UTC"}
    assert host_requirements.add_rseq_setting(one, "0") == both
    assert host_requirements.add_rseq_setting({}, "1") == {"GLIBC_TUNABLES": "glibc.pthread.rseq=1"}


@pytest.mark.parametrize(
    ("kernel", "names", "tunables"),
    [
        ("6.18.1", {"arena_max", "glibc.pthread.rseq"}, "glibc.pthread.rseq=0"),
        ("6.19.1", {"arena_max", "glibc.pthread.rseq"}, "glibc.pthread.rseq=1"),
        ("6.18.1", None, None),
    ],
)
def test_a_servers_environment_gets_it(
    monkeypatch: pytest.MonkeyPatch, kernel: str, names: set[str] | None, tunables: str | None
) -> None:
    host = Platform(page_size=4 * KIB, kernel=kernel)
    monkeypatch.setattr(host_requirements, "read_host", lambda: host)
    monkeypatch.setattr(
        "dballoc.allocators.reported_tunables.list_reported_names", lambda *_: names
    )
    google = Allocator(name="google-tcmalloc", libraries=(LIBRARY,), version="2025-06-16")
    env = malloc_on_this_host.set_rseq("variant 'g'", google, ["/bin/true"], {"TZ": "UTC"})
    assert env == {"TZ": "UTC"} | ({"GLIBC_TUNABLES": tunables} if tunables else {})
    jemalloc = Allocator(name="jemalloc", libraries=(LIBRARY,), version="5.3.0")
    assert malloc_on_this_host.set_rseq("v", jemalloc, ["/bin/true"], {"A": "b"}) == {"A": "b"}


def test_a_server_on_an_old_glibc_is_refused_on_a_kernel_that_breaks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Platform(page_size=4 * KIB, kernel="7.0.3")
    monkeypatch.setattr(host_requirements, "read_host", lambda: host)
    monkeypatch.setattr("dballoc.allocators.reported_tunables.list_reported_names", lambda *_: None)
    google = Allocator(name="google-tcmalloc", libraries=(LIBRARY,), version="2025-06-16")
    with pytest.raises(UsageError, match=r"^variant 'g': .* Linux 6\.19 to 7\.0\.9 .*and crashes"):
        malloc_on_this_host.set_rseq("variant 'g'", google, ["/bin/true"], {})


# -- in words


@pytest.mark.parametrize(
    ("name", "version", "host", "note"),
    [
        ("jemalloc", "5.3.0", HERE, ""),
        ("mimalloc", "2.0.9", HERE, "its authors recommend 3.x: dballoc fetch mimalloc"),
        ("mimalloc", "3.4.3", HERE, "of the line that its authors recommend"),
        ("mimalloc", "", HERE, "its authors recommend 3.x"),
    ],
)
def test_what_is_listed_beside_an_allocator(
    name: str, version: str, host: Platform, note: str
) -> None:
    assert host_requirements.describe_fit(catalogue.allocators()[name], name, version, host) == note


def test_what_does_not_run_here_is_listed_so() -> None:
    host = Platform(page_size=64 * KIB, kernel="6.19.2")
    said = host_requirements.describe_fit(HARDENED, "hardened-malloc-light", "16", host)
    assert "this kernel's are of 64 KiB" in said
    said = host_requirements.describe_fit(GOOGLE, "google-tcmalloc", "2025-06-16", host)
    assert said.startswith("runs with glibc.pthread.rseq=1 on this kernel: ")


def test_dballoc_fetch_mimalloc_brings_the_line_that_is_recommended() -> None:
    first = next(iter(catalogue.sources()["mimalloc"]))
    assert version_ranges.parse_numbers(first)[0] == int(
        catalogue.allocators()["mimalloc"]["recommended"]
    )


def test_the_rows_of_rseq_hang_together() -> None:
    for entry in catalogue.allocators().values():
        rows = entry.get("rseq", [])
        for row in rows:
            assert row["value"] in ("0", "1")
            assert {"where", "must", "why"} <= row.keys()
            mended = [text for texts in row.get("mended", {}).values() for text in texts]
            for text in (*row.get("kernels", []), *row.get("versions", []), *mended):
                assert re.fullmatch(r"[\d.]*-[\d.]*", text)
        # The last one is for all that no other is for.
        assert not rows or not {"kernels", "versions"} & rows[-1].keys()


ENDS_AT_ONCE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *malloc(size_t size) {
    static const char why[] = "<malloc>: Unsupported system page size\\n";
    (void)size;
    (void)!write(2, why, sizeof why - 1);
    abort();
}
"""


def test_a_malloc_under_which_nothing_runs_is_refused(tmp_path: Path) -> None:
    """As jemalloc does that was built for smaller pages; its file does not tell."""
    source = tmp_path / "ends.c"
    source.write_text(ENDS_AT_ONCE)
    library = tmp_path / "libends.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    obstacle = preload_obstacles.find_start_obstacle({"LD_PRELOAD": str(library)})
    assert obstacle
    assert "does not run under it: SIGABRT (<malloc>: Unsupported system page size)" in obstacle
    assert preload_obstacles.find_start_obstacle({"LD_PRELOAD": "libm.so.6"}) is None
    assert preload_obstacles.find_start_obstacle({}) is None
