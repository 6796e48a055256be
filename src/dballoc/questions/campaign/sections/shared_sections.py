"""Sections, and parts of them, that reports of several kinds have; and the method in a few
sentences, with the numbers of the campaign at hand.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dballoc.document.model import Listing, Section, Table
from dballoc.experiment import experiment_file
from dballoc.experiment.designs import Design
from dballoc.experiment.durations_and_sizes import format_duration
from dballoc.experiment.model import USUAL_DISCARD
from dballoc.ground.numbers import count, listing, percent
from dballoc.questions.campaign.answer.compose_answer import describe_bounds, describe_levels
from dballoc.questions.campaign.figures.level_curves import COLLAPSE_SHARE
from dballoc.questions.campaign.sections import tables
from dballoc.questions.campaign.sections.counters import describe_counters
from dballoc.questions.compare.answer_words import describe_faults
from dballoc.questions.compare.baseline_comparison import Comparisons, count_faults
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.procedure import (
    CPU,
    END_SHARE,
    ERROR,
    MARGIN,
    MEMORY,
    THROUGHPUT,
    ErrorShare,
    Procedure,
)
from dballoc.questions.compare.split_by_host import count_lost_hosts
from dballoc.questions.statistics.detectable_difference import POWER
from dballoc.questions.statistics.ratio_interval import (
    DESCRIPTIVE_CONFIDENCE,
    GUARD,
    count_common_freedom,
)

FLOOR = (
    "The baseline runs twice in every block. How its second run differs from its first is noise "
    "and drift alone: a difference between variants that is no larger than this means nothing."
)
CLIENTS_APART = (
    "Each server had a host to itself; its clients ran on another one. So no client took CPU from "
    "a server, and throughput and response times include the network between the two hosts."
)
OWN_CPU = (
    "The CPU time that all of dballoc's own processes used while the load ran: of all CPUs of the "
    "machine, of one CPU, and of one CPU by client. Each client has a thread of the server, which "
    "is busy unless it waits. The clients themselves are not in it."
)


def describe_method(campaign: Campaign, procedures: dict[str, Procedure], rule: str) -> list[str]:
    """Return the paragraphs on the method. ``rule``: of the recommendation, in one sentence."""
    designs = [
        _DESIGNS[Design(design)](campaign, procedure) for design, procedure in procedures.items()
    ]
    clients = "" if campaign.has_clients_apart else ", the clients included"
    return [
        *designs,
        *([CLIENTS_APART] if campaign.has_clients_apart else []),
        _describe_error(procedures),
        "Verdicts: higher or lower, if the interval excludes 1; equivalent within "
        f"±{percent(MARGIN, 0)}, if it lies within; else no difference shown, with the smallest "
        f"difference that as many blocks would show in {percent(POWER, 0)} of campaigns. Undecided "
        "is a valid ending.",
        f"Recommendation: {rule}. A variant with faults, or whose throughput collapses where the "
        "baseline's does not, is never recommended; one with faults gets no verdict.",
        f"A collapse is a level whose throughput is below {percent(COLLAPSE_SHARE, 0)} of the "
        "best at a "
        "lower level.",
        "CPU, context switches and memory are the server's own, unless they are called the host's: "
        f"those are of everything that ran on it{clients}. "
        "The server's context switches are voluntary and involuntary ones of all its threads. Peak "
        "RSS is the kernel's high-water mark, reset before each step: the highest of one start, "
        "after the seconds of load that its steps have. It does not say what a server grows to in "
        "hours.",
        *describe_counters(campaign),
        "A trial counts only if the server is proved to use the allocator asked for: by the "
        "loader's bindings, by the running server's memory maps, and by the allocator's own report "
        "where it gives one.",
    ]


_JUDGED = {
    MEMORY: "peak RSS",
    CPU: "server CPU per transaction in the duet",
    THROUGHPUT: "throughput at the highest level",
}


def _describe_error(procedures: dict[str, Procedure]) -> str:
    """Say what is judged, at which looks and levels, so that all of it errs in 5 % at most."""
    shares = next(iter(procedures.values())).shares
    errors = [
        f"{_JUDGED[measure]} {percent(shares[measure].error, 1)} over "
        f"{count(shares[measure].comparisons, 'comparison')}"
        for measure in _JUDGED
        if measure in shares
    ]
    return (
        f"Two questions share the error of {percent(ERROR, 0)}, half each, memory and speed: "
        f"{listing(errors)}. {_describe_spending(procedures)} {describe_bounds(procedures)} To use "
        "a variant takes all its parts at once, so only the variants and the looks share that "
        "error. "
        f"{_describe_moderation(shares)}Everything else, idle RSS included, is descriptive, with "
        f"plain {percent(DESCRIPTIVE_CONFIDENCE, 0)} intervals."
    )


def _describe_spending(procedures: Mapping[str, Procedure]) -> str:
    """Say at which looks each share of the error is spent, and the levels that follow."""
    levels = {d: f"the intervals here are at {describe_levels(procedures, d)}" for d in procedures}
    if any(p.judged_once for p in procedures.values()):
        ends = [
            f"{design} blocks after {min(p.spending)}"
            f"{', where the budget ended' if p.budget_looks else ''}; {levels[design]}"
            for design, p in procedures.items()
        ]
        return (
            "The campaign was measured only: it is judged once, at its end, and spends "
            f"{percent(END_SHARE, 0)} of each share there: {'; '.join(ends)}. It is never extended."
        )
    looks = [
        f"{design} blocks are judged after {listing([str(look) for look in p.looks])}"
        f"{_describe_budget_looks(p)} and, if the campaign is extended, after "
        f"{listing([str(look) for look in p.extensions])}; {levels[design]}"
        for design, p in procedures.items()
    ]
    return (
        "Each share is spent over looks that were declared before the first block, "
        f"{percent(END_SHARE, 0)} of it by the planned end, the rest by extensions: "
        f"{'; '.join(looks)}. Between two looks, the intervals and verdicts of the last one stand."
    )


def _describe_moderation(shares: Mapping[str, ErrorShare]) -> str:
    """Return which measures' variances borrow; those that may err little have their own alone."""
    # Two variances at least are there: a comparison's and the A/A pair's.
    borrowing = [
        _JUDGED[measure]
        for measure in _JUDGED
        if measure in shares and count_common_freedom(2, shares[measure].of_each)
    ]
    if any(count_common_freedom(2, share.of_bound) for share in shares.values()):
        borrowing.append("all bounds")
    if not borrowing:
        return ""
    return (
        f"Variances of {listing(borrowing)} are moderated: each comparison borrows from the mean "
        f"of all in its metric, unless it is more than {GUARD:g} times that of the others. "
    )


