"""The seam between a trial and a client on a host of its own
(:mod:`dballoc.campaign.elsewhere.client`).
"""

from pathlib import Path
from typing import Protocol

from dballoc.experiment.trial_steps import Step
from dballoc.load.client import RunningClient
from dballoc.servers.private.admin_connection import Admin
from dballoc.servers.private.command_line import Address
from dballoc.store.rows import ClientStepRow


class DistantClient(RunningClient, Protocol):
    """A client on another host. A level that was limited by that host or the network has no result:
    ClientFailed names the limit.
    """

    def make_row(self) -> ClientStepRow | None:
        """Return the row of table ``client_step``, without its trial, once the client has ended;
        None if it could not begin.
        """


class ClientHost(Protocol):
    """The client host of a block."""

    @property
    def listen(self) -> str:
        """The address of this host on which the block's servers listen."""

    def open_account(self, admin: Admin, database: str) -> None:
        """Make the account with which the load comes from there. Raises pymysql.Error as it
        comes.
        """

    def start_client(self, step: Step, engine: str, address: Address, raw: Path) -> DistantClient:
        """Start the load of a step on the server at an address; raw files go to ``raw``."""
