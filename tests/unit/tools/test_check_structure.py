"""The rules of the house (tools/check-structure): breaking one is seen. `make lint` holds the package to them."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from captured_run import run_captured

TOOL = Path(__file__).resolve().parents[3] / "tools" / "check-structure"


def check(*words: object) -> subprocess.CompletedProcess[str]:
    return run_captured([sys.executable, TOOL, *map(str, words)])


DATACLASS = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n"
FIELDS = "".join(f"    f{i}: int\n" for i in range(5))
BREACHES = {
    "a circle in a room": (
        {"store/a.py": "from dballoc.store import b\n", "store/b.py": "import dballoc.store.a\n"},
        "store.a - store.b",
    ),
    "an import that runs back up": (
        {"host/a.py": "def f():\n    from dballoc.campaign import b\n", "campaign/b.py": ""},
        "host/a.py:2: host imports campaign",
    ),
    "an import between rooms of a storey": (
        {"profile/a.py": "from dballoc.load import b\n", "load/b.py": ""},
        "profile/a.py:1: profile imports load",
    ),
    "profile imports explain": (
        {"profile/a.py": "from dballoc.explain import b\n", "explain/b.py": ""},
        "profile/a.py:1: profile imports explain",
    ),
    "a pure room that imports more": (
        {"questions/a.py": "from dballoc.servers import b\n", "servers/b.py": ""},
        "questions/a.py:1: questions imports servers, and may not",
    ),
    "a room that nobody knows": (
        {"attic/a.py": "from dballoc.ground import errors\n", "ground/errors.py": ""},
        "of which one is in no storey",
    ),
    "measuring imports the analysis": (
        {
            "cli/bench_parts/bench_campaign.py": "from dballoc.store import a\n",
            "store/a.py": "def f():\n    import polars as pl\n",
        },
        "store/a.py:2: polars, imported by cli.bench_parts.bench_campaign",
    ),
    "a crowded room": ({f"host/m{i}.py": "" for i in range(16)}, "host: 16"),
    "a long function": ({"host/a.py": "def f():\n" + "    pass\n" * 60}, "host/a.py:1: f: 61"),
    "a call by position": ({"host/a.py": "f(1, 2, 3, 4, 5, 6, 7)\n"}, "host/a.py:1: f: 7"),
    "a dataclass by position": ({"host/a.py": DATACLASS + FIELDS}, "host/a.py:3: C: 5"),
    "a class name with two meanings": (
        {"host/a.py": "class Mark: ...\n", "store/b.py": "class C:\n    class _Mark: ...\n"},
        "host/a.py:1, store/b.py:2: Mark",
    ),
    **{
        f"a stale reference: {name}": (
            {"host/a.py": f'def f():\n    """See :func:`{name}`."""\n', "store/b.py": ""},
            f"host/a.py:2: {name}",
        )
        for name in ("g", "f.g", "dballoc.host.a.g", "dballoc.host.c.f")
    },
    "an empty name": ({"host/a.py": "found = 1\n"}, "host/a.py:1: found"),
    **{
        f"reading by path: {line}": (
            {"intake/a.py": f"def f(path):\n    {line}\n"},
            "intake/a.py:2: ",
        )
        for line in (
            "open(path)",
            "path.open('rb')",
            "path.read_bytes()",
            "os.open(path, os.O_RDONLY)",
            "gzip.open(path)",
            "shutil.copyfile(path, path)",
        )
    },
    **{
        f"an interpreter that is not isolated: {line}": (
            {"host/a.py": f"{line}\n"},
            "host/a.py:1: ",
        )
        for line in (
            "[sys.executable, '-m', 'dballoc']",
            "[os.path.realpath(sys.executable), *words]",
            "[*prefix, sys.executable, script]",
            "('nice', *('/usr/bin/python3', '-S', '-c', code))",
            "[place / 'bin/python', '-c', code]",
            "[python, '-m', 'pip']",
        )
    },
    "an empty parameter": ({"host/a.py": "def f(said): pass\n"}, "host/a.py:1: said"),
}


WRITING = """
path.write_text("")
path.write_bytes(b"")
path.touch()
path.unlink()
path.rename(target)
path.replace(directory / name)
path.mkdir(parents=True, exist_ok=True)
path.open("w")
path.open(mode="ab")
open(path, "x", encoding="utf-8")
os.makedirs(path)
os.rename(path, target)
os.open(path, os.O_WRONLY)
os.open(path, os.O_CREAT)
gzip.open(path, "wt")
shutil.rmtree(path)
shutil.copyfile(path, target)
sqlite3.connect(path)
""".strip().splitlines()
NOT_WRITING = """
path.open()
open(path, "rb")
os.fdopen(descriptor, "w")
os.open(os.devnull, os.O_RDWR)
os.unlink(name, dir_fd=directory)
os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory)
Path(f"/proc/{pid}/oom_score_adj").write_text("0")
sqlite3.connect(":memory:")
frame.rename({"a": "b"})
text.replace("a", "b")
path.mkdir(mode=0o700)
""".strip().splitlines()


@pytest.mark.parametrize("line", WRITING)
def test_writing_by_path_is_seen(line: str, tmp_path: Path) -> None:
    for place in ("host", "ground/files"):
        (tmp_path / "dballoc" / place).mkdir(parents=True)
        (tmp_path / "dballoc" / place / "a.py").write_text(f"{line}\n")
    result = check(tmp_path / "dballoc")
    assert result.returncode == 1
    [breach] = result.stderr.splitlines()
    assert breach.startswith("host/a.py:1: ")
    assert breach.endswith("[places that write by path]")


def test_writing_by_descriptor_is_let_be(tmp_path: Path) -> None:
    (tmp_path / "dballoc" / "host").mkdir(parents=True)
    (tmp_path / "dballoc" / "host" / "a.py").write_text("\n".join(NOT_WRITING))
    assert "places that write" not in check(tmp_path / "dballoc").stderr


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_seen(name: str, tmp_path: Path) -> None:
    files, place = BREACHES[name]
    root = tmp_path / "dballoc"
    for path, text in {"__init__.py": "", **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    result = check(root)
    assert result.returncode == 1
    assert place in result.stderr


@pytest.mark.parametrize(
    ("text", "breaches"),
    [
        ("`host/a.py`, `host/`, `docs/method.md`, `own/NAME/`", []),
        ("`host/b.py`\n`trials/`", ["docs/a.md:1: host/b.py", "docs/a.md:2: trials/"]),
    ],
)
def test_a_path_on_a_page_is_there_or_written(
    text: str, breaches: list[str], tmp_path: Path
) -> None:
    files = {"src/dballoc/host/a.py": "", "docs/a.md": text, "docs/method.md": ""}
    for name, content in {**files, "README.md": "", "CONTRIBUTING.md": ""}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    rule = runpy.run_path(str(TOOL))["check_pages"](tmp_path, {"own"})
    assert rule.breaches == breaches


def test_what_keeps_the_rules_is_let_be(tmp_path: Path) -> None:
    root = tmp_path / "dballoc"
    for room in ("host", "ground"):
        (root / room).mkdir(parents=True)
    (root / "ground/errors.py").write_text("")
    (root / "host" / "a.py").write_text(
        '"""See :mod:`dballoc.ground.errors`, :class:`C`, :func:`os.open`."""\n'
        "from dballoc.ground import errors\n[sys.executable, '-I', '-c', code]\n"
        + DATACLASS.replace("frozen", "kw_only")
        + FIELDS
    )
    result = check(root)
    assert (result.returncode, result.stderr) == (0, "")


WAITING = """
process.wait()
process.communicate()
os.waitpid(pid, 0)
subprocess.run(words)
with subprocess.Popen(words) as process: pass
"""
LIMITED = """
process.wait(5)
process.communicate(timeout=5)
os.waitpid(pid, os.WNOHANG)
subprocess.run(words, timeout=5)
process = subprocess.Popen(words)
", ".join(words)
"""


@pytest.mark.parametrize("line", WAITING.strip().split("\n"))
def test_waiting_without_a_limit_is_seen(tmp_path: Path, line: str) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host/a.py").write_text(f"def f():\n    {line}\n")
    assert "host/a.py:2: " in check(tmp_path).stderr
    (tmp_path / "host/a.py").write_text(LIMITED)
    assert "without a limit" not in check(tmp_path).stderr


def test_test_modules_of_one_name_are_seen(tmp_path: Path) -> None:
    for name in ("unit/a/test_one.py", "integration/test_one.py", "unit/a/test_two.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    rule = runpy.run_path(str(TOOL))["check_test_modules"](tmp_path)
    assert rule.breaches == ["integration/test_one.py - unit/a/test_one.py"]
