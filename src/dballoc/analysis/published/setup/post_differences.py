"""Compare an experiment as it runs with what the post that it repeats states of its set-up: every
statement beside what the run does. Pure; what the post states is data (``[post]``), and nothing
else is known of it here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from dballoc.analysis.published.setup import release_names, workload_statements
from dballoc.analysis.published.setup.run_setup import RunSetup, WorkloadSetup
from dballoc.analysis.published.setup.setting_values import (
    normalize_name,
    normalize_value,
    spread_settings,
    write_value,
)
from dballoc.analysis.published.setup.warmup_words import describe_warmups, is_same_warmup
from dballoc.experiment.cpu_list import parse_cpus
from dballoc.experiment.durations_and_sizes import format_duration, format_size
from dballoc.experiment.model import LOAD, Cpu, Variant
from dballoc.experiment.post import (
    ONE_START,
    START_PER_LEVEL,
    START_PER_WORKLOAD,
    Post,
    PostCpus,
    Topic,
)
from dballoc.numbers import count, listing

NOT_STATED, NOT_SET, NOT_RUN = "not stated", "not set", "not run"

# sysbench's report of every second, which our samples need.
_REPORT_INTERVAL = 1
# The kernel keeps a part of the memory for itself, so a machine of 128G has a little less.
_LEAST_OF_STATED, _MOST_OF_STATED = 0.9, 1.02


@dataclass(frozen=True, kw_only=True)
class PostComparison:
    """One setting of the post beside the run's. ``item``: which of the topic's, empty where the
    topic is one setting. ``post`` is :data:`NOT_STATED` where the post says nothing of it; only an
    option that is set nonetheless differs then, because an option not named has its default.
    """

    topic: Topic
    item: str
    post: str
    run: str
    differs: bool


def compare_with_post(post: Post, run: RunSetup) -> list[PostComparison]:
    """Return everything that the post states, and that the run does, beside each other, in the
    order in which a reader asks.
    """
    return [
        *_compare_allocators(post, run),
        *_compare_servers(post, run),
        *_compare_options(post, run),
        *_compare_loads(post, run),
        *_compare_load_options(post, run),
        *_compare_starts(post, run),
        *_compare_cpus(post, run),
        *_compare_memory(post, run),
        *_compare_data(post, run),
        *_compare_times(post, run),
        *_compare_statements(post, run),
        *_compare_transports(post, run),
        *_compare_warmups(post, run),
    ]


def list_differences(post: Post, run: RunSetup) -> list[PostComparison]:
    """Return what differs, and only that."""
    return [compared for compared in compare_with_post(post, run) if compared.differs]


def _compare_text(
    topic: Topic,
    item: str,
    stated: str | None,
    actual: str,
    is_same: Callable[[str, str], bool] = str.__eq__,
) -> PostComparison:
    differs = stated is not None and not is_same(stated, actual)
    return PostComparison(
        topic=topic, item=item, post=stated or NOT_STATED, run=actual, differs=differs
    )


# -- allocator and server
# --------------------------------------------------------------------------------------


def _compare_allocators(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    for variant in run.experiment.variant:
        actual = _describe_variant(run, variant)
        stated = post.variants.get(variant.name, NOT_RUN) if post.variants else None
        yield _compare_text(
            "allocator", variant.name, stated, actual, release_names.is_same_variant
        )
    names = {variant.name for variant in run.experiment.variant}
    for name, stated in post.variants.items():
        if name not in names:
            yield _compare_text("allocator", name, stated, NOT_RUN)


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
    return ", ".join(
        [
            run.allocators[variant.name],
            *(f"{name}={value}" for name, value in settings.items()),
            *words,
            *(f"preloaded before it: {name}" for name in before),
            *(f"no option sets {name}" for name in variant.not_settable),
        ]
    )


def _compare_servers(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    by_server: dict[str, list[str]] = {}
    for variant in run.experiment.variant:
        by_server.setdefault(run.servers[variant.name], []).append(variant.name)
    for server, names in by_server.items():
        item = "" if len(by_server) == 1 else ", ".join(names)
        yield _compare_text("server", item, post.server, server, release_names.is_same_release)


# -- options
# --------------------------------------------------------------------------------------


def _compare_options(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare the options that all variants have in common; those of one are its own."""
    server = run.experiment.server
    chosen = spread_settings({**server.init_options, **server.options})
    actual = {**spread_settings(run.added_options), **chosen}
    if post.options is None:
        for name, value in chosen.items():
            yield _compare_text("options", name, None, value)
        return
    yield from _compare_settings("options", spread_settings(post.options), actual)


def _compare_settings(
    topic: Topic, stated: dict[str, str], actual: dict[str, str]
) -> Iterator[PostComparison]:
    for name in [*stated, *(name for name in actual if name not in stated)]:
        first, second = stated.get(name), actual.get(name)
        differs = (
            first is None or second is None or normalize_value(first) != normalize_value(second)
        )
        yield PostComparison(
            topic=topic,
            item=name,
            post=NOT_STATED if first is None else first,
            run=NOT_SET if second is None else second,
            differs=differs,
        )


