"""Report results made elsewhere: what they show, machine by machine, and no more than they can."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from dballoc.document.charts import Variants
from dballoc.document.csv import make_frame
from dballoc.document.model import (
    Answer,
    Column,
    Embed,
    Figure,
    Section,
    Table,
    VariantLine,
    tabulate,
)
from dballoc.ground.numbers import count, listing, mebibytes, number, percent
from dballoc.profile.model import Profile
from dballoc.questions.campaign.charts import levels
from dballoc.questions.campaign.figures import level_curves
from dballoc.questions.campaign.figures.level_curves import find_collapses
from dballoc.questions.campaign.figures.profiles import (
    CampaignContention,
    ImportedProfiles,
    Profiles,
)
from dballoc.questions.campaign.sections import contention, tables, workload_groups
from dballoc.questions.campaign.sections.workload_means import (
    make_means_screen,
)
from dballoc.questions.compare.baseline_comparison import Comparisons, compare_with_baseline
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import MEASURES, OF_LEVEL, PEAK, THROUGHPUT
from dballoc.questions.compare.ratios_as_text import format_change, format_mean
from dballoc.questions.imported import one_level
from dballoc.questions.imported.figures import (
    ImportedMachine,
    count_figures,
    is_of_ratios,
    is_repeated,
    list_private_bytes,
    split_by_machine,
)
from dballoc.questions.published import sections as post
from dballoc.questions.published.post_figures import Published
from dballoc.questions.published.post_ratios import compute_means_beside_post

# Measures other than throughput that imported files have, by the name in tables of levels.
_OTHER_MEASURES = [m for m in OF_LEVEL.values() if m.change and m.group != "cpu"]

_ELSEWHERE = (
    "Made elsewhere and imported: dballoc did not run it, has not proved which malloc was in use, "
    "and knows neither the order of the runs nor what else the machine did."
)
_NO_REPEATS = (
    "Nothing was measured twice, so there are no intervals and no verdicts: a difference may be "
    "noise."
)
_REPEATS = (
    "Intervals are over the blocks that the files state; where the runs were not in random order, "
    "a drift of the machine shows in them as a difference."
)
_COLLAPSE = (
    "A collapse: throughput at a level below "
    f"{percent(level_curves.COLLAPSE_SHARE, 0)} of the best at a lower level."
)
_ONE_LEVEL = "One level alone does not tell whether throughput collapses under more clients."


def compose_imported_answer(campaign: Campaign) -> Answer:
    """Return which variants collapse where, or, at one level, how far throughput lies from the
    baseline's; the first machine's come first, the others' lines name their machine.
    """
    machines = split_by_machine(campaign)
    e = campaign.experiment
    sizes = [
        count(count_figures(campaign), "figure"),
        count(len(e.workloads), "workload"),
        count(len(e.variant), "variant"),
    ]
    sizes.append(count(len(machines), "machine"))
    reason = (
        f"Made elsewhere: {listing(sizes)}. {_REPEATS if is_repeated(campaign) else _NO_REPEATS}"
    )
    first = machines[0].campaign
    where = f" on {machines[0].name}" if len(machines) > 1 else ""
    if one_level.has_one_level(campaign):
        headline = (
            f"{count(len(first.experiment.workloads), 'workload')} at one level, relative to "
            f"{first.experiment.baseline}{where}"
        )
        against, describe = "Throughput, least and highest ratio", one_level.describe_ratio_ranges
        notes = [*one_level.describe_kind(campaign), _ONE_LEVEL]
    else:
        headline = f"{_name_fallen(first)}{where}"
        against, describe = "Collapses", _list_collapses
        notes = [_COLLAPSE]
    lines = [
        line if m is machines[0] else replace(line, name=f"{line.name}, {m.name}")
        for m in machines
        for line in describe(m.campaign)
    ]
    notes = [
        *notes,
        _ELSEWHERE,
        *(
            [
                f"{count(len(machines), 'machine')}, each reported separately; the first: "
                f"{machines[0].name}."
            ]
            if len(machines) > 1
            else []
        ),
    ]
    return Answer(
        headline=headline,
        reason=reason,
        against=against,
        variants=lines,
        notes=notes,
    )


def _name_fallen(campaign: Campaign) -> str:
    """Return ``a and b collapse``."""
    collapses = find_collapses(campaign)
    fallen = [n for n in campaign.names if any(f.variant == n for f in collapses)]
    verb = "collapses" if len(fallen) == 1 else "collapse"
    return f"{listing(fallen)} {verb}" if fallen else "No variant collapses"


def _list_collapses(campaign: Campaign) -> list[VariantLine]:
    collapses = find_collapses(campaign)
    return [
        VariantLine(name, listing([f.words for f in collapses if f.variant == name]) or "none")
        for name in campaign.names
    ]


def make_imported_sections(
    campaign: Campaign,
    published: Published | None = None,
    profiled: Profiles = None,
) -> list[Section]:
    """Return the post's figures beside every machine's, every machine's sections, the profiles,
    then where the figures are from.
    """
    machines = split_by_machine(campaign)
    several = len(machines) > 1
    return [
        *(
            _make_published_section(m, number, several, published, profiled)
            for number, m in enumerate(machines, 1)
            if published is not None
        ),
        *(
            s
            for number, m in enumerate(machines, 1)
            for s in _make_machine_sections(m, number, several, published)
        ),
        *(
            [make_imported_profiles_section(profiled)]
            if isinstance(profiled, ImportedProfiles)
            else []
        ),
        _make_origin_section(campaign),
    ]


def _make_published_section(
    machine: ImportedMachine,
    number: int,
    several: bool,
    published: Published,
    profiled: Profiles,
) -> Section:
    waits = _choose_waits(machine, published, profiled)
    section = post.make_published_section(machine.campaign, published, waits)
    key, whose = _mark_machine(machine, number, several)
    return replace(section, key=f"{section.key}{key}", title=f"{section.title}{whose}")


def make_imported_screen(
    campaign: Campaign, published: Published | None, profiled: Profiles
) -> list[Section]:
    """Return what the terminal shows beside the answer, of the first machine as there: its means
    over many workloads, and what there is of the post.
    """
    machine = split_by_machine(campaign)[0]
    means = make_means_screen(compute_means_beside_post(machine.campaign, published))
    if published is None:
        return means
    waits = _choose_waits(machine, published, profiled)
    return [*means, *post.make_published_screen(machine.campaign, published, waits)]


def _choose_waits(
    machine: ImportedMachine, published: Published, profiled: Profiles
) -> CampaignContention | None:
    """Return the machine's waits for the post's table of frames; None where nothing is wanted."""
    if not isinstance(profiled, ImportedProfiles) or published.frames is None:
        return None
    return profiled.of_machine(machine.name, published.frames.threads)


def _mark_machine(machine: ImportedMachine, number: int, several: bool) -> tuple[str, str]:
    """Return what the keys and the titles of a machine's sections end with."""
    return (
        f"-{number}" if number > 1 else "",
        f": {machine.name or 'a machine without a name'}" if several else "",
    )


