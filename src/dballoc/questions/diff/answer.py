"""Two campaigns against each other, in words and as JSON. Pure: from figures to sentences and plain
data.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dballoc.document.model import Section, Table
from dballoc.experiment.designs import Design
from dballoc.ground.numbers import NOTHING, count, listing, percent
from dballoc.questions.compare.answer_words import measure_progress
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.comparability import Comparability
from dballoc.questions.compare.measures import Metric
from dballoc.questions.compare.procedure import ERROR
from dballoc.questions.compare.ratios_as_text import describe_ratio, describe_resolution, show_ratio
from dballoc.questions.compare.split_by_host import list_environments
from dballoc.questions.compare.verdict import Verdict
from dballoc.questions.diff.figures import CampaignDiff, ConditionCheck, DiffFigure, FigureCheck
from dballoc.questions.statistics.ratio_interval import DESCRIPTIVE_CONFIDENCE, UnpairedRatio

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
        began = datetime.fromtimestamp(facts.started, UTC).strftime("%Y-%m-%d %H:%M")
        blocks = measure_progress(self.campaign).words
        return (
            f"{self.directory}: {self.campaign.experiment.name}, {blocks}, began {began} (UTC) on "
            f"{self.host}"
        )

    @property
    def host(self) -> str | None:
        """The name of the machine that ran it, or how many hosts did."""
        machines = list_environments(self.campaign)
        return machines[0].host if len(machines) == 1 else f"{len(machines)} hosts"

    def list_trace_flaws(self) -> list[str]:
        """Return what is wrong with the trace that was replayed; nothing of servers."""
        replay = self.campaign.facts.replay
        return replay.flaws if replay else []


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


def _list_unpaired(pairing: Comparability, sides: tuple[Side, Side]) -> list[str]:
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
    has_duets = any(Design.DUET in side.campaign.facts.designs for side in sides)
    if pairing.no_duet and has_duets and not pairing.no_speed:
        unpaired.append(f"the duets: {'; '.join(pairing.no_duet)}")
    return unpaired


def _list_changes(pairing: Comparability) -> list[str]:
    """Return what differs in the variants between the campaigns, or that nothing does."""
    changes = []
    for change in pairing.changes:
        everyone = len(change.variants) == len(pairing.variants) > 1
        variants = "every variant" if everyone else listing(list(change.variants))
        changes.append(f"{variants}: {change.text}")
    return changes or ["nothing in the variants' allocators, settings and servers"]


def _describe_machines(pairing: Comparability) -> list[tuple[str, str]]:
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


def describe_verdict(figure: DiffFigure, between: CampaignDiff) -> str:
    """Return one of the four verdicts, or why there is none."""
    if why := between.no_verdict(figure):
        return f"no verdict: {why}"
    assert figure.ratio
    if figure.verdict is Verdict.UNDECIDED:
        return f"{Verdict.UNDECIDED} ({describe_resolution(figure.ratio.detectable)})"
    return figure.verdict.value


def is_same_campaign(sides: tuple[Side, Side]) -> bool:
    """Whether both are copies of one campaign."""
    first_facts, second_facts = (s.campaign.facts for s in sides)
    return (first_facts.identity, first_facts.started) == (
        second_facts.identity,
        second_facts.started,
    )


def describe_finding(outcome: ConditionCheck, finding: FigureCheck) -> str:
    """Return ``jemalloc 1.082 [1.061, 1.104]: shown``."""
    figure = finding.figure
    where = f" in {figure.metric.workload}" if figure.metric.workload else ""
    judgement = {True: "shown", False: "shown not to be", None: "not shown either way"}[
        finding.holds
    ]
    judgement = f"cannot be judged: {finding.problem}" if finding.problem else judgement
    return f"{figure.variant}{where} {show_ratio(figure.ratio)}: {judgement}"


def describe_failed_conditions(outcomes: Sequence[ConditionCheck], strict: bool) -> str:
    """Return one line that says which conditions failed, and on what; empty if none did."""
    parts = []
    for outcome in outcomes:
        if outcome.failed(strict):
            findings = [describe_finding(outcome, f) for f in outcome.failures(strict)]
            complaints = ", ".join(findings) or f"cannot be judged: {outcome.problem}"
            parts.append(f"--fail-if {outcome.condition.text!r}: {complaints}")
    return "; ".join(parts)


def make_diff_sections(
    between: CampaignDiff,
    sides: tuple[Side, Side],
    outcomes: Sequence[ConditionCheck],
    strict: bool,
) -> list[Section]:
    """Return the whole comparison: what is paired, a table for each primary measure, one for the
    others, and the gate.
    """
    statements: list[list[str]] = []
    last = ""
    for heading, text in describe_pairing(between, sides):
        statements.append(["" if heading == last else heading, text])
        last = heading
    paired = Table(title="", columns=["", ""], rows=statements, words=[""])
    sections = [Section(key="paired", title="", tables=[paired])]
    sections += [
        Section(
            key=metric.measure.condition,
            title=f"{metric.title}, second ÷ first (better: {metric.better})",
            tables=[_tabulate_primary(between, metric)],
        )
        for metric in between.metrics
        if metric.question
    ]
    if rest := [m for m in between.metrics if not m.question]:
        title = f"Descriptive, {percent(DESCRIPTIVE_CONFIDENCE, 0)} intervals, {between.judged}"
        descriptive = _tabulate_descriptive(between, rest)
        sections.append(Section(key="descriptive", title=title, tables=[descriptive]))
    if between.figures:
        family = [f for f in between.figures if f.metric.question]
        levels = {f.ratio.confidence for f in family if f.ratio} or {between.confidence}
        at = listing([percent(level, 2) for level in sorted(levels, reverse=True)])
        text = (
            f"Intervals with a verdict at {at}, so that all {count(len(family), 'comparison')} "
            f"together err in {percent(ERROR, 0)}."
        )
        sections.append(Section(key="levels", title="", text=[text]))
    return sections + [_make_gate_section(outcome, strict) for outcome in outcomes]


def _make_gate_section(outcome: ConditionCheck, strict: bool) -> Section:
    problem = [f"cannot be judged: {outcome.problem}"] if outcome.problem else []
    state = "failed" if outcome.failed(strict) else "passed"
    return Section(
        key="gate",
        title=f"fail if {outcome.condition.text}: {state}",
        text=[*(describe_finding(outcome, f) for f in outcome.findings), *problem],
    )


def describe_comparison(
    between: CampaignDiff,
    sides: tuple[Side, Side],
    outcomes: Sequence[ConditionCheck],
    strict: bool,
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
        "looks": list(map(asdict, between.looks)),
        "baseline": p.baseline,
        "figures": [_describe_figure(f, between) for f in between.figures],
        "baseline_itself": [_describe_figure(f, between) for f in between.moved],
        "strict": strict,
        "conditions": [
            {
                "condition": o.condition.text,
                "failed": o.failed(strict),
                "problem": o.problem or None,
                "findings": [
                    {
                        "variant": f.figure.variant,
                        "workload": f.figure.metric.workload,
                        "holds": f.holds,
                        "problem": f.problem or None,
                    }
                    for f in o.findings
                ],
            }
            for o in outcomes
        ],
        "failed": any(o.failed(strict) for o in outcomes),
    }


def _tabulate_primary(between: CampaignDiff, metric: Metric) -> Table:
    relative, baseline = between.judged == "relative", between.pairing.baseline
    judged, other = f"relative to {baseline}", "absolute"
    if not relative:
        judged, other = other, judged
    rows = [
        [
            figure.variant,
            show_ratio(figure.ratio),
            describe_verdict(figure, between),
            show_ratio(figure.absolute if relative else figure.relative),
        ]
        for figure in between.of(metric)
    ]
    moved = [
        [
            f"{figure.variant}, the baseline",
            NOTHING,
            "what moved between the campaigns",
            show_ratio(figure.absolute),
        ]
        for figure in between.moved
        if figure.metric == metric and figure.absolute
    ]
    table = Table(
        title="",
        columns=["variant", judged, "verdict", other],
        rows=rows + moved,
        words=("verdict",),
        faint=range(len(rows), len(rows + moved)),
    )
    return table if relative or baseline else table.drop_columns(other)


def _tabulate_descriptive(between: CampaignDiff, metrics: list[Metric]) -> Table:
    names = list(dict.fromkeys(f.variant for f in between.figures))
    rows = []
    for metric in metrics:
        ratios = {f.variant: show_ratio(f.ratio) for f in between.of(metric)}
        is_one_of_many = metric.workload and len(between.pairing.levels) > 1
        where = f", {metric.workload}" if is_one_of_many else ""
        rows.append(
            [f"{metric.measure.condition}{where}", *(ratios.get(n, NOTHING) for n in names)]
        )
    return Table(title="", columns=["measure", *names], rows=rows)


def _describe_side(side: Side) -> dict[str, Any]:
    facts, progress = side.campaign.facts, measure_progress(side.campaign)
    return {
        "directory": str(side.directory),
        "name": side.campaign.experiment.name,
        "started": facts.started,
        "blocks": progress.blocks,
        "ending": facts.ending,
        "host": side.host,
    }


def _describe_figure(figure: DiffFigure, between: CampaignDiff) -> dict[str, Any]:
    m = figure.metric
    return {
        "variant": figure.variant,
        "measure": m.measure.condition,
        "workload": m.workload,
        "threads": m.threads,
        "better": m.better,
        "design": m.design,
        "primary": m.question is not None,
        "judged": figure.judged,
        "relative": _describe_ratio(figure.relative),
        "absolute": _describe_ratio(figure.absolute),
        "verdict": describe_verdict(figure, between) if m.question else None,
    }


def _describe_ratio(ratio: UnpairedRatio | None) -> dict[str, Any] | None:
    if ratio is None:
        return None
    return describe_ratio(ratio) | {
        "confidence": ratio.confidence, "blocks": ratio.blocks_of_each,
    }  # fmt: skip
