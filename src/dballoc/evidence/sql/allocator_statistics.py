"""Parse an allocator's own statistics, as the loadable function (native/udf) returns them. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dballoc.ground import readers
from dballoc.process.heaps.allocator_statistics import (
    CACHES,
    HELD,
    LAZY,
    LIVE_ALL,
    LIVE_LARGE,
    LIVE_SMALL,
    METADATA,
    AllocatorStatistics,
    Holding,
    make_statistics,
)

_MIB = 2**20
_FORMAT = 1
# A note tells the age of statistics that are older than this, seconds.
_FRESH = 1.0
# Characters; native/udf has room for 64 KiB.
_LONGEST = 4_000_000
_LARGEST = 2**60


class UnreadableStatistics(Exception):
    """The loadable function's answer cannot be parsed; the reason in a few words."""


def parse_statistics(text: str) -> AllocatorStatistics:
    """Return the statistics in an answer of the loadable function. Raises UnreadableStatistics
    if it cannot be parsed or holds sizes that cannot be.
    """
    answer = _parse_json(text)
    name = answer.get("allocator")
    if not isinstance(name, str) or name not in _PARSERS:
        raise UnreadableStatistics(
            "the loadable function does not know the malloc in "
            f"{_shorten(answer.get('malloc', 'use'))}"
        )
    if not all(type(number) is int and abs(number) < _LARGEST for number in _list_numbers(answer)):
        raise UnreadableStatistics(
            f"the loadable function's figures of {name} cannot be read: not all are whole numbers"
        )
    try:
        account = _PARSERS[name](answer)
        age, took = float(answer.get("age_ms", 0)) / 1e3, float(answer.get("took_us", 0)) / 1e6
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UnreadableStatistics(
            f"the loadable function's figures of {name} cannot be read: {ascii(error)[:200]}"
        ) from None
    if not all(
        type(size) is int and size < _LARGEST
        for holding in account.holdings
        for size in (holding.bytes, account.returned)
    ):
        raise UnreadableStatistics(
            f"the loadable function's figures of {name} cannot be sizes of memory"
        )
    if answer.get("cut"):
        account.notes.append(
            "the loadable function's answer was too long, and left some arenas out"
        )
    if age > _FRESH:
        account.notes.append(
            f"the statistics of {name} are {age:.0f} s old: reading them takes {took:.2f} s, and "
            "may take at most a fiftieth of the time"
        )
    return replace(account, age=age, took=took if age == 0 else 0.0)


