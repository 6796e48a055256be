"""Which block is given to which host. Pure.

Blocks go out in the campaign's order, as many at once as there are hosts. A look judges the blocks
up to its number, whichever were finished first: one beyond the next look of its design is held
until that is judged. Hosts that share a kernel share its settings and its CPUs, so one of them runs
a block at a time.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dballoc.store.facts import Environment

Role = Literal["server", "client"]


@dataclass(frozen=True, kw_only=True)
class Host:
    """A host that may run blocks. ``name`` is unique; ``kernel``: the boot ID of its kernel;
    ``environment``: as the fact of that name; ``address``: by which other hosts reach it;
    ``roles``: whether it runs servers, clients, or either.
    """

    name: str
    kernel: str
    environment: Environment
    address: str = ""
    roles: frozenset[Role] = frozenset({"server"})


@dataclass(frozen=True)
class HostPair:
    """The hosts of a block. ``client``: None if the server's host is the client's too."""

    server: Host
    client: Host | None = None

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Both, or the only one."""
        return (self.server, self.client) if self.client else (self.server,)

    @property
    def shares_kernel(self) -> bool:
        """Whether server and client have the same kernel, and so the same CPUs."""
        return self.client is not None and self.client.kernel == self.server.kernel


@dataclass(kw_only=True)
class HostLoad:
    """What each host has had, by its name. ``blocks``: given to it; ``lost``: blocks, (design,
    number), that were lost on it; ``free_at``: when a kernel, by its ID, may run a block again,
    CLOCK_MONOTONIC; ``refused``: hosts that cannot run this campaign, and why.
    """

    blocks: dict[str, int] = field(default_factory=dict)
    lost: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    free_at: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def count_complete_prefix(complete: Collection[int]) -> int:
    """Return how many of the blocks 1, 2, 3, … are complete before the first that is not."""
    number = 0
    while number + 1 in complete:
        number += 1
    return number


def find_limit(complete_prefix: int, looks: Iterable[int], planned: int) -> int:
    """Return the last block that may enter the figures: the next look's, or the last planned."""
    return min((look for look in looks if complete_prefix < look <= planned), default=planned)


def choose_block(
    order: Iterable[tuple[str, int]],
    limits: Mapping[str, int],
    complete: Mapping[str, Collection[int]],
    running: Collection[tuple[str, int]],
) -> tuple[str, int] | None:
    """Return the next block to go out, (design, number); None if all that may are out. ``limits``:
    of the designs that are still open; ``complete``: the blocks that need no further attempt.
    """
    for design, number in order:
        if (
            number <= limits.get(design, 0)
            and number not in complete[design]
            and (design, number) not in running
        ):
            return design, number
    return None


def choose_hosts(
    hosts: Collection[Host],
    busy_kernels: Collection[str],
    load: HostLoad,
    block: tuple[str, int],
    now: float,
    *,
    apart: bool = False,
) -> HostPair | None:
    """Return the hosts for a block: those that are free, that did not lose this block before if
    there are such, and that have had the fewest blocks. None while none are free. ``apart``: the
    client has another host than the server, of another kernel if there is a free one.
    """
    free = sorted(
        (
            host
            for host in hosts
            if host.kernel not in busy_kernels
            and load.free_at.get(host.kernel, now) <= now
            and host.name not in load.refused
        ),
        key=lambda host: (
            block in load.lost.get(host.name, ()),
            load.blocks.get(host.name, 0),
            host.name,
        ),
    )
    for server in (host for host in free if "server" in host.roles):
        if not apart:
            return HostPair(server)
        clients = [h for h in free if "client" in h.roles and h.name != server.name]
        if clients:
            # The order of the rest stays: this sort is stable. A host that may run servers too is
            # taken last.
            clients.sort(key=lambda host: (host.kernel == server.kernel, "server" in host.roles))
            return HostPair(server, clients[0])
    return None


def count_pairs(hosts: Iterable[Host], apart: bool) -> int:
    """Return how many blocks these hosts can run at once, at most: one for each kernel, or for each
    two.
    """
    kernels: dict[str, set[Role]] = {}
    for host in hosts:
        kernels.setdefault(host.kernel, set()).update(host.roles)
    servers = sum("server" in roles for roles in kernels.values())
    if not apart:
        return max(1, servers)
    clients = sum("client" in roles for roles in kernels.values())
    return max(1, min(servers, clients, len(kernels) // 2))
