"""One block on a real MariaDB: what is measured, proved and kept, and that the server was private
and unprivileged.
"""

import itertools
import json
import os
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Done, Experiment, processes_of, rows, server_pid, thp_mode, wait_until

pytestmark = pytest.mark.alone

SHIM = Path(str(files("dballoc") / "_native" / "libdballoc_keep_thp.so"))
MIB = 1 << 20

VARIANTS: list[dict[str, Any]] = [
    {"name": "glibc"},
    {"name": "jemalloc", "allocator": "jemalloc"},
    {"name": "tcp", "server": {"connect": "tcp"}},
    {"name": "tls", "server": {"connect": "tls"}},
    {
        "name": "tuned",
        "allocator": "jemalloc",
        "tunables": {"narenas": 2},
        "env": {"DBT_MARK": "mark"},
    },
    {
        "name": "option",
        "server": {"options": {"innodb_log_buffer_size": "3M", "log_bin": ""}},
        "cpu": {"server": "0"},
    },
]
THP_VARIANT = {
    "name": "thp",
    "allocator": "jemalloc",
    "tunables": {"thp": "always"},
    "thp": "always",
}


def can_switch_thp() -> bool:
    return os.geteuid() == 0 and SHIM.exists() and bool(thp_mode())


@dataclass(kw_only=True)
class Campaign:
    """A finished one, and what was seen of its processes while it ran."""

    out: Path
    done: Done
    thp_before: str
    thp_after: str
    user_ids: set[str] = field(default_factory=set)
    command_lines: str = ""
    client_environments: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def campaign(run_cli: Cli, tiny_experiment: Experiment, fresh_directory, home: Path) -> Campaign:
    """Every kind of variant in one block; run once for all tests here."""
    out = fresh_directory() / "r"
    variants = [*VARIANTS, THP_VARIANT] if can_switch_thp() else VARIANTS
    before = thp_mode()
    process = run_cli.start("bench", tiny_experiment(variant=variants), "--out", out)
    seen = Campaign(out=out, done=Done(0, "", ""), thp_before=before, thp_after="")

    def look() -> bool:
        """True once a server under load was seen, and the campaign has ended."""
        if pid := server_pid(home):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
                found = processes_of(home)
                clients = [
                    p for p, words in found.items() if "sysbench" in words and " run" in words
                ]
                seen.client_environments += [
                    Path(f"/proc/{p}/environ").read_text() for p in clients
                ]
            except OSError:
                return False  # ended while we looked
            seen.user_ids |= set(
                next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
            )
            seen.command_lines += "\n".join(found.values()) + "\n"
        return process.poll() is not None

    wait_until(look, 240)
    seen.done = run_cli.end(process)
    seen.thp_after = thp_mode()
    assert seen.done.status == 0, seen.done.text
    return seen


def trial(campaign: Campaign, variant: str, role: str = "V") -> dict[str, Any]:
    """The row of a variant's trial."""
    [row] = rows(
        campaign.out, f"SELECT * FROM trial WHERE variant = '{variant}' AND role = '{role}'"
    )
    return row


def of(campaign: Campaign, table: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    """A trial's rows in another table."""
    return rows(campaign.out, f"SELECT * FROM {table} WHERE trial = {row['trial']}")


def variable(campaign: Campaign, row: dict[str, Any], name: str) -> str:
    """A server variable as the running server had it."""
    text = (campaign.out / "trials" / row["directory"] / "variables.tsv").read_text()
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)[name]


def test_every_variant_ran_once_and_the_baseline_twice(campaign: Campaign) -> None:
    found = rows(campaign.out, "SELECT variant, role, outcome, fault_text FROM trial")
    wanted = {("glibc", "A1"), ("glibc", "A2")} | {
        (v["name"], "V") for v in [*VARIANTS[1:], *([THP_VARIANT] if can_switch_thp() else [])]
    }
    assert {(r["variant"], r["role"]) for r in found} == wanted
    assert len(found) == len(wanted)
    assert [r["fault_text"] for r in found if r["outcome"] != "ok"] == []


