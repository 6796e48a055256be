"""What the report holds, in its order: the sections that HTML and Markdown both show."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from dballoc.document.charts import Variants
from dballoc.document.model import Answer, Document, Figure, Listing, Section, Table
from dballoc.experiment.designs import Design
from dballoc.ground.numbers import count
from dballoc.questions.campaign.answer import settling_time
from dballoc.questions.campaign.answer.answer_by_cpus import CpuAnswer, combine_answers
from dballoc.questions.campaign.answer.answer_table import collect_tail_latencies
from dballoc.questions.campaign.answer.compose_answer import Surroundings, compose_answer
from dballoc.questions.campaign.answer.conditions_and_preference import (
    LEAST_MEMORY,
    Preference,
    check_preference,
)
from dballoc.questions.campaign.answer.noise_network_encryption import (
    describe_encryption,
    describe_network_checks,
    describe_two_speeds,
)
from dballoc.questions.campaign.answer.recommendation import (
    Ending,
    Recommendation,
    RecommendationBasis,
    gather_evidence,
    recommend,
)
from dballoc.questions.campaign.charts import levels, memory, speed_against_memory
from dballoc.questions.campaign.charts import memory as pieces
from dballoc.questions.campaign.charts.cache_sizes import draw_cache_sizes
from dballoc.questions.campaign.figures import full_cpus, level_curves, trial_tables
from dballoc.questions.campaign.figures.cache_sizes import read_cache_lines
from dballoc.questions.campaign.figures.level_curves import compare_all_pairs
from dballoc.questions.campaign.figures.profiles import CampaignContention, Heaps, Profiles
from dballoc.questions.campaign.figures.time_series import build_time_series
from dballoc.questions.campaign.figures.two_speeds import find_two_speeds
from dballoc.questions.campaign.sections import (
    cache_sizes,
    contention,
    counters,
    duet,
    heap,
    machine_and_variants,
    replica,
    scaled_down,
    shared_sections,
    tables,
    turns,
    workload_groups,
)
from dballoc.questions.campaign.sections.over_cpus import make_cpus_section
from dballoc.questions.campaign.sections.shared_sections import (
    list_servers,
    make_environment_section,
    make_faults_section,
    make_floor_section,
)
from dballoc.questions.campaign.sections.workload_means import make_means_screen
from dballoc.questions.campaign_data import JudgedPart, collect_all_tables, describe_answers
from dballoc.questions.compare import baseline_comparison, ratio_charts
from dballoc.questions.compare.answer_words import measure_progress
from dballoc.questions.compare.baseline_comparison import compare_with_baseline
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.client_connections import asks_for_tls, count_client_connections
from dballoc.questions.compare.measures import GROUPS, OF_LEVEL
from dballoc.questions.compare.split_by_host import list_environments
from dballoc.questions.imported import sections as imported_results
from dballoc.questions.imported.figures import count_figures
from dballoc.questions.published import sections as post
from dballoc.questions.published.post_figures import Published
from dballoc.questions.published.post_ratios import compute_means_beside_post
from dballoc.questions.published.setup.post_note import compose_post_note
from dballoc.questions.replay.answer import compose_replay_answer
from dballoc.questions.replay.sections import (
    judge_replays,
    make_replay_sections,
    make_replay_subtitle,
)

_SOLO = "Solo design: one server at a time has the whole machine."
_CPU = [
    "Of the server alone, not of the client, except what is called the host's: that is all that "
    "ran on it, dballoc included, and the clients unless they had a host to themselves. cpu/o is "
    "user and system time. An operation is a transaction of the workload."
]
_PAIRS = "Any two variants against each other, not only against the baseline."


def judge_campaign(
    campaign: Campaign, preference: Preference = LEAST_MEMORY, directory: Path | None = None
) -> list[JudgedPart]:
    """Return what the rule makes of the comparisons on each number of CPUs, and that in words.
    ``directory``: of the results, for the command that would settle an open answer. Raises
    UsageError if the campaign has not what the preference asks.
    """
    check_preference(
        preference,
        campaign.names,
        campaign.experiment.workloads,
        bool(campaign.experiment.time.idle),
    )
    parts = campaign.split_by_cpus()
    against = "the baseline on the same number of CPUs" if len(parts) > 1 else ""
    return [_judge_part(part, preference, directory, against) for part in parts]


def _judge_part(
    campaign: Campaign, preference: Preference, directory: Path | None, against: str
) -> JudgedPart:
    comparisons = compare_with_baseline(campaign)
    baseline, progress = campaign.experiment.baseline, measure_progress(campaign)
    evidence = gather_evidence(campaign, comparisons, preference)
    recommendation = recommend(comparisons, baseline, preference, evidence)
    paces = settling_time.measure_paces(campaign)
    goals = settling_time.list_goals(campaign, comparisons.procedures)
    # An extension that was cut is first of all to be finished.
    is_cut = progress.is_extended and not progress.final
    settling = (
        settling_time.plan_first_interval(paces, goals)
        if is_cut
        else settling_time.find_settling(recommendation, paces, goals, shares_blocks=bool(against))
    )
    surroundings = Surroundings(
        tails=collect_tail_latencies(campaign),
        settling=settling,
        directory=directory,
        against=against,
    )
    return JudgedPart(
        campaign=campaign,
        recommendation=recommendation,
        answer=compose_answer(recommendation, progress, surroundings),
        minutes=settling.minutes if settling else None,
    )


def compose_whole_answer(campaign: Campaign, parts: Sequence[JudgedPart]) -> Answer:
    """Return the answer of a campaign: that of its one part, or those on each number of CPUs."""
    answer = parts[0].answer
    if len(parts) > 1:
        answer = combine_answers(
            [
                CpuAnswer(cpus=part.campaign.cpus or 0, answer=part.answer, minutes=part.minutes)
                for part in parts
            ]
        )
    notes = [
        *scaled_down.list_scaling_notes(campaign),
        *replica.describe_late_replicas(campaign),
        *answer.notes,
    ]
    return replace(answer, post=compose_post_note(campaign), notes=notes)


def gather_report(
    campaign: Campaign, preference: Preference = LEAST_MEMORY, published: Published | None = None,
    profiles: Profiles = None, directory: Path | None = None,
) -> Document:  # fmt: skip
    """Return everything that the report says of a campaign, and of the post that it repeats. Raises
    UsageError as for :func:`judge_campaign`.
    """
    title, screen = f"dballoc: {campaign.experiment.name}", []
    if campaign.is_replay:
        judged = judge_replays(campaign, preference)
        answer = compose_replay_answer(judged)
        parts = [JudgedPart(campaign=campaign, recommendation=judged.recommendation, answer=answer)]
        title = f"dballoc replay: {campaign.experiment.name}"
        subtitle, sections = make_replay_subtitle(judged), make_replay_sections(judged)
    elif campaign.imported:
        parts = [_leave_unjudged(campaign, preference)]
        answer = parts[0].answer
        subtitle = f"made elsewhere · {count(count_figures(campaign), 'figure')}"
        sections = imported_results.make_imported_sections(campaign, published, profiles)
        screen = imported_results.make_imported_screen(campaign, published, profiles)
    else:
        parts = judge_campaign(campaign, preference, directory)
        answer = compose_whole_answer(campaign, parts)
        subtitle = _make_subtitle(campaign)
        sections = _make_sections(campaign, parts, profiles, published)
        screen = _make_screen(campaign, published)
        if published:
            sections.insert(0, post.make_published_section(campaign, published, profiles))
            screen += post.make_published_screen(campaign, published, profiles)
    return Document(
        title=title,
        subtitle=subtitle,
        names=campaign.names,
        answer=answer,
        sections=sections,
        screen=screen,
        data_name="recommendation",
        data=describe_answers(parts, answer),
        csv=lambda: collect_all_tables(campaign, parts, published, profiles),
    )


def _leave_unjudged(campaign: Campaign, preference: Preference) -> JudgedPart:
    """Return imported results, of which no malloc is recommended."""
    nothing = Recommendation(
        comparisons=imported_results.compare_first_machine(campaign),
        baseline=campaign.experiment.baseline, ending=Ending.STAY,
        subject=None, contender=None, variant=None, tie=False, excluded={}, faulty=[],
        preference=preference, standings={}, evidence=RecommendationBasis(),
    )  # fmt: skip
    return JudgedPart(
        campaign=campaign,
        recommendation=nothing,
        answer=imported_results.compose_imported_answer(campaign),
    )


def _make_screen(campaign: Campaign, published: Published | None) -> list[Section]:
    """Return what the terminal shows beside the answer."""
    caches, limit = read_cache_lines(campaign), campaign.experiment.limits.memory
    grown = make_cpus_section(campaign, drawn=False)
    means = [
        section
        for part in campaign.split_by_cpus()
        for section in make_means_screen(compute_means_beside_post(part, published))
    ]
    return [
        *([grown] if grown else []),
        *means,
        *cache_sizes.make_cache_screen(caches, limit),
    ]


def _make_subtitle(campaign: Campaign) -> str:
    progress = measure_progress(campaign)
    cpus = dict.fromkeys(str(e.cpu) for e in list_environments(campaign))
    subtitle = (
        f"{list_servers(campaign)} · {progress.words}, {count(campaign.trials.height, 'trial')} · "
        f"{', '.join(cpus)}"
    )
    if campaign.experiment.scaled:
        subtitle = f"scaled to {campaign.experiment.scaled.factor:g} · {subtitle}"
    return subtitle


# Makes a section on what is compared with one baseline.
_Maker = Callable[[JudgedPart, Variants], Section | None]


def _make_sections(
    campaign: Campaign,
    parts: Sequence[JudgedPart],
    profiles: Profiles,
    published: Published | None,
) -> list[Section]:
    """Return the sections of a campaign of our own, in the report's order: what compares variants
    for each number of CPUs, all else once.
    """
    few = not workload_groups.has_many_workloads(campaign)
    chosen = parts[0].recommendation
    procedures = chosen.comparisons.procedures
    rule = chosen.preference.describe_rule(chosen.evidence.margin)
    pairs: list[_Maker] = [
        lambda part, _: _make_pairs_section(part.campaign, few),
        lambda part, _: make_floor_section(part.recommendation.comparisons),
    ]
    sections = [
        make_cpus_section(campaign) if few else None,
        *_make_each(_list_makers(campaign, published, few), parts),
        _make_own_cpu_section(campaign),
        *_make_each([lambda part, _: counters.make_counter_section(part.campaign)], parts),
        replica.make_replica_section(campaign),
        _make_profiles_section(campaign, profiles, Variants(campaign.names)),
        *_make_each(pairs, parts),
        make_faults_section(campaign),
        Section(
            key="noise",
            title="Blocks and noise",
            text=describe_two_speeds(
                find_two_speeds(campaign), has_clients_apart=campaign.has_clients_apart
            ),
            tables=[tables.tabulate_blocks(campaign)],
        ),
        _make_environment_section(campaign),
        Section(
            key="method",
            title="Method",
            text=shared_sections.describe_method(campaign, procedures, rule),
        ),
    ]
    return [section for section in sections if section]


def _list_makers(campaign: Campaign, published: Published | None, few: bool) -> list[_Maker]:
    """Return what makes the sections on verdicts and on what the designs show."""
    designs = campaign.facts.designs

    def make_glance(part: JudgedPart, variants: Variants) -> Section | None:
        means = compute_means_beside_post(part.campaign, published)
        if means is None:
            return None
        return workload_groups.make_glance_section(part.campaign, variants, means, [_SOLO])

    def make_duet(part: JudgedPart, variants: Variants) -> Section:
        comparisons = part.recommendation.comparisons
        return duet.make_duet_section(part.campaign, comparisons, variants, few)

    def make_turns(part: JudgedPart, variants: Variants) -> Section:
        comparisons = part.recommendation.comparisons
        return turns.make_turns_section(part.campaign, comparisons, variants, few)

    return [
        *([_make_picture_section] if Design.SOLO in designs and few else []),
        make_glance,
        partial(_make_verdicts_section, few=few),
        *([make_duet] if Design.DUET in designs else []),
        *([make_turns] if Design.TURNS in designs else []),
        *(_list_solo_makers(campaign, few) if Design.SOLO in designs else []),
    ]


def _make_each(makers: Sequence[_Maker], parts: Sequence[JudgedPart]) -> list[Section | None]:
    return [
        _place_on_cpus(make(part, Variants(part.campaign.names)), part, len(parts))
        for make in makers
        for part in parts
    ]


def _place_on_cpus(section: Section | None, part: JudgedPart, parts: int) -> Section | None:
    """Return a part's section with its number of CPUs in keys and titles, if there are several."""
    if section is None or parts == 1:
        return section
    key, words = f"{part.campaign.cpus}-cpus", count(part.campaign.cpus or 0, "CPU")
    return replace(
        section,
        key=f"{section.key}-{key}",
        title=f"{section.title} on {words}",
        figures=[
            replace(figure, key=f"{figure.key}-{key}", title=f"{figure.title}, on {words}")
            for figure in section.figures
        ],
        tables=[replace(table, title=f"{table.title}, on {words}") for table in section.tables],
    )