def _describe_budget_looks(procedure: Procedure) -> str:
    """Return ``, after 5, where the budget ended``; empty where it did not."""
    if not procedure.budget_looks:
        return ""
    return (
        f", after {listing([str(look) for look in procedure.budget_looks])}, where the budget ended"
    )


# By levels and, of several workloads, sequence.
_STARTS = {
    ("rising", None): "one server start runs all levels, rising",
    ("fresh", None): "every level has a fresh server start",
    (
        "rising",
        "cycle",
    ): "one server start runs all workloads, one after the other, each at all levels, rising",
    (
        "fresh",
        "cycle",
    ): "every level has a fresh server start, which runs all workloads, one after the other",
    ("rising", "fresh"): "every workload has a fresh server start, which runs all levels, rising",
    ("fresh", "fresh"): "every workload at every level has a fresh server start",
}


def _name_baselines(campaign: Campaign) -> str:
    names = [part.baseline for part in campaign.experiment.split_by_cpus()]
    if len(names) == 1:
        return f"the baseline, {names[0]},"
    return f"the baseline of each number of CPUs ({listing(names)})"


def _describe_solo(campaign: Campaign, procedure: Procedure) -> str:
    e = campaign.experiment
    starts = _STARTS[e.levels, e.sequence if len(e.workloads) > 1 else None]
    settling = f"settling {format_duration(e.time.settle)}, " if e.settles else ""
    return (
        f"Solo design, {count(procedure.looks[-1], 'block')} planned. One server at a time has the "
        f"machine. A block runs every variant once and {_name_baselines(campaign)} twice (A1 and "
        f"A2), in an order drawn anew for each block from seed {e.seed}, so that drift hits all "
        f"alike. Every trial is a new server on the same data, on a fresh copy wherever anything "
        f"may have written; {starts}. Steps: warm-up "
        f"{format_duration(e.time.warmup)}, {settling}level {format_duration(e.time.level)}, idle "
        f"{format_duration(e.time.idle)}. Estimate: per block d = ln(variant) − mean ln(A1, A2); "
        "the ratio is exp(mean d), its interval Student's t on the d of the blocks. Seconds, "
        "levels and steps inside a start are not replicates."
    )


_ESTIMATES = {
    "middle": "A block's d: the interquartile mean of ln(variant ÷ baseline) over all neighbouring "
    "slices, which cancels the difference of the halves, whatever hits both servers at once, and "
    "what hits one half for a while.",
    "undisturbed": "A block's d: on each half, the variant's cheapest fifth of all quarter-seconds "
    "less the baseline's on the same half, as logarithms; then the mean of both halves. Neighbours "
    "that slow a CPU down can only add to a cost.",
    "paired": "A block's d: the mean of ln(variant ÷ baseline) over pairs of swapped slices, which "
    "cancels the difference of the halves and whatever hits both servers at once.",
}


