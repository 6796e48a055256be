"""Compare an experiment as it runs with what the post that it repeats states of its set-up: every
statement beside what the run does. Pure; what the post states is data (``[post]``), and nothing
else is known of it here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher

from dballoc.experiment import scale
from dballoc.experiment.durations_and_sizes import format_duration
from dballoc.experiment.model import BUILTIN, LOAD, Variant
from dballoc.experiment.post import Post
from dballoc.ground.numbers import count, listing
from dballoc.questions.published.setup import workload_statements
from dballoc.questions.published.setup.compare_machine import (
    compare_cpus,
    compare_machines,
    compare_memory,
    compare_thp,
)
from dballoc.questions.published.setup.compare_options import (
    compare_load_options,
    compare_options,
    compare_settling,
    compare_warmups,
)
from dballoc.questions.published.setup.run_setup import (
    NOT_RUN,
    NOT_STATED,
    PostComparison,
    RunSetup,
    compare_setting,
    compare_text,
    join_words,
    sort_by_topic,
)
from dballoc.questions.published.setup.setting_values import (
    ANY_MALLOC,
    drop_remarks,
    is_same_release,
    is_same_variant,
    spread_settings,
)
from dballoc.questions.published.setup.stated_paragraphs import find_paragraph


def compare_with_post(post: Post, run: RunSetup) -> list[PostComparison]:
    """Return everything that the post states, and that the run does, beside each other, in the
    order in which a reader asks. What ``--scale`` made smaller has a mark.
    """
    comparisons = [
        replace(compared, paragraph=_name_paragraph(post, compared))
        for compared in sort_by_topic(_compare_all(post, run))
    ]
    was = run.experiment.scaled
    if was is None:
        return comparisons
    full = replace(
        run,
        experiment=scale.restore_full_scale(run.experiment),
        # On how many cores CPUs would be that this host does not have, nobody knows.
        host_cores=() if was.cpus else run.host_cores,
    )
    at_full_scale = {(c.topic, c.item): c for c in _compare_all(post, full)}
    return [_mark_scaled(c, at_full_scale.get((c.topic, c.item))) for c in comparisons]


def _name_paragraph(post: Post, compared: PostComparison) -> str:
    """Return where the post states its side; empty where it states nothing."""
    if compared.post in (NOT_STATED, NOT_RUN):
        return ""
    return find_paragraph(post, compared.topic, compared.item)


def _mark_scaled(compared: PostComparison, full: PostComparison | None) -> PostComparison:
    """Return a comparison with a mark where the run is only what it is because it was scaled: with
    what it would be at ``full`` scale, unless that is what the post states.
    """
    if full is None:
        mark = "scaled" if compared.differs else ""
    elif full.run == compared.run:
        mark = ""
    else:
        is_as_stated = full.post != NOT_STATED and not full.differs
        mark = "scaled" if is_as_stated else f"scaled from {full.run}"
    return replace(compared, run=f"{compared.run} ({mark})") if mark else compared


def _compare_all(post: Post, run: RunSetup) -> list[PostComparison]:
    return [
        *compare_machines(post, run),
        *_compare_allocators(post, run),
        *_compare_ways(post, run),
        *_compare_servers(post, run),
        *compare_options(post, run),
        *_compare_loads(post, run),
        *compare_load_options(post, run),
        *_compare_starts(post, run),
        *compare_cpus(post, run),
        *compare_memory(post, run),
        *compare_thp(post, run),
        *_compare_data(post, run),
        *_compare_times(post, run),
        *_compare_statements(post, run),
        *_compare_transports(post, run),
        *compare_warmups(post, run),
        *compare_settling(post, run),
        *_list_otherwise(post),
    ]


def _list_otherwise(post: Post) -> Iterator[PostComparison]:
    for topic, differences in post.otherwise.items():
        for item, words in differences.items():
            yield PostComparison(
                topic=topic, item=item, post=words.post, run=words.run, differs=True
            )


# -- allocator and server
# --------------------------------------------------------------------------------------


def _compare_allocators(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    for variant in (v for v in run.experiment.variant if v.name in run.allocators):
        actual = _describe_variant(run, variant)
        stated = post.variants.get(variant.name, NOT_RUN) if post.variants else None
        yield compare_text("allocator", variant.name, stated, actual, is_same_variant)
    left_out = run.experiment.scaled.left_out if run.experiment.scaled else []
    for name, stated in post.variants.items():
        if name not in run.allocators:
            why = ": too few CPUs" if name in left_out else ""
            yield compare_text("allocator", name, stated, NOT_RUN + why)


def _compare_ways(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Tell how mallocs are put under the servers and what dballoc has these print, which posts
    hardly ever state.
    """
    variants = [variant for variant in run.experiment.variant if variant.name in run.allocators]
    ways = {variant.name: _name_way(variant) for variant in variants}
    added = {
        name: " ".join(f"{k}={v}" for k, v in variables.items())
        for name, variables in run.added_environment.items()
    }
    is_stated = _WAY in post.otherwise.get("allocator", {})
    for item, by_variant in ((_WAY, {} if is_stated else ways), (_ADDED, added)):
        for text, names in _group_variants(by_variant).items():
            everywhere = len(names) == len(run.allocators)
            which = item if everywhere else f"{item}, {join_words(names)}"
            yield compare_text("allocator", which, None, text)


