"""The report of ``dballoc tune``: answer, finalists, front, what each knob is worth, the path."""

import math
import statistics
from functools import partial
from typing import Any

from dballoc.document.charts import (
    GREY_POINTS,
    POINTS,
    Variants,
    draw,
    draw_points,
    encode_names,
    make_axis,
    make_chart,
    make_tips,
    span,
)
from dballoc.document.model import Column, Document, Figure, Section, Table, tabulate
from dballoc.experiment.designs import Design
from dballoc.experiment.durations_and_sizes import format_duration
from dballoc.ground.numbers import NOTHING, count, listing, mebibytes, percent
from dballoc.questions.campaign.sections import machine_and_variants, tables
from dballoc.questions.campaign.sections.shared_sections import (
    list_servers,
    make_environment_section,
)
from dballoc.questions.compare.ratios_as_text import describe_ratio, format_ratio
from dballoc.questions.tune.answer import answer_tune
from dballoc.questions.tune.estimate_effects import Estimated, Likely
from dballoc.questions.tune.figures import Confirmed, FinalistOutcome, Tuned
from dballoc.questions.tune.search_history import (
    ConfigurationResult,
    compare_with_default,
    convert_to_ratio,
)
from dballoc.store.facts import KnobWorth

_HEIGHT = 320
_ON_FRONT, _BEHIND = "on the front", "behind it"


def draw_front(tuned: Tuned, bases: Variants) -> Figure:
    """Draw what is likely of every configuration, as ratios to its base's default, and the front,
    whose configurations have their intervals.
    """
    rows = [_make_front_row(e) for e in tuned.estimates if e.standing.base in bases.names]
    axis = {"format": ".2f", "tickCount": 6}
    axes = {
        "x": make_axis("memory", "peak RSS ÷ default", {"zero": False}, **axis),
        "y": make_axis("cost", "CPU per transaction ÷ default", {"zero": False}, **axis),
    }
    color = bases.encode_color(POINTS)
    on_front = f"datum.place === '{_ON_FRONT}'"
    shapes = ["diamond", "circle"]
    tip = {"name": "", "settings": "", "likely": ""}
    chance = {"title": "on the front", "format": ".0%"}
    layers = [
        *(
            draw(
                rows, "rule", on_front, opacity=0.6, **color,
                **axes | span(key, x, f"{x['field']}_low", f"{x['field']}_high"),
            )
            for key, x in axes.items()
        ),
        draw_points(
            rows, 70, opacity=0.8, **axes, **color,
            shape=encode_names("place", [_ON_FRONT, _BEHIND], shapes, legend=GREY_POINTS),
            tooltip=make_tips(tip | {"chance:Q": chance}),
        ),
    ]  # fmt: skip
    caption = (
        "A point is what is likely of a configuration, by the estimate that chose the finalists; "
        "left and below is better. Bars: intervals at 95 % of those on the front. These are search "
        "figures of short trials, no verdicts."
    )
    return Figure("front", "Memory against CPU", caption, make_chart(_HEIGHT, layers))


def _make_front_row(estimated: Estimated) -> dict[str, Any]:
    standing = estimated.standing
    memory, cost = estimated.memory.ratios, estimated.cost.ratios
    return {
        "variant": standing.base,
        "name": standing.variant,
        **dict(zip(("memory", "memory_low", "memory_high"), memory, strict=True)),
        **dict(zip(("cost", "cost_low", "cost_high"), cost, strict=True)),
        "place": _ON_FRONT if estimated.on_front else _BEHIND,
        "chance": estimated.front_chance,
        "settings": ", ".join(f"{n} = {v}" for n, v in standing.parameters.items()) or "defaults",
        "likely": f"peak RSS × {format_ratio(*memory)}; CPU × {format_ratio(*cost)}",
    }


