"""A campaign whose clients are on hosts of their own: what it cannot be of, and what each of the
two hosts of a block is told. Pure.
"""

from collections.abc import Sequence
from dataclasses import replace

from dballoc.campaign.elsewhere.block_request import BlockRequest
from dballoc.campaign.elsewhere.client.load_messages import ClientRequest, HostRequest
from dballoc.campaign.elsewhere.client.remote_load import ClientPlace
from dballoc.campaign.elsewhere.place_blocks import Host, HostPair
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.experiment.designs import Design
from dballoc.ground.errors import UsageError

_REMEDY = "or run without nodes that have the resource dballoc_client"


def has_client_hosts(hosts: Sequence[Host]) -> bool:
    """Whether any host is for clients."""
    return any("client" in host.roles for host in hosts)


def describe_lack(hosts: Sequence[Host]) -> str | None:
    """Return why no block can have a server host and a client host of its own among these; None if
    one can.
    """
    servers = {host.name for host in hosts if "server" in host.roles}
    clients = {host.name for host in hosts if "client" in host.roles}
    if any(client != server for server in servers for client in clients):
        return None
    if not hosts:
        return "none answers"
    names = ", ".join(sorted(servers | clients))
    lacking = "another client host" if servers else "a server host"
    return f"a block needs two hosts, and beside {names} there is not {lacking}"


def fit_setting(setting: PreparedCampaign) -> PreparedCampaign:
    """Return the setting for clients on hosts of their own: solo alone. Raises UsageError if the
    experiment asks for what can only be loaded from the server's host.
    """
    experiment = setting.experiment
    why = "servers at once would share one client host and its network"
    if experiment.design is not None and experiment.designs != (Design.SOLO,):
        raise UsageError(
            f"--ray: no duets and turns with clients on another host: {why}; use --design solo, "
            f"{_REMEDY}"
        )
    if experiment.profile:
        raise UsageError(f"--ray: no profile with clients on another host; leave it out, {_REMEDY}")
    for name in experiment.loads:
        work = setting.sysbench.workload(name)
        if work.driver != "sysbench" or work.replica or work.program or work.backup:
            raise UsageError(
                f"--ray: workload {name!r} cannot come from another host, as it runs more than "
                f"sysbench; leave it out, {_REMEDY}"
            )
    if setting.duet is None and setting.turns is None:
        return setting
    apart = f"clients are on another host, and {why}"
    return replace(
        setting,
        duet=None,
        no_duet=apart if setting.duet else setting.no_duet,
        turns=None,
        no_turns=apart if setting.turns else setting.no_turns,
    )


def make_client_place(pair: HostPair) -> ClientPlace | None:
    """Return what the server's host is told of its client host; None without one."""
    if pair.client is None:
        return None
    return ClientPlace(
        host=pair.client.name,
        address=pair.client.address,
        listen=pair.server.address,
        shares_kernel=pair.shares_kernel,
    )


def make_client_request(request: BlockRequest, pair: HostPair) -> ClientRequest:
    """Return what a client host is asked, for a block that is asked of its server's host."""
    return ClientRequest(
        **request.model_dump(include=set(HostRequest.model_fields)),
        server=pair.server.address,
        shares_kernel=pair.shares_kernel,
    )


def describe_pairs(hosts: Sequence[Host]) -> str | None:
    """Return what a user should know of client hosts that share a kernel with server hosts; None if
    none does.
    """
    servers = {host.kernel for host in hosts if "server" in host.roles}
    clients = {host.kernel for host in hosts if "client" in host.roles}
    if not clients or clients - servers:
        return None
    return (
        "every client host shares its kernel with a server host: they have the same CPUs, and are "
        "one owner of their settings, so this measures no better than one host"
    )
