"""Several hosts' campaigns without the names of hosts and users, and without paths. Pure."""

from dataclasses import replace
from pathlib import Path

from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.report.wording.redact import find_private_names, name_hosts, redact_campaign


def redact_pool(pool: HostPool) -> HostPool:
    """Return the pool with its hosts numbered in their order; of a path the last part stays."""
    directories = [directory for host in pool.hosts for directory in host.directories]
    redaction = find_private_names(
        [campaign for host in pool.hosts for campaign in host.campaigns],
        [str(directory.parent) for directory in directories if directory.parent != Path()],
    )
    words = dict(zip((h.name for h in pool.hosts), name_hosts(len(pool.hosts)), strict=True))
    return replace(
        pool,
        hosts=tuple(
            replace(
                host,
                name=words[host.name],
                kind=redaction.redact_text(host.kind),
                directories=tuple(Path(directory.name) for directory in host.directories),
                campaigns=tuple(map(redact_campaign, host.campaigns)),
            )
            for host in pool.hosts
        ),
        left_out=tuple(map(redaction.redact_text, pool.left_out)),
        differences=tuple(
            (fact, {words[name]: redaction.redact_text(text) for name, text in values.items()})
            for fact, values in pool.differences
        ),
    )