def test_what_is_known_of_the_campaign(campaign: Campaign) -> None:
    facts = {r["key"]: r["value"] for r in rows(campaign.out, "SELECT * FROM campaign")}
    assert (facts["ending"], facts["seed"], facts["designs"]) == ("planned", "1", '["solo"]')
    assert json.loads(facts["planned_blocks"]) == {"solo": 1}
    assert json.loads(facts["environment"])["cpus"] == len(os.sched_getaffinity(0))
    [block] = rows(campaign.out, "SELECT * FROM block")
    assert block["ended"] > block["started"]
    assert 0 <= block["others"] <= 1


def test_steps(campaign: Campaign) -> None:
    steps = of(campaign, "step", trial(campaign, "jemalloc"))
    assert [s["kind"] for s in steps] == ["sql", "level", "idle"]
    level, idle = steps[1], steps[2]
    assert (level["workload"], level["threads"]) == ("oltp_read_only", 2)
    assert level["tps"] == pytest.approx(level["events"] / 2, rel=0.25)
    assert level["qps"] == pytest.approx(level["tps"] * 16, rel=0.02)  # 14 selects, begin, commit
    assert 0 < level["latency_min"] <= level["p50"] <= level["p95"] <= level["p99"] <= level["p999"]
    assert level["errors"] == level["reconnects"] == 0
    # The server's own, over the window between the load's reports.
    assert 0 < level["cpu"] <= level["window"] * 2.5
    assert level["cpu_user"] + level["cpu_system"] == pytest.approx(level["cpu"], abs=0.1)
    # A client that asks over a socket makes the server wait for it, or takes its CPU: which of the
    # two is the scheduler's.
    assert level["voluntary"] + level["involuntary"] > level["window_events"]
    assert 60 * MIB < level["rss_start"] <= level["rss_peak"] < 400 * MIB
    assert (idle["tps"], idle["events"]) == (None, None)
    assert idle["seconds"] == pytest.approx(1, abs=0.9)
    assert idle["cpu"] < level["cpu"]


def test_samples_intervals_and_the_histogram(campaign: Campaign) -> None:
    row = trial(campaign, "jemalloc")
    samples, intervals = of(campaign, "sample", row), of(campaign, "interval", row)
    histogram = of(campaign, "histogram", row)
    level = of(campaign, "step", row)[1]
    assert len([s for s in samples if s["step"] == 2]) >= 3
    times = [s["t"] for s in sorted(samples, key=lambda s: s["t"])]
    assert max(b - a for a, b in itertools.pairwise(times)) < 5, (
        "about one a second, whatever else the machine does"
    )
    for counter in ("cpu", "minor_faults", "voluntary", "involuntary"):
        values = [s[counter] for s in sorted(samples, key=lambda s: s["t"])]
        assert values == sorted(values), counter
    # MariaDB reserves eight terabytes for a pool that may grow; what is left is what it could
    # touch.
    assert all(0 < s["vsz"] - s["reserved"] < 4 << 30 for s in samples)
    assert all(s["rss"] <= s["vsz"] - s["reserved"] for s in samples)
    assert 1 <= len(intervals) <= 3
    assert intervals[0]["threads"] == 2
    assert intervals[0]["seconds"] == pytest.approx(1, abs=0.9)
    # sysbench may end with a report of a few milliseconds, when its clients have ended.
    assert all(i["threads"] <= 2 and 0 < i["seconds"] < 3 for i in intervals)
    assert sum(h["count"] for h in histogram) == level["events"]


def test_the_host_is_sampled_with_the_server(campaign: Campaign) -> None:
    row = trial(campaign, "jemalloc")
    samples = of(campaign, "host_sample", row)
    assert len(samples) == len(of(campaign, "sample", row))
    for counter in ("user", "system", "steal", "switches"):
        values = [s[counter] for s in sorted(samples, key=lambda s: s["t"])]
        assert values == sorted(values), counter
    level, host = of(campaign, "step", row)[1], of(campaign, "host_step", row)[1]
    every = sum(host[part] for part in ("user", "system", "idle", "iowait", "steal"))
    cpus = len(os.sched_getaffinity(0))
    assert every >= 0.7 * level["window"] * cpus, "the CPUs' time, as far as ticks show it"
    # The client's CPU is in the host's, and the server's too, but for a tick or two at each end.
    assert host["user"] + host["system"] > level["cpu"] - 0.1 * cpus
    assert host["switches"] > level["voluntary"]


