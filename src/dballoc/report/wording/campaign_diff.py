"""Two campaigns against each other, in words and as JSON. Pure: from figures to sentences and plain
data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.regression_gate import Finding, Outcome
from dballoc.analysis.decisions.sequential_test import ERROR
from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.statistics.welch import Contrast
from dballoc.analysis.tables.campaign_diff import Between, Figure, Measure
from dballoc.analysis.tables.level_curves import CONFIDENCE
from dballoc.report.wording.answer import progress
from dballoc.report.wording.ratios_as_text import (
    NOTHING,
    count,
    detectable,
    listing,
    percent,
    times,
)

_KINDS = {
    "relative": "each variant relative to its own campaign's {baseline}, the second ÷ the first: "
    "what moved both cancels",
    "absolute": "each variant's own figure, the second ÷ the first: what moved between the "
    "campaigns is in it",
}


@dataclass(frozen=True)
class Side:
    """One of the two: where it lies and what there is of it."""

    directory: Path
    campaign: Campaign

    @property
    def words(self) -> str:
        """``DIR: demo, 6 of 6 solo blocks, began 2026-11-02 10:00 (UTC) on HOST``."""
        facts = self.campaign.facts
        began = datetime.fromtimestamp(float(facts["started"]), UTC).strftime("%Y-%m-%d %H:%M")
        blocks = progress(self.campaign).words
        host = self.campaign.environment.get("host")
        return (
            f"{self.directory}: {self.campaign.experiment.name}, {blocks}, began {began} (UTC) on "
            f"{host}"
        )


def about(between: Between, sides: tuple[Side, Side]) -> list[tuple[str, str]]:
    """What is paired, what is not, and what else to know: (heading, sentence)."""
    p = between.pairing
    found = [("first", sides[0].words), ("second", sides[1].words)]
    if same(sides):
        found.append(("note", "both are the same campaign: every ratio is 1"))
    workloads = (
        [f"{w} at {count(n, 'client')}" for w, n in p.levels.items()]
        if not p.no_speed
        else list(p.workloads)
    )
    paired = (
        "; ".join(filter(None, [listing(list(p.variants)), listing(workloads)]))
        if between.figures
        else "nothing"
    )
    found.append(("paired", paired))
    found += [("unpaired", text) for text in p.unpaired]
    if p.no_speed:
        what = "everything" if p.no_duet else "throughput, response time and memory"
        found.append(
            ("unpaired", f"{what}, because the load or the design differs: {'; '.join(p.no_speed)}")
        )
    elif p.no_memory:
        found.append(
            (
                "unpaired",
                f"memory, because what a server start does differs: {'; '.join(p.no_memory)}",
            )
        )
    elif p.no_idle:
        found.append(("unpaired", f"idle RSS: {'; '.join(p.no_idle)}"))
    if p.no_duet and any("duet" in side.campaign.designs for side in sides) and not p.no_speed:
        found.append(("unpaired", f"the duets: {'; '.join(p.no_duet)}"))
    for change in p.changes:
        everyone = len(change.variants) == len(p.variants) > 1
        found.append(
            (
                "changed",
                f"{'every variant' if everyone else listing(list(change.variants))}: {change.text}",
            )
        )
    if not p.changes:
        found.append(("changed", "nothing in the variants' allocators, settings and servers"))
    if p.machine:
        found.append(("machines", f"they differ: {'; '.join(p.machine)}"))
    if p.state:
        found.append(
            (
                "machines" if p.machine else "machine",
                f"differs between the campaigns: {'; '.join(p.state)}",
            )
        )
    if not (p.machine or p.state):
        found.append(
            ("machine", "of the same kind, and in the same state as far as dballoc noted it")
        )
    if between.figures:
        found.append(
            ("judged", _KINDS[between.judged].format(baseline=p.baseline) + f" ({between.why})")
        )
        found.append(
            (
                "blocks",
                "not paired across campaigns, which ran at different times: Welch's t on "
                "logarithms",
            )
        )
    return found


def verdict_words(figure: Figure, between: Between) -> str:
    """One of the four verdicts, or why there is none."""
    if why := between.no_verdict(figure):
        return f"no verdict: {why}"
    assert figure.contrast
    if figure.verdict is Verdict.UNDECIDED:
        return (
            f"{Verdict.UNDECIDED} (smallest detectable: {detectable(figure.contrast.detectable)})"
        )
    return figure.verdict.value


def same(sides: tuple[Side, Side]) -> bool:
    """Whether both are copies of one campaign."""
    one, other = (s.campaign.facts for s in sides)
    return (one.get("identity"), one.get("started")) == (
        other.get("identity"),
        other.get("started"),
    )


def finding_words(outcome: Outcome, finding: Finding) -> str:
    """``jemalloc 1.082 [1.061, 1.104]: shown``."""
    figure = finding.figure
    where = f" in {figure.measure.workload}" if figure.measure.workload else ""
    said = {True: "shown", False: "shown not to be", None: "not shown either way"}[finding.holds]
    said = f"cannot be judged: {finding.problem}" if finding.problem else said
    return f"{figure.variant}{where} {_times(figure.contrast)}: {said}"


def complaint(outcomes: Sequence[Outcome], strict: bool) -> str:
    """One line that says which conditions failed, and on what; empty if none did."""
    parts = []
    for outcome in outcomes:
        if outcome.failed(strict):
            findings = [finding_words(outcome, f) for f in outcome.failures(strict)]
            said = ", ".join(findings) or f"cannot be judged: {outcome.problem}"
            parts.append(f"--fail-if {outcome.condition.text!r}: {said}")
    return "; ".join(parts)


def print_between(
    console: Console,
    between: Between,
    sides: tuple[Side, Side],
    outcomes: Sequence[Outcome],
    strict: bool,
) -> None:
    """The whole comparison for a person."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    last = ""
    for heading, text in about(between, sides):
        grid.add_row(Text("" if heading == last else heading), Text(text))
        last = heading
    console.print(grid)
    for measure in (m for m in between.measures if m.primary):
        console.print("", Text(_title(measure), style="bold"), _primary(between, measure), sep="\n")
    if rest := [m for m in between.measures if not m.primary]:
        title = f"Descriptive, {percent(CONFIDENCE, 0)} intervals, {between.judged}"
        console.print("", Text(title, style="bold"), _rest(between, rest), sep="\n")
    if between.figures:
        family = count(sum(f.measure.primary for f in between.figures), "comparison")
        level = (
            f"{percent(between.confidence, 2)}, so that all {family} together err in "
            f"{percent(ERROR, 0)}"
        )
        console.print("", Text(f"· Intervals with a verdict at {level}.", style="dim"), sep="\n")
    for outcome in outcomes:
        failed = outcome.failed(strict)
        console.print(
            "",
            Text(
                f"fail if {outcome.condition.text}: {'failed' if failed else 'passed'}",
                style="bold",
            ),
            sep="\n",
        )
        for finding in outcome.findings:
            console.print(Text(f"  {finding_words(outcome, finding)}"))
        if outcome.problem:
            console.print(Text(f"  cannot be judged: {outcome.problem}"))


