"""doctor and list for machines: --json."""

import json
from collections.abc import Callable

import pytest


def test_doctor_json(run_cli: Callable) -> None:
    done = run_cli("doctor", "--json")
    assert done.status == 0, done.text
    findings = {f["name"]: f for f in json.loads(done.stdout)}
    assert findings["sysbench"]["state"] == "ok"
    assert all(f["remedy"] for f in findings.values() if f["state"] in ("warn", "missing"))


@pytest.mark.parametrize(
    ("what", "one"),
    [
        ("allocators", "jemalloc"),
        ("servers", "mariadb"),
        ("workloads", "oltp_read_only"),
        ("experiments", "demo"),
    ],
)
def test_list_json(run_cli: Callable, what: str, one: str) -> None:
    done = run_cli("list", what, "--json")
    assert done.status == 0, done.text
    assert one in {row["name"] for row in json.loads(done.stdout)}
