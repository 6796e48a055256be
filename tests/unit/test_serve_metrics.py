"""Which process an exporter looks at."""

import pytest

from dballoc.cli.explain_parts import serve_metrics
from dballoc.cli.explain_parts.explain_request import Target
from dballoc.errors import Failure


def test_a_server_that_was_named_by_its_pid_is_no_other_that_gets_this_pid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = iter(["100", "100", "777"])
    monkeypatch.setattr(serve_metrics, "read_start_time", lambda pid: next(starts))
    target = Target(pid=7, socket=None, service=None, login_path=None, without_sql=True)
    find_pid = serve_metrics._make_finder(target)
    assert find_pid() == 7
    with pytest.raises(Failure, match="another process has its PID"):
        find_pid()