def as_json(
    between: Between, sides: tuple[Side, Side], outcomes: Sequence[Outcome], strict: bool
) -> dict[str, Any]:
    """The same for a program. Ends of an interval are null where there is none."""
    p = between.pairing
    return {
        "first": _side(sides[0]),
        "second": _side(sides[1]),
        "same_campaign": same(sides),
        "paired": {"variants": list(p.variants), "levels": p.levels},
        "unpaired": p.unpaired,
        "not_comparable": {
            "speed": p.no_speed,
            "memory": p.no_memory,
            "idle": p.no_idle,
            "duet": p.no_duet,
        },
        "changes": [{"variants": list(c.variants), "text": c.text} for c in p.changes],
        "machine": p.machine,
        "state": p.state,
        "judged": between.judged,
        "why": between.why,
        "baseline": p.baseline,
        "figures": [_figure(f, between) for f in between.figures],
        "baseline_itself": [_figure(f, between) for f in between.moved],
        "strict": strict,
        "conditions": [
            {
                "condition": o.condition.text,
                "failed": o.failed(strict),
                "problem": o.problem or None,
                "findings": [_finding(f) for f in o.findings],
            }
            for o in outcomes
        ],
        "failed": any(o.failed(strict) for o in outcomes),
    }


def _title(measure: Measure) -> str:
    width = f" at {count(measure.threads or 0, 'client')}" if measure.design == "solo" else ""
    where = f"{measure.workload}, {measure.title}{width}" if measure.workload else measure.title
    return f"{where}, second ÷ first (better: {measure.better})"


