"""The tables of a report on replays, as plain data."""

import json
import shlex

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.sequential_test import CPU, MEMORY, Procedure
from dballoc.analysis.replay.fidelity import Fidelity
from dballoc.analysis.replay.replay_facts import ReplayFacts
from dballoc.document.model import Table
from dballoc.numbers import NOTHING, count, listing, mebibytes, number, percent, with_unit

# As replay_rows stores the size class without a limit.
_ENDLESS = 2**48


def tabulate_replays(averages: pl.DataFrame, facts: ReplayFacts) -> Table:
    """Return each variant's means. ``averages``: of
    :func:`dballoc.analysis.replay.replay_tables.average_replays`.
    """
    rows = [
        [
            row["variant"],
            mebibytes(row["peak"]),
            mebibytes(row["end"]),
            _format_idle(row["variant"], row["idle"], facts),
            _format_fragmentation(row["fragmentation"], facts),
            number(row["cpu"]),
            str(row["n"]),
        ]
        for row in averages.iter_rows(named=True)
    ]
    columns = [
        "variant", "peak heap, MiB", "at the end, MiB", "idle, MiB", "peak ÷ live bytes",
        "CPU per event, ns", "trials",
    ]  # fmt: skip
    caption = (
        "Means over the trials that ended as planned. Live bytes: what the program had asked for "
        "and not freed, at the peak. Idle: at rest after the last event. CPU per event: of all "
        "threads, for the calls and for touching what they returned, their waiting for each other "
        "left out."
    )
    if not facts.keeps_the_clock and facts.decaying:
        caption += (
            f" Idle heap is not shown for {listing(list(facts.decaying))}: what they give back "
            "depends on the clock, which this replay does not keep."
        )
    return Table(title="Heap and CPU", columns=columns, rows=rows, caption=caption)


def tabulate_replay_details(averages: pl.DataFrame) -> Table:
    """Return how the replays went: the engine's side of them."""
    rows = [
        [
            row["variant"],
            number(row["malloc"]),
            number(row["events"]),
            number(row["faults"]),
            number(row["waited"]),
            mebibytes(row["own_memory"]),
            str(row["failed"]),
        ]
        for row in averages.iter_rows(named=True)
    ]
    columns = [
        "variant", "in malloc, ns an event", "events/s", "page faults per 1,000 events",
        "waited, s", "engine's memory, MiB", "calls without memory",
    ]  # fmt: skip
    caption = (
        "In malloc: time by the clock, from the calls that were timed. Waited: for blocks of other "
        "threads, all threads together. The engine's memory is subtracted from every heap."
    )
    return Table(title="How the replays went", columns=columns, rows=rows, caption=caption)


def _format_fragmentation(ratio: float | None, facts: ReplayFacts) -> str:
    # The peak of a stretch is not that of the live bytes.
    return NOTHING if ratio is None or facts.window else f"{ratio:.2f}"


def _format_idle(variant: str, idle: float | None, facts: ReplayFacts) -> str:
    if variant in facts.decaying and not facts.keeps_the_clock:
        return NOTHING
    return mebibytes(idle)


def tabulate_latencies(latencies: pl.DataFrame, names: list[str]) -> Table:
    """Return how long calls take by operation and size class: p50 / p99 of every variant."""
    cells = {
        (r["operation"], r["largest"], r["variant"]): r for r in latencies.iter_rows(named=True)
    }
    rows = []
    for operation, largest in dict.fromkeys((o, size) for o, size, _ in cells):
        of_class = [cells.get((operation, largest, name)) for name in names]
        if all(r is None or r["p50"] is None for r in of_class):
            continue
        calls = max((r["calls"] for r in of_class if r), default=0)
        size = "larger" if largest == _ENDLESS else f"up to {with_unit(largest)}"
        shown = [f"{number(r['p50'])} / {number(r['p99'])}" if r else NOTHING for r in of_class]
        rows.append([operation, size, f"{calls:,.0f}", *shown])
    return Table(
        title="Time of a call",
        columns=["call", "size", "calls", *(f"{name}, p50 / p99, ns" for name in names)],
        rows=rows,
        heads=2,
        words=("size",),
        caption="Of a sample of the calls, the clock's own cost subtracted; means over trials.",
    )


