"""The sentences that head every result: which malloc to use, or why none yet. Pure."""

from collections.abc import Mapping, Sequence

from dballoc.experiment.designs import Design
from dballoc.ground.numbers import count, duration, listing, percent
from dballoc.questions.campaign.answer.conditions_and_preference import format_share
from dballoc.questions.campaign.answer.recommendation import (
    Ending,
    Recommendation,
    compute_gain,
    judge_comparison,
    list_questions,
    select_judged,
)
from dballoc.questions.campaign.answer.settling_time import (
    LONGEST,
    SettlingTime,
    Way,
    find_unshown_gain,
    list_possible_gains,
    list_unmeasured,
    list_unmeasured_conditions,
)
from dballoc.questions.compare.answer_words import MANY, Progress, describe_faults
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.verdict import Noninferiority
from dballoc.questions.statistics.detectable_difference import POWER

STAY = "nothing is shown to be better"


def compose_headline(recommendation: Recommendation, progress: Progress) -> str:
    """Return the ending in a few words, marked as interim before the campaign's end."""
    subject = recommendation.subject
    match recommendation.ending:
        case Ending.USE:
            words = f"Use {subject}"
        case Ending.CHOICE:
            words = f"A choice: {_describe_choice(recommendation)}"
        case Ending.NOT_SETTLED:
            words = f"{subject} looks better, not settled"
        case Ending.STAY:
            words = f"Stay with {recommendation.baseline}: {STAY}{_name_conditions(recommendation)}"
        case Ending.BASELINE_FAILED:
            failed, trials = recommendation.comparisons.faulty[recommendation.baseline]
            return f"The baseline failed {failed} of {trials}: no ratio"
    return words if progress.final or not recommendation.comparisons.family else f"So far: {words}"


def _name_conditions(recommendation: Recommendation) -> str:
    """Return the headline's end under conditions, as a variant may be better and break one."""
    return " under these conditions" if recommendation.preference.constraints else ""


def explain_ending(recommendation: Recommendation, progress: Progress) -> str:
    """Return why: what is gained, what is shown to be no worse, and what is not shown."""
    match recommendation.ending:
        case Ending.USE:
            words = _explain_use(recommendation)
            return words + _describe_rest(recommendation, progress)
        case Ending.CHOICE:
            words = _explain_choice(recommendation)
            return words + _describe_rest(recommendation, progress)
        case Ending.NOT_SETTLED:
            return _explain_not_settled(recommendation)
        case Ending.BASELINE_FAILED:
            return _explain_failure(recommendation.comparisons, recommendation.baseline)
    return _explain_stay(recommendation, progress)


def _describe_rest(recommendation: Recommendation, progress: Progress) -> str:
    """Return what more time would do beside an answer that is settled: name its contender, else
    what is undecided of any variant. Nothing of a campaign that has not ended.
    """
    if not progress.final:
        return ""
    if name := recommendation.contender:
        gains = _select_by_standing(recommendation, name)[Noninferiority.BETTER]
        is_use = recommendation.ending is Ending.USE
        better = "better still" if is_use else "better without such a loss"
        return f" {name} may be {better}: it {_describe_gains(gains, recommendation)}."
    margin = recommendation.evidence.margin
    undecided = [
        comparison
        for comparison in recommendation.comparisons.family
        if judge_comparison(comparison, margin) is Noninferiority.UNDECIDED
    ]
    if undecided:
        return f" More time may settle what is undecided of {_list_open(undecided)}."
    return " More time would only narrow the intervals."


def explain_settling(
    recommendation: Recommendation,
    settling: SettlingTime | None,
    progress: Progress,
) -> str:
    """Return what would settle an open answer; the command follows it."""
    if not progress.final:
        if not progress.is_extended:
            return "The campaign is not finished; the same command resumes it:"
        if settling is None or settling.minutes is None:
            longest = duration(LONGEST)
            return f"The extension is not finished; its next look takes more than {longest}."
        return "The extension is not finished; this goes on with it:"
    if "memory" not in list_questions(recommendation.comparisons):
        # How long another design takes on this host is not known.
        return "Memory was not compared: that takes solo blocks, as in:"
    missing = _list_names(list_unmeasured(recommendation), recommendation.comparisons)
    missing = missing or listing(list_unmeasured_conditions(recommendation))
    if missing and (settling is None or settling.minutes is None):
        return f"There is no interval yet for {missing}."
    if settling is None:
        return ""
    question, ratio = "it", "ratio is"
    words = ""
    if recommendation.ending is Ending.STAY and not missing:
        possible = list_possible_gains(recommendation)
        question, ratio = "that", "ratio is" if len(possible) == 1 else "ratios are"
        words = f"Whether it is better by more than 1 % is open for {_list_open(possible)}. "
    if settling.way is Way.NOT_HERE:
        return (
            f"{words}More time would not settle {question} on this host: it would take more than "
            f"{duration(LONGEST)}, if the true {ratio} as estimated."
        )
    assert settling.minutes
    minutes = count(settling.minutes, "minute")
    is_extension = settling.way is Way.EXTEND
    time = minutes.replace(" ", " more ", 1) if is_extension else f"A new campaign of {minutes}"
    if settling.only_measures:
        look = "the next look" if is_extension else "its first look"
        return f"There is no interval yet for {missing}. {time} would reach {look}:"
    chance = f"with {percent(POWER, 0)} chance, if the true {ratio} as estimated"
    return f"{words}{time} would settle {question}, {chance}:"


