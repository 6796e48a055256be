"""``kill -9`` of dballoc at any moment: at most the trial under way is lost, and the same command
resumes.

The moments are random; the seed is printed, and DBALLOC_TEST_SEED repeats it (the machine's own
timing does not repeat).
"""

import os
import random
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, leftovers, rows, thp_mode, wait_until

from dballoc.experiment import experiment_file, schedule
from dballoc.experiment.model import Experiment as Experiment_
from dballoc.host.settings import thp

pytestmark = pytest.mark.alone

SHIM = Path(str(files("dballoc") / "_native" / "libdballoc_keep_thp.so"))
# Longer than a command takes to come up and make its first trial under way; shorter than two
# trials.
LATEST = 8.0

# Design, block, attempt, position, role.
Place = tuple[str, int, int, int, str]


def variants() -> list[dict[str, Any]]:
    """With one that changes the host, where we may."""
    found: list[dict[str, Any]] = [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}]
    if os.geteuid() == 0 and thp_mode() and "[never]" not in thp_mode():
        found.append({"name": "thp-never", "thp": "never"})
    if os.geteuid() == 0 and SHIM.exists() and "[always]" not in thp_mode():
        found.append({"name": "thp-always", "allocator": "jemalloc", "thp": "always"})
    return found


@pytest.mark.parametrize(
    ("kills", "blocks", "design"),
    [
        (3, 1, "solo"),
        pytest.param(3, 1, "duet", marks=pytest.mark.slow),
        pytest.param(20, 5, "solo", marks=pytest.mark.slow),
        pytest.param(20, 3, "both", marks=pytest.mark.slow),
    ],
    ids=[
        "three moments",
        "three moments of a duet",
        "twenty moments",
        "twenty moments of both designs",
    ],
)
@pytest.mark.timeout(1800)
def test_killed_at_random_moments(
    run_cli: Cli,
    tiny_experiment: Experiment,
    fresh_directory: Callable[[], Path],
    home: Path,
    kills: int,
    blocks: int,
    design: str,
) -> None:
    seed = int(os.environ.get("DBALLOC_TEST_SEED", random.randrange(10**6)))
    print(f"DBALLOC_TEST_SEED={seed}")
    chance = random.Random(seed)
    base, thp_before = fresh_directory(), thp_mode()
    base.chmod(0o755)  # the server's user must reach its data
    # A cache of its own, so that the first kills strike while the data template is made.
    cache, out = base / "cache", base / "r"
    columns = variants()
    if len(columns) == 2:
        # without the variants that need root a block is shorter, and must not end before the last
        # kill
        blocks += 1
    path = tiny_experiment(
        blocks=blocks,
        variant=columns,
        time={"idle": "0s"},
        warmup_sql=[],
        design=design,
        duet={"slice": "1s", "pairs": 1},
    )
    command, how = ("bench", path, "--out", out), {"env": {"DBALLOC_CACHE": str(cache)}}
    kept: dict[Place, int] = {}
    # Spread over the whole span, in any order: three early ones in a row would show little.
    moments = [LATEST * (number + chance.random()) / kills for number in range(kills)]
    chance.shuffle(moments)

    for number, moment in enumerate(moments):
        if number == max(1, kills // 6):
            # From here on the moments fall into trials.
            shutil.copytree(
                made_elsewhere(run_cli, tiny_experiment, home),
                cache / "templates",
                dirs_exist_ok=True,
            )
        process = run_cli.start(*command, **how)
        deadline = time.monotonic() + moment
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        assert process.poll() is None, f"it ended before it was killed: {run_cli.end(process).text}"
        process.kill()
        run_cli.end(process)
        if chance.random() < 0.5:
            # Either the guardian is given its time, or the next one comes while it is still
            # cleaning up.
            wait_until(lambda: not leftovers(home), 30)
            assert thp_mode() == thp_before
        now = finished(out)
        print(f"killed after {moment:.2f} s: {len(now)} trials")
        assert kept.items() <= now.items(), "a finished trial was lost or run again"
        kept = now

    done = run_cli(*command, **how)
    assert done.status == 0, done.text
    model = experiment_file.load_experiment(path)
    # Of a block that was cut, the attempt after it has all trials, and is the only one that counts.
    complete = {(r["design"], r["block"]): r["attempt"] for r in rows(out, "SELECT * FROM block")}
    planned = planned_trials(model, blocks, complete)
    found = rows(
        out,
        "SELECT design, block, attempt, position, variant, role, outcome, fault_text FROM trial",
    )
    of_complete = [r for r in found if complete[r["design"], r["block"]] == r["attempt"]]
    assert Counter(place(r) for r in of_complete) == Counter(planned.keys())
    assert {place(r): r["variant"] for r in of_complete} == planned
    assert [r["fault_text"] for r in found if r["outcome"] != "ok"] == []
    assert kept.items() <= finished(out).items()
    solo = ("step", "sample", "interval", "histogram", "mark") if design != "duet" else ()
    for table in (*solo, *(("slice",) if design != "solo" else ())):
        those = f"design {'=' if table == 'slice' else '!='} 'duet'"
        stray = rows(
            out, f"SELECT count(*) AS n FROM {table} WHERE trial NOT IN (SELECT trial FROM trial)"
        )
        empty = rows(
            out,
            f"SELECT count(*) AS n FROM trial WHERE {those} AND trial NOT IN (SELECT trial FROM {table})",
        )
        assert (stray[0]["n"], empty[0]["n"]) == (0, 0), table
    assert rows(out, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    raw = {r["directory"] for r in rows(out, "SELECT directory FROM trial")}
    assert {p.name for p in (out / "trials").iterdir()} == raw
    wait_until(lambda: not leftovers(home), 30)
    assert thp_mode() == thp_before


def made_elsewhere(run_cli: Cli, tiny_experiment: Experiment, home: Path) -> Path:
    """The session's templates; made by a short campaign if this is the first."""
    templates = home / "cache" / "templates"
    if not list(templates.glob("*/template.json")):
        done = run_cli(
            "bench",
            tiny_experiment(variant=[{"name": "glibc"}]),
            "--out",
            home / "for-the-template",
        )
        assert done.status == 0, done.text
    return templates


def planned_trials(
    model: Experiment_, blocks: int, attempts: dict[tuple[str, int], int]
) -> dict[Place, str]:
    """The variant of every trial that the campaign is to have, in these attempts at its blocks."""
    numbers = range(1, blocks + 1)
    found: dict[Place, str] = {}
    if model.design != "duet":
        found |= {
            ("solo", s.block, s.attempt, s.position, s.role): s.variant
            for n in numbers
            for s in schedule.order_block(model, n, attempts["solo", n])
        }
    if model.design != "solo":
        # always beside the host's madvise cannot be had at once.
        playable = {
            v.name for v in model.variant if thp.combine_modes([None, v.thp], thp.read_mode())
        }
        duets = [
            p
            for n in numbers
            for p in schedule.order_duets(model, n, attempts["duet", n])
            if p.variant in playable
        ]
        places = [("duet", p.block, p.attempt, p.position) for p in duets]
        found |= {(*at, p.role): p.variant for at, p in zip(places, duets, strict=True)}
        found |= {(*at, "A1"): model.baseline for at in places}
    return found


def place(row: dict[str, Any]) -> Place:
    """Where a trial belongs."""
    return row["design"], row["block"], row["attempt"], row["position"], row["role"]


def finished(out: Path) -> dict[Place, int]:
    """The row numbers of the trials in the store."""
    try:
        return {
            place(r): r["trial"]
            for r in rows(out, "SELECT design, block, attempt, position, role, trial FROM trial")
        }
    except sqlite3.OperationalError:
        if (out / "results.sqlite").exists():
            raise
        return {}