def compare_first_machine(campaign: Campaign) -> Comparisons:
    """Return the comparisons of the first machine."""
    return compare_with_baseline(split_by_machine(campaign)[0].campaign)


def collect_published_tables(
    campaign: Campaign, published: Published, profiled: Profiles = None
) -> dict[str, pl.DataFrame]:
    """Return the tables for csv/ of the post's figures beside every machine's."""
    compared = [
        (
            m,
            post.collect_published_tables(
                m.campaign, published, _choose_waits(m, published, profiled)
            ),
        )
        for m in split_by_machine(campaign)
    ]
    return {
        name: pl.concat(_mark_rows(tables[name], m) for m, tables in compared)
        for name in compared[0][1]
    }


def _mark_rows(frame: pl.DataFrame, machine: ImportedMachine) -> pl.DataFrame:
    return frame.with_columns(machine=pl.lit(machine.name)).select("machine", pl.exclude("machine"))


def _hide_placeholders(frame: pl.DataFrame, campaign: Campaign) -> pl.DataFrame:
    """Return rows without a level that the files do not state, and with ratios called ratios."""
    assert campaign.facts.imported
    if not campaign.facts.imported.clients_stated:
        levels_of = [n for n in ("threads", "level", "before", "at") if n in frame.columns]
        frame = frame.with_columns(pl.lit(None, pl.Int64).alias(n) for n in levels_of)
    if is_of_ratios(campaign) and "mean" in frame.columns:
        frame = frame.with_columns(pl.col("measure").replace("qps", "ratio"))
    return frame


