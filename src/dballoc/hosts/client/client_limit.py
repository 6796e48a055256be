"""Whether a load measured the server, or the client host and its network. Pure."""

from dballoc.hosts.client.load_messages import ClientFigures

# Shares from which something is the limit: of the CPU time that the client could have used; of all
# CPU time of its host; of the link's speed in one direction.
CLIENT_CPU = 0.85
HOST_CPU = 0.95
LINK = 0.90


def find_client_limit(
    figures: ClientFigures, threads: int, shares_kernel: bool, server_link: int | None
) -> str | None:
    """Return in words why a load's figures are the client's; None if they are the server's.
    ``threads``: of the client, none of which can use more than one CPU; ``shares_kernel``: server
    and client have the same CPUs, whose use tells nothing then; ``server_link``: speed of the
    server's interface, bits a second, None if it is not known.
    """
    if not figures.seconds:
        return None
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
    speeds = [link for link in (figures.link, server_link) if link]
    if speeds:
        bits = 8 * max(figures.received, figures.sent) / figures.seconds
        if bits >= LINK * min(speeds):
            return (
                f"the network is the limit: {bits / 1e6:,.0f} Mbit/s over a link of "
                f"{min(speeds) / 1e6:,.0f}; take a faster one, or a workload with less data"
            )
    return None
