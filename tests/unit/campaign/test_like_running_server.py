"""A running server laid over an experiment: its malloc as a variant, the rest of the table."""

import pytest

from dballoc.allocators import find_library
from dballoc.campaign.preparation import like_running_server
from dballoc.campaign.preparation.like_running_server import Likeness
from dballoc.ground.errors import UsageError
from dballoc.process.malloc.identify_malloc import MallocInUse

TABLE = {
    "name": "demo",
    "baseline": "glibc",
    "server": {"use": "mysql", "connect": "tcp", "options": {"a": "1"}},
    "variant": [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
}


def in_use(name: str | None, library: str, settings: dict[str, str] | None = None) -> MallocInUse:
    return MallocInUse(
        pid=1,
        executable="/usr/sbin/mariadbd",
        name=name,
        title="",
        version="",
        library=library,
        how="",
        mixed={},
        settings=settings or {},
        idle={},
        thp="",
    )


def test_plain_glibc_goes_by_its_name() -> None:
    assert like_running_server.make_variant(in_use("glibc", "/lib/libc.so.6"), []) == {
        "name": "glibc",
        "allocator": "glibc",
    }


def test_settings_make_it_current() -> None:
    found = in_use("glibc", "/lib/libc.so.6", {"MALLOC_ARENA_MAX": "2"})
    assert like_running_server.make_variant(found, []) == {
        "name": "current",
        "allocator": "glibc",
        "env": {"MALLOC_ARENA_MAX": "2"},
    }


def test_an_allocator_of_the_catalogue() -> None:
    try:
        library = str(find_library.find_allocator("jemalloc").libraries[0])
    except UsageError:
        pytest.skip("needs libjemalloc2")
    assert like_running_server.make_variant(in_use("jemalloc", library), [library]) == {
        "name": "jemalloc",
        "allocator": "jemalloc",
    }
    assert like_running_server.make_variant(
        in_use("jemalloc", library, {"MALLOC_CONF": "narenas:2"}), ["/opt/shim.so", library]
    ) == {
        "name": "current",
        "allocator": "jemalloc",
        "preload": ["/opt/shim.so"],
        "env": {"MALLOC_CONF": "narenas:2"},
    }


def test_a_library_of_ones_own() -> None:
    assert like_running_server.make_variant(
        in_use(None, "/opt/libmy.so"), ["/opt/shim.so", "/opt/libmy.so"]
    ) == {
        "name": "current",
        "preload": ["/opt/libmy.so", "/opt/shim.so"],
    }
    # Linked against, not preloaded: preloading the same file is the same.
    assert like_running_server.make_variant(in_use("tcmalloc-full", "/opt/libtcmalloc.so.4"), [])[
        "preload"
    ] == ["/opt/libtcmalloc.so.4"]


def test_a_shim_before_glibc() -> None:
    assert like_running_server.make_variant(in_use("glibc", "/lib/libc.so.6"), ["/opt/shim.so"]) == {
        "name": "current", "allocator": "glibc", "preload": ["/opt/shim.so"],
    }  # fmt: skip


def test_laid_over_a_table() -> None:
    server = {"use": "mariadb", "engine": "innodb", "options": {"b": "2"}}
    result = Likeness(
        server=server,
        cpu={"count": 2},
        memory="2G",
        variant={"name": "current", "env": {"X": "1"}},
    ).lay(TABLE)
    assert result["server"] == {**server, "connect": "tcp"}, "what it does not say is its default"
    assert (result["cpu"], result["limits"], result["baseline"]) == (
        {"count": 2},
        {"memory": "2G"},
        "current",
    )
    assert [v["name"] for v in result["variant"]] == ["current", "glibc", "jemalloc"]


def test_the_same_variant_is_not_run_twice() -> None:
    result = Likeness(
        server={"use": "mariadb"},
        cpu={},
        memory=None,
        variant={"name": "jemalloc", "allocator": "jemalloc"},
    ).lay(TABLE)
    assert [v["name"] for v in result["variant"]] == ["jemalloc", "glibc"]
    assert "cpu" not in result
    assert TABLE["baseline"] == "glibc"