def draw_path(tuned: Tuned, bases: Variants) -> Figure:
    """Draw peak RSS of every trial in their order."""
    rows = []
    for trial in tuned.tried:
        ratios = compare_with_default(trial, tuned.tried)
        if trial.stage == "server" and ratios is not None:
            rows.append(
                {
                    "variant": trial.base,
                    "number": trial.number,
                    "memory": convert_to_ratio(ratios.memory),
                    "name": f"{trial.variant} ({trial.origin})",
                }
            )
    points = draw_points(
        rows, 50, opacity=0.8, **bases.encode_color(POINTS),
        x=make_axis("number", "trial", format="d"),
        y=make_axis("memory", "peak RSS ÷ default", {"zero": False}),
        tooltip=make_tips({"name": "", "memory:Q": {"format": ".3f"}}),
    )  # fmt: skip
    caption = "Every trial of a server that ended well, in the order of the search."
    return Figure("path", "The path of the search", caption, make_chart(_HEIGHT, [points]))


_SEARCH_FIGURES = (
    "What is likely of each configuration, with intervals at 95 %, by the estimate that the search "
    "goes by: from all trials that share settings with it, alone and in duets with the default. On "
    "the front: nothing needs less memory at no more CPU, in the estimate, and in which share of "
    "what may be true. These are search figures, no verdicts."
)


def gather_tune_report(tuned: Tuned) -> Document:
    """Return the page of a search and its confirmation."""
    campaign = tuned.campaign
    bases = list(dict.fromkeys(t.base for t in tuned.tried))
    variants = Variants(bases)
    configurations, settings = tabulate_standings(tuned), tabulate_knobs(tuned)
    trials = tabulate_trials(tuned)
    answer = answer_tune(tuned)
    sections = [
        _make_finalists_section(tuned),
        Section(
            key="front",
            title="Every configuration",
            figures=[draw_front(tuned, variants)],
            tables=[configurations],
        ),
        Section(
            key="knobs",
            title="What each setting is worth",
            text=describe_knobs(tuned),
            tables=[settings],
        ),
        Section(
            key="path",
            title="The search",
            figures=[draw_path(tuned, variants)],
            tables=[trials],
        ),
        make_environment_section(campaign, machine_and_variants.tabulate_environment(campaign)),
        Section(key="method", title="Method", text=describe_method(tuned)),
    ]
    return Document(
        title=f"dballoc tune: {campaign.experiment.name}",
        subtitle=f"{list_servers(campaign)} · {count(len(tuned.tried), 'trial')} · "
        f"{campaign.environment.cpu}",
        names=bases,
        answer=answer,
        sections=sections,
        data_name="tune",
        data=describe_tune(tuned, answer.headline),
        csv=lambda: {
            name: [table.columns, *table.rows]
            for name, table in (
                ("configurations", configurations),
                ("settings", settings),
                ("trials", trials),
            )
        },
    )


def _make_finalists_section(tuned: Tuned) -> Section:
    """Return the confirmation's verdicts, a table a campaign."""
    judged = [(c, c.comparisons) for c in tuned.confirmed if c.comparisons is not None]
    text = [
        f"{listing(list(c.finalists))} against {c.base} as it is: confirmation/{c.base}"
        for c, _ in judged
    ]
    return Section(
        key="finalists",
        title="The finalists' verdicts",
        text=text or ["There is no confirmation yet, or nothing was put forward."],
        tables=[tables.tabulate_verdicts(comparisons) for _, comparisons in judged],
    )


def tabulate_standings(tuned: Tuned) -> Table:
    """Return every configuration with what is likely of it, the least memory first within each
    allocator; what never ran to its end last.
    """
    estimates = {e.standing.variant: e for e in tuned.estimates}
    order = sorted(
        tuned.standings,
        key=lambda s: (
            s.base,
            estimates[s.variant].memory.mean if s.variant in estimates else math.inf,
        ),
    )
    rows = [
        {"result": s, **(vars(estimates[s.variant]) if s.variant in estimates else {})}
        for s in order
    ]
    return tabulate("Configurations", _CONFIGURATIONS, rows, caption=_SEARCH_FIGURES)


def _format_trials(standing: ConfigurationResult) -> str:
    words = [str(standing.trials)]
    if standing.duets:
        words.append(count(len(standing.duets), Design.DUET))
    if standing.faults:
        words.append(count(standing.faults, "fault"))
    return ", ".join(words)


