"""Which malloc a process uses: the words around the bindings."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc import catalogue
from dballoc.allocators import find_library
from dballoc.ground.errors import UsageError
from dballoc.host.process.handle import Process
from dballoc.process.malloc import identify_malloc, malloc_bindings

USES_MALLOC = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { free(malloc(10)); puts("ready"); fflush(stdout); return getchar() == 0; }
"""

# Imports malloc, and waits without having called it.
WAITS_FIRST = """
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char c; (void)argv;
    if (write(1, "ready\\n", 6) != 6 || argc > 100) free(malloc(argc));
    return read(0, &c, 1) < 0;
}
"""
OWN_MALLOC = """
#include <stddef.h>
static _Alignas(16) char heap[1 << 20]; static size_t used;
void *malloc(size_t n) { void *p = heap + used; used += (n + 15) & ~(size_t)15; return p; }
"""


def find_malloc(pid: int) -> identify_malloc.MallocInUse:
    return identify_malloc.identify_malloc_in_use(Process.open(pid))


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "glibc"),
        ("/s/root/lib/x86_64-linux-gnu/libc-2.31.so", "glibc"),  # what libc.so.6 is before 2.34
        ("/s/lib/libgoogle_tcmalloc.so", "google-tcmalloc"),
        ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "jemalloc"),
        ("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4.5.10", "tcmalloc"),
        ("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.10", "tcmalloc-full"),
        ("/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0", "mimalloc"),
        ("/usr/lib/x86_64-linux-gnu/libtbbmalloc_proxy.so.2.8", "tbbmalloc"),
        ("/opt/libhoard.so", None),
        ("/lib/ld-musl-x86_64.so.1", "mallocng"),
        ("/lib/libc.musl-aarch64.so.1", "mallocng"),
        ("/usr/lib/x86_64-linux-musl/libc.so", "mallocng"),
        ("/usr/lib/x86_64-linux-musl/libc.so (deleted)", "mallocng"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6 (deleted)", "glibc"),
    ],
)
def test_catalogue_name(library: str, name: str | None) -> None:
    assert identify_malloc.find_catalogue_name(library) == name


def test_settings_are_those_of_this_malloc() -> None:
    environ = {
        "MALLOC_CONF": "a",
        "MALLOC_ARENA_MAX": "1",
        "GLIBC_TUNABLES": "b",
        "MIMALLOC_PURGE_DELAY": "0",
        "HOME": "/",
    }
    assert identify_malloc.select_settings(environ, "GLIBC_TUNABLES") == {
        "MALLOC_ARENA_MAX": "1",
        "GLIBC_TUNABLES": "b",
    }
    assert identify_malloc.select_settings(environ, "MALLOC_CONF") == {"MALLOC_CONF": "a"}
    assert identify_malloc.select_settings(environ, "MIMALLOC_{NAME}") == {
        "MIMALLOC_PURGE_DELAY": "0"
    }
    assert identify_malloc.select_settings(environ, None) == {}


