"""What became of a malloc's settings: by what the process shows, else by the catalogue."""

import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from example_option_tables import make_option_table, make_tunable

from dballoc import catalogue
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.setting_effects import (
    MallocSettings,
    SettingInForce,
    judge_settings,
)
from dballoc.host.elf.elf_parser import list_data_symbols
from dballoc.process.malloc.read_settings import (
    decode_setting,
    match_setting,
    parse_option_table,
    parse_tunable_list,
)

# As gperftools' macros make it (its base/commandlineflags.h), mangled.
FLAG = "_ZN61FLAG__namespace_do_not_use_directly_use_DECLARE_{}_instead{}E"


def judge(
    name: str,
    version: str,
    variables: Mapping[str, str],
    in_force: Mapping[str, tuple[str | None, bool]] | None = None,
    **evidence: Any,
) -> dict[str, str]:
    shown = {k: SettingInForce(value=v, is_set=s) for k, (v, s) in (in_force or {}).items()}
    names = frozenset(shown) or None
    allocator = Allocator(name=name, libraries=(), version=version)
    effects = judge_settings(
        allocator, variables, MallocSettings(in_force=shown, names=names, **evidence)
    )
    return {effect.setting: effect.words for effect in effects}


GLIBC = {
    "arena_max": ("2", True),
    "trim_threshold": ("131072", False),
    "mmap_threshold": ("0", False),
    "check": ("0", False),
    "pthread.rseq": ("1", False),
    "glibc.pthread.rseq": ("0", True),
}


def test_what_the_loader_shows_decides() -> None:
    text = "glibc.malloc.arena_max=2:glibc.malloc.trim_treshold=4096:glibc.pthread.rseq=0:rubbish"
    assert judge("glibc", "2.36", {"GLIBC_TUNABLES": text}, GLIBC) == {
        "glibc.malloc.arena_max=2": "applied",
        "glibc.malloc.trim_treshold=4096": "has no effect: glibc 2.36 has no such setting; "
        "did you mean 'trim_threshold'?",
        "glibc.pthread.rseq=0": "applied",
        "rubbish": "has no effect: not of the form glibc.malloc.NAME=VALUE",
    }


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("MALLOC_ARENA_MAX", "2", "applied"),
        ("MALLOC_ARENA_MAX", "4", "has no effect: 2 is in force"),
        ("MALLOC_TRIM_THRESHOLD_", "4096", "has no effect: glibc malloc did not take it"),
        ("MALLOC_MMAP_THRESHOLD_", "x", "has no effect: 'x' is not a whole number"),
        (
            "MALLOC_TRIM_THRESHOLD",
            "4096",
            "has no effect: glibc has no such variable; did you mean 'MALLOC_TRIM_THRESHOLD_'?",
        ),
    ],
)
def test_variables_of_glibc(variable: str, text: str, words: str) -> None:
    (printed,) = judge("glibc", "2.36", {variable: text}, GLIBC).values()
    assert printed.startswith(words) or words in printed.replace(
        "a number of bytes", "a whole number"
    )


def test_without_a_list_the_catalogue_decides() -> None:
    assert judge("glibc", "2.28", {"MALLOC_ARENA_MAX": "two"}) == {
        "MALLOC_ARENA_MAX=two": "has no effect: 'two' is not a whole number of 1 or more"
    }
    (printed,) = judge("glibc", "2.28", {"MALLOC_ARENA_MAX": "2"}).values()
    assert printed.startswith("cannot tell: glibc malloc does not show from outside")


def test_what_the_loader_takes_and_malloc_does_not() -> None:
    in_force = {"mxfast": ("64", True)}
    (printed,) = judge(
        "glibc", "2.43", {"GLIBC_TUNABLES": "glibc.malloc.mxfast=64"}, in_force
    ).values()
    assert printed.startswith("has no effect: glibc 2.43 has no such setting, only versions")


def test_pairs_that_jemalloc_calls_invalid() -> None:
    effects = judge("jemalloc", "5.3.0", {"MALLOC_CONF": "narenas:2,narena:2,dirty_decay_ms:x"})
    assert effects["narenas:2"].startswith("cannot tell: ")
    assert "did you mean 'narenas'?" in effects["narena:2"]
    assert effects["dirty_decay_ms:x"].startswith("has no effect: 'x' is not a whole number")


def test_jemalloc_reads_nothing_behind_what_is_no_pair() -> None:
    effects = judge("jemalloc", "5.3.0", {"MALLOC_CONF": "narenas;2,dirty_decay_ms:5"})
    assert set(effects) == {"narenas;2", "dirty_decay_ms:5"}
    assert all(words.startswith("has no effect") for words in effects.values())
    assert "reads nothing behind" in effects["dirty_decay_ms:5"]


def test_what_dballoc_adds_is_no_setting_of_the_users() -> None:
    assert judge("jemalloc", "5.3.0", {"MALLOC_CONF": "abort_conf:true"}) == {}


