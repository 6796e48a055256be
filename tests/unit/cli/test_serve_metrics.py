"""Which process an exporter looks at."""

import subprocess

import pytest

from dballoc.cli.explain_parts import serve_metrics
from dballoc.cli.explain_parts.explain_request import Target
from dballoc.ground.errors import Failure


def test_a_server_that_was_named_by_its_pid_is_no_other_that_gets_this_pid() -> None:
    with subprocess.Popen(["sleep", "60"]) as named:
        target = Target(pid=named.pid, without_sql=True)
        find_process = serve_metrics._make_finder(target)
        assert find_process().pid == named.pid
        named.kill()
    with pytest.raises(Failure, match="has ended"):
        find_process()
