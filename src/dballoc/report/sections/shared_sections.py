"""Sections, and parts of them, that reports of several kinds have."""

from collections.abc import Callable
from typing import Any

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.hosts.split_by_host import count_lost_hosts
from dballoc.analysis.tables.baseline_comparison import Comparisons
from dballoc.document.model import Listing, Section, Table
from dballoc.experiment import experiment_file
from dballoc.numbers import count
from dballoc.report.sections import method, tables
from dballoc.report.wording.answer import describe_faults


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
        text=[method.FLOOR],
        tables=[tables.tabulate_floor(comparisons)],
    )


def make_faults_section(campaign: Campaign, comparisons: Comparisons) -> Section:
    """Return the section on trials with a fault, and the ends of their logs."""
    trials = campaign.trials
    if trials.filter(outcome="fault").is_empty():
        none = f"None: {count(trials.height, 'trial')} ended as planned."
        return Section(key="faults", title="Faults", text=[none])
    lines = [f"{name}: {describe_faults(k_of_n)}." for name, k_of_n in comparisons.faulty.items()]
    if comparisons.faulty:
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