def _format_likely(likely: Likely) -> str:
    return format_ratio(*likely.ratios)


_CONFIGURATIONS = (
    Column("configuration", lambda row: row["result"].variant),
    Column("settings", lambda row: _format_settings(row["result"].parameters), words=True),
    Column("peak RSS ÷ default", "memory", _format_likely),
    Column("CPU ÷ default", "cost", _format_likely),
    Column("front", "on_front", lambda is_on_front: "yes" if is_on_front else "", words=True),
    Column("on the front in", "front_chance", partial(percent, digits=0)),
    Column("trials", lambda row: _format_trials(row["result"])),
)


_KNOBS = (
    Column("setting", "knob"),
    Column("allocator", "base", words=True),
    Column("tried in", lambda knob: f"{knob.stage}s", words=True),
    Column("configurations"),
    Column("importance for memory", "memory_share", partial(percent, digits=0)),
    Column("importance for CPU", "cost_share", partial(percent, digits=0)),
    Column("memory ÷ default", lambda row: _format_effect(row, "memory")),
    Column("CPU ÷ default", lambda row: _format_effect(row, "cost")),
    Column("effect", lambda row: _describe_effect(row), words=True),
)


def tabulate_knobs(tuned: Tuned) -> Table:
    """Return what each knob was worth, on servers and in replays."""
    order = sorted(
        tuned.knobs,
        key=lambda k: (k.base, k.stage == "replay", -(k.memory_share or 0.0)),
    )
    caption = "Memory is peak RSS of servers, peak heap of replays. Search figures, no verdicts."
    return tabulate("Settings", _KNOBS, order, caption=caption)


def _format_effect(knob: KnobWorth, measure: str) -> str:
    """Return the largest likely effect of a knob on a measure, and at which value it is."""
    estimate, low, high, value = (
        getattr(knob, f"{measure}{end}") for end in ("", "_low", "_high", "_value")
    )
    ratio = format_ratio(estimate, low, high)
    return ratio if value is None else f"{ratio} at {value}"


def _describe_effect(knob: KnobWorth) -> str:
    if knob.measurable is None:
        return "every trial of it failed" if knob.failed else "not tried"
    return "measurable" if knob.measurable else "nothing measurable"


def describe_knobs(tuned: Tuned) -> list[str]:
    """Return the paragraphs on what each setting is worth: how that was found, and which settings
    change nothing measurable, wherever they were tried.
    """
    paragraphs = [
        "Importance: how much of what sets the better trials apart lies in the setting (PED-ANOVA, "
        "the shares of an allocator add up to 100 %). Memory and CPU: what the setting by itself "
        "is likely to do at the value where that is most, with its interval at 95 %, by the "
        "estimate that the search goes by, from all trials that have it. Nothing measurable: of no "
        "value that was tried does an interval leave out 1."
    ]
    for base in dict.fromkeys(knob.base for knob in tuned.knobs):
        effects: dict[str, list[bool | None]] = {}
        for knob in tuned.knobs:
            if knob.base == base:
                effects.setdefault(knob.knob, []).append(knob.measurable)
        idle = [name for name, each in effects.items() if False in each and True not in each]
        if idle:
            paragraphs.append(f"{base}: nothing measurable came of {listing(idle)}.")
    return paragraphs


def tabulate_trials(tuned: Tuned) -> Table:
    """Return every trial."""
    rows = []
    for trial in tuned.tried:
        memory, cost = compare_with_default(trial, tuned.tried) or (None, None)
        if trial.ratios:
            cost = statistics.mean(trial.ratios.values())
        rows.append(
            [
                str(trial.number),
                trial.stage if trial.design == Design.SOLO else Design.DUET,
                trial.variant,
                trial.origin,
                _format_settings(trial.parameters),
                NOTHING if trial.rss is None else mebibytes(trial.rss),
                _format_log(memory),
                _format_log(cost),
                trial.fault or "",
            ]
        )
    columns = ["trial", "stage", "configuration", "origin", "settings", "peak RSS, MiB"]
    return Table(
        title="Trials",
        columns=[*columns, "peak RSS ÷ default", "CPU ÷ default", "fault"],
        rows=rows,
        words=("stage", "configuration", "origin", "settings", "fault"),
    )


