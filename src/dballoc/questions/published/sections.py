"""Published figures beside ours, in the post's own layout: where the shape agrees, where it
doesn't, and why that may be.
"""

import math
from collections import Counter
from collections.abc import Sequence

import polars as pl

from dballoc.document.csv import make_frame
from dballoc.document.model import Section, Table
from dballoc.experiment import scale
from dballoc.experiment.model import LOAD
from dballoc.experiment.post import PostCpus
from dballoc.ground.numbers import NOTHING, count, listing, number, percent
from dballoc.questions.campaign.figures.profiles import Profiles
from dballoc.questions.campaign.sections.scaled_down import list_missing, list_stand_ins
from dballoc.questions.compare.campaign_tables import Campaign, reserves_terabytes
from dballoc.questions.compare.measures import OF_LEVEL, PEAK
from dballoc.questions.compare.ratios_as_text import describe_ratio, format_change, format_ratio
from dballoc.questions.compare.split_by_host import split_by_host
from dballoc.questions.published.figures import (
    BAND,
    CollapseComparison,
    ReproducedFigure,
    ShapeAgreement,
    TableComparison,
    compare_published,
)
from dballoc.questions.published.frame_sections import (
    collect_frame_table,
    describe_frame_order,
    measure_published_frames,
    narrow_frames,
    tabulate_frames,
)
from dballoc.questions.published.measured_figures import (
    CollapseHere,
    CollapseOutcome,
    VariantShares,
    find_collapses_here,
)
from dballoc.questions.published.post_figures import Published

_VERDICTS = {
    CollapseOutcome.SEEN: "is seen here",
    CollapseOutcome.ABSENT: "is not seen here",
    CollapseOutcome.SHARED: "cannot be told from another cause here, as others fall too",
    CollapseOutcome.NOT_MEASURED: "was not looked for with enough clients",
}


def describe_collapse(collapses: Sequence[CollapseHere]) -> str:
    """Return the sentence: whether the collapse is seen here, and throughput with most clients ÷
    best of both; empty for a post without a collapse.
    """
    if not collapses:
        return ""
    workloads: dict[CollapseOutcome, list[str]] = {}
    for collapse in collapses:
        workloads.setdefault(collapse.outcome, []).append(collapse.workload)
    if set(workloads) == {CollapseOutcome.NOT_MEASURED}:
        few = listing([f"{c.workload} with {_format_clients(c.needed)}" for c in collapses])
        return f"Whether the post's collapse is seen here was not measured: it takes {few}."
    if len(workloads) == 1:
        verdict = _VERDICTS[collapses[0].outcome]
    else:
        verdict = "; ".join(
            f"in {listing(names)} it {_VERDICTS[outcome]}" for outcome, names in workloads.items()
        )
    measured = [c for c in collapses if c.baseline.measured]
    shares = "; ".join(map(_describe_shares, measured))
    noise = " With one block this may be noise." if min(c.blocks for c in measured) < 2 else ""
    colon = "" if len(workloads) == 1 else ":"
    return f"The post's collapse under many clients{colon} {verdict}: {shares}.{noise}"


def _describe_shares(collapse: CollapseHere) -> str:
    """Return ``of its best oltp_read_only throughput nt-heap keeps 93 % with 576 clients (the post:
    11 % with 1,024), segment-heap 95 % (the post: 82 %)``.
    """
    baseline = collapse.baseline
    assert baseline.measured
    post = f"{percent(baseline.published.share, 0)} with {baseline.published.threads:,}"
    return "".join(
        [
            f"of its best {collapse.workload} throughput {baseline.variant} keeps "
            f"{percent(baseline.measured.share, 0)} with "
            f"{_format_clients(baseline.measured.threads)} (the post: {post})",
            *(_describe_other(other) for other in collapse.others if other.measured),
        ]
    )


def _describe_other(other: VariantShares) -> str:
    assert other.measured
    published = percent(other.published.share, 0)
    return f", {other.variant} {percent(other.measured.share, 0)} (the post: {published})"