# -- load
# --------------------------------------------------------------------------------------


def _compare_loads(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    experiment, load = run.experiment, run.experiment.load
    yield from _compare_workloads(post, run)
    levels = None if post.threads is None else _join(sorted(post.threads))
    yield _compare_text("load", "clients", levels, _join(experiment.threads))
    yield _compare_text("load", "random numbers", post.load.random, load.random)
    prepared = _describe_prepared([w for n, w in run.workloads.items() if n != LOAD])
    stated = post.load.prepared_statements
    words = None if stated is None else _PREPARED[stated in (True, "auto")]
    if prepared:
        yield _compare_text("load", "statements are", words, prepared)
    percentile = None if post.load.percentile is None else str(post.load.percentile)
    yield _compare_text("load", "percentile", percentile, str(load.percentile))
    interval = post.load.report_interval
    yield _compare_text(
        "load",
        "report interval",
        None if interval is None else f"{interval}s",
        f"{_REPORT_INTERVAL}s",
    )


_PREPARED = {True: "prepared in the server", False: "sent as text"}


def _describe_prepared(workloads: Sequence[WorkloadSetup]) -> str:
    """Return how statements are sent; empty where it is not known."""
    kinds = {workload.prepared for workload in workloads}
    return " or ".join(_PREPARED[kind] for kind in sorted(kinds))


def _compare_workloads(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare the workloads; where they are not the same, what is on one side alone, and the order,
    if one server runs all of them in it.
    """
    actual, stated = run.experiment.workloads, post.workloads
    if stated is None or set(stated) == set(actual):
        text = _shorten(actual)
        yield _compare_text("load", "workloads", None if stated is None else text, text)
    if stated is None:
        return
    for name in stated:
        if name not in actual:
            yield _compare_text("load", "workload", name, NOT_RUN)
    for name in actual:
        if name not in stated:
            yield _compare_text("load", "workload", NOT_RUN, name)
    common, ordered = ([n for n in a if n in b] for a, b in ((stated, actual), (actual, stated)))
    if common != ordered and run.experiment.sequence == "cycle":
        moved = _find_moved(common, ordered)
        stated_places, places = _place_names(moved, common), _place_names(moved, ordered)
        yield _compare_text("load", "order of workloads", stated_places, places)


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
        return _join(names)
    return f"{len(names)}, {names[0]} to {names[-1]}"


def _compare_load_options(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare the options of sysbench's script, whose names had the prefix ``oltp-`` once. What
    the post leaves out has the script's default, and so has what the run leaves out.
    """
    chosen = {_name_load_option(k): v for k, v in run.experiment.load.options.items()}
    if post.load_options is None:
        for name, value in chosen.items():
            yield _compare_text("load", name, None, value)
        return
    stated = {_name_load_option(k): write_value(v) for k, v in post.load_options.items()}
    options = {name: _find_load_option(run, name) for name in stated}
    actual = {name: value for name, value in options.items() if value is not None}
    unstated = {
        name: value
        for name, value in chosen.items()
        if name not in stated
        and normalize_value(workload_statements.DEFAULTS.get(name, NOT_SET))
        != normalize_value(value)
    }
    yield from _compare_settings("load", stated, actual | unstated)


def _name_load_option(name: str) -> str:
    return normalize_name(name).removeprefix("oltp_")


def _find_load_option(run: RunSetup, name: str) -> str | None:
    """Return what an option of the script is in the run: the experiment's value, else that of the
    workloads which have one, else the script's default.
    """
    experiment = {_name_load_option(k): v for k, v in run.experiment.load.options.items()}
    if name in experiment:
        return experiment[name]
    of_workloads = {
        options[name]
        for workload in run.workloads.values()
        if name in (options := {_name_load_option(k): v for k, v in workload.options.items()})
    }
    return (
        " or ".join(sorted(of_workloads))
        if of_workloads
        else workload_statements.DEFAULTS.get(name)
    )


# -- sequence
# --------------------------------------------------------------------------------------


def _compare_starts(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare when a server is started anew, and how often everything is run."""
    yield _compare_text(
        "sequence",
        "",
        post.sequence,
        _describe_starts(run),
        lambda stated, actual: _reduce_starts(stated, run) == _reduce_starts(actual, run),
    )
    runs = None if post.runs is None else f"{count(post.runs, 'run')} of each variant"
    if run.blocks is None:
        blocks, same = "as many blocks as it takes", False
    else:
        blocks, same = f"{count(run.blocks, 'block')} in random order", run.blocks == post.runs
    yield _compare_text("sequence", "repeats", runs, blocks, lambda *_: same)


_START_PER_LEVEL_FOR_ALL = "a start for each level, all workloads in it"


def _describe_starts(run: RunSetup) -> str:
    match run.experiment.sequence, run.experiment.levels:
        case "cycle", "rising":
            return ONE_START
        case "fresh", "rising":
            return START_PER_WORKLOAD
        case "fresh", "fresh":
            return START_PER_LEVEL
        case _:
            return _START_PER_LEVEL_FOR_ALL


def _reduce_starts(sentence: str, run: RunSetup) -> tuple[bool, bool]:
    """Return whether there is a start for each workload, and for each level; with one of them
    alone, there is nothing to tell apart.
    """
    by_workload = sentence in (START_PER_WORKLOAD, START_PER_LEVEL)
    by_level = sentence in (START_PER_LEVEL, _START_PER_LEVEL_FOR_ALL)
    return (
        by_workload and len(run.experiment.workloads) > 1,
        by_level and len(run.experiment.threads) > 1,
    )


# -- machine and data
# --------------------------------------------------------------------------------------


def _compare_cpus(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    cpus = dict.fromkeys(
        _describe_cpus(run.experiment.cpu_of(variant), run.host_cpus)
        for variant in run.experiment.variant
    )
    actual = ", ".join(cpus)
    stated = None if post.cpus is None else _describe_stated_cpus(post.cpus)
    if _ALL_CPUS in cpus:
        yield _compare_text("CPUs", "", stated, actual, lambda *_: True)
    else:
        yield _compare_text("CPUs", "", stated, actual)


_ALL_CPUS = "all of the machine"


def _describe_cpus(cpu: Cpu, host_cpus: int | None) -> str:
    if cpu.count is not None:
        return str(cpu.count)
    if cpu.server is None and cpu.client is None:
        return _ALL_CPUS if host_cpus is None else str(host_cpus)
    sides = {"server": cpu.server, "client": cpu.client}
    return _join(f"{side} {len(parse_cpus(text))}" for side, text in sides.items() if text)


def _describe_stated_cpus(cpus: PostCpus) -> str:
    if cpus.count is not None:
        return _join(cpus.count if isinstance(cpus.count, list) else [cpus.count])
    sides = {"server": cpus.server, "client": cpus.client}
    return _join(f"{side} {number}" for side, number in sides.items() if number)


def _compare_memory(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    limit = run.experiment.limits.memory
    stated = None if post.memory is None else format_size(post.memory)
    actual = limit or run.host_memory
    if actual is None:
        yield _compare_text("memory", "", stated, "all of the machine's", lambda *_: True)
        return
    words = f"limited to {format_size(limit)}" if limit else f"{actual / 2**30:.3g}G"
    share = actual / post.memory if post.memory else 1.0
    same = _LEAST_OF_STATED <= share <= _MOST_OF_STATED
    yield _compare_text("memory", "", stated, words, lambda *_: same)


def _compare_data(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    data = run.experiment.data
    for item, stated, actual in (
        ("tables", post.tables, data.tables),
        ("rows of a table", post.rows, data.rows),
    ):
        words = None if stated is None else f"{stated:,}"
        yield _compare_text("data", item, words, "own data" if data.own else f"{actual:,}")


def _compare_times(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    time = run.experiment.time
    for item, stated, actual in (
        ("a level", post.level, time.level),
        ("idle after the load", post.idle, time.idle),
    ):
        words = None if stated is None else format_duration(stated)
        yield _compare_text("time", item, words, format_duration(actual))


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
            yield _compare_text(
                "statements",
                name.strip(),
                stated.strip(),
                _join(items) or workload.title,
                _hold_the_same,
            )
        else:
            yield _compare_text("statements", "", sentence, _describe_all_statements(run))


def _hold_the_same(stated: str, actual: str) -> bool:
    first, second = map(workload_statements.normalize_statements, (stated, actual))
    return first == second


def _describe_all_statements(run: RunSetup) -> str:
    texts = {}
    for name in run.experiment.workloads:
        if workload := run.workloads.get(name):
            items = workload_statements.list_statements(workload.script, workload.options)
            texts[name] = f"{name}: {_join(items) or workload.title}"
    return "; ".join(texts.values()) or "what the workloads' names say"


def _compare_transports(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    ways = dict.fromkeys(run.experiment.server_of(v).connect for v in run.experiment.variant)
    yield _compare_text("transport", "", post.connect, listing(list(ways)))
    client = None if post.client_host is None else f"{post.client_host} host"
    yield _compare_text("transport", "client on", client, "same host")


def _compare_warmups(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    actual = describe_warmups(run.experiment)
    same = (
        post.warmup is not None
        and len(post.warmup) == len(actual)
        and all(map(is_same_warmup, post.warmup, actual))
    )
    stated = None if post.warmup is None else _join_warmups(post.warmup)
    yield _compare_text("warm-up", "", stated, _join_warmups(actual), lambda *_: same)


def _join_warmups(warmups: Sequence[str]) -> str:
    return ", then ".join(warmups) or "none"


def _join(parts: Iterable[object]) -> str:
    return ", ".join(map(str, parts))