def _make_profiles_section(
    campaign: Campaign, profiles: Profiles, variants: Variants
) -> Section | None:
    match profiles:
        case CampaignContention():
            return contention.make_contention_section(campaign, profiles)
        case Heaps():
            return heap.make_heap_section(campaign, profiles, variants)
    return None


def _list_solo_makers(campaign: Campaign, few: bool) -> list[_Maker]:
    """Return what makes the sections on levels; with those of each workload if ``few``."""
    workloads = campaign.experiment.workloads if few else []
    measured = set(level_curves.average_levels(campaign)["measure"])
    groups = dict.fromkeys(m.group for m in OF_LEVEL.values() if m.levels in measured)
    others = [group for group in groups if group not in ("speed", "memory")]

    def draw_over_time(part: JudgedPart, variants: Variants) -> Section:
        series = build_time_series(part.campaign)
        figures = levels.draw_time_series(series, variants, each=few)
        return Section(key="time", title="Over time", text=[_SOLO], figures=figures)

    def show_shapes(part: JudgedPart, _: Variants) -> Section:
        shapes = [tables.tabulate_shapes(part.campaign)]
        return Section(key="shape", title="Peaks and collapses", text=[_SOLO], tables=shapes)

    has_shapes = few or len(campaign.experiment.threads) > 1
    return [
        partial(_make_levels_section, workloads=workloads),
        *(partial(_make_group_section, workloads=workloads, group=group) for group in others),
        draw_over_time,
        partial(_make_memory_section, workloads=workloads),
        *([show_shapes] if has_shapes else []),
    ]


