"""Flags of ``dballoc explain`` that do not go together, or say nothing: one line before anything is
looked at.
"""

from pathlib import Path
from typing import Any

import pytest
from example_explanations import look

from dballoc.cli.verbs.explain import explain
from dballoc.explain.output import saved_snapshots
from dballoc.ground.errors import UsageError

NOWHERE = Path("/nowhere/x")
LISTEN = "127.0.0.1:9109"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"watch": True, "as_json": True}, "--watch does not go with --json or --openmetrics"),
        ({"span": "5s"}, "--for only goes with --watch"),
        ({"save_series": Path("x")}, "--save-series only goes with --watch"),
        ({"watch": True, "every": "5", "pid": 1}, "--every: '5' is not a duration"),
        ({"saved": NOWHERE}, "/nowhere/x: No such file or directory"),
        ({"diff": (NOWHERE, NOWHERE)}, "/nowhere/x: No such file or directory"),
        ({"diff": (NOWHERE, NOWHERE), "pid": 1}, "--diff reads saved snapshots"),
        ({"saved": NOWHERE, "socket": "/s"}, "--from reads saved snapshots"),
        ({"diff": (NOWHERE, NOWHERE), "watch": True}, "--diff and --watch exclude each other"),
        ({"as_json": True, "as_metrics": True}, "give one of --json and --openmetrics"),
        ({"diff": (NOWHERE, NOWHERE), "html": NOWHERE}, "--diff does not go with --html"),
        ({"event": "memory/sql/JOIN_CACHE"}, "--event only goes with --procedure"),
        ({"account": "app", "pid": 1}, "--account only goes with --procedure"),
        ({"watch": True, "with_checklist": True}, "--procedure does not go with --watch"),
        ({"saved": NOWHERE, "with_checklist": True}, "--procedure does not go with --from"),
        ({"all_lines": True, "as_json": True}, "--all is about the table of one snapshot: leave"),
        ({"sources": True, "watch": True}, "leave out --watch"),
        ({"trim": True, "all_lines": True}, "it goes with --yes and with the flags"),
        ({"trim": True, "event": "x"}, "it goes with --yes and with the flags"),
        ({"listen": "0.0.0.0:9109"}, "everybody on the network could read it"),
        ({"listen": "here"}, "not an IP address with a port"),
        ({"listen": LISTEN, "run_as": "no-such-user"}, "there is no such user"),
        ({"listen": LISTEN, "run_as": "root"}, "name another user"),
        ({"listen": LISTEN, "as_json": True}, "leave out --json"),
        ({"listen": LISTEN, "watch": True}, "leave out --watch"),
        ({"listen": LISTEN, "token_file": NOWHERE}, "--token-file /nowhere/x"),
        ({"listen": LISTEN, "tls_cert": NOWHERE, "tls_key": NOWHERE}, "No such file"),
        ({"listen": LISTEN, "every": "5"}, "--every: '5' is not a duration"),
        ({"listen": LISTEN, "span": "5s"}, "--for only goes with --watch"),
        ({"tls_cert": NOWHERE}, "--tls-cert only goes with --listen"),
        ({"run_as": "nobody", "trim": True}, "with no others"),
    ],
)
def test_what_cannot_be_asked_for(flags: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        explain(**flags)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_process_that_is_not_there_is_not_served() -> None:
    with pytest.raises(UsageError, match="process 4194300: No such process"):
        explain(listen=LISTEN, pid=4194300)


def test_a_saved_look_is_printed_as_a_live_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved_snapshots.save_snapshot(look(), tmp_path / "x.json")
    explain(saved=tmp_path / "x.json")
    said = capsys.readouterr().out
    assert "Most of the 987 MiB is buffer pool and log buffers" in " ".join(said.split())
    assert "rest: pages that no class claims" in said
