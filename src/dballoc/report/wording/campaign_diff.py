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
from dballoc.analysis.decisions.comparability import Pairing
from dballoc.analysis.decisions.regression_gate import Finding, Outcome
from dballoc.analysis.decisions.sequential_test import ERROR
from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.hosts.split_by_host import list_environments
from dballoc.analysis.replay.replay_facts import read_replay_facts
from dballoc.analysis.statistics.ratio_interval import UnpairedRatio
from dballoc.analysis.tables.campaign_diff import CampaignDiff, Figure, Measure
from dballoc.analysis.tables.level_curves import CONFIDENCE
from dballoc.experiment.designs import Design
from dballoc.experiment.model import REPLAY
from dballoc.numbers import NOTHING, count, listing, percent
from dballoc.report.wording.answer import measure_progress
from dballoc.report.wording.ratios_as_text import format_detectable, format_ratio

_KINDS = {
    "relative": "each variant relative to its own campaign's {baseline}, the second ÷ the first: "
    "whatever affected both cancels out",
    "absolute": "each variant's own figure, the second ÷ the first: whatever changed between the "
    "campaigns is in it",
}


@dataclass(frozen=True)
class Side:
    """One of the two campaigns: its directory and its tables."""

    directory: Path
    campaign: Campaign

    @property
    def words(self) -> str:
        """``DIR: demo, 6 of 6 solo blocks, began 2026-11-02 10:00 (UTC) on HOST``."""
        facts = self.campaign.facts
        began = datetime.fromtimestamp(float(facts["started"]), UTC).strftime("%Y-%m-%d %H:%M")
        blocks = measure_progress(self.campaign).words
        return (
            f"{self.directory}: {self.campaign.experiment.name}, {blocks}, began {began} (UTC) on "
            f"{self.host}"
        )

    @property
    def host(self) -> str | None:
        """The name of the machine that ran it, or how many hosts did."""
        machines = list_environments(self.campaign)
        return machines[0].get("host") if len(machines) == 1 else f"{len(machines)} hosts"

    def list_trace_flaws(self) -> list[str]:
        """Return what is wrong with the trace that was replayed; nothing of servers."""
        return read_replay_facts(self.campaign).flaws if self.campaign.is_replay else []


def describe_pairing(between: CampaignDiff, sides: tuple[Side, Side]) -> list[tuple[str, str]]:
    """Return what is paired, what is not, and what else to know, as (heading, sentence)."""
    p = between.pairing
    statements = [("first", sides[0].words), ("second", sides[1].words)]
    if is_same_campaign(sides):
        statements.append(("note", "both are the same campaign: every ratio is 1"))
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
    statements += [
        ("trace", f"that of the {which}: {'; '.join(flaws)}")
        for which, side in zip(("first", "second"), sides, strict=True)
        if (flaws := side.list_trace_flaws())
    ]
    statements.append(("paired", paired))
    statements += [("unpaired", text) for text in _list_unpaired(p, sides)]
    statements += [("changed", text) for text in _list_changes(p)]
    statements += _describe_machines(p)
    if between.figures:
        judged = _KINDS[between.judged].format(baseline=p.baseline)
        statements.append(("judged", f"{judged} ({between.why})"))
        statements.append(
            (
                "blocks",
                "not paired across campaigns, which ran at different times: Welch's t on "
                "logarithms",
            )
        )
        statements += [("judged at", look.words) for look in between.looks]
    return statements


def _list_unpaired(pairing: Pairing, sides: tuple[Side, Side]) -> list[str]:
    """Return what one side has alone, and which metrics cannot be compared and why."""
    unpaired = list(pairing.unpaired)
    if pairing.no_speed:
        metrics = "everything" if pairing.no_duet else "throughput, response time and memory"
        reasons = "; ".join(pairing.no_speed)
        unpaired.append(f"{metrics}, because the load or the design differs: {reasons}")
    elif pairing.no_memory:
        reasons = "; ".join(pairing.no_memory)
        unpaired.append(f"memory, because what is measured of it differs: {reasons}")
    elif pairing.no_idle:
        unpaired.append(f"idle RSS: {'; '.join(pairing.no_idle)}")
    has_duets = any(Design.DUET in side.campaign.designs for side in sides)
    if pairing.no_duet and has_duets and not pairing.no_speed:
        unpaired.append(f"the duets: {'; '.join(pairing.no_duet)}")
    return unpaired


