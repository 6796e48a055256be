"""Several hosts' campaigns without the names of hosts and users, and without paths. Pure."""

from dataclasses import replace
from pathlib import Path

from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.report.wording.redact import find_private_names, redact_campaign


def redact_pool(pool: HostPool) -> HostPool:
    """Return the pool with its hosts numbered; of a path the last part stays."""
    directories = [directory for host in pool.hosts for directory in host.directories]
    redaction = find_private_names(
        [campaign for host in pool.hosts for campaign in host.campaigns],
        [str(directory.parent) for directory in directories if directory.parent != Path()],
    )
    redact = redaction.redact_text
    return replace(
        pool,
        hosts=tuple(
            replace(
                host,
                name=redact(host.name),
                kind=redact(host.kind),
                directories=tuple(Path(directory.name) for directory in host.directories),
                campaigns=tuple(redact_campaign(c, redaction) for c in host.campaigns),
            )
            for host in pool.hosts
        ),
        left_out=tuple(map(redact, pool.left_out)),
        differences=tuple(
            (fact, {redact(name): redact(text) for name, text in values.items()})
            for fact, values in pool.differences
        ),
    )
