"""Compare the machine, its CPUs, memory and mode of huge pages with what a post states. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.experiment.model import Cpu
from dballoc.experiment.post import Post, PostCpus
from dballoc.ground.numbers import count
from dballoc.questions.published.setup.run_setup import (
    NOT_STATED,
    PostComparison,
    RunSetup,
    compare_text,
    join_words,
)

# The kernel keeps a part of the memory for itself, so a machine of 128G has a little less.
_LEAST_OF_STATED, _MOST_OF_STATED = 0.9, 1.02

# Server and client on the same CPUs are one side.
_SERVER, _CLIENT, _TOGETHER = "server", "client", ""
_ALL_CPUS = "all of the machine"
_SHARED = "server and client together"
_OTHER_CORES = "other cores, where there are enough"
_OF_OWN_HOST = "client all of its own host"


class _Cpus(NamedTuple):
    """How many CPUs a side has; None where that is not known, or not stated. ``most``: how many
    logical CPUs a post states that there are at most.
    """

    logical: int | None
    cores: int | None = None
    most: int | None = None


_Sides = Mapping[str, _Cpus]


def compare_machines(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Set the machine in the post's words beside the run's. Another machine it always is."""
    yield PostComparison(
        topic="machine",
        item="",
        post=post.machine or NOT_STATED,
        run=run.machine or "the one that it runs on",
        differs=bool(post.machine and run.machine),
    )