def _list_changes(pairing: Pairing) -> list[str]:
    """Return what differs in the variants between the campaigns, or that nothing does."""
    changes = []
    for change in pairing.changes:
        everyone = len(change.variants) == len(pairing.variants) > 1
        variants = "every variant" if everyone else listing(list(change.variants))
        changes.append(f"{variants}: {change.text}")
    return changes or ["nothing in the variants' allocators, settings and servers"]


def _describe_machines(pairing: Pairing) -> list[tuple[str, str]]:
    """Return how the machines differ, in kind and in state, as (heading, sentence)."""
    statements = []
    if pairing.machine:
        statements.append(("machines", f"they differ: {'; '.join(pairing.machine)}"))
    if pairing.state:
        heading = "machines" if pairing.machine else "machine"
        statements.append((heading, f"differs between the campaigns: {'; '.join(pairing.state)}"))
    return statements or [
        ("machine", "of the same kind, and in the same state as far as dballoc noted it")
    ]


def describe_verdict(figure: Figure, between: CampaignDiff) -> str:
    """Return one of the four verdicts, or why there is none."""
    if why := between.no_verdict(figure):
        return f"no verdict: {why}"
    assert figure.ratio
    if figure.verdict is Verdict.UNDECIDED:
        smallest = format_detectable(figure.ratio.detectable)
        return f"{Verdict.UNDECIDED} (smallest detectable: {smallest})"
    return figure.verdict.value


def is_same_campaign(sides: tuple[Side, Side]) -> bool:
    """Whether both are copies of one campaign."""
    first_facts, second_facts = (s.campaign.facts for s in sides)
    return (first_facts.get("identity"), first_facts.get("started")) == (
        second_facts.get("identity"),
        second_facts.get("started"),
    )


def describe_finding(outcome: Outcome, finding: Finding) -> str:
    """Return ``jemalloc 1.082 [1.061, 1.104]: shown``."""
    figure = finding.figure
    where = f" in {figure.measure.workload}" if figure.measure.workload else ""
    judgement = {True: "shown", False: "shown not to be", None: "not shown either way"}[
        finding.holds
    ]
    judgement = f"cannot be judged: {finding.problem}" if finding.problem else judgement
    return f"{figure.variant}{where} {_format_ratio(figure.ratio)}: {judgement}"


def describe_failed_conditions(outcomes: Sequence[Outcome], strict: bool) -> str:
    """Return one line that says which conditions failed, and on what; empty if none did."""
    parts = []
    for outcome in outcomes:
        if outcome.failed(strict):
            findings = [describe_finding(outcome, f) for f in outcome.failures(strict)]
            complaints = ", ".join(findings) or f"cannot be judged: {outcome.problem}"
            parts.append(f"--fail-if {outcome.condition.text!r}: {complaints}")
    return "; ".join(parts)