def collect_imported_tables(campaign: Campaign) -> dict[str, pl.DataFrame]:
    """Return the tables for csv/, with each machine's rows under its name."""
    machines = split_by_machine(campaign)
    rate = level_curves.choose_throughput(level_curves.average_levels(campaign))
    schema = {
        "variant": pl.String,
        "workload": pl.String,
        "before": pl.Int64,
        "at": pl.Int64,
        "share": pl.Float64,
    }
    tables_by_machine: dict[str, Callable[[Campaign], pl.DataFrame]] = {
        "trials": lambda part: part.trial.drop("log_tail", "proof"),
        "levels": level_curves.average_levels,
        "relative": lambda part: level_curves.compute_relative_levels(part, rate).with_columns(
            measure=pl.lit(rate)
        ),
        "collapses": lambda part: pl.DataFrame(map(vars, find_collapses(part)), schema=schema),
    }
    private = list_private_bytes(campaign)
    return {
        **{
            name: _hide_placeholders(
                pl.concat(_mark_rows(make(m.campaign), m) for m in machines), campaign
            )
            for name, make in tables_by_machine.items()
        },
        "variants": campaign.variant.select("name"),
        **({"private-bytes": private} if private.height else {}),
    }


def _make_machine_sections(
    machine: ImportedMachine, number: int, several: bool, published: Published | None
) -> list[Section]:
    campaign, variants = machine.campaign, Variants(machine.campaign.names)
    key, whose = _mark_machine(machine, number, several)
    parts = []
    if means := compute_means_beside_post(campaign, published):
        glance = workload_groups.make_glance_section(campaign, variants, means, [])
        drawn = [_rename_figure(f, key, whose, is_repeated(campaign)) for f in glance.figures]
        parts.append(
            replace(glance, key=f"{glance.key}{key}", title=f"{glance.title}{whose}", figures=drawn)
        )
    if one_level.has_one_level(campaign):
        drawn, text = one_level.draw_charts(campaign, variants), one_level.describe_kind(campaign)
        shown, shapes = one_level.tabulate_measures(campaign), None
    else:
        drawn, shown, text = *_show_levels(campaign, variants), []
        shapes = _tabulate_shapes(campaign)
    figures = [_rename_figure(f, key, whose, is_repeated(campaign)) for f in drawn]
    title = f"Throughput{whose}"
    if figures or shown:
        parts.append(
            Section(key=f"levels{key}", title=title, text=text, figures=figures, tables=shown)
        )
    if shapes is not None:
        title = f"Peaks and collapses{whose}"
        parts.append(Section(key=f"shape{key}", title=title, tables=[shapes]))
    if is_repeated(campaign):
        judged = tables.tabulate_verdicts(compare_with_baseline(campaign))
        judged = replace(judged, rows=judged.rows[:-1])  # there is no A/A pair
        if judged.rows:
            parts.append(Section(key=f"verdicts{key}", title=f"Verdicts{whose}", tables=[judged]))
    return parts


def _show_levels(campaign: Campaign, variants: Variants) -> tuple[list[Figure], list[Table]]:
    """Return the charts and the tables of every workload by level."""
    summary, workloads = level_curves.average_levels(campaign), campaign.experiment.workloads
    measure = MEASURES[level_curves.choose_throughput(summary)]
    ratios = level_curves.compute_relative_levels(campaign, measure.levels)
    figures = [f for w in workloads for f in _draw_charts(summary, ratios, w, variants)]
    shown = [_tabulate_throughput(campaign, summary, w) for w in workloads]
    shown += [t for w in workloads for t in _tabulate_other_measures(campaign, summary, w)]
    return figures, shown


