"""The duet on real servers: what is stored, that halves are swapped and arenas are solo's, and
where it is refused.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, rows, thp_mode

from dballoc.experiment.cpu_list import format_cpus

SHIM = Path(str(files("dballoc") / "_native" / "libdballoc_keep_thp.so"))
CPUS = sorted(os.sched_getaffinity(0))
SLICES = {"slice": "1s", "pairs": 2, "threads": 2}

pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="a duet needs two CPUs")


@pytest.fixture(scope="module")
def both(run_cli: Cli, tiny_experiment: Experiment, fresh_directory) -> Path:
    """A campaign of both designs with a pilot of its own; run once for the tests here."""
    out = fresh_directory() / "r"
    duet = {"threads": 2, "pairs": 1}
    done = run_cli(
        "bench", tiny_experiment(design="both", duet=duet, warmup_sql=[]), "--out", out, "--report"
    )
    assert done.status == 0, done.text
    assert "Traceback" not in done.text
    return out


def test_every_trial_is_there(both: Path) -> None:
    found = rows(
        both, "SELECT design, block, position, variant, role, outcome, fault_text FROM trial"
    )
    assert [r["fault_text"] for r in found if r["outcome"] != "ok"] == []
    pairs = {(r["variant"], r["role"]) for r in found if r["design"] == "duet"}
    assert pairs == {("glibc", "A1"), ("glibc", "A2"), ("jemalloc", "V")}
    assert len([r for r in found if r["design"] == "duet"]) == 4
    assert len([r for r in found if r["design"] == "pilot"]) == 6
    assert len([r for r in found if r["design"] == "solo"]) == 3
    counted = rows(
        both, "SELECT made, encrypted FROM trial LEFT JOIN client_connection USING (trial)"
    )
    assert all(r["made"] >= 1 and r["encrypted"] == 0 for r in counted), counted


def test_the_pilot_settles_the_slices_and_the_report_shows_them(both: Path) -> None:
    facts = {r["key"]: r["value"] for r in rows(both, "SELECT * FROM campaign")}
    duet = json.loads(facts["duet"])
    plan, components = duet["plan"], duet["components"]["oltp_read_only"]
    assert plan["pairs"] == 1  # as asked
    assert plan["slice"] in (0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 4.0)
    assert all(components[k] >= 0 for k in ("start", "slice", "piece", "halves"))
    [played] = rows(
        both,
        "SELECT max(slice) + 1 AS slices FROM slice JOIN trial USING (trial) WHERE design = 'duet'",
    )
    assert played["slices"] == 2
    report = (both / "report.md").read_text(encoding="utf-8")
    assert "What the pilot found" in report
    assert "1 pair of slices of " in report
    assert "glibc, A2 ÷ A1" in report


def test_halves_are_swapped_and_never_shared(both: Path) -> None:
    found = rows(
        both,
        "SELECT design, position, role, slice, half, idle, slice.steal FROM slice JOIN trial USING "
        "(trial)",
    )
    by_duet: dict[Any, dict[str, dict[int, int]]] = {}
    for r in found:
        side = "baseline" if r["role"] == "A1" else "partner"
        by_duet.setdefault((r["design"], r["position"]), {}).setdefault(side, {})[r["slice"]] = r[
            "half"
        ]
    assert by_duet
    for sides in by_duet.values():
        assert all(sides["baseline"][n] != sides["partner"][n] for n in sides["baseline"])
        assert all(
            a != b
            for a, b in itertools.pairwise(sides["baseline"][n] for n in sorted(sides["baseline"]))
        )
    assert all(0 <= r[share] <= 1 for r in found for share in ("idle", "steal"))


def test_what_a_slice_holds(both: Path) -> None:
    found = rows(both, "SELECT slice.* FROM slice JOIN trial USING (trial) WHERE design = 'duet'")
    for r in found:
        # 14 selects, begin, commit; on a busy machine a slice may pass without one
        assert r["queries"] == pytest.approx(16 * r["events"], rel=0.03)
        assert 0 < r["seconds"] < 3  # of 0.2; a busy machine cuts some short
        assert r["cpu"] < 1.2 * r["seconds"], "no more than its half, which is one CPU of two"
    assert all(sum(r[counted] for r in found) > 0 for counted in ("cpu", "events"))
    trials = rows(both, "SELECT * FROM trial WHERE design = 'duet'")
    assert {r["cpus"] for r in trials} == {format_cpus(frozenset(CPUS))}, (
        "servers start with all CPUs"
    )
    assert all(r["rss_peak"] > r["rss_start"] > 0 for r in trials)


def test_arenas_are_as_many_as_solos(both: Path) -> None:
    # jemalloc says it itself, in its statistics at exit.
    counts: dict[str, set[str]] = {"solo": set(), "duet": set()}
    for row in rows(both, "SELECT design, directory FROM trial WHERE variant = 'jemalloc'"):
        place = both / "trials" / row["directory"] / ("partner" if row["design"] == "duet" else "")
        text = (place / "server.log").read_text(errors="replace")
        counts[row["design"]] |= set(re.findall(r"^Arenas: (\d+)", text, re.MULTILINE))
    assert len(counts["solo"]) == 1, counts
    assert counts["duet"] == counts["solo"]


def test_a_side_that_crashes_takes_its_duet_alone(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("needs a C compiler")
    out.parent.chmod(0o755)  # the server's user loads it from there
    library = out.parent / "misbehave.so"
    source = Path(__file__).with_name("misbehave.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-pthread", "-o", library, source], check=True
    )
    crashing = {
        "name": "crashes",
        "allocator": "glibc",
        "preload": [str(library)],
        "env": {"DBT_FAULT": "kill late"},
    }
    slices = {
        **SLICES,
        "pairs": 4,
        # it dies after the first ones, of which its client has not said how many transactions they
        # had
    }
    file = tiny_experiment(
        design="duet", duet=slices, variant=[{"name": "glibc"}, crashing], warmup_sql=[]
    )
    done = run_cli("bench", file, "--out", out, "--report")
    assert done.status == 0, done.text
    assert "crashes beside the baseline: FAULT: " in done.stdout
    found = rows(out, "SELECT variant, role, outcome, fault FROM trial ORDER BY trial")
    assert [r["outcome"] for r in found if r["variant"] == "glibc"] == ["ok"] * 3
    assert [(r["outcome"], r["fault"]) for r in found if r["variant"] == "crashes"] == [
        ("fault", "died")
    ]
    assert rows(out, "SELECT * FROM slice JOIN trial USING (trial) WHERE variant = 'crashes'") == []
    assert "1 of 1 trials ended in a fault" in (out / "report.md").read_text(encoding="utf-8")


def test_an_interrupted_duet_goes_on_where_it_stopped(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    file = tiny_experiment(design="duet", duet=SLICES, warmup_sql=[])
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    before = rows(out, "SELECT * FROM trial")
    again = run_cli("bench", file, "--out", out)
    assert again.status == 0, again.text
    assert "resuming: 4 trials are finished already" in again.stdout
    assert rows(out, "SELECT * FROM trial") == before


@pytest.mark.alone
@pytest.mark.usefixtures("needs_root")
@pytest.mark.skipif(not SHIM.exists() or not thp_mode(), reason="needs THP and the native parts")
def test_thp_of_both_sides(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    variants = [
        {"name": "never", "allocator": "jemalloc", "thp": "never"},
        {"name": "always", "allocator": "jemalloc", "thp": "always"},
        {"name": "madvise", "allocator": "jemalloc", "thp": "madvise"},
    ]
    file = tiny_experiment(
        design="duet",
        duet={**SLICES, "pairs": 1},
        variant=variants,
        baseline="never",
        warmup_sql=[],
    )
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    found = {
        (r["position"], r["variant"], r["role"]): r["thp"]
        for r in rows(out, "SELECT * FROM trial WHERE design = 'duet'")
    }
    for (position, variant, _), thp in found.items():
        if variant in ("always", "madvise"):
            assert thp == variant
            assert found[position, "never", "A1"] == f"{variant}, switched off by the process"


# -- refused ---------------------------------------------------------------------------------------------------------------


def one_cpu(*words: str) -> tuple[str, ...]:
    return ("taskset", "--cpu-list", str(CPUS[0]), *words)


def test_with_one_cpu_it_is_refused_where_it_was_asked_for(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    for design in ("duet", "both"):
        done = run_cli("bench", tiny_experiment(design=design), "--out", out, prefix=one_cpu())
        assert (done.status, done.stdout) == (2, "")
        said = f"dballoc: a duet needs two cores, there is one (CPU {CPUS[0]}); use --design solo\n"
        assert done.stderr == said


def test_with_one_cpu_the_default_is_solo_and_says_so(
    run_cli: Cli, tiny_experiment: Experiment
) -> None:
    file = tiny_experiment(name="default")
    file.write_text(file.read_text().replace('design = "solo"\n', ""))
    done = run_cli("bench", file, "--dry-run", prefix=one_cpu())
    assert done.status == 0, done.text
    assert "no duet: a duet needs two cores" in done.stdout
    assert "duet blocks" not in done.stdout


def test_a_campaign_that_goes_on_without_duets_says_why_in_its_report(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    file = tiny_experiment(variant=[{"name": "glibc"}], warmup_sql=[], time={"idle": "0s"})
    file.write_text(file.read_text().replace('design = "solo"\n', ""))
    done = run_cli("bench", file, "--out", out, "--report", prefix=one_cpu())
    assert done.status == 0, done.text
    assert "no duet: a duet needs two cores" in done.stdout
    assert "No duet was played" in (out / "report.md").read_text(encoding="utf-8")
    assert {r["design"] for r in rows(out, "SELECT design FROM trial")} == {"solo", "turns"}


def test_memory_for_one_server_only(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    text = next(
        line
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable")
    )
    available = int(text.split()[1]) // 1024
    file = tiny_experiment(
        design="duet", server={"options": {"innodb_buffer_pool_size": f"{int(available * 0.6)}M"}}
    )
    done = run_cli("bench", file, "--out", out)
    assert done.status == 2
    assert re.fullmatch(
        r"dballoc: server\.options: about [\d.]+ GiB for a duet's two servers, [\d.]+ GiB available; "
        r"lower the buffer pool or the threads, or use --design solo\n",
        done.stderr,
    )


@pytest.mark.alone
@pytest.mark.parametrize(
    "slices",
    [{"slice": "1s"}, pytest.param({}, marks=pytest.mark.slow)],
    ids=["at once", "in the pilot"],
)
def test_a_workload_that_waits_for_something_else_than_the_cpus(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, slices: dict[str, str]
) -> None:
    # One client that spends its time in the server's sleep, as it would in a disk's.
    lua = out.parent / "share" / "oltp_point_select.lua"
    lua.parent.mkdir()
    lua.write_text(
        "require('oltp_common')\nfunction event() con:query('SELECT sleep(0.01)') end\nfunction thread_init() "
        "drv = sysbench.sql.driver() con = drv:connect() end\nfunction thread_done() con:disconnect() end\n"
    )
    bin_ = out.parent / "bin"
    bin_.mkdir()
    wrapper = bin_ / "sysbench"
    wrapper.write_text(
        f'#!/bin/sh\nLUA_PATH="{lua.parent}/?.lua;$LUA_PATH" exec {shutil.which("sysbench")} "$@"\n'
    )
    wrapper.chmod(0o755)
    env = {"PATH": f"{bin_}:{os.environ['PATH']}"}
    file = tiny_experiment(
        design="duet",
        workloads=["oltp_point_select"],
        duet={"threads": 1, "pairs": 1, **slices},
        warmup_sql=[],
    )
    done = run_cli("bench", file, "--out", out, env=env)
    others = re.search(r"other processes used [\d.]+% of the CPUs", done.stdout)
    if done.status == 0 and others:
        pytest.skip(f"the CPUs were not idle: {others[0]}")
    assert done.status == 2, done.text
    assert re.fullmatch(
        r"dballoc: oltp_point_select: a duet needs busy CPUs, and these were idle \d+% of the time: disk, fsync or locks are "
        r"the limit, which both servers would share; use --design solo, or a larger buffer pool\n",
        done.stderr,
    )