def _list_numbers(answer: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what must be a number: the values whose names have a dot, and all that is in lists. A
    text in place of one could, multiplied by a number, become gigabytes of text.
    """
    yield from (value for name, value in answer.items() if "." in name)
    for part in answer.values():
        if isinstance(part, list):
            for item in part:
                yield from item.values() if isinstance(item, dict) else [item]


def parse_trim_answer(text: str) -> str | None:
    """Return the name of what the function for --trim called to give memory back; None if this
    malloc has nothing to call.
    """
    name = _parse_json(text).get("called")
    return None if name is None else _shorten(name)


def _shorten(value: object) -> str:
    """Return a server's text in one line of at most 200 characters."""
    return " ".join(str(value).split())[:200]


def _parse_json(text: str) -> dict[str, Any]:
    if len(text) > _LONGEST:
        raise UnreadableStatistics("the loadable function's answer is longer than it can be")
    try:
        answer = readers.document(text)
    except readers.Unfit as error:
        raise UnreadableStatistics(
            f"the loadable function's answer cannot be read: {error}"
        ) from None
    if not isinstance(answer, dict) or answer.get("format") != _FORMAT:
        raise UnreadableStatistics("the loadable function is another version's: install it again")
    return answer


# glibc's statistics: malloc_info(3). The walk of its heap from outside tells more and is checked
# against these.
_LAST_HEAP = "</heap>"
_TOTAL = re.compile(r'<total type="(fast|rest|mmap)" count="(\d{1,20})" size="(\d{1,20})"')
_SYSTEM = re.compile(r'<system type="current" size="(\d{1,20})"')


def _parse_glibc(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return the sum of all arenas. What threads' caches hold counts as live in it."""
    text = answer["malloc_info"]
    summary = text[text.rindex(_LAST_HEAP) :]
    totals = {name: int(size) for name, _, size in _TOTAL.findall(summary)}
    # glibc adds up the size of each free chunk with the flag bit (the chunk before it is in use)
    # set in it, except for each arena's top chunk.
    flags = sum(
        int(count) for name, count, _ in _TOTAL.findall(summary) if name == "rest"
    ) - text.count(_LAST_HEAP)
    system = _SYSTEM.search(summary)
    if system is None:
        raise ValueError("no system size")
    free = totals["rest"] - flags + totals.get("fast", 0)
    return make_statistics(
        "glibc",
        [
            Holding(LIVE_SMALL, int(system[1]) - free),
            Holding(LIVE_LARGE, totals["mmap"]),
            Holding(HELD, free),
        ],
    )


# tcmalloc's statistics, gperftools' and Google's: the properties of their MallocExtension.
_METADATA = re.compile(r"(\d{1,20}) \([^)]*\) Bytes in malloc metadata")
_LIVE, _PAGES, _UNMAPPED = (
    "generic.current_allocated_bytes",
    "tcmalloc.pageheap_free_bytes",
    "tcmalloc.pageheap_unmapped_bytes",
)


def _parse_gperftools(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return the statistics of gperftools' tcmalloc. Live blocks have their size class's size."""
    metadata = _METADATA.search(answer.get("report", ""))
    return _build_account(
        "gperftools",
        answer,
        caches=answer["tcmalloc.current_total_thread_cache_bytes"],
        lists=answer["tcmalloc.central_cache_free_bytes"]
        + answer["tcmalloc.transfer_cache_free_bytes"],
        metadata=int(metadata[1]) if metadata else 0,
    )


def _parse_google_tcmalloc(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return the statistics of Google's tcmalloc, whose caches belong to CPUs or to threads."""
    lists = sum(
        answer.get(f"tcmalloc.{name}_cache_free", 0)
        for name in ("central", "transfer", "sharded_transfer")
    )
    return _build_account(
        "Google TCMalloc",
        answer,
        caches=answer.get("tcmalloc.cpu_free", 0) + answer.get("tcmalloc.thread_cache_free", 0),
        lists=lists,
        metadata=answer.get("tcmalloc.metadata_bytes", 0),
    )


def _build_account(
    name: str, answer: Mapping[str, Any], *, caches: int, lists: int, metadata: int
) -> AllocatorStatistics:
    pages = answer[_PAGES]
    held = f"{lists / _MIB:.1f} MiB in central lists, {pages / _MIB:.1f} MiB in whole pages"
    return make_statistics(
        name,
        [
            Holding(LIVE_ALL, answer[_LIVE]),
            Holding(CACHES, caches),
            Holding(HELD, lists + pages, held),
            Holding(METADATA, metadata),
        ],
        answer[_UNMAPPED],
    )


# jemalloc's statistics: mallctl's values, by the names of its manual (jemalloc(3)).


def _parse_jemalloc(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return the sum of all arenas. Live blocks have their size class's size; jemalloc counts what
    threads cache as allocated, so it is subtracted here.
    """
    arenas: Sequence[Mapping[str, int]] = answer["arenas"]
    if "stats.allocated" not in answer:
        return make_statistics("jemalloc", [], notes=["this jemalloc was built without statistics"])

    def total(name: str) -> int:
        return sum(arena.get(name, 0) for arena in arenas)

    page = answer["arenas.page"]
    cached = total("tcache_bytes")
    # Before 5.0 the largest blocks were called huge.
    large = total("large.allocated") + total("huge.allocated")
    small = answer["stats.allocated"] - large - cached
    slack, dirty, muzzy = (
        answer["stats.active"] - answer["stats.allocated"],
        total("pdirty") * page,
        total("pmuzzy") * page,
    )
    held = (
        f"{slack / _MIB:.1f} MiB of pages in use, {dirty / _MIB:.1f} MiB "
        f"dirty{_describe_worst_bin(answer['bins'])}"
    )
    return make_statistics(
        "jemalloc",
        [
            Holding(LIVE_SMALL, small, f"{len(arenas)} arenas"),
            Holding(LIVE_LARGE, large),
            Holding(CACHES, cached),
            Holding(HELD, slack + dirty, held),
            Holding(LAZY, muzzy, "muzzy pages"),
            Holding(METADATA, answer["stats.metadata"]),
        ],
        answer.get("stats.retained", 0),
    )


def _describe_worst_bin(bins: Sequence[Mapping[str, int]]) -> str:
    """Name the size class that has the most free memory in its slabs."""
    free = {
        b["size"]: b["curslabs"] * b["slab_size"] - b["curregs"] * b["size"]
        for b in bins
        if "curslabs" in b
    }
    if not free or not (most := max(free.values())):
        return ""
    size = next(size for size, bytes_ in free.items() if bytes_ == most)
    return f"; most of one size: {most / _MIB:.1f} MiB in blocks of {size}"


# mimalloc's statistics. Its release builds count no blocks (MI_STAT is 0) and tell only how much
# is committed.
def _parse_mimalloc(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return live blocks, if the build counts them."""
    notes = (
        [f"mimalloc has committed {answer['current_commit'] / 2**20:,.1f} MiB"]
        if "current_commit" in answer
        else []
    )
    live = _parse_live_bytes(answer.get("stats", ""))
    if live:
        return make_statistics("mimalloc", [Holding(LIVE_ALL, live)], notes=notes)
    return make_statistics(
        "mimalloc", [], notes=[*notes, "this build of mimalloc does not count what is live"]
    )


def _parse_live_bytes(stats: str) -> int:
    """Return the bytes in use, from mi_stats_get_json; 0 if it does not count them."""
    try:
        counters = readers.document(stats)
    except (readers.Unfit, TypeError):
        return 0
    if not isinstance(counters, dict):
        return 0
    parts = (counters.get(name) for name in ("malloc_normal", "malloc_huge"))
    return sum(int(part.get("current", 0)) for part in parts if isinstance(part, dict))


# scudo's statistics: the blocks in use, and those in its free lists and threads' caches, which it
# counts together.
def _parse_scudo(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return its counts. Live blocks have their size class's size."""
    notes = []
    if "modulo" in answer:
        notes.append(
            f"this scudo counts in 32 bits: the live bytes may be {answer['modulo'] >> 30} GiB "
            "more, or a multiple of that"
        )
    holdings = [
        Holding(LIVE_ALL, answer["allocated"]),
        Holding(HELD, answer["free"], "threads' caches included"),
    ]
    return make_statistics("scudo", holdings, notes=notes)


# tbbmalloc has no statistics to query.
def _parse_tbbmalloc(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return no holdings, and its report as a note."""
    return make_statistics("tbbmalloc", [], notes=[answer["report"]])


# The names are native/udf's.
_PARSERS: dict[str, Callable[[Mapping[str, Any]], AllocatorStatistics]] = {
    "glibc": _parse_glibc,
    "google-tcmalloc": _parse_google_tcmalloc,
    "gperftools": _parse_gperftools,
    "jemalloc": _parse_jemalloc,
    "mimalloc": _parse_mimalloc,
    "scudo": _parse_scudo,
    "tbbmalloc": _parse_tbbmalloc,
}
