"""doctor: what decides in it."""

import pytest

from dballoc.doctor import examine
from dballoc.doctor.finding import Finding
from dballoc.host.package_names import parse_policy

POLICY = """libmimalloc2.0:
  Installed: 2.0.9
  Candidate: 2.0.9
libmimalloc3:
  Installed: (none)
  Candidate: (none)
sysbench:
  Installed: (none)
  Candidate: 1.0.20
"""


def test_packages_with_a_candidate() -> None:
    assert parse_policy(POLICY) == {"libmimalloc2.0", "sysbench"}


@pytest.mark.parametrize(
    ("state", "can"), [("ok", True), ("note", True), ("warn", True), ("missing", False)]
)
def test_only_what_is_missing_keeps_bench_from_running(state: str, can: bool) -> None:
    findings = [Finding("python", "ok", "3.11"), Finding("sysbench", state, "…", "install it")]
    assert examine.can_bench(findings) is can