_WAY = "how it is put under the server"
_ADDED = "environment that dballoc sets"
# The server's own malloc.
_OWN = (None, BUILTIN, "glibc")


def _group_variants(by_variant: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the variants of each text; those without one are left out."""
    groups: dict[str, list[str]] = {}
    for name, text in by_variant.items():
        if text:
            groups.setdefault(text, []).append(name)
    return groups


def _name_way(variant: Variant) -> str:
    """Return how a variant's malloc comes to its server; empty for the server's own."""
    if variant.allocator and variant.allocator.startswith("glibc@"):
        return "a copy of the server names that glibc's loader"
    return "" if variant.allocator in _OWN and not variant.preload else "by LD_PRELOAD"


def _describe_variant(run: RunSetup, variant: Variant) -> str:
    """Return the allocator with its version, and all that the variant sets."""
    settings = {**variant.tunables, **variant.env}
    common = run.experiment.server
    settings |= {
        name: value
        for name, value in variant.server.options.items()
        if common.options.get(name) != value
    }
    shown = {"name", "stands_for", "allocator", "preload", "env", "tunables", "server", "cpu"}
    shown |= {"not_settable"}
    more = variant.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=shown)
    words = [f"{name.replace('_', ' ').replace('thp', 'THP')} {more[name]}" for name in more]
    before = [path.rpartition("/")[2] for path in variant.preload] if variant.allocator else []
    text = ", ".join(
        [
            *_name_malloc(run, variant),
            *(f"{name}={value}" for name, value in settings.items()),
            *words,
            *(f"preloaded before it: {name}" for name in before),
            *(f"no option sets {name}" for name in variant.not_settable),
        ]
    )
    return f"{text} {_KEPT_THP}" if variant.wants_huge_pages else text


# In brackets, as it is not compared.
_KEPT_THP = "(a preloaded library of dballoc's keeps the server from switching THP off)"


def _name_malloc(run: RunSetup, variant: Variant) -> list[str]:
    """Return the allocator, and whether it is in the server itself: the C library's needs no such
    word.
    """
    name = run.allocators[variant.name]
    is_servers_own = variant.allocator in _OWN and name != run.host_libc
    if name.startswith("glibc") and run.host_libc and is_servers_own:
        name += f" (the server's own; the host has {run.host_libc.removeprefix('glibc ')})"
    if variant.allocator not in (None, BUILTIN) or variant.preload or name.startswith("glibc"):
        return [name]
    return [ANY_MALLOC if name == BUILTIN else name, "built into the server"]


def _compare_servers(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    by_server = _group_variants(run.servers)
    for server, names in by_server.items():
        item = "" if len(by_server) == 1 else ", ".join(names)
        yield compare_text("server", item, post.server, server, is_same_release)


# -- load
# --------------------------------------------------------------------------------------


def _compare_loads(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    load = run.experiment.load
    yield from _compare_workloads(post, run)
    yield from _compare_levels(post, run)
    yield from _compare_profiles(post, run)
    if drivers := dict.fromkeys(w.driver for w in run.workloads.values() if w.driver):
        actual = listing(list(drivers))
        yield compare_setting(post, "load", "driver", actual, is_same_release)
        stated = post.states.get("load, driver")
        if stated and not re.search("[0-9]", drop_remarks(stated)):
            yield compare_text("load", "version of the driver", None, actual)
    # A workload that brings its own tables chooses its rows itself.
    if not any(w.brings for w in run.workloads.values()):
        yield compare_setting(post, "load", "random numbers", load.random)
    if kinds := sorted({w.prepared for name, w in run.workloads.items() if name != LOAD}):
        words = " or ".join(("sent as text", "prepared in the server")[kind] for kind in kinds)
        yield compare_setting(post, "load", "statements are", words)
    if all(w.driver == _HAMMERDB for w in run.workloads.values()) and run.workloads:
        return
    events = load.options.get("events", "0")
    for item, actual in (
        ("sysbench's option percentile", str(load.percentile)),
        # Our samples need a report of every second.
        ("report interval", "1s"),
        ("events of a level", "as many as its time has" if events == "0" else events),
    ):
        yield compare_setting(post, "load", item, actual)


_HAMMERDB = "HammerDB"  # which has none of sysbench's options


def _compare_levels(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    if run.duet is not None:
        words = f"{run.duet.threads} of each of the two servers"
        yield compare_setting(post, "load", "clients", words)
        return
    levels = run.experiment.threads
    if "load, most clients" in post.states:
        yield compare_setting(post, "load", "most clients", str(max(levels)))
    yield compare_setting(post, "load", "clients", join_words(levels))


def _compare_profiles(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare under which workload, with how many clients, is profiled, if anything is, and for
    what.
    """
    experiment = run.experiment
    profiled = [] if experiment.profile is None else experiment.list_profiled(None)
    clients = count(experiment.profiled_level, "client")
    actual = f"{join_words(profiled)}, {clients}" if profiled else "nothing"
    if profiled or "load, profiled at" in post.states:
        yield compare_setting(post, "load", "profiled at", actual)
    if experiment.profile is not None and profiled and "load, profiled for" in post.states:
        yield compare_setting(post, "load", "profiled for", experiment.profile)


def _compare_workloads(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare the workloads; where they are not the same, what is on one side alone, and the order,
    if one server runs all of them in it.
    """
    actual, stated = run.experiment.workloads, post.workloads
    if stated is None or set(stated) == set(actual):
        text = _shorten(actual)
        yield compare_text("load", "workloads", None if stated is None else text, text)
    if stated is None:
        return
    for name in stated:
        if name not in actual:
            yield compare_text("load", "workload", name, NOT_RUN)
    for name in actual:
        if name not in stated:
            yield compare_text("load", "workload", NOT_RUN, name)
    common, ordered = ([n for n in a if n in b] for a, b in ((stated, actual), (actual, stated)))
    if common != ordered and run.experiment.sequence == "cycle":
        moved = _find_moved(common, ordered)
        stated_places, places = _place_names(moved, common), _place_names(moved, ordered)
        yield compare_text("load", "order of workloads", stated_places, places)


def _find_moved(first: list[str], second: list[str]) -> list[str]:
    """Return the names that are elsewhere in the second order of the same names, as few as a
    comparison of the two finds.
    """
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    kept = {name for block in blocks for name in first[block.a : block.a + block.size]}
    return [name for name in first if name not in kept]


def _place_names(names: list[str], order: list[str]) -> str:
    """Return behind which other each of the names comes."""
    before = dict(zip(order[1:], order, strict=False))
    return "; ".join(
        f"{name} after {before[name]}" if name in before else f"{name} first" for name in names
    )


# More workloads than these are counted and not listed.
_MOST_LISTED = 6


def _shorten(names: list[str]) -> str:
    if len(names) <= _MOST_LISTED:
        return join_words(names)
    if names[0] == LOAD:
        return f"the load and {len(names) - 1} tests"
    return f"{len(names)}, {names[0]} to {names[-1]}"


# -- sequence
# --------------------------------------------------------------------------------------


def _compare_starts(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare when a server is started anew, and how often everything is run. Duets differ from
    every post, and their repeats are nothing that a post has.
    """
    if run.duet is not None:
        yield PostComparison(
            topic="sequence",
            item="",
            post=post.states.get("sequence", "one server at a time"),
            run=_IN_DUETS,
            differs=True,
        )
        yield from _compare_binary_logs(post, run)
        return
    experiment = run.experiment
    anew = experiment.sequence == "fresh", experiment.levels == "fresh"
    # Of one workload or one level, there is nothing to tell apart.
    several = len(experiment.workloads) > 1, len(experiment.threads) > 1
    same = {
        words
        for starts, words in _STARTS.items()
        if all(x == y or not many for x, y, many in zip(starts, anew, several, strict=True))
    }
    yield compare_setting(post, "sequence", "", _STARTS[anew], lambda stated, _: stated in same)
    blocks = (
        "as many blocks as it takes"
        if run.blocks is None
        else f"each variant {_count_times(run.blocks)} "
        f"(the baseline {_count_times(2 * run.blocks)}), in random order"
    )
    # Even with as many, the baseline has more, and no post has a random order.
    yield compare_setting(post, "sequence", "repeats", blocks)
    yield from _compare_binary_logs(post, run)


_IN_DUETS = (
    "two servers at once, a variant beside the baseline, each with half of the CPUs; they swap "
    "after each slice of load"
)
# When a server is started anew, by whether it is for each workload, and for each level.
_STARTS = {
    (False, False): "one start for all workloads and levels",
    (True, False): "a start for each workload, its levels back to back",
    (True, True): "a start for each workload and level",
    (False, True): "a start for each level, all workloads in it",
}


def _compare_binary_logs(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare when the server's binary logs are removed, where it has any."""
    has_log = spread_settings(run.experiment.server.options).get("log_bin") == "ON"
    if has_log or "sequence, binary logs are removed" in post.states:
        # So that the disk has to hold one step's logs alone.
        actual = "after each step, all but the last file" if has_log else "there are none"
        yield compare_setting(post, "sequence", "binary logs are removed", actual)


def _count_times(number: int) -> str:
    words = ("never", "once", "twice", "three times", "four times")
    return words[number] if number < len(words) else f"{number} times"


# -- data and times
# --------------------------------------------------------------------------------------


def _compare_data(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare sysbench's tables, and when they are filled. Those that a workload brings have a size
    of its own, by an option of its script.
    """
    data = run.experiment.data
    if not any(workload.brings for workload in run.workloads.values()):
        for item, number in (("tables", data.tables), ("rows of a table", data.rows)):
            yield compare_setting(post, "data", item, "own data" if data.own else f"{number:,}")
    if not data.own:
        in_start = LOAD in run.experiment.workloads and run.experiment.sequence == "cycle"
        filled = (
            "in each start, before its levels" if in_start else "once, and copied for each start"
        )
        yield compare_setting(post, "data", "tables are filled", filled)
        if in_start or "data, clients that fill them" in post.states:
            yield compare_setting(post, "data", "clients that fill them", _count_load_clients(run))


def _count_load_clients(run: RunSetup) -> str:
    """Return how many clients fill the tables; in the workload load, one a table at most."""
    data = run.experiment.data
    if LOAD not in run.experiment.workloads:
        return "one for each CPU"
    return str(min(data.tables, data.load_clients or max(run.experiment.threads)))


def _compare_times(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    time = run.experiment.time
    if run.duet is not None:
        slices = f"slices of {run.duet.slice_seconds:g} s"
        yield compare_setting(post, "time", "a level", slices)
        return
    for item, seconds in (("a level", time.level), ("idle after the load", time.idle)):
        yield compare_setting(post, "time", item, format_duration(seconds))


# -- statements, transport, warm-up
# --------------------------------------------------------------------------------------


def _compare_statements(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare what the transactions hold. Words that name no workload of ours cannot be compared:
    they differ.
    """
    for sentence in post.statements:
        name, colon, stated = sentence.partition(":")
        workload = run.workloads.get(name.strip())
        if colon and workload is not None:
            items = workload_statements.list_statements(workload.script, workload.options)
            actual = join_words(items) or workload.title
            summary = workload_statements.summarize_selects(items)
            if summary and not workload_statements.is_list_of_statements(stated):
                actual = f"{summary}: {actual}"
            yield compare_text("statements", name.strip(), stated.strip(), actual, _hold_the_same)
        else:
            yield compare_text("statements", "", sentence, _describe_all_statements(run))


def _hold_the_same(stated: str, actual: str) -> bool:
    first, second = map(workload_statements.normalize_statements, (stated, actual))
    return first == second


def _describe_all_statements(run: RunSetup) -> str:
    texts = {}
    for name in run.experiment.workloads:
        if workload := run.workloads.get(name):
            items = workload_statements.list_statements(workload.script, workload.options)
            texts[name] = f"{name}: {join_words(items) or workload.title}"
    return "; ".join(texts.values()) or "what the workloads' names say"


def _compare_transports(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    experiment = run.experiment
    # A client on another host never comes through a socket, whatever the experiment asks.
    asked_ways = [experiment.server_of(v).connect for v in experiment.variant]
    ways = dict.fromkeys(
        "tcp" if run.clients_apart and way == "socket" else way for way in asked_ways
    )
    yield compare_setting(post, "transport", "", listing(list(ways)))
    actual = "another host" if run.clients_apart else "same host"
    yield compare_setting(post, "transport", "client on", actual)
    if run.encryption:
        words = listing(list(dict.fromkeys(run.encryption.values())))
        yield compare_text("transport", "connections are", None, words)