def _tabulate_shapes(campaign: Campaign) -> Table:
    """Return peaks and collapses, in the words of the measure of throughput."""
    measure = level_curves.choose_throughput(level_curves.average_levels(campaign))
    shapes = tables.tabulate_shapes(campaign)
    columns = [c.replace(THROUGHPUT.heading, MEASURES[measure].heading) for c in shapes.columns]
    return replace(shapes, columns=columns)


def _draw_charts(
    summary: pl.DataFrame, ratios: pl.DataFrame, workload: str, variants: Variants
) -> list[Figure]:
    measure = MEASURES[level_curves.choose_throughput(summary)]
    shown = [levels.draw_curve(summary, workload, measure, variants)]
    if ratios.filter(workload=workload).height:
        name = measure.name.upper()
        shown.append(levels.draw_relative_curve(ratios, workload, variants, name))
    if summary.filter(workload=workload, measure=PEAK.levels).height:
        shown.append(levels.draw_curve(summary, workload, PEAK, variants))
    return shown


def _rename_figure(figure: Figure, key: str, whose: str, intervals: bool) -> Figure:
    caption = figure.caption if intervals else "One figure each: no repeats, so no intervals."
    return replace(
        figure, key=f"{figure.key}{key}", title=f"{figure.title}{whose}", caption=caption
    )


def _tabulate_throughput(campaign: Campaign, summary: pl.DataFrame, workload: str) -> Table:
    """Return throughput and Δ % to the baseline: levels × variants, as trackers and posts have
    it.
    """
    measure = MEASURES[level_curves.choose_throughput(summary)]
    cells = tables.index_cells(summary, "mean", workload=workload, measure=measure.levels)
    changed = tables.index_cells(level_curves.compute_relative_levels(campaign, measure.levels))
    baseline, *others = campaign.names
    mean, change = tables.spread(format_mean), tables.spread(format_change)
    columns = [Column("threads", str), *tables.list_variants(cells, workload, [baseline], mean)]
    for name in others:
        columns += tables.list_variants(cells, workload, [name], mean)
        [changes] = tables.list_variants(changed, workload, [name], change)
        columns.append(replace(changes, heading="Δ %"))
    title, caption = f"{measure.label.capitalize()}, {workload}", f"Δ %: against {baseline}."
    return tabulate(title, columns, sorted({n for _, n, _ in cells}), caption=caption)


def _tabulate_other_measures(
    campaign: Campaign, summary: pl.DataFrame, workload: str
) -> list[Table]:
    """Return the measures other than throughput: levels × variants, one table a measure."""
    private = list_private_bytes(campaign).group_by("threads", "variant", "workload")
    most = private.agg(mean=pl.col("private").mean(), low=None, high=None)
    measures = [
        (
            m.heading.removeprefix("peak "),
            mebibytes if m.shown_in else number,
            summary.filter(measure=m.levels),
            "",
        )
        for m in _OTHER_MEASURES
    ]
    shown = []
    for title, form, rows, caption in [
        *measures,
        ("Private bytes, MiB", mebibytes, most, _PRIVATE),
    ]:
        if cells := tables.index_cells(rows, "mean", workload=workload):
            variants = tables.list_variants(cells, workload, campaign.names, _of_mean(form))
            columns = [Column("threads", str), *variants]
            levels = sorted({n for _, n, _ in cells})
            shown.append(tabulate(f"{title}, {workload}", columns, levels, caption=caption))
    return shown


def _of_mean(form: Callable[[float], str]) -> Callable[[Sequence[float]], str]:
    return lambda figures: form(figures[0])


_PRIVATE = (
    "What Windows has committed for the process alone, in memory or not; the most of its readings."
)