def _format_clients(number: int) -> str:
    return f"{number:,} client{'' if number == 1 else 's'}"


def describe_published_cpus(
    published: int, stated: PostCpus | None, machine_cpus: Sequence[int]
) -> str:
    """Return the sentence; empty where no machine surely has fewer or more. ``published``: the
    CPUs of the post's figures; ``stated``: what the experiment's post says of them;
    ``machine_cpus``: those of each machine that ran trials.
    """
    least, most = _find_bounds(published, stated)
    has_fewer, has_more = any(n < least for n in machine_cpus), any(n > most for n in machine_cpus)
    if not has_fewer and not has_more:
        return ""
    words = stated.words if stated is not None else None
    numbers = listing([str(number) for number in sorted(set(machine_cpus))])
    by_host = " (by host)" if len(set(machine_cpus)) > 1 else ""
    if has_fewer and has_more:
        change = "more or less contention, and more or fewer arenas"
    else:
        change = f"{'less' if has_fewer else 'more'} contention, and "
        change += f"{'fewer' if has_fewer else 'more'} arenas"
    return (
        f"{words or f'{published} CPUs'} there, {numbers} here{by_host}: {change} where their "
        "number depends on the CPUs."
    )


def _find_bounds(published: int, stated: PostCpus | None) -> tuple[float, float]:
    """Return how many CPUs the post's machine has at least and at most. Words are of CPUs whose
    number is not stated: only fewer than those of the figures are surely fewer, and only more than
    are stated as the most are surely more.
    """
    if stated is None or not stated.words:
        return published, published
    server = stated.server or stated.most_server
    client = stated.client or stated.most_client
    together = stated.most_count or (server and client and server + client)
    return published, together or math.inf


_RULE = (
    "Shape: who is above whom. Every two figures of a row (of a column, where a row is a variant) "
    f"are compared. A published ratio within ±{percent(BAND, 0)} of 1 counts as equal. Ours agrees "
    "if its 95 % interval says the same, differs if it says something else, and is open if it says "
    "neither or if there is no interval. A row differs if any two of its figures do."
)


def make_published_section(
    campaign: Campaign, published: Published, profiles: Profiles = None
) -> Section:
    """Return the section that sets the post's figures beside ours. ``profiles``: of our own, for
    the post's table of frames.
    """
    compared_tables = compare_published(campaign, published)
    tables = []
    for compared in compared_tables:
        tables.append(
            _tabulate_by_columns(compared, campaign)
            if compared.table.across == "columns"
            else _tabulate_by_rows(compared)
        )
        if compared.falls:
            tables.append(_tabulate_collapses(compared))
    order: list[str] = []
    if published.frames:
        measured = measure_published_frames(published.frames, profiles)
        tables.append(tabulate_frames(published.frames, measured))
        order = describe_frame_order(published.frames, measured)
    collapse = describe_collapse(find_collapses_here(campaign, published))
    text = [
        f"{published.source}: {published.machine}; {published.server}; {published.method}.",
        *published.remarks,
        *([collapse] if collapse else []),
        *order,
        _describe_agreement(compared_tables),
        _RULE,
        *_list_missing_measures(compared_tables, campaign),
        f"Why it may differ: {' '.join(_list_differences(campaign, published))}",
    ]
    return Section(key="published", title="Published beside measured", text=text, tables=tables)


def make_published_screen(
    campaign: Campaign, published: Published, profiles: Profiles
) -> list[Section]:
    """Return what the terminal shows of the post: what became here of its collapse, and the frames
    of its profile beside ours.
    """
    collapse = describe_collapse(find_collapses_here(campaign, published))
    tables = []
    if published.frames:
        measured = measure_published_frames(published.frames, profiles)
        tables.append(narrow_frames(published.frames, measured))
    if not collapse and not tables:
        return []
    return [Section(key="", title="", text=[collapse] if collapse else [], tables=tables)]


