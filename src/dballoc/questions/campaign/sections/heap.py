"""What the servers allocated: who holds the heap, how fast it turns over, how long malloc and free
take.
"""

import math
from typing import Any

import polars as pl

from dballoc.document.charts import (
    AMOUNTS,
    POINTS,
    Variants,
    draw,
    draw_points,
    make_axis,
    make_chart,
    make_tips,
)
from dballoc.document.csv import make_frame
from dballoc.document.model import Embed, Figure, Section, Table
from dballoc.ground.numbers import NOTHING, count, mebibytes, number, percent
from dballoc.profile.heap import heap_profile
from dballoc.profile.heap.heap_profile import sum_by_holder
from dballoc.profile.profile_tables import VARIANCE
from dballoc.questions.campaign.figures.profiles import Heaps, VariantHeap
from dballoc.questions.campaign.sections import contention
from dballoc.questions.compare.campaign_tables import Campaign

_MOST, _SURE = 25, 2
_GRAPHS = (
    (heap_profile.LIVE, "Live heap"),
    (heap_profile.ALLOCATED, "Allocated bytes"),
    (heap_profile.TIME, "Time in malloc and free"),
)

_TEXT = (
    "Every variant was started once more with the heap probe in front of its malloc, on a copy of "
    "the same data, warmed up, and profiled with {clients}: that start contributes to no "
    "other figure of this report. The probe samples one allocation in so many bytes and times one "
    "call in about a thousand; figures are estimates, with one standard error where it is given. "
    "Live memory is what malloc's callers hold, not what malloc takes from the system for it."
)


def make_heap_section(campaign: Campaign, heaps: Heaps, variants: Variants) -> Section:
    """Return the section on the heap, for every workload: the turnover, the functions that hold the
    heap, the time by size, flame graphs.
    """
    tables: list[Table] = []
    figures, embeds = [], []
    for workload, watched, after in contention.list_profiled_workloads(
        campaign, (s.workload for s in heaps.profiles), heaps.of
    ):
        tables += [_tabulate_turnover(watched, after), _tabulate_holders(watched, after)]
        figures += draw_call_times(watched, workload, variants, after)
        embeds += _make_flame_graphs(watched, workload, after)
    text = [
        _TEXT.format(clients=count(campaign.experiment.profiled_level, "client")),
        *(
            f"No heap profile of {s.variant} under {s.workload}: {s.missing}."
            for s in heaps.profiles
            if not s.profile
        ),
    ]
    return Section(
        key="heap",
        title="Heap",
        text=text,
        figures=figures,
        tables=tables,
        embeds=embeds,
    )


_PLACE = ("workload", "variant")
_CALLS = ("operation", "size_from", "size_below", "calls", "timed")
_TIMES = ("mean", "p50", "p99", "longest")
_FUNCTIONS = ("function", "live", "live_error", "allocated", "seconds", "stalled")


def collect_heap_tables(heaps: Heaps) -> dict[str, pl.DataFrame]:
    """Return the tables for csv/ by file name. Bytes, seconds; times of a call in nanoseconds."""
    profiled = [s for s in heaps.profiles if s.profile]
    calls = [
        (
            s.workload, s.variant, r["operation"], *r["sizes"], float(r["calls"]), r["timed"],
            *(float(r[column]) for column in _TIMES),
        )
        for s in profiled
        for r in s.figures["sizes"]
    ]  # fmt: skip
    functions = [
        (s.workload, s.variant, name, *sums)
        for s in profiled
        for name, sums in _sum_by_function(s).items()
    ]
    return {
        "heap-calls": make_frame((*_PLACE, *_CALLS, *_TIMES), calls),
        "heap-functions": make_frame((*_PLACE, *_FUNCTIONS), functions),
    }


def _tabulate_turnover(watched: dict[str, VariantHeap], after: str) -> Table:
    columns = [
        "variant",
        "alive, MiB",
        "±",
        "allocated, MiB/s",
        "allocations/s",
        "share of CPU",
        "mean malloc, ns",
        "mean free, ns",
        "calls > 100 µs, /s",
        "calls timed",
    ]
    rows = []
    for name, heap in watched.items():
        f = heap.figures
        seconds, spent = f["seconds"] or 1.0, f["malloc"]
        means = [_compute_mean_time(f["sizes"], operation) for operation in ("malloc", "free")]
        rows.append(
            [
                name,
                mebibytes(f["live"]),
                mebibytes(f["live_error"]),
                mebibytes(f["allocated"] / seconds),
                number(f["allocations"] / seconds),
                percent(spent["share"]) if spent["share"] is not None else NOTHING,
                *(NOTHING if m is None else number(m) for m in means),
                number(spent["stalls"] / seconds),
                f"{spent['timed']:,}",
            ]
        )
    caption = (
        "Alive: at the end of the profile. Share of CPU: of the server's, in malloc and free. A "
        "call of more than 100 µs has waited, for a lock, for memory from the kernel or for a CPU; "
        "such calls are in the means, but not in that share."
    )
    return Table(
        title=f"What goes through malloc{after}", columns=columns, rows=rows, caption=caption
    )