@pytest.mark.parametrize(
    ("environ", "mapped", "words"),
    [
        ({}, (), {}),
        (
            {"LD_PRELOAD": "/opt/shim.so:/usr/lib/libc.so.6"},
            ("/opt/shim.so", "/usr/lib/libc.so.6"),
            {},
        ),
        ({"LD_PRELOAD": "/opt/libjemalloc.so.2"}, (), {"/opt/libjemalloc.so.2": "not loaded"}),
        (
            {"LD_PRELOAD": "libjemalloc.so.2 /x.so"},
            ("/y/libjemalloc.so.2", "/x.so"),
            {"libjemalloc.so.2": "malloc comes from another library"},
        ),
        ({"MALLOC_CONF": "a:b"}, (), {"MALLOC_CONF": "a setting of jemalloc"}),
        ({"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, (), {}),
    ],
)
def test_what_an_environment_asks_for_in_vain(
    environ: dict[str, str], mapped: tuple[str, ...], words: dict[str, str]
) -> None:
    found = identify_malloc.list_ineffective_settings(environ, "glibc", set(mapped))
    assert set(found) == set(words)
    assert all(words[what] in why for what, why in found.items())


def test_a_privileged_start_is_the_one_reason() -> None:
    environ = {"LD_PRELOAD": "/opt/libjemalloc.so.2 libmimalloc.so.2"}
    reasons = identify_malloc.list_ineffective_settings(environ, "glibc", set(), "it is ignored")
    assert reasons == {
        "/opt/libjemalloc.so.2": "it is ignored",
        "libmimalloc.so.2": "it is ignored",
    }


def test_settings_of_glibcs_other_parts_are_not_idle() -> None:
    assert not identify_malloc.list_ineffective_settings(
        {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}, "jemalloc", set()
    )
    assert identify_malloc.list_ineffective_settings(
        {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, "jemalloc", set()
    )


def test_rseq_is_a_setting_of_the_malloc_that_registers_it() -> None:
    environ = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0", "MALLOC_ARENA_MAX": "1"}
    entries = catalogue.allocators()
    assert identify_malloc._list_settings(environ, entries["google-tcmalloc"]) == {
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0"
    }
    assert identify_malloc._list_settings(environ, entries["jemalloc"]) == {}
    assert identify_malloc._list_settings(environ, entries["glibc"]) == environ


def test_glibc(running_program: Callable[..., int]) -> None:
    found = find_malloc(running_program("plain", USES_MALLOC))
    assert (found.name, found.mixed) == ("glibc", {})
    assert found.version == find_library.find_allocator("glibc").version
    assert found.how == "nothing else was preloaded"


def test_a_preloaded_one(running_program: Callable[..., int]) -> None:
    try:
        allocator = find_library.find_allocator("jemalloc")
    except UsageError as error:
        pytest.skip(str(error))
    found = find_malloc(
        running_program("preloaded", USES_MALLOC, preload=str(allocator.libraries[0]))
    )
    assert (found.name, found.version, found.how) == (
        "jemalloc",
        allocator.version,
        "LD_PRELOAD in its environment",
    )


def test_a_program_that_has_not_called_malloc_yet(running_program: Callable[..., int]) -> None:
    pid = running_program("waits", WAITS_FIRST, "-Wl,-z,lazy")
    assert "malloc" not in malloc_bindings.read_bindings(Process.open(pid))
    found = find_malloc(pid)
    assert (found.name, found.mixed) == ("glibc", {})
    assert Path(found.library).name == "libc.so.6"
    assert "has not called it yet" in found.how
    pid = running_program("bound", WAITS_FIRST, "-Wl,-z,now")
    assert find_malloc(pid).how == "nothing else was preloaded"


def test_the_first_library_with_a_malloc_is_the_one_that_would_be_called(
    running_program: Callable[..., int], c_library: Callable[[str, str], Path]
) -> None:
    frees = c_library("frees", "#include <stddef.h>\nvoid free(void *p) { (void)p; }\n")
    own, later = (c_library(name, OWN_MALLOC) for name in ("own", "later"))
    pid = running_program("waits", WAITS_FIRST, "-Wl,-z,lazy", preload=f"{frees}:{own}:{later}")
    assert malloc_bindings.find_unbound_malloc(Process.open(pid)).library == str(own)


def test_half_a_malloc_is_called_mixed(
    running_program: Callable[..., int], c_library: Callable[[str, str], Path]
) -> None:
    half = c_library("half", "#include <stddef.h>\nvoid free(void *p) { (void)p; }\n")
    found = find_malloc(running_program("mixed", USES_MALLOC, preload=str(half)))
    assert found.name == "glibc"
    assert found.mixed == {"free": str(half)}


def test_behind_the_probe_is_the_malloc_that_it_hands_calls_on_to() -> None:
    probe, glibc, jemalloc = "/p/libdballoc_probe.so", "/lib/libc.so.6", "/lib/libjemalloc.so.2"
    assert identify_malloc.find_malloc_behind_probe(probe, [probe, glibc, jemalloc]) == jemalloc
    assert identify_malloc.find_malloc_behind_probe(probe, [glibc, probe]) == glibc
    assert identify_malloc.find_malloc_behind_probe(glibc, [glibc, jemalloc]) == glibc


def test_settings_by_the_loaders_list(
    running_program: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "two")
    monkeypatch.setenv(
        "GLIBC_TUNABLES", "glibc.malloc.arena_test=3:glibc.malloc.trim_treshold=4096"
    )
    malloc = find_malloc(running_program("plain", USES_MALLOC))
    effects = {effect.setting: effect.effect for effect in malloc.effects}
    assert effects == {
        "MALLOC_ARENA_MAX=two": "none",
        "glibc.malloc.arena_test=3": "applied",
        "glibc.malloc.trim_treshold=4096": "none",
    }
    assert malloc.effective_settings == {"GLIBC_TUNABLES": "glibc.malloc.arena_test=3"}
    assert set(malloc.idle) == {"MALLOC_ARENA_MAX=two", "glibc.malloc.trim_treshold=4096"}


def test_a_static_program(running_program: Callable[..., int]) -> None:
    malloc = find_malloc(
        running_program("static", USES_MALLOC, "-static", preload="/x/libjemalloc.so.2")
    )
    assert (malloc.name, malloc.library) == ("glibc", malloc.executable)
    assert malloc.how.startswith("the executable is static")
    assert "no loader" in malloc.idle["/x/libjemalloc.so.2"]


def test_a_library_that_was_replaced(running_program: Callable[..., int], tmp_path: Path) -> None:
    try:
        allocator = find_library.find_allocator("jemalloc")
    except UsageError as error:
        pytest.skip(str(error))
    library = tmp_path / "libjemalloc.so.2"
    shutil.copy(allocator.libraries[0], library)
    pid = running_program("preloaded", USES_MALLOC, preload=str(library))
    (tmp_path / "new").write_bytes(library.read_bytes().replace(b"5.3.0-0-g", b"9.8.7-0-g"))
    (tmp_path / "new").rename(library)
    malloc = find_malloc(pid)
    if malloc.version == "unknown":
        pytest.skip("this user may not open /proc/PID/map_files")
    assert (malloc.name, malloc.version) == ("jemalloc", allocator.version)
    (note,) = malloc.replaced
    assert note.endswith("a restart loads version 9.8.7")
    library.unlink()
    (note,) = find_malloc(pid).replaced
    assert note.endswith("a restart will not find it there")


def test_musls_malloc(running_program: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("musl-gcc")
    if compiler is None:
        pytest.skip("needs musl-tools")
    monkeypatch.setenv("REALGCC", shutil.which("cc") or "cc")
    pid = running_program("musl", USES_MALLOC, compiler=compiler)
    malloc = find_malloc(pid)
    assert (malloc.name, malloc.title) == ("mallocng", "musl's mallocng")
    assert malloc.version.startswith("1.2.")
    assert malloc.how == "it is in the C library, and nothing else was preloaded"
    malloc = find_malloc(running_program("static", USES_MALLOC, "-static", compiler=compiler))
    assert (malloc.name, malloc.library) == ("mallocng", malloc.executable)


def test_older_musl_has_another_malloc() -> None:
    library = "/lib/libc.musl-x86_64.so.1"
    assert identify_malloc._make_title("mallocng", library, "1.1.24").endswith("before mallocng")
    assert (
        identify_malloc._make_title("mallocng", "/x/libmallocng.so", "1.2.5") == "musl's mallocng"
    )


def test_rseq_is_judged_as_glibcs_setting(
    running_program: Callable[..., int],
    c_library: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = c_library("google_tcmalloc", OWN_MALLOC + "void free(void *p) { (void)p; }\n")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0:glibc.pthread.rsec=0")
    malloc = find_malloc(running_program("google", USES_MALLOC, preload=str(own)))
    assert malloc.name == "google-tcmalloc"
    effects = {effect.setting: effect.effect for effect in malloc.effects}
    assert effects == {"glibc.pthread.rseq=0": "applied", "glibc.pthread.rsec=0": "none"}