def collect_published_tables(
    campaign: Campaign, published: Published, profiles: Profiles = None
) -> dict[str, pl.DataFrame]:
    """Return the tables for csv/: the figures, every pair of them that was compared, and the frames
    of the post's profile where it has one.
    """
    compared_tables = compare_published(campaign, published)
    figures = [
        (
            compared.table.name, f.cell.row, f.cell.column, f.cell.variant, f.cell.measure,
            f.cell.value, f.value, f.low, f.high, f.blocks,
        )
        for compared in compared_tables
        for f in compared.figures.values()
    ]  # fmt: skip
    pairs = [
        (
            compared.table.name, p.group, p.first, p.second, p.published,
            *describe_ratio(p.measured_ratio).values(), p.shape.value,
        )
        for compared in compared_tables
        for p in compared.pairs
    ]  # fmt: skip
    tables = {
        "published": make_frame(_FIGURES, figures),
        "published-shape": make_frame(_PAIRS, pairs),
    }
    if frames := published.frames:
        tables["published-frames"] = collect_frame_table(frames, profiles)
    return tables


_FIGURES = (
    "table", "row", "column", "variant", "measure", "published", "ours", "low", "high", "blocks",
)  # fmt: skip
_PAIRS = (
    "table", "compared_in", "first", "second", "published", "ours", "low", "high", "shape",
)  # fmt: skip


def _describe_agreement(compared_tables: list[TableComparison]) -> str:
    rows = sum(len(_list_comparable(compared)) for compared in compared_tables)
    shapes = Counter(shape for compared in compared_tables for shape in compared.shapes.values())
    measured = sum(len(_list_measured(compared)) for compared in compared_tables)
    if not measured:
        return f"Of {count(rows, 'row')}, none was measured here."
    differing = [
        f"{group} ({compared.table.title})"
        for compared in compared_tables
        for group, s in compared.shapes.items()
        if s is ShapeAgreement.DIFFERS
    ]
    alone = measured - sum(shapes.values())
    sentence = (
        f"Of {count(rows, 'row')}, {measured} were measured here: the shape agrees in "
        f"{shapes[ShapeAgreement.AGREES]}, differs in {shapes[ShapeAgreement.DIFFERS]} "
        f"and is open in {shapes[ShapeAgreement.UNDECIDED]}"
        + (f"; {alone} {'has' if alone == 1 else 'have'} one figure alone." if alone else ".")
    )
    return f"{sentence} It differs in {listing(differing)}." if differing else sentence


def _list_comparable(compared: TableComparison) -> set[str]:
    """Return the rows, or the columns where these are compared, with any figure that a variant of
    ours stands for.
    """
    place = 0 if compared.table.across == "columns" else 1
    return {key[place] for key, figure in compared.figures.items() if figure.cell.variant}


def _list_measured(compared: TableComparison) -> set[str]:
    """Return the rows, or the columns where these are compared, with any figure of ours."""
    place = 0 if compared.table.across == "columns" else 1
    return {key[place] for key, figure in compared.figures.items() if figure.value is not None}


def _tabulate_by_columns(compared: TableComparison, campaign: Campaign) -> Table:
    """Return the table with a row as the post has it: the shape, and for each column the published
    figure and ours.
    """
    table = compared.table
    columns = ["row", "shape"]
    for column in table.columns:
        columns += [f"{column}: published", "ours"]
        if table.change and column != table.baseline:
            columns += ["Δ %: published", "Δ %: ours"]
    rows = []
    for row in table.rows:
        cells = [_label_row(compared, row, campaign), _format_shape(compared, row)]
        for column in table.columns:
            figure = compared.figures.get((row, column))
            cells += _format_figure(figure, table.ratios)
            if table.change and column != table.baseline:
                cells += _format_change(figure)
        rows.append(cells)
    return Table(
        title=table.title,
        columns=columns,
        rows=rows,
        caption=_make_caption(compared),
        words=("shape",),
    )