def _make_own_cpu_section(campaign: Campaign) -> Section | None:
    """Return the section on what dballoc itself used; None where that was not measured."""
    table = tables.tabulate_own_cpu(campaign)
    text = [shared_sections.OWN_CPU]
    return (
        Section(key="own-cpu", title="What measuring cost", text=text, tables=[table])
        if table.rows
        else None
    )


def _tabulate_each(campaign: Campaign, group: str, workloads: list[str]) -> list[Table]:
    """Return a table of levels for each of ``workloads``; without them one of all."""
    if not workloads:
        return [tables.tabulate_levels(campaign, group, GROUPS[group])]
    return [tables.tabulate_levels(campaign, group, GROUPS[group], w) for w in workloads]


def _make_picture_section(part: JudgedPart, variants: Variants) -> Section:
    """Return the section to see first: who is fast, and who is small."""
    comparisons = part.recommendation.comparisons
    figures = [
        speed_against_memory.draw_speed_against_memory(comparisons, metric, variants)
        for metric in baseline_comparison.list_pictured_metrics(comparisons)
    ]
    return Section(key="picture", title="Speed against memory", figures=figures)


def _make_pairs_section(campaign: Campaign, few: bool) -> Section:
    pairs = compare_all_pairs(campaign)
    shown = [
        (m, w)
        for m, w in pairs.select("measure", "workload").unique(maintain_order=True).rows()
        if few or w is None
    ]
    figures = [
        ratio_charts.draw_pair_matrix(pairs, measure, workload, campaign.names)
        for measure, workload in shown
    ]
    return Section(
        key="pairs",
        title="Every pair",
        text=[_PAIRS],
        figures=figures,
        tables=[tables.tabulate_pairs(campaign, pairs)],
    )