def print_comparison(
    console: Console,
    between: CampaignDiff,
    sides: tuple[Side, Side],
    outcomes: Sequence[Outcome],
    strict: bool,
) -> None:
    """Print the whole comparison."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    last = ""
    for heading, text in describe_pairing(between, sides):
        grid.add_row(Text("" if heading == last else heading), Text(text))
        last = heading
    console.print(grid)
    for measure in (m for m in between.measures if m.primary):
        console.print(
            "",
            Text(_title_measure(measure), style="bold"),
            _tabulate_primary(between, measure),
            sep="\n",
        )
    if rest := [m for m in between.measures if not m.primary]:
        title = f"Descriptive, {percent(CONFIDENCE, 0)} intervals, {between.judged}"
        console.print("", Text(title, style="bold"), _tabulate_descriptive(between, rest), sep="\n")
    if between.figures:
        family = count(sum(f.measure.primary for f in between.figures), "comparison")
        levels = {f.ratio.confidence for f in between.figures if f.measure.primary and f.ratio}
        at = listing([percent(level, 2) for level in sorted(levels, reverse=True)])
        level = (
            f"{at or percent(between.confidence, 2)}, so that all {family} together err in "
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
            console.print(Text(f"  {describe_finding(outcome, finding)}"))
        if outcome.problem:
            console.print(Text(f"  cannot be judged: {outcome.problem}"))


def describe_comparison(
    between: CampaignDiff, sides: tuple[Side, Side], outcomes: Sequence[Outcome], strict: bool
) -> dict[str, Any]:
    """Return the comparison as plain data. Ends of an interval are null where there is none."""
    p = between.pairing
    return {
        "first": _describe_side(sides[0]),
        "second": _describe_side(sides[1]),
        "same_campaign": is_same_campaign(sides),
        "trace_flaws": [side.list_trace_flaws() for side in sides],
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
        "looks": [
            {
                "campaign": look.campaign,
                "design": look.design,
                "blocks": look.blocks,
                "planned": look.planned,
            }
            for look in between.looks
        ],
        "baseline": p.baseline,
        "figures": [_describe_figure(f, between) for f in between.figures],
        "baseline_itself": [_describe_figure(f, between) for f in between.moved],
        "strict": strict,
        "conditions": [
            {
                "condition": o.condition.text,
                "failed": o.failed(strict),
                "problem": o.problem or None,
                "findings": [_encode_finding(f) for f in o.findings],
            }
            for o in outcomes
        ],
        "failed": any(o.failed(strict) for o in outcomes),
    }


def _title_measure(measure: Measure) -> str:
    if measure.workload == REPLAY:
        return f"{measure.title}, second ÷ first (better: {measure.better})"
    width = f" at {count(measure.threads or 0, 'client')}" if measure.design == Design.SOLO else ""
    where = f"{measure.workload}, {measure.title}{width}" if measure.workload else measure.title
    return f"{where}, second ÷ first (better: {measure.better})"


def _tabulate_primary(between: CampaignDiff, measure: Measure) -> Table:
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
            _format_ratio(figure.ratio),
            describe_verdict(figure, between),
            _format_ratio(other),
        ]
        table.add_row(*map(Text, cells[: len(columns)]))
    for figure in (f for f in between.moved if f.measure == measure and f.absolute):
        row = [
            f"  {figure.variant}, the baseline",
            NOTHING,
            "what moved between the campaigns",
            _format_ratio(figure.absolute),
        ]
        table.add_row(*map(Text, row), style="dim")
    return table


def _tabulate_descriptive(between: CampaignDiff, measures: list[Measure]) -> Table:
    names = list(dict.fromkeys(f.variant for f in between.figures))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in names:
        table.add_column(no_wrap=True)
    table.add_row(Text(""), *(Text(n, style="dim") for n in names))
    for measure in measures:
        ratios = {f.variant: _format_ratio(f.ratio) for f in between.of(measure)}
        label = (
            f"  {measure.name}, {measure.workload}"
            if len(between.pairing.levels) > 1
            else f"  {measure.name}"
        )
        table.add_row(Text(label), *(Text(ratios.get(n, NOTHING)) for n in names))
    return table


def _format_ratio(ratio: UnpairedRatio | None) -> str:
    return format_ratio(ratio.estimate, ratio.low, ratio.high) if ratio else NOTHING


def _describe_side(side: Side) -> dict[str, Any]:
    facts, progress = side.campaign.facts, measure_progress(side.campaign)
    return {
        "directory": str(side.directory),
        "name": side.campaign.experiment.name,
        "started": float(facts["started"]),
        "blocks": progress.blocks,
        "ending": facts.get("ending"),
        "host": side.host,
    }


def _describe_figure(figure: Figure, between: CampaignDiff) -> dict[str, Any]:
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
        "relative": _describe_ratio(figure.relative),
        "absolute": _describe_ratio(figure.absolute),
        "verdict": describe_verdict(figure, between) if m.primary else None,
    }


def _encode_finding(finding: Finding) -> dict[str, Any]:
    figure = finding.figure
    return {
        "variant": figure.variant, "workload": figure.measure.workload, "holds": finding.holds,
        "problem": finding.problem or None,
    }  # fmt: skip


def _describe_ratio(ratio: UnpairedRatio | None) -> dict[str, Any] | None:
    if ratio is None:
        return None
    return {
        "ratio": ratio.estimate, "low": ratio.low, "high": ratio.high,
        "confidence": ratio.confidence, "blocks": list(ratio.blocks_of_each),
    }  # fmt: skip
