"""Whether a load measured the server, or the client host and its network. Pure."""

from dballoc.hosts.client.load_messages import ClientFigures

# Shares from which something is the limit: of the CPU time that the client could have used; of all
# CPU time of its host; of the periods of its CPU quota in which that was used up; of the link's
# speed in one direction.
CLIENT_CPU = 0.85
HOST_CPU = 0.95
THROTTLED = 0.05
LINK = 0.90


def find_client_limit(
    figures: ClientFigures, threads: int, shares_kernel: bool, link: int | None
) -> str | None:
    """Return in words why a load's figures are the client's; None if they are the server's.
    ``threads``: of the client, none of which can use more than one CPU; ``shares_kernel``: server
    and client have the same CPUs, whose use tells nothing then; ``link``: speed of the slower of
    both hosts' interfaces, bits a second, None if it is not known.
    """
    if not figures.seconds:
        return None
    if figures.throttled >= THROTTLED:
        return (
            f"the client is the limit: its CPU quota stopped it in {figures.throttled:.0%} of the "
            "quota's periods; raise that quota or remove it (a pod's CPU limit, docker --cpus, "
            "systemd's CPUQuota)"
        )
    usable = min(threads, figures.cpus)
    own_share = figures.cpu / (figures.seconds * usable)
    if own_share >= CLIENT_CPU:
        return (
            f"the client is the limit: it used {own_share:.0%} of the {usable} CPUs that it could "
            "use; take a client host with more or faster CPUs"
            + (", or more clients" if threads < figures.cpus else "")
        )
    if not shares_kernel and figures.busy >= HOST_CPU:
        return (
            f"the client host is the limit: its CPUs were {figures.busy:.0%} busy; take one with "
            "more CPUs that runs nothing else"
        )
    bits = 8 * max(figures.received, figures.sent) / figures.seconds
    if link and bits >= LINK * link:
        return (
            f"the network is the limit: {bits / 1e6:,.0f} Mbit/s over a link of "
            f"{link / 1e6:,.0f}; take a faster one, or a workload with less data"
        )
    return None