def _make_verdicts_section(part: JudgedPart, variants: Variants, few: bool) -> Section:
    comparisons = part.recommendation.comparisons
    pictured = [m for m in comparisons.metrics if few or m.workload is None]
    figures = [ratio_charts.draw_forest(comparisons, metric, variants) for metric in pictured]
    return Section(
        key="verdicts",
        title="Verdicts",
        figures=figures,
        tables=[tables.tabulate_verdicts(comparisons)],
    )


def _make_levels_section(part: JudgedPart, variants: Variants, workloads: list[str]) -> Section:
    campaign = part.campaign
    title = GROUPS["speed"]
    summary = level_curves.average_levels(campaign)
    qps = level_curves.compute_relative_levels(campaign, "qps")
    figures: list[Figure] = []
    shown = [] if workloads else [tables.tabulate_levels(campaign, "speed", title)]
    for workload in workloads:
        speed = [
            m
            for m in levels.list_charted(summary, workload, "speed")
            if m.name != "qps" or levels.has_many_queries(summary, workload)
        ]
        figures += [
            *(levels.draw_curve(summary, workload, m, variants) for m in speed),
            levels.draw_relative_curve(qps, workload, variants),
        ]
        shown += [
            tables.tabulate_levels(campaign, "speed", title, workload),
            tables.tabulate_relative_qps(campaign, workload),
            tables.tabulate_changes(campaign, workload),
        ]
    if workloads:
        shown += workload_groups.tabulate_scan_rates(campaign)
    return Section(key="levels", title=title, text=[_SOLO], figures=figures, tables=shown)