def _list_open(figures: list[Comparison]) -> str:
    """Return the variants of these comparisons; of many, the number."""
    names = list(dict.fromkeys(c.variant for c in figures))
    return listing(names) if len(names) <= MANY else f"{len(names)} variants"


def name_figure(comparison: Comparison, comparisons: Comparisons) -> str:
    """Return ``throughput``, with its workload where there are several."""
    several = len({m.workload for m in comparisons.metrics if m.workload}) > 1
    name, workload = comparison.metric.measure.short, comparison.metric.workload
    return f"{name} in {workload}" if several and workload else name


def _list_names(figures: list[Comparison], comparisons: Comparisons) -> str:
    """Return the figures' names, each once, whichever variants they are of; of many, the number."""
    names = list(dict.fromkeys(name_figure(c, comparisons) for c in figures))
    return listing(names) if len(names) <= MANY else f"{len(names)} figures"


def _select_by_standing(
    recommendation: Recommendation, name: str
) -> dict[Noninferiority, list[Comparison]]:
    """Return a variant's comparisons in both questions by their standing."""
    evidence = recommendation.evidence
    selected: dict[Noninferiority, list[Comparison]] = {standing: [] for standing in Noninferiority}
    for comparison in select_judged(recommendation.comparisons, name, evidence.left_out):
        selected[judge_comparison(comparison, evidence.margin)].append(comparison)
    return selected


def _explain_use(recommendation: Recommendation) -> str:
    name = recommendation.subject or ""
    if recommendation.preference.constraints:
        return " ".join(_describe_constraints(recommendation, name))
    shown = _select_by_standing(recommendation, name)
    words = _describe_shown(shown, recommendation)
    if (
        name in recommendation.evidence.left_out
        and Design.DUET in recommendation.comparisons.procedures
    ):
        words += " Its CPU per transaction was not compared, as it plays no duets."
    return words


def _describe_shown(
    shown: Mapping[Noninferiority, list[Comparison]], recommendation: Recommendation
) -> str:
    """Return what a variant is shown to gain, and what it is shown to lose no more of than the
    margin, as one sentence; empty if neither is shown.
    """
    gains, kept = shown[Noninferiority.BETTER], shown[Noninferiority.NO_WORSE]
    parts = [_describe_gains(gains, recommendation)] if gains else []
    if kept:
        margin = format_share(recommendation.evidence.margin)
        figures = _list_names(kept, recommendation.comparisons)
        parts.append(f"is shown to cost less than {margin} in {figures}")
    return f"It {', and '.join(parts)}." if parts else ""


def _describe_gains(gains: Sequence[Comparison], recommendation: Recommendation) -> str:
    """Return ``saves 12.0 % of peak RSS and 2.1 % of CPU per transaction, gains 3.0 % of
    throughput``; of many gains the number.
    """
    if len(gains) > MANY:
        return f"is better in {len(gains)} figures"
    words = []
    for verb, better in (("saves", "lower"), ("gains", "higher")):
        figures = [
            f"{_format_difference(c)} of {name_figure(c, recommendation.comparisons)}"
            for c in sorted(gains, key=lambda c: c.metric.question != "memory")
            if c.metric.better == better
        ]
        words += [f"{verb} {listing(figures)}"] if figures else []
    return listing(words)


def _describe_choice(recommendation: Recommendation) -> str:
    """Return ``jemalloc saves 6.0 % of peak RSS, costs 4.1 % of throughput``."""
    name = recommendation.subject or ""
    shown = _select_by_standing(recommendation, name)
    objective = recommendation.preference.objective
    gain = max(
        shown[Noninferiority.BETTER],
        key=lambda c: (c.metric.question == objective, compute_gain(c)),
    )
    verb = "saves" if gain.metric.better == "lower" else "gains"
    figure = name_figure(gain, recommendation.comparisons)
    words = f"{name} {verb} {_format_difference(gain)} of {figure}"
    if not shown[Noninferiority.WORSE]:
        return f"{words}, but its throughput collapses"
    loss = min(shown[Noninferiority.WORSE], key=compute_gain)
    more = "more" if loss.metric.better == "lower" else "of"
    figure = name_figure(loss, recommendation.comparisons)
    return f"{words}, costs {_format_difference(loss)} {more} {figure}"


def _format_difference(comparison: Comparison) -> str:
    """Return by how much a ratio differs from 1, without its sign."""
    assert comparison.ratio
    return percent(abs(comparison.ratio.estimate - 1), 1)


def _explain_choice(recommendation: Recommendation) -> str:
    name = recommendation.subject or ""
    words = [
        "Which of the two counts more is yours to say; dballoc report --prefer takes conditions, "
        "such as 'rss<=1,cpu<=1.05'."
    ]
    if name in recommendation.evidence.collapsed:
        words.insert(0, f"Throughput collapses in {recommendation.evidence.collapsed[name]}.")
    return " ".join(words)


