"""Finding a service's process: systemd that does not answer holds nobody up."""

import re
import time
from pathlib import Path

import pytest

from dballoc.explain import find_server
from dballoc.ground.errors import UsageError


def test_a_systemd_that_does_not_answer_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl = tmp_path / "systemctl"
    systemctl.write_text("#!/bin/sh\nexec sleep 1000\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(find_server, "_SYSTEMCTL_SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(UsageError, match=re.escape("did not answer within 0.2 seconds")):
        find_server.find_service_process("mariadb")
    assert time.monotonic() - began < 60
