"""A running server laid over an experiment: its malloc as a variant, the rest of the table."""

import pytest

from dballoc.allocators import find
from dballoc.allocators.identify import InUse
from dballoc.campaign import like
from dballoc.campaign.like import Likeness
from dballoc.errors import UsageError

TABLE = {
    "name": "demo", "baseline": "glibc", "server": {"use": "mysql", "connect": "tcp", "options": {"a": "1"}},
    "variant": [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
}  # fmt: skip


def in_use(name: str | None, library: str, settings: dict[str, str] | None = None) -> InUse:
    return InUse(1, "/usr/sbin/mariadbd", name, "", "", library, "", {}, settings or {}, {}, "")


def test_plain_glibc_goes_by_its_name() -> None:
    assert like.variant(in_use("glibc", "/lib/libc.so.6"), []) == {"name": "glibc"}


def test_settings_make_it_current() -> None:
    found = in_use("glibc", "/lib/libc.so.6", {"MALLOC_ARENA_MAX": "2"})
    assert like.variant(found, []) == {"name": "current", "env": {"MALLOC_ARENA_MAX": "2"}}


def test_an_allocator_of_the_catalogue() -> None:
    try:
        library = str(find.find("jemalloc").libraries[0])
    except UsageError:
        pytest.skip("needs libjemalloc2")
    assert like.variant(in_use("jemalloc", library), [library]) == {"name": "jemalloc", "allocator": "jemalloc"}
    assert like.variant(in_use("jemalloc", library, {"MALLOC_CONF": "narenas:2"}), ["/opt/shim.so", library]) == {
        "name": "current", "allocator": "jemalloc", "preload": ["/opt/shim.so"], "env": {"MALLOC_CONF": "narenas:2"},
    }  # fmt: skip


def test_a_library_of_ones_own() -> None:
    assert like.variant(in_use(None, "/opt/libmy.so"), ["/opt/shim.so", "/opt/libmy.so"]) == {
        "name": "current", "preload": ["/opt/libmy.so", "/opt/shim.so"],
    }  # fmt: skip
    # Linked against, not preloaded: preloading the same file is the same.
    assert like.variant(in_use("tcmalloc-full", "/opt/libtcmalloc.so.4"), [])["preload"] == ["/opt/libtcmalloc.so.4"]


def test_a_shim_before_glibc() -> None:
    assert like.variant(in_use("glibc", "/lib/libc.so.6"), ["/opt/shim.so"]) == {
        "name": "current", "allocator": "glibc", "preload": ["/opt/shim.so"],
    }  # fmt: skip


def test_laid_over_a_table() -> None:
    server = {"use": "mariadb", "engine": "innodb", "options": {"b": "2"}}
    result = Likeness(1, server, {"count": 2}, "2G", {"name": "current", "env": {"X": "1"}}).lay(TABLE)
    assert result["server"] == {**server, "connect": "tcp"}, "what it does not say is its default"
    assert (result["cpu"], result["limits"], result["baseline"]) == ({"count": 2}, {"memory": "2G"}, "current")
    assert [v["name"] for v in result["variant"]] == ["current", "glibc", "jemalloc"]


def test_the_same_variant_is_not_run_twice() -> None:
    result = Likeness(1, {"use": "mariadb"}, {}, None, {"name": "jemalloc", "allocator": "jemalloc"}).lay(TABLE)
    assert [v["name"] for v in result["variant"]] == ["jemalloc", "glibc"]
    assert "cpu" not in result
    assert TABLE["baseline"] == "glibc"