def describe_replay_levels(procedure: Procedure) -> str:
    """Return the level of each measure's intervals."""
    names = {MEMORY: "peak heap", CPU: "CPU per event"}
    return listing(
        [
            f"{percent(level, 2)} ({names[measure]})"
            for measure, level in procedure.levels.items()
            if measure in names
        ]
    )


def tabulate_fidelity(fidelity: Fidelity) -> Table:
    """Return the recorded process's heap beside the replayed one."""
    has_books = any(m.books is not None for m in fidelity.marks)
    rows = [
        [
            "peak" if fidelity.peak_is_estimated else "most at any mark",
            NOTHING,
            mebibytes(fidelity.real_peak),
            mebibytes(fidelity.replayed_peak),
            _format_error(fidelity.error),
            *([NOTHING, NOTHING] if has_books else []),
        ]
    ]
    rows += [
        [
            m.name,
            number(m.t),
            mebibytes(m.real),
            mebibytes(m.replayed),
            _format_error(m.error),
            *([mebibytes(m.books), mebibytes(m.alive)] if has_books else []),
        ]
        for m in fidelity.marks
    ]
    columns = ["moment", "at, s", "real heap, MiB", "replayed, MiB", "replayed against real"]
    books = ["in use by malloc's books, MiB", "alive in the trace, MiB"] if has_books else []
    caption = (
        f"Replayed: mean over trials of {fidelity.variant}, whose malloc is the recorded one, by "
        "its name, version and settings as far as the trace tells them."
    )
    notes = (
        *(
            ["The real peak: the high-water mark of RSS, less what was not heap at rest."]
            if fidelity.peak_is_estimated
            else []
        ),
        *(["Malloc's books count blocks as it rounded them."] if has_books else []),
    )
    return Table(
        title="The replay beside the recorded process",
        columns=[*columns, *books],
        rows=rows,
        caption=" ".join([caption, *notes]),
    )


def _format_error(error: float) -> str:
    text = percent(error)
    return text if text.startswith("−") else f"+{text}"


def tabulate_trace(facts: ReplayFacts) -> Table:
    """Return what the trace is."""
    rows = [
        ("file", f"{facts.trace}, SHA-256 {facts.sha256[:16]}…"),
        ("program", f"{facts.program}, under {facts.malloc}{_doubt_settings(facts)}"),
        ("recorded", f"{number(facts.seconds)} s, ended by: {facts.ended_by}"),
        ("events", f"{facts.events:,} in {count(facts.threads, 'thread')}"),
        ("live bytes at most", with_unit(facts.peak_live)),
        ("from the start", "yes" if facts.from_start else "no: it began late"),
        ("events that are missing", f"{facts.dropped:,}" if facts.dropped else "none"),
        ("not seen", listing(list(facts.not_seen)) or "nothing that is known"),
        ("peak heap judged", _format_window(facts)),
        ("replayed", f"{facts.mode}, speed {facts.speed:g}, pages touched: {facts.touch}"),
    ]
    return Table(
        title="The trace",
        columns=["what", "as found"],
        rows=[list(row) for row in rows],
        words=("as found",),
    )


def _doubt_settings(facts: ReplayFacts) -> str:
    """Return what to add where a recording does not say how its malloc was set."""
    return "; with which settings is not known" if facts.settings is None else ""


def _format_window(facts: ReplayFacts) -> str:
    if facts.window is None:
        return "of all of it"
    return f"from {number(facts.window[0])} s to {number(facts.window[1])} s"


def tabulate_mallocs(campaign: Campaign) -> Table:
    """Return each variant's allocator and settings."""
    rows = []
    by_name = {r["name"]: r for r in campaign.variant.iter_rows(named=True)}
    for name in campaign.names:
        row = by_name[name]
        environment = json.loads(row["environment"])
        rows.append(
            [
                name,
                " ".join(filter(None, [row["allocator"], row["allocator_version"]])),
                "\n".join(json.loads(row["libraries"])) or NOTHING,
                "\n".join(
                    f"{k}={shlex.quote(v)}" for k, v in environment.items() if k != "LD_PRELOAD"
                )
                or NOTHING,
            ]
        )
    columns = ["variant", "allocator", "preloaded", "environment"]
    return Table(title="Variants", columns=columns, rows=rows, words=columns)