def _primary(between: Between, measure: Measure) -> Table:
    table = Table.grid(padding=(0, 2))
    relative = between.judged == "relative"
    columns = (
        ["", f"relative to {between.pairing.baseline}", "verdict", "absolute"]
        if relative
        else ["", "absolute", "verdict"]
    )
    if not relative and between.pairing.baseline:
        columns.append(f"relative to {between.pairing.baseline}")
    for heading in columns:
        table.add_column(no_wrap=heading != "verdict", header_style="dim")
    table.add_row(*(Text(f"  {h}" if i == 0 else h, style="dim") for i, h in enumerate(columns)))
    for figure in between.of(measure):
        other = figure.absolute if relative else figure.relative
        cells = [
            f"  {figure.variant}",
            _times(figure.contrast),
            verdict_words(figure, between),
            _times(other),
        ]
        table.add_row(*map(Text, cells[: len(columns)]))
    for figure in (f for f in between.moved if f.measure == measure and f.absolute):
        row = [
            f"  {figure.variant}, the baseline",
            NOTHING,
            "what moved between the campaigns",
            _times(figure.absolute),
        ]
        table.add_row(*map(Text, row), style="dim")
    return table


def _rest(between: Between, measures: list[Measure]) -> Table:
    names = list(dict.fromkeys(f.variant for f in between.figures))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in names:
        table.add_column(no_wrap=True)
    table.add_row(Text(""), *(Text(n, style="dim") for n in names))
    for measure in measures:
        found = {f.variant: _times(f.contrast) for f in between.of(measure)}
        label = (
            f"  {measure.name}, {measure.workload}"
            if len(between.pairing.levels) > 1
            else f"  {measure.name}"
        )
        table.add_row(Text(label), *(Text(found.get(n, NOTHING)) for n in names))
    return table


def _times(contrast: Contrast | None) -> str:
    return times(contrast.estimate, contrast.low, contrast.high) if contrast else NOTHING


def _side(side: Side) -> dict[str, Any]:
    facts, done = side.campaign.facts, progress(side.campaign)
    return {
        "directory": str(side.directory),
        "name": side.campaign.experiment.name,
        "started": float(facts["started"]),
        "blocks": done.blocks,
        "ending": facts.get("ending"),
        "host": side.campaign.environment.get("host"),
    }


def _figure(figure: Figure, between: Between) -> dict[str, Any]:
    m = figure.measure
    return {
        "variant": figure.variant,
        "measure": m.name,
        "workload": m.workload,
        "threads": m.threads,
        "better": m.better,
        "design": m.design,
        "primary": m.primary,
        "judged": figure.judged,
        "relative": _contrast(figure.relative),
        "absolute": _contrast(figure.absolute),
        "verdict": verdict_words(figure, between) if m.primary else None,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    figure = finding.figure
    return {
        "variant": figure.variant, "workload": figure.measure.workload, "holds": finding.holds,
        "problem": finding.problem or None,
    }  # fmt: skip


def _contrast(contrast: Contrast | None) -> dict[str, Any] | None:
    if contrast is None:
        return None
    low, high = (contrast.low, contrast.high) if contrast.known else (None, None)
    return {
        "ratio": contrast.estimate, "low": low, "high": high, "confidence": contrast.confidence,
        "blocks": list(contrast.blocks),
    }  # fmt: skip
