"""The settings of allocators: which there are, what they may be, and whether the allocator's own
word agrees.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from dballoc import catalogue
from dballoc.allocators import reported_tunables
from dballoc.allocators import tunables as tunables_module
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.server_environment import build_environment
from dballoc.doctor import inventory
from dballoc.ground.errors import UsageError

GLIBC = Allocator(name="glibc", libraries=(), version="2.36")
OLD_GLIBC = Allocator(name="glibc", libraries=(), version="2.31")
JEMALLOC = Allocator(name="jemalloc", libraries=(Path("/l/libjemalloc.so.2"),), version="5.3.0")
OLD_JEMALLOC = Allocator(
    name="jemalloc@5.2.1", libraries=(Path("/l/libjemalloc.so.2"),), version="5.2.1"
)
TCMALLOC = Allocator(
    name="tcmalloc", libraries=(Path("/l/libtcmalloc_minimal.so.4"),), version="2.10"
)
MIMALLOC = Allocator(name="mimalloc", libraries=(Path("/l/libmimalloc.so.2"),), version="2.0.9")
NEW_MIMALLOC = Allocator(name="mimalloc", libraries=(Path("/l/libmimalloc.so.3"),), version="3.3.2")
TBB = Allocator(name="tbbmalloc", libraries=(Path("/l/libtbbmalloc_proxy.so.2"),), version="2021.8")
SCUDO = Allocator(name="scudo", libraries=(Path("/l/libscudo.so"),), version="14.0.6")
RPMALLOC = Allocator(name="rpmalloc", libraries=(Path("/l/librpmalloc.so"),), version="1.4")
UNKNOWN = Allocator(name="libhoard.so", libraries=(Path("/l/libhoard.so"),), version="")


def refused(allocator, tunables, env=None, here=None) -> str | None:
    """The line that such a variant gets, without the variant; None if there is nothing wrong with
    it.
    """
    try:
        tunables_module.check_settings(
            allocator,
            tunables_module.list_variant_settings(allocator, tunables, env or {}, "variant 'v'"),
            here,
            "variant 'v'",
        )
    except UsageError as error:
        text = str(error)
        assert "\n" not in text
        assert text.startswith("variant 'v': ")
        return text.removeprefix("variant 'v': ")
    return None


@pytest.mark.parametrize(
    ("allocator", "tunables", "env"),
    [
        (GLIBC, {"arena_max": "1", "mmap_threshold": "0x20000"}, {"MALLOC_TOP_PAD_": "0"}),
        (GLIBC, {}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.pthread.rseq=0"}),
        (JEMALLOC, {"narenas": "default", "dirty_decay_ms": "-1", "thp": "always", "prof_prefix": "x"}, {}),
        (JEMALLOC, {}, {"MALLOC_CONF": "narenas:2,background_thread:true", "GLIBC_TUNABLES": "glibc.pthread.rseq=0"}),
        (TCMALLOC, {"release_rate": "2.5", "aggressive_decommit": "t"}, {"TCMALLOC_SKIP_SBRK": "1", "MALLOCSTATS": "2"}),
        (MIMALLOC, {"reserve_os_memory": "64M", "page_reset": "off"}, {"MIMALLOC_SHOW_STATS": "0"}),
        (NEW_MIMALLOC, {"purge_delay": "0", "allow_thp": "0"}, {}),
        (TBB, {"use_huge_pages": "1"}, {}),
        (SCUDO, {"release_to_os_interval_ms": "-1"}, {"SCUDO_OPTIONS": "zero_contents=true"}),
        # Nobody here knows what these read.
        (UNKNOWN, {}, {"MALLOC_ARENAMAX": "1", "HOARD_X": "y"}),
        (GLIBC, {}, {"LD_LIBRARY_PATH": "/x", "TZ": "UTC", "MYSQL_HOME": "/"}),
    ],
)  # fmt: skip
def test_what_is_a_setting(allocator, tunables, env) -> None:
    assert refused(allocator, tunables, env) is None


@pytest.mark.parametrize(
    ("allocator", "tunables", "env", "line"),
    [
        (GLIBC, {"arena_mx": "1"}, {}, "tunables: arena_mx: glibc 2.36 has no such setting; did you mean 'arena_max'?"),
        (GLIBC, {"zzz": "1"}, {}, "tunables: zzz: glibc 2.36 has no such setting; see: dballoc list settings glibc"),
        (GLIBC, {"arena_max": "0"}, {}, "tunables: arena_max: '0' is not a whole number of 1 or more"),
        (GLIBC, {"perturb": "256"}, {}, "tunables: perturb: '256' is not a whole number from 0 to 255"),
        # glibc itself takes neither, and says nothing.
        (GLIBC, {"mmap_threshold": "64M"}, {}, "tunables: mmap_threshold: '64M' is not a number of bytes from 0 to 33554432"),
        (GLIBC, {"tcache_max": "4096"}, {}, "tunables: tcache_max: '4096' is not a number of bytes from 0 to 1032"),
        (GLIBC, {}, {"MALLOC_ARENAS_MAX": "1"}, "env MALLOC_ARENAS_MAX: glibc has no such variable; did you mean 'MALLOC_ARENA_MAX'?"),
        (GLIBC, {}, {"MALOC_ARENA_MAX": "1"}, "env MALOC_ARENA_MAX: glibc has no such variable; did you mean 'MALLOC_ARENA_MAX'?"),
        (GLIBC, {}, {"MALLOC_ARENA_MAX": "many"}, "env MALLOC_ARENA_MAX: 'many' is not a whole number of 1 or more"),
        (GLIBC, {}, {"MALLOC_CONF": "narenas:1"}, "env MALLOC_CONF is a setting of jemalloc, not of glibc"),
        (GLIBC, {}, {"GLIBC_TUNABLES": "arena_max"}, "env GLIBC_TUNABLES: 'arena_max' is not of the form glibc.malloc.NAME=VALUE"),
        (GLIBC, {"arena_max": "1"}, {"MALLOC_ARENA_MAX": "2"},
         "arena_max is given twice: tunables: arena_max = 1; env MALLOC_ARENA_MAX = 2"),
        (JEMALLOC, {}, {"MALLOC_ARENA_MAX": "1"}, "env MALLOC_ARENA_MAX is a setting of glibc, not of jemalloc"),
        (JEMALLOC, {}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"},
         "env GLIBC_TUNABLES: glibc.malloc.arena_max is a setting of glibc's malloc, not of jemalloc"),
        (JEMALLOC, {"background_thread": "1"}, {}, "tunables: background_thread: '1' is not one of true, false"),
        (JEMALLOC, {"narenas": "0"}, {}, "tunables: narenas: '0' is not a whole number of 1 or more or default"),
        (JEMALLOC, {}, {"MALLOC_CONF": "narena:2"}, "env MALLOC_CONF: narena: jemalloc 5.3.0 has no such setting; did you mean 'narenas'?"),
        (OLD_JEMALLOC, {"tcache_max": "1024"}, {},
         "tunables: tcache_max: jemalloc 5.2.1 has no such setting, only versions 5.3-; see: dballoc list settings jemalloc"),
        (TCMALLOC, {"release_rate": "fast"}, {}, "tunables: release_rate: 'fast' is not a number from 0 to 1000"),
        (TCMALLOC, {}, {"TCMALLOC_RELEASERATE": "1"}, "env TCMALLOC_RELEASERATE: tcmalloc 2.10 has no such setting; did you mean 'release_rate'?"),
        (MIMALLOC, {"reserve_os_memory": "lots"}, {}, "tunables: reserve_os_memory: 'lots' is not a size, like 1048576 or 64M, of 0 or more"),
        (MIMALLOC, {"purge_delay": "0"}, {},
         "tunables: purge_delay: mimalloc 2.0.9 has no such setting, only versions 1.8-1, 2.1-; see: dballoc list settings mimalloc"),
        (RPMALLOC, {"cache": "1"}, {}, "tunables: cache: rpmalloc has no settings"),
        (RPMALLOC, {}, {"MALLOC_ARENA_MAX": "1"}, "env MALLOC_ARENA_MAX is a setting of glibc, not of rpmalloc"),
        (RPMALLOC, {}, {"MALLOC_CONF": "narenas:1"}, "env MALLOC_CONF is a setting of jemalloc, not of rpmalloc"),
    ],
)  # fmt: skip
def test_what_is_none(allocator, tunables, env, line, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = catalogue.allocators()
    entries = {
        **rows,
        "rpmalloc": {"title": "rpmalloc", "tunables": {}},
        "jemalloc@5.2.1": rows["jemalloc"],
    }
    monkeypatch.setattr("dballoc.allocators.find_library.allocators", lambda: entries)
    assert refused(allocator, tunables, env) == line


def test_the_library_that_is_here_knows_better_than_the_catalogue() -> None:
    # A setting that the catalogue has not heard of, and one that this build lacks.
    assert refused(MIMALLOC, {"brand_new": "7"}, here={"brand_new", "verbose"}) is None
    line = refused(MIMALLOC, {"page_reset": "1"}, here={"brand_new", "verbose"})
    assert (
        line
        == "tunables: page_reset: mimalloc 2.0.9 has no such setting, only versions 1-1.7, 2.0-2.0; see: dballoc list settings mimalloc"
    )
    # jemalloc's list leaves out what it takes all the same.
    assert refused(JEMALLOC, {"lg_tcache_max": "16"}, here={"narenas"}) is None


def neighbours(text: str) -> list[tuple[int, ...]]:
    """The versions right before and right behind a range ``FROM-TO``."""
    low, _, high = text.partition("-")
    beside = []
    if low:
        *head, last = map(int, low.split("."))
        beside += [(*head, last - 1)] if last else [(*head[:-1], head[-1] - 1, 99)]
    if high:
        *head, last = map(int, high.split("."))
        beside += [(*head, last + 1)]
    return [v for v in beside if min(v) >= 0]


def lies_in(version: tuple[int, ...], text: str) -> bool:
    low, _, high = text.partition("-")
    first, last = (tuple(map(int, end.split("."))) if end else () for end in (low, high))
    return version >= first and (not last or version[: len(last)] <= last)


BOUNDED = [
    (family["allocators"][0], name, row)
    for family in catalogue.tunables().values()
    for name, row in family["settings"].items()
    if "versions" in row
]


def a_value(name: str, row: dict[str, Any]) -> str:
    """One that the setting takes."""
    family = next(f for f in catalogue.tunables().values() if name in f["allocators"])
    match row["kind"]:
        case "flag":
            return str(family["flags"][0][0])
        case "choice":
            return str(row["values"][0])
        case _:
            return str(max(row.get("least", 0), 0))


def test_a_version_that_lacks_a_setting_refuses_it_and_one_that_has_it_takes_it() -> None:
    assert len(BOUNDED) > 100
    for allocator, name, row in BOUNDED:
        library = () if allocator == "glibc" else (Path("/l/lib.so"),)

        def line(
            version: tuple[int, ...],
            allocator: str = allocator,
            library: tuple[Path, ...] = library,
            name: str = name,
            row: dict[str, Any] = row,
        ) -> str | None:
            found = Allocator(
                name=allocator, libraries=library, version=".".join(map(str, version))
            )
            return refused(found, {name: a_value(allocator, row)})

        for text in row["versions"]:
            low, _, high = text.partition("-")
            # The last release of a line is of that line: 1.9.3 of 1.
            ends = [*([low] if low else []), *([f"{high}.99"] if high else [])]
            for end in ends:
                assert line(tuple(map(int, end.split(".")))) is None, (allocator, name, end)
            for version in neighbours(text):
                if not any(lies_in(version, other) for other in row["versions"]):
                    said = line(version)
                    assert said, (allocator, name, version)
                    assert "has no such setting, only versions " in said


def test_a_setting_that_is_listed_but_has_no_effect_any_more_is_refused() -> None:
    listed = {"arena_max", "mxfast"}
    assert refused(GLIBC, {"mxfast": "64"}, here=listed) is None
    newer = Allocator(name="glibc", libraries=(), version="2.43")
    assert refused(newer, {"mxfast": "64"}, here=listed) == (
        "tunables: mxfast: glibc 2.43 has no such setting, only versions 2.30-2.42; see: dballoc list settings glibc"
    )


@pytest.mark.parametrize(
    ("version", "largest", "count"),
    [("2.41", 1032, "7"), ("2.42", 4194304, "7"), ("2.43", 4194304, "16"), ("", 4194304, "7; 16 since 2.43")],
)  # fmt: skip
def test_glibcs_thread_cache_by_version(version: str, largest: int, count: str) -> None:
    settings = catalogue.tunables()["glibc"]["settings"]
    glibc = Allocator(name="glibc", libraries=(), version=version)
    assert refused(glibc, {"tcache_max": str(largest)}) is None
    assert refused(glibc, {"tcache_max": str(largest + 1)})
    assert tunables_module.describe_default(settings["tcache_count"], version) == count


@pytest.mark.parametrize(
    ("reference", "name", "default", "available"),
    [
        ("glibc@2.42", "tcache_count", "7", True),
        ("glibc@2.43", "tcache_count", "16", True),
        ("glibc@2.43", "mxfast", "128", False),
        ("glibc@2.43", "hugetlb", "0; on aarch64 1, of 2 MiB, whatever the loader lists", True),
        ("jemalloc@5.3.0", "tcache_ncached_max", "", False),
        ("jemalloc@5.3.1", "tcache_ncached_max", "", True),
        ("google-tcmalloc", "glibc.pthread.rseq", "dballoc sets 1 on Linux 6.19 to 7.0.9 (aarch64: to 7.0.13), 0 on other kernels", None),
    ],
)  # fmt: skip
def test_the_list_is_of_the_version(
    reference: str, name: str, default: str, available: bool | None
) -> None:
    rows = {row.name: row for row in inventory.list_settings(reference)}
    assert (rows[name].default, rows[name].available) == (default, available)


def test_defaults_by_version_are_in_order() -> None:
    for family in catalogue.tunables().values():
        for name, row in family["settings"].items():
            first = [tuple(map(int, v.split("."))) for v in row.get("default_since", {})]
            assert first == sorted(first), name
            assert all(tunables_module.is_in_version(row, v) for v in row.get("default_since", {}))


def test_a_malloc_without_settings_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {**catalogue.allocators(), "rpmalloc": {"title": "rpmalloc", "tunables": {}}}
    monkeypatch.setattr("dballoc.allocators.find_library.allocators", lambda: rows)
    assert refused(RPMALLOC, {}, {"TZ": "UTC", "GLIBC_TUNABLES": "glibc.pthread.rseq=0"}) is None
    assert reported_tunables.list_reported_names(RPMALLOC, ["/bin/true"], {}) is None
    assert reported_tunables.read_reported_settings(RPMALLOC, ["/bin/true"], {}) == {}


def test_an_old_glibc_without_a_list_takes_other_parts_of_glibc_at_their_word() -> None:
    assert refused(OLD_GLIBC, {}, {"GLIBC_TUNABLES": "glibc.elision.enable=1"}) is None


LOADER = """glibc.malloc.arena_max: 0x3 (min: 0x1, max: 0xffffffffffffffff)
glibc.malloc.perturb: 0 (min: 0, max: 255)
glibc.pthread.rseq: 1 (min: 0, max: 1)
glibc.cpu.x86_ibt:
"""
JEMALLOC_STATS = """___ Begin jemalloc statistics ___
Run-time option settings
  opt.abort_conf: true
  opt.narenas: 2
  opt.thp: "always"
  opt.background_thread: true (background_thread: true)
  opt.dirty_decay_ms: 10000 (arenas.dirty_decay_ms: 10000)
  opt.stats_print_opts: ""