def test_a_privileged_start() -> None:
    cause = "file capability cap_sys_nice"
    for name, variable in (("glibc", "MALLOC_ARENA_MAX"), ("jemalloc", "MALLOC_CONF")):
        (printed,) = judge(name, "", {variable: "x"}, privileged=cause).values()
        assert printed == f"has no effect: ignored, as the program was started privileged ({cause})"
    # These read them all the same (seen in gperftools 2.10, mimalloc 2.0.9 and oneTBB 2021.8).
    for name, variable, value in (
        ("tcmalloc", "TCMALLOC_RELEASE_RATE", "5"),
        ("mimalloc", "MIMALLOC_PURGE_DELAY", "0"),
        ("tbbmalloc", "TBB_MALLOC_USE_HUGE_PAGES", "1"),
    ):
        (printed,) = judge(name, "", {variable: value}, privileged=cause).values()
        assert printed.startswith("cannot tell: ")


def test_an_older_name_that_mimalloc_still_takes() -> None:
    in_force = {"reset_delay": ("3", True), "purge_delay": ("10", False)}
    effects = judge("mimalloc", "2.0.9", {"MIMALLOC_RESET_DELAY": "3"}, in_force, by_malloc=True)
    assert effects == {"MIMALLOC_RESET_DELAY=3": "applied"}


@pytest.mark.parametrize("layout", ["2.36", "2.39", "2.41"])
def test_the_loaders_list(layout: str) -> None:
    data = b"junk" * 6 + b"".join(
        make_tunable(layout, f"glibc.malloc.{name}", alias, number, is_set)
        for name, alias, number, is_set in (
            ("arena_max", "MALLOC_ARENA_MAX", 2, True),
            ("perturb", "MALLOC_PERTURB_", 0, False),
            ("tcache_max", "", 1 << 40, True),
        )
    )
    assert parse_tunable_list(data) == {
        "glibc.malloc.arena_max": SettingInForce(value="2", is_set=True),
        "glibc.malloc.perturb": SettingInForce(value="0", is_set=False),
        "glibc.malloc.tcache_max": SettingInForce(value=str(1 << 40), is_set=True),
    }
    # One that is cut short, and one of a layout that is not known.
    assert len(parse_tunable_list(data[:-60])) == 2
    assert parse_tunable_list(data.replace(b"MALLOC_PERTURB_", b"MALLOC_PERTURB?")) == {}


def test_mimallocs_table() -> None:
    names = {"show_errors", "decommit_delay", "reset_delay", "other"}
    data = make_option_table(0x7000)
    for pieces in ([(0x7000, data)], [(0x9000, data[64:]), (0x7000, data[:64])]):
        assert parse_option_table(pieces, names) == {
            "show_errors": SettingInForce(value="0", is_set=False),
            "decommit_delay": SettingInForce(value="-1", is_set=True),
            "reset_delay": SettingInForce(value="-1", is_set=True),
        }


@pytest.mark.parametrize(
    ("family", "symbol", "name"),
    [
        ("jemalloc", "je_opt_narenas", "narenas"),
        ("jemalloc", "opt_dirty_decay_ms", "dirty_decay_ms"),
        ("jemalloc", "opt_percpu_arena", None),  # a word, kept as a number
        ("jemalloc", "opt_unheard_of", None),
        ("tcmalloc", FLAG.format("double", "27FLAGS_tcmalloc_release_rate"), "release_rate"),
        ("tcmalloc", FLAG.format("bool", "22FLAGS_malloc_skip_mmap"), "skip_mmap"),
        ("tcmalloc", FLAG.format("bool", "24FLAGS_nomalloc_skip_mmap"), None),
        ("tcmalloc", FLAG.format("string", "23FLAGS_memfs_malloc_path"), None),
    ],
)
def test_variables_of_settings(family: str, symbol: str, name: str | None) -> None:
    assert match_setting(catalogue.tunables()[family], symbol) == name


def test_values_of_variables() -> None:
    jemalloc, tcmalloc = (catalogue.tunables()[name] for name in ("jemalloc", "tcmalloc"))
    rate = FLAG.format("double", "27FLAGS_tcmalloc_release_rate")
    for family, symbol, raw, value in (
        (jemalloc, "opt_narenas", struct.pack("<i", 2), "2"),
        (jemalloc, "opt_dirty_decay_ms", struct.pack("<q", -1), "-1"),
        (jemalloc, "opt_background_thread", b"\1", "true"),
        (tcmalloc, "FLAGS_malloc_skip_mmap", b"\0", "0"),
        (tcmalloc, rate, struct.pack("<d", 2.5), "2.5"),
    ):
        assert decode_setting(family, symbol, raw) == SettingInForce(value=value, is_set=True)
    assert decode_setting(jemalloc, "opt_junk", b"12") is None


def test_variables_of_a_library(c_library: Callable[[str, str], Path]) -> None:
    hidden = '__attribute__((visibility("hidden"))) long opt_lg_prof_sample = 4;\n'
    library = c_library("variables", f"unsigned je_opt_narenas = 3; int other;\n{hidden}")
    fd = os.open(library, os.O_RDONLY)
    try:
        listed = list_data_symbols(fd, "(je_)?opt_")
    finally:
        os.close(fd)
    sizes = {name: size for name, _, size in listed["symbols"]}
    assert sizes == {"je_opt_narenas": 4, "opt_lg_prof_sample": 8}
