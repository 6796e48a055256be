"""Settings of allocators on real servers: taken and proved, refused before the start, and swept."""

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, rows
from test_faults import MISBEHAVE

from dballoc.host.process import maps as process_maps

HEAP = 64 << 20


@pytest.fixture(scope="module")
def here(run_cli: Cli) -> set[str]:
    """The allocators on this machine."""
    done = run_cli("list", "allocators", "--json")
    return {row["name"] for row in json.loads(done.stdout) if row["version"]}


# Settings that every version has.
TUNED: dict[str, dict[str, Any]] = {
    "one-arena": {"tunables": {"arena_max": "1", "tcache_count": "0"}},
    "old-form": {"env": {"MALLOC_ARENA_MAX": "1"}},
    "jemalloc": {
        "allocator": "jemalloc",
        "tunables": {"narenas": "2", "dirty_decay_ms": "-1", "background_thread": "true"},
    },
    "tcmalloc": {
        "allocator": "tcmalloc",
        "tunables": {"max_total_thread_cache_bytes": "2097152", "release_rate": "5"},
    },
    "mimalloc": {
        "allocator": "mimalloc",
        "tunables": {"use_numa_nodes": "1"},
        "env": {"MIMALLOC_OS_TAG": "101"},
    },
    "tbbmalloc": {"allocator": "tbbmalloc", "tunables": {"use_huge_pages": "1"}},
}


def test_settings_are_taken(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, here: set[str]
) -> None:
    variants = [{"name": n, **v} for n, v in TUNED.items() if v.get("allocator", "glibc") in here]
    assert len(variants) >= 3
    done = run_cli(
        "bench",
        tiny_experiment(
            variant=[{"name": "glibc"}, *variants], time={"idle": "0s"}, warmup_sql=[], threads=[8]
        ),
        "--out",
        out,
    )
    assert done.status == 0, done.text
    found = rows(
        out, "SELECT variant, outcome, fault_text, directory FROM trial WHERE role IN ('A1', 'V')"
    )
    assert [r["fault_text"] for r in found if r["outcome"] != "ok"] == []
    logs = {
        r["variant"]: (out / "trials" / r["directory"] / "server.log").read_text(errors="replace")
        for r in found
    }
    if "jemalloc" in logs:
        assert re.search(r"^ +opt\.narenas: 2$", logs["jemalloc"], re.MULTILINE)
    if "mimalloc" in logs:
        assert "mimalloc: option 'use_numa_nodes': 1" in logs["mimalloc"]
    if "tbbmalloc" in logs:
        assert "TBBmalloc: huge pages\trequested" in logs["tbbmalloc"]
    # glibc says nothing in the log; its arenas are to be seen.
    arenas = {r["variant"]: heaps(out / "trials" / r["directory"] / "maps.txt") for r in found}
    assert arenas["glibc"] >= 1
    assert arenas["one-arena"] == arenas["old-form"] == 0


def heaps(maps: Path) -> int:
    """Heaps of arenas beside the first: 64 MiB at a multiple of it, of which the rest may not be
    touched yet.
    """
    anonymous = [m for m in process_maps.parse_maps(maps.read_text()) if not m.path]
    return sum(
        m.start % HEAP == 0
        and (m.permissions, rest.permissions) == ("rw-p", "---p")
        and (rest.start, rest.end) == (m.end, m.start + HEAP)
        for m, rest in pairwise(anonymous)
    )


@pytest.mark.parametrize(
    ("variant", "line"),
    [
        ({"allocator": "jemalloc", "tunables": {"thp": "often"}}, "tunables: thp: 'often' is not one of default, always, never"),
        ({"allocator": "jemalloc", "env": {"GLIBC_TUNABLES": "glibc.pthread.rsq=0"}},
         r"env GLIBC_TUNABLES: glibc\.pthread\.rsq: glibc [\d.]+ has no such setting; did you mean 'glibc\.pthread\.rseq'\?"),
        # jemalloc clips it; the catalogue does not know it, the library does.
        ({"allocator": "jemalloc", "tunables": {"hpa_slab_max_alloc": "999999999"}},
         r"tunables: hpa_slab_max_alloc = 999999999 was not accepted: jemalloc reports \d+"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_before_the_start(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, here: set[str], variant, line
) -> None:
    if variant.get("allocator", "glibc") not in here:
        pytest.skip(f"needs {variant['allocator']} on this machine")
    done = run_cli(
        "bench",
        tiny_experiment(variant=[{"name": "glibc"}, {"name": "v", **variant}]),
        "--out",
        out,
    )
    assert done.status == 2, done.text
    assert re.fullmatch(rf"dballoc: variant 'v': {line}\n", done.stderr), done.stderr
    assert not out.exists()


def test_a_setting_that_the_running_server_has_otherwise_is_a_fault(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, here: set[str], fresh_directory
) -> None:
    compiler = shutil.which("cc")
    if compiler is None or "jemalloc" not in here:
        pytest.skip("needs a C compiler and jemalloc: apt-get install gcc libc6-dev libjemalloc2")
    directory = fresh_directory()
    directory.chmod(0o755)
    library = directory / "libmisbehave.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-pthread", "-o", library, MISBEHAVE], check=True
    )
    # What it prints stands before jemalloc's own word, and only where a server runs, not where it
    # is asked for its version.
    lies = {
        "name": "lies",
        "allocator": "jemalloc",
        "preload": [str(library)],
        "tunables": {"narenas": "2"},
        "env": {"DBT_FAULT": "another setting"},
    }
    done = run_cli(
        "bench",
        tiny_experiment(variant=[{"name": "glibc"}, lies], time={"idle": "0s"}, warmup_sql=[]),
        "--out",
        out,
    )
    assert done.status == 0, done.text
    [row] = rows(out, "SELECT * FROM trial WHERE variant = 'lies'")
    assert (row["fault"], row["fault_text"]) == (
        "proof",
        "tunables: narenas = 2 was not accepted: jemalloc reports 9",
    )


def test_a_sweep_from_the_command_line(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    file = tiny_experiment(variant=[{"name": "glibc"}])
    sweep = (
        "--sweep",
        "MALLOC_ARENA_MAX=1,cores/100,3*cores",
        "--sweep",
        "server.key_buffer_size=8M,16M",
    )
    printed = run_cli("bench", file, "--cpus", "1", *sweep, "--print")
    assert printed.status == 0, printed.text
    names = re.findall(r'^name = "(glibc.*)"$', printed.stdout, re.MULTILINE)
    assert names == [
        "glibc",
        *(f"glibc-MALLOC_ARENA_MAX={n}-key_buffer_size={s}" for n in (1, 3) for s in ("8M", "16M")),
    ]
    planned = run_cli("bench", file, "--cpus", "1", *sweep, "--dry-run", "--out", out)
    assert planned.status == 0, planned.text
    assert "MALLOC_ARENA_MAX=3, key_buffer_size=16M" in planned.stdout


def test_the_list_of_settings(run_cli: Cli) -> None:
    done = run_cli("list", "settings", "glibc", "--json")
    assert done.status == 0, done.text
    [found] = [r for r in json.loads(done.stdout) if r["name"] == "arena_max"]
    assert (found["variable"], found["here"], found["values"]) == ("MALLOC_ARENA_MAX", True, "1–")
    assert (
        run_cli("list", "settings", "jemaloc").stderr
        == "dballoc: no allocator 'jemaloc'; did you mean 'jemalloc'?\n"
    )
    assert run_cli("list", "servers", "glibc").status == 2