def _label_row(compared: TableComparison, row: str, campaign: Campaign) -> str:
    """Return the row's name, with the CPUs and the level of ours where these are others."""
    e, was = campaign.experiment, campaign.experiment.scaled
    cells = [
        cell
        for (group, _), figure in compared.figures.items()
        if group == row and figure.value is not None and (cell := figure.cell)
    ]
    if was is None or not cells:
        return row
    full = scale.restore_full_scale(e)
    measured = {cell.variant for cell in cells}
    before, cpus_here = (
        [x.cpu_of(variant).count for variant in x.variant if variant.name in measured]
        for x in (full, e)
    )
    cpus = set(filter(None, cpus_here)) if before != cpus_here else set()
    levels = {cell.threads for cell in cells if isinstance(cell.threads, int)}
    clients = {scale.scale_level(level, was.factor) for level in levels}
    words = [
        count(number, noun)
        for numbers, noun in ((cpus, "CPU"), (clients, "client"))
        if len(numbers) == 1
        for number in numbers
    ]
    return f"{row} (ours: {', '.join(words)})" if words else row


def _tabulate_by_rows(compared: TableComparison) -> Table:
    """Return the table with a row a variant; the shape of each column below it."""
    table = compared.table
    columns = ["variant"]
    for column in table.columns:
        columns += [f"{column}: published", "ours"]
    rows = [
        [
            r,
            *(
                cell
                for c in table.columns
                for cell in _format_figure(compared.figures.get((r, c)), table.ratios)
            ),
        ]
        for r in table.rows
    ]
    rows.append(
        ["shape", *(cell for c in table.columns for cell in ("", _format_shape(compared, c)))]
    )
    return Table(title=table.title, columns=columns, rows=rows, caption=_make_caption(compared))


def _make_caption(compared: TableComparison) -> str:
    values = (
        "ratios to the baseline with 95 % intervals"
        if compared.table.ratios
        else "means over blocks"
    )
    peaks = {PEAK.name, "vsz_peak"} & {cell.measure for cell in compared.table.cells}
    counted = ", RSS as the kernel counted its highest, VSZ sampled" if peaks else ""
    return f"{compared.table.caption} Ours: {values}{counted}."


def _format_figure(figure: ReproducedFigure | None, ratios: bool) -> list[str]:
    if figure is None:
        return [NOTHING, NOTHING]
    if not ratios:
        return [number(figure.cell.value), number(figure.value)]
    return [f"{figure.cell.value:.2f}", format_ratio(figure.value, figure.low, figure.high)]


def _format_change(figure: ReproducedFigure | None) -> list[str]:
    if figure is None:
        return [NOTHING, NOTHING]
    measured = format_change(*describe_ratio(figure.change).values())
    return [format_change(figure.published_change), measured]


def _format_shape(compared: TableComparison, group: str) -> str:
    if group not in compared.shapes:
        return NOTHING
    shapes = Counter(
        p.shape for p in compared.pairs if p.group == group and p.measured_ratio is not None
    )
    words = {
        ShapeAgreement.AGREES: "agree",
        ShapeAgreement.DIFFERS: "differ",
        ShapeAgreement.UNDECIDED: "open",
    }
    counts = ", ".join(f"{shapes[shape]} {word}" for shape, word in words.items() if shapes[shape])
    verdict = (
        "open"
        if compared.shapes[group] is ShapeAgreement.UNDECIDED
        else compared.shapes[group].value
    )
    return f"{verdict}\n{counts}" if len(shapes) > 1 else verdict


def _tabulate_collapses(compared: TableComparison) -> Table:
    rows = [
        [
            f.column,
            _format_published_levels(f),
            *(
                [_format_levels(f.measured_levels), _format_collapse_shape(f)]
                if f.measured
                else [NOTHING, NOTHING]
            ),
        ]
        for f in compared.falls
    ]
    columns = ["variant", "published", "ours", "shape"]
    return Table(
        title=f"Collapses, {compared.table.title.partition(',')[0]}",
        columns=columns,
        rows=rows,
        caption="Between these levels, of means. It agrees where both have one, at the same level "
        "or the next, or neither.",
        words=columns,
    )


def _format_published_levels(fall: CollapseComparison) -> str:
    """Return the post's levels, with those of ours that stand for them where these are others."""
    levels = _format_levels(fall.published)
    if fall.expected is None or fall.expected == fall.published:
        return levels
    return f"{levels} (ours: {_format_levels(fall.expected)})"