def _compute_mean_time(sizes: list[dict[str, Any]], operation: str) -> float | None:
    operation_sizes = [s for s in sizes if s["operation"] == operation]
    timed = sum(s["timed"] for s in operation_sizes)
    return math.fsum(s["mean"] * s["timed"] for s in operation_sizes) / timed if timed else None


def _tabulate_holders(watched: dict[str, VariantHeap], after: str) -> Table:
    sums = {name: _sum_by_function(heap) for name, heap in watched.items()}
    largest: dict[str, float] = {}
    for by_function in sums.values():
        for function, (live, error, *_) in by_function.items():
            if live > _SURE * error:  # else it may be the chance of one sample
                largest[function] = max(largest.get(function, 0.0), live)
    first = sorted(largest, key=lambda function: -largest[function])[:_MOST]
    rows = []
    for function in first:
        cells = [by_function.get(function) for by_function in sums.values()]
        rows.append([
            contention.shorten_function_name(function),
            *(f"{mebibytes(c[0])} ± {mebibytes(c[1])}" if c and c[0] else NOTHING for c in cells),
        ])  # fmt: skip
    caption = (
        "MiB alive, by the innermost function that does more than hand its memory on. The largest "
        f"in any variant first; functions that are not {_SURE} standard errors above zero in any "
        "variant are left out."
    )
    return Table(
        title=f"Who holds the heap{after}", columns=["function", *sums], rows=rows, caption=caption
    )


def _sum_by_function(watched: VariantHeap) -> dict[str, tuple[float, float, float, float, float]]:
    """Return by function live bytes and their standard error, allocated bytes, seconds in malloc
    and free, and seconds stalled there.
    """
    assert watched.profile
    values = (
        heap_profile.LIVE,
        heap_profile.LIVE + VARIANCE,
        heap_profile.ALLOCATED,
        heap_profile.TIME,
        heap_profile.STALLED,
    )
    sums = sum_by_holder(watched.profile, values)
    return {f: (live, math.sqrt(variance), *rest) for f, (live, variance, *rest) in sums.items()}  # type: ignore[misc]


def _make_flame_graphs(watched: dict[str, VariantHeap], workload: str, after: str) -> list[Embed]:
    embeds = []
    for value, title in _GRAPHS:
        with_samples = [
            (name, heap.profile)
            for name, heap in watched.items()
            if heap.profile and heap.profile.total(value)
        ]
        if with_samples:
            embeds.append(
                contention.make_flame_graph(
                    f"heap-{value}-{workload}", title + after, with_samples, value
                )
            )
    return embeds


# A mean of fewer timed calls says little.
_LEAST = 10
_HEIGHT = 240


def draw_call_times(
    watched: dict[str, VariantHeap], workload: str, variants: Variants, after: str
) -> list[Figure]:
    """Draw one chart for malloc and one for free: the mean of the calls that were timed, by size
    class.
    """
    return [
        _draw_times_of_operation(watched, operation, workload, variants, after)
        for operation in ("malloc", "free")
    ]


def _draw_times_of_operation(
    watched: dict[str, VariantHeap], operation: str, workload: str, variants: Variants, after: str
) -> Figure:
    rows: list[dict[str, Any]] = [
        {
            "variant": name,
            "bytes": max(size["sizes"][0], 1),
            **{key: size[key] for key in ("mean", "p99", "timed")},
        }
        for name, heap in watched.items()
        for size in heap.figures["sizes"]
        if size["operation"] == operation and size["timed"] >= _LEAST
    ]
    common = {
        "x": make_axis(
            "bytes",
            "size of the block, bytes (log scale)",
            {"type": "log", "base": 2, "nice": False},
            tickCount=8,
            labelExpr="datum.value >= 1024 ? datum.value / 1024 + ' Ki' : datum.value",
        ),
        "y": make_axis(
            "mean",
            f"mean time of {operation}, ns (log scale)",
            {"type": "log", "nice": True},
            **AMOUNTS,
        ),
    }
    mean, timed = {"format": ",.0f"}, "calls timed"
    tip = make_tips({"variant": "", "bytes:Q": "", "mean:Q": mean, "p99:Q": "", "timed:Q": timed})
    layers = [
        draw(rows, "line", strokeWidth=1.8, **common, **variants.encode_lines(POINTS)),
        draw_points(rows, 60, tooltip=tip, **common, **variants.encode_points(POINTS)),
    ]
    caption = (
        f"Elapsed time, stalls included, where {_LEAST} calls or more were timed. Size classes "
        "double: 64 stands for 64 to 127 bytes."
    )
    return Figure(
        f"{operation}-time-{workload}",
        f"How long {operation} takes{after}",
        caption,
        make_chart(_HEIGHT, layers),
    )
