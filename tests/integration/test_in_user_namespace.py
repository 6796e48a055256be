"""dballoc as others get it, in a user namespace that an ordinary user made, beside a server of that
namespace (a rootless container): the installed wheel, and the portable file where it was built.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from harness import A_USER, give, run_as

from captured_run import run_captured

PORTABLE = Path(__file__).parents[2] / "dist/dballoc-portable"
NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")
# $1: a directory; the rest: how dballoc is called.
SCRIPT = """
place=$1
shift
mariadbd --no-defaults --user=root --datadir="$place/data" --socket="$place/s" \\
    --pid-file="$place/p" --skip-networking --innodb-buffer-pool-size=16M >"$place/log" 2>&1 &
server=$!
# A server that was killed says nothing in its log.
trap 'grep -s State /proc/$server/status >"$place/state" || :' EXIT
until [ -S "$place/s" ]; do kill -0 $server; sleep 0.1; done
date +%s.%N >"$place/began"
"$@" verify $server >"$place/verify"
"$@" explain --pid $server --json >"$place/explain"
date +%s.%N >"$place/ended"
"$@" profile contention --pid $server --seconds 1 >"$place/contention"
"$@" doctor >"$place/doctor" || [ $? = 1 ]
# With the namespace's first process all others end, and so does what removes the portable file's tree.
until [ -z "$(ls -A "$TMPDIR")" ]; do sleep 0.1; done
kill $server
wait
"""


@pytest.fixture(params=["wheel", "portable file"])
def command(request: pytest.FixtureRequest, place: Path) -> list[str]:
    """How it is called."""
    if request.param == "wheel":
        return [sys.executable, "-I", "-m", "dballoc"]
    if not PORTABLE.exists():
        pytest.skip("there is no portable file; run: make portable")
    return [shutil.copy(PORTABLE, place)]


@pytest.fixture
def place(home: Path, data_with_accounts: Path) -> Path:
    """A directory of the user's with the server's data."""
    if subprocess.run(["unshare", "--user", "true"], check=False, **run_as(A_USER)).returncode:
        pytest.skip("this kernel lets nobody make a user namespace")
    place = Path(tempfile.mkdtemp(prefix="ns-", dir=home))
    place.chmod(0o755)
    for name in ("tmp", "home"):
        (place / name).mkdir(mode=0o700)
    subprocess.run(["cp", "-a", data_with_accounts, place / "data"], check=True)
    give(A_USER, place, place / "tmp", place / "home")
    return place


def test_it_looks_at_a_server_of_its_own_namespace(place: Path, command: list[str]) -> None:
    is_portable = command[0] != sys.executable
    # The cache in /var belongs to another root.
    variables = {} if is_portable else {"DBALLOC_CACHE": str(place / "cache")}
    done = run_captured(
        [*NAMESPACES, "--kill-child", "sh", "-euc", SCRIPT, "sh", place, *command],
        env={
            "PATH": f"{os.environ['PATH']}:/usr/sbin",
            "TMPDIR": str(place / "tmp"),
            "HOME": str(place / "home"),
            **variables,
        },
        timeout=180,
        **run_as(A_USER),
    )
    assert (done.returncode, done.stderr) == (0, ""), [
        (place / name).read_text() for name in ("state", "log")
    ]
    began, ended = (float((place / name).read_text()) for name in ("began", "ended"))
    print(f"verify and the first ledger took {ended - began:.1f} s")
    assert "uses glibc malloc" in (place / "verify").read_text()
    explained = json.loads((place / "explain").read_text())
    assert explained["rss"] > 16 << 20
    assert (
        sum(line["resident"] for line in explained["lines"]) + explained["rest"]
        == (explained["rss"])
    )
    assert "no call stacks" in (place / "contention").read_text()
    assert "note: other processes: " in (place / "doctor").read_text()
    if is_portable:
        assert not list((place / "home").iterdir())
