"""What a campaign records of its machine."""

import json
import platform
from pathlib import Path

import pytest

from dballoc.host.machine_description import describe_machine
from dballoc.store.facts import Environment, parse_environment


def test_the_boot_that_containers_of_a_machine_share_is_recorded() -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert describe_machine()["boot_id"] == boot


def test_what_is_recorded_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the system calls itself."""
    release = {"PRETTY_NAME": "My\x1b[1m System\n"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    machine = describe_machine()
    assert machine["os"] == "My?[1m System?"
    assert parse_environment(json.dumps(machine), "environment") == Environment(**machine)
