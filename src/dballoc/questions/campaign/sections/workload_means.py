"""Every variant in one figure over many workloads, beside the post's, and the workloads that lie
far from the others, with what explains them: CPU and context switches by operation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dballoc.document.model import Column, Section, Table, tabulate
from dballoc.ground.numbers import NOTHING, count, listing
from dballoc.questions.campaign.figures.workload_means import (
    FENCE,
    WorkloadRatios,
    compute_workload_ratios,
)
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.ratios_as_text import format_change, format_ratio
from dballoc.questions.statistics.ratio_interval import Interval

_RULE = (
    f"Outlier: beyond Tukey's outer fences, more than {FENCE:g} times the range of the middle half "
    "of a variant's ratios of QPS away from that half, as logarithms."
)


@dataclass(frozen=True, kw_only=True)
class WorkloadMeans:
    """The ratios of a campaign's variants over its workloads, its baseline's against itself
    included, and those of the post that it repeats; ``post`` is empty without one. ``threads``:
    the level; ``clients``: it in words.
    """

    baseline: str
    threads: int
    clients: str
    measured: Mapping[str, WorkloadRatios]
    post: Mapping[str, WorkloadRatios]

    @property
    def variants(self) -> list[str]:
        """The variants that were measured, without the baseline."""
        return [name for name in self.measured if name != self.baseline]


def compute_means(campaign: Campaign, post: Mapping[str, WorkloadRatios]) -> WorkloadMeans:
    """Return the means of a campaign, beside those of the post that it repeats."""
    return WorkloadMeans(
        baseline=campaign.experiment.baseline,
        threads=max(campaign.experiment.threads),
        clients=campaign.describe_clients(max(campaign.experiment.threads)),
        measured=compute_workload_ratios(campaign),
        post=post,
    )


def describe_workload_means(means: WorkloadMeans) -> list[str]:
    """Return the line that a post closes with, what its interval means, and the outliers; nothing
    if nothing was measured.
    """
    if not means.variants:
        return []
    workloads = max(len(means.measured[name].qps) for name in means.variants)
    changes = [f"{name} {_describe_change(means, name)}" for name in means.variants]
    if means.baseline in means.measured:
        changes.append(f"{means.baseline} against itself {_describe_change(means, means.baseline)}")
    lines = [
        f"QPS over {count(workloads, 'workload')} with {means.clients}, mean of "
        f"the ratios to {means.baseline}: {'; '.join(changes)}.",
        _describe_interval(means),
        _describe_outliers(means.measured, means.variants, "Outliers"),
    ]
    if of_post := [name for name in means.variants if name in means.post]:
        lines.append(_describe_outliers(means.post, of_post, "Outliers in the post's figures"))
    return lines


def make_means_screen(means: WorkloadMeans | None) -> list[Section]:
    """Return what the terminal shows of the means, in one paragraph."""
    lines = describe_workload_means(means) if means else []
    return [Section(key="", title="", text=[" ".join(lines[:3])])] if lines else []


def _describe_change(means: WorkloadMeans, name: str) -> str:
    """Return ``+3.5 % [+1.1, +5.9] (the post: +3.4 %)``."""
    measured = means.measured[name]
    change = _format_percent(measured.mean.estimate, _choose_interval(means, name))
    post = means.post.get(name)
    if post is None:
        return change
    words = f"the post: {_format_percent(post.mean.estimate, None)}"
    if post.qps.keys() != measured.qps.keys():
        words += f", over its {count(len(post.qps), 'workload')}"
    return f"{change} ({words})"


def _choose_interval(means: WorkloadMeans, name: str) -> Interval | None:
    """Return the interval over blocks where anything was repeated, else that over workloads."""
    measured = means.measured[name]
    return measured.mean.interval if _is_repeated(means) else measured.over_workloads


def _is_repeated(means: WorkloadMeans) -> bool:
    return any(means.measured[name].mean.interval for name in means.variants)


def _describe_interval(means: WorkloadMeans) -> str:
    if _is_repeated(means):
        blocks = max(means.measured[name].mean.blocks for name in means.variants)
        return (
            f"The 95 % intervals are over {count(blocks, 'block')}: how far the means may differ "
            "if the same campaign runs again."
        )
    return (
        "The 95 % intervals are over workloads: how far these disagree. Nothing was measured "
        "twice, so how far the means may differ in another run is not known."
    )


def _describe_outliers(
    ratios: Mapping[str, WorkloadRatios], variants: list[str], title: str
) -> str:
    outliers = [
        f"{workload} with {name} ({format_ratio(ratios[name].qps[workload])})"
        for name in variants
        for workload in ratios[name].outliers
    ]
    return f"{title}: {listing(outliers) or 'none'}."


def _format_percent(estimate: float, interval: Interval | None) -> str:
    """Return ``+3.5 % [+1.1, +5.9]``."""
    change, _, ends = format_change(estimate, *(interval or (None, None))).partition(" ")
    return f"{change} %" + (f" {ends}" if ends else "")


def tabulate_workload_means(means: WorkloadMeans) -> list[Table]:
    """Return the means with both intervals, and the outliers; none if nothing was measured."""
    if not means.variants:
        return []
    return [_tabulate_means(means), *_tabulate_outliers(means)]


def _tabulate_means(means: WorkloadMeans) -> Table:
    post = [
        Column("the post", lambda name: _format_over_workloads(means.post.get(name))),
    ]
    columns = (
        Column(
            "variant",
            lambda name: f"{name} against itself" if name == means.baseline else name,
        ),
        Column("workloads", lambda name: str(len(means.measured[name].qps))),
        Column(
            "mean ratio, interval over blocks",
            lambda name: format_ratio(*means.measured[name].mean.figures),
        ),
        Column(
            "interval over workloads", lambda name: _format_over_workloads(means.measured[name])
        ),
        *(post if means.post else []),
    )
    names = [*means.variants, *(name for name in means.measured if name == means.baseline)]
    caption = (
        f"Plain means of QPS with the variant ÷ QPS with {means.baseline}, each workload once, at "
        f"{means.clients}, with 95 % intervals. Over blocks: how far the mean may "
        "differ if the same campaign runs again. Over workloads: how far the workloads disagree."
    )
    if means.baseline in means.measured:
        caption += (
            f" {means.baseline} against itself: its second run of a block ÷ its first, which is "
            "noise."
        )
    if means.post:
        caption += " The post: of its own ratios, with the interval over workloads."
    table = tabulate("QPS over all workloads", columns, names, caption=caption)
    return replace(table, faint={len(means.variants)})


def _format_over_workloads(ratios: WorkloadRatios | None) -> str:
    if ratios is None:
        return NOTHING
    return format_ratio(ratios.mean.estimate, *(ratios.over_workloads or (None, None)))


@dataclass(frozen=True, kw_only=True)
class _OutlierRow:
    workload: str
    variant: str
    measured: WorkloadRatios | None
    post: WorkloadRatios | None

    @property
    def whose(self) -> str:
        """Where it is an outlier."""
        places = {"here": self.measured, "the post": self.post}
        return listing([p for p, of in places.items() if of and self.workload in of.outliers])


def _select_ratio(source: str, measure: str) -> Callable[[_OutlierRow], float | None]:
    def select(row: _OutlierRow) -> float | None:
        ratios: WorkloadRatios | None = getattr(row, source)
        return getattr(ratios, measure).get(row.workload) if ratios else None

    return select


def _tabulate_outliers(means: WorkloadMeans) -> list[Table]:
    """Return each outlier with every variant's ratios in its workload: what sets the odd one apart
    is seen beside the others.
    """
    workloads = dict.fromkeys(
        workload
        for ratios in (means.measured, means.post)
        for name in means.variants
        if name in ratios
        for workload in ratios[name].outliers
    )
    if not workloads:
        return []
    rows = [
        _OutlierRow(
            workload=workload, variant=name,
            measured=means.measured[name], post=means.post.get(name),
        )
        for workload in workloads
        for name in means.variants
    ]  # fmt: skip
    sources = {"": "measured"} | ({"the post: ": "post"} if means.post else {})
    columns = [
        Column("workload"),
        Column("variant"),
        Column("outlier", "whose", words=True),
        *(
            Column(f"{whose}{heading}", _select_ratio(source, measure), format_ratio)
            for whose, source in sources.items()
            for heading, measure in (("QPS", "qps"), ("cpu/o", "cpu"), ("cs/o", "switches"))
        ),
    ]
    caption = (
        f"{_RULE} Ratios to {means.baseline}; cpu/o and cs/o are the server's CPU time and context "
        "switches by operation"
        + (", the post's those of its whole host by query." if means.post else ".")
    )
    return [tabulate("Outliers", columns, rows, caption=caption, heads=2)]
