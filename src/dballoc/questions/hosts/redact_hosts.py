"""Several hosts' campaigns without the names of hosts, users and directories, and without paths.
Pure.
"""

from dataclasses import replace
from pathlib import Path

from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.hosts.host_pool import HostPool, HostResults, PooledHost
from dballoc.questions.redact import find_private_names, redact_campaign


def redact_pool(pool: HostPool) -> HostPool:
    """Return the pool with its hosts and directories numbered: a directory mostly has its host's
    name.
    """
    directories = dict.fromkeys(directory for host in pool.hosts for directory in host.directories)
    labels = {directory: Path(f"DIR {n}") for n, directory in enumerate(directories, 1)}
    redaction = find_private_names(
        _list_campaigns(pool),
        [str(directory.parent) for directory in directories if directory.parent != Path()],
    )
    redact = redaction.redact_text
    # A host without a recorded name goes by its directory.
    names = {
        host.name: redact(host.name)
        if host.campaigns[0].environment.host
        else str(labels[host.directories[0]])
        for host in pool.hosts
    }

    def redact_results(results: HostResults) -> HostResults:
        return HostResults(
            directory=labels[results.directory],
            campaign=redact_campaign(_drop_host_tables(results.campaign), redaction),
            obstacles={
                metric: tuple(map(redact, reasons)) for metric, reasons in results.obstacles.items()
            },
        )

    return replace(
        pool,
        hosts=tuple(
            PooledHost(
                name=names[host.name],
                kind=redact(host.kind),
                results=tuple(map(redact_results, host.results)),
            )
            for host in pool.hosts
        ),
        left_out=tuple(
            replace(x, directory=labels[x.directory], reason=redact(x.reason))
            for x in pool.left_out
        ),
        differences=tuple(
            (fact, {names[name]: redact(text) for name, text in values.items()})
            for fact, values in pool.differences
        ),
        alike=tuple(tuple(names[name] for name in group) for group in pool.alike),
    )


def _list_campaigns(pool: HostPool) -> list[Campaign]:
    """Return all campaigns; once a directory with the tables of hosts, which every part of one
    campaign has whole.
    """
    campaigns = []
    directories = set()
    for host in pool.hosts:
        for results in host.results:
            campaign, directory = results.campaign, results.directory
            campaigns.append(_drop_host_tables(campaign) if directory in directories else campaign)
            directories.add(directory)
    return campaigns


def _drop_host_tables(campaign: Campaign) -> Campaign:
    """Return the campaign without what tells the hosts apart, which pooling alone needs."""
    return replace(campaign, host=campaign.host.clear(), placement=campaign.placement.clear())
