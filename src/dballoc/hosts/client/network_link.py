"""The interface by which a host reaches another, or has an address: its speed and its bytes."""

import socket
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class LinkBytes:
    """Bytes over an interface since it came up."""

    received: int
    sent: int


def find_source_address(address: str) -> str:
    """Return the own address from which another one is reached. OSError without a route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # sends nothing
        return str(probe.getsockname()[0])


def find_interface(own_address: str) -> str | None:
    """Return the interface that has an address of this host; None if none has."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address.partition("%")[0] == own_address for each in addresses):
            return name
    return None


def read_speed(interface: str | None) -> int | None:
    """Return an interface's speed, bits a second; None if the system does not tell, as in many
    clouds, or for the loopback.
    """
    status = psutil.net_if_stats().get(interface or "")
    return status.speed * 10**6 if status and status.speed > 0 else None


def read_bytes(interface: str | None) -> LinkBytes:
    """Return the bytes over an interface since it came up; none of an unknown one."""
    counters = psutil.net_io_counters(pernic=True).get(interface or "")
    return LinkBytes(counters.bytes_recv, counters.bytes_sent) if counters else LinkBytes(0, 0)
