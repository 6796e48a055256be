"""The report of ``dballoc tune``: answer, finalists, front, what each knob is worth, the path."""

import csv
import json
import math
import statistics
from pathlib import Path
from typing import Any

from dballoc.analysis.tune.search_history import Standing, compare_with_default
from dballoc.analysis.tune.tuned import Tuned
from dballoc.experiment import experiment_file
from dballoc.experiment.durations_and_sizes import format_duration
from dballoc.numbers import NOTHING, count, listing, mebibytes, percent
from dballoc.report.charts.variant_marks import Variants
from dballoc.report.outputs.csv_cells import escape_formula
from dballoc.report.outputs.page import Page
from dballoc.report.sections import tables
from dballoc.report.sections.section import Listing, Section
from dballoc.report.sections.tables import Table
from dballoc.report.tune.tune_answer import answer_tune
from dballoc.report.tune.tune_charts import draw_front, draw_path
from dballoc.report.wording.ratios_as_text import format_ratio

_SEARCH_FIGURES = (
    "Means of short trials against the default's: search figures, no verdicts. CPU is that of "
    "duets with the default where there were any."
)


def gather_tune_report(tuned: Tuned) -> Page:
    """Return the page of a search and its confirmation."""
    campaign = tuned.campaign
    bases = list(dict.fromkeys(t.base for t in tuned.tried))
    servers = ", ".join(
        dict.fromkeys(f"{s} {e}" for s, e in campaign.variant.select("server", "engine").rows())
    )
    variants = Variants(bases)
    sections = [
        _make_finalists_section(tuned),
        Section(
            key="front",
            title="Every configuration",
            figures=[draw_front(tuned, variants)],
            tables=[tabulate_standings(tuned)],
        ),
        Section(
            key="knobs",
            title="What each setting is worth",
            text=[
                "Importance: how much of what sets the better trials apart lies in the setting "
                "(PED-ANOVA, the shares of an allocator add up to 100 %). Alone: the largest "
                "effect of a trial in which nothing else was set."
            ],
            tables=[tabulate_knobs(tuned)],
        ),
        Section(
            key="path",
            title="The search",
            figures=[draw_path(tuned, variants)],
            tables=[tabulate_trials(tuned)],
        ),
        Section(
            key="environment",
            title="Environment",
            tables=[tables.tabulate_environment(campaign)],
            listings=[
                Listing("Experiment file", experiment_file.format_experiment(campaign.experiment))
            ],
        ),
        Section(key="method", title="Method", text=describe_method(tuned)),
    ]
    return Page(
        title=f"dballoc tune: {campaign.experiment.name}",
        subtitle=f"{servers} · {count(len(tuned.tried), 'trial')} · "
        f"{campaign.environment.get('cpu')}",
        names=bases,
        answer=answer_tune(tuned),
        sections=sections,
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
    """Return every configuration, the least memory first within each allocator."""
    order = sorted(tuned.standings, key=lambda s: (s.base, s.memory is None, s.memory or 0.0))
    return Table(
        title="Configurations",
        columns=["configuration", "settings", "peak RSS ÷ default", "CPU ÷ default", "trials"],
        rows=[
            [
                s.variant,
                _format_settings(s.parameters),
                _format_log(s.memory),
                _format_log(s.cost),
                _format_trials(s),
            ]
            for s in order
        ],
        caption=_SEARCH_FIGURES,
        words=("settings",),
    )


def _format_trials(standing: Standing) -> str:
    words = [str(standing.trials)]
    if standing.duets:
        words.append(count(len(standing.duets), "duet"))
    if standing.faults:
        words.append(count(standing.faults, "fault"))
    return ", ".join(words)


def tabulate_knobs(tuned: Tuned) -> Table:
    """Return what each knob was worth."""
    return Table(
        title="Settings",
        columns=[
            "setting", "allocator", "importance for memory", "importance for CPU",
            "peak RSS ÷ default, alone", "CPU ÷ default, alone", "effect alone",
        ],
        rows=[
            [
                row["knob"],
                row["base"],
                *(_format_share(row[key]) for key in ("memory_share", "cost_share")),
                *(format_ratio(row[key]) for key in ("memory", "cost")),
                _MEASURABLE[row["measurable"]],
            ]
            for row in sorted(tuned.knobs, key=lambda r: (r["base"], -(r["memory_share"] or 0.0)))
        ],
        caption="Of short trials against the default's: search figures, no verdicts.",
        words=("allocator", "effect alone"),
    )  # fmt: skip


_MEASURABLE = {
    True: "measurable",
    False: "changes nothing measurable",
    None: "not tried alone",
}


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
                trial.stage if trial.design == "solo" else "duet",
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
    return [
        f"A trial starts one server alone on a copy of the same data, loads it with "
        f"{listing(experiment.workloads)} at {experiment.threads[-1]} clients for "
        f"{format_duration(time.level)} each, after {format_duration(time.warmup)} of warm-up, and "
        "reads its peak RSS and its CPU time per transaction. The default of each allocator comes "
        "first and again every so often, then the settings that authors and users recommend, then "
        "each setting alone where there is time enough; after that Optuna's tree-structured Parzen "
        "estimator proposes. Leaders also run beside their default at the same time, in a duet, "
        "which tells better what they cost. In the last fifth the leaders are tried again, and "
        "without single settings. A configuration that cannot start, crashes, hangs or is killed "
        "counts as worse than all that ran.",
        "At most three configurations are put forward. What they promise is shrunk for the luck of "
        "the best of many. A campaign of its own, declared before its first block, then judges "
        "each against its allocator's default, as dballoc bench does; all finalists together share "
        "one error of 5 %, whichever campaign they are in.",
    ]


def write_tune_csv(tuned: Tuned, directory: Path) -> None:
    """Write the tables as CSV."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, table in (
        ("configurations", tabulate_standings(tuned)),
        ("settings", tabulate_knobs(tuned)),
        ("trials", tabulate_trials(tuned)),
    ):
        with (directory / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.columns)
            writer.writerows([escape_formula(cell) for cell in row] for row in table.rows)


def dump_tune(tuned: Tuned) -> str:
    """Return the answer as JSON."""
    answer = answer_tune(tuned)
    winner = tuned.winner
    document = {
        "over": tuned.is_over,
        "answer": answer.headline,
        "rule": tuned.preference.text,
        "winner": winner.winner if winner else None,
        "base": winner.base if winner else None,
        "settings": _find_settings(tuned, winner.winner) if winner else None,
        "finalists": [
            {
                "variant": name,
                "base": c.base,
                "settings": _find_settings(tuned, name),
                "confirmed": name == c.winner,
                "ratios": _list_ratios(tuned, c.base, name),
            }
            for c in tuned.confirmed
            for name in c.finalists
        ],
        "trials": len(tuned.tried),
    }
    return json.dumps(document, indent=1) + "\n"


def _find_settings(tuned: Tuned, variant: str | None) -> dict[str, str]:
    return next((dict(s.parameters) for s in tuned.standings if s.variant == variant), {})


def _list_ratios(tuned: Tuned, base: str, name: str) -> dict[str, dict[str, float]]:
    comparisons = next((c.comparisons for c in tuned.confirmed if c.base == base), None)
    return {
        c.metric.key: {"ratio": c.ratio.estimate, "low": c.ratio.low, "high": c.ratio.high}
        for c in (comparisons.family if comparisons else [])
        if c.variant == name and c.ratio is not None and c.ratio.has_interval
    }


def _format_settings(parameters: Any) -> str:
    return ", ".join(f"{name} = {value}" for name, value in parameters.items()) or "defaults"


def _format_log(value: float | None) -> str:
    return format_ratio(None if value is None else math.exp(value))


def _format_share(value: float | None) -> str:
    return NOTHING if value is None else percent(value, 0)
