"""``bench --ray``: join a Ray cluster for a campaign."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dballoc.cli.extras import require_extra
from dballoc.cli.shared.safe_output import say
from dballoc.ground.errors import UsageError
from dballoc.store.open_database import FILE
from dballoc.store.results import Results

if TYPE_CHECKING:
    from dballoc.campaign.elsewhere.place_blocks import Host
    from dballoc.campaign.preparation.prepare import PreparedCampaign
    from dballoc.campaign.run_blocks import CampaignKind


def check_flags(extend: Any) -> None:
    """Raise UsageError for flags that exclude --ray, or if Ray is not installed."""
    if extend is not None:
        raise UsageError(
            "--extend: not with --ray; run the experiment with more blocks in a new --out"
        )
    require_extra("hosts", "bench --ray")


@contextlib.contextmanager
def join_cluster(
    address: str, setting: "PreparedCampaign", directory: Path
) -> Iterator[tuple["CampaignKind", "PreparedCampaign"]]:
    """Join the cluster, and leave it; yields the kind of campaign whose blocks run there, and the
    setting as it can run there. ``directory``: the results directory, where there may be a campaign
    that is resumed, whose clients stay where they are. Raises UsageError if the cluster cannot be
    joined, or not run the experiment.
    """
    # Ray takes a second to import, and is not there without the extra.
    from dballoc.campaign.elsewhere import ray_executor
    from dballoc.campaign.elsewhere.client import pair_hosts
    from dballoc.campaign.elsewhere.driver import run_on_hosts

    run_on_hosts.refuse_unsuitable(setting.experiment)
    with ray_executor.connect(address, say) as executor:
        apart = find_clients_apart(directory)
        if apart is None:
            hosts = executor.list_hosts()
            apart = pair_hosts.has_client_hosts(hosts)
            check_client_hosts(address, hosts, executor.list_unusable("client"))
        fitting = pair_hosts.fit_setting(setting) if apart else setting
        yield run_on_hosts.make_kind(executor, apart=apart), fitting


def check_client_hosts(address: str, hosts: "Sequence[Host]", unusable: Sequence[str]) -> None:
    """Raise UsageError if a campaign that begins would not have its clients where they are meant to
    be: there are hosts for them that cannot be used, or no host is left for its servers.
    ``unusable``: sentences on nodes for clients.
    """
    from dballoc.campaign.elsewhere.client import pair_hosts

    if not pair_hosts.has_client_hosts(hosts):
        if unusable:
            raise UsageError(
                f"--ray {address}: no client host can be used ({'; '.join(unusable)}), and without "
                "one servers and clients would share hosts; mend it, or start Ray there without "
                "the resource dballoc_client"
            )
    elif lack := pair_hosts.describe_lack(hosts):
        raise UsageError(
            f"--ray {address}: {lack}; start Ray on one more, or without the resource "
            "dballoc_client, so that clients run on their servers' hosts"
        )


def find_clients_apart(directory: Path) -> bool | None:
    """Whether the clients of a campaign are on hosts of their own; None without a campaign."""
    if not (directory / FILE).exists():
        return None
    results = Results.open(directory, read_only=True)
    try:
        return results.facts().clients == "apart"
    finally:
        results.close()
