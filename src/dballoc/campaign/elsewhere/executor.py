"""The seam between the campaign and the engine that reaches the hosts: Ray, or a simulation."""

from dataclasses import dataclass
from typing import Protocol

from dballoc.campaign.elsewhere.block_request import BlockRequest
from dballoc.campaign.elsewhere.client.load_messages import ClientRequest
from dballoc.campaign.elsewhere.place_blocks import Host


@dataclass(frozen=True, kw_only=True)
class HostLine:
    """A line that a host answered (:mod:`dballoc.campaign.elsewhere.block_messages`)."""

    host: str
    line: bytes


@dataclass(frozen=True, kw_only=True)
class HostLost:
    """A host is out of reach, or its block's process is gone. ``is_alive``: whether the host itself
    still answers.
    """

    host: str
    reason: str
    is_alive: bool


Event = HostLine | HostLost


class Executor(Protocol):
    """Starts blocks on hosts and hears of them. At most one process of a block a host."""

    def list_hosts(self) -> list[Host]:
        """Return the hosts that can be reached now."""

    def start_block(self, host: Host, request: BlockRequest) -> None:
        """Give a block to a host."""

    def start_client(self, host: Host, request: ClientRequest) -> None:
        """Have a host run the loads of a block."""

    def hand_line(self, host: str, line: bytes) -> None:
        """Hand a line to what was started on a host."""

    def poll(self, seconds: float) -> list[Event]:
        """Return what has come, waiting up to so many seconds for the first of it. What is under
        way gets its lease renewed.
        """

    def end_block(self, host: str) -> None:
        """Let go of a host's block, whether it has ended or not: it ends what it had started."""

    def close(self) -> None:
        """Let go of all blocks."""