"""
MIMALLOC_SAYS = """mimalloc: option 'verbose': 1
mimalloc: option 'page_reset': 0
mimalloc: option 'reserve_os_memory': 1024
mimalloc: process init: 0x7f345f385740
mimalloc: option 'page_reset': 1
"""


@pytest.mark.parametrize(
    ("allocator", "text", "tunables", "said"),
    [
        (GLIBC, LOADER, {"arena_max": "3"}, None),
        (GLIBC, LOADER, {"arena_max": "3", "perturb": "300"}, "tunables: perturb = 300 was not accepted: glibc reports 0"),
        (GLIBC, LOADER, {"glibc.pthread.rseq": "0"}, "tunables: glibc.pthread.rseq = 0 was not accepted: glibc reports 1"),
        (JEMALLOC, JEMALLOC_STATS, {"narenas": "2", "thp": "always", "background_thread": "true"}, None),
        (JEMALLOC, JEMALLOC_STATS, {"narenas": "default", "lg_tcache_max": "16"}, None),
        (JEMALLOC, JEMALLOC_STATS, {"thp": "never"}, "tunables: thp = never was not accepted: jemalloc reports always"),
        (JEMALLOC, JEMALLOC_STATS, {"dirty_decay_ms": "0"}, "tunables: dirty_decay_ms = 0 was not accepted: jemalloc reports 10000"),
        # Of two processes' words the first counts, and sizes are in KiB.
        (MIMALLOC, MIMALLOC_SAYS, {"page_reset": "off", "reserve_os_memory": "1M"}, None),
        (MIMALLOC, MIMALLOC_SAYS, {"reserve_os_memory": "1048577"},
         "tunables: reserve_os_memory = 1048577 was not accepted: mimalloc reports 1024"),
        (TBB, "TBBmalloc: huge pages\trequested\n", {"use_huge_pages": "1"}, None),
        (TBB, "TBBmalloc: huge pages\tnot requested\n", {"use_huge_pages": "1"},
         "tunables: use_huge_pages = 1 was not accepted: tbbmalloc reports not requested"),
        (SCUDO, "nothing", {"zero_contents": "true"}, None),
        (UNKNOWN, LOADER, {}, None),
    ],
)  # fmt: skip
def test_what_the_allocator_itself_says(allocator, text, tunables, said) -> None:
    found = tunables_module.list_variant_settings(allocator, tunables, {}, "v")
    assert (
        tunables_module.find_setting_not_taken(
            allocator, found, reported_tunables.parse_reported_settings(allocator, text)
        )
        == said
    )


def test_the_real_loader_shows_what_it_takes_and_what_it_passes_over() -> None:
    argv = ["/bin/true"]
    if not reported_tunables.find_loader("/bin/true"):
        pytest.skip("no loader of its own, a static system")
    names = reported_tunables.list_reported_names(GLIBC, argv, {})
    if not names:
        pytest.skip("this glibc has no --list-tunables")
    assert {"arena_max", "tcache_count"} <= names
    env = build_environment({}, GLIBC, {"arena_max": "3", "perturb": "300"}, {})
    found = tunables_module.list_variant_settings(
        GLIBC, {"arena_max": "3", "perturb": "300"}, {}, "v"
    )
    assert (
        tunables_module.find_setting_not_taken(
            GLIBC, found[:1], reported_tunables.read_reported_settings(GLIBC, argv, env)
        )
        is None
    )
    said = tunables_module.find_setting_not_taken(
        GLIBC, found, reported_tunables.read_reported_settings(GLIBC, argv, env)
    )
    assert said == "tunables: perturb = 300 was not accepted: glibc reports 0"


def test_the_catalogue_hangs_together() -> None:
    rows = catalogue.tunables()
    everyone = [name for f in rows.values() for name in f["allocators"]]
    assert len(everyone) == len(set(everyone))
    assert set(catalogue.allocators()) <= set(everyone), (
        "an allocator without an entry in tunables.toml"
    )
    for family in rows.values():
        assert "line" not in family.get("dump", {}) or re.compile(
            family["dump"]["line"], re.MULTILINE
        ).groupindex.keys() == {
            "name",
            "value",
        }
        for name, setting in family["settings"].items():
            assert setting["effect"], name
            assert setting["kind"] in ("count", "size", "number", "flag", "choice", "text"), name
            assert setting["kind"] != "flag" or "flags" in family, name
            assert setting["kind"] != "choice" or setting["values"], name
            for text in setting.get("versions", []):
                assert re.fullmatch(r"[\d.]*-[\d.]*", text), (name, text)


def test_a_report_does_not_go_over_the_users_own_word() -> None:
    assert build_environment({}, MIMALLOC, {"verbose": "2"}, {})["MIMALLOC_VERBOSE"] == "2"