def compare_cpus(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare how many CPUs server and client have, and whether they share cores."""
    names_by_cpu: dict[Cpu, list[str]] = {}
    for variant in run.experiment.variant:
        names_by_cpu.setdefault(run.experiment.cpu_of(variant), []).append(variant.name)
    sides = [_count_cpus(cpu, run, names[0]) for cpu, names in names_by_cpu.items()]
    stated = post.cpus
    same = stated is None or _is_same_cpus(stated, sides)
    words = [_describe_sides(each, run) for each in sides]
    if not same and len(words) > 1:
        words = [
            f"{text} ({join_words(names)})"
            for text, names in zip(words, names_by_cpu.values(), strict=True)
        ]
    yield compare_text(
        "CPUs",
        "",
        None if stated is None else _describe_stated_cpus(stated),
        join_words(dict.fromkeys(words)),
        lambda *_: same,
    )
    if same and stated is not None and _leaves_number_open(stated):
        yield compare_text("CPUs", "logical CPUs", None, join_words(dict.fromkeys(words)))
    if shared := _describe_shared_cores(list(names_by_cpu), run):
        apart = stated is not None and {_SERVER, _CLIENT} <= _read_sides(stated).keys()
        stated_cores = "server and client on cores of their own" if apart else None
        yield compare_text("CPUs", "cores", stated_cores, shared)


def _count_cpus(cpu: Cpu, run: RunSetup, name: str) -> _Sides:
    """Return how many CPUs each side has, of the variant ``name``. Of a client on a host of its
    own, which has all of that host's, the number is not compared.
    """
    own_clients: _Sides = {}
    if cpu.clients_apart and not run.clients_apart and run.own_clients.get(name) != 0:
        own_clients = {_CLIENT: _Cpus(run.own_clients.get(name))}
    together = _SERVER if run.clients_apart or own_clients else _TOGETHER
    if cpu.count is not None:
        cores = _count_whole_cores(cpu.count, run.host_cores)
        return {together: _Cpus(cpu.count, cores), **own_clients}
    texts = {_SERVER: cpu.server, _CLIENT: None if run.clients_apart else cpu.client_set}
    sets = {side: parse_cpus(text) for side, text in texts.items() if text}
    if not sets:
        return {together: _Cpus(run.host_cpus, len(run.host_cores) or None)}
    if cpu.clients_apart and not own_clients and not run.clients_apart:
        sets = {_TOGETHER: sets[_SERVER]}
    of_sets = {
        side: _Cpus(len(cpus), sum(bool(core & cpus) for core in run.host_cores) or None)
        for side, cpus in sets.items()
    }
    return {**of_sets, **own_clients}


def _count_whole_cores(cpus: int, cores: Sequence[frozenset[int]]) -> int | None:
    """Return on how many cores so many CPUs are, which are chosen core by core; None where there
    are not so many, or the cores are not known.
    """
    total = 0
    for number, core in enumerate(sorted(cores, key=min), 1):
        total += len(core)
        if total >= cpus:
            return number
    return None


def _read_sides(cpus: PostCpus) -> _Sides:
    """Return what a post states of each side; of several counts, none."""
    together = cpus.count if isinstance(cpus.count, int) else None
    sides = {
        _TOGETHER: _Cpus(together, cpus.cores, cpus.most_count),
        _SERVER: _Cpus(cpus.server, cpus.server_cores, cpus.most_server),
        _CLIENT: _Cpus(cpus.client, cpus.client_cores, cpus.most_client),
    }
    return {side: cpus for side, cpus in sides.items() if any(cpus)}


def _is_same_cpus(stated: PostCpus, sides: list[_Sides]) -> bool:
    """Whether every variant has the CPUs that are stated. What is not known on one side does not
    differ.
    """
    if any(each in ({_TOGETHER: _Cpus(None)}, {_SERVER: _Cpus(None)}) for each in sides):
        return True
    if isinstance(stated.count, list):
        return {each.get(_TOGETHER, _Cpus(None)).logical for each in sides} == set(stated.count)
    wanted = _read_sides(stated)
    return all(
        side in each and _has_same_numbers(cpus, each[side])
        for each in sides
        for side, cpus in wanted.items()
    )


def _leaves_number_open(stated: PostCpus) -> bool:
    """Whether a post states cores of a side, or how many logical CPUs it has at most, and not how
    many these are.
    """
    return any(cpus.logical is None for cpus in _read_sides(stated).values())


def _has_same_numbers(stated: _Cpus, actual: _Cpus) -> bool:
    """Whether all numbers that are known on both sides are equal, and none is above what is stated
    as the most. n logical CPUs are at most n cores, also where the number of cores is not known.
    """
    if actual.logical and not (stated.cores or 0) <= actual.logical <= (stated.most or math.inf):
        return False
    pairs = ((stated.logical, actual.logical), (stated.cores, actual.cores))
    return all(first is None or second is None or first == second for first, second in pairs)


def _describe_sides(sides: _Sides, run: RunSetup) -> str:
    if _TOGETHER in sides:
        cpus = sides[_TOGETHER]
        return _ALL_CPUS if cpus.logical is None else f"{_describe_cpus(cpus)}, {_SHARED}"
    unknown = {_SERVER: _ALL_CPUS, _CLIENT: _OTHER_CORES}
    words = [
        f"{side} {unknown[side] if cpus.logical is None else _describe_cpus(cpus)}"
        for side, cpus in sides.items()
    ]
    return join_words([*words, *([_OF_OWN_HOST] if run.clients_apart else [])])


def _describe_cpus(cpus: _Cpus) -> str:
    if cpus.logical is None:
        most = "" if cpus.most is None else f"at most {count(cpus.most, 'logical CPU')}"
        if cpus.cores is None:
            return most
        return count(cpus.cores, "core") + (f" ({most})" if most else "")
    cores = "" if cpus.cores is None else f" ({count(cpus.cores, 'core')})"
    return f"{count(cpus.logical, 'logical CPU')}{cores}"


def _describe_stated_cpus(cpus: PostCpus) -> str:
    if cpus.words:
        return cpus.words
    if isinstance(cpus.count, list):
        return f"{join_words(cpus.count)} logical CPUs"
    words = (f"{side} {_describe_cpus(each)}" for side, each in _read_sides(cpus).items())
    return join_words(text.strip() for text in words)


def _describe_shared_cores(cpus: list[Cpu], run: RunSetup) -> str:
    """Return on which cores server and client are beside each other; empty where on none, or where
    the cores are not known.
    """
    shared = {
        core
        for cpu in cpus
        if cpu.server and cpu.client_set and not run.clients_apart
        for core in run.host_cores
        if core & parse_cpus(cpu.server) and core & parse_cpus(cpu.client_set)
    }
    if not shared:
        return ""
    lists = "; ".join(format_cpus(core) for core in sorted(shared, key=min))
    return f"server and client share {count(len(shared), 'core')} (CPUs {lists})"


def compare_memory(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare the machine's memory; a limit of the server's always differs."""
    memory = run.host_memory
    share = memory / post.memory if memory and post.memory else 1.0
    same = _LEAST_OF_STATED <= share <= _MOST_OF_STATED
    words = "all that it has" if memory is None else f"{memory / 2**30:.3g}G"
    stated = None if post.memory is None else format_size(post.memory)
    yield compare_text("memory", "of the machine", stated, words, lambda *_: same)
    if limit := run.experiment.limits.memory:
        yield PostComparison(
            topic="memory",
            item="the server's limit",
            post=f"none, so the machine's {stated}" if stated else NOT_STATED,
            run=format_size(limit),
            differs=True,
        )


def compare_thp(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare the mode of transparent huge pages, where variants do not set it themselves."""
    host = f" ({run.host_thp})" if run.host_thp else ""
    of_host = [v.name for v in run.experiment.variant if v.thp is None]
    off = [name for name in of_host if name in run.without_thp]
    kept = [name for name in of_host if name not in run.without_thp]
    for names, mode, words in (
        (kept, run.host_thp, f"as the host has it{host}"),
        (off, "never", f"off, as the server switches it off for itself (the host: {run.host_thp})"),
    ):
        if names:
            item = "" if len(names) == len(run.experiment.variant) else join_words(names)
            same = mode in (None, post.thp)
            yield compare_text("THP", item, post.thp, words, lambda *_, same=same: same)