def _format_levels(levels: tuple[int, int] | None) -> str:
    if levels is None:
        return "none"
    return f"{levels[0]} and {levels[1]}"


def _format_collapse_shape(fall: CollapseComparison) -> str:
    return "open" if fall.shape is ShapeAgreement.UNDECIDED else fall.shape.value


def _list_missing_measures(compared_tables: list[TableComparison], campaign: Campaign) -> list[str]:
    """Return a sentence on what the post has and imported figures do not tell."""
    if not campaign.imported:
        return []
    figures = [f for compared in compared_tables for f in compared.figures.values()]
    present = {f.cell.measure for f in figures if f.value is not None}
    missing = dict.fromkeys(f.cell.measure for f in figures if f.cell.measure not in present)
    if not missing:
        return []
    names = listing([_name_measure(measure) for measure in missing])
    return [f"The post has figures that were not imported, so they are not compared: {names}."]


def _name_measure(name: str) -> str:
    if name in OF_LEVEL:
        return OF_LEVEL[name].published
    return _OF_POSTS.get(name, name)


# Measures of a whole trial that only posts have, in words.
_OF_POSTS = {
    "growth": "growth of RSS",
    "vsz_growth": "growth of VSZ",
    "peak_to_pool": "peak RSS ÷ cache",
}


# Whether the clients had hosts of their own, in words.
_WHERE_CLIENTS = {False: "run on it too", True: "run on another host"}


def _has_writes(campaign: Campaign) -> bool:
    """Whether any workload changes rows; older results do not say that it doesn't."""
    facts = campaign.facts.workloads
    return any(
        name not in facts or facts[name].writes
        for name in campaign.experiment.workloads
        if name != LOAD
    )


def _list_differences(campaign: Campaign, published: Published) -> list[str]:
    """Return a sentence for each thing that is different here."""
    e, reasons = campaign.experiment, []
    if campaign.imported:
        reasons.append(
            "Ours were imported: dballoc does not know on which machine, server, options and data "
            "they were measured, so what differs from the post is not listed."
        )
    machines = [part.environment for part in split_by_host(campaign)]
    stated_cpus = None if e.post is None else e.post.cpus
    cpus_here = [machine.cpus for machine in machines if machine.cpus]
    if sentence := describe_published_cpus(published.cpus, stated_cpus, cpus_here):
        reasons.append(sentence)
    if e.scaled:
        reasons.append(
            f"Scaled to {e.scaled.factor:g}: rows and caches shrink in proportion, but the least "
            "that a server and a malloc hold does not, so ratios to a cache are higher here."
        )
        if _has_writes(campaign):
            reasons.append(
                "Rows shrink more than clients do, so where a workload writes, more clients wait "
                "for each other's rows."
            )
        reasons.append(
            "A level of a few seconds ends before caches, logs and heaps are in their steady state."
        )
    if e.post is not None:
        reasons.append("All that differs in the set-up is at the top of the report.")
    else:
        reasons += [
            f"{stand_in} stands for {original}." for stand_in, original in list_stand_ins(campaign)
        ]
        reasons += list_missing(e)
    measures = {c.measure for t in published.tables for c in t.cells}
    if any(m in OF_LEVEL and OF_LEVEL[m].host for m in measures):
        reasons.append(
            "CPU and context switches of the host are those of all that ran on it, there and here; "
            f"here the clients {_WHERE_CLIENTS[campaign.has_clients_apart]}."
        )
    if blocks := set(campaign.block["block"]):
        reasons.append(
            f"The post's figures have no intervals; ours are of {count(len(blocks), 'block')} in "
            "random order."
        )
    if (
        not campaign.imported
        and reserves_terabytes(campaign.sample)
        and any(m.startswith("vsz") for m in measures)
    ):
        reasons.append(
            "Our VSZ leaves out the terabytes of address space that this server reserves for its "
            "buffer pool when it starts."
        )
    return reasons