def _describe_duet(campaign: Campaign, procedure: Procedure) -> str:
    e = campaign.experiment
    return (
        f"Duet design, {count(procedure.looks[-1], 'block')} planned. A block starts every variant "
        "once, and the baseline once more, each beside a baseline of the same age. Both servers "
        "start and are warmed up with all CPUs; then each has one half of them, with its own "
        "client, and both are loaded at the same time. After every slice the halves are swapped; "
        f"the first {format_duration(_find_discard(campaign))} of a slice do not count. "
        f"{_ESTIMATES[e.duet.estimate]} The ratio is exp(mean d), its interval Student's t on the "
        "d of the blocks. Contention at full width, response time and memory come from solo blocks."
    )


def _find_discard(campaign: Campaign) -> float:
    """Return the seconds at the start of a slice that did not count."""
    plan = campaign.facts.duet.plan
    if plan:
        return plan.discard
    discard = campaign.experiment.duet.discard
    return USUAL_DISCARD if discard is None else discard


def _describe_turns(campaign: Campaign, procedure: Procedure) -> str:
    e, facts = campaign.experiment, campaign.facts.turns
    alive = (
        "each variant's server and a baseline's are alive at once, and the baseline's with another "
        "of its own"
        if facts.in_pairs
        else "the servers of all variants are alive at once, and a second one of the baseline"
    )
    if len(e.split_by_cpus()) > 1:
        alive += ", for each number of CPUs by itself"
    return (
        f"Turns, {count(procedure.looks[-1], 'block')} planned. In a block {alive}, each on data "
        f"of its own, with {count(max(e.threads), 'client')}. One server at a time has the whole "
        f"machine, for {format_duration(facts.seconds)}; the others and their clients are stopped "
        "(SIGSTOP). In every round each server has a turn, in an order drawn anew. A round with a "
        "turn that ended late, after half as long again, counts for nobody. Transactions are "
        "counted as they end, by the clients. Estimate: per block d = ln(variant's transactions "
        "per second of its turns) − mean of the baseline's; the ratio is exp(mean d), its interval "
        "Student's t on the d of the blocks."
    )


_DESIGNS = {
    Design.SOLO: _describe_solo,
    Design.DUET: _describe_duet,
    Design.TURNS: _describe_turns,
}


def list_servers(campaign: Campaign) -> str:
    """Return the servers and engines that ran: ``MariaDB 10.11 InnoDB, MySQL 8.0 InnoDB``."""
    servers = campaign.variant.select("server", "engine").unique(maintain_order=True)
    return ", ".join(f"{server} {engine}" for server, engine in servers.iter_rows())


def list_logs(campaign: Campaign, title: Callable[[dict[str, Any]], str]) -> list[Listing]:
    """Return the end of the log of each trial with a fault. ``title``: of a row of trials."""
    return [
        Listing(title(row), row["log_tail"])
        for row in campaign.trials.filter(outcome="fault").iter_rows(named=True)
        if row["log_tail"]
    ]


def make_floor_section(comparisons: Comparisons) -> Section:
    """Return the section on the baseline against itself."""
    return Section(
        key="floor",
        title="The A/A floor",
        text=[FLOOR],
        tables=[tables.tabulate_floor(comparisons)],
    )


def make_faults_section(campaign: Campaign) -> Section:
    """Return the section on trials with a fault, and the ends of their logs."""
    trials = campaign.trials
    if trials.filter(outcome="fault").is_empty():
        none = f"None: {count(trials.height, 'trial')} ended as planned."
        return Section(key="faults", title="Faults", text=[none])
    faulty = count_faults(campaign)
    lines = [f"{name}: {describe_faults(k_of_n)}." for name, k_of_n in faulty.items()]
    if faulty:
        lines.append(
            "A variant with faults gets no verdict: the trials that survived say nothing about "
            "those that did not."
        )
    if count_lost_hosts(campaign):
        lines.append(
            "A lost host takes no variant's verdict: its block was drawn again, and nothing of the "
            "lost attempt is in the figures."
        )
    return Section(
        key="faults",
        title="Faults",
        text=lines,
        tables=[tables.tabulate_faults(campaign), tables.tabulate_every_fault(campaign)],
        listings=list_logs(
            campaign,
            lambda r: (
                f"Log of {tables.name_trial(r)}, {tables.name_variant_of_trial(r)}: {r['fault']}"
            ),
        ),
    )


def make_environment_section(
    campaign: Campaign, *shown: Table, title: str = "Environment"
) -> Section:
    """Return the section on the machine, its tools and the experiment. ``shown``: its tables."""
    experiment = experiment_file.format_experiment(campaign.experiment)
    return Section(
        key="environment",
        title=title,
        tables=list(shown),
        listings=[Listing("Experiment file", experiment)],
    )