def describe_method(tuned: Tuned) -> list[str]:
    """Return the paragraphs on the method."""
    experiment = tuned.campaign.experiment
    time = experiment.time
    origins = {t.origin for t in tuned.tried if t.stage == "server"}
    steps = [
        "The default of each allocator comes first and again every so often",
        *(["then the settings that authors and users recommend"] if "preset" in origins else []),
        *(["then what replays put forward"] if "front" in origins else []),
        *(["then each setting alone"] if "single" in origins else []),
    ]
    peaks = [
        f"{w} ({mebibytes(tuned.surveyed[w])} MiB)" if w in tuned.surveyed else w
        for w in experiment.workloads
    ]
    survey = (
        f"The default had a short start for each of {len(tuned.surveyed)} workloads. Trials have, "
        "of those whose transactions are short enough to tell what they cost, the ones with the "
        f"highest peak RSS, and what the aim names: {listing(peaks)}. "
    )
    replays = (
        "First the malloc's own settings were tried in replays of a recorded trace, which say "
        "something of memory and nothing of a server; the best of them went on to servers. "
    )
    duets = (
        " Leaders also run beside their default at the same time, in a duet, which tells better "
        "what they cost."
    )
    return [
        f"{survey if tuned.surveyed else ''}"
        f"{replays if any(t.stage == 'replay' for t in tuned.tried) else ''}"
        f"A trial starts one server alone on a copy of the same data, loads it with "
        f"{listing(experiment.workloads)} at {experiment.threads[-1]} clients for "
        f"{format_duration(time.level)} each, after {format_duration(time.warmup)} of warm-up, and "
        f"reads its peak RSS and its CPU time per transaction. {', '.join(steps)}; after that "
        "Optuna's tree-structured Parzen estimator proposes."
        f"{duets if any(t.design == Design.DUET for t in tuned.tried) else ''} In the last fifth "
        "the leaders are tried again, and without single settings. A configuration that cannot "
        "start, crashes, hangs or is killed counts as worse than all that ran.",
        "At most three configurations are put forward. What they promise is shrunk for the luck of "
        "the best of many. A campaign of its own, declared before its first block, then judges "
        "each against its allocator's default, as dballoc bench does; all finalists together share "
        "one error of 5 %, whichever campaign they are in.",
    ]


def describe_tune(tuned: Tuned, headline: str) -> dict[str, Any]:
    """Return the answer as plain data."""
    winner = tuned.winner
    return {
        "over": tuned.is_over,
        "answer": headline,
        "rule": tuned.preference.text,
        "winner": winner.winner if winner else None,
        "base": winner.base if winner else None,
        "settings": _find_settings(tuned, winner.winner) if winner else None,
        "finalists": [
            _dump_finalist(tuned, c, name) for c in tuned.confirmed for name in c.finalists
        ],
        "trials": len(tuned.tried),
    }


def _dump_finalist(tuned: Tuned, confirmed: Confirmed, name: str) -> dict[str, Any]:
    """Return what the confirmation says of a finalist: its outcome, and each figure as a ratio to
    its default's with its interval, null where there is none.
    """
    outcome = confirmed.judge_finalist(name)
    return {
        "variant": name,
        "base": confirmed.base,
        "settings": _find_settings(tuned, name),
        "confirmed": outcome is FinalistOutcome.CONFIRMED,
        "outcome": str(outcome),
        "ratios": {
            c.metric.key: describe_ratio(c.ratio)
            for c in (confirmed.comparisons.family if confirmed.comparisons else [])
            if c.variant == name and c.ratio is not None
        },
    }


def _find_settings(tuned: Tuned, variant: str | None) -> dict[str, str]:
    return next((dict(s.parameters) for s in tuned.standings if s.variant == variant), {})


def _format_settings(parameters: Any) -> str:
    return ", ".join(f"{name} = {value}" for name, value in parameters.items()) or "defaults"


def _format_log(value: float | None) -> str:
    return format_ratio(None if value is None else convert_to_ratio(value))
