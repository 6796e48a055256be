"""The interface by which a host reaches another, or has an address: its speed and its bytes."""

import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

INTERFACES = Path("/sys/class/net")


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


def read_speed(interface: str | None, interfaces: Path = INTERFACES) -> int | None:
    """Return an interface's speed, bits a second; None if the system does not tell, as in many
    clouds, for the loopback, and in containers.
    """
    status = psutil.net_if_stats().get(interface or "")
    if not interface or not status or status.speed <= 0:
        return None
    return status.speed * 10**6 if is_of_hardware(interfaces / interface) else None


def is_of_hardware(interface: Path) -> bool:
    """Whether an interface, by its directory in /sys/class/net, is a device, or a bond, VLAN or
    bridge of devices alone. The speed of another, 10 Gbit/s of a container's veth, is made up.
    """
    if (interface / "device").exists():
        return True
    lower = list(interface.glob("lower_*"))
    return bool(lower) and all(map(is_of_hardware, lower))


def read_bytes(interface: str | None) -> LinkBytes:
    """Return the bytes over an interface since it came up; none of an unknown one."""
    counters = psutil.net_io_counters(pernic=True).get(interface or "")
    return LinkBytes(counters.bytes_recv, counters.bytes_sent) if counters else LinkBytes(0, 0)
