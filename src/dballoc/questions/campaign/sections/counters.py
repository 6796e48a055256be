"""The report's section on what the CPU and the kernel counted for each transaction."""

from typing import Any

import polars as pl

from dballoc.document.model import Section, Table
from dballoc.experiment.designs import Design
from dballoc.ground.numbers import NOTHING, listing, number, percent
from dballoc.questions.campaign.figures import counters
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.ratios_as_text import format_ratio

_UNITS = {"task-clock": "task-clock, ns"}


def make_counter_section(campaign: Campaign) -> Section | None:
    """Return the section; None where nothing was counted."""
    rows = counters.build_counter_table(campaign)
    if not rows.height:
        return None
    text = [
        "Counted of the server alone, for each transaction, in user mode (:u) and in the kernel "
        "(:k). Descriptive: no verdict and no recommendation uses it. Neighbours on the machine "
        "slow cycles down and leave the instructions of user mode as they are; spinning on a lock "
        "adds to both."
    ]
    if refused := counters.measure_refused_share(campaign):
        text.append(
            f"{percent(refused)} of the counts were refused, because others had the CPU's counters "
            "for more than a tenth of the time."
        )
    return Section(
        key="counters",
        title="Instructions, cycles and other counts",
        text=text,
        tables=[
            _tabulate_counts(campaign, rows.filter(design=design), design)
            for design in rows["design"].unique(maintain_order=True)
        ],
    )


def describe_counters(campaign: Campaign) -> list[str]:
    """Return the paragraph on the method: what was counted, or why nothing was. Results of a
    dballoc that did not count have none.
    """
    counted = campaign.facts.counters
    if counted is None:
        return []
    events, refusal = [*counted.events], counted.refusal
    if campaign.placement.height:
        # The fact is of the host that gave out the blocks, which ran none of them.
        events, refusal = _list_counted_events(campaign), ""
    because = f" {refusal[:1].upper()}{refusal[1:]}." if refusal else ""
    if not events:
        asked_for = campaign.experiment.counters
        if not asked_for:
            return [
                "Instructions and cycles were not counted: the experiment asks for no counters."
            ]
        return [f"{listing(list(asked_for)).capitalize()} were not counted.{because}"]
    return [
        f"Counted by perf_event_open(2) in all threads of the server: {listing(events)}.{because} "
        "These counts are descriptive, with plain 95 % intervals. A count that covers less than "
        "nine tenths of the time is refused, others are scaled to all of it."
    ]


def _list_counted_events(campaign: Campaign) -> list[str]:
    """Return the events that any host counted, without their mode."""
    names = {
        name.partition(":")[0]
        for table in (campaign.step_counter, campaign.slice_counter)
        for name in table["event"].unique()
    }
    return sorted(names)


def _tabulate_counts(campaign: Campaign, rows: pl.DataFrame, design: str) -> Table:
    """Return each event's count for a transaction, and the ratios of those that sum up the rest."""
    events = sorted(rows["event"].unique(), key=lambda event: (event.split(":")[0], event))
    bare = [event for event in events if ":" not in event]
    compared = bare or events
    per_cycle = {"instructions", "cycles"} <= set(bare)
    heads = ["workload", *(["clients"] if design == Design.SOLO else []), "variant"]
    cells = []
    for place in rows.select("workload", "threads", "variant").unique(maintain_order=True).rows():
        workload, threads, name = place
        of_place = {
            row["event"]: row
            for row in rows.filter(
                pl.col("threads").eq_missing(threads), workload=workload, variant=name
            ).iter_rows(named=True)
        }
        label = f"{name}, A2 ÷ A1" if name == campaign.experiment.baseline else name
        cells.append(
            [
                workload,
                *([str(threads)] if design == Design.SOLO else []),
                label,
                *(_format_count(of_place, event) for event in events),
                *([_format_per_cycle(of_place)] if per_cycle else []),
                *(_format_event_ratio(of_place, event) for event in compared),
                str(max(row["blocks"] for row in of_place.values())),
            ]
        )
    columns = [
        *heads,
        *(_UNITS.get(event, event) for event in events),
        *(["instructions per cycle"] if per_cycle else []),
        *(f"{event}, ratio" for event in compared),
        "blocks",
    ]
    return Table(
        title=f"Counts for each transaction, {design}",
        columns=columns,
        rows=cells,
        caption=f"{Design(design).traits.counted}, with plain 95 % intervals.",
        heads=len(heads),
    )


def _format_count(of_place: dict[str, dict[str, Any]], event: str) -> str:
    return number(of_place[event]["per_transaction"]) if event in of_place else NOTHING


def _format_per_cycle(of_place: dict[str, dict[str, Any]]) -> str:
    if "instructions" not in of_place or "cycles" not in of_place:
        return NOTHING
    cycles = of_place["cycles"]["per_transaction"]
    return number(of_place["instructions"]["per_transaction"] / cycles) if cycles else NOTHING


def _format_event_ratio(of_place: dict[str, dict[str, Any]], event: str) -> str:
    if event not in of_place:
        return NOTHING
    row = of_place[event]
    return format_ratio(row["ratio"], row["low"], row["high"])