def _make_group_section(
    part: JudgedPart, variants: Variants, workloads: list[str], group: str
) -> Section:
    """Return the section of a group of measures that needs nothing of its own."""
    campaign = part.campaign
    summary = level_curves.average_levels(campaign)
    figures = [
        levels.draw_curve(summary, w, m, variants)
        for w in workloads
        for m in levels.list_charted(summary, w, group)
    ]
    shown = _tabulate_each(campaign, group, workloads)
    text = [*_CPU, *full_cpus.describe_full_cpus(campaign)] if group == "cpu" else [_SOLO]
    return Section(key=group, title=GROUPS[group], text=text, figures=figures, tables=shown)


def _make_memory_section(part: JudgedPart, variants: Variants, workloads: list[str]) -> Section:
    campaign = part.campaign
    e, summary = campaign.experiment, level_curves.average_levels(campaign)
    figures = [memory.draw_peak_and_idle_rss(campaign, variants)]
    shown = [tables.tabulate_memory(campaign)]
    caches, limit = read_cache_lines(campaign), e.limits.memory
    if caches:
        figures.insert(0, draw_cache_sizes(caches, limit))
        shown.insert(0, cache_sizes.tabulate_cache_sizes(caches))
    if (ledger := trial_tables.build_ledger_table(campaign)).height:
        figures.append(pieces.draw_memory_ledger(ledger, variants.names))
        shown.append(tables.tabulate_ledger(campaign, ledger))
    figures += [
        levels.draw_curve(summary, workload, measure, variants)
        for workload in workloads
        for measure in levels.list_charted(summary, workload, "memory")
    ]
    shown += _tabulate_each(campaign, "memory", workloads)
    text = [*cache_sizes.describe_cache_sizes(caches, limit), _SOLO]
    if e.levels == "rising":
        text.append(
            "All levels run in one server start, so what a level left behind is in the next one's "
            "RSS."
        )
    if e.sequence == "cycle" and len(e.workloads) > 1:
        text.append(
            "All workloads run in one server start, each on the data as the previous ones left it."
        )
    return Section(key="memory", title="Memory", text=text, figures=figures, tables=shown)


def _make_environment_section(campaign: Campaign) -> Section:
    shown = [
        *([machine_and_variants.tabulate_hosts(campaign)] if campaign.placement.height else []),
        machine_and_variants.tabulate_environment(campaign),
        machine_and_variants.tabulate_variants(campaign),
    ]
    if (workloads := workload_groups.tabulate_workloads(campaign)) is not None:
        shown.append(workloads)
    section = make_environment_section(campaign, *shown)
    return replace(
        section,
        text=[
            *describe_encryption(count_client_connections(campaign), asks_for_tls(campaign)),
            *describe_network_checks(campaign),
        ],
        listings=[
            *section.listings,
            *(
                Listing(f"Server command of {name}", text)
                for name, text in machine_and_variants.format_server_commands(campaign).items()
            ),
        ],
    )