def test_connections_are_counted_by_the_server(campaign: Campaign) -> None:
    for name in ("jemalloc", "tcp", "tls"):
        row = trial(campaign, name)
        [counted] = of(campaign, "client_connection", row)
        # sysbench connects each client, and once for itself; by itself MariaDB 10.11's library never
        # encrypts.
        assert 2 <= counted["made"] <= 3, counted
        assert counted["encrypted"] == (counted["made"] if name == "tls" else 0)
        has_tls = variable(campaign, row, "have_ssl") == "YES"
        assert bool(counted["tls"]) == has_tls


def test_a_binary_log_is_in_the_data_directory(campaign: Campaign) -> None:
    option, plain = trial(campaign, "option"), trial(campaign, "jemalloc")
    assert (variable(campaign, option, "log_bin"), variable(campaign, plain, "log_bin")) == (
        "ON",
        "OFF",
    )
    data = variable(campaign, option, "datadir")
    assert Path(variable(campaign, option, "log_bin_basename")) == Path(data, "dballoc-binlog")
    assert not Path(data).exists()


def test_marks(campaign: Campaign) -> None:
    row = trial(campaign, "glibc", "A1")
    marks = of(campaign, "mark", row)
    assert [m["step"] for m in marks] == [0, 1, 2, 3]
    assert (row["rss_start"], row["rss_idle"]) == (marks[0]["rss"], marks[3]["rss"])
    assert all(0 < m["pss"] <= m["rss"] and m["mappings"] > 50 for m in marks)
    assert row["rss_peak"] >= max(m["rss"] for m in marks[1:3]) - MIB


def test_where_memory_was_adds_up_in_every_trial(campaign: Campaign) -> None:
    sums = rows(
        campaign.out,
        "SELECT trial, sum(resident) AS resident, min(resident) AS least FROM ledger GROUP BY trial",
    )
    marks = {r["trial"]: r["rss"] for r in rows(campaign.out, "SELECT * FROM mark")}
    assert len(sums) == len(marks)
    for row in sums:
        assert row["resident"] == pytest.approx(marks[row["trial"]], rel=0.1)
    rest = rows(campaign.out, "SELECT resident FROM ledger WHERE owner = 'rest'")
    assert all(abs(r["resident"]) < 0.01 * min(marks.values()) for r in rest)
    owners = rows(
        campaign.out,
        "SELECT DISTINCT owner FROM ledger JOIN trial USING (trial) WHERE variant = 'glibc'",
    )
    assert {"live heap, small blocks", "free but held"} <= {r["owner"] for r in owners}


def test_proof_of_use(campaign: Campaign) -> None:
    proofs = {v: json.loads(trial(campaign, v)["proof"]) for v in ("jemalloc", "tcp")}
    assert {Path(p).name for p in proofs["jemalloc"]["bindings"].values()} <= {
        "libjemalloc.so.2",
        "libstdc++.so.6",
    }
    assert proofs["jemalloc"]["bindings"]["malloc"].endswith("libjemalloc.so.2")
    assert proofs["jemalloc"]["version_malloc_library"].startswith("jemalloc")
    # Not only what the loader would do: what the running server calls.
    assert proofs["jemalloc"]["running"]["malloc"].endswith("libjemalloc.so.2")
    assert proofs["tcp"]["bindings"]["malloc"].endswith("libc.so.6")
    for variant, mapped in (("jemalloc", True), ("tcp", False)):
        maps = (
            campaign.out / "trials" / trial(campaign, variant)["directory"] / "maps.txt"
        ).read_text()
        assert ("libjemalloc" in maps) is mapped


