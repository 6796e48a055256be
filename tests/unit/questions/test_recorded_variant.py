"""Which variant of a replay has the malloc that was recorded."""

from dataclasses import replace

import pytest
from example_replays import replay_experiment

from dballoc.allocators.tunables import VariantSetting, find_settings_in_environment
from dballoc.campaign.replay.describe_trace import describe_trace
from dballoc.campaign.replay.prepare_replay import find_recorded_variant
from dballoc.store.replay_facts import RecordedTrace
from example_traces import FACTS, make_trace

VERSIONS = {"glibc": "2.36", "jemalloc": "5.3.0", "mimalloc": "unknown"}
TWO_ARENAS = (VariantSetting("narenas", "2", "tunables"),)


def recorded(
    library: str, version: str = "", settings: tuple[str, ...] | None = ()
) -> RecordedTrace:
    """What a trace says that was recorded on a malloc."""
    facts = replace(FACTS, allocator=library, allocator_version=version, settings=settings)
    return describe_trace(replace(make_trace(1, 10), facts=facts))


def find(trace: RecordedTrace, **changes: object) -> str | None:
    """The variant of glibc, jemalloc, mimalloc and jemalloc with two arenas that is the recorded
    one.
    """
    experiment = replay_experiment(
        variant=[
            *(
                {"name": name} | ({} if name == "glibc" else {"allocator": name})
                for name in VERSIONS
            ),
            {"name": "arenas", "allocator": "jemalloc", "tunables": {"narenas": "2"}},
        ],
        **changes,
    )
    mallocs = {name: (name, version, ()) for name, version in VERSIONS.items()}
    return find_recorded_variant(
        trace, experiment, mallocs | {"arenas": ("jemalloc", "5.3.0", TWO_ARENAS)}
    )


@pytest.mark.parametrize(
    ("trace", "variant"),
    [
        (recorded("/lib/x86_64-linux-gnu/libc.so.6", "2.36"), "glibc"),
        (recorded("/lib/x86_64-linux-gnu/libc.so.6"), "glibc"),
        (recorded("/lib/x86_64-linux-gnu/libc-2.31.so", "2.31"), None),
        (recorded("libjemalloc.so.2", "5.3.0", None), "jemalloc"),
        (recorded("libjemalloc.so.2", "5.3.0", ("MALLOC_CONF=narenas:2",)), "arenas"),
        (recorded("libjemalloc.so.2", "5.3.0", ("MALLOC_CONF=narenas:3",)), None),
        (recorded("libjemalloc.so.2", "5.2.1"), None),
        (recorded("libjemalloc.so.2", "5.3.0", ("MALLOC_ARENA_MAX=1",)), "jemalloc"),
        (recorded("libmimalloc.so.2", "2.0.9"), "mimalloc"),
        (recorded("libmine.so"), None),
        (recorded(""), None),
    ],
)
def test_the_recorded_malloc(trace: RecordedTrace, variant: str | None) -> None:
    assert find(trace) == variant


def test_another_c_library_is_not_as_it_was_recorded() -> None:
    trace = recorded("libjemalloc.so.2", "5.3.0")
    assert find(trace) == "jemalloc"
    assert find(trace, server={"glibc": "2.43"}) is None


@pytest.mark.parametrize(
    "more", [{"thp": "always"}, {"preload": ["/usr/lib/libpad.so"]}, {"env": {"LANG": "C"}}]
)
def test_what_else_a_variant_has_makes_it_another(more: dict[str, object]) -> None:
    experiment = replay_experiment(
        baseline="glibc", variant=[{"name": "glibc", **more}, {"name": "mimalloc"}]
    )
    mallocs = {"glibc": ("glibc", "2.36", ()), "mimalloc": ("mimalloc", "unknown", ())}
    assert find_recorded_variant(recorded("libc.so.6", "2.36"), experiment, mallocs) is None


@pytest.mark.parametrize(
    ("name", "environment", "settings"),
    [
        ("glibc", {"MALLOC_ARENA_MAX": "1"}, {"arena_max": "1"}),
        ("glibc", {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, {"arena_max": "1"}),
        (
            "glibc",
            {"GLIBC_TUNABLES": "glibc.pthread.rseq=0:x:glibc.malloc.top_pad=0"},
            {"top_pad": "0"},
        ),
        ("jemalloc", {"MALLOC_CONF": "abort_conf:true,stats_print:true"}, {}),
        ("jemalloc", {"MALLOC_CONF": "narenas:1,narenas:2,abort_conf:true"}, {"narenas": "2"}),
        (
            "tcmalloc",
            {"TCMALLOC_AGGRESSIVE_DECOMMIT": "1", "MALLOCSTATS": "1"},
            {"aggressive_decommit": "1"},
        ),
        ("mimalloc", {"MIMALLOC_SHOW_STATS": "1", "MIMALLOC_VERBOSE": "1"}, {}),
        ("snmalloc", {"MALLOC_CONF": "narenas:1"}, {}),
    ],
)
def test_settings_in_an_environment(
    name: str, environment: dict[str, str], settings: dict[str, str]
) -> None:
    assert find_settings_in_environment(name, environment) == settings


def test_a_hostile_environment_is_bounded_and_printable() -> None:
    many = tuple(f"MIMALLOC_A{i}=\x1b[2J{'x' * 5000}" for i in range(5000))
    trace = recorded("libmimalloc.so.2", "2.\x07", many)
    assert trace.settings
    assert len(trace.settings) == 100
    assert all(text.isprintable() and len(text) <= 100 for text in trace.settings.values())
    assert trace.malloc.isprintable()
