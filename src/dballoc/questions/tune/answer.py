"""What a search and its confirmation say, in words."""

from dballoc.document.model import Answer, VariantLine
from dballoc.ground.numbers import count, listing, percent
from dballoc.questions.campaign.answer.compose_answer import quote_directory
from dballoc.questions.campaign.answer.recommendation import Ending
from dballoc.questions.compare.answer_words import describe_faults
from dballoc.questions.compare.baseline_comparison import Comparison, is_shown_slower
from dballoc.questions.compare.measures import CPU, PEAK
from dballoc.questions.compare.ratios_as_text import format_ratio
from dballoc.questions.compare.verdict import Noninferiority
from dballoc.questions.tune.figures import Confirmed, Tuned


def answer_tune(tuned: Tuned) -> Answer:
    """Return the answer in words."""
    return Answer(
        headline=_write_headline(tuned),
        reason=_explain(tuned),
        command=f"dballoc deploy {quote_directory(tuned.directory)}"
        if tuned.winner and tuned.is_over
        else "",
        against="The finalists",
        variants=[
            VariantLine(name, describe_finalist(tuned, confirmed, name))
            for confirmed in tuned.confirmed
            for name in confirmed.finalists
        ],
        notes=_list_notes(tuned),
    )


def describe_settings(tuned: Tuned, variant: str) -> str:
    """Return the settings of a configuration in words: ``arena_max = 1``."""
    for standing in tuned.standings:
        if standing.variant == variant and standing.parameters:
            return listing([f"{n} = {v}" for n, v in standing.parameters.items()])
    return "its defaults"


def describe_finalist(tuned: Tuned, confirmed: Confirmed, name: str) -> str:
    """Return what the confirmation shows of a finalist: its settings, its outcome, its intervals
    against its base's default.
    """
    settings = describe_settings(tuned, name)
    if confirmed.comparisons is None:
        return f"{settings}: not measured yet"
    if name in confirmed.comparisons.faulty:
        return f"{settings}: {describe_faults(confirmed.comparisons.faulty[name])}"
    figures = _list_figures(confirmed, name, PEAK.name, CPU.name)
    figures += [
        f"{b.constraint.text}: {_STANDINGS[b.standing]} ({b.text})"
        for b in _list_bounds(confirmed, name)
    ]
    figures += [f"shown to be worse: {price}" for price in _list_prices(confirmed, name)]
    outcome = confirmed.judge_finalist(name)
    return f"{settings}: {outcome}; against {confirmed.base} as it is: {'; '.join(figures)}"


_STANDINGS = {
    Noninferiority.BETTER: "shown",
    Noninferiority.NO_WORSE: "shown",
    Noninferiority.UNDECIDED: "not shown",
    Noninferiority.WORSE: "broken",
}


def _list_comparisons(confirmed: Confirmed, name: str, *measures: str) -> list[Comparison]:
    family = confirmed.comparisons.family if confirmed.comparisons else []
    return [c for c in family if c.variant == name and c.metric.measure.name in measures]


def _list_figures(confirmed: Confirmed, name: str, *measures: str) -> list[str]:
    return [_format_figure(c) for c in _list_comparisons(confirmed, name, *measures)]


def _list_prices(confirmed: Confirmed, name: str) -> list[str]:
    """Return the throughput that a finalist is shown to lower. The rule looks at CPU, which
    transactions do not take while they wait for a malloc's locks.
    """
    return [
        _format_figure(c) for c in _list_comparisons(confirmed, name, "tps") if is_shown_slower(c)
    ]


def _list_bounds(confirmed: Confirmed, name: str) -> list:
    if confirmed.recommendation is None:
        return []
    return confirmed.recommendation.evidence.bounds.get(name, [])


def _format_figure(comparison: Comparison) -> str:
    return f"{comparison.metric.title} × {_format_ratio(comparison)}"


def _format_ratio(comparison: Comparison) -> str:
    ratio = comparison.ratio
    if ratio is None:
        return format_ratio(None)
    interval = format_ratio(ratio.estimate, ratio.low, ratio.high)
    return f"{interval} at {percent(ratio.confidence, 1)}" if ratio.interval else interval


