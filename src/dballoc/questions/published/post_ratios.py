"""A post's ratios of many workloads, as those of a campaign: the mean over them that its author
gives in a headline, and what he explains outliers by.
"""

import statistics
from collections.abc import Iterable, Mapping

from dballoc import catalogue
from dballoc.experiment.designs import Design
from dballoc.questions.campaign.figures.workload_means import WorkloadRatios
from dballoc.questions.campaign.sections.workload_groups import has_many_workloads
from dballoc.questions.campaign.sections.workload_means import WorkloadMeans, compute_means
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.published import post_figures
from dballoc.questions.published.post_figures import Published, PublishedFigure
from dballoc.questions.statistics.ratio_interval import DESCRIPTIVE_CONFIDENCE, Ratio


def compute_means_beside_post(
    campaign: Campaign, published: Published | None
) -> WorkloadMeans | None:
    """Return the means over the workloads of the solo design, beside those of ``published``, else
    of the post that the experiment repeats. None for a campaign without many workloads.
    """
    experiment, posts = campaign.experiment, catalogue.published()
    if Design.SOLO not in campaign.facts.designs or not has_many_workloads(campaign):
        return None
    name = experiment.published
    if published is None and name in posts:
        published = post_figures.parse_published(name, *posts[name])
    post = compute_post_ratios(published, experiment.baseline) if published else {}
    return compute_means(campaign, post)


def compute_post_ratios(published: Published, baseline: str) -> dict[str, WorkloadRatios]:
    """Return the ratios of each of our variants that the post has a figure of, from its table of
    QPS by workload; none for a post without such a table, or with one of another baseline.
    """
    tables = (t for t in published.tables if t.ratios and t.baseline == baseline)
    table = next((t for t in tables if t.cells[0].measure == "qps"), None)
    if table is None:
        return {}
    cells = [c for t in published.tables for c in t.cells]
    qps = _collect_by_variant(c for c in table.cells if c.threads is None)
    cpu, switches = (
        _collect_by_variant(c for c in cells if c.measure == measure)
        for measure in ("host_cpu_per_query", "context_switches_per_query")
    )
    return {
        variant: WorkloadRatios(
            qps=ratios,
            mean=Ratio(
                estimate=statistics.fmean(ratios.values()),
                blocks=1,
                confidence=DESCRIPTIVE_CONFIDENCE,
            ),
            cpu=_divide(cpu.get(variant, {}), cpu.get(baseline, {})),
            switches=_divide(switches.get(variant, {}), switches.get(baseline, {})),
        )
        for variant, ratios in qps.items()
    }


def _collect_by_variant(cells: Iterable[PublishedFigure]) -> dict[str, dict[str, float]]:
    """Return figures by variant and workload."""
    figures: dict[str, dict[str, float]] = {}
    for cell in cells:
        if cell.variant is not None and cell.workload is not None:
            figures.setdefault(cell.variant, {})[cell.workload] = cell.value
    return figures


def _divide(figures: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    return {w: figures[w] / base[w] for w in figures.keys() & base.keys() if base[w] > 0}