def _explain_not_settled(recommendation: Recommendation) -> str:
    comparisons = recommendation.comparisons
    name = recommendation.subject or ""
    evidence, preference = recommendation.evidence, recommendation.preference
    judged = select_judged(comparisons, name, evidence.left_out)
    lead = find_unshown_gain(judged, recommendation)
    shown = _select_by_standing(recommendation, name)
    words = []
    if lead:
        figure = name_figure(lead, comparisons)
        words = [f"Its {figure} is estimated to be better by more than 1 %, which is not shown."]
    if preference.constraints:
        gains = shown[Noninferiority.BETTER]
        words = words or [f"It {_describe_gains(gains, recommendation)}."]
        return " ".join([*words, *_describe_constraints(recommendation, name)])
    kept = [c for c in shown[Noninferiority.NO_WORSE] if c is not lead]
    words.append(_describe_shown({**shown, Noninferiority.NO_WORSE: kept}, recommendation))
    undecided = [c for c in shown[Noninferiority.UNDECIDED] if c is not lead]
    if undecided:
        words.append(
            f"Not shown yet: that it costs less than {format_share(evidence.margin)} in "
            f"{_list_names(undecided, comparisons)}."
        )
    return " ".join(filter(None, words))


def _describe_constraints(recommendation: Recommendation, name: str) -> list[str]:
    """Return a variant's figures under the conditions that the user set."""
    sentences = []
    for bound in recommendation.evidence.bounds.get(name, []):
        where = f" in {bound.workload}" if bound.workload else ""
        words = {
            Noninferiority.NO_WORSE: "holds",
            Noninferiority.WORSE: "is broken",
        }.get(bound.standing, "is not shown either way")
        sentences.append(f"{bound.constraint.text}{where} {words}: {bound.text}.")
    return sentences


def _explain_stay(recommendation: Recommendation, progress: Progress) -> str:
    comparisons = recommendation.comparisons
    blocks = max((c.ratio.blocks for c in comparisons.family if c.ratio), default=0)
    if not comparisons.family:
        return f"{recommendation.baseline}, the baseline, is the only variant."
    if blocks == 0:
        both = f"{recommendation.baseline} twice and another variant, without a fault"
        return (
            f"No block has {both}."
            if any(progress.blocks.values())
            else f"No block is complete yet: none has {both}."
        )
    if not any(c.judged for c in comparisons.family):
        looks = [
            count(min(p.spending), f"{design} block")
            for design, p in comparisons.procedures.items()
        ]
        when = "it is judged once, after" if comparisons.judged_once else "the first look is at"
        return f"Nothing is judged yet: {when} {listing(looks)}."
    if blocks == 1:
        return "One block shows figures but decides nothing; two give intervals."
    sentences = _list_disqualified(recommendation)
    if sentences:
        return " ".join(sentences)
    waiting = [
        d
        for d in comparisons.procedures
        if not any(c.judged for c in comparisons.family if c.metric.design == d)
    ]
    open_designs = f" The {listing(waiting)} design is not judged yet." if waiting else ""
    preference = recommendation.preference
    questions = [preference.objective] if preference.constraints else ["memory", "speed"]
    compared = [q for q in questions if q in list_questions(comparisons)]
    if not compared:
        # At the end, what would compare it says so.
        return "" if progress.final else "Memory was not compared."
    question = f" in {listing(compared)}" if len(compared) == 1 else ""
    is_shown = not (
        waiting or list_unmeasured(recommendation) or list_possible_gains(recommendation)
    )
    if is_shown and recommendation.standings.keys() - comparisons.faulty.keys():
        return f"Every variant is shown not to be better{question} by more than 1 %."
    subject = "In what is judged so far, no variant" if waiting else "No variant"
    return f"{subject} is estimated to be better{question} by more than 1 %.{open_designs}"


def _list_disqualified(recommendation: Recommendation) -> list[str]:
    """Return a sentence for each variant that looks better and is not to be used all the same."""
    sentences = []
    for name, standing in recommendation.standings.items():
        if not any(a.promising or a.standing is Noninferiority.BETTER for a in standing.aims):
            continue
        if name in recommendation.comparisons.faulty:
            faults = describe_faults(recommendation.comparisons.faulty[name])
            sentences.append(f"{name} looks better, but {faults}.")
        elif reason := recommendation.excluded.get(name):
            is_shown = any(a.standing is Noninferiority.BETTER for a in standing.aims)
            verb = "is shown to be" if is_shown else "looks"
            sentences.append(f"{name} {verb} better, but {reason}.")
    return sentences


def _explain_failure(comparisons: Comparisons, baseline: str) -> str:
    words = [
        f"Trials of {baseline}, to which everything is relative, ended in a fault; Faults in the "
        "report has what the server said last."
    ]
    words += [
        f"{name} too: {describe_faults(k_of_n)}."
        for name, k_of_n in comparisons.faulty.items()
        if name != baseline
    ]
    return " ".join(words)
