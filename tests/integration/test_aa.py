"""dballoc aa on a real server: an ordinary campaign of twins, and its own answer."""

import json
from collections.abc import Callable
from pathlib import Path

from harness import Cli, rows


def test_what_this_host_resolves(
    run_cli: Cli, fresh_directory: Callable[[], Path], tiny_experiment: Callable[..., Path]
) -> None:
    out, tiny = fresh_directory() / "r", tiny_experiment()
    done = run_cli("aa", tiny, "--blocks", "2", "--json", "--out", out)
    assert done.status == 0, done.text
    found = json.loads(done.stdout)  # nothing but the answer on standard output
    assert (found["baseline"], found["twin"], found["blocks"]) == ("glibc", "glibc-again", 2)
    assert found["seconds"] > 6 * 3  # trials of two seconds of load and one of rest
    metrics = {m["key"]: m for m in found["metrics"]}
    assert set(metrics) == {"tps:oltp_read_only", "rss_peak", "rss_idle"}
    peak = metrics["rss_peak"]
    assert peak["twin"]["low"] < peak["twin"]["ratio"] < peak["twin"]["high"]
    assert 0 < peak["scatter"] < 0.2
    assert peak["block_seconds"] > 3 * 3
    assert "all planned blocks are done" in done.stderr
    trials = rows(out, "SELECT variant, count(*) AS n FROM trial GROUP BY variant ORDER BY variant")
    assert [(t["variant"], t["n"]) for t in trials] == [("glibc", 4), ("glibc-again", 2)]

    again = run_cli("aa", tiny, "--blocks", "2", "--out", out)
    assert again.status == 0, again.text
    assert "To resolve" in again.stdout
    assert "glibc-again are the same" in again.stdout
    assert len(rows(out, "SELECT * FROM trial")) == 6, "what is finished is not run again"


def test_an_allocator_that_is_not_there(run_cli: Cli) -> None:
    done = run_cli("aa", "--allocator", "jemaloc")
    assert done.status == 2
    assert "did you mean 'jemalloc'?" in done.stderr
    assert len(done.stderr.splitlines()) == 1
