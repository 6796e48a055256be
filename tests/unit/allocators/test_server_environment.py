"""The environment of a server under an allocator: all of what was asked, none of what the shell
had.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from dballoc.allocators.find_library import Allocator
from dballoc.allocators.server_environment import build_environment, remove_allocator_variables

GLIBC = Allocator(name="glibc", libraries=(), version="2.36")
JEMALLOC = Allocator(name="jemalloc", libraries=(Path("/l/libjemalloc.so.2"),), version="5.3.0")
TCMALLOC = Allocator(
    name="tcmalloc", libraries=(Path("/l/libtcmalloc_minimal.so.4"),), version="2.10"
)
TBB = Allocator(
    name="tbbmalloc",
    libraries=(Path("/l/libtbbmalloc_proxy.so.2"), Path("/l/libtbbmalloc.so.2")),
    version="2.8",
)
UNKNOWN = Allocator(name="libhoard.so", libraries=(Path("/l/libhoard.so"),), version="")


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_DEBUG", "MALLOC_ARENA_MAX", "MALLOC_CONF", "GLIBC_TUNABLES", "TCMALLOC_RELEASE_RATE",
     "MIMALLOC_VERBOSE", "TBB_MALLOC_USE_HUGE_PAGES", "SCUDO_OPTIONS", "MALLOCSTATS", "_RJEM_MALLOC_CONF", "HEAPPROFILE", "NOTIFY_SOCKET"],
)  # fmt: skip
def test_nothing_of_the_shell_steers_a_variant(name: str) -> None:
    base = {name: "x", "PATH": "/bin", "HOME": "/root"}
    assert remove_allocator_variables(base) == {"PATH": "/bin", "HOME": "/root"}
    assert "x" not in build_environment(base, GLIBC, {}, {}).values()


def test_plain_glibc_gets_nothing() -> None:
    assert build_environment({"PATH": "/bin"}, GLIBC, {}, {}) == {"PATH": "/bin"}


def test_glibc_tunables_are_joined() -> None:
    made = build_environment({}, GLIBC, {"arena_max": "1", "tcache_count": "0"}, {})
    assert made == {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"}


def test_jemalloc_aborts_on_a_bad_setting() -> None:
    made = build_environment({}, JEMALLOC, {"narenas": "2"}, {})
    assert made["LD_PRELOAD"] == "/l/libjemalloc.so.2"
    assert set(made["MALLOC_CONF"].split(",")) == {
        "narenas:2",
        "stats_print:true",
        "abort_conf:true",
    }


def test_an_old_jemalloc_is_not_given_a_setting_that_it_does_not_know() -> None:
    old = replace(JEMALLOC, version="3.6.0")
    assert build_environment({}, old, {}, {})["MALLOC_CONF"] == "stats_print:true"
    for version in ("5.1.0", "unknown", ""):
        made = build_environment({}, replace(JEMALLOC, version=version), {}, {})
        assert made["MALLOC_CONF"] == "stats_print:true,abort_conf:true"


def test_the_users_own_setting_is_joined_and_comes_last() -> None:
    # Allocators take the last of two.
    made = build_environment(
        {}, JEMALLOC, {"narenas": "2"}, {"MALLOC_CONF": "narenas:7", "OTHER": "1"}
    )
    assert made["MALLOC_CONF"].endswith(",narenas:7")
    assert made["OTHER"] == "1"


def test_an_allocator_with_a_variable_per_setting() -> None:
    made = build_environment(
        {}, TCMALLOC, {"release_rate": "5"}, {"TCMALLOC_RELEASE_RATE": "9", "MALLOCSTATS": "2"}
    )
    assert made == {
        "LD_PRELOAD": "/l/libtcmalloc_minimal.so.4",
        "TCMALLOC_RELEASE_RATE": "9",
        "MALLOCSTATS": "2",
    }


def test_preloads_keep_their_order() -> None:
    made = build_environment({}, TBB, {}, {"LD_PRELOAD": "/mine.so"}, before=(Path("/shim.so"),))
    assert made["LD_PRELOAD"] == "/shim.so:/l/libtbbmalloc_proxy.so.2:/l/libtbbmalloc.so.2:/mine.so"


def test_an_allocator_given_by_path() -> None:
    assert build_environment({}, UNKNOWN, {}, {"HOARD_X": "1"}) == {
        "LD_PRELOAD": "/l/libhoard.so",
        "HOARD_X": "1",
    }


def test_the_base_is_not_changed() -> None:
    base = {"MALLOC_CONF": "x"}
    build_environment(base, JEMALLOC, {}, {})
    assert base == {"MALLOC_CONF": "x"}