def _make_origin_section(campaign: Campaign) -> Section:
    assert campaign.facts.imported
    files = tabulate(
        "Files",
        (Column("file", "name"), Column("SHA-256", "sha256", words=True)),
        campaign.facts.imported.files,
        caption="As they were read; copies are in imported/ of the results.",
    )
    return Section(
        key="origin", title="Where the figures are from", text=[_ELSEWHERE], tables=[files]
    )


# By what is counted: the words in captions, and the flame graph's title.
_NOUNS = {
    "wakeups": ("wake-ups", "Who woke others"),
    "cpu": ("CPU samples", "Where CPU time goes"),
}

_TEXT = (
    "Call stacks that another program recorded and counted. What a stack waits for, and whether it "
    "lies below malloc, is told by its functions, with the same rules as for our own profiles. "
    "Shares are of what the file holds: how many events its program missed, dballoc does not know."
)


def make_imported_profiles_section(profiled: ImportedProfiles) -> Section:
    """Return the section on profiles, for every machine, workload and level that has some."""
    several = len(profiled.places) > 1
    tables: list[Table] = []
    embeds: list[Embed] = []
    text: list[str] = [_TEXT]
    for i, place in enumerate(profiled.places, 1):
        name = _name_place(place)
        after = f", {name}" if several else ""
        watched = {w.variant: w for w in profiled.list_waits(place)}
        if watched:
            tables += [
                contention.tabulate_split(watched, after),
                *contention.tabulate_frames(watched, after),
            ]
            embeds += contention.make_flame_graphs(watched, f"imported-{i}", after)
            text += [
                contention.describe_method(replace(w, workload=name)) for w in watched.values()
            ]
        for counts, (noun, title) in _NOUNS.items():
            # Wake-ups stand beside the waits where there are some.
            others = {} if counts == "wakeups" and watched else profiled.of(place, counts)
            if others:
                tables += contention.tabulate_functions(
                    *_find_value(others), f", {noun}{after}", noun
                )
                embeds.append(_draw_others(others, f"{counts}-{i}", title + after))
        if not several:
            text.insert(1, f"All are of {name}.")
    text += [
        f"The profile of {p.variant}, {_name_place((p.machine, p.workload, p.threads))}, cannot be "
        "read."
        for p in profiled.profiles
        if p.profile is None
    ]
    return Section(key="contention", title="Contention", text=text, tables=tables, embeds=embeds)


def _name_place(place: tuple[str, str, int]) -> str:
    machine, workload, threads = place
    return f"{workload} at {threads}" + (f" on {machine}" if machine else "")


def _draw_others(others: Mapping[str, Profile], key: str, title: str) -> Embed:
    named = list(others.items())
    return contention.make_flame_graph(
        f"contention-imported-{key}", title, named, named[0][1].values[0].key
    )


_PLACE = ("machine", "workload", "threads")
_WAITS = (*_PLACE, "variant", "place", "for", "share")
_FRAMES = (*_PLACE, "counts", "function", "module", "malloc", "variant", "share")


def collect_imported_profile_tables(profiled: ImportedProfiles) -> dict[str, pl.DataFrame]:
    """Return the tables for csv/ by file name; shares of all that a file counts (1 = all)."""
    waits = [
        (*place, watch.variant, where, group, share)
        for place in profiled.places
        for watch in profiled.list_waits(place)
        for where, group, _, share in contention.list_waits(watch)
    ]
    frames = [
        (*place, counts, *row)
        for place in profiled.places
        for counts in ("waits", "waited", "wakeups", "cpu")
        for row in contention.list_shares(*_find_value(profiled.of(place, counts)))
    ]
    return {
        "contention-waits": make_frame(_WAITS, waits),
        "contention-frames": make_frame(_FRAMES, frames),
    }


def _find_value(others: Mapping[str, Profile]) -> tuple[Mapping[str, Profile], str]:
    """Return profiles with the key of their first value."""
    return others, next((profile.values[0].key for profile in others.values()), "")