def _write_headline(tuned: Tuned) -> str:
    if tuned.winner:
        name = tuned.winner.winner or ""
        settings = describe_settings(tuned, name)
        words = f"Use {tuned.winner.base} with {settings} ({name})"
        return words if tuned.is_over else f"So far: {words}; the confirmation is not over"
    if not tuned.declared:
        return "The search is not over"
    if not tuned.confirmed:
        failed = _list_failed_defaults(tuned)
        if len(failed) == len({t.base for t in tuned.tried}):
            return f"No answer: {'; '.join(failed)}"
        return "Keep the defaults: by the rule, no setting that was tried is likely to be better"
    if not tuned.is_over:
        return "The confirmation is not over"
    return "Keep the defaults: no finalist is confirmed"


def _explain(tuned: Tuned) -> str:
    trials = count(len(tuned.tried), "trial")
    configurations = count(len({t.variant for t in tuned.tried if t.parameters}), "configuration")
    searched = f"The search tried {configurations} in {trials}"
    rule = tuned.preference.describe_rule(0.03)
    if not tuned.confirmed:
        return f"{searched}. The rule: {rule}."
    gain = _describe_gain(tuned, tuned.winner) if tuned.winner else ""
    undecided = [
        c.base
        for c in tuned.confirmed
        if c.recommendation and c.recommendation.ending is Ending.NOT_SETTLED
    ]
    more = (
        f" Not settled: {listing(undecided)}; a larger --budget decides more." if undecided else ""
    )
    judged = "judged" if tuned.is_over else "judges"
    return (
        f"{gain}{searched}, and a campaign of its own {judged} the finalists, which were declared "
        f"before it began; only its intervals are verdicts. The rule: {rule}.{more}"
    )


def _describe_gain(tuned: Tuned, confirmed: Confirmed) -> str:
    """Return a sentence of what is gained by the one to run, and what is shown to be worse."""
    name = confirmed.winner or ""
    objective = PEAK.name if tuned.preference.objective == "memory" else CPU.name
    gains, prices = _list_figures(confirmed, name, objective), _list_prices(confirmed, name)
    but = f"; but shown to be worse: {listing(prices)}" if prices else ""
    return f"Against {confirmed.base} as it is: {listing(gains)}{but}. "


def _list_failed_defaults(tuned: Tuned) -> list[str]:
    """Return, for each base whose default never ran to its end on a server, how it failed."""
    failed = []
    for standing in tuned.standings:
        if standing.parameters or standing.trials:
            continue
        faults = [
            t.fault for t in tuned.tried if t.stage == "server" and t.variant == standing.variant
        ]
        tries = count(len(faults), "trial")
        why = faults[-1] or "no peak RSS was read"
        failed.append(
            f"{standing.base} with its defaults failed in all {tries}, the last time: {why}"
        )
    return failed


def _list_notes(tuned: Tuned) -> list[str]:
    experiment = tuned.campaign.experiment
    notes = [
        f"{text}, so nothing of it was compared; its trials' own files say more."
        for text in _list_failed_defaults(tuned)
    ]
    failed = [t for t in tuned.tried if t.fault is not None and t.parameters]
    if failed:
        notes.append(
            f"{count(len(failed), 'trial')} of other settings ended in a fault, and what failed "
            "alone on a server was not put forward; the last one: "
            f"{failed[-1].variant}: {failed[-1].fault}."
        )
    notes += [
        f"This holds for {listing(experiment.workloads)} at {experiment.threads[-1]} clients, in "
        "trials of seconds: settings that act with time may do more, or less, in a server that "
        "runs for weeks."
    ]
    if len([c for c in tuned.confirmed if c.winner]) > 1:
        notes.append(
            "Finalists are judged against their own allocator's default. Between allocators the "
            "lower measured figure decided, which is no verdict; dballoc bench compares them."
        )
    return notes