def test_variants_as_found_on_this_machine(campaign: Campaign) -> None:
    found = {r["name"]: r for r in rows(campaign.out, "SELECT * FROM variant")}
    assert (
        found["glibc"]["allocator"],
        json.loads(found["glibc"]["libraries"]),
        found["glibc"]["environment"],
    ) == (
        "glibc",
        [],
        "{}",
    )
    assert found["jemalloc"]["allocator_version"].split(".")[0].isdigit()
    tuned = json.loads(found["tuned"]["environment"])
    assert "narenas:2" in tuned["MALLOC_CONF"].split(",")
    assert tuned["DBT_MARK"] == "mark"
    assert found["glibc"]["pool_bytes"] == 32 * MIB


def test_tunables_reached_the_allocator(campaign: Campaign) -> None:
    # jemalloc's own dump at exit, in the server's log, is the allocator's word.
    log = (
        campaign.out / "trials" / trial(campaign, "tuned")["directory"] / "server.log"
    ).read_text(errors="replace")
    assert "opt.narenas: 2" in log


def test_a_variants_options_and_cpus_are_its_own(campaign: Campaign) -> None:
    option, plain = trial(campaign, "option"), trial(campaign, "jemalloc")
    assert variable(campaign, option, "innodb_log_buffer_size") == str(3 * MIB)
    assert variable(campaign, plain, "innodb_log_buffer_size") != str(3 * MIB)
    assert option["cpus"] == "0"
    assert plain["cpus"] != "0" or len(os.sched_getaffinity(0)) == 1


def test_tcp_or_socket(campaign: Campaign) -> None:
    tcp = trial(campaign, "tcp")
    assert variable(campaign, tcp, "skip_networking") == "OFF"
    assert variable(campaign, tcp, "bind_address") == "127.0.0.1"
    assert variable(campaign, tcp, "port") != "3306"
    assert variable(campaign, trial(campaign, "glibc", "A1"), "skip_networking") == "ON"


def test_the_raw_files_are_kept(campaign: Campaign) -> None:
    names = {
        p.name
        for p in (campaign.out / "trials" / trial(campaign, "glibc", "A2")["directory"]).iterdir()
    }
    assert {
        "server.log",
        "maps.txt",
        "variables.tsv",
        "status-02-before.tsv",
        "status-02-after.tsv",
        "sysbench-02-level-oltp_read_only-2.txt",
        "intervals-02-level-oltp_read_only-2.jsonl",
    } <= names


def test_what_dballoc_itself_cost(campaign: Campaign) -> None:
    [step] = [
        s for s in of(campaign, "host_step", trial(campaign, "glibc", "A1")) if s["step"] == 2
    ]
    assert 0 < step["own_cpu"] < 0.5 * step["seconds"]
    assert step["own_cpu"] < step["user"] + step["system"]


def test_the_server_ran_as_a_user_that_may_nothing(campaign: Campaign) -> None:
    assert campaign.user_ids, "no server was seen under load"
    assert "0" not in campaign.user_ids
    if os.geteuid() != 0:
        assert campaign.user_ids == {str(os.geteuid())}


def test_nobody_sees_the_password_and_the_client_gets_no_preload(campaign: Campaign) -> None:
    assert "--mysql-password" not in campaign.command_lines
    assert campaign.client_environments, "no client was seen"
    for environment in campaign.client_environments:
        assert not any(word in environment for word in ("LD_PRELOAD", "MALLOC_CONF", "DBT_MARK"))


def test_no_option_file_of_the_users_was_read(campaign: Campaign) -> None:
    servers = [line for line in campaign.command_lines.splitlines() if "--datadir=" in line]
    assert servers
    assert all(line.split()[1] == "--no-defaults" for line in servers)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it switches THP")
@pytest.mark.skipif(
    not SHIM.exists(), reason=f"needs dballoc's native parts ({SHIM.name}): run make setup"
)
def test_thp_was_really_switched_and_put_back(campaign: Campaign) -> None:
    row = trial(campaign, "thp")
    assert row["thp"] == "always"
    assert max(m["anon_huge"] for m in of(campaign, "mark", row)) > 0
    others = {r["thp"] for r in rows(campaign.out, "SELECT thp FROM trial WHERE variant <> 'thp'")}
    assert not any(mode == "always" for mode in others) or "[always]" in campaign.thp_before
    assert campaign.thp_after == campaign.thp_before
